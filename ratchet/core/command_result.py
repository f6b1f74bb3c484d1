"""Put together the record of a run, and write the files that a run leaves in the results folder.

Writes into the results folder, to GitHub's step summary if there is one, and to the temporary folder where the former is full.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ratchet.core.actions import LARGEST_SUMMARY, append_summary
from ratchet.core.config import Settings
from ratchet.core.errors import OutputError
from ratchet.core.judge.comparison import pairs_of
from ratchet.core.records.files import dumps, save, save_together
from ratchet.core.records.run import CaseRun, RunRecord, Shard, Tree
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.page import MOST_CASES, render_page
from ratchet.core.report.words import worst_first
from ratchet.core.request import CURRENT, MARKDOWN, PAGE, REPORT, CommandResult

if TYPE_CHECKING:
    from ratchet.core.bench.suite import Suite
    from ratchet.core.machine import Machine


def record_of(
    kind: Literal["check", "run"],
    command: tuple[str, ...],
    settings: Settings,
    machine: Machine,
    suite: Suite,
    timing: tuple[datetime, float],
    head: Tree,
    reference: Tree | None = None,
    *,
    best: Sequence[CaseRun] = (),
    anchors: Sequence[CaseRun] = (),
    shard: Shard | None = None,
    bench_from: Literal["head"] | None = None,
) -> RunRecord:
    """Put together the record of a run. ``timing``: when it started, and the seconds that it took."""
    from ratchet.core.bench.lost import repeats
    from ratchet.core.machine import environment_of, plan_of  # `ratchet compare` writes its files without what measures

    missing = suite.reference_missing
    return RunRecord(
        kind=kind,
        started_at=timing[0],
        wall_s=timing[1],
        command=command,
        environment=environment_of(machine, suite),
        plan=plan_of(settings, machine.device, sessions=kind == "check"),
        policy=settings.policy,
        head=head,
        reference=reference,
        shard=shard,
        bench_from=bench_from,
        reference_missing=f"The reference could not be measured: {missing}" if missing else None,
        cases=suite.cases,
        best=tuple(best),
        anchors=tuple(anchors),
        warnings=(*machine.warnings, *suite.notes, *repeats((*suite.cases, *best, *anchors))),
    )


PICTURE = "page.png"


def write(done: CommandResult, environ: Mapping[str, str]) -> list[Path]:
    """Write the run, the verdict and the Markdown report. Return their paths, the report first and those of profiles last.

    Raises OutputError; the run is then kept in the temporary folder if there is room there.
    """
    try:
        paths = save_files(done)
    except OutputError as error:
        raise OutputError(error.message, f"{error.hint} {_rescued(done.run)}".strip()) from None
    if environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(render_markdown(done.report, limit=LARGEST_SUMMARY), environ)
    return [*paths, *_pictures(done).values()]


def save_files(done: CommandResult, *, with_run: bool = True) -> list[Path]:
    """Write report, page, verdict and run, all or none. Return their paths in this order. Raises OutputError."""
    files = {
        done.results / MARKDOWN: render_markdown(done.report),
        done.results / PAGE: render_page(done.report, *_page_data(done)),
        done.results / REPORT: dumps(done.report),
    }
    if with_run:
        files[done.results / CURRENT] = dumps(done.run)
    save_together(files)
    return list(files)


def _pictures(done: CommandResult) -> dict[str, Path]:
    return {one.case: done.results / one.files[PICTURE] for one in done.report.profiles if PICTURE in one.files}


def _page_data(done: CommandResult) -> tuple[dict[str, list[float]], dict[str, bytes]]:
    """Return what a page shows besides the report: the ratios of pairs and the pictures, by case."""
    shown = {case.name for case in worst_first(done.report)[:MOST_CASES]}
    pairs = {case.name: pairs_of(case.head, case.reference) for case in done.run.cases if case.name in shown}
    ratios = {name: [math.exp(pair.log_ratio) for pair in measured] for name, measured in pairs.items()}
    pictures: dict[str, bytes] = {}
    for name, path in _pictures(done).items():
        with contextlib.suppress(OSError):  # of an earlier run, whose pictures were deleted
            pictures[name] = path.read_bytes()
    return ratios, pictures


def _rescued(record: RunRecord) -> str:
    path = Path(tempfile.gettempdir()) / f"ratchet-run-{record.started_at:%Y%m%d-%H%M%S}.json"
    try:
        save(path, record)
    except OutputError:
        return "The run could not be kept anywhere else either."
    return f"The run was kept in {path}: `ratchet compare {path}` shows it."
