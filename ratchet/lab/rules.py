"""When the measurement of an experiment is over, and what its pairs say by then. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from ratchet.core.judge.comparison import Pair, pairs_of, pairs_of_medians
from ratchet.core.judge.rule import Rule
from ratchet.core.records.run import CaseRun, WorkerSamples
from ratchet.lab.judge import MICRO, RERUNS, ChangeEvidence, change_between, is_settled, looks_that_decide, settled, wants_reruns
from ratchet.lab.records.experiment import WHOLE, StageChange


class ExperimentRule(Rule):
    """Measure until it is clear what a change does to the whole call and to its stage."""

    def __init__(self, pairs: int, stage: str) -> None:
        super().__init__(looks_that_decide(pairs))
        self.stage = stage

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return [case.name for case in cases if not settled(evidence_of(self.stage, case))]

    def reruns(self, case: CaseRun) -> int:
        """Return how many more pairs confirm the stage."""
        return RERUNS if wants_reruns(evidence_of(self.stage, case)) else 0


class MicroRule(Rule):
    """Measure a micro-benchmark until it is clear whether it gained as much as one has to."""

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        whole = {case.name: changes_of(case).get(WHOLE) for case in cases}
        return [name for name, one in whole.items() if one is None or not is_settled(one.comparison, MICRO)]


def pairs_by_stage(case: CaseRun) -> dict[str, list[Pair]]:
    """Return the pairs of the whole call first, then those of each stage that both sides declare."""
    first, *others = [worker.stages_ms for side in (case.head, case.reference) for worker in side[:1]] or [{}]
    stages = [name for name in first if all(name in one for one in others)]
    by_stage = {name: _stage_pairs(case.head, case.reference, name) for name in stages}
    return {WHOLE: pairs_of(case.head, case.reference), **by_stage}


def _stage_pairs(head: Sequence[WorkerSamples], reference: Sequence[WorkerSamples], stage: str) -> list[Pair]:
    """Return every pair in which both sides have samples of a stage (`WorkerSamples.stages_ms`)."""
    others = {worker.pair: worker.stages_ms[stage] for worker in reference if worker.stages_ms.get(stage)}
    shared = sorted((one.pair, one.stages_ms[stage]) for one in head if one.stages_ms.get(stage) and one.pair in others)
    theirs = [[statistics.median(others[pair])] for pair, _ in shared]
    return pairs_of_medians([[statistics.median(times)] for _, times in shared], theirs)


def changes_of(case: CaseRun | None) -> dict[str, StageChange]:
    """Return the times of the whole call and of each stage, where there are enough pairs."""
    changes = {name: change_between(name, pairs) for name, pairs in pairs_by_stage(case).items()} if case else {}
    return {name: one for name, one in changes.items() if one is not None}


def evidence_of(stage: str, case: CaseRun | None) -> ChangeEvidence:
    """Return what the pairs say of a change that was made to a stage."""
    changes = changes_of(case)
    whole, part = changes.get(WHOLE), changes.get(stage)
    return ChangeEvidence(
        stage,
        e2e=whole.comparison if whole else None,
        of_stage=part.comparison if part else None,
        share=part.before_ms / whole.before_ms if part and whole else None,
    )
