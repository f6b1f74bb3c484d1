"""Measure one case for experiments: its profile and its noise to begin with, then a working tree against the reference.

`ratchet.lab.experiment` and `experiment_run` open an `Experiment`. The pairs are those of `duet`. It starts processes, and hands
one result over in a scratch folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ratchet.core.bench.client import CaseTrouble, WorkerClient
from ratchet.core.bench.duet import Duet, MeasureProgress, open_bench
from ratchet.core.bench.messages import Line
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.survey import UnpreparedCase, survey
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.errors import HostError, UnfitError, UsageError
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import Machine
from ratchet.core.records import Record
from ratchet.core.records.profile import Activity
from ratchet.core.records.run import SIDES, CaseRun, Failure, Plan, Side
from ratchet.core.untrusted import clean
from ratchet.lab.records.experiment import WARM_UPS, Equality, Floors, GraphCheck, ProfileBaseline
from ratchet.lab.rules import ExperimentRule, MicroRule


class StartProfile(Record):
    """A worker's profile with which a session of experiments begins."""

    baseline: ProfileBaseline
    floors: Floors
    stages: Annotated[dict[Line, Activity], Field(max_length=64)] = {}


class Written(Record):
    """A worker's answer to: write the result to a file. Place of a part → what it is."""

    parts: Annotated[dict[Line, Line], Field(max_length=4096)]


class Captured(Record):
    """A worker's answer to: can a stage be captured in a CUDA graph?"""

    verdict: Literal["safe", "breaks", "depends"]
    why: Line = ""


@dataclass
class MeasuredCase:
    """The samples of both sides. ``failure`` is why the head gave none; trouble of the reference is an UnfitError."""

    case: str
    timed: CaseRun | None = None
    again: CaseRun | None = None
    """Measured once more, to confirm the stage."""
    micro: CaseRun | None = None
    """Another case: a micro-benchmark of what changed."""
    equality: Equality | None = None
    graph: GraphCheck | None = None
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def open_experiment(
    trees: Mapping[Side, TreeSpec],
    names: Sequence[str],
    plan: Plan,
    machine: Machine,
    progress: MeasureProgress,
    environ: Mapping[str, str],
) -> Iterator[Experiment]:
    """Import both trees, whose processes end with the body. ``names``: the case, and perhaps a micro-benchmark.

    Raises UsageError where a name is not that of one case, HostError, and UnfitError where the reference cannot be imported.
    """
    progress.stage("Importing benchmarks")
    with open_bench(trees, plan, progress, environ, gpu=machine.gpu, idle=machine.idle) as duet:
        yield Experiment(duet, plan, names)


