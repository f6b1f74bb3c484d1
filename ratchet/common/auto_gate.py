"""The smallest gate that a case can hold, by how far its pairs differ: `regression_threshold = "auto"`. Pure.

``ratchet baseline record`` and ``ratchet ci push`` keep it in the baseline, where a pull request cannot raise its own, and
``ratchet doctor calibrate`` suggests it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from ratchet.core.judge.evidence import CaseThresholds, needed_change, thresholds_for
from ratchet.core.judge.rule import looks_for_change
from ratchet.core.records.run import Policy

CAUGHT = 0.95
"""Share of slowdowns a sixth beyond a gate (3.5 % for a gate of 3 %) that must be caught to hold it."""
BEYOND = 7 / 6
_STEP = 0.001
"""Gates are multiples of this."""
FEWEST_DAYS = 5
"""Days of main without which nobody knows how a case differs from day to day."""
LEAST, MOST = 0.01, 0.1
"""Bounds of a gate that follows the history: smaller changes come from other things than the code (docs/trust.md), and what is
slower by more than the largest must never pass."""


def gate_of_history(spreads: Sequence[float], policy: Policy, pairs: int, cases: int) -> float | None:
    """Return the gate of a case whose pairs spread so far on each day, in runs of so many cases; None for a short history.

    It is held on every one of these days: one on which the machine was noisy counts.
    """
    if len(spreads) < FEWEST_DAYS:
        return None
    gate = smallest_gate(max(spreads), pairs, thresholds_for(policy, cases, looks_for_change(pairs)))
    return round(min(MOST, max(LEAST, gate)), 3)


def smallest_gate(spread: float, pairs: int, thresholds: CaseThresholds) -> float:
    """Return the gate at which a slowdown a sixth beyond it is red in 95 of 100 checks of ``pairs`` pairs: a multiple of 0.1 %.

    ``spread`` is the standard deviation of one pair's log ratio. At most 100 %.
    """
    most = max(thresholds.pairs_needed, pairs)

    def holds(steps: int) -> bool:
        gate, beyond = (math.log1p(by * steps * _STEP) for by in (1, BEYOND))
        return needed_change(gate, spread, thresholds, most, CAUGHT) <= beyond

    return (1 + bisect_left(range(1, round(1 / _STEP)), True, key=holds)) * _STEP
