"""A run → its verdict."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.core.errors import Exit, FingerprintError
from ratchet.core.judge.verdict import changed_cases, exit_code, headline, judge_run, judge_two, worst_first
from ratchet.core.records.baseline import Baseline, Day
from ratchet.core.records.environment import PackageDifference
from ratchet.core.records.run import CaseRun, Failure, OverheadPair, Plan, Policy, Resources
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from tests import examples, history_examples, reports

POLICY = Policy()
STRICT = Policy(on_inconclusive="fail")
SAME = history_examples.STEADY
NOISE = (0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07)
CRASH = Failure(side="head", stage="measure", message="crashed", last_lines=("boom",))
NOTHING_TIMED = (Outcome.SKIPPED, Outcome.MISSING, Outcome.UNFIT)


def named(name: str, *ratios: float, **changes: object) -> CaseRun:
    return examples.compared(*ratios, name=name, **changes)


def judged(*cases: CaseRun, policy: Policy | None = None, **changes: object) -> ReportRecord:
    return judge_run(examples.run_of(*cases, **changes), Baseline(), policy)


def slower(percent: float) -> tuple[float, ...]:
    return tuple(ratio * (1 + percent / 100) for ratio in SAME)


def test_what_is_traced_is_what_the_report_will_profile() -> None:
    """Before there is a run, the cases that changed are those that its report calls changed, in the same order."""
    changes = {"a/same": 0, "b/slow": 10, "c/fast": -20, "d/slowest": 40, "e/faster": -30}
    cases = [named(name, *slower(percent)) for name, percent in changes.items()]
    found = changed_cases(cases, POLICY, pairs=20)
    assert found == ["d/slowest", "b/slow", "e/faster", "c/fast"]
    assert found == [verdict.name for verdict in worst_first(judged(*cases).cases)]


@pytest.mark.parametrize("outcome", [Outcome.REGRESSED, Outcome.SLOWER])
def test_a_slowdown_without_figures_comes_after_those_that_have_them(outcome: Outcome) -> None:
    """A case that is slower and has no comparison is not the worst."""
    cases = [reports.case("a", outcome, "Why."), reports.case("b", outcome, "Why.", 1.1)]
    assert [case.name for case in worst_first(cases)] == ["b", "a"]
    without_proof = "" if outcome is Outcome.REGRESSED else ", but not proven"
    assert headline(cases, POLICY, exit_code({outcome: 2}, POLICY)) == f"2 of 2 cases slower{without_proof}; worst: b +10 %."


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(list(Outcome)), st.integers(0, 2), max_size=4), st.sampled_from([POLICY, STRICT]))
def test_exit_code_of_anything(counts: dict[Outcome, int], policy: Policy) -> None:
    """A failure or regression is 1; else an unproven slowdown, an unfit machine or no measurement is 3; the rest passes."""
    seen = {outcome for outcome, count in counts.items() if count}
    if seen & {Outcome.FAILED, Outcome.REGRESSED}:
        expected = Exit.REGRESSION
    elif seen & {Outcome.SLOWER, Outcome.UNFIT} or seen <= set(NOTHING_TIMED):
        expected = Exit.NOT_MEASURED
    else:
        expected = Exit.NOT_MEASURED if Outcome.INCONCLUSIVE in seen and policy is STRICT else Exit.PASS
    assert exit_code(counts, policy) is expected


FEW = tuple(1.08 * ratio for ratio in SAME[:12])
"""Twelve pairs of a head that is 8 % slower."""
REPORTS = {
    "pass": (
        (named("a/x", *SAME), named("a/y", *slower(-10)), named("b/x", skipped="needs x")),
        "1 of 3 cases faster, none slower by over 3 %; best: a/y −10 %.",
        "pass",
    ),
    "three faster": (
        (named("a/x", *slower(-10)), named("a/y", *slower(-20)), named("a/z", *slower(-15))),
        "3 of 3 cases faster, none slower by over 3 %; best: a/y −20 %.",
        "pass",
    ),
    "one slower": ((named("c++/x", *slower(4)),), "1 of 1 case slower; worst: c++/x +4.0 %.", "regression"),
    "three slower": (
        (named("a/x", *slower(4)), named("a/y", *slower(120)), named("a/z", *slower(5)), named("f/x", failures=(CRASH,))),
        "3 of 4 cases slower, 1 failed; worst: a/y +120 % (2.2×).",
        "regression",
    ),
    "two equally slow": (
        (named("a/y", *slower(4)), named("a/z", *slower(4))),
        "2 of 2 cases slower; worst: a/y +4.0 %.",
        "regression",
    ),
    "one slower, others perhaps": (
        (named("a/x", *slower(4)), named("a/y", *FEW), named("a/z", *FEW), named("f/x", failures=(CRASH,))),
        "1 of 4 cases slower, 2 also slower but not proven, 1 failed; worst: a/x +4.0 %.",
        "regression",
    ),
    "slower without proof": (
        (named("a/x", *SAME), named("a/y", *FEW), named("a/z", *(ratio * 1.01 for ratio in FEW)), named("a/n", *NOISE)),
        "2 of 4 cases slower, but not proven; worst: a/z +9.1 %.",
        "not measured",
    ),
    "failed, and slower without proof": (
        (named("f/x", failures=(CRASH,)), named("a/y", *FEW)),
        "1 of 2 cases failed, 1 slower but not proven: f/x. Measure: crashed.",
        "regression",
    ),
    "failed": (
        (named("f/x", failures=(CRASH,)), named("a/x", *SAME), named("f/y", failures=(CRASH,))),
        "2 of 3 cases failed, such as f/x. Measure: crashed.",
        "regression",
    ),
    "unfit": (
        (named("a/x", *SAME), named("a/y", *SAME, unfit="Hot.")),
        "1 of 2 cases could not be measured: a/y. Hot.",
        "not measured",
    ),
    "nothing": ((), "Nothing was measured: no benchmark.", "not measured"),
    "skipped": ((named("b/x", skipped="x"),), "Nothing was measured: 1 skipped.", "not measured"),
    "inconclusive": (
        (named("a/x", *NOISE), named("a/y", *SAME), named("a/z", 1.0, 1.0)),
        "2 of 3 cases inconclusive, such as a/z.",
        "pass",
    ),
    "one inconclusive": (
        (named("a/x", *NOISE), named("a/y", *(1.01 * ratio for ratio in NOISE))),
        "2 of 2 cases inconclusive, such as a/y: anything from −8 % to +10 %.",
        "pass",
    ),
    "the only one is inconclusive": (
        (named("a/x", *NOISE),),
        "1 of 1 case inconclusive: a/x, anything from −9 % to +9 %.",
        "pass",
    ),
    "new": ((named("a/x", *SAME, in_reference=False),), "Nothing to compare: 1 new.", "pass"),
    "nothing that both sides have": (
        (
            named("a/x", *SAME, in_reference=False),
            named("a/y", *SAME, reference_workload=examples.WORKLOAD.model_copy(update={"dtype": "float16"})),
            named("a/z", in_head=False),
            named("b/x", skipped="needs x"),
        ),
        "Nothing to compare: 1 changed, 1 new, 1 missing, 1 skipped.",
        "pass",
    ),
    "none fit": ((named("a/x", *SAME, unfit="Hot."),), "Nothing was measured: 1 unfit: a/x. Hot.", "not measured"),
    "identical": ((named("a/x", identity={"head": "a", "reference": "a"}),), "Nothing changed: 1 identical.", "pass"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report(name: str) -> None:
    """Each verdict has its headline, the policy of the whole run, and the exit code and counts that belong to it."""
    cases, said, verdict = REPORTS[name]
    found = judged(*cases)
    assert (found.headline, found.verdict, found.policy) == (said, verdict, POLICY)
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
    timed = (examples.blocks(0, 1.0, stages_ms={"scores": (0.3,)}),)
    case = examples.compared(
        1.0, 1.0, 1.0, head=tuple(staged), reference=timed, failures=(Failure(side="reference", stage="x", message="m"),)
    )
    failed = named("f/x", failures=(CRASH,))
    first, second = judged(case, failed).cases
    assert first.head.stages_ms == {"scores": 0.4}
    assert first.reference.stages_ms == {"scores": 0.3}
    assert (first.head.median_ms, first.head.gflops, first.head.peak_memory_bytes) == (1.0, 561_400.0, 192 * 2**20)
    assert first.dropped_blocks == 3
    assert first.last_lines == ()
    assert second.last_lines == ("boom",)


def test_reference_lines_of_an_undecided_case() -> None:
    """Where the reference failed, its last lines are what a reader needs, and not why its code was not taken for identical."""
    broken = Failure(side="reference", stage="prepare", message="m", last_lines=("there",))
    untimed: dict[str, object] = {"reference": (), "reference_workload": None, "opaque": "the GPU waits for the host"}
    (found,) = judged(named("a/x", *SAME, failures=(broken,), **untimed)).cases
    assert (found.outcome, found.last_lines, found.timed_because) == (Outcome.INCONCLUSIVE, ("there",), None)


def test_missing_reference_warns() -> None:
    """A run whose whole reference is missing says so before its other warnings."""
    found = judged(named("a/x", *SAME), reference_missing="It did not build.", warnings=("Hot.",))
    assert found.warnings == ("It did not build. The stored baseline stands in for it.", "Hot.")


def test_a_new_case_that_does_the_work_of_one_that_went() -> None:
    """A new case whose work is that of a missing one is named with it, and how to keep its history if the baseline has any."""
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    cases = (history_examples.new("a/new"), history_examples.gone("a/old"), history_examples.new("a/other", workload=other))
    assert judged(*cases).cases[0].reason.endswith("It does the work of a/old, which is gone.")
    found = judge_run(examples.run_of(*cases), examples.stored({"a/old": examples.first_entry("a/old")}))
    assert [case.outcome for case in found.cases] == [Outcome.NEW, Outcome.MISSING, Outcome.NEW]
    assert found.cases[0].reason == (
        "The reference has no such case; it is timed alone. It does the work of a/old, which is gone. "
        "If it was renamed: `ratchet baseline rename a/old a/new`."
    )
    assert found.cases[2].reason == "The reference has no such case; it is timed alone."


def test_a_baseline_that_was_edited_warns() -> None:
    """A baseline file whose chain does not hold is named before the other warnings, with how many more there are."""
    entries = {name: examples.first_entry(name).model_copy(update={"median_ms": 0.052}) for name in ("a/x", "a/y")}
    for count, more in ((1, ""), (2, " (and 1 more)")):
        stored = examples.stored(dict(list(entries.items())[:count]))
        found = judge_run(examples.run_of(named("a/x", *SAME), warnings=("Hot.",)), stored)
        assert found.warnings[0].startswith("The baseline file does not fit together: a/x")
        assert found.warnings[0].endswith(more)
        assert found.warnings[1:] == ("Hot.",)
    assert judge_run(examples.run_of(named("a/x", *SAME)), examples.baseline()).warnings == ()


# What the cases of a run share


FAINT = tuple(0.925 if pair in (5, 15) else 1.08 for pair in range(21))
"""+8 % in all but two of 21 pairs: by chance once in 9,000."""


def plan_of(pairs: int) -> Plan:
    return examples.PLAN.model_copy(update={"pairs": pairs})


@pytest.mark.parametrize(
    ("others", "pairs", "missing"),
    [
        (0, 21, ""),
        (0, 100, ""),
        (0, 400, "The randomisation test has p = "),  # which looks more often
        (1, 100, "The randomisation test has p = 0.00011, and a regression needs 9e-05 or less: "),
        (3, 21, ""),
        (4, 21, "A regression needs hosts that were started 7 times, and these were 6 times: "),
    ],
)
def test_cases_and_looks_share_the_false_alarms(others: int, pairs: int, missing: str) -> None:
    """A case with faint evidence is red alone and among a few, and slower without proof among more, or with more looks."""
    cases = [named("a/faint", *FAINT), *(named(f"b/{index}", *SAME) for index in range(others))]
    found = judged(*cases, plan=plan_of(pairs))
    assert found.cases[0].outcome is (Outcome.SLOWER if missing else Outcome.REGRESSED)
    assert missing in found.cases[0].reason
    assert found.exit_code == (3 if missing else 1)


def test_what_was_not_compared_takes_no_share() -> None:
    """Cases that failed, were skipped, are new or were found identical leave the level of the others as it is."""
    idle = (
        named("f/x", failures=(CRASH,), head=(), reference=()),
        named("s/x", skipped="needs x"),
        *(history_examples.new(f"n/{index}") for index in range(8)),
        named("i/x", identity={"head": "a", "reference": "a"}),
    )
    (alone,) = judged(named("a/faint", *FAINT), plan=plan_of(21)).cases
    found = judged(named("a/faint", *FAINT), *idle, plan=plan_of(21)).cases[0]
    assert (found.outcome, found.comparison) == (alone.outcome, alone.comparison)
    assert alone.outcome is Outcome.REGRESSED


def test_noise_that_persists_counts_for_every_case() -> None:
    """Where the cases of a run show together that noise persists, what one case would prove alone is not proven."""
    wave = [named(f"w/{turn}", *(1 + 0.02 * math.sin(pair / 3) for pair in range(40))) for turn in range(8)]
    slow = named("a/slow", *(1.06 * ratio for ratio in SAME))
    assert judged(slow).cases[0].outcome is Outcome.REGRESSED
    found = judged(slow, *wave).cases[0]
    assert found.outcome is Outcome.SLOWER
    assert "The noise of this machine persists from pair to pair" in found.reason


@pytest.mark.parametrize(("pairs", "known"), [(19, False), (20, True), (100, True)])
def test_the_smallest_slowdown_is_of_the_plan(pairs: int, known: bool) -> None:
    """A comparison says what slowdown would have been red, unless the plan has too few pairs for any."""
    (found,) = judged(named("a/x", *SAME[:6]), plan=plan_of(pairs)).cases
    assert (found.comparison.detectable is not None) is known
    assert not known or 0.03 < (found.comparison.detectable or 0) < 0.032


# What is shown of a case


@pytest.mark.parametrize("head_median", [1.0, 3.0])
def test_times_differ_by_the_change(head_median: float) -> None:
    """The times of both sides differ by exactly the change that the pairs show, and rates and shares go with them."""
    performances = {"performance": examples.performance(head_median), "reference_performance": examples.performance(1.2)}
    (found,) = judged(named("a/x", *slower(5), **performances)).cases
    head, reference, comparison = found.head, found.reference, found.comparison
    assert head.median_ms / reference.median_ms == pytest.approx(comparison.ratio, rel=1e-12)
    assert head.median_ms * reference.median_ms == pytest.approx(head_median * 1.2)
    for side, median_ms, shown in ((head, head_median, performances["performance"]), (reference, 1.2, None)):
        before = shown or performances["reference_performance"]
        assert side.gflops * side.median_ms == pytest.approx(before.throughput_gflops * median_ms)
        assert side.gb_s * side.median_ms == pytest.approx(before.bandwidth_gb_s * median_ms)
        assert side.peak_memory_bytes == before.peak_memory_bytes


def test_times_of_two_runs_are_those_measured() -> None:
    """Where nothing was paired, each side is shown as it was measured."""
    performances = {"performance": examples.performance(3.0), "reference_performance": examples.performance(1.2)}
    (found,) = two((named("a/x", *SAME, performance=examples.performance(1.2)),), (named("a/x", *SAME, **performances),))
    assert (found.head.median_ms, found.reference.median_ms) == (3.0, 1.2)


@pytest.mark.parametrize("untold", [("performance",), ("reference_performance",), ("performance", "reference_performance")])
def test_a_record_without_figures_is_judged_by_its_samples(untold: tuple[str, ...]) -> None:
    """Where a record leaves out the figures of a side, the outcome is the same, and no times of that side are shown."""
    slow_now_and_then = tuple(examples.blocks(pair, *([1.0] * 7), 3.0) for pair in range(40))
    usual = tuple(examples.blocks(pair, *([1.0] * 8)) for pair in range(40))
    for case in (named("a/x", *slower(5)), named("a/total", head=slow_now_and_then, reference=usual)):
        (told,) = judged(case).cases
        (found,) = judged(case.model_copy(update=dict.fromkeys(untold))).cases
        assert (found.outcome, found.comparison) == (told.outcome, told.comparison)
        assert told.outcome is Outcome.REGRESSED
        assert (found.head is None, found.reference is None) == ("performance" in untold, "reference_performance" in untold)
        assert found.memory is None


MIB = 1 << 20


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (20 * MIB, 22 * MIB + 1, "A call takes 22.0 MiB of memory; the reference takes 20.0 MiB."),
        (20 * MIB, 22 * MIB, None),
        (MIB, 2 * MIB, "A call takes 2.00 MiB of memory; the reference takes 1.00 MiB."),
        (MIB, 2 * MIB - 1, None),
        (MIB, MIB // 2, None),
    ],
)
def test_a_case_that_takes_more_memory_says_so(before: int, after: int, said: str | None) -> None:
    """A head that takes over 10 % and 1 MiB more memory than the reference says how much each takes."""
    head, reference = (examples.performance(1.0).model_copy(update={"peak_memory_bytes": peak}) for peak in (after, before))
    (found,) = judged(named("a/x", *SAME, performance=head, reference_performance=reference)).cases
    assert found.memory == said


@pytest.mark.parametrize(("count", "outcome"), [(1, Outcome.REGRESSED), (200, Outcome.SLOWER)])
def test_cases_that_are_held_to_earlier_days_share_the_false_alarms(count: int, outcome: Outcome) -> None:
    """What proves a slowdown of one case alone may be chance in one of 200, of which any may make the run red."""
    days = tuple(
        Day(timestamp=examples.STARTED - timedelta(days=1 + day), median_ms=ms)
        for day, ms in enumerate((1.0, 1.012, 0.99, 1.008, 0.995, 0.988, 1.01, 1.002))
    )
    names = [f"a/{number}" for number in range(count)]
    entries = {name: examples.first_entry(name).model_copy(update={"days": days}) for name in names}
    cases = [named(name, *slower(9), reference=(), reference_workload=None) for name in names]
    report = judge_run(examples.run_of(*cases), examples.stored(entries))
    assert report.counts == {outcome: count}


# Held to the best commit


def drifted(here: float, whole: float, **changes: object) -> ReportRecord:
    """One case, slower by so many percent than its reference, and than the best commit of the baseline."""
    best = named("a/x", *slower(whole), reference_tree=examples.REFERENCE, **changes)
    return judged(named("a/x", *slower(here)), best=(best,))


HELD = "1 of 1 case slower; worst: a/x +4.1 % against the best commit."
NO_SLOWER = "No case is slower by over 3 %: 1 unchanged."


@pytest.mark.parametrize(
    ("here", "whole", "outcome", "said"),
    [
        (1.2, 4.1, Outcome.REGRESSED, HELD),
        (0.5, 4.1, Outcome.REGRESSED, HELD),
        (1.2, 2.0, Outcome.UNCHANGED, NO_SLOWER),
        (0.0, 4.1, Outcome.UNCHANGED, NO_SLOWER),
        (-1.0, 4.1, Outcome.UNCHANGED, NO_SLOWER),
        (5.0, 9.0, Outcome.REGRESSED, "1 of 1 case slower; worst: a/x +5.0 %."),
        (-10, 4.1, Outcome.IMPROVED, "1 of 1 case faster, none slower by over 3 %; best: a/x −10 %."),
    ],
)
def test_held_to_the_best_commit(here: float, whole: float, outcome: Outcome, said: str) -> None:
    """A small slowdown that leaves a case past the gate against the best commit is red, and the headline says against what."""
    found = drifted(here, whole)
    (case,) = found.cases
    assert (case.outcome, found.headline) == (outcome, said)
    assert case.best.ratio == pytest.approx(1 + whole / 100, abs=1e-4)
    assert case.comparison.ratio == pytest.approx(1 + here / 100, abs=1e-4)
    assert case.best_tree == examples.REFERENCE


def test_the_largest_slowdown_leads_whatever_it_is_slower_than() -> None:
    """The headline names the case that is slowest against what made it red."""
    best = named("a/x", *slower(6), reference_tree=examples.REFERENCE)
    found = judged(named("a/x", *slower(1.5)), named("a/y", *slower(4)), best=(best,))
    assert found.headline == "2 of 2 cases slower; worst: a/x +6.0 % against the best commit."


@pytest.mark.parametrize("changes", [{"reference_tree": None}, {"reference": ()}])
def test_nothing_known_of_the_best_commit(changes: dict[str, object]) -> None:
    """A best commit that could not be measured, or that no tree names, changes nothing."""
    (found,) = (
        drifted(1.2, 4.1, **changes).cases
        if "reference" in changes
        else judged(named("a/x", *slower(1.2)), best=(named("a/x", *slower(4.1)),)).cases
    )
    assert (found.outcome, found.best, found.best_tree) == (Outcome.UNCHANGED, None, None)


def test_an_unfit_machine_says_nothing_of_the_best_commit() -> None:
    """What cannot be trusted turns no case red."""
    found = drifted(1.2, 4.1, unfit="Another process used the GPU.")
    assert (found.exit_code, found.cases[0].best) == (0, None)


@pytest.mark.parametrize(("has_reference", "outcome"), [(True, Outcome.FAILED), (False, Outcome.UNCHANGED)])
def test_a_head_that_fails_beside_the_best_commit_fails(has_reference: bool, outcome: Outcome) -> None:
    """A wrong result that comes now and then is one, unless it was held against nothing but the result of the best commit."""
    (found,) = drifted(1.2, 2.0, failures=(CRASH,), has_reference=has_reference).cases
    assert found.outcome is outcome


# Two runs at different times


def two(reference: tuple[CaseRun, ...], head: tuple[CaseRun, ...], policy: Policy = POLICY) -> list[CaseVerdict]:
    return list(judge_two(examples.run_of(*reference), examples.run_of(*head), policy).cases)


def test_two_runs_are_compared_by_the_figures_of_their_heads() -> None:
    """The reference that a run had beside its head is of no commit that is compared: neither its kernels nor its memory count."""
    spilling = Resources(spills=48, registers=64, code_size=1000, launches=1)
    lean = spilling.model_copy(update={"spills": 0})
    pairs = (OverheadPair(head_ms=200, reference_ms=100),) * 10
    usual = named("a/x", *SAME, resources={"head": spilling, "reference": spilling}, memory_before={"head": 2 * MIB})
    beside = {
        "resources": {"head": spilling, "reference": lean},
        "memory_before": {"head": 4 * MIB, "reference": 512 * MIB},
        "overheads": {"compile_time": pairs},
        "has_reference": False,
        "agreement": 0.0,
    }
    changed = usual.model_copy(update=beside)
    (found,) = two((usual,), (changed,), Policy(gates={"compile_time": "warn"}))
    assert found.memory is None
    assert found.unchecked == "No expected result is given: nothing says whether its result is right."
    (found,) = two((usual,), (changed,), Policy(memory_limit_bytes=MIB))
    assert found.reason.endswith("more than its limit of 1.00 MiB; the reference takes 2.00 MiB.")
    (found,) = two((usual.model_copy(update=beside | {"resources": {"head": lean}}),), (changed,))
    assert found.memory == "A thread spills up to 48 bytes of registers to memory; in the reference 0 bytes."


def test_other_machines_are_refused() -> None:
    """Runs of different machines or software are not compared; the first four differences are named, and what to do."""
    changes = {"gpu_power_limit_w": 600, "mig": "on", "driver": "575.1", "cuda": "12.8", "triton": None}
    changed = examples.FINGERPRINT.model_copy(update=changes)
    other = examples.run_of(environment=examples.ENVIRONMENT.model_copy(update={"fingerprint": changed}))
    with pytest.raises(FingerprintError) as caught:
        judge_two(other, examples.run_of(), POLICY)
    assert caught.value.message == (
        "These runs were measured on different machines or software (gpu_power_limit_w: 700.0 here, 600 there; mig: off here, on "
        "there; driver: 580.95.05 here, 575.1 there; cuda: 13.0 here, 12.8 there)."
    )
    assert caught.value.hint == "Measure both on one machine; `ratchet check` does that in one go."
    assert caught.value.exit_code is Exit.NOT_MEASURED


@pytest.mark.parametrize(
    ("percent", "outcome"),
    [(0, Outcome.UNCHANGED), (20, Outcome.REGRESSED), (-20, Outcome.IMPROVED), (3.05, Outcome.INCONCLUSIVE)],
)
def test_two_runs(percent: float, outcome: Outcome) -> None:
    """Two runs are compared head against head, and red only if the whole interval lies past the gate."""
    (found,) = two((named("a/x", *SAME),), (named("a/x", *slower(percent)),))
    assert found.outcome is outcome
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
        "few then": named("a/x", 0.5, 0.5),
        "changed": named("a/x", *SAME, workload=other_work),
    }
    found = {name: two((case,), (named("a/x", *slower(20)),))[0] for name, case in past.items()}
    assert found["unfit then"].outcome is Outcome.UNFIT
    assert found["failed then"].outcome is Outcome.INCONCLUSIVE
    assert found["failed then"].reason == "The reference run has no time of this case."
    assert found["failed then"].last_lines == ("boom",)
    few = "Fewer than three workers were measured on a side, too few for an interval"
    assert found["few then"].reason == f"{few}; the medians differ by +140.00 %."
    nothing = named("a/x", *SAME, reference=())
    slowed = tuple(examples.blocks(pair, 1.0, throttled=[0]) for pair in range(3))
    assert two((nothing.model_copy(update={"head": slowed}),), (nothing,))[0].reason == f"{few}."
    assert found["changed"].outcome is Outcome.CHANGED
    assert two((good,), (named("a/x", failures=(CRASH,)),))[0].outcome is Outcome.FAILED
    assert two((good,), (named("a/x", skipped="needs x"),))[0].outcome is Outcome.SKIPPED
    assert two((named("a/x", in_head=False),), (named("a/x", in_head=False),)) == []


def test_two_runs_forget_their_own_references() -> None:
    """What a run had measured beside its head takes no part in comparing it with another run."""
    broken = Failure(side="reference", stage="prepare", message="m")
    (found,) = two((named("a/x", *SAME),), (named("a/x", *SAME, failures=(broken,), reference=()),))
    assert found.outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"opaque": "the GPU waits for the host"}, "the GPU waits for the host"),
        ({"identity": {"head": "a" * 64, "reference": "b" * 64}}, "its launches, machine code or data differ"),
        ({"identity": {"head": "a" * 64, "reference": "a" * 64}}, None),
        ({}, None),
        (
            {"opaque": "the GPU waits for the host", "host_difference": "ops.py: BLOCK changed"},
            "the GPU waits for the host; ops.py: BLOCK changed",
        ),
    ],
)
def test_why_a_case_without_a_change_was_timed(changes: dict[str, object], why: str | None) -> None:
    """A case on a GPU that shows no change says why its code could not be taken for identical."""

    def found(percent: float, device: str, **more: object) -> CaseVerdict:
        workload = examples.WORKLOAD.model_copy(update={"device": device})
        fields = changes | more | {"workload": workload, "reference_workload": workload}
        return judged(named("a/x", *slower(percent), **fields)).cases[0]

    assert (found(0, "cuda").outcome, found(0, "cuda").timed_because) == (Outcome.UNCHANGED, why)
    assert found(20, "cuda").timed_because is None
    assert found(0, "cpu").timed_because == changes.get("host_difference")
    assert found(0, "cpu", host_difference="ops.py: BLOCK changed").timed_because == "ops.py: BLOCK changed"


def test_identical_code_of_two_runs() -> None:
    """What a check found identical to its own reference is identical to another run's head only if the digests agree."""
    then = named("a/x", identity={"head": "a", "reference": "a"})
    for digest, outcome in (("a", Outcome.IDENTICAL), ("b", Outcome.UNFIT)):
        (found,) = two((then,), (named("a/x", identity={"head": digest, "reference": digest}),))
        assert found.outcome is outcome
    (found,) = two((named("a/x", *SAME),), (then,))
    assert (found.outcome, found.reason) == (Outcome.UNFIT, "Nothing was measured.")


