"""Two baseline files that went on from the same steps: main's, and the one that waits in a pull request."""

from __future__ import annotations

from ratchet.records.baseline import Baseline, BaselineEntry


def joined(main: Baseline, waiting: Baseline) -> Baseline:
    """Case by case the chain that goes on from the other; where both went on in ways of their own, main's.

    Of two entries with the same steps the one that was touched last stays: it knows the newer candidate, merges and days.
    """
    for part in waiting.fingerprints.values():
        entries = main.entries(part.fingerprint)
        later = {name: entry for name, entry in part.configs.items() if name not in entries or _goes_on(entry, entries[name])}
        if any(entries.get(name) != entry for name, entry in later.items()):
            main = main.with_entries(part.fingerprint, entries | later)
    return main


def _goes_on(entry: BaselineEntry, other: BaselineEntry) -> bool:
    mine, theirs = ([step.digest for step in each.steps] for each in (entry, other))
    if mine == theirs:
        return _last_touched(entry) > _last_touched(other)
    return len(mine) > len(theirs) and mine[: len(theirs)] == theirs


def _last_touched(entry: BaselineEntry) -> float:
    days = [day.timestamp for day in entry.days]
    measured = [each.measurement.ended_at for each in (entry.candidate, *entry.merges) if each]
    return max([*days, *measured, entry.timestamp]).timestamp()
