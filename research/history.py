"""Measures a long history and its index: ``python research/history.py`` (5,000 runs of 50 cases; 2 minutes; ``--runs 45000``: 6).

The first table simulates merges that change nothing, at 0.2 % noise of one measured ratio: the product of the ratios to each
parent against the ratio to one anchor, as `ratchet history` computes it. A false point is a run where the means of the ten runs
before and after differ by more than 1 %. The second writes so many runs of so many cases to a temporary folder, builds the index,
opens it again, opens it after one more run, reads a series, and makes the table of `ratchet history`; in seconds on the clock and
of the processor. The third runs `ratchet history` itself in that folder, once its index is there, and adds its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from record_speed import spent

from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.verdict import Outcome
from ratchet.history.command import case_histories
from ratchet.history.judge import series_of
from ratchet.history.records import HistoryCase, HistoryRun, RatioTo
from ratchet.history.report import TREND_RUNS, overview_lines
from ratchet.history.store import FolderFiles, History, append

MACHINE = Fingerprint(
    device="cuda", gpu="NVIDIA H200", driver="580.95.05", cuda="13.0", torch="2.9.1+cu130", triton="3.5.1", cpu="Intel Xeon 8480C"
)
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
NOISE, REPEATS = 0.002, 200
WINDOW, STEP = 10, 0.01
CASE = "benchmark_00/config_0"
"""The first case of the history that is written."""


def case_of(name: str, ratio: float, head: int) -> HistoryCase:
    """One case of a run, with every figure that a real one has."""
    short = float(f"{ratio:.7g}")
    to = {"ratio": short, "low": float(f"{ratio * 0.999:.7g}"), "high": float(f"{ratio * 1.001:.7g}"), "pairs": 16}
    return HistoryCase(
        name=name,
        outcome=Outcome.UNCHANGED,
        reference=RatioTo(commit=f"{head - 1:040x}", **to),
        anchor=RatioTo(commit=f"{1:040x}", **to),
        median_ms=float(f"{0.34 * ratio:.7g}"),
        roof="copy",
        share_of_roof=float(f"{0.91 / ratio:.7g}"),
        peak_memory_bytes=67_108_864,
        gflops=float(f"{98_765.43 / ratio:.7g}"),
        gb_s=float(f"{3_912.345 / ratio:.7g}"),
        workload="0123456789ab",
    )


def run_at(number: int, *cases: HistoryCase) -> HistoryRun:
    """The run of one merge, an hour after the one before."""
    return HistoryRun(
        commit=f"{number:040x}",
        subject="attention: use a larger tile for long sequences",
        started_at=STARTED + timedelta(hours=number),
        fingerprint=MACHINE,
        verdict="pass",
        headline=f"No case is slower by over 3 %: {len(cases)} unchanged.",
        regression=0.03,
        url=f"https://github.com/example/kernels/actions/runs/{number}",
        cases=cases,
    )


def speed(folder: Path, runs: int, cases: int) -> None:
    """Write a history of this size, and print its sizes and seconds."""
    ratios = 1 + NOISE * np.random.default_rng(1).standard_normal((runs + 1, cases))
    names = [f"benchmark_{number // 5:02}/config_{number % 5}" for number in range(cases)]
    place, index = folder / "results" / "history", folder / "index.sqlite"
    for number in range(runs):
        append(place, run_at(number + 2, *(case_of(name, ratios[number, at], number + 2) for at, name in enumerate(names))))

    def opened(what: str) -> History:
        begun = time.perf_counter(), time.process_time()
        history = History([FolderFiles(place)], index)
        print(f"| {what} | {time.perf_counter() - begun[0]:.2f} s, {time.process_time() - begun[1]:.2f} s |")
        return history

    print(f"\n| {runs} runs of {cases} cases | clock, processor |\n|:--|--:|")
    opened("build the index")
    opened("open it again")
    append(place, run_at(runs + 2, *(case_of(name, ratios[runs, at], runs + 2) for at, name in enumerate(names))))
    history = opened("open it after one more run")
    case = history.cases()[0]
    begun = time.perf_counter(), time.process_time()
    points = history.series(case.name, case.hardware).points
    took = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"| read the series of one case, {len(points)} points | {took[0]:.2f} s, {took[1]:.2f} s |")
    begun = time.perf_counter(), time.process_time()
    lines = overview_lines(case_histories(history, None, TREND_RUNS))
    took = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"| the table of all cases, {len(lines)} lines | {took[0]:.2f} s, {took[1]:.2f} s |")
    files = sum(path.stat().st_size for path in place.rglob("*.json"))
    print(f"| files | {files / 1e6:.0f} MB |\n| index | {index.stat().st_size / 1e6:.0f} MB |")


def commands(folder: Path) -> None:
    """Print seconds and memory of the processes that show a history."""
    os.environ["RATCHET_CACHE_DIR"] = str(folder / "cache")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    spent(["history", "--quiet"], folder)  # makes the index
    print("\n| command, once its index is there | clock, processor | peak memory |\n|:--|--:|--:|")
    for words in (["history"], ["history", CASE], ["history", CASE, "--json"]):
        used = spent([*words, "--quiet"], folder)
        print(f"| `ratchet {' '.join(words)}` | {used.seconds:.2f} s, {used.computing_s:.2f} s | {used.peak_mb:.0f} MB |")


def drift(merges: int, repeats: int) -> None:
    """Print how far both indexes of unchanged code end from 1, and how many false points each shows."""
    draw = np.random.default_rng(2)
    by = {"product of parent ratios": [], "ratio to the anchor": []}  # type: dict[str, list[tuple[float, int]]]
    for _ in range(repeats):
        product = np.cumprod(np.exp(NOISE * draw.standard_normal(merges)))
        measured = np.exp(NOISE * draw.standard_normal(merges))
        rows = [("", run_at(number + 2, case), case) for number, case in enumerate(case_of("a/b", r, 2) for r in measured)]
        anchored = np.array([point.index for point in series_of("a/b", rows).points], dtype=float)
        for name, series in zip(by, (product, anchored), strict=True):
            by[name].append((abs(float(np.mean(series[-WINDOW:])) - 1), false_points(series)))
    print(f"\n| {merges} merges that change nothing, {repeats} times | off at the end, median | false points, median |")
    print("|:--|--:|--:|")
    for name, ends in by.items():
        print(f"| {name} | {100 * np.median([off for off, _ in ends]):.2f} % | {np.median([count for _, count in ends]):.0f} |")


def false_points(series: np.ndarray) -> int:
    """Count the runs at which the mean of the next runs differs from that of the runs before."""
    means = np.convolve(series, np.ones(WINDOW) / WINDOW, "valid")
    return int(np.sum(np.abs(means[WINDOW:] / means[:-WINDOW] - 1) > STEP))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--merges", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    chosen = parser.parse_args()
    drift(chosen.merges, chosen.repeats)
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: the memory of a process that starts another counts into the peak of that one.
        maker = multiprocessing.get_context("spawn").Process(target=speed, args=(Path(folder), chosen.runs, chosen.cases))
        maker.start()
        maker.join()
        commands(Path(folder))