def test_host_code_of_two_runs_is_not_compared() -> None:
    """Two runs may have had two environments, so equal host code says nothing there."""
    for fields in ({"host_same": True}, {"host_code": {"head": "a", "reference": "a"}}):
        same = named("a/x", **fields)
        assert judged(same).cases[0].outcome is Outcome.IDENTICAL
        assert two((same,), (same,))[0].outcome is Outcome.UNFIT
    differs = named("a/x", *SAME, host_difference="ops.py: BLOCK changed")
    assert [case.timed_because for case in two((differs,), (differs,))] == [None]


def test_a_case_that_the_second_run_lacks_has_the_figures_of_the_first_alone() -> None:
    """Its times are those of the reference, none are shown of a head, and that it was skipped then does not matter."""
    then = named("a/x", *SAME, performance=examples.performance(2.0), has_reference=False)
    (found,) = two((then,), ())
    assert (found.outcome, found.head, found.unchecked) == (Outcome.MISSING, None, None)
    assert found.reference.median_ms == 2.0
    assert two((named("a/x", skipped="needs x"),), ())[0].outcome is Outcome.MISSING


def test_two_runs_share_the_false_alarms() -> None:
    """The cases that both runs have share the level equally: 0.09 % / 3 is enough for p = 0.029 %, and 0.09 % / 4 is not."""
    for others, outcome in ((2, Outcome.REGRESSED), (3, Outcome.SLOWER)):
        same = [named(f"b/{index}", 1.0, 1.0, 1.0) for index in range(others)]
        then = (named("a/x", 0.98, 1.02, 1.0, 0.99), *same)
        (found, *_) = two((*then, named("a/gone", *SAME)), (named("a/x", 1.06, 1.08, 1.1, 1.07), *same, named("a/new", *SAME)))
        assert found.outcome is outcome


