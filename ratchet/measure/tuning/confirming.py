"""The best few against the default, as a check compares two commits: in pairs of fresh processes that take turns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet.judge.outcome import decide
from ratchet.judge.tuning import FINAL_PAIRS, bar_of_finals
from ratchet.measure.duet import Duet, Measured, Rounds, Variant, Wanted
from ratchet.measure.side import HostHandle
from ratchet.measure.telemetry import Owner, Sampler
from ratchet.records.policy import Policy
from ratchet.records.run import Plan, Side
from ratchet.records.tuning import Configuration, Confirmation
from ratchet.records.verdict import Comparison, Outcome
from ratchet.stats.comparison import FEWEST_PAIRS, compare_workers

USUAL = 10
"""Pairs after which who wins gets no more."""
SIDES: tuple[Side, ...] = ("reference", "head")


class _Silent:
    """Nobody looks on pair by pair."""

    def start(self, total_cases: int, pairs: int) -> None: ...

    def stage(self, text: str) -> None: ...

    def case(self, name: str, pair: int, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Finals:
    """Who is compared on which case, and how it is judged."""

    case: str
    configurations: Sequence[Configuration]
    plan: Plan
    policy: Policy
    seconds: float

    def confirmed(self, hosts: Mapping[Side, HostHandle], sampler: Sampler | None) -> tuple[Confirmation, ...]:
        """Each configuration as the head against the workload's own tuning as the reference.

        Ends with the pairs that there are after ``seconds``. Raises HostError.
        """
        variants = {str(number): Variant(self.case, {"head": each}) for number, each in enumerate(self.configurations)}
        until = time.monotonic() + self.seconds
        for host in hosts.values():
            host.until = until
        duet = Duet(hosts, self.plan, _Silent(), Owner(sampler), variants)
        looks = tuple(range(1, self.plan.pairs + 1))
        # What a pair takes, a pair more may take: so long before the end none begins.
        rounds = Rounds(looks, max(0.1, self.seconds * 0.9), lambda measured: self._undecided(measured, sampler))
        measured = duet.measure([Wanted(name, SIDES) for name in variants], rounds)
        config, late = self.case.partition("/")[2], time.monotonic() >= until
        return tuple(
            self._told(configuration, config, measured[name], sampler, late=late)
            for name, configuration in zip(variants, self.configurations, strict=True)
        )

    def _undecided(self, measured: Mapping[str, Measured], sampler: Sampler | None) -> list[str]:
        """Those that may still be the best and are not decided; none is left out before there are `FINAL_PAIRS`."""
        pairs = max((len(each.turned["head"]) for each in measured.values()), default=0)
        if pairs < FINAL_PAIRS:
            return list(measured)
        found = {name: made for name, each in measured.items() if (made := self._compared(each, sampler)) is not None}
        if not found:
            return list(measured)
        best = min(found.values(), key=lambda comparison: comparison.ratio)
        return [name for name, made in found.items() if made.low <= best.high and not self._settled(made)]

    def _settled(self, found: Comparison) -> bool:
        """Whether more pairs would hardly tell more: it cannot win, or it wins and the interval is as narrow as usual."""
        improved = decide(found, bar_of_finals(self.policy, len(self.configurations)))[0] is Outcome.IMPROVED
        return found.low > 1 - self.policy.improvement or (improved and found.pairs >= USUAL)

    def _compared(self, measured: Measured, sampler: Sampler | None) -> Comparison | None:
        head, reference = (
            [one.samples(sampler) for one in turned] for turned in (measured.turned["head"], measured.turned["reference"])
        )
        return compare_workers(head, reference, self.policy.confidence)

    def _told(
        self, configuration: Configuration, config: str, measured: Measured, sampler: Sampler | None, *, late: bool
    ) -> Confirmation:
        found = self._compared(measured, sampler)
        failure = next(iter(measured.failures), None)
        if failure is not None and not late:  # who was cut off by the end of the time has not failed
            found, reason = None, f"{failure.side}, {failure.stage}: {failure.message}"
        elif measured.unfit is not None:
            found, reason = None, measured.unfit
        elif found is None:
            reason = f"only {len(measured.turned['head'])} of the {FEWEST_PAIRS} pairs that an interval needs were there in time"
        else:
            reason = ""
        return Confirmation(configuration=configuration, config=config, comparison=found, reason=reason)
