"""The search while it goes on, with stations that answer from a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.errors import HostError
from ratchet.core.records.files import load
from ratchet.core.report.progress import Progress
from ratchet.tune.executor import Budget
from ratchet.tune.records import Configuration, Confirmation, Evaluation, Task, TaskResult, TuningRecord
from ratchet.tune.session import TuningSession, finalists
from tests import tuning_examples as sample


class Asked:
    """A strategy that goes through a list, and notes what it is told."""

    def __init__(self, configurations: list[Configuration]) -> None:
        self.left = list(configurations)
        self.told: list[tuple[Configuration, float | None]] = []
        self.expected: list[int] = []

    def ask(self, count: int = 1) -> list[Configuration]:
        asked, self.left = self.left[:count], self.left[count:]
        return asked

    def expect(self, evaluations: int) -> None:
        self.expected.append(evaluations)

    def tell(self, configuration: Configuration, value: float | None) -> None:
        self.told.append((configuration, value))
        self.left = [each for each in self.left if each != configuration]


class Stations:
    """Two places that finish in turns, the last task first."""

    places = ("NVIDIA H200 [0]", "NVIDIA H200 [1]")

    def __init__(self, answer: Callable[[Task, int], TaskResult], room: int = 4) -> None:
        self._answer, self._most = answer, room
        self.waiting: list[Task] = []
        self.submitted: list[Task] = []
        self.most_at_once = 0

    @property
    def room(self) -> int:
        return self._most - len(self.waiting)

    def submit(self, task: Task) -> None:
        self.waiting.append(task)
        self.submitted.append(task)
        self.most_at_once = max(self.most_at_once, len(self.waiting))

    def results(self, timeout_s: float) -> list[TaskResult]:
        return [self._answer(self.waiting.pop(), len(self.submitted))] if self.waiting else []

    def withdraw(self) -> None:
        self.waiting.clear()

    def close(self) -> None: ...


def answer(task: Task, number: int) -> TaskResult:
    """Every second evaluation is done by a GPU that takes twice as long for everything."""
    configuration, slow = task.configurations[0], number % 2
    cost = sample.cost_of(configuration)
    found = sample.evaluation(configuration, number, gpu=Stations.places[slow], median_ms=0.053 * cost * (1 + slow))
    return TaskResult(task=task, place=Stations.places[slow], evaluation=found)


def session(
    tmp_path: Path, most: int | None = None, before: tuple[Evaluation, ...] = (), seconds: float | None = None
) -> TuningSession:
    record = sample.record(evaluations=before, confirmations=(), others=(), best=None, verdict="")
    return TuningSession(record, tmp_path / "x.json", Budget(time.monotonic(), seconds), most, Progress())


def test_a_slow_gpu_neither_wins_nor_loses(tmp_path: Path) -> None:
    """What a strategy is told of a configuration does not depend on the GPU that timed it, but on the default's time there."""
    search, made = Asked(sample.every_configuration()), session(tmp_path)
    assert made.search(search, Stations(answer)) == "every configuration was tried"
    values = [(value or 0) / sample.cost_of(configuration) for configuration, value in search.told]
    assert values == pytest.approx([values[0]] * len(sample.every_configuration()))
    assert {each.gpu for each in made.record.evaluations} == set(Stations.places)


def test_everything_is_written_at_once(tmp_path: Path) -> None:
    """Whenever a station is asked for more, what it gave before is in the file."""
    made, seen = session(tmp_path), []

    def looking(task: Task, number: int) -> TaskResult:
        seen.append(len(load(tmp_path / "x.json", TuningRecord).evaluations) if seen else 0)
        return answer(task, number)

    made.search(Asked(sample.every_configuration()[:9]), Stations(looking))
    assert seen == list(range(9))


