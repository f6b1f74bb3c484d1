"""The check run and the lines for the runner's log, beside what `test_recorded_runs.py` holds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Outcome
from ratchet.github.check_run import candidate_paths, check_output, workflow_commands
from ratchet.github.comment import CommentPage
from ratchet.github.records import ANNOTATIONS_A_CALL, LARGEST_CHECK_TEXT
from tests import reports
from tests.recorded_runs import page_of, recorded


def of(*outcomes: Outcome, **changes: object) -> CommentPage:
    cases = tuple(reports.case(f"bench/c{n}", outcome, "Because.", 1.05) for n, outcome in enumerate(outcomes))
    return page_of(reports.report(cases, **changes))


@pytest.mark.parametrize(
    ("page", "end"),
    [
        (of(Outcome.IDENTICAL), "success"),
        (of(Outcome.UNCHANGED, Outcome.NEW, Outcome.MISSING, Outcome.SKIPPED), "success"),
        (of(Outcome.UNCHANGED, Outcome.INCONCLUSIVE), "neutral"),
        (of(Outcome.UNCHANGED, Outcome.INCONCLUSIVE, Outcome.SLOWER, verdict="not measured", exit_code=3), "action_required"),
        (of(Outcome.REGRESSED, Outcome.SLOWER, verdict="regression", exit_code=1), "failure"),
        (of(Outcome.INCONCLUSIVE, verdict="not measured", exit_code=3, policy=Policy(on_inconclusive="fail")), "failure"),
        (of(Outcome.UNFIT, verdict="not measured", exit_code=3), "failure"),
        (of(Outcome.UNFIT, Outcome.UNCHANGED, verdict="not measured", exit_code=3), "action_required"),
        (of(Outcome.UNFIT, Outcome.UNFIT, Outcome.UNCHANGED, verdict="not measured", exit_code=3), "failure"),
        (of(Outcome.SKIPPED, verdict="not measured", exit_code=3), "failure"),
        (of(Outcome.MISSING, verdict="not measured", exit_code=3), "failure"),
        (of(Outcome.NEW, Outcome.CHANGED, Outcome.MISSING), "neutral"),
        (of(Outcome.MEASURED), "neutral"),
        (of(), "failure"),
    ],
)
def test_how_it_ends(page: CommentPage, end: str) -> None:
    """Red for regressions, wrong results and where less than half was measured; green only where something was compared; noise is
    neither. What a person has to look at, such as a slowdown without proof, asks for one.
    """
    assert check_output(page)[0] == end


@pytest.mark.parametrize(
    "path", ["/etc/x.py", "../x.py", "a/../x.py", "a//x.py", "./x.py", "a\nb.py", "a:b.py", "..", "x", "C:\\x.py", ""]
)
def test_a_path_is_plain_and_relative(path: str) -> None:
    """A path that is not a plain one below the repository's root gets no annotation."""
    assert check_output(replace(recorded("h200_red").comment_page, paths={"normalize": path}))[1].annotations == ()


def test_only_the_worst_are_annotated() -> None:
    """Of a hundred red cases the fifty worst get an annotation."""
    cases = tuple(reports.case(f"bench/c{n}", Outcome.REGRESSED, "Slower.", 1.05 + n / 100) for n in range(100))
    page = page_of(reports.report(cases, verdict="regression"), paths={"bench": "bench/bench.py"})
    titles = [each.title for each in check_output(page)[1].annotations]
    assert len(titles) == ANNOTATIONS_A_CALL
    assert titles[0].startswith("bench/c99 ")


def test_a_large_report_fits() -> None:
    """Summary and text keep to GitHub's limit with a thousand cases of long names."""
    cases = tuple(
        reports.case(f"{'<&|`' * 30}{n}", Outcome.FAILED, "`<" * 200, last_lines=("x" * 300,) * 50) for n in range(1000)
    )
    _, output = check_output(page_of(reports.report(cases, verdict="regression")))
    assert len(output.summary) <= LARGEST_CHECK_TEXT
    assert len(output.text) <= LARGEST_CHECK_TEXT
    assert len(output.title) <= 300


def test_where_a_benchmark_may_stand() -> None:
    """The likely file of each benchmark worth an annotation, only where all of it is plain."""
    red = recorded("h200_red").comment_page
    assert candidate_paths(red, "bench/") == {"attention": "bench/attention.py", "normalize": "bench/normalize.py"}
    assert candidate_paths(red, "../bench") == {}
    assert candidate_paths(red, "/abs") == {"attention": "abs/attention.py", "normalize": "abs/normalize.py"}
    assert candidate_paths(recorded("problem").comment_page, "bench") == {}


def test_few_files_are_looked_for() -> None:
    """However many benchmarks are red, no more files are asked for than a check run may annotate: each is a call to GitHub."""
    cases = tuple(reports.case(f"b{number}/c", Outcome.REGRESSED, "Because.", 1.05) for number in range(60))
    assert len(candidate_paths(page_of(reports.report(cases)), "bench")) == ANNOTATIONS_A_CALL


@pytest.mark.slow
@given(st.text(max_size=80), st.text(max_size=300))
def test_no_text_leaves_its_place_in_a_line(name: str, reason: str) -> None:
    """Whatever a case is called, a line is one command, with our two or one properties."""
    page = page_of(reports.report((reports.case(name, Outcome.FAILED, reason),), verdict="regression"))
    [line] = workflow_commands(page)
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r"::error title=[^:,\r\n]*::[^\r\n]*", line)
    assert "##[" not in line
