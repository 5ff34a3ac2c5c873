"""What the tasks of a cluster tell of their progress. Imports nothing: it is there at once."""

from __future__ import annotations


class Told:
    """Becomes an actor beside the driver: every task tells it, the driver asks it."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}

    def tell(self, digest: str, step: int) -> None:
        """The training of that digest has done so many steps."""
        self.steps[digest] = step

    def read(self) -> dict[str, int]:
        """The steps of every training that has told."""
        return self.steps
