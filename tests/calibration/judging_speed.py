"""How long does judging take? ``python tests/calibration/judging_speed.py`` times it on a run of 1,000 cases.

Each case has 20 pairs, both sides, 10 blocks and 8 samples: 3.2 million samples. Every phase runs in a process of its own: making
the record and judging it, reading it from its file, and both as `ratchet report` does. Peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ratchet.judge.verdict import judge_run
from ratchet.records.baseline import Baseline
from ratchet.records.environment import Environment, Fingerprint
from ratchet.records.files import load, save
from ratchet.records.policy import Policy
from ratchet.records.run import (
    Block,
    CaseRun,
    Config,
    Performance,
    Plan,
    RunRecord,
    Tree,
    WorkerSamples,
    WorkloadIdentity,
)
from ratchet.stats.comparison import performance

PAIRS, BLOCKS, SAMPLES = 20, 10, 8
SEED = 4
NOISE, DRIFT = 0.003, 0.01
"""Of a sample, and of a process."""


def made(cases: int) -> RunRecord:
    """A check of unchanged code."""
    rng = random.Random(SEED)
    return RunRecord(
        kind="check",
        started_at=datetime(2026, 11, 20, tzinfo=UTC),
        wall_s=600.0,
        command=("ratchet", "check"),
        environment=Environment(
            fingerprint=Fingerprint(device="cpu", torch="2.9.1", cpu="none"), python="3.11", platform="Linux", ratchet="0"
        ),
        plan=Plan(pairs=PAIRS, blocks=BLOCKS, block_ms=12.0, seed=SEED, clock="event", cache="cold"),
        policy=Policy(),
        head=Tree(commit="a" * 40),
        reference=Tree(commit="b" * 40),
        cases=tuple(_case(number, rng) for number in range(cases)),
    )


def _case(number: int, rng: random.Random) -> CaseRun:
    workload = WorkloadIdentity(
        parameters={"n": number}, device="cuda", dtype="float32", flops=1e9, bytes=1e9, clock="event", cache="cold"
    )
    time_ms = rng.uniform(0.02, 2)
    head, reference = (tuple(_worker(pair, time_ms, rng) for pair in range(PAIRS)) for _ in range(2))
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


def _worker(pair: int, time_ms: float, rng: random.Random) -> WorkerSamples:
    own = time_ms * (1 + DRIFT * rng.gauss(0, 1))
    blocks = tuple(
        Block(
            index=index,
            position=2 * index,
            samples_ms=tuple(round(own * (1 + NOISE * rng.gauss(0, 1)), 6) for _ in range(SAMPLES)),
        )
        for index in range(BLOCKS)
    )
    return WorkerSamples(pair=pair, started_first=pair % 2 == 0, blocks=blocks, ready_s=0.4, peak_memory_bytes=1 << 28, error=0.0)


def _performance(workers: tuple[WorkerSamples, ...], workload: WorkloadIdentity) -> Performance:
    done = performance(workers, workload, 0.95)
    assert done is not None
    return done


def judge(cases: int, _: Path) -> None:
    record, before = made(cases), _peak_mb()
    _timed("judging", lambda: judge_run(record, Baseline()))
    print(f"  {before:.0f} MB of it before judging: the record, as it was made")


def read(_: int, path: Path) -> None:
    _timed(f"reading {path.stat().st_size / 1e6:.0f} MB", lambda: load(path, RunRecord))


def read_and_judge(_: int, path: Path) -> None:
    _timed("reading and judging", lambda: judge_run(load(path, RunRecord), Baseline()))


def write(cases: int, path: Path) -> None:
    record = made(cases)
    _timed("writing", lambda: save(path, record))


def nothing(_: int, __: Path) -> None:
    _timed("nothing but the imports", lambda: None)


PHASES = (nothing, judge, write, read, read_and_judge)


def _timed(what: str, phase: Callable[[], object]) -> None:
    started = time.perf_counter()
    phase()
    print(f"{what}: {time.perf_counter() - started:.2f} s, peak {_peak_mb():.0f} MB")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--phase", choices=[phase.__name__ for phase in PHASES], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.phase:
        return next(phase for phase in PHASES if phase.__name__ == given.phase)(given.cases, given.file)
    with tempfile.TemporaryDirectory() as folder:
        for phase in PHASES:
            words = ["--cases", str(given.cases), "--phase", phase.__name__, "--file", str(Path(folder, "run.json"))]
            subprocess.run([sys.executable, __file__, *words], check=True)
    return None


if __name__ == "__main__":
    main()
