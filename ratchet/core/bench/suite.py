"""Measure the benchmarks of one or two trees on one device: start hosts, prepare every case, time pairs, record every case.

`ratchet check`, `run` and `calibrate` call `measure_suite`; `list_cases` serves those that need only the names, `trace_cases`
those that only profile. It starts child processes through `client.Hosts` and reads the GPU's sensors in a thread. It writes no
file; the caller stores the records.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ratchet.core.bench.client import HostClient, HostLost, Hosts
from ratchet.core.bench.cores import HostCores
from ratchet.core.bench.duet import CHECKED_SHARE, CaseSides, Duet, Measured, MeasureProgress, Rounds
from ratchet.core.bench.lost import could_not_measure
from ratchet.core.bench.messages import Listing, between_sides
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.survey import PreparedCase, SideTrace, UnpreparedCase, survey, trace
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.turns import Planted
from ratchet.core.device.fitness import problem_during
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import HostError, RatchetError
from ratchet.core.judge.comparison import performance
from ratchet.core.judge.rule import Rule
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import SIDES, CaseRun, Failure, Plan, Shard, Side
from ratchet.core.units import listed, plural, size

CONTEXT_BYTES = 2 << 30
"""Generous size of one process's CUDA context, the buffer that flushes L2, and a workload's other placements."""

MOST_LANES, CORES_PER_LANE = 4, 2
"""Workers of each side that compile and check cases at once, and the cores that each of them needs."""
MOST_AHEAD = 4
"""Pairs whose workers get ready at the same time."""
_TIMES_ITSELF = (
    "Kernels are chosen by timing them in each process (triton.autotune, cudnn.benchmark), in: {}. With"
    " TRITON_CACHE_AUTOTUNING=1 Triton keeps its choices, and the check is faster: docs/benchmarks.md#triton."
)
MOST_BUSY = 1.5
"""A case that keeps more cores busy is timed on all: its threads work side by side, which two cores would change."""
SPARE_CORES = 8
"""With so many cores, what imports on some of them does not disturb what is timed on another."""
CORES_PER_SESSION, MOST_SESSIONS_AT_ONCE = 2.5, 6
"""Cores that the imports of a session keep busy, and sessions that import at the same time."""


Surveyed = dict[str, dict[Side, PreparedCase | UnpreparedCase]]
"""Case → side → how building and checking it went."""
"""Returns the names of those cases that more pairs could still decide."""


class Observer:
    """An observer of a measurement, for traces of torch.profiler besides times. This one asks for none."""

    most_foreseen = 0
    """Most cases that are traced before the last pair: if the code of no more than this differs, all of them at once."""

    def traced(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the measured cases that are traced at the end, for their profiles."""
        return ()

    def foreseen(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the cases, `most_foreseen` at most, that look as if they will be traced, when fresh processes take over."""
        return ()

    def on_foreseen(self, cases: Sequence[CaseRun], traces: Traces) -> None:
        """Take all cases and the early traces, while pairs remain to be measured. This may keep other cores busy."""


@dataclass(frozen=True)
class CaseTask:
    """The cases to measure, the device to measure on, and when to stop."""

    plan: Plan
    patterns: Sequence[str]
    confidence: float
    """Confidence level of the intervals around the figures of each side, 0 to 1."""
    rule: Rule
    """What is timed, and when that is over."""
    compared: bool = True
    """There is a reference to compare with; a reference without a tree has no benchmarks."""
    gpu: Gpu | None = None
    peaks: Peaks | None = None
    """Rates that the GPU cannot exceed; None on a CPU."""
    idle: Sequence[int] = ()
    """Processes that hold the GPU but were seen to compute nothing."""
    time_identical: bool = False
    """Time cases whose code is the same on both sides too."""
    shard: Shard | None = None
    """The part of the selected cases that is measured here; None: all."""
    cores: Collection[int] = field(default_factory=lambda: os.sched_getaffinity(0))
    """The cores of the host: all, or a share of them where several GPUs are measured at once."""
    planted: Mapping[str, Planted] = field(default_factory=dict)
    """Case → a slowdown of the head that is planted on purpose."""
    observer: Observer = field(default_factory=Observer)
    """It asks for traces of cases."""


@dataclass(frozen=True)
class Traces:
    """The activities that torch.profiler saw of cases, in workers of hosts that had imported the trees anyway."""

    cases: Mapping[str, Mapping[Side, SideTrace]] = field(default_factory=dict)
    import_s: float = 0.0
    """Seconds that importing a tree took; of the slower side."""

    def joined(self, other: Traces) -> Traces:
        return Traces({**self.cases, **other.cases}, max(self.import_s, other.import_s))


@dataclass(frozen=True)
class Suite:
    """All cases as measured, and the software that they ran on."""

    cases: tuple[CaseRun, ...]
    torch: str
    cuda: str | None
    triton: str | None
    reference_missing: str | None = None
    """Why the reference could not even be imported."""
    l2_bytes: int | None = None
    """Size of the GPU's L2 cache."""
    traces: Traces = Traces()
    notes: tuple[str, ...] = ()
    """Sentences for readers of the whole run."""


def measure_suite(
    trees: Mapping[Side, TreeSpec],
    task: CaseTask,
    progress: MeasureProgress,
    environ: Mapping[str, str],
    sessions: Sessions | None = None,
) -> Suite:
    """Measure the selected cases of the given trees, in rounds while any of them is undecided.

    ``sessions`` are the hosts, where the caller has them (`soak.ResidentSessions`); else they are started here, and ended.
    Trouble with one case stays in its record. Raises HostError where the head's process cannot be used (HostLost also for the
    reference's, if it ended without a reason), ForeignModuleError for a module from outside its tree, UsageError for a pattern
    that matches nothing.
    """
    plan, gpu = task.plan, task.gpu
    with contextlib.ExitStack() as stack:
        progress.stage("Importing benchmarks")
        identify = not task.time_identical and len(trees) == len(SIDES)
        sessions = stack.enter_context(sessions or Sessions(trees, environ, identify=identify, cores=len(task.cores)))
        hosts = sessions.open()
        head = hosts["head"].listing()
        reference, missing = _reference_listing(hosts, compared=task.compared)
        cases = choose_cases(head, reference, task.patterns)
        cases = task.shard.part(cases) if task.shard else cases
        sampler = stack.enter_context(Sampler(gpu, idle=task.idle)) if gpu else None
        duet = Duet(
            hosts,
            plan,
            progress,
            sampler,
            peaks=task.peaks,
            planted=task.planted,
            checked_share=CHECKED_SHARE,
            host_cores=HostCores(task.cores),
        )
        surveyed = sessions.surveyed(lambda: _survey(cases, duet, hosts, task))
        duet.workers.prepared_alone |= {name for name, sides in surveyed.items() if any(map(_times_itself, sides.values()))}
        free = gpu.free_memory_bytes() if gpu else None
        cases = [_with_survey(case, surveyed.get(case.name, {}), free) for case in cases]
        new = [case for case in cases if not task.rule.is_known(case)]
        wanted = [CaseSides(case.name, sides) for case in new if (sides := _sides(case, time_identical=task.time_identical))]

        def taken(results: Mapping[str, Measured]) -> list[CaseRun]:
            return [_with_samples(case, results[case.name], sampler) if case.name in results else case for case in cases]

        ecc_before = gpu.uncorrected_ecc() if gpu else None
        waits_for_host = [_waits_for_host(surveyed[case.name]) for case in wanted]
        duet.on_two_cores = {case.name for case in wanted if _suits_two_cores(surveyed[case.name])}
        if wanted:
            duet.workers.one_queue = all(_runs_one_by_one(surveyed[case.name]) for case in wanted)
            progress.start(len(wanted), task.rule.looks[-1])

        # What keeps other cores busy could disturb blocks that wait for the host.
        has_spare_cores = gpu is not None and len(task.cores) >= SPARE_CORES and not any(waits_for_host)
        early = _EarlyTraces(duet, hosts, task) if has_spare_cores else None
        if early and not task.time_identical:  # else nobody knows whose code differs
            early.before_pairs(cases, [case.name for case in wanted if case.sides == SIDES])

        def restart(names: Collection[str], results: Mapping[str, Measured]) -> Mapping[Side, HostClient]:
            if early:
                early.between_sessions(taken(results), names)
            look = "looks" if len(names) == 1 else "look"
            progress.stage(f"Starting fresh processes for {plural(len(names), 'case')} that {look} changed or undecided")
            again = sessions.renew(hosts)
            for name, sides in ((case.name, case.sides) for case in wanted if case.name in names):
                _refuse_missing(name, [again[side] for side in sides])
            return again

        ahead = _pairs_ahead([_bytes_of_pair(surveyed[case.name]) for case in wanted], free, len(task.cores))
        rounds = _RoundsOfRule(task.rule, plan.budget_s, ahead, taken)
        rounds.restart = restart
        results = duet.measure(wanted, rounds)
        ecc_after = gpu.uncorrected_ecc() if gpu else None
        measured = taken(results)
        traces = early.traces if early else Traces()
        traces = traces.joined(
            _traced(duet, hosts, [name for name in task.observer.traced(measured) if name not in traces.cases])
        )
    done = [
        _completed(case, results[case.name], sampler, (ecc_before, ecc_after), task.confidence) if case.name in results else case
        for case in measured
    ]
    tuned = [case.name for case in wanted if case.name in duet.workers.prepared_alone]
    notes = (_TIMES_ITSELF.format(listed(tuned, 3)),) if tuned and "TRITON_CACHE_AUTOTUNING" not in environ else ()
    return Suite(
        tuple(done), head.torch, head.cuda, head.triton, missing, hosts["head"].l2_bytes, traces, (*notes, *duet.workers.notes)
    )


class _RoundsOfRule(Rounds):
    """Rounds that ask a rule about all cases; ``taken`` gives them the samples so far."""

    def __init__(self, rule: Rule, budget_s: float, ahead: int, taken: Callable[[Mapping[str, Measured]], list[CaseRun]]) -> None:
        super().__init__(rule.looks, budget_s, ahead)
        self._rule, self._taken, self.processes = rule, taken, rule.processes

    def undecided(self, results: Mapping[str, Measured]) -> Collection[str]:
        return self._rule.undecided(self._taken(results))

    def urgent(self, results: Mapping[str, Measured]) -> Collection[str]:
        return self._rule.urgent(self._taken(results))

    def changed(self, results: Mapping[str, Measured]) -> Collection[str]:
        return self._rule.changed(self._taken(results))

    def totals(self, results: Mapping[str, Measured], look: int) -> Collection[str]:
        return self._rule.totals(self._taken(results), look)

    def kernels_settled(self, results: Mapping[str, Measured]) -> Collection[str]:
        return self._rule.kernels_settled(self._taken(results))


def list_cases(tree: TreeSpec, patterns: Sequence[str], environ: Mapping[str, str]) -> list[CaseRun]:
    """Return the cases of one tree; none is measured. Raises as `measure_suite` does."""
    with Hosts({"head": tree}, environ) as hosts:
        return choose_cases(hosts.sides["head"].listing(), None, patterns)


def trace_cases(
    trees: Mapping[Side, TreeSpec], cases: Sequence[str], plan: Plan, progress: MeasureProgress, environ: Mapping[str, str]
) -> Traces:
    """Trace cases on each of these trees, with hosts that import them for this. Trouble is in the traces."""
    with Hosts(trees, environ) as hosts:
        return _traced(Duet(hosts.sides, plan, progress, None), hosts.sides, cases)


def _traced(duet: Duet, hosts: Mapping[Side, HostClient], cases: Sequence[str]) -> Traces:
    traces: dict[str, dict[Side, SideTrace]] = {name: {} for name in cases}
    for side, host in hosts.items() if cases else ():
        duet.progress.stage(f"Tracing {plural(len(cases), 'case')} of the {side}")
        try:
            host.listing()
            found = trace(duet.workers, side, cases)
        except RatchetError as error:  # the tree cannot be imported
            found = dict.fromkeys(cases, SideTrace(None, str(error)))
        for name, one in found.items():
            traces[name][side] = one
    return Traces(traces, max(host.import_s for host in hosts.values()))


class _EarlyTraces:
    """Traces of cases that will probably be profiled, taken while pairs remain to be measured, so that profilers can start."""

    def __init__(self, duet: Duet, hosts: Mapping[Side, HostClient], task: CaseTask) -> None:
        self.traces = Traces()
        self._duet = duet
        self._hosts = hosts
        self._task = task

    def before_pairs(self, cases: Sequence[CaseRun], timed: Collection[str]) -> None:
        """Trace all cases that are timed on both sides and whose code differs, if they are few."""
        self._take(cases, [case.name for case in cases if case.name in timed and not case.identical])

    def between_sessions(self, cases: Sequence[CaseRun], timed: Collection[str]) -> None:
        """Trace those that look changed by now, unless that was done before the first pair."""
        if not self.traces.cases:
            self._take(cases, [name for name in self._task.observer.foreseen(cases) if name in timed])

    def _take(self, cases: Sequence[CaseRun], names: Sequence[str]) -> None:
        if 0 < len(names) <= self._task.observer.most_foreseen:
            self.traces = _traced(self._duet, self._hosts, names)
            self._task.observer.on_foreseen(cases, self.traces)


class Sessions:
    """The hosts of a suite, which can be ended and replaced by fresh ones. Use it as a context manager, as `Hosts`."""

    def __init__(
        self, trees: Mapping[Side, TreeSpec], environ: Mapping[str, str], *, identify: bool = False, cores: int = 1
    ) -> None:
        """``cores``: those that may be kept busy while nothing is timed."""
        self._trees = trees
        self._environ = environ
        self._identify = identify
        self._at_once = max(1, min(MOST_SESSIONS_AT_ONCE, int(cores / CORES_PER_SESSION)))
        self._held = contextlib.ExitStack()
        self._ready: deque[Hosts] = deque()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._held.close)
            for hosts in self._ready:
                stack.push(hosts)

    def open(self) -> dict[Side, HostClient]:
        """Start a host for each side that has a tree."""
        return dict(self._held.enter_context(self._started(SIDES, identify=self._identify)).sides)

    def surveyed(self, survey: Callable[[], Surveyed]) -> Surveyed:
        """Return what a survey with these hosts finds."""
        return survey()

    def renew(self, sides: Collection[Side]) -> dict[Side, HostClient]:
        """End the current hosts, and return others, of a process of their own, which have imported the trees.

        Several are started at the same time, for later calls too: what imports would disturb what is timed.
        """
        self._held.close()
        if not self._ready:
            ordered = [side for side in reversed(SIDES) if side in sides]
            self._ready.extend(self._started(ordered) for _ in range(self._at_once))
            for hosts in self._ready:
                for host in hosts.sides.values():
                    host.listing()
        return {side: host for side, host in self._held.enter_context(self._ready.popleft()).sides.items() if side in sides}

    def _started(self, sides: Sequence[Side], *, identify: bool = False) -> Hosts:
        trees = {side: replace(self._trees[side], identified=identify) for side in sides if side in self._trees}
        return Hosts(trees, self._environ)


