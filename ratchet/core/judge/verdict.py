"""A run → the report: an outcome for each case, one verdict for the whole, one headline."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from operator import itemgetter

from ratchet.core import units
from ratchet.core.errors import Exit, FingerprintError
from ratchet.core.judge.chain import problems
from ratchet.core.judge.comparison import compare_stored, kernels_median_ms, medians_ms
from ratchet.core.judge.drift import held_to_best
from ratchet.core.judge.evidence import CaseThresholds, thresholds_for, with_smallest_slowdown
from ratchet.core.judge.gates import growths, with_case_gates
from ratchet.core.judge.mutes import warnings as mute_warnings
from ratchet.core.judge.mutes import with_mutes
from ratchet.core.judge.outcome import Judgement, compared, decide_apart, digits_of, host_bound, judge_alone, judge_case
from ratchet.core.judge.roofs import Roofs, measured_roofs, share
from ratchet.core.judge.rule import thresholds_of_run
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.environment import summary
from ratchet.core.records.run import SIDES, CaseRun, Performance, Policy, RunRecord, Side, Tree, WorkerSamples, WorkloadIdentity
from ratchet.core.records.samples import counts_of
from ratchet.core.records.verdict import SLOWDOWNS, CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary

VERDICTS = {Exit.PASS: "pass", Exit.REGRESSION: "regression", Exit.NOT_MEASURED: "not measured"}
"""The word for what `exit_code` returns."""
RED = (Outcome.FAILED, Outcome.REGRESSED)
"""Outcomes that make a run exit 1."""
CHANGED = (*SLOWDOWNS, Outcome.IMPROVED)
"""Outcomes that a profile explains."""
NOT_COMPARED = frozenset({Outcome.NEW, Outcome.CHANGED, Outcome.MISSING, Outcome.SKIPPED})
"""Outcomes of a case without two times of the same work: with these alone, a check passes, and two runs decide nothing."""
_NO_TIMES = (Outcome.UNFIT, Outcome.SKIPPED, Outcome.MISSING)
"""With these alone, nothing was measured."""


def judge_run(run: RunRecord, baseline: Baseline, policy: Policy | None = None, day: date | None = None) -> ReportRecord:
    """Judge every case of a run by ``policy`` (None: its own), with the mutes that hold on ``day`` (None: the run's own).

    Where ``policy`` follows the history and has no gates of cases, they are those of ``baseline``.
    """
    stored = baseline.entries(run.environment.fingerprint)
    rule = with_case_gates(policy, stored) if policy else run.policy
    roofs = measured_roofs(run.cases, stored, run.environment.l2_bytes)
    day = day or run.started_at.date()
    if run.kind == "run":
        verdicts = [_verdict(case, judge_alone(case, rule), roofs, rule) for case in run.cases]
        return _report(run, with_mutes(verdicts, rule.mutes, day), rule, run.warnings, day)
    judged = _judged(run.cases, rule, run.plan.pairs, stored, {case.name: case for case in run.best}, roofs)
    cases = with_mutes(list(_with_hints(judged, run, baseline)), rule.mutes, day)
    return _report(run, cases, rule, (*_warnings(run, baseline, rule), *run.warnings), day)


def changed_cases(cases: Sequence[CaseRun], policy: Policy, pairs: int) -> list[str]:
    """Return the names of the cases that changed, the worst first, before there is a run: each against its own reference."""
    return [verdict.name for verdict in worst_first(_judged(cases, policy, pairs, {}, {}, Roofs(None, {})))]


def worst_first(cases: Sequence[CaseVerdict]) -> list[CaseVerdict]:
    """Return the changed cases: regressions, then slowdowns without proof, the slowest first, then the largest improvements."""
    changed = [case for case in cases if case.outcome in CHANGED]
    return sorted(changed, key=lambda case: (CHANGED.index(case.outcome), -abs(math.log(_ratio(case)))))


def _judged(
    cases: Sequence[CaseRun],
    policy: Policy,
    pairs: int,
    stored: Mapping[str, BaselineEntry],
    best: Mapping[str, CaseRun],
    roofs: Roofs,
) -> list[CaseVerdict]:
    comparisons = {case.name: compared(case, policy.confidence) for case in cases}
    thresholds = thresholds_of_run({name: comparison for name, comparison in comparisons.items() if comparison}, policy, pairs)
    by_days = thresholds_for(policy, len(cases), looks=1)  # for cases that are held to stored times, once
    verdicts = []
    for case in cases:
        comparison, other = comparisons[case.name], best.get(case.name)
        own = (thresholds if comparison else by_days).of_case(case.name)
        if comparison is not None:
            comparison = with_smallest_slowdown(comparison, own, pairs)
        finding = judge_case(case, comparison, own, stored.get(case.name))
        known: dict[str, Comparison | Tree] = {}
        if other and other.has_reference and other.failure("head"):  # without one, it may only differ from the best commit
            finding = judge_alone(other, own.policy)
        elif other and other.reference_tree and not other.unfit and (whole := compared(other, policy.confidence)):
            finding = held_to_best(finding, whole, other.reference_tree, own)
            known = {"best": whole, "best_tree": other.reference_tree}
        verdicts.append(_verdict(case, finding, roofs, own.policy).model_copy(update=known))
    return verdicts


def _warnings(run: RunRecord, baseline: Baseline, policy: Policy) -> list[str]:
    """Return the warnings that a reader should see before any outcome."""
    differs = run.environment.differs
    apart = [f"Each side ran in an environment of its own: {summary(differs, 6)}."] if differs else []
    if differs and run.reference and run.head.content == run.reference.content:
        launched = {case.name: case.launches_the_same for case in run.cases if len(case.identity) == len(SIDES)}
        if others := [name for name, same in launched.items() if not same]:
            apart.append(f"The same source gives other machine code, or other kernels, in: {units.listed(others, 6)}.")
        if alike := [case.name for case in run.cases if launched.get(case.name) and not case.identical]:
            apart.append(f"The same kernels are launched, so only the host can differ, in: {units.listed(alike, 6)}.")
    missing = [f"{run.reference_missing} The stored baseline stands in for it."] if run.reference_missing else []
    short = [case.name for case in run.cases if policy.follows_history and case.name not in policy.case_gates]
    if short:
        gate = units.threshold(policy.regression)
        missing.append(f"Too short a history to set a gate by, so it is {gate}, in: {units.listed(short, 6)}.")
    broken = problems(baseline)
    return [*apart, *missing, *([f"The baseline file does not fit together: {units.first_of(broken)}"] if broken else [])]


def _with_hints(verdicts: Sequence[CaseVerdict], run: RunRecord, baseline: Baseline) -> Iterator[CaseVerdict]:
    """Add to each new case that does the work of a removed one how to keep its history, if the baseline has any."""
    renamed = likely_renames(run)
    stored = {name for _, name, _ in baseline.every()}
    for case in verdicts:
        if case.outcome is Outcome.NEW and case.name in renamed:
            old = renamed[case.name]
            rename = f" If it was renamed: `ratchet baseline rename {old} {case.name}`." if old in stored else ""
            yield case.model_copy(update={"reason": f"{case.reason} It does the work of {old}, which is gone.{rename}"})
        else:
            yield case


def judge_two(reference: RunRecord, head: RunRecord, policy: Policy) -> ReportRecord:
    """Compare two runs of one machine at different times. Raises FingerprintError where the machines or software differ.

    Nothing cancels between two times, so a case is red only if its whole interval lies past the gate. Where no case could be
    compared, nothing is decided, and that does not pass.
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
    thresholds = thresholds_for(policy, len(heads.keys() & others.keys()), looks=1)
    verdicts = []
    for name in dict.fromkeys((*heads, *others)):
        joined = _joined(name, heads, others)
        verdicts.append(_verdict(joined, _judge_apart(joined, thresholds), roofs, policy))
    joined_run = head.model_copy(update={"reference": reference.head, "bench_from": None})
    warning = (
        "The two sides were measured at different times. Clock speed, heat and other load do not cancel out as they do in "
        "`ratchet check`."
    )
    day = head.started_at.date()
    report = _report(joined_run, with_mutes(verdicts, policy.mutes, day), policy, (warning, *head.warnings), day)
    if report.exit_code or not NOT_COMPARED.issuperset(report.counts):
        return report
    return report.model_copy(update={"verdict": VERDICTS[Exit.NOT_MEASURED], "exit_code": int(Exit.NOT_MEASURED)})


def _joined(name: str, heads: Mapping[str, CaseRun], others: Mapping[str, CaseRun]) -> CaseRun:
    """Join one case of two runs, the head of each; the reference that a run had beside it does not matter here."""
    head, other = heads.get(name), others.get(name)
    case = heads[name] if name in heads else others[name]
    sides: tuple[tuple[Side, CaseRun | None], ...] = (("head", head), ("reference", other))
    return case.model_copy(
        update={
            "head": head.head if head else (),
            "workload": head.workload if head else None,
            "performance": head.performance if head else None,
            "identity": {side: run.identity["head"] for side, run in sides if run and "head" in run.identity},
            "resources": {side: run.resources["head"] for side, run in sides if run and "head" in run.resources},
            "memory_before": {side: run.memory_before["head"] for side, run in sides if run and "head" in run.memory_before},
            "overheads": {},
            "agreement": None,
            "host_same": False,
            "host_code": {},
            "host_difference": None,
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


def likely_renames(run: RunRecord) -> dict[str, str]:
    """Map new name → old name, for each case only in the head that does the work of exactly one case only in the reference.

    Where several new cases do that work, none of them is named, since any of them may be the renamed one.
    """
    gone = [case for case in run.cases if case.in_reference and not case.in_head and case.reference_workload]
    renames: dict[str, str] = {}
    for case in run.cases:
        if case.in_head and not case.in_reference and case.workload:
            twins = [other.name for other in gone if other.reference_workload == case.workload]
            if len(twins) == 1:
                renames[case.name] = twins[0]
    olds = list(renames.values())
    return {new: old for new, old in renames.items() if olds.count(old) == 1}


def _judge_apart(case: CaseRun, thresholds: CaseThresholds) -> Judgement:
    settled = judge_alone(case, thresholds.policy)
    if settled[0] is not Outcome.MEASURED:
        return settled
    if not case.in_reference or (case.reference_workload and case.workload != case.reference_workload):
        return judge_case(case, None, thresholds, None)
    if not case.reference:
        return Outcome.INCONCLUSIVE, "The reference run has no time of this case.", None
    ours, theirs = medians_ms(case.head), medians_ms(case.reference)
    comparison = compare_stored(ours, theirs, thresholds.policy.confidence)
    if comparison is None:
        apart = ""
        if ours and theirs:
            apart = f"; the medians differ by {units.change(statistics.median(ours) / statistics.median(theirs))}"
        return Outcome.INCONCLUSIVE, f"Fewer than three workers were measured on a side, too few for an interval{apart}.", None
    return (*decide_apart(comparison, thresholds), comparison)


def _verdict(case: CaseRun, finding: Judgement, roofs: Roofs, policy: Policy) -> CaseVerdict:
    outcome, reason, comparison = finding
    if comparison is not None:
        comparison = comparison.model_copy(update={"digits": digits_of(comparison, policy)})
        if outcome is Outcome.REGRESSED and comparison.detectable and comparison.ratio - 1 <= comparison.detectable:
            comparison = comparison.model_copy(update={"detectable": None})  # more was found than most checks would find
    side = "reference" if outcome is Outcome.INCONCLUSIVE else "head"
    lines = next((failure.last_lines for failure in case.failures if failure.side == side), ())
    dropped = counts_of(case.head).throttled + counts_of(case.reference).throttled
    head = _summary(case.performance, case.workload, case.head, roofs)
    reference = _summary(case.reference_performance, case.reference_workload, case.reference, roofs)
    if comparison is not None and comparison.source == "kernels":
        head, reference = _at(head, kernels_median_ms(case.head)), _at(reference, kernels_median_ms(case.reference))
    if comparison is not None and comparison.source == "total":
        ours, theirs = case.performance, case.reference_performance
        head = _at(head, ours.mean_time_ms if ours else None)
        reference = _at(reference, theirs.mean_time_ms if theirs else None)
    reference, head = _agreeing(reference, head, comparison)
    return CaseVerdict(
        name=case.name,
        outcome=outcome,
        reason=reason,
        comparison=comparison,
        head=head,
        reference=reference,
        unchecked=_unchecked(case),
        memory=" ".join(sentence for sentence, fails in growths(case, policy) if not fails) or None,
        last_lines=lines,
        dropped_blocks=dropped,
        host_bound=host_bound(case, policy.confidence),
        timed_because=_timed_because(case) if outcome in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE) else None,
    )


def _unchecked(case: CaseRun) -> str | None:
    """Say what is known of a result that no reference has confirmed; None where one has, or where nothing was timed."""
    if case.has_reference or not case.head:
        return None
    if case.agreement is None:
        return "No expected result is given: nothing says whether its result is right."
    within = f"within {case.agreement:.0e}".replace("e-0", "e-") if case.agreement else "exactly"
    return f"No expected result is given: both sides agree {within}, and nothing else was checked."


def _timed_because(case: CaseRun) -> str | None:
    if case.workload is None or not case.reference:
        return None
    differ = "its launches, machine code or data differ" if len(set(case.identity.values())) == 2 else None
    launches = (case.opaque or differ) if case.workload.device == "cuda" else None
    return "; ".join(reason for reason in (launches, case.host_difference) if reason) or None


def _agreeing(
    reference: SideSummary | None, head: SideSummary | None, comparison: Comparison | None
) -> tuple[SideSummary | None, SideSummary | None]:
    """Return both sides with times that differ by exactly the change that the pairs show, about the same middle.

    The median of each side alone would contradict the change on a restless machine, where what disturbs a pair cancels.
    """
    if reference is None or head is None or comparison is None or not comparison.is_paired:
        return reference, head
    middle, half = math.sqrt(reference.median_ms * head.median_ms), math.sqrt(comparison.ratio)
    return _at(reference, middle / half), _at(head, middle * half)


def _at(side: SideSummary | None, median_ms: float | None) -> SideSummary | None:
    """Return the figures of a side as if its time were ``median_ms``, where both are known."""
    if side is None or not median_ms:
        return side
    faster = side.median_ms / median_ms
    share = side.share_of_roof * faster if side.share_of_roof is not None else None
    rates = {"gflops": side.gflops * faster, "gb_s": side.gb_s * faster, "share_of_roof": share}
    return side.model_copy(update={"median_ms": median_ms, **rates})


def _summary(
    done: Performance | None, workload: WorkloadIdentity | None, workers: Sequence[WorkerSamples], roofs: Roofs
) -> SideSummary | None:
    if done is None or workload is None:
        return None
    reached = share(workload, done.median_time_ms * 1e-3, roofs)
    stages = {
        name: statistics.median(statistics.median(worker.stages_ms[name]) for worker in workers if name in worker.stages_ms)
        for name in (workers[0].stages_ms if counts_of(workers).has_stages else ())
    }
    return SideSummary(
        median_ms=done.median_time_ms,
        gflops=done.throughput_gflops,
        gb_s=done.bandwidth_gb_s,
        peak_memory_bytes=done.peak_memory_bytes,
        roof=reached.roof if reached else None,
        share_of_roof=reached.share if reached else None,
        cached=reached.cached if reached else None,
        stages_ms=stages,
    )


def _report(run: RunRecord, cases: Sequence[CaseVerdict], policy: Policy, warnings: tuple[str, ...], day: date) -> ReportRecord:
    counts = Counter(case.outcome for case in cases)
    code, text = ending(cases, policy)
    shared = (RunRecord.model_fields.keys() & ReportRecord.model_fields.keys()) - {"schema_version"}
    return ReportRecord.model_validate(
        {
            **{name: getattr(run, name) for name in shared},
            "verdict": VERDICTS[code],
            "headline": text,
            "exit_code": int(code),
            "counts": {outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
            "cases": cases,
            "policy": policy,
            "warnings": (*mute_warnings(cases, policy.mutes, day), *warnings),
        }
    )


def ending(cases: Sequence[CaseVerdict], policy: Policy, accepted: Collection[str] = ()) -> tuple[Exit, str]:
    """Return the exit code and the headline; slowdowns that a person accepted, or that are muted, count as timed alone."""
    silenced = [case for case in cases if case.is_silenced and case.name not in accepted]
    others = [case for case in cases if case.name not in accepted and case not in silenced]
    apart = {Outcome.MEASURED: len(cases) - len(others)}
    code = exit_code(Counter(case.outcome for case in others) + Counter(apart), policy)
    return code, headline(others, policy, code, len(cases) - len(others) - len(silenced), len(silenced))


def exit_code(counts: Mapping[Outcome, int], policy: Policy) -> Exit:
    """Return 0 (pass), 1 (regression, wrong result) or 3 (not measured). An unproven slowdown or no measurement never passes."""
    if any(counts.get(outcome) for outcome in RED):
        return Exit.REGRESSION
    if any(counts.get(outcome) for outcome in (Outcome.SLOWER, Outcome.UNFIT)):
        return Exit.NOT_MEASURED
    if not any(count for outcome, count in counts.items() if outcome not in _NO_TIMES):
        return Exit.NOT_MEASURED
    if counts.get(Outcome.INCONCLUSIVE) and policy.on_inconclusive == "fail":
        return Exit.NOT_MEASURED
    return Exit.PASS


# The sentence that a reader understands in three seconds: how many cases are slower, the worst one, and by how much. It is the
# title of a check run and the first line of a comment and a report, which add the cause that a profile shows. So a sentence about
# slower or faster cases ends with the case that it names.


def headline(cases: Sequence[CaseVerdict], policy: Policy, code: Exit, accepted: int = 0, muted: int = 0) -> str:
    """Return the sentence about ``cases``; ``accepted`` more are slower and a person has accepted them, ``muted`` are muted."""
    groups = {outcome: [case for case in cases if case.outcome is outcome] for outcome in Outcome}
    red, failed, slower = (groups[outcome] for outcome in (Outcome.REGRESSED, Outcome.FAILED, Outcome.SLOWER))
    of = f"of {units.plural(len(cases) + accepted + muted, 'case')}"
    taken = _also((accepted, "accepted"), (muted, "muted"))
    if red:
        by, than, name = max(((*_slowdown(case, policy), case.name) for case in red), key=itemgetter(0))
        more = _also((len(slower), "also slower but not proven"), (len(failed), "failed"))
        return f"{len(red)} {of} slower{more}{taken}; worst: {name} {units.slowdown(by)}{than}."
    if failed:
        unproven = _also((len(slower), "slower but not proven"))
        return f"{len(failed)} {of} failed{unproven}{taken}{_named(failed)}"
    if slower:
        worst = max(slower, key=_ratio)
        return f"{len(slower)} {of} slower, but not proven{taken}; worst: {worst.name} {units.slowdown(_ratio(worst))}."
    if open_cases := groups[Outcome.UNFIT] or groups[Outcome.INCONCLUSIVE]:
        return _without_answer(open_cases, cases, of, taken)
    over = f"by over {'its own gate' if policy.case_gates else units.threshold(policy.regression)}"
    if faster := groups[Outcome.IMPROVED]:
        best = min(faster, key=_ratio)
        return f"{len(faster)} {of} faster, none slower {over}{taken}; best: {best.name} {units.slowdown(_ratio(best))}."
    silent = f"{accepted} {of} slower, but accepted" if accepted else f"{muted} {of} slower or undecided, but muted"
    silent += _also((muted, "muted")) if accepted else ""
    return f"{silent}; no other slower {over}." if taken else f"{_without_change(cases, over, code)}: {_counted(cases)}."


def _without_answer(group: Sequence[CaseVerdict], cases: Sequence[CaseVerdict], of: str, taken: str) -> str:
    if group[0].outcome is Outcome.UNFIT:
        nothing = all(case.outcome in _NO_TIMES for case in cases) and not taken
        said = f"Nothing was measured: {_counted(cases)}" if nothing else f"{len(group)} {of} could not be measured{taken}"
        return f"{said}{_named(group)}"
    widest = max(group, key=lambda case: case.comparison.high if case.comparison else math.inf)
    such, between = (", such as", ":") if len(group) > 1 else (":", ",")
    span = ""
    if widest.comparison:
        low, high, digits = widest.comparison.low, widest.comparison.high, widest.comparison.digits
        span = f"{between} anything from {units.change(low, digits)} to {units.change(high, digits)}"
    return f"{len(group)} {of} inconclusive{taken}{such} {widest.name}{span}."


def _named(group: Sequence[CaseVerdict]) -> str:
    """Name the first case, and its reason last: where the reason stands right below, the sentence does without it."""
    return f"{', such as' if len(group) > 1 else ':'} {group[0].name}. {group[0].reason}"


def _without_change(cases: Sequence[CaseVerdict], over: str, code: Exit) -> str:
    outcomes = {case.outcome for case in cases}
    if code is Exit.NOT_MEASURED:
        return "Nothing was measured"
    if outcomes <= {Outcome.MEASURED, Outcome.SKIPPED}:
        return "Timed without a comparison"
    if outcomes <= NOT_COMPARED:
        return "Nothing to compare"
    return "Nothing changed" if outcomes == {Outcome.IDENTICAL} else f"No case is slower {over}"


def _ratio(case: CaseVerdict) -> float:
    return case.comparison.ratio if case.comparison else 1.0


def _slowdown(case: CaseVerdict, policy: Policy) -> tuple[float, str]:
    """Return the ratio that made a case red, and what it is slower than where that is not the reference."""
    own = _ratio(case)
    if case.best and own <= 1 + policy.of_case(case.name).regression:
        return case.best.ratio, " against the best commit"
    return own, ""


def _also(*counts: tuple[int, str]) -> str:
    return "".join(f", {count} {what}" for count, what in counts if count)


def _counted(cases: Sequence[CaseVerdict]) -> str:
    counts = Counter(case.outcome for case in cases)
    return ", ".join(f"{counts[outcome]} {outcome.value.lower()}" for outcome in Outcome if counts[outcome]) or "no benchmark"
