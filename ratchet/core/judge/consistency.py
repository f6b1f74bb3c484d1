"""Records of runs from other jobs: whether one agrees with itself, and the run that the shards of one check are together.

`ratchet.github.artifact` calls `contradictions` on the record of an unprivileged job, before a trusted job judges and publishes
it; `ratchet merge` calls `joined`; a check that measures several parts divides its false alarms with `policy_of_part`. Pure.

A schema says what a field may be; this says which fields cannot stand together. No run that ratchet wrote has such a
contradiction, so one that has was edited, and nothing of it is believed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ratchet.core.errors import IncompleteError, UsageError
from ratchet.core.judge.comparison import performance
from ratchet.core.records.run import CaseRun, Policy, RunRecord, WorkerSamples

# Far above what the settings allow (200 pairs, 100 blocks), so that no honest run is refused.
MOST_CASES = 5_000
MOST_PAIRS = 1_000
MOST_BLOCKS = 1_000
MOST_LIGHT = 300
"""Most light pairs of a case, which no plan names: up to the last of `rule.PROCESSES`, and what was ready beside them."""
MOST_WARNINGS = 5_000
MOST_FAILURES = 1_000
"""Most failures of one case, lost workers included: each pair may lose some."""
CASE_NAME = re.compile(r"[\w.+-]{1,100}/(?:[\w.+-]{1,100}|\*)")
"""Names that `ratchet.core.workload.benchmark` accepts; ``*`` stands for the configs of a file that could not be read."""


def contradictions(run: RunRecord) -> Iterator[str]:
    """Describe each contradiction in a sentence, with the place of the case and never a text of the record."""
    if run.shard is not None:
        yield f"It is shard {run.shard} of a run: merge all shards first."
    if len(run.cases) > MOST_CASES:
        yield f"It has {len(run.cases)} cases, more than the limit of {MOST_CASES}."
    if len(run.warnings) > MOST_WARNINGS:
        yield f"It has {len(run.warnings)} warnings, more than the limit of {MOST_WARNINGS}."
    if run.plan.pairs > MOST_PAIRS or run.plan.blocks > MOST_BLOCKS:
        yield f"Its plan has {run.plan.pairs} pairs of {run.plan.blocks} blocks, more than any run takes."
    names = [case.name for case in run.cases]
    others = {"best commit": run.best, "anchor": run.anchors}
    if any(len({case.name for case in cases}) < len(cases) for cases in (run.cases, *others.values())):
        yield "Two of its cases have the same name."
    for other, cases in others.items():
        if not {case.name for case in cases} <= set(names):
            yield f"A case was measured against the {other} and is not among the cases."
    listed = {"case": run.cases} | {f"case against the {other}": cases for other, cases in others.items()}
    for kind, cases in listed.items():
        for place, case in enumerate(cases, 1):
            yield from (f"The {kind} {place} {what}." for what in _of_case(case, run))


def with_own_figures(run: RunRecord) -> RunRecord:
    """Return the run with the figures of each side computed from its samples, whatever the record says."""
    return run.model_copy(update={field: tuple(map(_recomputed, getattr(run, field))) for field in ("cases", "best", "anchors")})


def _recomputed(case: CaseRun) -> CaseRun:
    return case.model_copy(
        update={
            "performance": performance(case.head, case.workload, 0.95) if case.workload else None,
            "reference_performance": performance(case.reference, case.reference_workload, 0.95)
            if case.reference_workload
            else None,
        }
    )


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
    return any(count > 1 for count in Counter(numbers).values())


# Shards of one check, measured on several runners.


def policy_of_part(policy: Policy, parts: int) -> Policy:
    """Return the policy for one of several parts: together they are falsely red no more often than the run's policy says."""
    return policy.model_copy(update={"false_alarm": policy.false_alarm / parts})


def joined(shards: Sequence[RunRecord]) -> RunRecord:
    """Return one run with all their cases, in the order that an undivided check would have.

    Raises UsageError where they are not shards of one check on one kind of machine, IncompleteError where one is missing.
    """
    numbered = _numbered(shards)
    first, *others = numbered.values()
    for other in others:
        for difference in _differences(first, other):
            raise UsageError(
                f"Shards {first.shard} and {other.shard} do not belong together: {difference}.", "Merge shards of one check."
            )
    of = len(numbered)
    cards = tuple(dict.fromkeys(card for run in numbered.values() for card in run.environment.cards))
    return first.model_copy(
        update={
            "shard": None,
            "environment": first.environment.model_copy(update={"cards": cards}),
            "policy": first.policy.model_copy(update={"false_alarm": first.policy.false_alarm * of}),
            "started_at": min(run.started_at for run in shards),
            "wall_s": max(run.wall_s for run in shards),
            "reference_missing": next((run.reference_missing for run in shards if run.reference_missing), None),
            "cases": _in_turn([run.cases for run in numbered.values()]),
            "best": _in_turn([run.best for run in numbered.values()]),
            "anchors": _in_turn([run.anchors for run in numbered.values()]),
            "warnings": tuple(dict.fromkeys(warning for run in numbered.values() for warning in run.warnings)),
        }
    )


def _numbered(shards: Sequence[RunRecord]) -> dict[int, RunRecord]:
    """Map each number to its shard, in order. Raises the errors of `joined`."""
    numbered: dict[int, RunRecord] = {}
    for run in shards:
        if run.shard is None or run.kind != "check":
            raise UsageError("One of the runs is not a shard of a check.", "Measure with `ratchet check --shard I/N`.")
        if run.shard.number in numbered:
            raise UsageError(f"Shard {run.shard} was given twice.", "Name each shard once.")
        numbered[run.shard.number] = run
    sizes = {run.shard.of for run in shards if run.shard}
    if len(sizes) != 1:
        raise UsageError(f"The runs are shards of {' and of '.join(map(str, sorted(sizes)))}.", "Merge shards of one check.")
    of = sizes.pop()
    missing = [str(number) for number in range(1, of + 1) if number not in numbered]
    if missing:
        raise IncompleteError(
            f"Missing shards: {', '.join(missing)} (of {of}).",
            "Find out why they gave no result, measure them again, then merge.",
        )
    return dict(sorted(numbered.items()))


def _differences(first: RunRecord, other: RunRecord) -> Iterator[str]:
    if first.head != other.head:
        yield f"head is {first.head.commit[:10]} in one and {other.head.commit[:10]} in the other"
    if first.reference != other.reference and None not in (first.reference, other.reference):
        yield "they compare with different references"
    if first.bench_from != other.bench_from:
        yield "one of them has the head's benchmarks on both sides"
    if first.policy != other.policy:
        yield "their thresholds differ"
    if first.plan.model_copy(update={"order_seed": other.plan.order_seed}) != other.plan:
        yield "they were measured by different plans"
    yield from other.environment.fingerprint.differences(first.environment.fingerprint)


def _in_turn(parts: Sequence[Sequence[CaseRun]]) -> tuple[CaseRun, ...]:
    """Take one case of each part in turn, as they were dealt out; a case that several parts have comes once."""
    longest = max(map(len, parts))
    dealt = [part[index] for index in range(longest) for part in parts if index < len(part)]
    return tuple({case.name: case for case in reversed(dealt)}.values())[::-1]
