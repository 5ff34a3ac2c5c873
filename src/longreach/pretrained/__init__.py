"""Real models: loaded, measured past their window, and repaired while they are measured.

Needs the extra `pretrained`. Weights are safetensors or GGUF, no code of a model's own is run, and
a model's folder is never written to.
"""

from __future__ import annotations

from .base import LanguageModel as LanguageModel
from .loading import load as load
from .wear import Proof as Proof
