"""Time a check with all tricks of ratchet/core/bench/ready, then one without each of them; on a GPU.

    python research/tricks.py --repo ~/Liger-Kernel --base v0.6.3 'cross_entropy/*'

All words are those of `ratchet check`; the first check fills the caches and does not count. Light pairs take a fixed time, so a
trick that gets more of them ready shows in the processes of the head, not in the seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

from common import row, table

from ratchet.core import trees
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.suite import Suite, measure_suite
from ratchet.core.cli import main


def measured(tricks: Tricks, words: list[str]) -> tuple[str, str]:
    """Return how long a check takes with these tricks, and how many processes of the head it measures."""
    counts: list[int] = []
    measure: Callable[..., Suite] = partial(measure_suite, tricks=tricks)

    def counting(*arguments: Any, **named: Any) -> Suite:
        suite = measure(*arguments, **named)
        counts.extend(len(case.head) for case in suite.cases)
        return suite

    vars(trees)["measure_suite"] = counting
    started = time.monotonic()
    main(["check", "--quiet", *words])
    return f"{time.monotonic() - started:.1f} s", str(sum(counts))


if __name__ == "__main__":
    words = sys.argv[1:]
    measured(ALL, words)
    table("trick", "without", "processes")
    for name in ("none left out", *(trick.name for trick in fields(Tricks)), "none left out"):
        tricks = replace(ALL, **{name: False}) if name in vars(ALL) else ALL
        row(name, *measured(tricks, words))
