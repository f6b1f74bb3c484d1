"""Let two sides take turns on one device: rounds of pairs of fresh workers, every sample kept, until a rule has no question left.

The process is the unit of replication: samples of one process agree with each other and are biased together. So the many cheap
pairs that `Duet.measure` takes matter more than the many samples in each; `turns` times one pair, `ready` gets it ready. With one
side, that side is timed alone. It touches processes and the device only through `client`; no files.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts, Impossible, Lost
from ratchet.core.bench.cores import HostCores
from ratchet.core.bench.lost import CHECK_WORK, always_on_head, could_not_measure, in_every_try, worth_repeating
from ratchet.core.bench.messages import Checked, KernelTimes, between_sides
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.ready.pairs import NumberedPair, ReadyPairs
from ratchet.core.bench.ready.sessions import Sessions
from ratchet.core.bench.ready.workers import SideWorkers, Variant, Workers
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.turns import Measured, PairTimer, Planted, WorkerResult, in_turn, order_of_pair
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import HostError
from ratchet.core.judge.roofs import highest
from ratchet.core.judge.rule import Rule
from ratchet.core.records.environment import Peaks, Telemetry
from ratchet.core.records.run import FIRST_SESSION, SESSION_PAIRS, SIDES, CaseRun, Plan, Side, WorkerSamples
from ratchet.core.units import plural

KERNEL_PAIRS, KERNEL_SAMPLES = 40, 5
"""Pairs, at most, in which the kernels of a host-bound case are timed without the host, and samples of each side.

40 pairs come from twelve sessions: more than the largest runs need to prove that kernels are slower."""
LIGHT_S, MORE_LIGHT_S = 8.0, 30.0
"""Seconds that light pairs may take for all cases that look unchanged, and then for those in which a process was slow."""
CHECKED_SHARE = 0.25
"""Share of a check's pairs whose results are checked after they were timed, besides the first and the last pair of each round."""


class MeasureProgress(Protocol):
    """The display of a run's progress; called between blocks, and `waiting` alone inside one."""

    def start(self, total_cases: int, pairs: int) -> None: ...

    def stage(self, text: str) -> None: ...

    def case(self, name: str, pair: int, done: int) -> None: ...

    def during(self, work: Callable[[], str]) -> AbstractContextManager[None]: ...

    def waiting(self) -> None: ...


class Observer:
    """An observer, which may look at cases in workers of its own while nothing is timed. This one looks at none."""

    def before_pairs(self, duet: Duet, cases: Sequence[CaseRun], compared: Collection[str]) -> None:
        """Look at cases before the first pair; ``compared`` are those that are timed on both sides and may differ.

        What this starts may keep other cores busy: it is called only where that disturbs nothing that is timed.
        """

    def between_sessions(self, duet: Duet, cases: Sequence[CaseRun], going: Collection[str]) -> None:
        """Look at cases before fresh hosts take over those that go on. What this starts may keep other cores busy, likewise."""

    def after_pairs(self, duet: Duet, cases: Sequence[CaseRun]) -> None:
        """Look at the measured cases, in the last hosts."""


