"""longreach: how far past its training length a transformer reaches, and why it stops there."""

from .corpora import CORPORA as CORPORA
from .errors import InputError as InputError, RunError as RunError
from .results import Results as Results, Row as Row, reach as reach
from .schemes import SCHEMES as SCHEMES
from .spectrum import Spectrum as Spectrum
from .study import Study as Study
from .tasks import TASKS as TASKS