def test_two_runs_warn() -> None:
    """The report says that nothing cancels between two times, and names the reference run's commit."""
    other = examples.run_of(head=examples.REFERENCE)
    found = judge_two(other, examples.run_of(warnings=("Hot.",), reference=None), POLICY)
    assert found.warnings == (
        "The two sides were measured at different times. Clock speed, heat and other load do not cancel out as they do in "
        "`ratchet check`.",
        "Hot.",
    )
    assert judge_two(other, examples.run_of(bench_from="head"), POLICY).bench_from is None  # each has its own benchmarks
    assert (found.head, found.reference) == (examples.HEAD, examples.REFERENCE)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(list(Outcome)), max_size=6), st.sampled_from([POLICY, STRICT]))
def test_headline_of_anything(outcomes: list[Outcome], policy: Policy) -> None:
    """Any mix of outcomes has a headline that counts what it does not name and ends in one full stop."""
    cases = tuple(reports.case(f"a/{index}", outcome, "Why.") for index, outcome in enumerate(outcomes))
    counts = {outcome: outcomes.count(outcome) for outcome in outcomes}
    said = headline(cases, policy, exit_code(counts, policy))
    assert said.endswith(".")
    assert not said.endswith("..")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, None),
        ({"has_reference": False}, "No expected result is given: nothing says whether its result is right."),
        (
            {"has_reference": False, "agreement": 1e-4},
            "No expected result is given: both sides agree within 1e-4, and nothing else was checked.",
        ),
        (
            {"has_reference": False, "agreement": 0.06},
            "No expected result is given: both sides agree within 6e-2, and nothing else was checked.",
        ),
        (
            {"has_reference": False, "agreement": 0.0},
            "No expected result is given: both sides agree exactly, and nothing else was checked.",
        ),
        ({"has_reference": False, "head": ()}, None),
    ],
)
def test_results_without_a_reference(fields: dict[str, object], said: str | None) -> None:
    """A timed case without a reference says what was checked of its result instead; every other case says nothing."""
    (case,) = judged(named("a/b", *SAME, **fields)).cases
    assert case.unchecked == said


