"""Tasks spread over stations, some of which are lost."""

from __future__ import annotations

from datetime import UTC, datetime

from ratchet.tune.executor import LocalExecutor, Report
from ratchet.tune.records import Evaluation, Task, TaskResult


class FakeStation:
    """Does what the test tells it to do."""

    def __init__(self, name: str, room: int = 2) -> None:
        self.name, self.most = name, room
        self.tasks: list[Task] = []
        self.closed = self.withdrawn = 0
        self._report: Report = lambda done: None

    @property
    def places(self) -> tuple[str, ...]:
        return () if self.closed else (self.name,)

    @property
    def room(self) -> int:
        return self.most - len(self.tasks)

    def report_to(self, report: Report) -> None:
        self._report = report

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def withdraw(self) -> None:
        self.withdrawn += 1

    def close(self) -> None:
        self.closed += 1

    def finish(self) -> None:
        task = self.tasks.pop(0)
        found = Evaluation(
            configuration=task.configurations[0], outcome="crash", reason="told to", at=datetime(2026, 1, 1, tzinfo=UTC)
        )
        self._report(TaskResult(task=task, place=self.name, evaluation=found))

    def lose(self) -> None:
        lost, self.tasks = self.tasks, []
        for task in lost:
            self._report(TaskResult(task=task, place=self.name, lost="gone"))


def task(number: int) -> Task:
    return Task(number=number, what="evaluate", case="a/b", configurations=({"X": number},))


def test_tasks_go_where_there_is_room() -> None:
    """Each task goes to the station with the most room, and all that was done comes back once."""
    one, two = FakeStation("one", 1), FakeStation("two", 3)
    executor = LocalExecutor([one, two])
    assert executor.places == ("one", "two")
    assert executor.room == 4
    for number in range(4):
        executor.submit(task(number))
    assert executor.room == 0
    assert (len(one.tasks), len(two.tasks)) == (1, 3)
    one.finish()
    two.finish()
    assert {done.place for done in executor.results(1)} == {"one", "two"}
    assert executor.results(0) == []


def test_the_tasks_of_a_lost_station_go_to_another() -> None:
    """Every task of a station that is lost is done by another, and the lost one is closed and gets no more."""
    one, two = FakeStation("one", 3), FakeStation("two", 3)
    executor = LocalExecutor([one, two])
    for number in range(4):
        executor.submit(task(number))
    one.lose()
    assert executor.results(1) == []
    assert sorted(each.number for each in two.tasks) == [0, 1, 2, 3]
    assert one.closed == 1
    assert executor.places == ("two",)
    executor.submit(task(4))
    assert one.tasks == []


def test_the_last_station_lost_is_told() -> None:
    """Where no station is left, its tasks come back with the reason."""
    one = FakeStation("one")
    executor = LocalExecutor([one])
    executor.submit(task(7))
    one.lose()
    assert [(done.task.number, done.lost) for done in executor.results(1)] == [(7, "gone")]


def test_withdraw_and_close_reach_all() -> None:
    """Every station is told to take back and to end."""
    stations = [FakeStation("one"), FakeStation("two")]
    executor = LocalExecutor(stations)
    executor.withdraw()
    executor.close()
    assert [(each.withdrawn, each.closed) for each in stations] == [(1, 1), (1, 1)]
