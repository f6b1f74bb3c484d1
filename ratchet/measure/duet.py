"""Two sides take turns on one device: pairs of fresh workers, blocks in the order A B B A, every sample kept.

The process is the unit that repeats: samples of one process agree with each other and are wrong together. So the
many cheap pairs that `measure` forks matter more than the many samples in each. With one side it times that alone.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ratchet.measure.messages import Checked, Identified, Prepared, Sampled
from ratchet.measure.side import CaseTrouble, HostHandle, Worker, refuse_foreign
from ratchet.records.run import Block, Failure, Plan, Side, WorkerSamples
from ratchet.workload import Parameter

FEWEST, MOST = 3, 30
"""Samples in one block."""
SETTLED = 0.005
"""Warm-up ends once the last three turns of each side agree within this fraction, or after `WARM_S` seconds."""
WARM_S = {"cuda": 0.4, "cpu": 0.1}

Window = tuple[float, float]
"""Start and end on the monotonic clock, in seconds."""


class Progress(Protocol):
    """What a person is shown meanwhile; called between turns, never inside one."""

    def start(self, total_cases: int, pairs: int) -> None: ...

    def stage(self, text: str) -> None: ...

    def case(self, name: str, pair: int, done: int, total: int) -> None: ...


class Slowdowns(Protocol):
    """Knows when heat or a hardware brake slowed the GPU."""

    def slowed(self, window: Window) -> bool: ...


class Watch(Protocol):
    """Told which processes are ours, so that others can be told apart."""

    def own(self, pids: Iterable[int]) -> None: ...


@dataclass(frozen=True)
class Wanted:
    """A case and the sides that have it."""

    name: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Variant:
    """What stands behind the name of a case: perhaps another case, with other values of its tunable parameters."""

    case: str
    tuning: Mapping[Side, Mapping[str, Parameter]]
    """A side that is not named has the workload's own."""


@dataclass
class Taken:
    """A block, and when it was taken."""

    block: Block
    window: Window


@dataclass
class Turned:
    """What one worker gave for one case, before the blocks are marked."""

    pair: int
    started_first: bool
    ready_s: float
    peak_memory_bytes: int
    blocks: list[Taken] = field(default_factory=list)
    stages_ms: dict[str, tuple[float, ...]] = field(default_factory=dict)
    checked: Checked | None = None

    def samples(self, sampler: Slowdowns | None = None) -> WorkerSamples:
        """The record of this worker, with a mark at each block during which ``sampler`` saw the GPU slowed."""
        if self.checked is None:
            raise ValueError("this worker did not finish")
        return WorkerSamples(
            pair=self.pair,
            started_first=self.started_first,
            blocks=tuple(
                replace(taken.block, throttled=sampler is not None and sampler.slowed(taken.window)) for taken in self.blocks
            ),
            ready_s=self.ready_s,
            peak_memory_bytes=self.peak_memory_bytes,
            error=self.checked.error,
            stages_ms=self.stages_ms,
        )


@dataclass
class Measured:
    """All of one case."""

    turned: dict[Side, list[Turned]] = field(default_factory=lambda: {"reference": [], "head": []})
    failures: list[Failure] = field(default_factory=list)

    def left(self, sides: tuple[Side, ...]) -> tuple[Side, ...]:
        """The sides still worth measuring: none once the head failed, the head alone once the reference did."""
        failed = {failure.side for failure in self.failures}
        return () if "head" in failed else tuple(side for side in sides if side not in failed)


@dataclass(frozen=True)
class Surveyed:
    """A case that can be built, and who it is, where that was asked."""

    prepared: Prepared
    digest: str = ""
    opaque: str = ""
    """Why it has no digest."""


@dataclass(frozen=True)
class Rounds:
    """How many pairs, and when to stop."""

    looks: tuple[int, ...]
    """Numbers of pairs after which the undecided cases are asked for; the last is the most that are taken."""
    budget_s: float
    """After so many seconds no further pair begins beyond the first round; 0: never."""
    undecided: Callable[[Mapping[str, Measured]], Collection[str]]
    """Which cases more pairs could still decide."""


