"""No position encoding: the causal mask alone tells order."""

from __future__ import annotations

from .base import Scheme


class NoPE(Scheme):
    """Tells attention nothing; a causal model can still count what it sees.

    Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466. An encoder has no
    causal mask, so its tokens are a bag to it: it cannot tell one order of them from another.

    Formula:
        logit = dot(q, k) / sqrt(d)
    """

    bidirectional = True
