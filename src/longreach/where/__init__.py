"""Where the cells of a study are fulfilled: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InputError
from .base import Outcome, Where

__all__ = ["Outcome", "Where", "chosen"]


def chosen(asked: str, workers: int | None, say: Callable[[str], None]) -> Where:
    """What `local`, `ray` or `ray:ADDRESS` stands for.

    workers: how many cells at a time; None leaves it to the place. say: is told what a person may
    want to know of the place. Raises InputError for anything else, and where Ray is not installed.
    """
    name, _, address = asked.partition(":")
    if asked == "local":
        from .local import Local

        return Local(workers)
    if name == "ray":
        from .cluster import Cluster

        return Cluster(address, workers, say)
    raise InputError(f"--where takes local, ray or ray:ADDRESS, got '{asked}'")