class Experiment:
    """Both trees, imported, and what is found of them."""

    def __init__(self, duet: Duet, plan: Plan, names: Sequence[str]) -> None:
        self.duet, self.plan = duet, plan
        self.found = MeasuredCase(names[0])
        self.cases = self._listed(names)

    def begun(self, rule: Rule) -> tuple[StartProfile, CaseRun]:
        """Profile the case, and measure one tree against itself. Raises UnfitError where it cannot be measured."""
        self.prepare()
        self._refuse_failure()
        self.duet.progress.stage("Profiling 10 calls")
        profiled = self.profiled()
        self.duet.progress.start(1, rule.looks[-1])
        timed = self.measured(self.cases[0], rule)
        self._refuse_failure()
        return profiled, timed

    def _refuse_failure(self) -> None:
        if failure := self.found.failure:
            why = f"{self.found.case} cannot be measured: {failure.message.rstrip('.')}."
            raise UnfitError(why, "See `ratchet run`.")

    def compared(self, rule: ExperimentRule, folder: Path) -> MeasuredCase:
        """Measure the head against the reference: results, the whole call, its stages, and what the decision asks for besides.

        Raises as `begun` does, for trouble that is not the head's.
        """
        found = self.found
        self.prepare()
        if found.failure:
            return found
        self.compare_results(folder / "result")
        self.duet.progress.start(1, rule.looks[-1])
        found.timed = self.measured(self.cases[0], rule)
        if found.failure is None and (count := rule.reruns(found.timed)):
            self.duet.progress.stage(f"Measuring {rule.stage} {count} times again")
            found.again = self.measured(self.cases[0], Rule((count,)), anew=True)
        if found.failure is None and len(self.cases) > 1:
            self.duet.progress.stage(f"Measuring {self.cases[1].name}")
            found.micro = self.measured(self.cases[1], MicroRule(rule.looks))
        if found.failure is None and self.duet.sampler is not None:  # there is a GPU
            self.try_graph(rule.stage)
        return found

    def _listed(self, names: Sequence[str]) -> list[CaseRun]:
        """Return the cases of these names, and note the head's failure if its files are broken."""
        reference = self.duet.hosts["reference"].listing()
        try:
            head = self.duet.hosts["head"].listing()
        except HostError as error:
            self.found.failure = Failure(side="head", stage="import", message=clean(error.message))
            return []
        listed = []
        for name in names:
            cases = choose_cases(head, reference, [name])
            if len(cases) > 1:
                first = ", ".join(case.name for case in cases[:4])
                more = " …" if len(cases) > 4 else ""
                raise UsageError(f"{name} names {len(cases)} cases: {first}{more}.", "Name one of them.")
            (case,) = cases
            if case.skipped:
                raise UsageError(f"{case.name} cannot run on this machine: {case.skipped}.", "Name another case.")
            if not case.in_reference:
                raise UsageError(f"The reference has no case {case.name}.", "Commit it, and start again.")
            for failure in case.failures:
                if failure.side == "reference":
                    why = f"The reference cannot be imported: {failure.message.rstrip('.')}."
                    raise UnfitError(why, "Fix it, and start again.")
                self.found.failure = failure
            if not case.in_head:
                self.found.failure = Failure(side="head", stage="import", message=f"it has no case {case.name}")
            listed.append(case)
        self.found.case = listed[0].name
        return listed

    def prepare(self) -> None:
        """Build and check the cases on both sides, so that nothing is compiled while it is timed."""
        if self.found.failure:
            return
        self.duet.progress.stage("Compiling and checking")
        names = list(dict.fromkeys(case.name for case in self.cases))
        surveyed = survey(self.duet.workers, dict.fromkeys(SIDES, names), identify=False)
        for name in names:
            reference, head = surveyed[name]["reference"], surveyed[name]["head"]
            if isinstance(reference, UnpreparedCase):
                self._note_failure(reference.failure, reference.unfit)
            elif isinstance(head, UnpreparedCase):
                # The reference could be prepared, so a head that is lost in every try is to blame itself.
                self._note_failure(head.failure, None if head.lost else head.unfit)
            elif changed := head.prepared.workload.differences(reference.prepared.workload):
                message = f"the work of {name} itself changed, so times do not compare ({changed[0]})"
                self.found.failure = Failure(side="head", stage="check", message=message)

    def measured(self, case: CaseRun, rule: Rule, *, anew: bool = False) -> CaseRun:
        """Measure pairs of one case. ``anew``: with other inputs, layouts and orders than before."""
        duet, plan = self.duet, self.plan
        if anew:
            plan = plan.model_copy(update={"seed": plan.seed + 1_000_000, "order_seed": plan.order_seed + 1})
            duet = Duet(duet.hosts, plan, duet.progress, duet.sampler, peaks=duet.peaks)
        (measured,) = duet.measure([case], {case.name: SIDES}, rule)
        for failure in measured.failures:
            self._note_failure(failure, None)
        if measured.unfit:
            raise UnfitError(measured.unfit)
        return measured

    def profiled(self) -> StartProfile:
        """Profile the reference in a worker of its own."""
        try:
            with self._worker("reference", self.plan.seed) as worker:
                worker.timeout_s *= WARM_UPS  # many calls are one step here
                return worker.ask("hot_spots", StartProfile)
        except CaseTrouble as error:
            raise UnfitError(f"{self.found.case} cannot be profiled, so no experiment begins: {error.message}.") from None

    def compare_results(self, file: Path) -> None:
        """Compare the results of both sides on the same inputs. What cannot be compared is a note and no failure."""
        seed = self.plan.seed + 1
        try:
            with self._worker("head", seed) as head:
                written = head.ask("result", Written, file=str(file)).parts
            with self._worker("reference", seed) as reference:
                self.found.equality = reference.ask("same_result", Equality, file=str(file), written=written)
        except CaseTrouble as error:
            self.found.notes.append(f"Results were not compared bit for bit: {error.message}")
        finally:
            file.unlink(missing_ok=True)

    def try_graph(self, stage: str) -> None:
        """Capture a stage of both sides in a CUDA graph, each in a worker that ends afterwards."""
        answers: dict[Side, Captured] = {}
        for side in SIDES:
            try:
                with self._worker(side, self.plan.seed) as worker:
                    answers[side] = worker.ask("capture", Captured, stage=stage)
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
