"""Verdict + baseline → next baseline. Forward only."""

from __future__ import annotations

from ratchet.errors import UsageError
from ratchet.records.baseline import Baseline, BaselineEntry, FingerprintBaseline
from ratchet.records.run import CaseRun, RunRecord
from ratchet.records.verdict import Outcome, ReportRecord
from ratchet.stats.comparison import medians_ms, performance

_NEVER = (Outcome.FAILED, Outcome.UNFIT, Outcome.REGRESSED)
"""Outcomes that no baseline is made of."""


def record(baseline: Baseline, run: RunRecord, report: ReportRecord) -> tuple[Baseline, list[str]]:
    """Enter a run's cases; returns the next baseline and the names of the cases that moved.

    A case enters if this machine has no baseline for it or its workload changed, unless it regressed: then its reference
    is the better commit. One that is there moves only if the run proved the head an improvement over the very commit
    that the baseline names. Raises UsageError for a dirty tree, or one without a commit, whose figures no commit could
    give again.
    """
    if not run.head.commit:
        raise UsageError("The run was measured outside git, so no commit names it.", "Commit, then run it again.")
    if run.head.dirty:
        raise UsageError("The run measured uncommitted changes, which no commit names.", "Commit, then run it again.")
    fingerprint = run.environment.fingerprint
    entries = baseline.entries(fingerprint)
    outcomes = {case.name: case.outcome for case in report.cases}
    moved = []
    for case in run.cases:
        outcome = outcomes[case.name]
        entry = None if outcome in _NEVER else _entry(case, run)
        if entry is None:
            continue
        before = entries.get(case.name)
        if before is None or before.workload != entry.workload or _is_proven(run, before, outcome):
            entries[case.name] = entry
            moved.append(case.name)
    part = FingerprintBaseline(fingerprint=fingerprint, configs=dict(sorted(entries.items())))
    if not moved:
        return baseline, []
    return Baseline(fingerprints={**baseline.fingerprints, fingerprint.key: part}), moved


def _is_proven(run: RunRecord, before: BaselineEntry, outcome: Outcome) -> bool:
    return outcome is Outcome.IMPROVED and run.reference is not None and run.reference.commit == before.git_commit


def _entry(case: CaseRun, run: RunRecord) -> BaselineEntry | None:
    done = performance(case.head, case.workload, 0.95) if case.workload else None
    if done is None or case.workload is None:
        return None
    return BaselineEntry(
        median_ms=done.median_time_ms,
        ci_95_low=done.ci_95_low,
        ci_95_high=done.ci_95_high,
        throughput_gflops=done.throughput_gflops,
        bandwidth_gb_s=done.bandwidth_gb_s,
        git_commit=run.head.commit,
        timestamp=run.started_at,
        workload=case.workload,
        pair_medians_ms=tuple(medians_ms(case.head)),
    )
