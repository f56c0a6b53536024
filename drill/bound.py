"""How large a rate may be, given what was seen."""

from __future__ import annotations

from math import comb
from typing import Final

_STEPS: Final = 60


def upper_bound(seen: int, of: int, *, confidence: float = 0.95) -> float:
    """The exact (Clopper-Pearson) one-sided upper bound of a rate.

    Args:
        seen: How often it happened.
        of: In how many independent trials.
        confidence: Between 0 and 1.

    Returns:
        The largest rate under which so few would still be seen with a chance of ``1 - confidence``; 1
        without any trial.
    """
    if seen >= of:
        return 1.0
    low, high = seen / of, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(seen, of, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(seen: int, of: int, rate: float) -> float:
    return sum(comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(seen + 1))