class Duet:
    """The measurement of a plan over the hosts of one or two trees. For use in one thread."""

    def __init__(
        self,
        hosts: Mapping[Side, HostClient],
        plan: Plan,
        progress: MeasureProgress,
        sampler: Sampler | None,
        *,
        variants: Mapping[str, Variant] | None = None,
        peaks: Peaks | None = None,
        planted: Mapping[str, Planted] | None = None,
        checked_share: float = 1.0,
        host_cores: HostCores | None = None,
        sessions: Sessions | None = None,
        tricks: Tricks = ALL,
    ) -> None:
        """``checked_share`` of the pairs are checked after timing, besides the first pair and the last one of each round."""
        self.hosts = hosts
        """The hosts of the first pairs."""
        self.workers = Workers(hosts, plan, sampler, variants or {}, tricks)
        self.ready = ReadyPairs(self.workers)
        self.progress = progress
        self.sampler = sampler
        self.peaks = peaks
        self.on_two_cores: Collection[str] = ()
        """Cases in which both sides are timed on the same two of ``host_cores``."""
        self._planted = planted or {}
        self._plan = plan
        self._random = random.Random(plan.order_seed)  # noqa: S311  an order of cases, not a secret
        self._host_cores = host_cores
        self._sessions = sessions
        self._session = 0
        self._samples_of_block: dict[str, int] = {}
        self._checked_share = checked_share
        self._round_end = 0
        self._kernels_settled: Collection[str] = ()
        self._cases: Sequence[CaseRun] = ()
        self._measured: dict[str, Measured] = {}

    def measure(
        self,
        cases: Sequence[CaseRun],
        sides: Mapping[str, tuple[Side, ...]],
        rule: Rule,
        observer: Observer | None = None,
    ) -> list[CaseRun]:
        """Measure cases in rounds of pairs, until nothing is undecided, the last round is over, or the plan's budget is spent.

        ``cases`` are all that the rule is asked about, ``sides`` those that are timed, and on which sides. The first round is
        always finished; beyond the budget only urgent cases go on. A case whose head fails is left out from then on; so is a
        reference that fails. While a case looks changed, all hosts start anew every few pairs, if the plan has several sessions.
        Raises HostError, with `Sessions` in the first round alone, and ForeignModuleError as `survey` does.
        """
        self._cases = cases
        self._measured = {case.name: Measured(case, sides[case.name]) for case in cases if case.name in sides}
        deadline = time.monotonic() + self._plan.budget_s if self._plan.budget_s else math.inf
        urgent: Collection[str] | None = None  # None while there is time
        done, first, next_session, renew = 0, 0, FIRST_SESSION, False

        def has_time(case: str) -> bool:
            nonlocal urgent
            if first and urgent is None and time.monotonic() > deadline:
                urgent = rule.urgent(self.so_far())
            return urgent is None or case in urgent

        for last in rule.looks:
            going = [case for case in self._measured.values() if case.remaining_sides]
            if first:
                so_far = self.so_far()
                undecided = rule.undecided(so_far)
                self._kernels_settled = rule.kernels_settled(so_far)
                going = [case for case in going if case.name in undecided]
                renew = self._plan.sessions and bool({case.name for case in going}.intersection(rule.changed(so_far)))
                if urgent is not None:  # other cases may be by now
                    urgent = rule.urgent(so_far)
            pair, self._round_end = first, last
            while pair < last:
                order = [case for case in going if case.remaining_sides and has_time(case.name)]
                try:
                    if renew and pair >= next_session and order and self._sessions:
                        self._restart(self._sessions, observer or Observer(), order)
                        next_session = pair + SESSION_PAIRS
                    stop = min(last, next_session) if renew and pair < next_session else last
                    numbers = range(pair, min(pair + self.ready.together, stop))
                    batch = [NumberedPair(number=number, order=self._random.sample(order, len(order))) for number in numbers]
                    for name in self._measured_batch(batch, has_time):
                        done += 1
                        self.progress.case(name, numbers[-1], done)
                    pair = numbers.stop
                except HostError as error:
                    for one in batch:
                        self.workers.stop_workers(one)
                    if not (first and self._sessions):
                        raise
                    for case in order:  # what was decided before stands
                        case.unfit = f"After {pair} pairs its processes could not be started anew: {error}"
            first = last
        with contextlib.suppress(HostError):  # what was found stands, and says of how many processes
            self._measure_light(rule, first)
        self.workers.wait_for_ends()
        return self.so_far()

    def so_far(self) -> list[CaseRun]:
        measured = self._measured
        return [measured[case.name].record(self.sampler) if case.name in measured else case for case in self._cases]

    def telemetry_of(self, case: str) -> Telemetry | None:
        """Return what the sensors showed while a case was timed; None without a GPU, and where no block was taken."""
        windows = [window for of_side in self._measured[case].workers.values() for one in of_side for window in one.windows]
        return self.sampler.summary(windows) if self.sampler and windows else None

    def _measure_light(self, rule: Rule, first_pair: int) -> None:
        """Take light pairs, for cases that may be slow in few processes: fresh workers that time one block each."""
        pair, deadline = first_pair, 0.0

        def has_time(_: str) -> bool:
            return time.monotonic() < deadline

        for look, count in enumerate(rule.processes):
            names = rule.totals(self.so_far(), look)
            going = [case for case in self._measured.values() if case.name in names and case.remaining_sides == SIDES]
            if look < 2:
                deadline = time.monotonic() + (LIGHT_S, MORE_LIGHT_S)[look]
            if going:
                cases = plural(len(going), "case")
                self.progress.stage(f"Timing {cases} briefly in {count} processes a side, to see whether a few are slow")
            while time.monotonic() < deadline:
                order = [case for case in going if case.remaining_sides == SIDES and len(case.workers["head"]) < count]
                if not order:
                    break
                numbers = range(pair, pair + self.ready.together)
                batch = [NumberedPair(number=one, order=self._random.sample(order, len(order)), is_light=True) for one in numbers]
                for _ in self._measured_batch(batch, has_time):
                    pass
                pair = numbers.stop

    def _measured_batch(self, batch: Sequence[NumberedPair], has_time: Callable[[str], bool]) -> Iterator[str]:
        """Measure all cases of some pairs, and yield the name of each that was: the first one of every pair, then the second.

        So all workers can build their next case side by side, which takes longer than timing it; and those of one pair time each
        case of theirs as before.
        """
        for place in range(len(batch[0].order)):
            turns = [(pair, pair.order[place]) for pair in batch]
            self.ready.announce([(pair, case) for pair, case in turns if has_time(case.name)])
            for pair, case in turns:
                if case.remaining_sides and has_time(case.name):
                    self._measure_pair(pair, case)
                    yield case.name
        for case in batch[0].order:
            for workers in case.workers.values():
                workers.sort(key=lambda one: one.samples.pair)
            if not batch[0].is_light:
                self._time_kernels(batch, case)
        for pair in batch:  # not before: the end of a process would disturb the next pair, which is ready
            self.workers.stop_workers(pair)

    def _restart(self, sessions: Sessions, observer: Observer, order: Sequence[Measured]) -> None:
        """Start new hosts, which measure these cases from now on. Raises HostError."""
        self.workers.wait_for_ends()  # the hosts that end now are asked how their workers ended
        self._session += 1
        observer.between_sessions(self, self.so_far(), [case.name for case in order])
        look = "looks" if len(order) == 1 else "look"
        self.progress.stage(f"Starting fresh processes for {plural(len(order), 'case')} that {look} changed or undecided")
        again = sessions.renew(self.hosts)
        for side, host in again.items():
            offered = {case.name for case in host.listing().cases if not case.skipped}
            if gone := next((case.name for case in order if side in case.sides and case.name not in offered), None):
                raise HostError(f"The {side} no longer offers {gone}.", "Its benchmarks must be the same at every import.")
        self.workers.hosts = again

    def _measure_pair(self, pair: NumberedPair, case: Measured) -> None:
        """Measure one pair of one case: again where a worker was lost, with the head alone where the reference failed in it."""
        started, tries = time.monotonic(), 0
        while sides := case.remaining_sides:
            try:
                workers = self._measure_case(pair, case.name, sides, mirrored=tries % 2 == 1, concurrent=not tries)
            except CaseTrouble as error:
                self.workers.stop_workers(pair)
                self._note(error, pair, case)
                tries += 1
            else:
                for side, worker in workers.items():
                    case.workers[side].append(worker)
                break
        case.seconds += time.monotonic() - started

    def _note(self, error: CaseTrouble, pair: NumberedPair, case: Measured) -> None:
        """Record what this trouble means for the case. Where it means nothing yet, the pair is repeated."""
        if isinstance(error, Impossible):
            self._note_impossible(error, pair, case)
            return
        if not isinstance(error, Lost) or time.monotonic() >= self.workers.hosts[error.side].until:
            case.unfit = error.no_verdict
            if not case.unfit:
                case.failures.append(error.failure())
            return
        case.lost.append(error.lost_worker(pair.number))
        if worth_repeating(case.lost):
            return
        if always_on_head(case.lost):
            other = self._trouble_alone("reference", pair, case.name) if "reference" in case.remaining_sides else None
            if not isinstance(other, Lost):  # also where the reference says why: then the machine is not at fault
                tries = [one for one in case.lost if one.pair == pair.number]
                case.failures.append(error.failure(in_every_try(error.message, tries)))
                return
            case.lost.append(other.lost_worker(pair.number))
        case.unfit = could_not_measure(case.lost)

    def _note_impossible(self, error: Impossible, pair: NumberedPair, case: Measured) -> None:
        """Fail a head whose time no GPU can reach, unless the reference's is as impossible, or nothing is known of that."""
        other: Side = "reference" if error.side == "head" else "head"
        known = other not in case.remaining_sides or case.workers[other]
        trouble = None if known else self._trouble_alone(other, pair, case.name)
        if isinstance(trouble, Impossible):
            blame = "the workload declares wrong bytes or FLOPs, or its run() does not queue its work on the current stream"
            case.unfit = f"Impossible on both sides, since {error.message}: {blame}."
        elif error.side == "head" and trouble is None:
            beside = "; the reference's time is possible" if other in case.remaining_sides else ""
            case.failures.append(error.failure(f"impossible: {error.message}{beside}: {CHECK_WORK}"))
        else:
            case.unfit = f"{error.no_verdict}: {CHECK_WORK}"

    def _trouble_alone(self, side: Side, pair: NumberedPair, case: str) -> CaseTrouble | None:
        """Measure one side of this pair alone, and return its trouble if it has some."""
        try:
            self._measure_case(pair, case, (side,))
        except CaseTrouble as error:
            return error
        finally:
            self.workers.stop_workers(pair)
        return None

    def _measure_case(
        self, pair: NumberedPair, case: str, sides: tuple[Side, ...], *, mirrored: bool = False, concurrent: bool = False
    ) -> dict[Side, WorkerResult]:
        """Try one pair once. ``mirrored`` exchanges the two sides in every order. Raises CaseTrouble.

        ``concurrent`` lets both sides build and check at the same time, which takes the memory of both checks.
        """
        forks, times = (flipped != mirrored for flipped in order_of_pair(self._plan.order_seed, case, pair.number))
        turns, sides = in_turn(sides, flipped=times), in_turn(sides, flipped=forks)
        ready = self.ready.next_pair(case, pair, sides, concurrent=concurrent)
        workers = {
            side: WorkerResult(
                WorkerSamples(
                    pair=pair.number,
                    started_first=side == sides[0],
                    blocks=(),
                    ready_s=ready.workers[side].ready_s,
                    peak_memory_bytes=ready.prepared[side].peak_memory_bytes,
                    error=None,
                    session=self._session,
                    is_light=pair.is_light,
                )
            )
            for side in sides
        }
        drawn = random.Random(f"{self._plan.order_seed} lengths {case} {pair.number}")  # noqa: S311  reproducible on purpose
        timer = PairTimer(ready.workers, ready.prepared, self._plan, self.peaks, self._planted.get(case), drawn)
        cores = self._host_cores.idlest() if self._host_cores and case in self.on_two_cores else ()
        if cores:
            timer.use_cores(cores)
        if pair.is_light:
            timer.take_light(workers, turns, self._samples_of_block[case])
        else:
            timer.take(workers, turns)
            self._samples_of_block[case] = len(workers[sides[0]].samples.blocks[0].samples_ms)
        if cores:
            timer.use_cores(())
        if not pair.is_light and self._is_checked(pair.number, case):
            self._check(ready, sides, workers, self._plan.seed + 2 * pair.number + 1, concurrent=concurrent)
        return workers

    def _time_kernels(self, batch: Sequence[NumberedPair], case: Measured) -> None:
        """Time the kernels of a case alone in those pairs in which the GPU waited for the host in every block.

        This comes after everything else that their processes time: a tracer that was started once stays there and disturbs it.
        """
        workers = {(side, one.samples.pair): one for side in case.sides for one in case.workers[side]}
        waited = [
            pair
            for pair in batch
            if pair.number < KERNEL_PAIRS and case.name not in self._kernels_settled and (sides := case.remaining_sides)
            if all((side, pair.number) in workers and workers[side, pair.number].waited_for_host for side in sides)
        ]
        self.ready.announce([(pair, case) for pair in waited], placements=1)
        planted = self._planted.get(case.name)
        for pair in waited:
            _, times = order_of_pair(self._plan.order_seed, case.name, pair.number)
            sides = in_turn(case.remaining_sides, flipped=times)
            started = time.monotonic()
            try:
                ready = self.ready.next_pair(case.name, pair, sides, placements=1)
                for side in sides:
                    asked = planted.count(side) if planted else KERNEL_SAMPLES
                    kernels_ms = ready.workers[side].ask("kernels", KernelTimes, samples=asked).samples_ms
                    workers[side, pair.number].note(kernels_ms=planted.sample(kernels_ms) if planted else kernels_ms)
            except CaseTrouble as error:
                self.workers.stop_workers(pair)
                self._note(error, pair, case)
            case.seconds += time.monotonic() - started

    def _is_checked(self, pair: int, case: str) -> bool:
        """Return whether a pair is checked after timing: the first, the last of a round, and others that no code can foresee."""
        if pair in (0, self._round_end - 1):
            return True
        drawn = random.Random(f"{self._plan.order_seed} check {case} {pair}").random()  # noqa: S311  reproducible on purpose
        return drawn < self._checked_share

    def _check(
        self, ready: SideWorkers, sides: Sequence[Side], workers: Mapping[Side, WorkerResult], seed: int, *, concurrent: bool
    ) -> None:
        """Check both sides once more, on inputs that neither has seen. Raises CaseTrouble."""
        compared = len(sides) == 2 and not ready.prepared["head"].has_reference
        checks = [partial(ready.workers[side].ask, "finish", Checked, seed=seed, evidence=compared) for side in sides]
        checked = dict(zip(sides, self.workers.run_concurrently(checks, concurrent=concurrent), strict=True))
        if compared:
            apart = between_sides(checked["head"].evidence, checked["reference"].evidence)
            if apart.problem:
                raise CaseTrouble("head", "check", apart.problem, ())
            checked["head"] = checked["head"].model_copy(update={"error": apart.error})
        for side in sides:
            workers[side].note(error=checked[side].error)


@contextlib.contextmanager
def open_bench(
    trees: Mapping[Side, TreeSpec],
    plan: Plan,
    progress: MeasureProgress,
    environ: Mapping[str, str],
    *,
    gpu: Gpu | None = None,
    idle: Sequence[int] = (),
) -> Iterator[Duet]:
    """Start a host for each tree, and watch the sensors of a GPU while the body runs. ``idle``: see `Sampler`."""
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(trees, environ, progress.waiting)).sides
        sampler = stack.enter_context(Sampler(gpu, idle=idle)) if gpu else None
        duet = Duet(hosts, plan, progress, sampler, peaks=highest(gpu.name) if gpu else None)
        stack.enter_context(progress.during(duet.workers.in_work.longest))
        yield duet
