"""Add a step to the chain of a case, and join the chains of two baseline files. Pure.

`ratchet.core.judge.chain` says what a chain is, and finds what was edited by hand.
"""

from __future__ import annotations

from ratchet.core.judge.chain import FIGURES, ChainPlace, digest_of, whole_digest
from ratchet.core.records.baseline import Baseline, BaselineEntry, Day, Figures, Step


def new_chain_entry(figures: Figures, before: BaselineEntry | None, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return an entry with these figures, which ``step`` sets after the steps of the entry ``before``."""
    changed = {"median_ms": figures.median_ms, "figures": digest_of(figures, FIGURES)}
    steps = _with_step(before.steps if before else (), step.model_copy(update=changed), place)
    day = Day(timestamp=figures.timestamp, median_ms=figures.median_ms)
    known = {name: getattr(figures, name) for name in Figures.model_fields}
    return with_digest(BaselineEntry(**known, days=(day,), steps=steps), place)


def continued(entry: BaselineEntry, step: Step, place: ChainPlace) -> BaselineEntry:
    """Return the entry with one more step, which leaves its figures as they are."""
    return with_digest(entry.model_copy(update={"steps": _with_step(entry.steps, step, place)}), place)


def with_digest(entry: BaselineEntry, place: ChainPlace) -> BaselineEntry:
    """Return the entry with the digest of all that it holds now."""
    return entry.model_copy(update={"digest": whole_digest(entry, place)})


def _with_step(steps: tuple[Step, ...], step: Step, place: ChainPlace) -> tuple[Step, ...]:
    following = step.model_copy(update={"predecessor": steps[-1].digest if steps else None})
    return (*steps, following.model_copy(update={"digest": whole_digest(following, place)}))


# Join two baseline files that went on from the same steps: main's, and the one that waits in a pull request.


def joined(main: Baseline, waiting: Baseline) -> Baseline:
    """Return, case by case, the chain that continues the other one; where both went different ways, main's.

    If two entries have the same steps, the one that was touched last stays: it knows the newer candidate, merges and days.
    """
    for part in waiting.fingerprints.values():
        entries = main.entries(part.fingerprint)
        later = {name: entry for name, entry in part.configs.items() if name not in entries or _goes_on(entry, entries[name])}
        if later:
            main = main.with_entries(part.fingerprint, entries | later)
    return main


def _goes_on(entry: BaselineEntry, other: BaselineEntry) -> bool:
    mine, theirs = ([step.digest for step in either.steps] for either in (entry, other))
    if mine == theirs:
        return _last_touched(entry) > _last_touched(other)
    return mine[: len(theirs)] == theirs


def _last_touched(entry: BaselineEntry) -> float:
    days = [day.timestamp for day in entry.days]
    measured = [proof.measurement.ended_at for proof in (entry.candidate, *entry.merges) if proof]
    return max([*days, *measured, entry.timestamp]).timestamp()
