"""How much hosts differ beyond their forks: ``python research/hosts.py --device cuda --hosts 200`` prints a table.

Starts the hosts of both sides anew, as `ratchet check` does for each of its sessions, and measures some pairs of forks of each,
all of the same code. One-way random effects: does the log ratio of a pair depend on the session that it comes from? And does the
time of a side depend on its host? On a machine with many cores several sessions import at the same time; nothing else runs while
one is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from common import row, table
from scipy.stats import f as f_distribution

from ratchet.core.bench.client import Hosts
from ratchet.core.bench.cores import HostCores
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.device.vendor import vendor_here
from ratchet.core.judge.comparison import medians_ms, pairs_of
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import plan_of
from ratchet.core.records.run import SIDES, CaseRun, Config, Side
from ratchet.core.report.progress import Progress
from ratchet.core.workload import Device

BENCH = """
import torch
from ratchet import benchmark

TABLE = {number: str(number) for number in range(200)}


@benchmark(devices=("cuda",))
def copy(device):  # bound by a kernel
    x = torch.randn(1 << 24, device=device)
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


@benchmark(devices=("cuda",))
def product(device):  # bound by a kernel
    a, b = (torch.randn(2048, 2048, device=device, dtype=torch.bfloat16) for _ in range(2))
    return lambda: a @ b


@benchmark(devices=("cuda",))
def launches(device):  # bound by the host, which waits for the result
    x = torch.randn(1000, device=device)

    def run():
        y = x
        for _ in range(30):
            y = y * 1.01 + 0.5
        return float(y.sum().item())

    return run


@benchmark(devices=("cpu",))
def matmul(device):  # bound by arithmetic
    a, b = torch.randn(384, 384), torch.randn(384, 384)
    return lambda: a @ b


@benchmark(devices=("cpu",))
def operators(device):  # bound by the calls of small operators
    x = torch.randn(64)

    def run():
        y = x
        for _ in range(60):
            y = torch.relu(y * 1.01 + 0.5)
        return y

    return run


@benchmark(devices=("cpu",))
def python(device):  # bound by the interpreter
    def run():
        found = 0
        for number in range(4000):
            found += len(TABLE[number % 200])
        return found

    return run
"""
CASES: dict[Device, tuple[str, ...]] = {
    "cuda": ("copy/default", "product/default", "launches/default"),
    "cpu": ("matmul/default", "operators/default", "python/default"),
}
CORES_PER_SESSION = 2


def measured(
    device: Device, cases: Sequence[str], hosts: int, forks: int, seconds: float, folder: Path
) -> list[dict[str, object]]:
    """Measure so many pairs of forks of each pair of hosts, as long as there is time. Return a row for each pair of each case."""
    settings = Settings(order_seed=0)
    trees: dict[Side, TreeSpec] = {}
    gpu = vendor_here().choose_gpu(0, os.environ) if device == "cuda" else None
    for side, name in zip(SIDES, ("base", "head"), strict=True):
        (folder / name / "bench").mkdir(parents=True)
        (folder / name / "bench" / "hosts.py").write_text(BENCH)
        trees[side] = TreeSpec.of(
            settings, folder / name, checkout=folder / name, device=device, gpu_uuid=gpu.address if gpu else None
        )
    at_once = max(1, len(os.sched_getaffinity(0)) // CORES_PER_SESSION // len(SIDES))
    rows: list[dict[str, object]] = []
    ends, session = time.monotonic() + seconds, 0
    while session < hosts // len(SIDES) and time.monotonic() < ends:
        with ExitStack() as stack:
            opened = [stack.enter_context(Hosts(trees, os.environ)) for _ in range(min(at_once, hosts // len(SIDES) - session))]
            for one in opened:
                for host in one.sides.values():
                    host.listing()
            for one in opened:
                plan = plan_of(settings.model_copy(update={"order_seed": session}), device)
                duet = Duet(one.sides, plan, Progress(), None, host_cores=HostCores(os.sched_getaffinity(0)))
                duet.on_two_cores = {"launches/default"}
                duet.workers.one_queue = device == "cuda"
                duet.ready.together = forks if device == "cuda" else 1
                timed = [CaseRun(name=name, benchmark=name.partition("/")[0], config=Config(name="default")) for name in cases]
                for case in duet.measure(timed, dict.fromkeys(cases, SIDES), Rule((forks,))):
                    sides = {"head": case.head, "reference": case.reference}
                    medians = {
                        side: dict(zip([w.pair for w in sides[side]], medians_ms(sides[side]), strict=True)) for side in SIDES
                    }
                    for number, pair in enumerate(pairs_of(sides["head"], sides["reference"])):
                        rows.append(
                            {
                                "case": case.name,
                                "session": session,
                                "fork": number,
                                "log_ratio": pair.log_ratio,
                                **{f"{side}_ms": medians[side].get(number) for side in SIDES},
                            }
                        )
                session += 1
    return rows


def components(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the standard deviations within groups and between them, and the p-value of no difference between groups.

    One-way random effects: S. R. Searle, G. Casella, C. E. McCulloch, Variance Components (1992), section 3.6.
    """
    groups = [group for group in groups if len(group) > 1]
    count, total = len(groups), sum(map(len, groups))
    means = [statistics.fmean(group) for group in groups]
    grand = sum(map(math.fsum, groups)) / total
    within = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group) / (total - count)
    between = sum(len(group) * (mean - grand) ** 2 for group, mean in zip(groups, means, strict=True)) / (count - 1)
    size = (total - sum(len(group) ** 2 for group in groups) / total) / (count - 1)
    p_value = float(f_distribution.sf(between / within, count - 1, total - count))
    return math.sqrt(within), math.sqrt(max(0.0, (between - within) / size)), p_value


