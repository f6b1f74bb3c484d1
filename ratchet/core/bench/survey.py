"""Build, check and identify every case once before anything is timed.

On a GPU the launches of most cases prove that they are the same on both sides; workers that look at launches take one case after
the other. The host code of the other cases can be told only in workers that have prepared nothing else.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from ratchet.core.bench.client import CaseTrouble, Hung, Lost, WorkerClient
from ratchet.core.bench.lost import could_not_measure, in_every_try, worth_repeating
from ratchet.core.bench.messages import OPENED_ELSEWHERE, BuiltCase, HostCode, Identified
from ratchet.core.bench.ready.workers import Workers
from ratchet.core.records.run import SIDES, Failure, LostWorker, Side

T = TypeVar("T")
NOT_LOOKED_AT = HostCode(unknown="it was not looked at")
NOT_IDENTIFIED = Identified.model_construct(digest="", opaque="", waits_for_host=True)
"""Where nobody looked, the GPU may wait for the host, and launches may run side by side."""


@dataclass(frozen=True)
class PreparedCase:
    """A case that can be built, and the identity of its code where that was asked for."""

    prepared: BuiltCase
    identified: Identified = NOT_IDENTIFIED
    """What its launches show. Neither a digest nor the reason why there is none, where nobody asked for the identity."""
    host: HostCode = NOT_LOOKED_AT
    """What it noticed of the difference between the trees, where its launches do not prove it to be the same on both sides."""
    lost: tuple[LostWorker, ...] = ()
    """Workers that were lost before one succeeded."""


@dataclass(frozen=True)
class UnpreparedCase:
    """A case that cannot be built or gives a wrong result, or whose workers were all lost."""

    failure: Failure
    lost: tuple[LostWorker, ...] = ()
    unfit: str | None = None
    """Why this is no verdict on the code, and what to do."""


Surveyed = dict[str, dict[Side, PreparedCase | UnpreparedCase]]
"""Case → side → how building and checking it went."""


@dataclass
class _Survey:
    """The survey of one side: the cases that are left, and what is known of the others. Several lanes share it."""

    side: Side
    left: deque[str]
    identify: bool
    look: bool
    cases: dict[str, PreparedCase | UnpreparedCase] = field(default_factory=dict)
    lost: dict[str, tuple[LostWorker, ...]] = field(default_factory=dict)
    late: dict[str, None] = field(default_factory=dict)
    """Modules that cases import when they are called (`BuiltCase.late`)."""


def survey(
    workers: Workers,
    cases: Mapping[Side, Sequence[str]],
    *,
    identify: bool,
    look: bool = False,
    lanes: int = 1,
    during: Callable[[Callable[[], str]], AbstractContextManager[None]] = lambda _: contextlib.nullcontext(),
    import_late: Callable[[Sequence[Collection[str]]], None] = lambda _: None,
) -> Surveyed:
    """Build and check every case of each side once, so that compilation and failures happen before anything is timed.

    On a GPU, so many ``lanes`` of each side work at once; a case that fails there is tried again alone. A case whose worker
    was lost is tried again after all others. ``identify`` asks for the identity of each case's code too. ``look`` alone
    only asks whether the GPU waits for the host, and whether launches run one by one. ``during`` may ask what is at work while
    this goes on. ``import_late`` gets the modules of each side that its cases have imported when they were called, so that what
    is forked later need not; no worker lives then.
    Raises HostError where no worker can be forked, ForeignModuleError for a module from outside the tree.
    """
    surveys = {side: _Survey(side, deque(names), identify, look) for side, names in cases.items()}
    total = sum(map(len, cases.values()))

    def at_work() -> str:
        longest = workers.in_work.longest()
        return longest and f"{sum(len(each.cases) for each in surveys.values())} of {total} ready; {longest}"

    with during(at_work):
        if workers.in_parallel:
            lanes_of = [survey for survey in surveys.values() for _ in range(min(lanes, len(survey.left)))]
            workers.run_concurrently([partial(_survey_cases, workers, survey, crowded=True) for survey in lanes_of])
            workers.wait_for_ends()
            import_late([survey.late for survey in surveys.values()])
        for side, names in cases.items():
            surveys[side].left = deque(name for name in names if name not in surveys[side].cases)
            _survey_cases(workers, surveys[side], crowded=False)
        workers.wait_for_ends()
        import_late([survey.late for survey in surveys.values()])
        if identify and workers.on_gpu:
            _compare_host_code(workers, surveys, lanes)
        workers.wait_for_ends()
    everything = dict.fromkeys(name for names in cases.values() for name in names)
    return {name: {side: each.cases[name] for side, each in surveys.items() if name in each.cases} for name in everything}


def _taken(left: deque[T]) -> Iterator[T]:
    """Yield from the left of a queue that several lanes share, until it is empty."""
    with contextlib.suppress(IndexError):  # asking first whether it is empty would let another lane take the last one meanwhile
        while True:
            yield left.popleft()


def _survey_cases(workers: Workers, survey: _Survey, *, crowded: bool) -> None:
    """Survey cases one after the other. Where a worker is lost, the case comes again after the others.

    ``crowded``: other workers do so at the same time. What fails or times its own code is then left to be done alone.
    """
    worker: WorkerClient | None = None
    for name in _taken(survey.left):
        spent = True
        try:
            # Where others work, nothing is timed, so that one work queue is enough.
            worker = worker or workers.fork(survey.side, one_queue=crowded, watched=survey.identify)
            with workers.in_work.during(worker, f"{name} ({survey.side})"):
                case, spent = _survey_case(workers, survey, worker, name, crowded=crowded)
            if case.prepared.times_itself and not crowded:
                workers.prepared_alone.add(name)
            if not (case.prepared.times_itself and crowded):
                survey.cases[name] = case
        except Lost as error:
            lost = survey.lost[name] = (*survey.lost.get(name, ()), error.lost_worker(None))
            if isinstance(error, Hung) or not (crowded or worth_repeating(lost)):
                # What took longer than ``case_timeout`` is not tried again: it would hold up all others.
                failure = error.failure(in_every_try(error.message, lost))
                survey.cases[name] = UnpreparedCase(failure, lost, could_not_measure(lost))
            elif not crowded:
                survey.left.append(name)
        except CaseTrouble as error:
            if not crowded:
                survey.cases[name] = UnpreparedCase(error.failure(), survey.lost.get(name, ()), error.no_verdict)
        if spent and worker:
            workers.let_go(worker)
            worker = None
    if worker:
        workers.let_go(worker)


def _survey_case(
    workers: Workers, survey: _Survey, worker: WorkerClient, name: str, *, crowded: bool
) -> tuple[PreparedCase, bool]:
    """Return the case, and whether its worker must end. On the CPU, which has no launches, every case needs its host code."""
    lost, is_fresh = survey.lost.get(name, ()), not worker.case
    prepared = workers.prepare(survey.side, worker, name, workers.plan.seed, check=True, crowded=crowded)
    survey.late |= dict.fromkeys(prepared.late)
    case = PreparedCase(prepared, lost=lost)
    if not (survey.identify or survey.look):
        return case, not workers.restored(survey.side, worker)
    host = worker.ask("host_code", HostCode) if survey.identify and is_fresh else NOT_LOOKED_AT
    try:
        identified = worker.ask("identify", Identified)
    except Lost:
        if survey.identify:
            raise
        return case, True  # its code is not compared, and it can be timed
    known = identified if survey.identify else identified.model_copy(update={"digest": "", "opaque": ""})
    return replace(case, identified=known, host=host), identified.spent or not workers.restored(survey.side, worker)


def _compare_host_code(workers: Workers, surveys: Mapping[Side, _Survey], lanes: int) -> None:
    """Ask for the host code of the cases that both sides have, and whose launches do not prove them to be the same."""
    needed: list[tuple[_Survey, str]] = []
    for survey in surveys.values():
        prepared = {name: case for name, case in survey.cases.items() if isinstance(case, PreparedCase)}
        if known := next((case.host for case in prepared.values() if case.host.always), None):
            survey.cases |= {name: replace(case, host=known) for name, case in prepared.items()}
    for name in dict.fromkeys(name for survey in surveys.values() for name in survey.cases):
        sides = [survey.cases.get(name) for survey in surveys.values()]
        looks = [case.identified for case in sides if isinstance(case, PreparedCase)]
        if len(looks) == len(SIDES) and (
            any(one.opaque or one.waits_for_host for one in looks) or looks[0].digest != looks[1].digest
        ):
            needed += [(survey, name) for survey in surveys.values()]

    def look(is_wanted: Callable[[HostCode], bool], lanes: int) -> None:
        wanted = deque(
            (survey, name, case)
            for survey, name in needed
            if isinstance(case := survey.cases[name], PreparedCase) and is_wanted(case.host)
        )

        def lane() -> None:
            for survey, name, case in _taken(wanted):
                survey.cases[name] = replace(case, host=_host_code(workers, survey, name))

        workers.run_concurrently([lane] * min(lanes, len(wanted)))

    look(lambda host: host is NOT_LOOKED_AT, lanes * len(SIDES))
    workers.wait_for_ends()
    look(lambda host: any(OPENED_ELSEWHERE in each for each in host.noticed), 1)  # perhaps by a worker beside it


def _host_code(workers: Workers, survey: _Survey, name: str) -> HostCode:
    worker: WorkerClient | None = None
    try:
        worker = workers.fork(survey.side, one_queue=name not in survey.lost, watched=True)
        workers.prepare(survey.side, worker, name, workers.plan.seed, check=False)
        return worker.ask("host_code", HostCode)
    except CaseTrouble as error:  # what was prepared before will say so again when it is timed
        return HostCode(unknown=f"looking at it failed: {error}")
    finally:
        if worker:
            workers.let_go(worker)
