"""Let two sides take turns on one device: rounds of pairs of fresh workers, every sample kept; `turns` times one pair.

The process is the unit of replication: samples of one process agree with each other and are biased together. So the many cheap
pairs that `Duet.measure` forks matter more than the many samples in each. With one side, that side is timed alone.
`suite.measure_suite` and the finals of tuning use it. It touches processes and the device only through `client`; no files.

On a GPU, whatever is not timed is done on both sides at once: forking, building, checking, ending. Timing never overlaps with
anything of ours.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ratchet.core.bench.client import CaseTrouble, HostClient, Impossible, Lost
from ratchet.core.bench.cores import HostCores
from ratchet.core.bench.lost import (
    CHECK_WORK,
    always_on_head,
    could_not_measure,
    impossible_head,
    impossible_on_both,
    in_every_try,
    worth_repeating,
)
from ratchet.core.bench.messages import Checked, KernelTimes, Prepared, between_sides
from ratchet.core.bench.turns import PairTimer, Planted, WorkerResult, in_turn
from ratchet.core.bench.workers import PairWorkers, Variant, Workers
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import HostError
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import FIRST_SESSION, SESSION_PAIRS, SIDES, Failure, LostWorker, Plan, Side
from ratchet.core.units import plural

KERNEL_PAIRS, KERNEL_SAMPLES = 40, 5
"""Pairs, at most, in which the kernels of a host-bound case are timed without the host, and samples of each side.

40 pairs come from twelve sessions: more than the largest runs need to prove that kernels are slower."""
LIGHT_S, MORE_LIGHT_S = 8.0, 30.0
"""Seconds that light pairs may take for all cases that look unchanged, and then for those in which a process was slow."""
CHECKED_SHARE = 0.25
"""Share of a check's pairs whose results are checked after they were timed, besides the first and the last pair of each round."""