def _reference_listing(hosts: dict[Side, HostClient], *, compared: bool) -> tuple[Listing | None, str | None]:
    """Return the cases of the reference, or why it cannot be imported; then it is removed from ``hosts``.

    Raises HostLost, since a process that was killed is no verdict on the code.
    """
    if "reference" not in hosts:
        return (Listing() if compared else None), None
    try:
        return hosts["reference"].listing(), None
    except HostLost as error:
        raise HostLost(
            error.message, error.hint or "Without it there is no comparison: measure again, or see `ratchet run`."
        ) from None
    except HostError as error:
        del hosts["reference"]
        return None, str(error)


def _pairs_ahead(need: Sequence[int], free: int | None, cores: int) -> int:
    """Return for how many pairs the GPU has memory, half of it at most, and the machine has cores."""
    if free is None or not need:
        return 1
    return max(1, min(MOST_AHEAD, cores // CORES_PER_LANE // len(SIDES), free // 2 // max(1, *need)))


def _refuse_missing(name: str, hosts: Sequence[HostClient]) -> None:
    """Raise HostError if any of these hosts does not offer the case."""
    for host in hosts:
        listed = next((case for case in host.listing().cases if case.name == name), None)
        if listed is None or listed.skipped:
            raise HostError(f"The {host.side} no longer offers {name}.", "Its benchmarks must be the same at every import.")


def _survey(cases: Sequence[CaseRun], duet: Duet, hosts: Mapping[Side, HostClient], task: CaseTask) -> Surveyed:
    """Prepare every case on every side that has it."""
    duet.progress.stage("Compiling and checking the cases")
    wanted = {
        side: [case.name for case in cases if not case.skipped and _has(case, side)] for side in reversed(SIDES) if side in hosts
    }
    lanes = max(1, min(MOST_LANES, len(task.cores) // CORES_PER_LANE // len(wanted)))
    identify = not task.time_identical and len(hosts) == len(SIDES)
    surveyed = survey(duet.workers, wanted, identify=identify, look=duet.workers.in_parallel, lanes=lanes)
    names = dict.fromkeys(name for by_case in surveyed.values() for name in by_case)
    return {name: {side: by_case[name] for side, by_case in surveyed.items() if name in by_case} for name in names}


def _bytes_of_pair(answers: Mapping[Side, PreparedCase | UnpreparedCase]) -> int:
    """Return the GPU memory that the workers of a pair need together; those of a CPU are counted too, and nobody asks."""
    return sum(one.prepared.peak_memory_bytes + CONTEXT_BYTES for one in answers.values() if isinstance(one, PreparedCase))


def _times_itself(answer: PreparedCase | UnpreparedCase) -> bool:
    return isinstance(answer, PreparedCase) and answer.prepared.times_itself


def _waits_for_host(answers: Mapping[Side, PreparedCase | UnpreparedCase]) -> bool:
    return any(isinstance(one, PreparedCase) and one.waits_for_host for one in answers.values())


def _suits_two_cores(answers: Mapping[Side, PreparedCase | UnpreparedCase]) -> bool:
    """Return whether the GPU waits for a host that works with few threads at a time, on each side."""
    found = [one.busy_cores for one in answers.values() if isinstance(one, PreparedCase) and one.waits_for_host]
    return bool(found) and all(busy is not None and busy <= MOST_BUSY for busy in found)


def _runs_one_by_one(answers: Mapping[Side, PreparedCase | UnpreparedCase]) -> bool:
    """Return whether one work queue is known to be enough for all that is timed; nobody has looked at stages."""
    return all(isinstance(one, PreparedCase) and one.one_by_one and not one.prepared.stages for one in answers.values())


def _has(case: CaseRun, side: Side) -> bool:
    present = case.in_head if side == "head" else case.in_reference
    return present and not any(failure.side == side for failure in case.failures)


def _with_survey(case: CaseRun, answers: Mapping[Side, PreparedCase | UnpreparedCase], free: int | None) -> CaseRun:
    found = {side: answer for side, answer in answers.items() if isinstance(answer, PreparedCase)}
    broken = {side: answer for side, answer in answers.items() if isinstance(answer, UnpreparedCase)}
    unfit = _no_verdict(broken)
    prepared = {side: answer.prepared for side, answer in found.items()}
    head, reference = prepared.get("head"), prepared.get("reference")
    same, difference = _host_code(found["head"], found["reference"]) if len(found) == len(SIDES) else (False, None)
    errors = {side: prepared[side].error for side in SIDES if side in prepared and prepared[side].has_reference}
    failures = () if unfit else tuple(broken[side].failure for side in SIDES if side in broken)
    agreement = None
    if head and reference and not head.has_reference and head.workload == reference.workload:
        apart = between_sides(head.evidence, reference.evidence)
        errors["head"], agreement = apart.error, apart.limit
        if apart.problem:
            failures, agreement = (*failures, Failure(side="head", stage="check", message=apart.problem)), None
    return case.model_copy(
        update={
            "workload": head.workload if head else None,
            "reference_workload": reference.workload if reference else None,
            "tuning": head.tuning if head else {},
            "memory_limit_bytes": head.memory_limit_bytes if head else None,
            "errors_before": errors,
            "has_reference": head is None or head.has_reference,
            "agreement": agreement,
            "identity": {side: digest for side in SIDES if side in found and (digest := found[side].digest_of_all)},
            "opaque": next((answer.opaque_or_waiting for answer in found.values() if answer.opaque_or_waiting), None),
            "host_same": same,
            "host_difference": difference,
            "failures": (*case.failures, *failures),
            "lost": tuple(one for side in SIDES if (answer := answers.get(side)) for one in answer.lost),
            "unfit": unfit or _too_big(_bytes_of_pair(answers), free),
        }
    )


def _host_code(head: PreparedCase, reference: PreparedCase) -> tuple[bool, str | None]:
    """Return whether host code is proved to be the same, and why not. Where the GPU waits for it, launches may not contradict."""
    difference = head.host.difference(reference.host)
    if head.prepared.tuning != reference.prepared.tuning:
        difference = difference or "its tuned parameters changed"
    waits, digests = head.waits_for_host or reference.waits_for_host, {head.digest, reference.digest}
    if waits and len(digests - {""}) > 1:
        difference = difference or "its launches, machine code or data differ"
    return not difference, difference or None


def _no_verdict(broken: Mapping[Side, UnpreparedCase]) -> str | None:
    """Return why preparing a case gave no verdict on its code; None where it gave one, or where only the head failed."""
    head, reference = broken.get("head"), broken.get("reference")
    if reference is None or reference.unfit is None or (head and head.unfit is None):
        return None
    return reference.unfit if head is None else could_not_measure((*head.lost, *reference.lost))


def _too_big(need: int, free: int | None) -> str | None:
    if not need or free is None or free >= need:
        return None
    return f"The workers need {size(need)} of GPU memory and {size(free)} are free: free some, or name another GPU with --gpu."


def _sides(case: CaseRun, *, time_identical: bool) -> tuple[Side, ...]:
    """Return both sides where they do the same work, the head alone without a counterpart, none where both are identical."""
    if case.skipped or case.unfit or case.workload is None or any(failure.side == "head" for failure in case.failures):
        return ()
    if case.identical and not time_identical:
        return ()
    return SIDES if case.workload == case.reference_workload else ("head",)


def _with_samples(case: CaseRun, measured: Measured, sampler: Sampler | None) -> CaseRun:
    """Return the case with its samples so far."""
    sides = {side: tuple(one.samples(sampler) for one in measured.workers[side]) for side in SIDES}
    return case.model_copy(
        update={
            "head": sides["head"],
            "reference": sides["reference"],
            "failures": (*case.failures, *measured.failures),
            "pair_s": measured.seconds / max(1, len(measured.workers["head"])),
            "lost": (*case.lost, *measured.lost_ahead, *measured.lost),
            "unfit": measured.unfit,
        }
    )


def _completed(
    case: CaseRun, measured: Measured, sampler: Sampler | None, ecc: tuple[int | None, int | None], confidence: float
) -> CaseRun:
    """Return the measured case with its figures, and with the reason if the machine was not fit meanwhile."""
    every = [one for side in SIDES for one in measured.workers[side]]
    windows = [taken.window for one in every for taken in one.blocks]
    telemetry = sampler.summary(windows) if sampler and windows else None
    blocks = [block for worker in (*case.reference, *case.head) for block in worker.blocks]
    dropped = sum(block.throttled for block in blocks)
    return case.model_copy(
        update={
            "performance": performance(case.head, case.workload, confidence) if case.workload else None,
            "reference_performance": performance(case.reference, case.workload, confidence) if case.workload else None,
            "telemetry": telemetry,
            "unfit": case.unfit or (problem_during(telemetry, dropped, len(blocks), *ecc) if blocks else None),
        }
    )
