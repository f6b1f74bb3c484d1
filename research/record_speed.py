"""Seconds and memory that large records take: ``python research/record_speed.py`` times processes of ratchet on synthetic ones.

They are `ratchet compare` of one run of 2,000 cases, and `ratchet compare` of two runs of 1,000: each case has 20 pairs, both
sides, 10 blocks and 12 samples. Prints seconds from the start of a process to its end, those that it computed, and its peak
memory. ``--folder`` keeps the records, so that two versions of ratchet can be timed on the same files; ``--profile`` shows
where the time goes, by cProfile.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ratchet.core.judge.comparison import performance
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.records.files import save
from ratchet.core.records.run import (
    Block,
    CaseRun,
    Config,
    Performance,
    Plan,
    Policy,
    RunRecord,
    Tree,
    WorkerSamples,
    WorkloadIdentity,
)

NOISE, DRIFT = 0.003, 0.01
"""Relative standard deviation of a sample within its process, and of a process."""
PROFILED_CALLS = 25


@dataclass(frozen=True)
class Size:
    """The size of a record: a number of samples in each block of each pair of each case."""

    cases: int
    pairs: int
    blocks: int
    samples: int

    def __str__(self) -> str:
        return f"{self.cases} cases × {self.pairs} pairs × 2 sides × {self.blocks} blocks × {self.samples} samples"


@dataclass(frozen=True)
class Spent:
    """Time and memory of one process."""

    seconds: float
    computing_s: float
    """Seconds of all its threads; less than ``seconds`` where other programs keep the machine busy."""
    peak_mb: float
    status: int


def main() -> None:
    """Make the records that are missing, then time one process after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000, help="of the reported record; the compared ones have half as many")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3, help="processes of each kind; the fastest is the least disturbed")
    parser.add_argument("--folder", type=Path, help="keep the records here, and take those that are here already")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-speed-")))
        whole = Size(given.cases, given.pairs, given.blocks, given.samples)
        half = Size(max(1, given.cases // 2), given.pairs, given.blocks, given.samples)
        large = recorded(folder, "large", whole, seed=1)
        two = [recorded(folder, name, half, seed) for name, seed in (("first", 2), ("second", 3))]
        for what, words, size in (
            ("compare", ["compare", str(large), "--results", str(folder / "results")], whole),
            ("compare", ["compare", *map(str, two), "--on-inconclusive", "pass"], half),
        ):
            if given.profile:
                print_profile(words, folder)
            else:
                print(f"ratchet {what}, {size}", flush=True)
                print_times([spent(words, folder) for _ in range(given.repeat)])


def recorded(folder: Path, name: str, size: Size, seed: int) -> Path:
    """The path of a record of this size, which is made where it is missing.

    In a process of its own: on Linux the memory of the process that starts another counts into the peak of that one.
    """
    path = folder / f"{name}-{size.cases}x{size.pairs}x{size.blocks}x{size.samples}.json"
    if not path.exists():
        started = time.perf_counter()
        maker = multiprocessing.get_context("spawn").Process(target=save_made, args=(path, size, seed))
        maker.start()
        maker.join()
        print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, made in {time.perf_counter() - started:.1f} s", flush=True)
    return path


def save_made(path: Path, size: Size, seed: int) -> None:
    """Save a record."""
    save(path, made(size, seed))


def spent(words: Sequence[str], folder: Path) -> Spent:
    """Run ratchet with these words, without its output. Raises RuntimeError where it ends with neither a pass nor a verdict."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "ratchet", *words], cwd=folder, stdout=subprocess.DEVNULL)
    _, wait_status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(wait_status)
    if child.returncode not in (0, 1, 3):
        raise RuntimeError(f"ratchet {words[0]} ended with status {child.returncode}")
    return Spent(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode)


def print_profile(words: Sequence[str], folder: Path) -> None:
    """The functions of one process of ratchet in which the most time went by; each call seems longer than it is."""
    profile = folder / f"{words[0]}.profile"
    command = [sys.executable, "-m", "cProfile", "-o", str(profile), "-m", "ratchet", *words]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    pstats.Stats(str(profile)).sort_stats("tottime").print_stats(PROFILED_CALLS)


def print_times(processes: Sequence[Spent]) -> None:
    """A line for each process."""
    for process in processes:
        times = f"{process.seconds:.2f} s, {process.computing_s:.2f} s computing"
        print(f"  {times}, peak {process.peak_mb:.0f} MB, exit {process.status}")


def made(size: Size, seed: int) -> RunRecord:
    """A check of unchanged code."""
    random = np.random.default_rng(seed)
    return RunRecord(
        kind="check",
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        wall_s=600.0,
        command=("ratchet", "check"),
        environment=Environment(
            fingerprint=Fingerprint(device="cpu", torch="2.9.1", cpu="none"), python="3.11", platform="Linux", ratchet="0"
        ),
        plan=Plan(pairs=size.pairs, blocks=size.blocks, block_ms=12.0, seed=seed, clock="event", cache="cold"),
        policy=Policy(),
        head=Tree(commit="a" * 40),
        reference=Tree(commit="b" * 40),
        cases=tuple(_case(number, size, random) for number in range(size.cases)),
    )


def _case(number: int, size: Size, random: np.random.Generator) -> CaseRun:
    workload = WorkloadIdentity(
        parameters={"n": number}, device="cuda", dtype="float32", flops=1e9, bytes=1e9, clock="event", cache="cold"
    )
    time_ms = 0.02 + 0.001 * number
    head, reference = (_workers(time_ms, size, random) for _ in range(2))
    return CaseRun(
        name=f"kernel_{number}/usual",
        benchmark=f"kernel_{number}",
        config=Config(name="usual", parameters={"n": number}),
        workload=workload,
        reference_workload=workload,
        performance=_performance(head, workload),
        reference_performance=_performance(reference, workload),
        head=head,
        reference=reference,
    )


def _workers(time_ms: float, size: Size, random: np.random.Generator) -> tuple[WorkerSamples, ...]:
    own = time_ms * (1 + DRIFT * random.standard_normal((size.pairs, 1, 1)))
    samples = np.round(own * (1 + NOISE * random.standard_normal((size.pairs, size.blocks, size.samples))), 6).tolist()
    return tuple(
        WorkerSamples(
            pair=pair,
            started_first=pair % 2 == 0,
            blocks=tuple(Block(index, 2 * index, tuple(block)) for index, block in enumerate(blocks)),
            ready_s=0.4,
            peak_memory_bytes=1 << 28,
            error=0.0,
        )
        for pair, blocks in enumerate(samples)
    )


def _performance(workers: tuple[WorkerSamples, ...], workload: WorkloadIdentity) -> Performance:
    done = performance(workers, workload, 0.95)
    assert done is not None
    return done


if __name__ == "__main__":
    main()
