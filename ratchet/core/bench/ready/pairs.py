"""Give pairs of workers that have built a case: they may have been got ready before their turn, several pairs side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ratchet.core.bench.client import CaseTrouble, Lost
from ratchet.core.bench.messages import BuiltCase
from ratchet.core.bench.ready.workers import SideWorkers, Workers
from ratchet.core.bench.turns import Measured, in_turn, order_of_pair
from ratchet.core.records.run import LostWorker, Side


@dataclass(kw_only=True)
class NumberedPair(SideWorkers):
    """A pair of workers, and the cases that it measures, in its own order."""

    number: int
    order: Sequence[Measured]
    is_light: bool = False


class ReadyPairs:
    """The pairs of a measurement over some workers. For use in one thread."""

    together = 1
    """Pairs whose workers get ready at the same time (`Tricks.pairs_together`), on a GPU: each then waits for its turn."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self._plan = workers, workers.plan

    def announce(self, turns: Sequence[tuple[NumberedPair, Measured]], placements: int | None = None) -> None:
        """Let the workers of several pairs, forked if there are none, build the next case of each at the same time, on a GPU.

        Where that fails, the pair has no workers afterwards, and what happens when it is measured counts.
        """
        if not self._workers.in_parallel or len(turns) < 2:
            return
        started = time.monotonic()
        lost = self._workers.run_concurrently([partial(self._built, pair, case, placements) for pair, case in turns])
        seconds = (time.monotonic() - started) / len(turns)
        for (_, case), one in zip(turns, lost, strict=True):
            case.lost_ahead += [one] if one else []
            case.seconds += seconds

    def next_pair(
        self, case: str, pair: NumberedPair, sides: Sequence[Side], *, concurrent: bool = True, placements: int | None = None
    ) -> SideWorkers:
        """Return a pair whose sides have built the case, in this order. Raises CaseTrouble, and HostError for lack of a worker.

        ``concurrent`` lets both sides build at once, which takes the memory of both.
        """
        if pair.case == case and set(pair.prepared) == set(sides):
            self._workers.wait_for_ends()  # then nothing disturbs what is timed now
            pair.case = ""
            return pair
        self._fork_missing(pair, sides, case)
        may_share = concurrent and case not in self._workers.prepared_alone
        pair.prepared = self._build(pair, sides, case, placements, concurrent=may_share)
        return pair

    def _built(self, pair: NumberedPair, case: Measured, placements: int | None) -> LostWorker | None:
        """Build a case in the workers of a pair, or end them. Return one that was lost."""
        flipped, _ = order_of_pair(self._plan.order_seed, case.name, pair.number)
        sides = in_turn(case.remaining_sides, flipped=flipped)
        self._fork_missing(pair, sides, case.name)
        if case.name in self._workers.prepared_alone or case.lost_ahead:
            return None
        try:
            pair.prepared = self._build(pair, sides, case.name, placements, concurrent=True)
            pair.case = case.name
        except CaseTrouble as error:
            self._workers.stop_workers(pair)
            return error.lost_worker(pair.number) if isinstance(error, Lost) else None
        return None

    def _fork_missing(self, pair: NumberedPair, sides: Sequence[Side], case: str) -> None:
        """Get a worker of each side for the case, while earlier workers end; afterwards the memory of these is free."""
        self._workers.run_concurrently([partial(self._workers.fork_missing, pair, side, case) for side in sides])
        self._workers.wait_for_ends()

    def _build(
        self, pair: NumberedPair, sides: Sequence[Side], case: str, placements: int | None, *, concurrent: bool
    ) -> dict[Side, BuiltCase]:
        """Build the case in the workers of a pair. Raises CaseTrouble."""
        prepare, seed = self._workers.prepare, self._plan.seed + 2 * pair.number
        calls = [partial(prepare, side, pair.workers[side], case, seed, check=False, placements=placements) for side in sides]
        return dict(zip(sides, self._workers.run_concurrently(calls, concurrent=concurrent), strict=True))
