"""Time a check with all tricks of ratchet/core/bench/ready, then one without each of them; on a GPU.

    python research/tricks.py --repo ~/Liger-Kernel --base v0.6.3 'cross_entropy/*'

All words are those of `ratchet check`; the first check fills the caches and does not count.
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields, replace
from functools import partial

from common import row, table

from ratchet.core import trees
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.suite import measure_suite
from ratchet.core.cli import main


def seconds_of(tricks: Tricks, words: list[str]) -> float:
    """Return how long a check takes with these tricks."""
    vars(trees)["measure_suite"] = partial(measure_suite, tricks=tricks)
    started = time.monotonic()
    main(["check", "--quiet", *words])
    return time.monotonic() - started


if __name__ == "__main__":
    words = sys.argv[1:]
    seconds_of(ALL, words)
    table("trick", "without")
    for name in ("none left out", *(trick.name for trick in fields(Tricks)), "none left out"):
        tricks = replace(ALL, **{name: False}) if name in vars(ALL) else ALL
        row(name, f"{seconds_of(tricks, words):.1f} s")
