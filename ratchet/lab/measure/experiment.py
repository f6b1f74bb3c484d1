"""Measure one case for experiments: its profile and its noise to begin with, then a working tree against the reference.

`ratchet.lab.experiment` calls `measure_start` and `measure_change`. The pairs are those of `duet`. It starts processes
through `client.Hosts`, and hands one result over in a scratch folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts, WorkerClient
from ratchet.core.bench.duet import CaseSides, Duet, Measured, MeasureProgress, Rounds
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.survey import UnpreparedCase, survey
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.telemetry import Sampler
from ratchet.core.errors import HostError, UnfitError, UsageError
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import SIDES, Failure, Plan, Side, WorkerSamples
from ratchet.core.untrusted import clean
from ratchet.lab.measure.answers import Captured, SameResult, StartProfile, Written
from ratchet.lab.records.experiment import WARM_UPS, WHOLE, Equality, GraphCheck

Samples = dict[Side, tuple[WorkerSamples, ...]]


@dataclass(frozen=True)
class ExperimentTask:
    """How to measure one case."""

    case: str
    plan: Plan
    looks: tuple[int, ...]
    settled: Callable[[Samples], bool]
    """Whether more pairs would change nothing."""
    stage: str = WHOLE
    reruns: Callable[[Samples], int] = lambda _: 0
    """How many more pairs confirm the stage."""
    micro: str = ""
    """Another case: a micro-benchmark of what changed."""
    micro_settled: Callable[[Samples], bool] = lambda _: True
    gpu: Gpu | None = None
    peaks: Peaks | None = None
    idle: Sequence[int] = ()


@dataclass
class MeasuredCase:
    """The samples of both sides. ``failure`` is why the head gave none; trouble of the reference is an UnfitError."""

    case: str
    micro_case: str = ""
    samples: Samples = field(default_factory=dict)
    reruns: Samples = field(default_factory=dict)
    micro: Samples = field(default_factory=dict)
    profiled: StartProfile | None = None
    equality: Equality | None = None
    graph: GraphCheck | None = None
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)


def measure_start(
    trees: Mapping[Side, TreeSpec], task: ExperimentTask, progress: MeasureProgress, environ: Mapping[str, str]
) -> MeasuredCase:
    """Profile a case, and measure one tree against itself.

    Raises UsageError where the name is not that of one case, HostError, and UnfitError where it cannot be measured.
    """
    with _opened(trees, task, progress, environ) as bench:
        found = bench.found
        bench.prepare([found.case])
        if found.failure is None:
            progress.stage("Profiling 10 calls")
            found.profiled = bench.profiled()
            progress.start(1, task.looks[-1])
            found.samples = bench.measured(found.case, task.looks, task.settled)
        if found.failure is not None:
            raise UnfitError(f"{found.case} cannot be measured: {found.failure.message.rstrip('.')}.", "See `ratchet run`.")
    return found


def measure_change(
    trees: Mapping[Side, TreeSpec], task: ExperimentTask, folder: Path, progress: MeasureProgress, environ: Mapping[str, str]
) -> MeasuredCase:
    """Measure the head against the reference: results, the whole call, its stages, and what the decision asks for besides.

    Raises as `measure_start` does, for trouble that is not the head's.
    """
    with _opened(trees, task, progress, environ) as bench:
        found = bench.found
        bench.prepare([found.case, *([found.micro_case] if found.micro_case else [])])
        if found.failure:
            return found
        bench.compare_results(folder / "result")
        progress.start(1, task.looks[-1])
        found.samples = bench.measured(found.case, task.looks, task.settled)
        if found.failure is None and (count := task.reruns(found.samples)):
            progress.stage(f"Measuring {task.stage} {count} times again")
            found.reruns = bench.measured(found.case, (count,), lambda _: True, anew=True)
        if found.failure is None and found.micro_case:
            progress.stage(f"Measuring {found.micro_case}")
            found.micro = bench.measured(found.micro_case, task.looks, task.micro_settled)
        if found.failure is None and task.gpu is not None:
            bench.try_graph()
    return found


@contextlib.contextmanager
def _opened(
    trees: Mapping[Side, TreeSpec], task: ExperimentTask, progress: MeasureProgress, environ: Mapping[str, str]
) -> Iterator[_Bench]:
    with contextlib.ExitStack() as stack:
        progress.stage("Importing benchmarks")
        hosts = stack.enter_context(Hosts(trees, environ)).sides
        found = _listed(hosts, task)
        sampler = stack.enter_context(Sampler(task.gpu, idle=task.idle)) if task.gpu else None
        yield _Bench(task, found, Duet(hosts, task.plan, progress, sampler, peaks=task.peaks), sampler)


def _listed(hosts: Mapping[Side, HostClient], task: ExperimentTask) -> MeasuredCase:
    """Return the case that the task names, with the head's failure if its files are broken."""
    reference = hosts["reference"].listing()
    try:
        head = hosts["head"].listing()
    except HostError as error:
        return MeasuredCase(task.case, failure=Failure(side="head", stage="import", message=clean(error.message)))
    found = MeasuredCase(task.case)
    for name in (task.case, *([task.micro] if task.micro else [])):
        cases = choose_cases(head, reference, [name])
        if len(cases) > 1:
            names = ", ".join(case.name for case in cases[:4])
            raise UsageError(f"{name} names {len(cases)} cases: {names}{' …' if len(cases) > 4 else ''}.", "Name one of them.")
        (case,) = cases
        if name == task.case:
            found.case = case.name
        else:
            found.micro_case = case.name
        if case.skipped:
            raise UsageError(f"{case.name} cannot run on this machine: {case.skipped}.", "Name another case.")
        if not case.in_reference:
            raise UsageError(f"The reference has no case {case.name}.", "Commit it, and start again.")
        for failure in case.failures:
            if failure.side == "reference":
                raise UnfitError(f"The reference cannot be imported: {failure.message.rstrip('.')}.", "Fix it, and start again.")
            found.failure = failure
        if not case.in_head:
            found.failure = Failure(side="head", stage="import", message=f"it has no case {case.name}")
    return found


