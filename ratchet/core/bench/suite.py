"""Measure the benchmarks of one or two trees on one device: start hosts, prepare every case, time pairs, record every case.

It starts child processes and reads the GPU's sensors in a thread. It writes no file; the caller stores the records.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ratchet.core.bench.client import HostClient, HostLost, Hosts
from ratchet.core.bench.cores import HostCores
from ratchet.core.bench.duet import CHECKED_SHARE, Duet, MeasureProgress, Observer
from ratchet.core.bench.lost import could_not_measure
from ratchet.core.bench.messages import Identified, Listing, between_sides
from ratchet.core.bench.overheads import with_overheads
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.ready.sessions import Sessions
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.survey import PreparedCase, Surveyed, UnpreparedCase, survey
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.turns import Planted
from ratchet.core.device.fitness import problem_during
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import HostError
from ratchet.core.judge.comparison import performance
from ratchet.core.judge.roofs import highest
from ratchet.core.judge.rule import Rule
from ratchet.core.records.environment import Telemetry
from ratchet.core.records.run import SIDES, CaseRun, Failure, OverheadName, Plan, Shard, Side
from ratchet.core.records.samples import rounded
from ratchet.core.units import listed, size, wall
from ratchet.core.untrusted import clean

CONTEXT_BYTES = 2 << 30
"""Generous size of one process's CUDA context, the buffer that flushes L2, and a workload's other placements."""

_TIMES_ITSELF = (
    "Kernels are chosen by timing them in each process (triton.autotune, cudnn.benchmark), in: {}. With"
    " Triton 3.4 and configurations without a pre_hook its choices are kept, and the check is faster."
)
_CHOICES_DIFFER = "{}: for kernel {}, Triton's autotuner chose {} in the head and {} in the reference, by timing."
_LATE = (
    "Imports inside benchmark functions take {} in each process, since they also change {}, so that no process can do them for"
    " all. Import at the top of the file."
)
LONG_IMPORT_S = 1.0
"""Imports that take longer are worth a sentence."""
MOST_BUSY = 1.5
"""A case that keeps more cores busy is timed on all: its threads work side by side, which two cores would change."""
SPARE_CORES = 8
"""With so many cores, what imports on some of them does not disturb what is timed on another."""


@dataclass(frozen=True)
class CaseTask:
    """The cases to measure, the device to measure on, and when to stop."""

    plan: Plan
    patterns: Sequence[str]
    confidence: float
    """Confidence level of the intervals around the figures of each side, 0 to 1."""
    rule: Rule
    compared: bool = True
    """There is a reference to compare with; a reference without a tree has no benchmarks."""
    gpu: Gpu | None = None
    idle: Sequence[int] = ()
    """Processes that hold the GPU but were seen to compute nothing."""
    time_identical: bool = False
    """Time cases whose code is the same on both sides too."""
    shard: Shard | None = None
    """The part of the selected cases that is measured here; None: all."""
    cores: Collection[int] = field(default_factory=lambda: os.sched_getaffinity(0))
    """The cores of the host: all, or a share of them where several GPUs are measured at once."""
    observer: Observer = field(default_factory=Observer)
    overheads: Collection[OverheadName] = ()
    """What is timed besides calls, where both sides are measured."""


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
    notes: tuple[str, ...] = ()
    """Sentences for readers of the whole run."""


def measure_suite(
    trees: Mapping[Side, TreeSpec],
    task: CaseTask,
    progress: MeasureProgress,
    environ: Mapping[str, str],
    sessions: Sessions | None = None,
    planted: Mapping[str, Planted] | None = None,
    tricks: Tricks = ALL,
) -> Suite:
    """Measure the selected cases of the given trees, in rounds while any of them is undecided.

    ``sessions`` are the hosts, where the caller has them (as `ratchet doctor soak` does); else they are started here, and ended.
    ``planted``: case → a slowdown of the head that is planted on purpose.
    Trouble with one case stays in its record. Raises HostError where the head's process cannot be used (HostLost also for the
    reference's, if it ended without a reason), ForeignModuleError for a module from outside its tree, UsageError for a pattern
    that matches nothing.
    """
    plan, gpu = task.plan, task.gpu
    with contextlib.ExitStack() as stack:
        progress.stage("Importing benchmarks")
        identify = not task.time_identical and len(trees) == len(SIDES)
        opened = sessions or Sessions(
            trees, environ, identify=identify, cores=len(task.cores), tricks=tricks, waiting=progress.waiting
        )
        sessions = stack.enter_context(opened)
        stack.enter_context(progress.during(sessions.importing))
        hosts = sessions.open()
        head = hosts["head"].listing()
        reference, missing = _reference_listing(hosts, compared=task.compared)
        cases = choose_cases(head, reference, task.patterns)
        cases = task.shard.part(cases) if task.shard else cases
        duet = Duet(
            hosts,
            plan,
            progress,
            stack.enter_context(Sampler(gpu, idle=task.idle)) if gpu else None,
            peaks=highest(gpu.name) if gpu else None,
            planted=planted,
            checked_share=CHECKED_SHARE,
            host_cores=HostCores(task.cores),
            sessions=sessions,
            tricks=tricks,
        )
        stack.enter_context(progress.during(duet.workers.in_work.longest))
        lanes = tricks.lanes(len(task.cores), len(hosts))
        late: list[str] = []
        import_late = partial(_import_late, sessions, duet, late)
        names = {case.name for case in cases if not case.skipped}
        chosen = [[case for case in host.listing().cases if case.name in names] for host in hosts.values()]
        import_late([[module for case in of_host for module in case.imports_first] for of_host in chosen])
        surveyed = sessions.surveyed(lambda: _survey(cases, duet, identify=identify, lanes=lanes, import_late=import_late))
        duet.workers.prepared_alone |= {
            name for name, sides in surveyed.items() if any(one.prepared.times_itself for one in _prepared(sides))
        }
        free = gpu.free_memory_bytes() if gpu else None
        cases = [_with_survey(case, surveyed.get(case.name, {}), free, identify=identify) for case in cases]
        new = [case for case in cases if not task.rule.is_known(case)]
        timed = {case.name: sides for case in new if (sides := _sides(case, time_identical=task.time_identical))}
        answers = {name: _prepared(surveyed[name]) for name in timed}
        every = [one for sides in answers.values() for one in sides]
        duet.on_two_cores = {name for name, sides in answers.items() if _suits_two_cores(sides)}
        duet.ready.together = tricks.pairs_together([_bytes_of(sides) for sides in answers.values()], free, len(task.cores))
        ecc_before = gpu.uncorrected_ecc() if gpu else None
        if timed:
            duet.workers.one_queue = all(one.identified.one_by_one and not one.prepared.stages for one in every)
            progress.start(len(timed), task.rule.looks[-1])
        # What keeps other cores busy could disturb blocks that wait for the host.
        waits = any(one.identified.waits_for_host for one in every)
        has_spare_cores = gpu is not None and len(task.cores) >= SPARE_CORES and not waits
        early = task.observer if has_spare_cores and tricks.early_observer else Observer()
        if not task.time_identical:  # else nobody knows whose code differs
            compared = [case.name for case in cases if timed.get(case.name) == SIDES and not case.identical]
            early.before_pairs(duet, cases, compared)
        measured = duet.measure(cases, timed, task.rule, early)
        ecc = (ecc_before, gpu.uncorrected_ecc() if gpu else None)
        task.observer.after_pairs(duet, measured)
        without: list[str] = []
        if task.overheads and len(hosts) == len(SIDES):
            measured, without = with_overheads(duet, measured, task.overheads, plan.budget_s)
    done = [
        completed(case, task.confidence, ecc, duet.telemetry_of(case.name)) if case.name in timed else case for case in measured
    ]
    tuned = [name for name in timed if name in duet.workers.prepared_alone]
    notes = (_TIMES_ITSELF.format(listed(tuned, 3)),) if tuned and not plan.tunes_each_process else ()
    return Suite(
        tuple(done),
        head.torch,
        head.cuda,
        head.triton,
        missing,
        next((host.l2_bytes for host in (*hosts.values(), *duet.workers.hosts.values()) if host.l2_bytes), None),
        (*notes, *late, *without, *choices_that_differ(surveyed, timed), *duet.workers.notes),
    )


def _import_late(sessions: Sessions, duet: Duet, notes: list[str], modules: Sequence[Collection[str]]) -> None:
    """Import once what cases import when they are called. Add to ``notes`` what a reader must know where that is impossible."""
    duet.workers.hosts, done = sessions.import_late(duet.workers.hosts, modules)
    if done.changed and done.seconds >= LONG_IMPORT_S:
        notes.append(_LATE.format(wall(done.seconds), listed(done.changed, 3)))


def choices_that_differ(surveyed: Surveyed, timed: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each kernel for which the autotuner chose something else on each side, with what is not the same."""
    for name in timed:
        sides = {side: one.prepared.choices for side, one in surveyed[name].items() if isinstance(one, PreparedCase)}
        head, reference = sides.get("head", {}), sides.get("reference", {})
        for kernel in head.keys() & reference.keys():
            one, other = head[kernel], reference[kernel]
            if one != other:
                yield clean(_CHOICES_DIFFER.format(name, kernel, _without(one, other), _without(other, one)), 500)


