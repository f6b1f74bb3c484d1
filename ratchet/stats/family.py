"""Many cases judged at once: what each one's p-value must stay under, so that the whole family is rarely wrong."""

from __future__ import annotations

from collections.abc import Sequence


def holm_levels(chances: Sequence[float], level: float) -> list[float]:
    """The level for each p-value such that together they are falsely rejected with probability ≤ ``level``.

    The smallest of n must be ≤ level / n, the next ≤ level / (n − 1), and so on until one is not; from there on the level
    stays. Holds for dependent cases too. Source: S. Holm, Scandinavian Journal of Statistics 6 (1979), 65.
    """
    levels = [0.0] * len(chances)
    left = len(chances)
    for index in sorted(range(len(chances)), key=chances.__getitem__):
        levels[index] = level / left
        left -= chances[index] <= levels[index]  # after one that is not, none is: they only grow
    return levels
