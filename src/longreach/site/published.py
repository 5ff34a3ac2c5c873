"""What others have published and we set ours beside: their numbers, as they give them."""

from __future__ import annotations

PUBLISHED_LOSS = {
    "learned": {64: 4.431},
    "rope": {64: 4.363, 256: 4.702, 512: 5.141},
    "alibi": {64: 4.473, 256: 4.155, 512: 4.174},
    "nope": {64: 4.510, 512: 4.864},
}
"""Mean loss over positions as "Beyond the Training Length" gives it: nats per token, other text."""