def _without(choice: str, other: str) -> str:
    """Return what a configuration sets and another one does not; all of it where either side has several."""
    apart = [each for each in choice.split(", ") if each not in other.split(", ")]
    return choice if ";" in choice + other or not apart else ", ".join(apart)


def completed(
    case: CaseRun, confidence: float, ecc: tuple[int | None, int | None], telemetry: Telemetry | None = None
) -> CaseRun:
    """Return a case that was timed with the figures of each side, and with the reason if the machine was not fit meanwhile.

    ``ecc``: counts of uncorrected errors of the GPU's memory before and after all cases; None where nobody counts.
    """
    case = case.model_copy(update={"head": rounded(case.head), "reference": rounded(case.reference)})
    blocks = [block for worker in (*case.reference, *case.head) for block in worker.blocks]
    dropped = sum(block.throttled for block in blocks)
    sides = ((case.head, case.workload), (case.reference, case.reference_workload))
    head, reference = (performance(workers, work, confidence) if work else None for workers, work in sides)
    return case.model_copy(
        update={
            "performance": head,
            "reference_performance": reference,
            "telemetry": telemetry,
            "unfit": case.unfit or (problem_during(telemetry, dropped, len(blocks), *ecc) if blocks else None),
        }
    )


def list_cases(tree: TreeSpec, patterns: Sequence[str], environ: Mapping[str, str]) -> list[CaseRun]:
    """Return the cases of one tree; none is measured. Raises as `measure_suite` does."""
    with Hosts({"head": tree}, environ) as hosts:
        return choose_cases(hosts.sides["head"].listing(), None, patterns)


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


