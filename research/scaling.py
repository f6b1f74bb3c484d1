"""Configurations a minute on one GPU and on several: tunes a matrix product of some thousand configurations.

    python research/scaling.py [--gpus 0 0,1 0,1,2,3] [--ray] [--budget 90s] [--case products/square_2048]
                                        [--keep FOLDER]

Every run begins with an empty cache of compiled kernels and tries the same configurations in the same random order. It
prints how many it tried, the rate from the moment when every GPU had given its first result, and that over the first run's.
``--keep`` leaves the records in a folder.
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
from itertools import pairwise
from pathlib import Path

from ratchet.records.files import load
from ratchet.records.tuning import TuningRecord

PRODUCTS = Path(__file__).with_name("products.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", nargs="*", default=["0", "0,1"], help="one run for each list")
    parser.add_argument("--ray", action="store_true", help="one more run, on a Ray cluster of all GPUs of this host")
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--case", default="products/square_2048")
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    ways = [("--gpus", gpus) for gpus in given.gpus] + ([("--executor", "ray")] if given.ray else [])
    first = None
    print("| GPUs | tried | a minute, once all are up | of one | longest pause | whole command |\n|:--|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        repository(Path(folder))
        for number, way in enumerate(ways):
            words = [given.case, *way, "--strategy", given.strategy, "--time-budget", given.budget]
            record, seconds = tuned(Path(folder), number, words)
            if given.keep:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / f"{number}.json").write_text(record.model_dump_json())
            rate, gap = rate_of(record)
            first = first or rate
            figures = f"{len(record.evaluations)} | {rate:.0f} | {rate / first:.2f} | {gap:.1f} s | {seconds:.0f} s"
            print(f"| {' '.join(way)} | {figures} |", flush=True)
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


def rate_of(record: TuningRecord) -> tuple[float, float]:
    """Return evaluations a minute, from when every GPU had given its first, and the longest time between two, in seconds."""
    firsts = {evaluation.gpu: evaluation.at for evaluation in reversed(record.evaluations)}
    start, end = max(firsts.values()), max(evaluation.at for evaluation in record.evaluations)
    ends = sorted(evaluation.at for evaluation in record.evaluations if evaluation.at >= start)
    gap = max(((later - sooner).total_seconds() for sooner, later in pairwise(ends)), default=0.0)
    return 60 * (len(ends) - 1) / max((end - start).total_seconds(), 1e-9), gap


if __name__ == "__main__":
    sys.exit(main())