def without_drift(rows: Sequence[dict[str, object]], side: Side) -> list[list[float]]:
    """Return the log times of a side by host, less the running median of nine sessions: the machine's own drift."""
    by_session: dict[int, list[float]] = defaultdict(list)
    for one in rows:
        if isinstance(value := one[f"{side}_ms"], float):
            by_session[int(str(one["session"]))].append(math.log(value))
    order = sorted(by_session)
    centres = np.array([statistics.median(by_session[session]) for session in order])
    drift = [float(np.median(centres[max(0, at - 4) : at + 5])) for at in range(len(order))]
    return [[value - base for value in by_session[session]] for session, base in zip(order, drift, strict=True)]


def show(rows: Sequence[dict[str, object]], cases: Sequence[str]) -> None:
    """Print the table of a device."""
    sessions = len({str(one["session"]) for one in rows})
    print(f"{2 * sessions} hosts of the same code, both sides forked from one process each time; standard deviations in %.\n")
    table("case", "ratio: forks", "ratio: sessions", "p", "a side: forks", "a side: hosts", "p", "sessions past ±1 %")
    for name in cases:
        own = [one for one in rows if one["case"] == name]
        by_session: dict[object, list[float]] = defaultdict(list)
        for one in own:
            by_session[one["session"]].append(float(str(one["log_ratio"])))
        within, between, p_value = components(list(by_session.values()))
        inside, apart, p_host = components(without_drift(own, "reference"))
        far = sum(abs(statistics.fmean(values)) > 0.01 for values in by_session.values()) / len(by_session)
        row(
            name.partition("/")[0],
            *(f"{100 * value:.2f}" for value in (within, between)),
            f"{p_value:.2g}",
            *(f"{100 * value:.2f}" for value in (inside, apart)),
            f"{p_host:.2g}",
            f"{100 * far:.0f} %",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--case", action="append", help="one of the cases; repeatable (default: all)")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--forks", type=int, default=3, help="pairs of forks of each pair of hosts")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further hosts after so many seconds")
    parser.add_argument("--out", type=Path, help="write all pairs to this JSON file")
    options = parser.parse_args()
    cases = [name for name in CASES[options.device] if not options.case or name.partition("/")[0] in options.case]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(options.device, cases, options.hosts, options.forks, options.seconds, Path(folder))
    if options.out:
        options.out.write_text(json.dumps(rows))
    show(rows, cases)
    print(f"\n{time.monotonic() - started:.0f} s, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
