"""Decide whether a claimed speed-up holds on this machine. Pure; the report of `ratchet quickwins` calls it."""

from __future__ import annotations

from typing import Literal

from ratchet.records.variants import Claim

Holding = Literal["holds", "less", "more", "no gain", "slower", "faster", "undecided", "not measured"]
ROOM = 0.05
"""A claimed factor is rounded: a speed-up that is off by less agrees with it."""


def holding(claim: Claim, interval: tuple[float, float] | None) -> Holding:
    """Compare the interval of a speed-up with a claim; one without a figure holds nowhere, so it is ``faster`` at best."""
    if interval is None:
        return "not measured"
    low, high = interval
    least = claim.low * (1 - ROOM) if claim.low else 1.0
    if high < 1:
        return "slower"
    if low <= 1:
        return "undecided" if high >= least and claim.low else "no gain"
    if claim.low is None or claim.high is None:
        return "faster"
    if high < least:
        return "less"
    return "more" if low > claim.high * (1 + ROOM) else "holds"
