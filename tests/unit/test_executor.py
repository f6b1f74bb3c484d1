"""Tasks spread over stations, some of which are lost."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from ratchet.tune.executor import Executor, Report
from ratchet.tune.ray_stations import RayStation
from ratchet.tune.records import Evaluation, Task, TaskResult


class FakeStation:
    """Does what the test tells it to do."""

    def __init__(self, name: str, room: int = 2) -> None:
        self.name, self.most = name, room
        self.tasks: list[Task] = []
        self.closed = 0
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

    def withdraw(self) -> None: ...

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
    executor = Executor([one, two])
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
    executor = Executor([one, two])
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
    executor = Executor([one])
    executor.submit(task(7))
    one.lose()
    assert [(done.task.number, done.lost) for done in executor.results(1)] == [(7, "gone")]


class Actor:
    """An actor of Ray whose calls stay open until the test answers them."""

    def __init__(self) -> None:
        self.calls: dict[str, Future[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        def remote(argument: str = "") -> Any:
            number = f" {Task.model_validate_json(argument).number}" if name == "carry_out" else ""
            future = self.calls[f"{name}{number}"] = Future()
            return SimpleNamespace(future=lambda: future)

        return SimpleNamespace(remote=remote)

    def finish(self, number: int) -> None:
        self.calls[f"carry_out {number}"].set_result(TaskResult(task=task(number), place="there").model_dump_json())

    def die(self) -> None:
        for call in self.calls.values():
            if not call.done():
                call.set_exception(OSError("Traceback\nthe worker died"))


RAY = SimpleNamespace(exceptions=SimpleNamespace(RayError=OSError), kill=lambda actor: None)


def on_ray(count: int) -> tuple[Executor, list[Actor]]:
    actors = [Actor() for _ in range(count)]
    return Executor([RayStation(RAY, actor, "aim") for actor in actors]), actors


def test_a_station_of_ray_that_starts_late_takes_the_tasks_of_a_lost_one() -> None:
    """Nobody waits for the slowest node, and nothing is told as lost while a station is left; then all of it is."""
    executor, (first, second) = on_ray(2)
    first.calls["begin"].set_result(("first", 2))
    assert (executor.places, executor.room) == (("first",), 2)
    executor.submit(task(0))
    executor.submit(task(1))
    first.die()
    assert executor.results(0) == []
    second.calls["begin"].set_result(("second", 3))
    second.finish(1)
    assert [done.task.number for done in executor.results(0)] == [1]
    assert (executor.places, executor.room) == (("second",), 2)
    second.die()
    assert [(done.task.number, done.lost) for done in executor.results(0)] == [(0, "second was lost: the worker died")]


def test_what_is_withdrawn_from_ray_makes_room() -> None:
    """A withdrawn task that was under way may still be done; lost with its station, nobody does it again."""
    executor, (first, second) = on_ray(2)
    first.calls["begin"].set_result(("first", 3))
    executor.submit(task(0))
    executor.submit(task(1))
    executor.withdraw()
    assert (executor.room, "withdraw" in first.calls, "withdraw" in second.calls) == (3, True, False)
    first.finish(0)
    assert [done.task.number for done in executor.results(0)] == [0]
    assert executor.room == 3
    first.die()
    assert executor.results(0) == []
    assert not any(name.startswith("carry_out") for name in second.calls)