@dataclass
class _Bench:
    """Both trees, imported, and what is found of them."""

    task: ExperimentTask
    found: MeasuredCase
    duet: Duet
    sampler: Sampler | None

    def prepare(self, names: Sequence[str]) -> None:
        """Build and check the cases on both sides, so that nothing is compiled while it is timed."""
        if self.found.failure:
            return
        self.duet.progress.stage("Compiling and checking")
        surveyed = survey(self.duet.workers, dict.fromkeys(SIDES, names), identify=False)
        for name in names:
            reference, head = surveyed["reference"][name], surveyed["head"][name]
            if isinstance(reference, UnpreparedCase):
                self._note_failure(reference.failure, reference.unfit)
            elif isinstance(head, UnpreparedCase):
                # The reference could be prepared, so a head that is lost in every try is to blame itself.
                self._note_failure(head.failure, None if head.lost else head.unfit)
            elif changed := head.prepared.workload.differences(reference.prepared.workload):
                message = f"the work of {name} itself changed, so times do not compare ({changed[0]})"
                self.found.failure = Failure(side="head", stage="check", message=message)

    def measured(self, case: str, looks: tuple[int, ...], settled: Callable[[Samples], bool], *, anew: bool = False) -> Samples:
        """Measure pairs of one case until it is settled. ``anew``: with other inputs, layouts and orders than before."""
        duet, sampler, plan = self.duet, self.sampler, self.task.plan
        if anew:
            plan = plan.model_copy(update={"seed": plan.seed + 1_000_000, "order_seed": plan.order_seed + 1})
            duet = Duet(duet.workers.hosts, plan, duet.progress, sampler, peaks=self.task.peaks)

        def samples_of(one: Measured) -> Samples:
            return {side: tuple(worker.samples(sampler) for worker in one.workers[side]) for side in SIDES}

        class UntilSettled(Rounds):
            def undecided(self, results: Mapping[str, Measured]) -> list[str]:
                return [] if settled(samples_of(results[case])) else [case]

        measured = duet.measure([CaseSides(case, SIDES)], UntilSettled(looks, plan.budget_s))[case]
        for failure in measured.failures:
            self._note_failure(failure, None)
        if measured.unfit:
            raise UnfitError(measured.unfit)
        return samples_of(measured)

    def profiled(self) -> StartProfile:
        """Profile the reference in a worker of its own."""
        try:
            with self._worker("reference", self.task.plan.seed) as worker:
                worker.timeout_s *= WARM_UPS  # many calls are one step here
                return worker.ask("hot_spots", StartProfile)
        except CaseTrouble as error:
            raise UnfitError(f"{self.found.case} cannot be profiled, so no experiment begins: {error.message}.") from None

    def compare_results(self, file: Path) -> None:
        """Compare the results of both sides on the same inputs. What cannot be compared is a note and no failure."""
        seed = self.task.plan.seed + 1
        try:
            with self._worker("head", seed) as head:
                written = head.ask("result", Written, file=str(file)).model_dump(mode="json")["parts"]
            with self._worker("reference", seed) as reference:
                same = reference.ask("same_result", SameResult, file=str(file), written=written)
            self.found.equality = Equality.model_validate(same.model_dump())
        except CaseTrouble as error:
            self.found.notes.append(f"Results were not compared bit for bit: {error.message}")
        finally:
            file.unlink(missing_ok=True)

    def try_graph(self) -> None:
        """Capture the changed stage of both sides in a CUDA graph, each in a worker that ends afterwards."""
        answers: dict[Side, Captured] = {}
        for side in SIDES:
            try:
                with self._worker(side, self.task.plan.seed) as worker:
                    answers[side] = worker.ask("capture", Captured, stage=self.task.stage)
            except CaseTrouble as error:
                answers[side] = Captured(verdict="breaks", why=error.message)
        head, reference = answers["head"], answers["reference"]
        self.found.graph = GraphCheck(head=head.verdict, reference=reference.verdict, why=head.why)

    @contextlib.contextmanager
    def _worker(self, side: Side, seed: int) -> Iterator[WorkerClient]:
        """Yield a worker that has built the case and ends afterwards."""
        worker = self.duet.workers.fork(side)
        try:
            self.duet.workers.prepare(side, worker, self.found.case, seed, check=False)
            yield worker
        finally:
            self.duet.workers.end(worker)

    def _note_failure(self, failure: Failure, unfit: str | None) -> None:
        if unfit:
            raise UnfitError(unfit)
        if failure.side == "reference":
            raise UnfitError(f"The reference fails: {failure.message.rstrip('.')}.", "See `ratchet run`.")
        self.found.failure = failure
