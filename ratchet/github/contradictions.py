"""Say whether the record of an unprivileged job agrees with itself, before a trusted job judges and publishes it. Pure.

A schema says what a field may be; this says which fields cannot stand together. No run that ratchet wrote has such a
contradiction, so one that has was edited, and nothing of it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ratchet.core.judge.comparison import performance
from ratchet.core.records.run import CASE_NAME, CaseRun, RunRecord, WorkerSamples

# Far above what the settings allow (200 pairs, 100 blocks), so that no honest run is refused.
MOST_CASES = 5_000
MOST_PAIRS = 1_000
MOST_BLOCKS = 1_000
MOST_LIGHT = 300
"""Most light pairs of a case, which no plan names: up to the last of `rule.PROCESSES`, and what was ready beside them."""
MOST_WARNINGS = 5_000
MOST_DAYS, YEARS = 30, range(2000, 3000)
"""Longest run, and when it may have begun: beyond the calendar's ends nobody can say when it ended."""
MOST_FAILURES = 1_000
"""Most failures of one case, lost workers included: each pair may lose some."""


def with_own_figures(run: RunRecord) -> tuple[RunRecord, list[str]]:
    """Return the run with the figures of each side computed from its samples, and what contradicts itself in it.

    Each contradiction is a sentence with the place of the case and never a text of the record.
    """
    wrong = [*_of_run(run)]
    lists: dict[str, tuple[CaseRun, ...]] = {}
    others = {"cases": ("case", run.cases), "best": ("case against the best commit", run.best)}
    for field, (kind, cases) in (others | {"anchors": ("case against the anchor", run.anchors)}).items():
        own = []
        for place, case in enumerate(cases, 1):  # one after the other, since the samples of few are unpacked at once
            wrong += (f"The {kind} {place} {what}." for what in _of_case(case, run))
            own.append(case if wrong else _recomputed(case))
        lists[field] = tuple(own)
    return run.model_copy(update=lists), wrong


def _of_run(run: RunRecord) -> Iterator[str]:
    if run.shard is not None:
        yield f"It is shard {run.shard} of a run: merge all shards first."
    if len(run.cases) > MOST_CASES:
        yield f"It has {len(run.cases)} cases, more than the limit of {MOST_CASES}."
    if len(run.warnings) > MOST_WARNINGS:
        yield f"It has {len(run.warnings)} warnings, more than the limit of {MOST_WARNINGS}."
    if run.wall_s > MOST_DAYS * 86_400 or run.started_at.year not in YEARS:
        yield f"It took more than {MOST_DAYS} days, or began before {YEARS.start} or after {YEARS.stop - 1}."
    if run.plan.pairs > MOST_PAIRS or run.plan.blocks > MOST_BLOCKS:
        yield f"Its plan has {run.plan.pairs} pairs of {run.plan.blocks} blocks, more than any run takes."
    names = [case.name for case in run.cases]
    others = {"best commit": run.best, "anchor": run.anchors}
    if any(len({case.name for case in cases}) < len(cases) for cases in (run.cases, *others.values())):
        yield "Two of its cases have the same name."
    for other, cases in others.items():
        if not {case.name for case in cases} <= set(names):
            yield f"A case was measured against the {other} and is not among the cases."


def _recomputed(case: CaseRun) -> CaseRun:
    head = performance(case.head, case.workload, 0.95) if case.workload else None
    reference = performance(case.reference, case.reference_workload, 0.95) if case.reference_workload else None
    return case.model_copy(update={"performance": head, "reference_performance": reference})


def _of_case(case: CaseRun, run: RunRecord) -> Iterator[str]:
    if not CASE_NAME.fullmatch(case.name):
        yield "has a name that no case can have"
    if len(case.failures) + len(case.lost) > MOST_FAILURES:
        yield f"has more than {MOST_FAILURES} failures and lost workers"
    if not (case.in_head or case.in_reference):
        yield "exists on neither side"
    for side, workers, workload, present in (
        ("head", case.head, case.workload, case.in_head),
        ("reference", case.reference, case.reference_workload, case.in_reference),
    ):
        if workers and (workload is None or not present or case.skipped is not None):
            yield f"has samples of a {side} that was not there, or was skipped"
        if _twice(worker.pair for worker in workers) or any(_twice(block.index for block in worker.blocks) for worker in workers):
            yield f"has a pair or a block of its {side} twice"
        light = sum(worker.is_light for worker in workers)
        full = len(workers) - light
        if full > run.plan.pairs or light > MOST_LIGHT or any(len(worker.blocks) > run.plan.blocks for worker in workers):
            yield f"has more samples of its {side} than were planned"
    both = case.head and case.reference and not case.failures
    if both and _pairs(case.head) != _pairs(case.reference):
        yield "has pairs of which one side alone was kept"


def _pairs(workers: Iterable[WorkerSamples]) -> dict[int, int]:
    """Map the number of each pair to its count of blocks."""
    return {worker.pair: len(worker.blocks) for worker in workers}


def _twice(numbers: Iterable[int]) -> bool:
    listed = list(numbers)
    return len(set(listed)) < len(listed)
