"""When the pairs of a case are looked at, and which cases are worth more of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ratchet.judge.drift import adds_up
from ratchet.judge.outcome import compared, decide
from ratchet.records.policy import Policy
from ratchet.records.run import CaseRun
from ratchet.records.verdict import Comparison, Outcome

LOOKS = (6, 8, 12, 16, 20)
"""Even numbers, so that each side forked and allocated first equally often."""
LATER = 1.4
"""Beyond these, each look has so many times the pairs of the one before."""
CONFIRMED = 8
"""A change is believed from so many pairs on; that nothing changed, from the first look on."""


def looks(pairs: int) -> tuple[int, ...]:
    """Numbers of pairs at which a case is looked at, where at most ``pairs`` are taken: the last one is ``pairs``."""
    numbers = list(LOOKS)
    while numbers[-1] < pairs:
        numbers.append(2 * round(LATER * numbers[-1] / 2))
    return (*(number for number in numbers if number < pairs), pairs)


def looks_for_change(pairs: int) -> int:
    """At how many of these looks a case may be called changed: its false alarms are shared among them."""
    return sum(1 for number in looks(pairs) if number >= min(CONFIRMED, pairs))


def undecided(cases: Sequence[CaseRun], policy: Policy, pairs: int, drifting: Collection[str] = ()) -> set[str]:
    """Names of the cases that more pairs could still decide; one without a reference, none could.

    ``drifting`` are cases whose reference is not the best commit of the baseline: there a small slowdown matters too.
    """
    each = _one_look(cases, policy, pairs)
    found = {case.name: compared(case, policy.confidence) for case in cases if case.reference}
    return {name for name, seen in found.items() if seen is None or not is_decided(seen, each, pairs, drifts=name in drifting)}


def is_decided(seen: Comparison, policy: Policy, pairs: int, *, drifts: bool = False) -> bool:
    """Whether more pairs would be a waste. ``policy`` holds this case's share of the false alarms."""
    outcome, _ = decide(seen, policy)
    if outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        return seen.pairs >= min(CONFIRMED, pairs)
    may_improve = seen.ratio <= 1 - policy.improvement
    part = drifts and adds_up(seen, policy)
    may_add_up = part is None or (part and seen.pairs < min(CONFIRMED, pairs))
    return outcome is Outcome.UNCHANGED and not (may_improve or may_add_up)


def suspects(cases: Sequence[CaseRun], policy: Policy, pairs: int, best: Mapping[str, str]) -> dict[str, list[str]]:
    """Best commit → the cases to measure against it: those that this change slowed by a part that counts, inside the gate."""
    each = _one_look(cases, policy, pairs)
    found: dict[str, list[str]] = {}
    for case in cases:
        own = compared(case, policy.confidence) if case.name in best else None
        if own and adds_up(own, each) and decide(own, each)[0] is not Outcome.REGRESSED:
            found.setdefault(best[case.name], []).append(case.name)
    return found


def _one_look(cases: Sequence[CaseRun], policy: Policy, pairs: int) -> Policy:
    """The policy of one of these cases at one look, before Holm's method gives the less likely ones more room."""
    return policy.shared(sum(1 for case in cases if case.head and case.reference), looks_for_change(pairs))
