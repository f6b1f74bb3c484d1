"""Shards of one check, measured on several runners: the run that they are together.

`ratchet ci merge` calls `joined`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ratchet.core.errors import IncompleteError, UsageError
from ratchet.core.records.run import CaseRun, RunRecord


def joined(shards: Sequence[RunRecord]) -> RunRecord:
    """Return one run with all their cases, in the order that an undivided check would have.

    Raises UsageError where they are not shards of one check on one kind of machine, IncompleteError where one is missing.
    """
    numbered = _numbered(shards)
    # The first has a reference if any has: where the head did not build beside a baseline, a shard has none.
    first, *others = sorted(numbered.values(), key=lambda run: run.reference is None)
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
            text = f"The run of {run.started_at:%Y-%m-%d %H:%M:%S} is not a shard of a check."
            raise UsageError(text, "Measure with `ratchet check --shard I/N`.")
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
