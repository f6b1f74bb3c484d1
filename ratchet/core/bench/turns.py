"""Time the two workers of one pair in turns: warm both up, then take blocks in the order A B B A, and a block of each stage.

Samples that cannot be true are refused. With ``ratchet doctor soak --plant`` the turns of a case follow a `Planted` slowdown.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ratchet.core.bench.client import Implausible, Impossible, WorkerClient
from ratchet.core.bench.lost import CHECK_WORK, beyond_hardware, problem_of
from ratchet.core.bench.messages import BuiltCase, Ready, Sampled
from ratchet.core.device.telemetry import Sampler, Window
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import SIDES, Block, CaseRun, Failure, LostWorker, Plan, Side, WorkerSamples


@dataclass
class WorkerResult:
    """The samples of one worker for one case, as they grow, and when each of its blocks was measured."""

    samples: WorkerSamples
    windows: list[Window] = field(default_factory=list)

    def note(self, **found: Any) -> None:
        self.samples = replace(self.samples, **found)

    @property
    def waited_for_host(self) -> bool:
        return all(block.exposed for block in self.samples.blocks)

    def marked(self, sampler: Sampler | None) -> WorkerSamples:
        """Return the record, with a mark at each block during which ``sampler`` saw the GPU slowed."""
        timed = zip(self.samples.blocks, self.windows, strict=True)
        blocks = (replace(block, throttled=sampler is not None and sampler.slowed(window)) for block, window in timed)
        return replace(self.samples, blocks=tuple(blocks))


@dataclass
class Measured:
    """Everything that was measured of one case."""

    case: CaseRun
    """As it was before it was timed."""
    sides: tuple[Side, ...]
    workers: dict[Side, list[WorkerResult]] = field(default_factory=lambda: {"reference": [], "head": []})
    failures: list[Failure] = field(default_factory=list)
    lost: list[LostWorker] = field(default_factory=list)
    lost_ahead: list[LostWorker] = field(default_factory=list)
    """Workers that were lost beside others, while several pairs got ready; none of the tries that `lost` counts."""
    unfit: str | None = None
    """Why this case cannot be measured, and what to do: no verdict on the code of either side."""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def remaining_sides(self) -> tuple[Side, ...]:
        """The sides still worth measuring: none once the head failed, the head alone once the reference did."""
        failed = {failure.side for failure in self.failures}
        return () if self.unfit or "head" in failed else tuple(side for side in self.sides if side not in failed)

    def record(self, sampler: Sampler | None) -> CaseRun:
        sides: dict[str, Any] = {side: tuple(one.marked(sampler) for one in self.workers[side]) for side in SIDES}
        return self.case.model_copy(
            update={
                **sides,
                "failures": (*self.case.failures, *self.failures),
                "pair_s": self.seconds / max(1, len(self.workers["head"])),
                "lost": (*self.case.lost, *self.lost_ahead, *self.lost),
                "unfit": self.unfit,
            }
        )


FEWEST, MOST = 3, 30
"""Samples in one block."""
LONG_BLOCK_MS = 150.0
"""Fewer samples make a block if they take so long: what they tell of their process is not worth the wait."""
FEWEST_BLOCKS = 4
"""Blocks of each side in a pair, at least, unless the plan has fewer: both orders come twice."""
BLOCK_WALL = 2.5
"""Times the wanted length of a block that it may take with all that is not timed: a call of 0.2 ms may take 1 ms to launch."""
SETTLED = 0.005
"""Warm-up ends once the last three turns of each side agree within this fraction, or after `WARM_S` seconds.

