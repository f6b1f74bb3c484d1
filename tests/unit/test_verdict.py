"""A run → its verdict."""

from __future__ import annotations

import examples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.errors import Exit, FingerprintError
from ratchet.judge.verdict import exit_code, headline, judge_run, judge_two
from ratchet.records import Baseline, CaseRun, CaseVerdict, Failure, Outcome, Policy, ReportRecord

POLICY = Policy()
STRICT = Policy(on_inconclusive="fail")
SAME = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999)
NOISE = (0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07)
CRASH = Failure(side="head", stage="measure", message="crashed", last_lines=("boom",))
NOTHING_TIMED = (Outcome.SKIPPED, Outcome.MISSING, Outcome.UNFIT)


def named(name: str, *ratios: float, **changes: object) -> CaseRun:
    return examples.compared(*ratios, name=name, **changes)


def judged(*cases: CaseRun, policy: Policy | None = None, **changes: object) -> ReportRecord:
    return judge_run(examples.run_of(*cases, **changes), Baseline(), policy)


def slower(percent: float) -> tuple[float, ...]:
    return tuple(ratio * (1 + percent / 100) for ratio in SAME)


@pytest.mark.parametrize(
    ("counts", "policy", "code"),
    [
        ({}, POLICY, 3),
        ({Outcome.UNCHANGED: 1}, POLICY, 0),
        ({Outcome.UNCHANGED: 9, Outcome.REGRESSED: 1}, POLICY, 1),
        ({Outcome.FAILED: 1, Outcome.UNFIT: 1}, POLICY, 1),
        ({Outcome.UNCHANGED: 9, Outcome.UNFIT: 1}, POLICY, 3),
        ({Outcome.SKIPPED: 5}, POLICY, 3),
        ({Outcome.MISSING: 5}, POLICY, 3),
        ({Outcome.UNCHANGED: 1, Outcome.SKIPPED: 5, Outcome.MISSING: 1}, POLICY, 0),
        ({Outcome.INCONCLUSIVE: 1, Outcome.UNCHANGED: 1}, POLICY, 0),
        ({Outcome.INCONCLUSIVE: 1, Outcome.UNCHANGED: 1}, STRICT, 3),
        ({Outcome.INCONCLUSIVE: 1, Outcome.REGRESSED: 1}, STRICT, 1),
        ({Outcome.NEW: 1}, POLICY, 0),
        ({Outcome.CHANGED: 1}, POLICY, 0),
        ({Outcome.IDENTICAL: 1}, POLICY, 0),
        ({Outcome.MEASURED: 1}, POLICY, 0),
    ],
)
def test_exit_code(counts: dict[Outcome, int], policy: Policy, code: int) -> None:
    """0 is a pass, 1 a regression or wrong result, 3 no trustworthy answer."""
    assert exit_code(counts, policy) == code


@given(st.dictionaries(st.sampled_from(list(Outcome)), st.integers(0, 3)), st.sampled_from([POLICY, STRICT]))
def test_exit_code_of_anything(counts: dict[Outcome, int], policy: Policy) -> None:
    """Having measured nothing is never 0, and a failure or regression is always 1."""
    code = exit_code(counts, policy)
    if counts.get(Outcome.FAILED) or counts.get(Outcome.REGRESSED):
        assert code is Exit.REGRESSION
    elif all(outcome in NOTHING_TIMED for outcome, count in counts.items() if count) or counts.get(Outcome.UNFIT):
        assert code is Exit.NOT_MEASURED
    else:
        assert code in (Exit.PASS, Exit.NOT_MEASURED)