class MeasureProgress(Protocol):
    """The display of a run's progress; called between blocks, never inside one."""

    def start(self, total_cases: int, pairs: int) -> None: ...

    def stage(self, text: str) -> None: ...

    def case(self, name: str, pair: int, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class CaseSides:
    """A case and the sides that have it."""

    name: str
    sides: tuple[Side, ...]


@dataclass
class Measured:
    """Everything that was measured of one case."""

    workers: dict[Side, list[WorkerResult]] = field(default_factory=lambda: {"reference": [], "head": []})
    failures: list[Failure] = field(default_factory=list)
    lost: list[LostWorker] = field(default_factory=list)
    lost_ahead: list[LostWorker] = field(default_factory=list)
    """Workers that were lost beside others, while several pairs got ready; none of the tries that `lost` counts."""
    unfit: str | None = None
    """Why this case cannot be measured, and what to do: no verdict on the code of either side."""
    seconds: float = 0.0
    """Time spent on its pairs."""

    def left(self, sides: tuple[Side, ...]) -> tuple[Side, ...]:
        """Return the sides still worth measuring: none once the head failed, the head alone once the reference did."""
        failed = {failure.side for failure in self.failures}
        return () if self.unfit or "head" in failed else tuple(side for side in sides if side not in failed)


@dataclass
class _Pair:
    """The cases that a pair measures, in its own order, and its workers."""

    number: int
    order: Sequence[CaseSides]
    is_light: bool = False
    crew: PairWorkers = field(default_factory=PairWorkers)


Restart = Callable[[Collection[str], Mapping[str, "Measured"]], Mapping[Side, HostClient]]
"""Ends the hosts and starts new ones, for the cases that are named; gets all results so far. Raises HostError."""


class Rounds:
    """The number of pairs to measure, and when to stop. Subclasses answer what is asked about the results so far."""

    processes: tuple[int, ...] = ()
    """Numbers of processes of each side up to which light pairs are taken in the end, for the cases that `totals` names."""
    restart: Restart | None = None
    """Called before each later session (`SESSION_PAIRS`), while any case that is left looks changed."""

    def __init__(self, looks: tuple[int, ...], budget_s: float = 0.0, ahead: int = 1) -> None:
        """``looks``: numbers of pairs after which `undecided` is asked; the last one is the most that are measured.

        No further pair begins after ``budget_s`` seconds, except in the first round; 0: no limit. ``ahead``: pairs whose workers
        get ready at the same time, on a GPU: each then waits for its turn.
        """
        self.looks = looks
        self.budget_s = budget_s
        self.ahead = ahead

    def undecided(self, results: Mapping[str, Measured]) -> Collection[str]:
        """Return the cases that more pairs could still decide."""
        return ()

    def urgent(self, results: Mapping[str, Measured]) -> Collection[str]:
        """Return the undecided cases that are measured up to the next look although the time is over."""
        return ()

    def changed(self, results: Mapping[str, Measured]) -> Collection[str]:
        """Return the cases that look changed: only processes of other hosts can prove it."""
        return ()

    def totals(self, results: Mapping[str, Measured], look: int) -> Collection[str]:
        """Return the cases that need ``processes[look]`` processes."""
        return ()

    def kernels_settled(self, results: Mapping[str, Measured]) -> Collection[str]:
        """Return the cases whose kernels need not be timed alone any more."""
        return ()


class Duet:
    """The measurement of a plan over the hosts of one or two trees. For use in one thread."""

    def __init__(
        self,
        hosts: Mapping[Side, HostClient],
        plan: Plan,
        progress: MeasureProgress,
        sampler: Sampler | None,
        variants: Mapping[str, Variant] | None = None,
        peaks: Peaks | None = None,
        planted: Mapping[str, Planted] | None = None,
        checked_share: float = 1.0,
        host_cores: HostCores | None = None,
    ) -> None:
        """``checked_share`` of the pairs are checked after timing, besides the first pair and the last one of each round."""
        self.workers = Workers(hosts, plan, sampler, variants or {})
        self.progress = progress
        self._peaks = peaks
        self._planted = planted or {}
        self._plan = plan
        self._random = random.Random(plan.order_seed)  # noqa: S311  an order of cases, not a secret
        self.on_two_cores: Collection[str] = ()
        """Cases in which both sides are timed on the same two of ``host_cores``."""
        self._host_cores = host_cores
        self._crew = PairWorkers()
        self._pair: _Pair | None = None
        self._session = 0
        self._samples_of_block: dict[str, int] = {}
        self._checked_share = checked_share
        self._round_end = 0
        self._kernels_settled: Collection[str] = ()

    def measure(self, cases: Sequence[CaseSides], rounds: Rounds) -> dict[str, Measured]:
        """Measure every case in rounds of pairs, until nothing is undecided, the last round is over, or the budget is spent.

        The first round is always finished. Beyond the budget only the urgent ones of the undecided cases go on. A case whose head
        fails is left out from then on; so is a reference that fails. While a case looks changed, all hosts start anew every few
        pairs, if the plan has several sessions. Raises HostError and ForeignModuleError as `survey` does.
        """
        results = {case.name: Measured() for case in cases}
        budget = _Budget(rounds, results)
        done, first, next_session, renew = 0, 0, FIRST_SESSION, False
        for last in rounds.looks:
            going = [case for case in cases if results[case.name].left(case.sides)]
            if first:
                undecided = rounds.undecided(results)
                self._kernels_settled = rounds.kernels_settled(results)
                going = [case for case in going if case.name in undecided]
                renew = self._plan.sessions and bool({case.name for case in going}.intersection(rounds.changed(results)))
                budget.look()
            total = done + len(going) * (last - first)
            pair, self._round_end = first, last
            while pair < last:
                order = [case for case in going if results[case.name].left(case.sides) and budget.allows(case.name, first)]
                if renew and pair >= next_session and order and rounds.restart:
                    order, next_session = self._restarted(pair, order, results, rounds.restart), pair + SESSION_PAIRS
                stop = min(last, next_session) if renew and pair < next_session else last
                numbers = range(pair, min(pair + rounds.ahead, stop))
                batch = [_Pair(number, self._random.sample(order, len(order))) for number in numbers]
                for name in self._measured_batch(batch, results, partial(budget.allows, first_pair_of_round=first)):
                    done += 1
                    self.progress.case(name, numbers[-1], done, total)
                pair = numbers.stop
            first = last
        with contextlib.suppress(HostError):  # what was found stands, and says of how many processes
            self._measure_light(cases, rounds, results, first)
        self.workers.wait_for_ends()
        return results

    def _measure_light(
        self, cases: Sequence[CaseSides], rounds: Rounds, results: Mapping[str, Measured], first_pair: int
    ) -> None:
        """Take light pairs, for cases that may be slow in few processes: fresh workers that time one block each."""
        pair, deadline = first_pair, 0.0
        for look, count in enumerate(rounds.processes):
            names = rounds.totals(results, look)
            going = [case for case in cases if case.name in names and results[case.name].left(case.sides) == SIDES]
            if look < 2:
                deadline = time.monotonic() + (LIGHT_S, MORE_LIGHT_S)[look]
            if going:
                self.progress.stage(f"Looking at {count} processes of {plural(len(going), 'case')}")
            while time.monotonic() < deadline:
                order = [case for case in going if len(results[case.name].workers["head"]) < count]
                if not order:
                    break
                numbers = range(pair, pair + rounds.ahead)
                batch = [_Pair(number, self._random.sample(order, len(order)), is_light=True) for number in numbers]
                for _ in self._measured_batch(batch, results, partial(_is_before, deadline)):
                    pass
                pair = numbers.stop

    def _measured_batch(
        self, batch: Sequence[_Pair], results: Mapping[str, Measured], has_time: Callable[[str], bool]
    ) -> Iterator[str]:
        """Measure all cases of some pairs, and yield the name of each that was: the first one of every pair, then the second.

        So all workers can build their next case side by side, which takes longer than timing it; and those of one pair time each
        case of theirs as before.
        """
        for place in range(len(batch[0].order)):
            turns = [(pair, pair.order[place]) for pair in batch]
            self._build_ahead([(pair, case) for pair, case in turns if has_time(case.name)], results)
            for pair, case in turns:
                if results[case.name].left(case.sides) and has_time(case.name):
                    self._pair, self._crew = pair, pair.crew
                    self._measure_pair(pair.number, case, results[case.name])
                    yield case.name
        for case in batch[0].order:
            for workers in results[case.name].workers.values():
                workers.sort(key=lambda one: one.pair)
            if not batch[0].is_light:
                self._time_kernels(batch, case, results)
        for pair in batch:  # not before: the end of a process would disturb the next pair, which is ready
            self.workers.retire(pair.crew)

    def _build_ahead(
        self, turns: Sequence[tuple[_Pair, CaseSides]], results: Mapping[str, Measured], placements: int | None = None
    ) -> None:
        """Let the workers of several pairs, forked if there are none, build the next case of each at the same time, on a GPU.

        Where that fails, the pair has no workers afterwards, and what happens when it is measured counts.
        """
        if not self.workers.in_parallel or len(turns) < 2:
            return
        started = time.monotonic()
        lost = self.workers.at_once([partial(self._built, pair, case, results[case.name], placements) for pair, case in turns])
        seconds = (time.monotonic() - started) / len(turns)
        for (_, case), one in zip(turns, lost, strict=True):
            results[case.name].lost_ahead += [one] if one else []
            results[case.name].seconds += seconds

    def _built(self, pair: _Pair, case: CaseSides, result: Measured, placements: int | None) -> LostWorker | None:
        """Build a case in the workers of a pair, or end them. Return one that was lost."""
        crew, seed = pair.crew, self._plan.seed + 2 * pair.number
        turn = in_turn(result.left(case.sides), flipped=self._order(case.name, pair.number)[0])
        self._fill(crew, turn, case.name)
        if case.name in self.workers.prepared_alone or result.lost_ahead:
            return None
        try:
            crew.prepared = self._build(crew, turn, case.name, seed, placements, at_once=True)
            crew.case = case.name
        except CaseTrouble as error:
            self.workers.retire(crew)
            return error.lost_worker(pair.number) if isinstance(error, Lost) else None
        return None

    def _restarted(self, pair: int, order: list[CaseSides], results: Mapping[str, Measured], restart: Restart) -> list[CaseSides]:
        """Start new hosts, which measure these cases from this pair on. Return none, and note why, where that fails."""
        self.workers.wait_for_ends()  # the hosts that end now are asked how their workers ended
        self._session += 1
        try:
            self.workers.hosts = restart([case.name for case in order], results)
        except HostError as error:
            for case in order:
                results[case.name].unfit = f"After {pair} pairs its processes could not be started anew: {error}"
            return []
        return order

    def _measure_pair(self, pair: int, case: CaseSides, result: Measured) -> None:
        """Measure one pair of one case: again where a worker was lost, with the head alone where the reference failed in it."""
        started, tries = time.monotonic(), 0
        while sides := result.left(case.sides):
            try:
                workers = self._measure_case(pair, CaseSides(case.name, sides), mirrored=tries % 2 == 1, at_once=not tries)
            except CaseTrouble as error:
                self._retire()
                self._note(error, pair, CaseSides(case.name, sides), result)
                tries += 1
            else:
                for side, worker in workers.items():
                    result.workers[side].append(worker)
                break
        result.seconds += time.monotonic() - started

    def _note(self, error: CaseTrouble, pair: int, case: CaseSides, result: Measured) -> None:
        """Record what this trouble means for the case. Where it means nothing yet, the pair is repeated."""
        if isinstance(error, Impossible):
            self._note_impossible(error, pair, case, result)
            return
        if not isinstance(error, Lost) or time.monotonic() >= self.workers.hosts[error.side].until:
            result.unfit = error.no_verdict
            if not result.unfit:
                result.failures.append(error.failure())
            return
        result.lost.append(error.lost_worker(pair))
        if worth_repeating(result.lost):
            return
        if always_on_head(result.lost) and self._reference_works(pair, case, result):
            tries = [one for one in result.lost if one.pair == pair]
            result.failures.append(error.failure(in_every_try(error.message, tries)))
        else:
            result.unfit = could_not_measure(result.lost)

    def _reference_works(self, pair: int, case: CaseSides, result: Measured) -> bool:
        """Return whether the reference alone survives the pair in which the head was lost; True where there is no reference."""
        if "reference" not in case.sides:
            return True
        trouble = self._trouble_alone("reference", pair, case)
        if isinstance(trouble, Lost):
            result.lost.append(trouble.lost_worker(pair))
            return False
        return True  # also where it says why, so that the machine is not at fault

    def _note_impossible(self, error: Impossible, pair: int, case: CaseSides, result: Measured) -> None:
        """Fail a head whose time no GPU can reach, unless the reference's is as impossible, or nothing is known of that."""
        other: Side = "reference" if error.side == "head" else "head"
        known = other not in case.sides or result.workers[other]
        trouble = None if known else self._trouble_alone(other, pair, case)
        if isinstance(trouble, Impossible):
            result.unfit = impossible_on_both(error.message)
        elif error.side == "head" and trouble is None:
            message = impossible_head(error.message, compared=other in case.sides)
            result.failures.append(error.failure(message))
        else:
            result.unfit = f"{error.no_verdict}: {CHECK_WORK}"

    def _trouble_alone(self, side: Side, pair: int, case: CaseSides) -> CaseTrouble | None:
        """Measure one side of this pair alone, and return its trouble if it has some."""
        try:
            self._measure_case(pair, CaseSides(case.name, (side,)))
        except CaseTrouble as error:
            return error
        finally:
            self._retire()
        return None

    def _measure_case(
        self, pair: int, case: CaseSides, *, mirrored: bool = False, at_once: bool = False
    ) -> dict[Side, WorkerResult]:
        """Try one pair once. ``mirrored`` exchanges the two sides in every order. Raises CaseTrouble.

        ``at_once`` lets both sides build and check at the same time, which takes the memory of both checks.
        """
        light = self._pair is not None and self._pair.is_light
        forks, times = (flipped != mirrored for flipped in self._order(case.name, pair))
        sides = in_turn(case.sides, flipped=forks)
        prepared = self._prepare_sides(sides, case.name, self._plan.seed + 2 * pair, at_once=at_once)
        workers = {
            side: WorkerResult(
                pair,
                side == sides[0],
                self._crew.workers[side].ready_s,
                prepared[side].peak_memory_bytes,
                session=self._session,
                is_light=light,
            )
            for side in sides
        }
        drawn = random.Random(f"{self._plan.order_seed} lengths {case.name} {pair}")  # noqa: S311  reproducible on purpose
        timer = PairTimer(self._crew.workers, prepared, self._plan, self._peaks, self._planted.get(case.name), drawn)
        turns = in_turn(case.sides, flipped=times)
        cores = self._host_cores.idlest() if self._host_cores and case.name in self.on_two_cores else ()
        if light:
            timer.take_light(workers, turns, cores, self._samples_of_block[case.name])
            return workers
        timer.take(workers, turns, cores)
        self._samples_of_block[case.name] = len(workers[sides[0]].blocks[0].block.samples_ms)
        if self._is_checked(pair, case.name):
            self._check(pair, sides, prepared, workers, at_once=at_once)
        return workers

    def _time_kernels(self, batch: Sequence[_Pair], case: CaseSides, results: Mapping[str, Measured]) -> None:
        """Time the kernels of a case alone in those pairs in which the GPU waited for the host in every block.

        This comes after everything else that their processes time: a tracer that was started once stays there and disturbs it.
        """
        result = results[case.name]
        workers = {(side, one.pair): one for side in case.sides for one in result.workers[side]}
        waited = [
            pair
            for pair in batch
            if pair.number < KERNEL_PAIRS and case.name not in self._kernels_settled and (sides := result.left(case.sides))
            if all((side, pair.number) in workers and workers[side, pair.number].waited_for_host for side in sides)
        ]
        self._build_ahead([(pair, case) for pair in waited], results, placements=1)
        planted = self._planted.get(case.name)
        for pair in waited:
            self._crew = pair.crew
            sides = in_turn(result.left(case.sides), flipped=self._order(case.name, pair.number)[1])
            started = time.monotonic()
            try:
                self._prepare_sides(sides, case.name, self._plan.seed + 2 * pair.number, at_once=True, placements=1)
                for side in sides:
                    asked = planted.count(side) if planted else KERNEL_SAMPLES
                    kernels_ms = self._crew.workers[side].ask("kernels", KernelTimes, samples=asked).samples_ms
                    workers[side, pair.number].kernels_ms = planted.sample(kernels_ms) if planted else kernels_ms
            except CaseTrouble as error:
                self._retire()
                self._note(error, pair.number, case, result)
            result.seconds += time.monotonic() - started

    def _is_checked(self, pair: int, case: str) -> bool:
        """Return whether a pair is checked after timing: the first, the last of a round, and others that no code can foresee."""
        if pair in (0, self._round_end - 1):
            return True
        drawn = random.Random(f"{self._plan.order_seed} check {case} {pair}").random()  # noqa: S311  reproducible on purpose
        return drawn < self._checked_share

    def _check(
        self,
        pair: int,
        sides: Sequence[Side],
        prepared: Mapping[Side, Prepared],
        workers: Mapping[Side, WorkerResult],
        *,
        at_once: bool,
    ) -> None:
        """Check both sides once more, on inputs that neither has seen. Raises CaseTrouble."""
        seed = self._plan.seed + 2 * pair + 1
        compared = len(sides) == 2 and not prepared["head"].has_reference
        checks = [partial(self._crew.workers[side].ask, "finish", Checked, seed=seed, evidence=compared) for side in sides]
        checked = dict(zip(sides, self.workers.at_once(checks, really=at_once), strict=True))
        if compared:
            apart = between_sides(checked["head"].evidence, checked["reference"].evidence)
            if apart.problem:
                raise CaseTrouble("head", "check", apart.problem, ())
            checked["head"] = checked["head"].model_copy(update={"error": apart.error})
        for side in sides:
            workers[side].checked = checked[side]

    def _prepare_sides(
        self, sides: Sequence[Side], case: str, seed: int, *, at_once: bool, placements: int | None = None
    ) -> dict[Side, Prepared]:
        """Build the case in a worker of each side, forked if there is none. Raises CaseTrouble."""
        crew = self._crew
        if crew.case == case and set(crew.prepared) == set(sides):
            self.workers.wait_for_ends()  # then nothing disturbs what is timed now
            crew.case = ""
            return crew.prepared
        self._fill(crew, sides, case)
        may_share = at_once and case not in self.workers.prepared_alone
        return self._build(crew, sides, case, seed, placements, at_once=may_share)

    def _fill(self, crew: PairWorkers, sides: Sequence[Side], case: str) -> None:
        """Get a worker of each side for the case, while earlier workers end; afterwards the memory of these is free."""
        self.workers.at_once([partial(self.workers.fill, crew, side, case) for side in sides])
        self.workers.wait_for_ends()

    def _build(
        self, crew: PairWorkers, sides: Sequence[Side], case: str, seed: int, placements: int | None, *, at_once: bool
    ) -> dict[Side, Prepared]:
        """Build the case in the workers of a crew. Raises CaseTrouble."""
        calls = [
            partial(self.workers.prepare, side, crew.workers[side], case, seed, check=False, placements=placements)
            for side in sides
        ]
        return dict(zip(sides, self.workers.at_once(calls, really=at_once), strict=True))

    def _order(self, case: str, pair: int) -> tuple[bool, bool]:
        return order_of_pair(self._plan.order_seed, case, pair)

    def _retire(self) -> None:
        self.workers.retire(self._crew)


def _is_before(deadline: float, _: str) -> bool:
    return time.monotonic() < deadline


class _Budget:
    """The time for all rounds. When it is over, only urgent cases go on; the first round is always finished."""

    def __init__(self, rounds: Rounds, results: Mapping[str, Measured]) -> None:
        self._rounds, self._results = rounds, results
        self._deadline = time.monotonic() + rounds.budget_s if rounds.budget_s else math.inf
        self._urgent: Collection[str] | None = None
        """None while there is time."""

    def look(self) -> None:
        """Ask again which cases are urgent: that may have changed since the last look."""
        if self._urgent is not None:
            self._urgent = self._rounds.urgent(self._results)

    def allows(self, case: str, first_pair_of_round: int) -> bool:
        if first_pair_of_round and self._urgent is None and time.monotonic() > self._deadline:
            self._urgent = self._rounds.urgent(self._results)
        return self._urgent is None or case in self._urgent


def order_of_pair(seed: int, case: str, pair: int) -> tuple[bool, bool]:
    """Return whether the head forks first in this pair, and whether it times first.

    Two fair coins are thrown for each pair, whatever came up before. So each of the 2ⁿ ways to exchange the sides of n pairs is
    as likely as any other, which is what the randomisation test counts: R. A. Fisher, The Design of Experiments, 1935.
    """
    coins = random.Random(f"{seed} {case} {pair}").getrandbits(2)  # noqa: S311  an order of sides, not a secret
    return bool(coins & 1), bool(coins & 2)