class Duet:
    """Runs the plan over the hosts of one or two trees."""

    def __init__(
        self,
        hosts: Mapping[Side, HostHandle],
        plan: Plan,
        progress: Progress,
        watch: Watch,
        variants: Mapping[str, Variant] | None = None,
    ) -> None:
        self._hosts = hosts
        self._variants = variants or {}
        self._plan = plan
        self.progress = progress
        self._watch = watch
        self._random = random.Random(plan.seed)  # noqa: S311  an order of cases, not a secret
        self._workers: dict[Side, Worker] = {}

    def survey(
        self, side: Side, cases: Sequence[str], *, identify: bool, twins: Mapping[str, str] | None = None
    ) -> dict[str, Surveyed | Failure]:
        """Build and check every case of one side once: compilation happens here, and what is broken is found here.

        ``identify`` asks for each case's identity too. ``twins`` are identities of cases of the other side, which was checked:
        a case with the same one is the same, and not checked again.
        """
        found: dict[str, Surveyed | Failure] = {}
        for name in cases:
            try:
                found[name] = self._survey(side, name, (twins or {}).get(name, ""), identify=identify)
            except CaseTrouble as error:
                found[name] = _failure(error)
                self._retire(side)
        self._retire(side)
        return found

    def _survey(self, side: Side, name: str, twin: str, *, identify: bool) -> Surveyed:
        prepared = self._prepare(side, name, self._seed(0), check=not twin)
        if not identify:
            return Surveyed(prepared)
        identified = self._workers[side].ask("identify", Identified)
        if identified.spent:
            self._retire(side)
        if twin and identified.digest != twin:
            prepared = self._prepare(side, name, self._seed(0), check=True)
        return Surveyed(prepared, identified.digest, identified.opaque)

    def measure(self, cases: Sequence[Wanted], rounds: Rounds) -> dict[str, Measured]:
        """Every case in rounds of pairs, until nothing is undecided, the last round is over, or the budget is spent.

        A case whose head fails is left out from then on; a reference that fails is. The first round is always finished.
        """
        results = {case.name: Measured() for case in cases}
        deadline = time.monotonic() + rounds.budget_s if rounds.budget_s else math.inf
        done, first = 0, 0
        for last in rounds.looks:
            going = [case for case in cases if results[case.name].left(case.sides)]
            if first:
                names = rounds.undecided(results)
                going = [case for case in going if case.name in names]
            total = done + len(going) * (last - first)
            for pair in range(first, last):
                order = [case for case in going if results[case.name].left(case.sides)]
                self._random.shuffle(order)
                for case in order:
                    if first and time.monotonic() > deadline:
                        self._retire_all()
                        return results
                    self._measure_sides(pair, case, results[case.name])
                    done += 1
                    self.progress.case(case.name, pair, done, total)
                self._retire_all()
            first = last
        return results

    def _measure_sides(self, pair: int, case: Wanted, result: Measured) -> None:
        """One pair of one case; once more with the head alone where the reference failed in it."""
        sides = result.left(case.sides)
        self._measure_case(pair, Wanted(case.name, sides), result)
        if sides != (left := result.left(sides)) and left:
            self._measure_case(pair, Wanted(case.name, left), result)

    def _measure_case(self, pair: int, case: Wanted, result: Measured) -> None:
        # Who forks and allocates first changes every pair, who times first every other one.
        sides = _turn(case.sides, flipped=pair % 2 == 1)
        turned: dict[Side, Turned] = {}
        prepared: dict[Side, Prepared] = {}
        try:
            for side in sides:
                prepared[side] = self._prepare(side, case.name, self._seed(2 * pair), check=False)
                ready_s, peak = self._workers[side].ready_s, prepared[side].peak_memory_bytes
                turned[side] = Turned(pair, side == sides[0], ready_s, peak)
            count = min(MOST, max(FEWEST, round(self._plan.block_ms / max(one.call_ms for one in prepared.values()))))
            first = _turn(case.sides, flipped=pair // 2 % 2 == 1)
            self._warm_up(first, count)
            position = 0
            for index in range(self._plan.blocks):
                for side in _turn(first, flipped=index % 2 == 1):
                    start = time.monotonic()
                    sampled = self._workers[side].ask("block", Sampled, samples=count, place=index)
                    block = Block(index=index, position=position, samples_ms=sampled.samples_ms, exposed=sampled.exposed)
                    turned[side].blocks.append(Taken(block, (start, time.monotonic())))
                    position += 1
            for side in first:
                for stage in prepared[side].stages:
                    sampled = self._workers[side].ask("stage", Sampled, name=stage, samples=count)
                    turned[side].stages_ms[stage] = sampled.samples_ms
            for side in sides:
                turned[side].checked = self._workers[side].ask("finish", Checked, seed=self._seed(2 * pair + 1))
        except CaseTrouble as error:
            result.failures.append(_failure(error))
            for each in case.sides:
                self._retire(each)
            return
        for side, one in turned.items():
            result.turned[side].append(one)

    def _warm_up(self, sides: Sequence[Side], count: int) -> None:
        """Take turns until both sides have settled: power management lowers the clock tens of milliseconds into a load."""
        medians: dict[Side, list[float]] = {side: [] for side in sides}
        deadline = time.monotonic() + WARM_S["cpu" if self._plan.clock == "cpu" else "cuda"]
        while True:
            for side in sides:
                sampled = self._workers[side].ask("block", Sampled, samples=count, place=len(medians[side]))
                medians[side].append(statistics.median(sampled.samples_ms))
            rounds = len(medians[sides[0]])
            if all(_settled(values) for values in medians.values()) or (rounds >= 3 and time.monotonic() > deadline):
                return

    def _prepare(self, side: Side, name: str, seed: int, *, check: bool) -> Prepared:
        if side not in self._workers:
            self._workers[side] = self._hosts[side].fork()
            self._watch.own(worker.pid for worker in self._workers.values())
        plan, variant = self._plan, self._variants.get(name, Variant(name, {}))
        prepared = self._workers[side].ask(
            "prepare",
            Prepared,
            case=variant.case,
            seed=seed,
            check=check,
            clock=plan.clock,
            cache=plan.cache,
            placements=plan.placements,
            tuning=variant.tuning.get(side),
        )
        refuse_foreign(side, prepared.foreign)
        return prepared

    def _retire_all(self) -> None:
        for side in list(self._workers):
            self._retire(side)

    def _retire(self, side: Side) -> None:
        worker = self._workers.pop(side, None)
        if worker is not None:
            worker.end()
            self._watch.own(worker.pid for worker in self._workers.values())

    def _seed(self, index: int) -> int:
        return self._plan.seed + index


def _turn(sides: Sequence[Side], *, flipped: bool) -> tuple[Side, ...]:
    return tuple(reversed(sides)) if flipped else tuple(sides)


def _settled(medians: Sequence[float]) -> bool:
    last = medians[-3:]
    return len(last) == 3 and max(last) - min(last) <= SETTLED * min(last)


def _failure(error: CaseTrouble) -> Failure:
    stage = {"start": "prepare", "block": "measure", "finish": "check"}.get(error.stage, error.stage)
    return Failure(side=error.side, stage=stage, message=error.message, last_lines=error.last_lines)
