"""Each recorded run, with everything that people read of it. To write the golden files again: ``pytest --golden-update``."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from ratchet.core.records.verdict import SLOWDOWNS, Outcome, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.page import render_page
from ratchet.core.report.terminal import plain_lines
from ratchet.github.check_run import check_output, workflow_commands
from ratchet.github.comment import marker, render_comment, run_id_of, sha_of
from ratchet.github.state import PublishedState
from tests.record_runs import recorded_bytes, runs
from tests.recorded_runs import LINKS, NAMES, RUNS, outputs, printed, recorded
from tests.rendered import Elements, faults

EVERY = pytest.mark.parametrize("name", NAMES)


def reports_of(name: str) -> list[ReportRecord]:
    return list(recorded(name).reports.values())


@EVERY
def test_what_people_read(name: str, golden: Callable[[str, str], None]) -> None:
    """Verdict, report, terminal, log, history, comment and check run are what they were when somebody last looked at them."""
    golden(f"runs/{name}.txt", "".join(f"======== {what}\n{text}\n\n" for what, text in outputs(name).items()))


def test_the_corpus_is_what_its_script_makes() -> None:
    """Each file is as `record_runs.py` writes it, and holds no file beside these."""
    assert {path.stem: path.read_bytes() for path in RUNS.iterdir()} == {
        name: recorded_bytes(made) for name, made in runs().items()
    }


def test_the_corpus_has_every_outcome_and_ending() -> None:
    """Each outcome of a case and each end of a published run occurs."""
    assert {case.outcome for name in NAMES for report in reports_of(name) for case in report.cases} == set(Outcome)
    assert {recorded(name).comment_page.state for name in NAMES} == set(PublishedState)


@EVERY
def test_a_slowdown_is_never_told_as_none(name: str) -> None:
    """A case that is slower in the mean of all calls says of which calls it is that any slowdown is small."""
    for case in (case for report in reports_of(name) for case in report.cases if case.outcome in SLOWDOWNS):
        assert "ny slowdown is smaller" not in case.reason.partition("The typical call:")[0], case.reason


@EVERY
def test_nothing_is_live(name: str) -> None:
    """Renderers find our own tables, lists, folds and links alone; no text adds a column to a table, or commands the runner."""
    page = recorded(name).comment_page
    _, output = check_output(page)
    comment = render_comment(page)
    for text in (comment, output.summary, output.text):
        assert faults(text, LINKS) == []
    for text in (comment, *(render_markdown(report) for report in reports_of(name))):
        assert uneven_rows(text) == []
    for line in (line for report in reports_of(name) for line in plain_lines(report)):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "\x1b" not in line
        assert len(line.splitlines()) == 1
    for shown in (output.title, *(part for each in output.annotations for part in (each.title, each.message))):
        assert not re.search(r"@[a-z]|#\d|://|\n|\x1b|##\[", shown)
        assert len(shown) <= 1200
    assert all(line.startswith("::") and len(line.splitlines()) == 1 for line in workflow_commands(page))


def uneven_rows(markdown: str) -> list[str]:
    """The rows of tables with other numbers of columns than the row before."""
    lines = markdown.split("\n")
    return [
        row
        for row, before in zip(lines[1:], lines, strict=False)
        if row.startswith(("| ", "|:")) and before.startswith(("| ", "|:")) and row.count("|") != before.count("|")
    ]


@EVERY
def test_the_markers_come_first(name: str) -> None:
    """The first line of a comment finds it again, the second says which run and head it is of."""
    page = recorded(name).comment_page
    body = render_comment(page)
    assert body.startswith(f"{marker('default')}\n<!-- ratchet:run:{page.run.id}:")
    assert (run_id_of(body), sha_of(body)) == (page.run.id, page.run.head_sha)
    assert run_id_of(body.replace("\n", "\r\n")) == page.run.id


@pytest.mark.parametrize("width", [44, 52, 80, 120, 156])
def test_names_and_outcomes_stay_whole(width: int) -> None:
    """However narrow, every case is on one line with its whole name and outcome, and no line is wider than the terminal."""
    (report,) = reports_of("outcomes")
    words = {Outcome.SLOWER: "not proven"}
    lines = printed(report, width).splitlines()
    table = lines[: lines.index("")]
    assert len(table) == 2 + 13
    for case in report.cases:
        assert any(
            line.startswith(f"{case.name} ") and line.rstrip().endswith(words.get(case.outcome, case.outcome.lower()))
            for line in table
        )
    assert all(cell_len(line) <= width for line in lines)


@EVERY
def test_a_page_stands_alone(name: str) -> None:
    """No page for a browser has a script, a link or anything from another place; what the measured code wrote is text."""
    for report in reports_of(name):
        page = render_page(report)
        elements = Elements(page)
        assert not {"script", "link", "iframe", "a", "object", "form"} & {tag for tag, _ in elements.found}
        for tag, attributes in elements.found:
            assert not [key for key in attributes if key.startswith("on") or key in ("src", "href", "action")], tag
        assert "default-src 'none'" in page
        assert all(case.name in elements.text for case in report.cases if "\x1b" not in case.name)
