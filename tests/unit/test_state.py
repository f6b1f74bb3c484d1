"""How a published run ends: the worst state decides, and too little is no pass."""

from __future__ import annotations

import pytest

from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.github.state import Gap, PublishedState, every_gap, state_of, with_gaps
from tests import reports

LEFT_OUT = Gap(PublishedState.LEFT_OUT, "Not measured, though the baseline has them: a/x.", 1)


def report_of(*outcomes: Outcome, **changes: object) -> ReportRecord:
    return reports.report(
        tuple(reports.case(f"a/c{n}", outcome, "Because.", 1.05) for n, outcome in enumerate(outcomes)), **changes
    )


def test_a_state_is_no_better_than_the_ones_before_it() -> None:
    """States stand worst first: those that fail, those that need a person, those without an answer, and passes."""
    ends = [state.conclusion for state in PublishedState]
    assert sorted(ends, key=["failure", "action_required", "neutral", "success"].index) == ends


@pytest.mark.parametrize(
    ("outcomes", "left_out", "sentence"),
    [
        ((Outcome.UNCHANGED, Outcome.UNFIT), 0, None),
        ((Outcome.UNCHANGED, Outcome.UNFIT), 1, "Only 1 of 3 cases was measured, less than half: 1 unfit, 1 left out."),
        ((Outcome.NEW, Outcome.MISSING, Outcome.MISSING), 1, None),
        ((Outcome.MISSING,), 0, "Nothing was measured."),
        ((Outcome.SKIPPED, Outcome.UNFIT, Outcome.SKIPPED), 0, "Nothing was measured: 1 unfit, 2 skipped."),
        (
            (Outcome.IDENTICAL, Outcome.REGRESSED, *[Outcome.SKIPPED] * 3),
            0,
            "Only 2 of 5 cases were measured, less than half: 3 skipped.",
        ),
    ],
)
def test_half_of_the_cases(outcomes: tuple[Outcome, ...], left_out: int, sentence: str | None) -> None:
    """Half of them is enough; what the head removed does not count, what the run left out does."""
    gaps = every_gap(report_of(*outcomes), [Gap(PublishedState.LEFT_OUT, "x", left_out)] if left_out else [])
    assert [gap.sentence for gap in gaps if gap.state is PublishedState.TOO_LITTLE] == ([sentence] if sentence else [])


def test_a_gap_is_the_headline_of_what_would_be_a_pass() -> None:
    """The gap that decides is the first line, the other is a warning; verdict and exit code are those of no measurement."""
    other = Gap(PublishedState.OTHER_REFERENCE, "Compared with something else.")
    done = with_gaps(report_of(Outcome.UNCHANGED, warnings=("Old.",)), (), [LEFT_OUT, other])
    assert (done.verdict, done.exit_code, done.headline) == ("not measured", 3, other.sentence)
    assert done.warnings == (LEFT_OUT.sentence, "Old.")


def test_a_gap_that_blocks_nothing_is_said_first() -> None:
    """A run that is neutral for its gap keeps its verdict, and its headline after the gap's sentence."""
    gap = Gap(PublishedState.REMOVED, "The head removes a/x.")
    done = with_gaps(report_of(Outcome.UNCHANGED, headline="Nothing changed."), (), [gap])
    assert (done.verdict, done.exit_code, done.headline) == ("pass", 0, "The head removes a/x. Nothing changed.")


def test_a_slowdown_is_said_before_a_gap() -> None:
    """A regression, and a slowdown without proof, keep their headline; the gap is a warning beside it."""
    for outcome, verdict in ((Outcome.REGRESSED, "regression"), (Outcome.SLOWER, "not measured")):
        before = report_of(outcome, verdict=verdict, headline="Slower.")
        done = with_gaps(before, (), [LEFT_OUT])
        assert (done.verdict, done.headline, done.warnings) == (verdict, "Slower.", (LEFT_OUT.sentence,))


def stored(outcome: Outcome) -> CaseVerdict:
    return reports.case("a/b", outcome, "x", 1.0, comparison=reports.comparison(1.0, source="days"))


def test_states() -> None:
    """Noise fails only where the settings say so; a stored reference proves nothing; what is accepted does not count."""
    fails = Policy(on_inconclusive="fail")
    assert state_of(None, (), ()) is PublishedState.NO_VERDICT
    assert state_of(report_of(Outcome.INCONCLUSIVE), (), ()) is PublishedState.INCONCLUSIVE
    assert state_of(report_of(Outcome.INCONCLUSIVE, policy=fails), (), ()) is PublishedState.UNDECIDED
    beside_stored_times = reports.report((stored(Outcome.UNCHANGED),))
    assert state_of(beside_stored_times, (), ()) is PublishedState.STORED_REFERENCE
    assert [gap.sentence for gap in every_gap(beside_stored_times, ())] == [
        "Compared with stored times alone, since the reference could not be measured."
    ]
    kernels = reports.case("a/k", Outcome.UNCHANGED, "Same.", comparison=reports.comparison(1.0, source="kernels"))
    assert state_of(reports.report((kernels,)), (), ()) is PublishedState.PASS
    assert state_of(report_of(Outcome.SLOWER), {"a/c0"}, ()) is PublishedState.ACCEPTED
    assert state_of(report_of(Outcome.SLOWER), {"a/c0"}, [LEFT_OUT]) is PublishedState.LEFT_OUT
    assert state_of(report_of(Outcome.NEW, Outcome.CHANGED), (), ()) is PublishedState.NOT_COMPARED


def test_a_muted_slowdown_is_no_success() -> None:
    """A run whose slowdown is muted is neutral; one that a person accepted as well does not count as muted."""
    muted = reports.case("a/m", Outcome.REGRESSED, "Slower.", 1.1, muted="Until 2026-12-01 by @jo: waits for 590")
    same = reports.case("a/b", Outcome.UNCHANGED, "Same.", 1.0)
    report = reports.report((muted, same), verdict="pass", exit_code=0)
    assert state_of(report, (), ()) is PublishedState.MUTED
    assert state_of(report, {"a/m"}, ()) is PublishedState.ACCEPTED
