"""longreach: how far past its training length a transformer reaches, and why it stops there.

Names are imported when asked for: the clinic's verbs answer in a fraction of the time that study
files (pydantic) take to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .corpora import CORPORA as CORPORA
    from .engines import ENGINES as ENGINES
    from .errors import InputError as InputError, RunError as RunError
    from .repairs import REPAIRS as REPAIRS, Repair as Repair
    from .results import Results as Results, Row as Row, reach as reach
    from .schemes import SCHEMES as SCHEMES
    from .spectrum import Extension as Extension, Spectrum as Spectrum
    from .study import Study as Study
    from .tasks import TASKS as TASKS

# The same names again: what stands above is for type checkers alone.
_HOMES = {
    "CORPORA": ".corpora",
    "ENGINES": ".engines",
    "InputError": ".errors",
    "RunError": ".errors",
    "REPAIRS": ".repairs",
    "Repair": ".repairs",
    "Results": ".results",
    "Row": ".results",
    "reach": ".results",
    "SCHEMES": ".schemes",
    "Extension": ".spectrum",
    "Spectrum": ".spectrum",
    "Study": ".study",
    "TASKS": ".tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
