"""Gates that follow the history of their cases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ratchet.common.auto_gate import FEWEST_DAYS, LEAST, MOST, gate_of_history
from ratchet.common.baseline_update import record
from ratchet.core.config import Settings
from ratchet.core.judge.chain import problems
from ratchet.core.judge.gates import with_case_gates
from ratchet.core.judge.rule import GateRule
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.run import CaseRun, Policy, RunRecord, WorkloadIdentity
from ratchet.core.records.verdict import Outcome
from tests import examples

AUTO = Policy(follows_history=True)
NAME = "attention/training_512"


def main_run(day: int, *ratios: float, hours: int = 0, **changes: object) -> RunRecord:
    """A run of main, whose pairs have these ratios."""
    case = examples.compared(*ratios, **changes)
    started = examples.STARTED + timedelta(days=day, hours=hours)
    return examples.run_of(case).model_copy(update={"started_at": started, "policy": AUTO})


def after(baseline: Baseline, *runs: RunRecord, policy: Policy = AUTO) -> Baseline:
    """The baseline once these runs were recorded, one after the other."""
    for run in runs:
        baseline = record(baseline, [(run, judge_run(run, baseline, policy))]).baseline
    return baseline


def entry_of(baseline: Baseline) -> BaselineEntry:
    return baseline.entries(examples.FINGERPRINT)[NAME]


QUIET = (1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0) * 3
NOISY = (1.03, 0.98, 1.02, 0.96, 1.0, 1.01, 0.97, 1.04) * 3


def days(*ratios: float, count: int = FEWEST_DAYS) -> list[RunRecord]:
    return [main_run(day, *ratios) for day in range(count)]


def test_a_gate_takes_five_days() -> None:
    """Before that there is none; then a quiet case has the smallest one, and a noisier case a larger one, within bounds."""
    assert entry_of(after(Baseline(), *days(*QUIET, count=FEWEST_DAYS - 1))).gate is None
    quiet, noisy = (entry_of(after(Baseline(), *days(*ratios))).gate for ratios in (QUIET, NOISY))
    assert quiet == LEAST
    assert noisy
    assert LEAST < noisy <= MOST


@pytest.mark.parametrize(("source", "counted"), [("paired", 1), ("total", 1), ("stored", 0)])
def test_pairs_tell_of_noise_however_they_were_judged(source: str, counted: int) -> None:
    """The pairs of a run count whether their medians or their means decided; a stored figure has none."""
    run = main_run(0, *QUIET)
    report = judge_run(run, Baseline(), AUTO)
    case = report.cases[0]
    assert case.comparison
    case = case.model_copy(update={"comparison": case.comparison.model_copy(update={"source": source})})
    done = record(Baseline(), [(run, report.model_copy(update={"cases": (case,)}))])
    assert len(entry_of(done.baseline).noise) == counted


def test_one_run_a_day_counts() -> None:
    """Ten merges on one day tell nothing of other days."""
    runs = [main_run(0, *QUIET, hours=hour) for hour in range(8)]
    assert len(entry_of(after(Baseline(), *runs)).noise) == 1


def test_the_worst_day_counts() -> None:
    """A gate is one that the case can hold on each day that is known, in whichever order they came."""
    spreads = [0.002, 0.002, 0.02, 0.002, 0.002]
    worst = gate_of_history(spreads, AUTO, 100, 11)
    assert worst == gate_of_history([0.02] * 5, AUTO, 100, 11) == gate_of_history(sorted(spreads), AUTO, 100, 11)
    assert gate_of_history([5.0] * 5, AUTO, 100, 11) == MOST


def test_other_work_starts_a_history_of_its_own() -> None:
    """Days of another workload say nothing; and the chain of the entry is intact all the while."""
    before = after(Baseline(), *days(*QUIET))
    other = WorkloadIdentity(**{**examples.WORKLOAD.model_dump(), "flops": 1.0})
    run = main_run(9, *QUIET, workload=other, reference_workload=other)
    by_settings = after(before, run)
    assert entry_of(by_settings).noise == entry_of(before).noise
    changed = after(before, run.model_copy(update={"head": examples.HEAD.model_copy(update={"commit": "5" * 40})}))
    assert (len(entry_of(before).noise), len(entry_of(changed).noise), entry_of(changed).gate) == (FEWEST_DAYS, 1, None)
    assert problems(before) == problems(changed) == []


def test_without_the_setting_nothing_is_kept() -> None:
    """A baseline file changes no more often than it did."""
    assert entry_of(after(Baseline(), *days(*QUIET), policy=Policy())).noise == ()


def slower(percent: float) -> CaseRun:
    """A case that is slower by so much in each of many sessions, on a quiet machine."""
    pairs = [ratio * (1 + percent / 100) for ratio in QUIET * 2]
    return examples.compared(*pairs)


@pytest.mark.parametrize(("gate", "outcome"), [(0.01, Outcome.REGRESSED), (0.05, Outcome.UNCHANGED)])
def test_a_case_is_judged_and_measured_by_its_own_gate(gate: float, outcome: Outcome) -> None:
    """+2 % fails a case gated at 1 %, passes one gated at 5 %, and the reason names the gate; so does the rule that measures."""
    case = slower(2.0)
    baseline = examples.stored({NAME: examples.first_entry().model_copy(update={"gate": gate})})
    verdict = judge_run(examples.run_of(case), baseline, AUTO).cases[0]
    assert verdict.outcome is outcome
    assert f"gate of {gate:.0%}".replace("%", " %") in verdict.reason
    rule = GateRule(with_case_gates(AUTO, baseline.entries(examples.FINGERPRINT)), 100, {})
    assert bool(rule.changed([case])) == (outcome is Outcome.REGRESSED)


def test_gates_are_those_of_the_baseline_that_judges() -> None:
    """What a run claims its gates to be counts nothing for a judge who has a baseline of their own."""
    claims = AUTO.model_copy(update={"case_gates": {NAME: 0.5}})
    run = examples.run_of(slower(2.0)).model_copy(update={"policy": claims})
    baseline = examples.stored({NAME: examples.first_entry().model_copy(update={"gate": 0.01})})
    assert judge_run(run, baseline, AUTO).cases[0].outcome is Outcome.REGRESSED


def test_a_recorded_run_is_judged_again_by_the_gates_that_it_had() -> None:
    """They are those of its reference; the baseline of a checkout may be the one of the change, which raises its own."""
    own = AUTO.model_copy(update={"case_gates": {NAME: 0.01}})
    raised = examples.stored({NAME: examples.first_entry().model_copy(update={"gate": 0.1})})
    run = examples.run_of(slower(2.0)).model_copy(update={"policy": own})
    again = judge_run(run, raised, Settings().overriding(own, {"on_inconclusive": "fail"}))
    assert [report.exit_code for report in (judge_run(run, raised), again)] == [1, 1]
    auto = Settings(regression_threshold="auto").overriding(own, {"regression_threshold": "auto"})
    assert judge_run(run, raised, auto).exit_code == 0


def test_a_short_history_is_said() -> None:
    """A case without a gate of its own has the default one, and the report says which cases these are."""
    report = judge_run(examples.run_of(examples.compared(*QUIET)), examples.baseline(), AUTO)
    assert f"Too short a history to set a gate by, so it is 3 %, in: {NAME}." in report.warnings
    assert "gate of 3 %" in report.cases[0].reason