Cases that are noisier than that end their warm-up at the limit."""
WARM_S = 0.04


@dataclass(frozen=True)
class Planted:
    """A turn of either side gives one sample: the time of all its calls, divided by ``calls``.

    The reference makes ``calls`` calls in a turn, the head ``more`` beyond that. Each is timed as any other, with its own flush
    of the cache, so the head takes ``more / calls`` longer by work that it really does, on inputs of its own.
    """

    calls: int
    more: int

    def count(self, side: Side) -> int:
        return self.calls + (self.more if side == "head" else 0)

    def sample(self, times_ms: tuple[float, ...]) -> tuple[float, ...]:
        """Return the sample of a turn; none where no time is known."""
        return (math.fsum(times_ms) / self.calls,) if times_ms else ()


@dataclass(frozen=True)
class PairTimer:
    """A timer of the two workers of a pair, or of one alone, for the case that they have built."""

    _workers: Mapping[Side, WorkerClient]
    _prepared: Mapping[Side, BuiltCase]
    _plan: Plan
    _peaks: Peaks | None
    _planted: Planted | None
    _drawn: random.Random
    """Varies the lengths of blocks."""

    def take(self, results: Mapping[Side, WorkerResult], first: Sequence[Side]) -> None:
        """Add blocks and samples of stages to the results. ``first``: the sides in the first turn. Raises CaseTrouble."""
        count = self._warm_up(first)
        position, places = 0, min(one.places for one in self._prepared.values())  # the side that takes less memory may have more
        for index in range(self._plan.blocks):
            # A call that is slow every fourth time would be the one that is not timed in each block of three, or in none.
            asked = count + (self._drawn.randrange(2) if count > 1 else 0)
            for side in in_turn(first, flipped=index % 2 == 1):
                self._take_block(results[side], side, index, position, asked, place=index % places)
                position += 1
            if self._suffices(index + 1, results.values()):
                break
        for side in first:
            results[side].note(stages_ms={name: self._sample_stage(side, name, count) for name in self._prepared[side].stages})

    def take_light(self, results: Mapping[Side, WorkerResult], first: Sequence[Side], count: int) -> None:
        """Add one block of each side, after one that is not kept: enough to tell a slow process. Raises CaseTrouble."""
        # Calls that are slow every tenth time would be timed in each of these processes, or in none.
        unkept = count + self._drawn.randrange(count + 1)
        for side in first:
            self._sample(side, "block", unkept, place=0, untimed=count > 1)
        for position, side in enumerate(reversed(first)):
            self._take_block(results[side], side, 0, position, count, place=0)

    def _take_block(self, result: WorkerResult, side: Side, index: int, position: int, count: int, *, place: int) -> None:
        planted = self._planted
        asked = planted.count(side) if planted else count
        sampled, window = self._sample(side, "block", asked, place=place, untimed=count > 1)
        times_ms = planted.sample(sampled.samples_ms) if planted else sampled.samples_ms
        block = Block(index=index, position=position, samples_ms=times_ms, exposed=sampled.exposed)
        result.note(blocks=(*result.samples.blocks, block))
        result.windows.append(window)

    def use_cores(self, cores: Sequence[int]) -> None:
        """Move the workers to these cores, or to all if there are none."""
        for side in self._prepared:
            self._workers[side].ask("use_cores", Ready, cores=cores)

    def _suffices(self, blocks: int, workers: Collection[WorkerResult]) -> bool:
        """Return whether a pair has enough blocks before the last: half of them, on a GPU that never waited for the host.

        There, blocks of one process hardly differ: half of eight leave the spread of pairs as it is within a few per cent
        (docs/decisions/0019-at-once.md). On the CPU half of them, where one sample makes a block. On both sides alike, so it
        favours neither.
        """
        on_host = any(one.workload.clock == "cpu" for one in self._prepared.values())
        if on_host and any(len(one.samples.blocks[-1].samples_ms) > 1 for one in workers):
            return False
        half = max(FEWEST_BLOCKS, self._plan.blocks // 2)
        return (
            blocks >= half and blocks % 2 == 0 and not any(block.exposed for worker in workers for block in worker.samples.blocks)
        )

    def _warm_up(self, sides: Sequence[Side]) -> int:
        """Take turns until both sides have settled: power management lowers the clock some tens of milliseconds into a load.

        Return the number of samples that make a block of the wanted length.
        """
        medians: dict[Side, list[float]] = {side: [] for side in sides}
        walls: dict[Side, float] = {}
        places = min(self._prepared[side].places for side in sides)
        deadline = time.monotonic() + WARM_S
        on_host = all(one.workload.clock == "cpu" for one in self._prepared.values())
        count = 1 if on_host else FEWEST
        while True:
            for side in sides:
                place = len(medians[side]) % places
                sampled, window = self._sample(side, "block", count, place=place, untimed=count > 1)
                medians[side].append(statistics.median(sampled.samples_ms))
                walls[side] = (window[1] - window[0]) * 1e3 / (count + 1)
            rounds, wall_ms = len(medians[sides[0]]), max(walls.values())
            call_ms = max(values[-1] for values in medians.values())
            fewest = min(FEWEST, max(1, round(LONG_BLOCK_MS / max(call_ms, 1e-9))))
            most = min(MOST, max(fewest, round(BLOCK_WALL * self._plan.block_ms / wall_ms)))
            count = min(most, max(fewest, round(self._plan.block_ms / max(call_ms, 1e-9))))
            enough = 2 if count == 1 else 3  # the first turn may be slow for reasons of its own
            if all(map(_settled, medians.values())) or (rounds >= enough and time.monotonic() > deadline):
                return count

    def _sample(self, side: Side, op: str, count: int, **arguments: object) -> tuple[Sampled, Window]:
        """Return samples of a block or a stage, and when they were taken. Raises CaseTrouble, also where they cannot be true."""
        workload = self._prepared[side].workload
        start = time.monotonic()
        sampled = self._workers[side].ask(op, Sampled, samples=count, **arguments)
        window = (start, time.monotonic())
        clock = workload.clock if op == "block" else "stage"
        if problem := problem_of(sampled.samples_ms, count, window[1] - window[0], clock):
            raise Implausible(side, op, problem, ())
        excess = beyond_hardware(sampled.samples_ms, workload, self._peaks) if op == "block" else None
        if excess:
            what, is_certain = excess
            raise Impossible(side, op, what, ()) if is_certain else Implausible(side, op, f"{what}: {CHECK_WORK}", ())
        return sampled, window

    def _sample_stage(self, side: Side, stage: str, count: int) -> tuple[float, ...]:
        """Return samples of a stage: a block of it, which is more samples than of the whole call. The first ones warm it up."""
        first, _ = self._sample(side, "stage", count, name=stage)
        wanted = min(MOST, round(self._plan.block_ms / max(statistics.median(first.samples_ms), 1e-9)))
        if wanted <= count:
            return first.samples_ms
        return self._sample(side, "stage", wanted, name=stage)[0].samples_ms


def order_of_pair(seed: int, case: str, pair: int) -> tuple[bool, bool]:
    """Return whether the head forks first in this pair, and whether it times first.

    Two fair coins are thrown for each pair, whatever came up before. So each of the 2ⁿ ways to exchange the sides of n pairs is
    as likely as any other, which is what the randomisation test counts: R. A. Fisher, The Design of Experiments, 1935.
    """
    coins = random.Random(f"{seed} {case} {pair}").getrandbits(2)  # noqa: S311  an order of sides, not a secret
    return bool(coins & 1), bool(coins & 2)


def in_turn(sides: Sequence[Side], *, flipped: bool) -> tuple[Side, ...]:
    return tuple(reversed(sides)) if flipped else tuple(sides)


def _settled(medians: Sequence[float]) -> bool:
    last = medians[-3:]
    return len(last) == 3 and max(last) - min(last) <= SETTLED * min(last)
