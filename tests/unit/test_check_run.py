"""The check run and the lines for the runner's log."""

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
from ratchet.github.records import ANNOTATIONS_A_CALL, LARGEST_CHECK_TEXT, Acceptance
from ratchet.github.state import with_acceptances
from tests import examples, pages, reports
from tests.rendered import faults


def of(*outcomes: Outcome, **changes: object) -> CommentPage:
    cases = tuple(reports.case(f"bench/c{n}", outcome, "Because.", 1.05) for n, outcome in enumerate(outcomes))
    return pages.page(reports.report(cases, **changes))


@pytest.mark.parametrize(
    ("page", "end"),
    [
        (pages.green(), "success"),
        (pages.improved(), "success"),
        (pages.accepted(), "success"),
        (pages.red(), "failure"),
        (pages.mixed(), "failure"),
        (pages.hostile(), "failure"),
        (pages.problem(), "failure"),
        (pages.slower(), "action_required"),
        (pages.inconclusive(), "neutral"),
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


def test_a_pass_without_proof_says_so() -> None:
    """A neutral end has a title that claims no pass."""
    assert check_output(pages.inconclusive())[1].title.startswith("1 of 2 cases inconclusive: attention/training_512, ")
    assert check_output(of(Outcome.NEW))[1].title == "Nothing to compare: 1 new."


def test_an_accepted_slowdown_needs_no_proof() -> None:
    """Once a person accepted what is slower without proof, nothing is left to ask for."""
    case, same = (reports.case(f"a/{outcome}", outcome, "x", 1.1) for outcome in (Outcome.SLOWER, Outcome.UNCHANGED))
    given = Acceptance(case=case.name, reason="x", by="a-maintainer", sha=examples.HEAD.commit, comment=1, at=examples.STARTED)
    done = with_acceptances(reports.report((case, same), verdict="not measured", exit_code=3), [given])
    end, output = check_output(pages.page(done.report, acceptances=done.acceptances, paths={"a": "bench/a.py"}))
    assert (end, output.annotations) == ("success", ())
    assert output.title == "1 of 2 cases slower, but accepted; no other slower by over 3 %."
    assert "slower, not proven (1 accepted)" in output.summary.replace("\u00a0", " ")
    assert "#### 🟠" not in output.summary


def test_what_is_slower_without_proof_stands_open() -> None:
    """Its section has a row for each case and what is missing; its annotations are warnings with the change."""
    _, output = check_output(pages.slower())
    assert output.title.startswith("5 of 11 cases slower, but not proven; worst: normalize/rows_16k +119 % (2.2×): coalescing")
    section = output.summary.split("#### 🟠 Slower, but not proven")[1]
    assert section.count("| <code>") == 5
    assert section.count("A regression needs 20 pairs, and this case has 8") == 1
    first = output.annotations[0]
    assert (first.level, first.title) == ("warning", "normalize/rows_16k slower, not proven +119 % (2.2×)")
    assert first.message.startswith("Slower, but not proven: +119.3 % [+118.2, +120.3]; pairs scatter by 0.4 %.")
    assert next(workflow_commands(pages.slower())).startswith("::warning file=bench/normalize.py,line=1,title=normalize/rows_16k")


@pytest.mark.parametrize("make", pages.ALL, ids=lambda make: make.__name__)
def test_nothing_in_it_is_live(make: object) -> None:
    """Summary and text hold nothing live, and the title shows nothing that could be."""
    _, output = check_output(make())  # type: ignore[operator]
    assert faults(output.summary, pages.LINKS) == []
    assert faults(output.text, pages.LINKS) == []
    for text in (output.title, *(part for each in output.annotations for part in (each.title, each.message))):
        assert not re.search(r"@[a-z]|#\d|://|\n|\x1b|##\[", text)
        assert len(text) <= 1200


def test_what_stands_open_is_the_summary() -> None:
    """The summary has verdict and regressions, the text what a comment folds away; together they are the comment."""
    _, output = check_output(pages.red())
    assert "| <code>normalize/<wbr>rows_<wbr>16k</code> | +119.3" in output.summary
    assert "<details>" not in output.summary
    assert "Machine and plan" in output.text


def test_annotations_point_at_files_that_are_known() -> None:
    """Each case worth one is annotated at its benchmark's file, worst first, with change and cause; others have none."""
    _, output = check_output(pages.red())
    first = output.annotations[0]
    assert (first.path, first.line, first.level) == ("bench/normalize.py", 1, "failure")
    assert first.title == "normalize/rows_16k regressed +119 % (2.2×)"
    assert first.message.startswith("Slower by 119.31 %, past the gate of 3 %. Coalescing 100 % → 50 %")
    assert len(output.annotations) == 5
    assert check_output(replace(pages.red(), paths={}))[1].annotations == ()


@pytest.mark.parametrize(
    "path", ["/etc/x.py", "../x.py", "a/../x.py", "a//x.py", "./x.py", "a\nb.py", "a:b.py", "..", "x", "C:\\x.py", ""]
)
def test_a_path_is_plain_and_relative(path: str) -> None:
    """A path that is not a plain one below the repository's root gets no annotation."""
    assert check_output(replace(pages.red(), paths={"normalize": path}))[1].annotations == ()


def test_only_the_worst_are_annotated() -> None:
    """Of a hundred red cases the fifty worst get an annotation, and an accepted one gets none."""
    cases = tuple(reports.case(f"bench/c{n}", Outcome.REGRESSED, "Slower.", 1.05 + n / 100) for n in range(100))
    page = pages.page(reports.report(cases, verdict="regression"), paths={"bench": "bench/bench.py"})
    titles = [each.title for each in check_output(page)[1].annotations]
    assert len(titles) == ANNOTATIONS_A_CALL
    assert titles[0].startswith("bench/c99 ")
    taken = pages.accepted()
    assert check_output(replace(taken, paths={"attention": "bench/attention.py"}))[1].annotations == ()


def test_a_large_report_fits() -> None:
    """Summary and text keep to GitHub's limit with a thousand cases of long names."""
    cases = tuple(
        reports.case(f"{'<&|`' * 30}{n}", Outcome.FAILED, "`<" * 200, last_lines=("x" * 300,) * 50) for n in range(1000)
    )
    _, output = check_output(pages.page(reports.report(cases, verdict="regression")))
    assert len(output.summary) <= LARGEST_CHECK_TEXT
    assert len(output.text) <= LARGEST_CHECK_TEXT
    assert len(output.title) <= 300


def test_where_a_benchmark_may_stand() -> None:
    """The likely file of each benchmark worth an annotation, only where all of it is plain."""
    assert candidate_paths(pages.red(), "bench/") == {"attention": "bench/attention.py", "normalize": "bench/normalize.py"}
    assert candidate_paths(pages.red(), "../bench") == {}
    assert candidate_paths(pages.red(), "/abs") == {"attention": "abs/attention.py", "normalize": "abs/normalize.py"}
    assert candidate_paths(pages.problem(), "bench") == {}


def test_few_files_are_looked_for() -> None:
    """However many benchmarks are red, no more files are asked for than a check run may annotate: each is a call to GitHub."""
    cases = tuple(reports.case(f"b{number}/c", Outcome.REGRESSED, "Because.", 1.05) for number in range(60))
    assert len(candidate_paths(pages.page(reports.report(cases)), "bench")) == ANNOTATIONS_A_CALL


def test_lines_for_the_log() -> None:
    """The worst cases as commands to the runner, with file and title; without a verdict, why."""
    lines = list(workflow_commands(pages.red(), most=2))
    assert len(lines) == 2
    assert lines[0].startswith(
        "::error file=bench/normalize.py,line=1,title=normalize/rows_16k regressed +119 %25 (2.2×)::Slower by 119.31 %25"
    )
    [line] = workflow_commands(pages.problem())
    assert line.startswith("::error title=ratchet::The job that measures ended")
    assert list(workflow_commands(pages.green())) == []
    [line] = workflow_commands(pages.inconclusive())
    assert line.startswith("::warning title=attention/training_512 inconclusive::")


@pytest.mark.slow
@given(st.text(max_size=80), st.text(max_size=300))
def test_no_text_leaves_its_place_in_a_line(name: str, reason: str) -> None:
    """Whatever a case is called, a line is one command, with our two or one properties."""
    page = pages.page(reports.report((reports.case(name, Outcome.FAILED, reason),), verdict="regression"))
    [line] = workflow_commands(page)
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r"::error title=[^:,\r\n]*::[^\r\n]*", line)
    assert "##[" not in line
