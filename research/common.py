"""Helpers of the other scripts: recorded pairs of unchanged code (see tests/data/README.md), Markdown tables, and processes."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ratchet.core.judge.comparison import Pair
from ratchet.core.records.run import Policy
from ratchet.trust.archive import run_of_archive
from ratchet.trust.replay_rule import pool_of

DATA = Path(__file__).parents[1] / "tests" / "data"
QUIET = ("attn_1k", "attn_2k", "attn_4k", "attn_512", "copy", "gemm_2k", "gemm_4k", "warm:attn_2k")
LAUNCH_BOUND = "warm:attn_512"
"""Its pairs differ by tens of percent now and then, because the host stalls."""
SLOWED = ("copy+0.5", "copy+1.0", "copy+2.0", "attn_2k_slow")
"""Their heads do more work."""
MOVED = "normalize/rows_8k"
"""Timed between two events until 2026-11-21, replayed in a graph since."""

Pools = dict[str, list[Pair]]
"""Case → its recorded pairs."""


def paired(*names: str) -> Pools:
    """Six pairs of each case, taken by a prototype."""
    recorded = {case.name: case for case in run_of_archive(DATA / "h200_paired.npz", Policy()).cases}
    return {name: pool_of(recorded[name]) for name in names}


def checks() -> Pools:
    """All pairs of unchanged code in 18 checks of 8 pairs: 144 of each case. rows_8k was still timed between events."""
    return _joined("h200_checks.json.gz")


def graph() -> Pools:
    """All pairs of unchanged code of one session, in which rows_8k was replayed in a graph: 64 of it, 31 or 32 of the others."""
    return _joined("h200_graph.json.gz")


def today() -> Pools:
    """`checks`, with the pairs of `graph` for the case whose clock is another one today."""
    return {**checks(), MOVED: graph()[MOVED]}


def mirrored(pools: Pools) -> Pools:
    """Each pair and its mirror image: either side of unchanged code can be the head, since the order of sides is drawn."""
    return {name: [*pairs, *map(_swapped, pairs)] for name, pairs in pools.items()}


def _swapped(pair: Pair) -> Pair:
    return Pair(-pair.log_ratio, pair.reference_ms, pair.head_ms)


def _joined(name: str) -> Pools:
    pools: Pools = {}
    for check in json.loads(gzip.decompress(DATA.joinpath(name).read_bytes())):
        for case, recorded in check["cases"].items():
            pools.setdefault(case, []).extend(pairs_in(recorded))
    return pools


def pairs_in(recorded: dict[str, Any]) -> list[Pair]:
    """The pairs of one case of a recorded check."""
    return [Pair(pair["log_ratio"], pair["head_ms"], pair["reference_ms"]) for pair in recorded["pairs"]]


SOURCES: dict[str, Callable[[], Pools]] = {
    "h200_paired, 8 quiet cases": lambda: mirrored(paired(*QUIET)),
    f"h200_paired, {LAUNCH_BOUND} for {QUIET[0]}": lambda: mirrored(paired(LAUNCH_BOUND, *QUIET[1:])),
    "h200_checks, 11 cases": lambda: mirrored(checks()),
    "h200_checks, rows_8k of h200_graph": lambda: mirrored(today()),
    "h200_graph, 11 cases": lambda: mirrored(graph()),
}
"""Cases of unchanged code to draw from."""


def workers() -> ProcessPoolExecutor:
    """A process for each core, which computes in one thread: small matrices are slower in several."""
    return ProcessPoolExecutor(os.cpu_count(), initializer=threadpool_limits, initargs=(1,))


def table(*heads: str) -> None:
    """Print the head of a Markdown table."""
    print(f"| {' | '.join(heads)} |\n|:--|{'--:|' * (len(heads) - 1)}", flush=True)


def row(*cells: object) -> None:
    """Print a row of it, as soon as it is known."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