def _survey(
    cases: Sequence[CaseRun],
    duet: Duet,
    *,
    identify: bool,
    lanes: int,
    import_late: Callable[[Sequence[Collection[str]]], None],
) -> Surveyed:
    duet.progress.stage("Compiling and checking the cases")
    sides = [side for side in reversed(SIDES) if side in duet.hosts]
    wanted = {side: [case.name for case in cases if not case.skipped and case.may_run(side)] for side in sides}
    return survey(
        duet.workers,
        wanted,
        identify=identify and len(duet.hosts) == len(SIDES),
        look=duet.workers.on_gpu,
        lanes=lanes,
        during=duet.progress.during,
        import_late=import_late,
    )


def _prepared(answers: Mapping[Side, PreparedCase | UnpreparedCase]) -> list[PreparedCase]:
    return [one for one in answers.values() if isinstance(one, PreparedCase)]


def _bytes_of(sides: Sequence[PreparedCase]) -> int:
    """Return the GPU memory that the workers of a pair need together; those of a CPU are counted too, and nobody asks."""
    return sum(one.prepared.peak_memory_bytes + CONTEXT_BYTES for one in sides)


def _suits_two_cores(sides: Sequence[PreparedCase]) -> bool:
    """Return whether the GPU waits for a host that works with few threads at a time, on each side."""
    looks = [one.identified for one in sides if one.identified.waits_for_host]
    return bool(looks) and all(look.busy_cores is not None and look.busy_cores <= MOST_BUSY for look in looks)


def _with_survey(
    case: CaseRun, answers: Mapping[Side, PreparedCase | UnpreparedCase], free: int | None, *, identify: bool
) -> CaseRun:
    found = {side: answer for side, answer in answers.items() if isinstance(answer, PreparedCase)}
    broken = {side: answer for side, answer in answers.items() if isinstance(answer, UnpreparedCase)}
    unfit = _no_verdict(broken)
    looks = {side: found[side].identified for side in SIDES if side in found}
    prepared = {side: answer.prepared for side, answer in found.items()}
    head, reference = prepared.get("head"), prepared.get("reference")
    same, difference = _host_code(found["head"], found["reference"]) if identify and len(found) == len(SIDES) else (False, None)
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
            "memory_before": {side: one.peak_memory_bytes for side, one in prepared.items()},
            "memory_limit_bytes": head.memory_limit_bytes if head else None,
            "errors_before": errors,
            "has_reference": head is None or head.has_reference,
            "agreement": agreement,
            # Where the GPU waits for the host, launches are not all that is timed.
            "identity": {side: look.digest for side, look in looks.items() if look.digest and not look.waits_for_host},
            "resources": {side: look.resources for side, look in looks.items() if look.resources},
            "opaque": next(filter(None, map(_opaque, reversed(looks.values()))), None),
            "host_same": same,
            "host_difference": difference,
            "failures": (*case.failures, *failures),
            "lost": tuple(one for side in SIDES if (answer := answers.get(side)) for one in answer.lost),
            "unfit": unfit or _too_big(_bytes_of(_prepared(answers)), free),
        }
    )


def _opaque(look: Identified) -> str:
    """Return why launches do not tell whether a case is the same; no text where they do."""
    return look.opaque or ("the GPU waits for the host while it is timed" if look.digest and look.waits_for_host else "")


def _host_code(head: PreparedCase, reference: PreparedCase) -> tuple[bool, str | None]:
    """Return whether host code is proved to be the same, and why not. Where the GPU waits for it, launches may not contradict."""
    difference = head.host.difference(reference.host)
    if head.prepared.tuning != reference.prepared.tuning:
        difference = difference or "its tuned parameters changed"
    looks = (head.identified, reference.identified)
    if any(look.waits_for_host for look in looks) and len({look.digest for look in looks} - {""}) > 1:
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