REPORTS = {
    "pass": (
        (named("a/x", *SAME), named("a/y", *slower(-10)), named("b/x", skipped="needs x")),
        "No regression past the gate of 3 %: 1 improved, 1 unchanged, 1 skipped.",
        "pass",
    ),
    "one slower": (
        (named("c++/x", *slower(4)), named("a/y", *SAME)),
        "Regression: c++/x is 4.00 % slower (gate 3 %).",
        "regression",
    ),
    "three slower": (
        (named("a/x", *slower(4)), named("a/y", *slower(120)), named("a/z", *slower(5)), named("f/x", failures=(CRASH,))),
        "Regression: a/y is 120.00 % slower and 2 more (gate 3 %); 1 failed.",
        "regression",
    ),
    "failed": (
        (named("f/x", failures=(CRASH,)), named("a/x", *SAME), named("f/y", failures=(CRASH,))),
        "Failed: f/x and 1 more. Measure: crashed.",
        "regression",
    ),
    "unfit": (
        (named("a/x", *SAME), named("a/y", *SAME, unfit="Hot.")),
        "Not measured well enough for a verdict: 1 unfit, 1 unchanged.",
        "not measured",
    ),
    "nothing": ((), "Not measured well enough for a verdict: no case.", "not measured"),
    "skipped": ((named("b/x", skipped="x"),), "Not measured well enough for a verdict: 1 skipped.", "not measured"),
    "inconclusive": ((named("a/x", *NOISE),), "No regression past the gate of 3 %: 1 inconclusive.", "pass"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report(name: str) -> None:
    """Each verdict has its headline, and the exit code and counts that belong to it."""
    cases, said, verdict = REPORTS[name]
    found = judged(*cases)
    assert (found.headline, found.verdict) == (said, verdict)
    assert found.exit_code == {"pass": 0, "regression": 1, "not measured": 3}[verdict]
    assert sum(found.counts.values()) == len(cases) == len(found.cases)
    assert not found.headline.endswith("..")


def test_strict() -> None:
    """Where undecided cases fail a run, it is not measured rather than red; the policy given wins over the run's own."""
    found = judged(named("a/x", *NOISE), policy=STRICT)
    assert (found.verdict, found.exit_code, found.policy) == ("not measured", 3, STRICT)
    assert judged(named("a/x", *slower(10)), policy=Policy(regression=0.2)).verdict == "pass"


def test_a_run_compares_nothing() -> None:
    """`ratchet run` times cases and judges none of them."""
    found = judged(named("a/x", *slower(50)), named("a/y", skipped="needs x"), kind="run", reference=None)
    assert [case.outcome for case in found.cases] == [Outcome.MEASURED, Outcome.SKIPPED]
    assert found.headline == "Timed without a comparison: 1 measured, 1 skipped."
    assert found.exit_code == 0


def test_figures_of_a_case() -> None:
    """A verdict carries both sides' figures, the stages' medians, the dropped blocks and the last lines of what failed."""
    staged = [
        examples.blocks(pair, 1.0, 1.0, throttled=[pair % 2], stages_ms={"scores": times})
        for pair, times in enumerate([(0.3, 0.1, 0.2), (0.4,), (0.6,)])
    ]
    case = examples.compared(1.0, 1.0, 1.0, head=tuple(staged), failures=(Failure(side="reference", stage="x", message="m"),))
    failed = named("f/x", failures=(CRASH,))
    first, second = judged(case, failed).cases
    assert first.head is not None
    assert first.reference is not None
    assert first.head.stages_ms == {"scores": 0.4}
    assert first.reference.stages_ms == {}
    assert (first.head.median_ms, first.head.gflops, first.head.peak_memory_bytes) == (1.0, 561_400.0, 192 * 2**20)
    assert first.dropped_blocks == 3
    assert first.last_lines == ()
    assert second.last_lines == ("boom",)


def test_reference_lines_of_an_undecided_case() -> None:
    """Where the reference failed, its last lines are what a reader needs."""
    broken = Failure(side="reference", stage="prepare", message="m", last_lines=("there",))
    (found,) = judged(examples.compared(1.0, 1.0, 1.0, reference=(), reference_workload=None, failures=(broken,))).cases
    assert (found.outcome, found.last_lines) == (Outcome.INCONCLUSIVE, ("there",))


def test_missing_reference_warns() -> None:
    """A run whose whole reference is missing says so before its other warnings."""
    found = judged(named("a/x", *SAME), reference_missing="It did not build.", warnings=("Hot.",))
    assert found.warnings == ("It did not build. The stored baseline stands in for it.", "Hot.")


def test_stored_baseline_informs() -> None:
    """Without a reference the entry of this machine is compared with, and the case stays undecided."""
    case = examples.compared(*SAME, reference=(), reference_workload=None)
    (found,) = judge_run(examples.run_of(case), examples.baseline()).cases
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.comparison is not None
    assert found.comparison.source == "stored"


# Two runs at different times


def two(reference: tuple[CaseRun, ...], head: tuple[CaseRun, ...], policy: Policy = POLICY) -> list[CaseVerdict]:
    return list(judge_two(examples.run_of(*reference), examples.run_of(*head), policy).cases)


def test_other_machines_are_refused() -> None:
    """Runs of different machines or software are not compared; the differences are named."""
    changed = examples.FINGERPRINT.model_copy(update={"driver": "575.1", "triton": None})
    other = examples.run_of(environment=examples.ENVIRONMENT.model_copy(update={"fingerprint": changed}))
    with pytest.raises(FingerprintError) as caught:
        judge_two(other, examples.run_of(), POLICY)
    assert "driver: 580.95.05 here, 575.1 there" in caught.value.message
    assert "triton: 3.5.1 here, None there" in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code is Exit.NOT_MEASURED


@pytest.mark.parametrize(
    ("percent", "outcome"),
    [(0, Outcome.UNCHANGED), (20, Outcome.REGRESSED), (-20, Outcome.IMPROVED), (3.05, Outcome.INCONCLUSIVE)],
)
def test_two_runs(percent: float, outcome: Outcome) -> None:
    """Two runs are compared head against head, and red only if the whole interval lies past the gate."""
    (found,) = two((named("a/x", *SAME),), (named("a/x", *slower(percent)),))
    assert found.outcome is outcome
    assert found.comparison is not None
    assert found.comparison.source == "stored"
    assert found.comparison.ratio == pytest.approx(1 + percent / 100, abs=2e-3)


def test_two_runs_of_different_cases() -> None:
    """Cases of one run only are new or missing, with their figures on their own side."""
    new, gone = two((named("a/gone", *SAME),), (named("a/new", *SAME),))
    assert (new.name, new.outcome, new.reference) == ("a/new", Outcome.NEW, None)
    assert (gone.name, gone.outcome, gone.head) == ("a/gone", Outcome.MISSING, None)
    assert gone.reference is not None


def test_two_runs_with_trouble() -> None:
    """A run that was unfit or failed on either side decides nothing, and a case of neither head is not listed."""
    good = named("a/x", *SAME)
    other_work = examples.WORKLOAD.model_copy(update={"dtype": "float16"})
    past = {
        "unfit then": named("a/x", *SAME, unfit="Hot."),
        "failed then": named("a/x", failures=(CRASH,), workload=None),
        "few then": named("a/x", 1.0, 1.0),
        "changed": named("a/x", *SAME, workload=other_work),
    }
    found = {name: two((case,), (named("a/x", *slower(20)),))[0] for name, case in past.items()}
    assert found["unfit then"].outcome is Outcome.UNFIT
    assert found["failed then"].outcome is Outcome.INCONCLUSIVE
    assert found["failed then"].reason == "The reference run has no time of this case."
    assert found["failed then"].last_lines == ("boom",)
    assert found["few then"].reason.startswith("Fewer than three workers")
    assert found["changed"].outcome is Outcome.CHANGED
    assert two((good,), (named("a/x", failures=(CRASH,)),))[0].outcome is Outcome.FAILED
    assert two((good,), (named("a/x", skipped="needs x"),))[0].outcome is Outcome.SKIPPED
    assert two((named("a/x", in_head=False),), (named("a/x", in_head=False),)) == []


def test_two_runs_forget_their_own_references() -> None:
    """What a run had measured beside its head takes no part in comparing it with another run."""
    broken = Failure(side="reference", stage="prepare", message="m")
    (found,) = two((named("a/x", *SAME),), (named("a/x", *SAME, failures=(broken,), reference=()),))
    assert found.outcome is Outcome.UNCHANGED


def test_two_runs_warn() -> None:
    """The report says that nothing cancels between two times, and names the reference run's commit."""
    other = examples.run_of(head=examples.REFERENCE)
    found = judge_two(other, examples.run_of(warnings=("Hot.",)), POLICY)
    assert "different times" in found.warnings[0]
    assert found.warnings[1:] == ("Hot.",)
    assert (found.head, found.reference) == (examples.HEAD, examples.REFERENCE)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(list(Outcome)), max_size=6), st.sampled_from([POLICY, STRICT]))
def test_headline_of_anything(outcomes: list[Outcome], policy: Policy) -> None:
    """Any mix of outcomes has a headline that counts what it does not name and ends in one full stop."""
    cases = tuple(examples.case(f"a/{index}", outcome, "Why.") for index, outcome in enumerate(outcomes))
    counts = {outcome: outcomes.count(outcome) for outcome in outcomes}
    said = headline(cases, policy, exit_code(counts, policy))
    assert said.endswith(".")
    assert not said.endswith("..")
    assert "\n" not in said
