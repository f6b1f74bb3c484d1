"""Configurations a minute on one GPU and on several: tunes a matrix product of some thousand configurations.

    python research/scaling.py [--gpus 0 0,1 0,1,2,3] [--ray] [--budget 90s] [--evaluations N]
                                        [--case products/square_2048] [--keep FOLDER]

Every run begins with an empty cache of compiled kernels and tries the same configurations in the same random order. It
prints how many it tried, how long starting took, the rate within the time for searching and that over the first run's, and both
from the moment when every GPU had given its first result. ``--keep`` leaves the records in a folder. `tune_scaling.sh` calls it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from ratchet.core.records.files import load
from ratchet.tune.records import TuningRecord

PRODUCTS = Path(__file__).with_name("products.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", nargs="*", default=["0", "0,1"], help="one run for each list")
    parser.add_argument("--ray", action="store_true", help="one more run, on a Ray cluster of all GPUs of this host")
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--case", default="products/square_2048")
    parser.add_argument("--evaluations", help="end each search after so many")
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    ways = [("--gpus", gpus) for gpus in given.gpus] + ([("--executor", "ray")] if given.ray else [])
    first: Pace | None = None
    heads = ("tried", "start-up", "a minute", "of the first", "once all are up", "of the first", "longest pause", "whole command")
    print(f"| GPUs | {' | '.join(heads)} |\n|:--|{'--:|' * len(heads)}")
    with tempfile.TemporaryDirectory() as folder:
        repository(Path(folder))
        for number, way in enumerate(ways):
            words = [given.case, *way, "--strategy", given.strategy, "--time-budget", given.budget]
            words += ["--max-evaluations", given.evaluations] if given.evaluations else []
            record, seconds = tuned(Path(folder), number, words)
            if given.keep:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / f"{number}.json").write_text(record.model_dump_json())
            pace = pace_of(record)
            first = first or pace
            figures = [f"{len(record.evaluations)}", f"{record.startup_s:.0f} s"]
            figures += [f"{pace.overall:.0f}", f"{pace.overall / first.overall:.2f}", f"{pace.all_up:.0f}"]
            figures += [f"{pace.all_up / first.all_up:.2f}", f"{pace.longest_pause_s:.1f} s", f"{seconds:.0f} s"]
            print(f"| {' '.join(way)} | {' | '.join(figures)} |", flush=True)
    return 0


def repository(folder: Path) -> None:
    """A repository with that benchmark alone."""
    (folder / "bench").mkdir()
    shutil.copy(PRODUCTS, folder / "bench")
    (folder / "pyproject.toml").write_text("[tool.ratchet]\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-qm", "products"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def tuned(folder: Path, number: int, words: Sequence[str]) -> tuple[TuningRecord, float]:
    """Run the command; its record, and the seconds that it took."""
    out = folder / f"tuning-{number}"
    environ = os.environ | {"TRITON_CACHE_DIR": str(folder / f"cache-{number}")}
    began = time.monotonic()
    command = [sys.executable, "-m", "ratchet", "tune", *words, "--tuning", str(out), "--quiet"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    print(done.stderr, end="", file=sys.stderr)
    return load(next(out.glob("*.json")), TuningRecord), seconds


@dataclass(frozen=True)
class Pace:
    """Evaluations a minute."""

    overall: float
    """From when the first could be tried."""
    all_up: float
    """From when every GPU had given its first."""
    longest_pause_s: float
    """Between two of them, from then on."""


def pace_of(record: TuningRecord) -> Pace:
    session = record.sessions[-1]
    began = session.started_at + timedelta(seconds=session.startup_s)
    firsts = {evaluation.gpu: evaluation.at for evaluation in reversed(record.evaluations)}
    start, end = max(firsts.values()), max(evaluation.at for evaluation in record.evaluations)
    ends = sorted(evaluation.at for evaluation in record.evaluations if evaluation.at >= start)
    gap = max(((later - sooner).total_seconds() for sooner, later in pairwise(ends)), default=0.0)
    return Pace(
        overall=60 * len(record.evaluations) / (end - began).total_seconds(),
        all_up=60 * (len(ends) - 1) / max((end - start).total_seconds(), 1e-9),
        longest_pause_s=gap,
    )


if __name__ == "__main__":
    sys.exit(main())
