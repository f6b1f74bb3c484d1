"""A run → the report: an outcome for each case, one verdict for the whole, one headline."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ratchet import units
from ratchet.errors import Exit, FingerprintError
from ratchet.judge.chain import problems
from ratchet.judge.drift import held_to_best
from ratchet.judge.levels import shared
from ratchet.judge.outcome import Finding, compared, decide_apart, judge_alone, judge_case
from ratchet.judge.roof import Roofs, measured_roofs, share
from ratchet.judge.steps import likely_renames
from ratchet.records.baseline import Baseline, BaselineEntry
from ratchet.records.policy import Policy
from ratchet.records.run import CaseRun, Performance, RunRecord, Side, WorkerSamples, WorkloadIdentity
from ratchet.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary
from ratchet.stats.comparison import compare_stored, medians_ms

RED = (Outcome.FAILED, Outcome.REGRESSED)


def judge_run(run: RunRecord, baseline: Baseline, policy: Policy | None = None) -> ReportRecord:
    """Judge every case of a run by ``policy`` (its own where None)."""
    rule = policy or run.policy
    stored = baseline.entries(run.environment.fingerprint)
    roofs = measured_roofs(run.cases, stored, run.environment.l2_bytes)
    if run.kind == "run":
        verdicts = tuple(_verdict(case, judge_alone(case), roofs) for case in run.cases)
        return _report(run, verdicts, rule, run.warnings)
    found = {case.name: compared(case, rule.confidence) for case in run.cases}
    policies = shared(found, rule, run.plan.pairs)
    best = {case.name: case for case in run.best}
    verdicts = tuple(
        _checked(case, found[case.name], policies[case.name], stored.get(case.name), best.get(case.name), roofs)
        for case in run.cases
    )
    return _report(run, tuple(_with_hints(verdicts, run)), rule, (*_warnings(run, baseline), *run.warnings))


def _warnings(run: RunRecord, baseline: Baseline) -> list[str]:
    """What a reader should know before any outcome."""
    missing = [f"{run.reference_missing} The stored baseline stands in for it."] if run.reference_missing else []
    broken = problems(baseline)
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return [*missing, *(f"The baseline file does not fit together: {first}{more}" for first in broken[:1])]


def _with_hints(verdicts: Sequence[CaseVerdict], run: RunRecord) -> Iterator[CaseVerdict]:
    """The verdicts; a new case that does the work of one that went is told how to keep its history."""
    renamed = likely_renames(run)
    for case in verdicts:
        if case.outcome is Outcome.NEW and case.name in renamed:
            old = renamed[case.name]
            hint = f"It does the work of {old}, which went: if it was renamed, `ratchet baseline rename {old} {case.name}`."
            yield case.model_copy(update={"reason": f"{case.reason} {hint}"})
        else:
            yield case


def _checked(
    case: CaseRun, found: Comparison | None, policy: Policy, stored: BaselineEntry | None, best: CaseRun | None, roofs: Roofs
) -> CaseVerdict:
    finding = judge_case(case, found, policy, stored)
    whole = compared(best, policy.confidence) if best else None
    if best is None or whole is None or best.reference_tree is None:
        return _verdict(case, finding, roofs)
    verdict = _verdict(case, held_to_best(finding, whole, best.reference_tree, policy), roofs)
    return verdict.model_copy(update={"best": whole, "best_tree": best.reference_tree})


def judge_two(reference: RunRecord, head: RunRecord, policy: Policy) -> ReportRecord:
    """Two runs of one machine at different times. Raises FingerprintError where the machines or software differ.

    Nothing cancels between two times, so a case is red only if its whole interval lies past the gate.
    """
    differences = head.environment.fingerprint.differences(reference.environment.fingerprint)
    if differences:
        raise FingerprintError(
            f"These runs were measured on different machines or software ({'; '.join(differences[:4])}).",
            "Measure both on one machine; `ratchet check` does that in one go.",
        )
    heads = {case.name: case for case in head.cases if case.in_head}
    others = {case.name: case for case in reference.cases if case.in_head}
    roofs = measured_roofs(head.cases, {}, head.environment.l2_bytes)
    each = policy.shared(len(heads.keys() & others.keys()))
    verdicts = []
    for name in dict.fromkeys((*heads, *others)):
        joined = _joined(name, heads, others)
        verdicts.append(_verdict(joined, _judge_apart(joined, each), roofs))
    joined_run = head.model_copy(update={"reference": reference.head, "kind": "check"})
    warning = "The sides were measured at different times: clocks, heat and neighbours do not cancel as in a check."
    return _report(joined_run, tuple(verdicts), policy, (warning, *head.warnings))


def _joined(name: str, heads: Mapping[str, CaseRun], others: Mapping[str, CaseRun]) -> CaseRun:
    """One case of two runs: of each run its head; what a run had beside it does not matter here."""
    head, other = heads.get(name), others.get(name)
    case = heads[name] if name in heads else others[name]
    sides: tuple[tuple[Side, CaseRun | None], ...] = (("head", head), ("reference", other))
    return case.model_copy(
        update={
            "head": head.head if head else (),
            "workload": head.workload if head else None,
            "performance": head.performance if head else None,
            "identity": {side: run.identity["head"] for side, run in sides if run and "head" in run.identity},
            "reference": other.head if other else (),
            "reference_workload": other.workload if other else None,
            "reference_performance": other.performance if other else None,
            "failures": tuple(
                failure.model_copy(update={"side": side})
                for side, run in sides
                if run
                for failure in run.failures
                if failure.side == "head"
            ),
            "skipped": head.skipped if head else None,
            "unfit": next((run.unfit for _, run in sides if run and run.unfit), None),
            "in_head": head is not None,
            "in_reference": other is not None,
        }
    )


def _judge_apart(case: CaseRun, policy: Policy) -> Finding:
    settled = judge_alone(case)
    if settled[0] is not Outcome.MEASURED:
        return settled
    if not case.in_reference or (case.reference_workload and case.workload != case.reference_workload):
        return judge_case(case, None, policy, None)
    if not case.reference:
        return Outcome.INCONCLUSIVE, "The reference run has no time of this case.", None
    found = compare_stored(medians_ms(case.head), medians_ms(case.reference), policy.confidence)
    if found is None:
        return Outcome.INCONCLUSIVE, "Fewer than three workers were measured on a side, too few for an interval.", None
    return (*decide_apart(found, policy), found)


def _verdict(case: CaseRun, finding: Finding, roofs: Roofs) -> CaseVerdict:
    outcome, reason, comparison = finding
    side = "reference" if outcome is Outcome.INCONCLUSIVE else "head"
    lines = next((failure.last_lines for failure in case.failures if failure.side == side), ())
    dropped = sum(block.throttled for worker in (*case.head, *case.reference) for block in worker.blocks)
    return CaseVerdict(
        name=case.name,
        outcome=outcome,
        reason=reason,
        comparison=comparison,
        head=_summary(case.performance, case.workload, case.head, roofs),
        reference=_summary(case.reference_performance, case.reference_workload, case.reference, roofs),
        last_lines=lines,
        dropped_blocks=dropped,
    )


def _summary(
    done: Performance | None, workload: WorkloadIdentity | None, workers: tuple[WorkerSamples, ...], roofs: Roofs
) -> SideSummary | None:
    if done is None or workload is None:
        return None
    found = share(workload, done.median_time_ms * 1e-3, roofs)
    stages = {
        name: statistics.median(statistics.median(worker.stages_ms[name]) for worker in workers if name in worker.stages_ms)
        for name in (workers[0].stages_ms if workers else ())
    }
    return SideSummary(
        median_ms=done.median_time_ms,
        gflops=done.throughput_gflops,
        gb_s=done.bandwidth_gb_s,
        peak_memory_bytes=done.peak_memory_bytes,
        roof=found.roof if found else None,
        share_of_roof=found.share if found else None,
        cached=found.cached if found else None,
        stages_ms=stages,
    )


def _report(run: RunRecord, cases: tuple[CaseVerdict, ...], policy: Policy, warnings: tuple[str, ...]) -> ReportRecord:
    counts = Counter(case.outcome for case in cases)
    code = exit_code(counts, policy)
    verdict = {Exit.PASS: "pass", Exit.REGRESSION: "regression"}.get(code, "not measured")
    return ReportRecord.model_validate(
        {
            "verdict": verdict,
            "headline": headline(cases, policy, code),
            "exit_code": int(code),
            "counts": {outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
            "cases": cases,
            "policy": policy,
            "plan": run.plan,
            "environment": run.environment,
            "head": run.head,
            "reference": run.reference,
            "started_at": run.started_at,
            "wall_s": run.wall_s,
            "command": run.command,
            "warnings": warnings,
        }
    )


def exit_code(counts: Mapping[Outcome, int], policy: Policy) -> Exit:
    """0 pass, 1 regression or wrong result, 3 not measured. Having measured nothing is never a pass."""
    if any(counts.get(outcome) for outcome in RED):
        return Exit.REGRESSION
    idle = (Outcome.SKIPPED, Outcome.MISSING, Outcome.UNFIT)
    if counts.get(Outcome.UNFIT) or not any(count for outcome, count in counts.items() if outcome not in idle):
        return Exit.NOT_MEASURED
    if counts.get(Outcome.INCONCLUSIVE) and policy.on_inconclusive == "fail":
        return Exit.NOT_MEASURED
    return Exit.PASS


def headline(cases: tuple[CaseVerdict, ...], policy: Policy, code: Exit) -> str:
    """The first line anyone reads."""
    gate = units.threshold(policy.regression)
    red = (case for case in cases if case.outcome is Outcome.REGRESSED)
    slower = sorted(((_slowdown(case, policy), case) for case in red), key=lambda each: each[0], reverse=True)
    failed = [case for case in cases if case.outcome is Outcome.FAILED]
    rest = _counted(cases)
    if slower:
        (by, than), worst = slower[0]
        more = f" and {len(slower) - 1} more" if len(slower) > 1 else ""
        failures = f"; {len(failed)} failed" if failed else ""
        return f"Regression: {worst.name} is {units.percent(by - 1, 2)} slower{than}{more} (gate {gate}){failures}."
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"Failed: {failed[0].name}{more}. {failed[0].reason}"
    if code is Exit.NOT_MEASURED:
        return f"Not measured well enough for a verdict: {rest}."
    if all(case.outcome in (Outcome.MEASURED, Outcome.SKIPPED) for case in cases):
        return f"Timed without a comparison: {rest}."
    return f"No regression past the gate of {gate}: {rest}."


def _slowdown(case: CaseVerdict, policy: Policy) -> tuple[float, str]:
    """What made a case red, and what it is slower than where that is not the reference."""
    own = case.comparison.ratio if case.comparison else 0.0
    if case.best and own <= 1 + policy.regression:
        return case.best.ratio, " than the best commit"
    return own, ""


def _counted(cases: tuple[CaseVerdict, ...]) -> str:
    counts = Counter(case.outcome for case in cases)
    return ", ".join(f"{counts[outcome]} {outcome.value.lower()}" for outcome in Outcome if counts[outcome]) or "no case"