def test_the_number_asked_for_is_kept_with_many_under_way(tmp_path: Path) -> None:
    """No more are given out than were asked for, however many a station takes at once; earlier sessions do not count."""
    before = sample.evaluations()[:5]
    search, stations = Asked(sample.every_configuration()), Stations(answer, room=4)
    made = session(tmp_path, most=10, before=before)
    made.resume(search)
    assert made.search(search, stations) == "10 were tried, as many as were asked for"
    assert (len(stations.submitted), len(made.record.evaluations), stations.most_at_once) == (10, 15, 4)
    tried = [tuple(each.configuration.values()) for each in made.record.evaluations]
    assert len(set(tried)) == 15


def test_the_best_so_far_goes_along(tmp_path: Path) -> None:
    """Every task carries the best normalised time known when it was given out, so that a station can drop what is behind."""
    stations = Stations(answer, room=1)
    made = session(tmp_path)
    made.search(Asked(sample.every_configuration()), stations)
    costs = [sample.cost_of(task.configurations[0]) for task in stations.submitted]
    best = [min(costs[:number], default=None) for number in range(len(costs))]
    assert [task.best for task in stations.submitted] == pytest.approx(best)


def test_no_time_means_no_evaluation(tmp_path: Path) -> None:
    """When the time is over, nothing is given out."""
    stations = Stations(answer)
    assert session(tmp_path, seconds=1e-9).search(Asked(sample.every_configuration()), stations) == "the time was over"
    assert stations.submitted == []


def test_without_a_station_the_search_ends(tmp_path: Path) -> None:
    """A task that no station is left for ends the search with the reason."""
    lost = Stations(lambda task, _: TaskResult(task=task, place="x", lost="the driver went away"))
    with pytest.raises(HostError, match="No station is left: the driver went away"):
        session(tmp_path).search(Asked(sample.every_configuration()), lost)


def test_finalists() -> None:
    """The best few that were timed in full and are faster than the limit, best first; never the default itself."""
    tried = sample.evaluations()
    found = list(finalists(tried, sample.DEFAULT, 3, 0.98))
    costs = [sample.cost_of(each) for each in found]
    assert costs == sorted(costs)
    assert found[0] == sample.WINNER
    assert len(found) == 3
    assert list(finalists(tried, sample.DEFAULT, 99, 0.8)) == []
    assert sample.DEFAULT not in list(finalists(tried, sample.DEFAULT, 99, 2.0))


def test_an_answer_that_comes_too_late_is_not_taken_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A confirmation that arrives while the next one is waited for is left out, and the next one's own answer is taken."""
    candidates = sample.every_configuration()[:2]

    def confirmed(task: Task) -> TaskResult:
        told = tuple(Confirmation(configuration=each, config="x", reason=task.case) for each in task.configurations)
        return TaskResult(task=task, place="x", confirmations=told)

    class Late(Stations):
        def results(self, timeout_s: float) -> list[TaskResult]:
            if len(self.submitted) == 1:
                time.sleep(timeout_s)
                return []
            return [confirmed(self.waiting.pop(0))] if self.waiting else []

    monkeypatch.setattr("ratchet.tune.session.GRACE_S", 0.0)
    stations, made = Late(answer), session(tmp_path)
    stations.places = Stations.places[:1]
    assert made.finals("attention/late", candidates[:1], 0.0, stations) == []
    found = made.finals("attention/next", candidates[1:], 30.0, stations)
    assert [(each.configuration, each.reason) for each in found] == [(candidates[1], "attention/next")]


def test_the_pace_corrects_the_budget(tmp_path: Path) -> None:
    """With a time budget, a strategy is told again and again how many more there is time for; never more than were asked for."""
    search, stations = Asked(sample.every_configuration()), Stations(answer, room=1)
    session(tmp_path, most=15, seconds=3600).search(search, stations)
    assert search.expected == [4, 3, 2, 1, 0]
    unlimited = Asked(sample.every_configuration())
    session(tmp_path).search(unlimited, Stations(answer, room=1))
    assert unlimited.expected == []
