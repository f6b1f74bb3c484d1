"""The recorded runs in ``tests/data/runs``, which `record_runs.py` made, and everything that people read of each."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ratchet.core.judge.verdict import judge_run, judge_two
from ratchet.core.records import Record
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.profile import CaseProfile, Profiles
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import CaseVerdict, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.terminal import plain_lines, print_report
from ratchet.github.check_run import check_output, workflow_commands
from ratchet.github.comment import CommentPage, MeasuredRun, render_comment
from ratchet.github.publish import joined
from ratchet.github.records import Acceptance
from ratchet.github.state import Gap, PublishedState, with_acceptances, with_gaps
from ratchet.history.judge import history_run
from tests import examples
from tests.pages import h200_bytes, h200_run

RUNS = Path(__file__).parent / "data" / "runs"
RUN_URL = "https://github.com/octocat/kernels/actions/runs/19432117786"
LOG_URL = "https://github.com/octocat/kernels/actions/runs/19432117999"
LINKS = (RUN_URL, f"{RUN_URL}#artifacts", LOG_URL)
"""All that a comment or a check run may link to."""


class RecordedRun(Record):
    """A run, or one for each GPU model, and what else is known when it is judged and published."""

    about: str
    runs: dict[str, RunRecord] = {}
    """GPU model → run; ``""`` where there is one model."""
    without_run: dict[str, str] = {}
    """GPU model → why it has no run."""
    earlier: RunRecord | None = None
    """The run that it is compared with, measured at another time."""
    baseline: Baseline = Baseline()
    profiles: tuple[CaseProfile, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    gaps: dict[str, str] = {}
    """Name of a `PublishedState` → its sentence."""
    page: dict[str, Any] = {}
    """Fields of the `CommentPage`."""

    @functools.cached_property
    def reports(self) -> dict[str, ReportRecord]:
        """GPU model → the report on its run."""
        return {model: self._judged(run) for model, run in self.runs.items()}

    def _judged(self, run: RunRecord) -> ReportRecord:
        report = judge_two(self.earlier, run, run.policy) if self.earlier else judge_run(run, self.baseline)
        return report.model_copy(update={"profiles": self.profiles})

    @functools.cached_property
    def comment_page(self) -> CommentPage:
        """The page of the comment and the check run, as the trusted job makes it."""
        models = {model: self._page_of(self.reports.get(model)) for model in self.runs}
        models |= {model: page_of(None, **self.page, problem=why) for model, why in self.without_run.items()}
        (first, *others) = models.values()
        return joined(models) if others else first

    def _page_of(self, report: ReportRecord | None) -> CommentPage:
        assert report is not None
        gaps = tuple(Gap(PublishedState[name], sentence) for name, sentence in self.gaps.items())
        accepted, used = with_acceptances(report, self.acceptances)
        judged = with_gaps(accepted, {acceptance.case for acceptance in used}, gaps)
        return page_of(judged, acceptances=used, gaps=gaps, **self.page)


def page_of(report: ReportRecord | None, **changes: Any) -> CommentPage:
    """The page of a report on pull request 7 of a repository."""
    head_sha = report.head.commit if report and len(report.head.commit) == 40 else examples.HEAD.commit
    run = MeasuredRun("octocat/kernels", head_sha, "main", RUN_URL, 19432117786)
    of_run = {field.name: changes.pop(field.name) for field in fields(run) if field.name in changes}
    rules = (
        "gate 3 %, improvement 5 % from pyproject.toml of main at 5fe2b0c1d3; "
        "baseline results/baseline.json of main at 5fe2b0c1d3"
    )
    return CommentPage(report, replace(run, **of_run), **({"rules": rules} | changes))


_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\u202e]")
_ALIKE = re.compile(r"<details>\n<summary>(Machine and plan|How to read this)</summary>.*?</details>\n+", re.DOTALL)
"""Folds that hardly differ between runs: three runs show them whole."""

NAMES = sorted(["h200_red", "h200_green", "h200_slower", "several", *(path.stem for path in RUNS.glob("*.json"))])


@functools.cache
def recorded(name: str) -> RecordedRun:
    """The run of this name. Those of the H200 have the samples of ``tests/data/h200_red``."""
    if name == "several":
        l4 = examples.FINGERPRINT.model_copy(update={"gpu": "NVIDIA L4"})
        other = h200_run("h200_green")
        other = other.model_copy(update={"environment": other.environment.model_copy(update={"fingerprint": l4})})
        red = recorded("h200_red")
        lost = "No runner of this model gave results in time: run 19432117786 ended with “failure”."
        return RecordedRun(
            about="Red on one GPU model, green on another, and no results of a third.",
            runs={"l4": other, **red.runs},
            without_run={"b200": lost},
            profiles=red.profiles,
            page=red.page,
        )
    if name.startswith("h200_"):
        profiles = Profiles.model_validate_json(h200_bytes("profiles.json")).profiles
        return RecordedRun(
            about="What `ratchet check` measured on an H200, of a commit with two planted slowdowns.",
            runs={"h200": h200_run(name)},
            profiles=() if name == "h200_green" else profiles,
            page={"paths": {"normalize": "bench/normalize.py", "attention": "bench/attention.py"}},
        )
    return RecordedRun.model_validate_json((RUNS / f"{name}.json").read_text(encoding="utf-8"))


def printed(report: ReportRecord, width: int, *, colours: bool = False) -> str:
    """What a terminal of this width gets."""
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=width, force_terminal=colours, color_system="standard" if colours else None))
    return stream.getvalue()


def outputs(name: str) -> dict[str, str]:
    """Every text that people get of the run: name of the text → text."""
    found, texts = recorded(name), {"about": recorded(name).about}
    for model, report in found.reports.items():
        of = f" ({model})" if len(found.reports) > 1 else ""
        texts |= {
            f"verdict{of}": "\n".join(_verdict_lines(report)),
            f"report{of}": render_markdown(report),
            **{f"terminal of {width} columns{of}": printed(report, width) for width in (80, 120)},
            f"log{of}": "\n".join(plain_lines(report)),
        }
        if not found.earlier and len(report.head.commit) == 40:
            row = history_run(found.runs[model], report, found.baseline, RUN_URL)
            texts[f"history{of}"] = row.model_dump_json(indent=1, exclude_defaults=True, exclude={"fingerprint"})
    page = found.comment_page
    conclusion, output = check_output(page)
    notes = [f"{each.level} {each.path}:{each.line} {each.title}: {each.message}" for each in output.annotations]
    texts["comment"] = render_comment(page)
    texts["check run"] = "\n".join([conclusion, output.title, *notes, *workflow_commands(page)])
    if name not in ("outcomes", "run", "cpu"):
        texts = {of: _ALIKE.sub("", text) for of, text in texts.items()}
    return {of: _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text) for of, text in texts.items()}


def _verdict_lines(report: ReportRecord) -> Iterator[str]:
    yield f"{report.verdict} (exit code {report.exit_code}): {report.headline}"
    yield ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items())
    yield from (f"warning: {warning}" for warning in report.warnings)
    for case in report.cases:
        yield f"{case.outcome} {case.name}: {case.reason}"
        yield from _figures(case)


def _figures(case: CaseVerdict) -> Iterator[str]:
    for what, seen in (("pairs", case.comparison), ("best", case.best)):
        if seen:
            yield f"  {what}: {_figure_line(seen.model_dump(exclude_none=True, exclude={'sessions', 'total'}))}"
        if seen and seen.total:
            yield f"  total: {_figure_line(seen.total.model_dump())}"
    for name, side in (("reference", case.reference), ("head", case.head)):
        if side:
            yield f"  {name}: {_figure_line(side.model_dump(exclude_none=True))}"


def _figure_line(figures: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}" for name, value in figures.items())
