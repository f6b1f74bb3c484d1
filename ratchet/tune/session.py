"""Open the stations of a tuning run, and run its search: ask the strategy, submit configurations, record every evaluation.

`tune` opens stations on the GPUs of this host (`local`) or of a Ray cluster (`on_ray`), and makes a `TuningSession`. Both kinds
first import the benchmarks next to every GPU, which takes long and does not depend on the case. It starts hosts or Ray actors,
and a `TuningSession` writes the record's file after each result.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.core import units
from ratchet.core.bench.client import Hosts
from ratchet.core.cache import scratch_folder
from ratchet.core.config import Settings
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import HostError, UnfitError
from ratchet.core.report.progress import Progress
from ratchet.core.workload import Device
from ratchet.tune.executor import GRACE_S, Budget, Executor, Station
from ratchet.tune.records import Configuration, Confirmation, Evaluation, Task, TaskResult, TuningFile, TuningRecord
from ratchet.tune.station import LocalStation, StationPlace
from ratchet.tune.trials import TrialTarget

if TYPE_CHECKING:
    from ratchet.tune.search import Search


Begin = Callable[[TrialTarget], AbstractContextManager[Executor]]
"""Opens the stations once it is known what is tuned."""


@contextlib.contextmanager
def local(places: Sequence[StationPlace], scout: Hosts) -> Iterator[Begin]:
    """Open one station per place; the first takes over the host that is there already."""
    with contextlib.ExitStack() as stack:
        heads = [scout, *(stack.enter_context(place.hosts()) for place in places[1:])]

        @contextlib.contextmanager
        def begin(aim: TrialTarget) -> Iterator[Executor]:
            with contextlib.ExitStack() as held:
                stations = []
                for place, head in zip(places, heads, strict=True):
                    stations.append(LocalStation(place, aim, head, len(places)))
                    held.callback(stations[-1].close)
                yield Executor(stations)

        yield begin


@dataclass(frozen=True)
class RemoteStationArguments:
    """The arguments for a station in another process, perhaps on another machine that sees the same files."""

    root: Path
    settings: Settings
    device: Device

    def prepare(self, held: contextlib.ExitStack) -> Callable[[TrialTarget], Station]:
        """Import the benchmarks there. Raises UnfitError where that process may use no GPU."""
        logs = held.enter_context(scratch_folder("logs"))
        gpu = vendor_here().choose_gpu(None, os.environ) if self.device == "cuda" else None
        if self.device == "cuda" and gpu is None:
            raise UnfitError("This process of the cluster may use no GPU.", "Start its nodes with --num-gpus.")
        place = StationPlace(self.root, self.settings, self.device, gpu, dict(os.environ), logs)
        head = held.enter_context(place.hosts())

        def opened(aim: TrialTarget) -> Station:
            head.sides["head"].listing()  # the station counts as started once its host has imported the benchmarks
            return LocalStation(place, aim, head)

        return opened


def on_ray(distant: RemoteStationArguments, environ: Mapping[str, str]) -> AbstractContextManager[Begin]:
    """Open a station on every GPU of the cluster. Raises as `ratchet.tune.ray_stations` does."""
    from ratchet.tune.ray_stations import ray_actors

    return ray_actors(distant.prepare, environ)


# The search: ask the strategy, submit configurations, and write every evaluation down at once.


_WAIT_S = 0.25
"""Seconds between looks at the clock."""
_PACE_FROM = 10
"""Evaluations after the first that it takes to know their pace."""
_REPORT_EVERY_S = 5.0
"""Seconds between lines of progress while nothing becomes better."""


class TuningSession:
    """One call of `ratchet tune`, from the first evaluation to the last."""

    def __init__(self, record: TuningRecord, path: Path, budget: Budget, most: int | None, progress: Progress) -> None:
        """``most``: evaluations of this session."""
        self.record, self._file = record, TuningFile(path)
        self._budget, self._most, self._progress = budget, most, progress
        self._numbers = itertools.count()
        self._scale = next((scale for evaluation in record.evaluations if (scale := _default_ms(evaluation))), None)
        self._reported_at = 0.0
        self._before = len(record.evaluations)
        self._first_at: float | None = None
        self._first_tried = 0
        self.best: float | None = None
        """The best normalised time so far."""
        self._look_for_best(record.evaluations)

    def resume(self, search: Search) -> None:
        """Give the strategy the evaluations of earlier sessions."""
        for evaluation in self.record.evaluations:
            search.tell(evaluation.configuration, self._value(evaluation))

    def search(self, search: Search, executor: Executor) -> str:
        """Evaluate until the time, the number or the space is used up. Return which. Raises HostError without a station."""
        under_way = 0
        while True:
            reason = self._reason_to_end(under_way)
            while not reason and executor.room > 0:
                proposed = search.ask(1)
                if not proposed:
                    break
                executor.submit(self._task(proposed[0]))
                under_way += 1
                reason = self._reason_to_end(under_way)
            if under_way == 0:
                return reason or "every configuration was tried"
            arrived = executor.results(min(_WAIT_S, max(0.0, self._budget.search_ends - time.monotonic()) + 0.01))
            under_way -= len(arrived)
            self._take(arrived, search)
            if arrived:
                self._correct_budget(search, under_way)
            if time.monotonic() >= self._budget.search_ends:
                executor.withdraw()  # what is not being timed yet
                self._take(executor.results(0.0), search)
                return "the time was over"

    def finals(
        self, case: str, configurations: Sequence[Configuration], seconds: float, executor: Executor
    ) -> list[Confirmation]:
        """Compare configurations with the default, all on one device, where they share the default's processes.

        Returns an empty list where that takes more than ``seconds`` and `GRACE_S`. Raises HostError where the station is lost.
        """
        task = Task(number=next(self._numbers), what="confirm", case=case, configurations=tuple(configurations), seconds=seconds)
        executor.submit(task)
        until = time.monotonic() + seconds + GRACE_S
        while time.monotonic() < until:
            for done in executor.results(_WAIT_S):
                if done.task.number != task.number:  # from before: an evaluation that ended after the search did
                    self._keep_evaluations([done])
                elif done.lost:
                    raise HostError(f"{done.place} is lost: {done.lost}")
                else:
                    return list(done.confirmations)
        return []

    def keep(self, record: TuningRecord) -> None:
        """Write the record as it is now."""
        self.record = record
        self._file.save(record)

    def _reason_to_end(self, under_way: int) -> str:
        if self._most is not None and len(self.record.evaluations) - self._before + under_way >= self._most:
            return f"{self._most} were tried, as many as were asked for"
        return "the time was over" if time.monotonic() >= self._budget.search_ends else ""

    def _correct_budget(self, search: Search, under_way: int) -> None:
        """Tell the strategy how many more there is time for, at the pace since the first came."""
        tried, now = len(self.record.evaluations) - self._before, time.monotonic()
        if self._first_at is None:
            self._first_at, self._first_tried = now, tried
        elif tried - self._first_tried >= _PACE_FROM and not math.isinf(self._budget.search_ends):
            pace = (tried - self._first_tried) / max(now - self._first_at, 1e-6)
            most = math.inf if self._most is None else self._most - tried
            left = min(most, pace * (self._budget.search_ends - now))
            search.expect(max(0, int(left) - under_way))

    def _task(self, configuration: Configuration) -> Task:
        left = self._budget.search_ends - time.monotonic()
        return Task(
            number=next(self._numbers),
            what="evaluate",
            case=self.record.case,
            configurations=(dict(configuration),),
            best=self.best,
            seconds=None if math.isinf(left) else max(0.0, left) + GRACE_S,
        )

    def _take(self, arrived: Sequence[TaskResult], search: Search) -> None:
        """Record results that arrived together, and give them to the strategy. Raises HostError where no station is left."""
        before = self.best
        self._keep_evaluations(arrived)
        for done in arrived:
            if done.lost:
                raise HostError(f"No station is left: {done.lost}", "The record has all that was tried: --resume goes on.")
            if done.evaluation is not None:
                self._scale = self._scale or _default_ms(done.evaluation)
                search.tell(done.evaluation.configuration, self._value(done.evaluation))
        if arrived:
            self._tell(better=self.best != before)

    def _keep_evaluations(self, arrived: Sequence[TaskResult]) -> None:
        evaluations = [done.evaluation for done in arrived if done.evaluation is not None]
        if evaluations:
            self.keep(self.record.model_copy(update={"evaluations": (*self.record.evaluations, *evaluations)}))
            self._look_for_best(evaluations)

    def _look_for_best(self, evaluations: Sequence[Evaluation]) -> None:
        times = [evaluation.normalised for evaluation in evaluations if evaluation.normalised]
        self.best = min(times if self.best is None else [*times, self.best], default=None)

    def _value(self, evaluation: Evaluation) -> float | None:
        """Return the time that the strategy gets, in milliseconds, scaled so that the default takes as long on every GPU."""
        if evaluation.normalised is not None and self._scale is not None:
            return evaluation.normalised * self._scale
        return evaluation.median_ms

    def _tell(self, *, better: bool) -> None:
        now = time.monotonic()
        if not better and now - self._reported_at < _REPORT_EVERY_S:
            return
        self._reported_at = now
        tried = len(self.record.evaluations)
        failed = sum(not evaluation.timed for evaluation in self.record.evaluations)
        best = f", the best takes {units.percent(self.best, 1)} of the default's time" if self.best else ""
        self._progress.stage(f"{tried} tried, {failed} failed{best}")


def _default_ms(evaluation: Evaluation) -> float | None:
    """Return the default's time in milliseconds, as this evaluation saw it."""
    if evaluation.median_ms is None or evaluation.normalised is None:
        return None
    return evaluation.median_ms / evaluation.normalised


def finalists(evaluations: Sequence[Evaluation], default: Configuration, most: int, below: float) -> Iterator[Configuration]:
    """Yield the best few, best first: those that took less than ``below`` of the default's time."""
    timed = [
        evaluation
        for evaluation in evaluations
        if evaluation.outcome == "correct" and evaluation.normalised and evaluation.configuration != default
    ]
    best = sorted(timed, key=lambda evaluation: evaluation.normalised or math.inf)
    return (evaluation.configuration for evaluation in best[:most] if (evaluation.normalised or math.inf) < below)
