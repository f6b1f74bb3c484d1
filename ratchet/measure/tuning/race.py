"""When a configuration is timed no further. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

FEWEST = 2
"""Turns before anybody is dropped."""
SLACK = 0.05
"""How far behind the best even the fastest turn has to be: processes that run the same code differ by a percent or two."""


def behind(ratios: Sequence[float], best: float | None) -> bool:
    """Whether turns, as ratios to the default's neighbouring ones, are clearly slower than the best configuration's time.

    The fastest of them is held to it, so that one slow turn drops nobody.
    """
    return best is not None and len(ratios) >= FEWEST and min(ratios) > best * (1 + SLACK)


def normalised(times_ms: Sequence[float], default_ms: Sequence[float]) -> float:
    """The time over the default's: the median over neighbouring turns, whose clocks and temperature are alike."""
    return math.exp(statistics.median(math.log(a / b) for a, b in zip(times_ms, default_ms, strict=True)))
