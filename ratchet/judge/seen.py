"""One case of one run, in the terms of the baseline: figures, measurement, day."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ratchet.errors import UsageError
from ratchet.judge.chain import Place
from ratchet.records.baseline import BaselineEntry, Figures
from ratchet.records.chain import Day, Measurement
from ratchet.records.run import CaseRun, RunRecord, WorkerSamples, WorkloadIdentity
from ratchet.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord
from ratchet.stats.comparison import medians_ms, performance

_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True)
class Seen:
    """What one run says of one case."""

    run: RunRecord
    case: CaseRun
    verdict: CaseVerdict
    best: CaseRun | None = None
    """The same case measured once more against the best commit of the baseline."""

    @property
    def place(self) -> Place:
        return Place(self.run.environment.fingerprint.key, self.case.name)

    @property
    def is_there(self) -> bool:
        """Whether the head has the case, in working order, on a machine that was fit."""
        broken = (Outcome.FAILED, Outcome.UNFIT, Outcome.SKIPPED)
        return self.case.in_head and self.case.workload is not None and self.verdict.outcome not in broken

    def was_measured_otherwise(self, entry: BaselineEntry) -> bool:
        """Whether this run gave the very commit of ``entry`` another workload: by its settings, since the code is the same."""
        known = ((self.run.head.commit, self.case.workload), (self._reference(self.case), self.case.reference_workload))
        return any(commit == entry.git_commit and workload not in (None, entry.workload) for commit, workload in known)

    def figures(self) -> Figures | None:
        """What was measured of the head; None where nothing was."""
        return self._figures(self.run.head.commit, self.case.workload, self.case.head)

    def reference_figures(self) -> Figures | None:
        """What was measured of the reference; None where nothing was, or where it is no commit."""
        commit = self._reference(self.case)
        return self._figures(commit, self.case.reference_workload, self.case.reference) if _HASH.fullmatch(commit) else None

    def _figures(self, commit: str, workload: WorkloadIdentity | None, workers: Sequence[WorkerSamples]) -> Figures | None:
        done = performance(workers, workload, 0.95) if workload else None
        if done is None or workload is None:
            return None
        return Figures(
            median_ms=done.median_time_ms,
            ci_95_low=done.ci_95_low,
            ci_95_high=done.ci_95_high,
            throughput_gflops=done.throughput_gflops,
            bandwidth_gb_s=done.bandwidth_gb_s,
            git_commit=commit,
            timestamp=self.run.started_at,
            workload=workload,
            pair_medians_ms=tuple(medians_ms(workers)),
        )

    def measurement(self) -> Measurement | None:
        """The head side by side with a reference commit; None where there was none, or only stored milliseconds."""
        return self._measurement(self.case, self.verdict.comparison)

    def against(self, commit: str) -> list[Measurement]:
        """The measurements of this run in which this commit was the reference."""
        found = (self.measurement(), self._measurement(self.best, self.verdict.best) if self.best else None)
        return [each for each in found if each and each.reference == commit]

    def days(self, entry: BaselineEntry) -> Iterator[Day]:
        """The commit of ``entry`` as this run measured it: as a reference, or as the head."""
        for case in filter(None, (self.case, self.best)):
            if case.unfit is None and case.reference_workload == entry.workload:
                yield from self._day(case, "reference", entry)
            if case.unfit is None and case.workload == entry.workload:
                yield from self._day(case, "head", entry)

    def _day(self, case: CaseRun, side: str, entry: BaselineEntry) -> Iterator[Day]:
        workers, commit = (case.head, self.run.head.commit) if side == "head" else (case.reference, self._reference(case))
        medians = medians_ms(workers) if commit == entry.git_commit else []
        if medians:
            yield Day(timestamp=self.run.started_at, median_ms=statistics.median(medians))

    def _measurement(self, case: CaseRun, found: Comparison | None) -> Measurement | None:
        reference = self._reference(case)
        if found is None or found.source != "paired" or not _HASH.fullmatch(reference):
            return None
        return Measurement(
            started_at=self.run.started_at,
            ended_at=_ended_at(self.run),
            reference=reference,
            ratio=found.ratio,
            low=found.low,
            high=found.high,
            pairs=found.pairs,
        )

    def _reference(self, case: CaseRun) -> str:
        tree = case.reference_tree or self.run.reference
        return tree.commit if tree else ""


def seen_in(run: RunRecord, report: ReportRecord) -> list[Seen]:
    """Every case of a run of a commit.

    Raises UsageError for a dirty tree, or one without a commit, whose figures no commit could give again; and for a run that
    ended at no date that there is.
    """
    when = f"The run of {run.started_at:%Y-%m-%d %H:%M}"
    if not _HASH.fullmatch(run.head.commit):
        raise UsageError(f"{when} was measured outside git, so no commit names it.", "Commit, then run it again.")
    if run.head.dirty:
        raise UsageError(f"{when} measured uncommitted changes, which no commit names.", "Commit, then run it again.")
    _ended_at(run)
    verdicts = {case.name: case for case in report.cases}
    best = {case.name: case for case in run.best}
    return [Seen(run, case, verdicts[case.name], best.get(case.name)) for case in run.cases]


def _ended_at(run: RunRecord) -> datetime:
    try:
        return run.started_at + timedelta(seconds=run.wall_s)
    except OverflowError:
        raise UsageError(f"A run of {run.wall_s:.3g} s from {run.started_at:%Y-%m-%d} on is none.", "Measure again.") from None