def test_sides_in_two_environments_are_told_apart_by_what_they_launch() -> None:
    """The first warning names the packages; of one source on both sides, others say which cases it compiled otherwise."""
    differs = (
        PackageDifference(name="triton", head="3.6.0", reference="3.5.1"),
        PackageDifference(name="new", head="1", reference=None),
    )
    environment = examples.ENVIRONMENT.model_copy(update={"differs": differs})
    alike, apart = {"head": "a", "reference": "a"}, {"head": "a", "reference": "b"}
    cases = [
        named("a/alike", *SAME, identity=alike, reference_workload=None),
        named("b/apart", *SAME, identity=apart),
        named("c/unknown", *SAME, identity={"head": "a"}),
    ]
    same_source = judged(*cases, environment=environment, reference=examples.run_of(*cases).head).warnings
    assert same_source[:3] == (
        "Each side ran in an environment of its own: triton 3.6.0 against 3.5.1, new 1 against none.",
        "The same source gives other machine code, or other kernels, in: b/apart.",
        "The same kernels are launched, so only the host can differ, in: a/alike.",
    )
    assert judged(*cases, environment=environment).warnings[:1] == same_source[:1]
    assert same_source[1] not in judged(*cases, environment=environment).warnings
    assert same_source[1] not in judged(*cases, reference=examples.run_of(*cases).head).warnings
