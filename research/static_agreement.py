"""Asks how often a verdict without a GPU agrees with launches on one: ``static_agreement.py record OUT A..B``, then ``compare``.

Both in a repository with benchmarks, such as a foreign package with a file of its own in bench/. ``record`` needs the GPU: each
commit of A..B, and A itself, is written down as by `ratchet run --static`, with the digest of each case's launches as a check
takes it; ``--jobs`` commits at the same time, none begun after ``--seconds``. There an autotuner takes its first configuration
that runs, so that no choice by time differs from commit to commit; all are compiled and written down. ``compare`` needs the same
release of Triton and no GPU: each commit is held against the one before it as by `ratchet check --static`, and beside the
verdicts stands what the launches of the two were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from common import row, table

from ratchet.core.bench.client import CaseTrouble
from ratchet.core.bench.messages import Identified
from ratchet.core.bench.ready.workers import Workers
from ratchet.core.bench.selection import choose_cases
from ratchet.core.config import Settings
from ratchet.core.git import Repository, worktrees
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.files import save
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request
from ratchet.identical.static import command as static
from ratchet.identical.static.records import CaseCapture

_GIT = threading.Lock()
OPAQUE = "opaque: "
SAYS, DOES = ("identical", "needs GPU"), ("same", "other", "unknown")


def record(request: Request, span: str, out: Path, jobs: int, seconds: float) -> None:
    """Write down all commits of a range."""
    repository, began = Repository(request.folder), time.monotonic()
    settings = static.Prover.of(request, Progress(), os.environ).settings
    older, _, newer = span.partition("..")
    one, other = (repository.commit_snapshot(end).tree.commit for end in (older, newer or "HEAD"))
    with machine_of(request.devices, settings, "static_agreement.py", Progress(), os.environ) as machine:

        def if_there_is_time(commit: str) -> str:
            if (out / f"{commit}.json").exists() or time.monotonic() - began > seconds:
                return f"{commit[:10]} left"
            try:
                return f"{commit[:10]} {record_one(repository, settings, machine, commit, out, request.patterns)}"
            except Exception as error:  # noqa: BLE001  the other commits go on
                return f"{commit[:10]} failed: {error}"

        with ThreadPoolExecutor(jobs) as pool:
            for line in pool.map(if_there_is_time, [one, *repository.commits_after(one, other)]):
                print(line, flush=True)


def record_one(
    repository: Repository, settings: Settings, machine: Machine, commit: str, out: Path, patterns: Sequence[str]
) -> str:
    """Write down a commit, and the launches of its cases beside it."""
    began, head = time.monotonic(), repository.commit_snapshot(commit)
    with _GIT:
        site = worktrees(repository, head, None)
        trees = site.__enter__()
    found: dict[str, static.SeenCase | str] = {}
    launches: dict[str, str] = {}
    try:
        with static.Prover(repository, settings, Progress(), dict(os.environ)).hosts(machine, trees.head, head) as hosts:
            workers = Workers(hosts.sides, plan_of(settings, machine.device), None, {})
            for case in choose_cases(hosts.sides["head"].listing(), None, patterns):
                why_not = case.skipped or next((failure.message for failure in case.failures), "")
                found[case.name] = why_not or _seen(workers, case.name, launches)
        recorded = static.joined(head, environment_of(machine), workers.plan, found)
    finally:
        with _GIT:
            site.__exit__(None, None, None)
    save(out / f"{commit}.json", recorded)
    (out / f"{commit}.launches").write_text(json.dumps(launches))
    return f"{len(launches)} of {len(found)} cases, {len(recorded.kernels)} kernels, {time.monotonic() - began:.0f} s"


def _seen(workers: Workers, name: str, launches: dict[str, str]) -> static.SeenCase | str:
    try:
        worker = workers.fork("head", one_queue=True, watched=True)
        try:
            prepared = workers.prepare("head", worker, name, workers.plan.seed, check=False, crowded=True)
            captured = worker.ask("capture", CaseCapture)
            identified = worker.ask("identify", Identified)
            launches[name] = identified.digest or f"{OPAQUE}{identified.opaque}"
            return static.SeenCase(prepared, captured)
        finally:
            workers.let_go(worker)
    except CaseTrouble as error:
        return error.message


def compare(folder: Path, out: Path) -> None:
    """Hold each recorded commit against the recorded one before it, and print a table."""
    repository = Repository(folder)
    every = subprocess.run(
        ["git", "rev-list", "--first-parent", "--reverse", "main"], cwd=folder, text=True, stdout=-1, check=True
    )
    known = [commit for commit in every.stdout.split() if (out / f"{commit}.json").exists()]
    total: Counter[tuple[str, str]] = Counter()
    free = 0
    table("commit", *(f"{says}, launches {does}" for says in SAYS for does in DOES), "seconds")
    for before, commit in pairwise(known):
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=folder, check=True)
        request = Request(repository.root, tuple(sys.argv), base=before)
        report = static.check(request, out / f"{before}.json", Progress(), os.environ).report
        sides = [json.loads((out / f"{each}.launches").read_text()) for each in (before, commit)]
        seen: Counter[tuple[str, str]] = Counter()
        for case in report.cases:
            one, other = (side.get(case.name, OPAQUE) for side in sides)
            does = "unknown" if OPAQUE in (one[: len(OPAQUE)], other[: len(OPAQUE)]) else "same" if one == other else "other"
            seen[SAYS[not case.identical], does] += 1
            if case.identical and does == "other":
                print(f"DISAGREES: {commit[:10]} {case.name}")
        free += not report.needed
        total += seen
        row(commit[:10], *(seen[says, does] for says in SAYS for does in DOES), f"{report.seconds:.1f}")
    row(f"{len(known) - 1} commits, {free} without a GPU", *(total[says, does] for says in SAYS for does in DOES), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("out", type=Path)
    parser.add_argument("span", nargs="?", default="")
    parser.add_argument("--case", action="append", default=[], help="only these cases; may be repeated")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3600)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.what == "record":
        record(Request(Path.cwd(), tuple(sys.argv), tuple(given.case)), given.span, given.out, given.jobs, given.seconds)
    else:
        compare(Path.cwd(), given.out)


if __name__ == "__main__":
    main()
