"""The effect of a process's memory layout on code bound by the CPU: ``python research/layout.py`` prints the table of
docs/decisions/0007-biases.md.

The hosts of both sides are processes that imported torch each, or are forked from one that had, as in a check: in turns, so
that one run compares the two. Six pairs of workers each, of unchanged code, and of code with other things beside the case.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from common import row, table

from ratchet.core.bench.client import HostClient, Hosts
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import load_settings
from ratchet.core.judge.comparison import compare_workers
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import plan_of
from ratchet.core.records.run import CaseRun, Config, Side
from ratchet.core.records.verdict import Comparison
from ratchet.core.report.progress import Progress

CASE = """
import torch
from ratchet import Workload, benchmark


@benchmark(configs={"small": {"size": 2048}}, devices=("cpu",))
def adds(*, device, size):
    x = torch.randn(size, device=device)

    def run():
        out = x
        for _ in range(41):
            out = out + 1
        return out

    return Workload(run=run, reference=lambda: x.double() + 41, dtype="float32", flops=41 * size, bytes=8 * size)
"""
IMPORTS = ("asyncio", "csv", "decimal", "difflib", "email", "http.client", "json", "sqlite3", "unittest", "xml.dom.minidom")
SIDES: tuple[Side, Side] = ("reference", "head")
PAIRS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=24, help="comparisons of each kind (default: 24, which take 8 minutes)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.repeats < 2:
        parser.error("a standard deviation takes two comparisons or more")
    drawn = random.Random(options.seed)
    comparisons: dict[tuple[str, str], list[Comparison]] = {}
    for number in range(options.repeats):
        for code, beside in (("unchanged", ""), ("other things beside it", filler(drawn))):
            for hosts, forked in (("apart", False), ("forked from one", True)):
                comparison = compared(beside, options.seed + 100 * number, forked=forked)
                comparisons.setdefault((hosts, code), []).append(comparison)
    table(
        "hosts",
        "code",
        "comparisons",
        "ratios, standard deviation",
        "farthest",
        f"all {PAIRS} pairs agree",
        "spread of one pair, median",
    )
    for (hosts, code), of_kind in comparisons.items():
        logs = [math.log(comparison.ratio) for comparison in of_kind]
        farthest = max(logs, key=abs)
        rare = sum(comparison.p_value <= 0.5**PAIRS for comparison in of_kind)
        spread = statistics.median(comparison.spread for comparison in of_kind)
        row(hosts, code, len(logs), f"{statistics.stdev(logs):.2%}", f"{math.expm1(farthest):+.1%}", rare, f"{spread:.2%}")


def compared(beside: str, seed: int, *, forked: bool) -> Comparison:
    """Six pairs of the case, whose head has ``beside`` beside it."""
    with tempfile.TemporaryDirectory() as folder, hosts_of(Path(folder), beside, forked=forked) as hosts:
        settings = load_settings(Path(folder), os.environ, {"device": "cpu", "seed": seed})
        duet = Duet(hosts, plan_of(settings, "cpu"), Progress(), None)
        case = CaseRun(name="adds/small", benchmark="adds", config=Config(name="small"))
        (measured,) = duet.measure([case], {case.name: SIDES}, Rule((PAIRS,)))
        comparison = compare_workers(measured.head, measured.reference, 0.95)
        assert comparison is not None
        return comparison


@contextlib.contextmanager
def hosts_of(folder: Path, beside: str, *, forked: bool) -> Iterator[Mapping[Side, HostClient]]:
    trees: dict[Side, Path] = {side: folder / f"tree-of-{side[:4]}" for side in SIDES}
    for side, tree in trees.items():
        (tree / "bench").mkdir(parents=True)
        (tree / "bench" / "adds.py").write_text(beside + CASE if side == "head" else CASE)
    settings = load_settings(folder, os.environ, {"device": "cpu"})
    specs = {side: TreeSpec.of(settings, tree, checkout=folder, device="cpu", gpu_uuid=None) for side, tree in trees.items()}
    groups: list[dict[Side, TreeSpec]] = [specs] if forked else [{side: spec} for side, spec in specs.items()]
    with contextlib.ExitStack() as stack:
        hosts: dict[Side, HostClient] = {}
        for group in groups:
            hosts |= stack.enter_context(Hosts(group, os.environ)).sides
        for host in hosts.values():
            host.listing()
        yield hosts


def filler(drawn: random.Random) -> str:
    """Imports, functions and constants that the case does not use."""
    lines = [f"import {name}" for name in drawn.sample(IMPORTS, drawn.randrange(5))]
    for number in range(drawn.randrange(150)):
        name = f"{'f' * drawn.randrange(1, 20)}{number}"
        lines += [f"def {name}(a, b={drawn.random()}):", f"    {'x' * drawn.randrange(300)!r}", f"    return [a, b, {number}]"]
        lines += [f"C{number} = {name}({number})"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
