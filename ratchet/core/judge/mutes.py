"""Muted cases: a slowdown of one fails nothing until a date, and is said in every report.

`ratchet history` asks for the mutes that have ended, so this file loads no NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from ratchet.core import units
from ratchet.core.records.run import Mute
from ratchet.core.records.verdict import CaseVerdict


def with_mutes(cases: Sequence[CaseVerdict], mutes: Sequence[Mute], day: date) -> list[CaseVerdict]:
    """Return the cases of a run of this day, each with the sentence of the mute that covers it."""
    active = [mute for mute in mutes if day <= mute.until]
    muted = []
    for case in cases:
        mute = next((mute for mute in active if mute.covers(case.name)), None)
        sentence = f"Until {mute.until} by {mute.owner}: {mute.reason}" if mute else None
        muted.append(case.model_copy(update={"muted": sentence}))
    return muted


def warnings(cases: Sequence[CaseVerdict], mutes: Sequence[Mute], day: date) -> Iterator[str]:
    """Yield a sentence for each mute that is over, and for each case that is muted, with what it hides."""
    for mute in mutes:
        if day > mute.until:
            yield (
                f"The mute of {mute.case} by {mute.owner} ended on {mute.until}, so the case counts again. Remove it from the "
                "settings, or give it a later date."
            )
    for case in cases:
        if case.muted:
            ratio = case.changed_ratio
            if case.is_silenced and ratio:
                what = f", so its slowdown of {units.percent(ratio - 1, 2)} does not fail the run"
            else:
                unneeded = "; the mute changes nothing in this run"
                what = ", so its inconclusive result does not fail the run" if case.is_silenced else unneeded
            yield f"{case.name} is muted ({units.lowered(case.muted)}){what}."
