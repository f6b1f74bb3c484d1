"""Where the objects of a workload lie in the memory of a process on the CPU."""

from __future__ import annotations

import random

MOST = 3000
"""Objects of each kind; all of them take some milliseconds and at most 16 MiB."""


def scattered(seed: int) -> list[object]:
    """Objects in the way of what is built next, which so lies elsewhere than for another seed. Keep them as long as that.

    A change of code moves what lies beside it in memory, which alone changes times by some per cent. The two workers of a pair
    use one seed and other pairs use others: so unchanged code has the same layout on both sides, and a changed one has many.
    C. Curtsinger and E. Berger, STABILIZER: Statistically Sound Performance Evaluation, ASPLOS 2013.
    """
    drawn = random.Random(seed)  # noqa: S311  a layout, not a secret
    large = [bytes(drawn.randrange(1, 5000)) for _ in range(drawn.randrange(MOST))]
    small = [[number] * drawn.randrange(1, 40) for number in range(drawn.randrange(MOST))]
    return [*large, *small]
