"""The executor on a Ray cluster, with a stand-in for Ray whose calls answer when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratchet.tune.ray_stations import RayExecutor
from ratchet.tune.records import Task, TaskResult


class Call:
    """A future."""

    answer: Any = None


class Actor:
    """An actor whose calls stay open."""

    def __init__(self) -> None:
        self.begun = Call()
        self.tasks: dict[int, Call] = {}
        self.withdrawn = 0

    def __getattr__(self, name: str) -> Any:
        return type("Method", (), {"remote": staticmethod(getattr(self, f"on_{name}"))})

    def on_begin(self, aim: str) -> Call:
        return self.begun

    def on_carry_out(self, text: str) -> Call:
        return self.tasks.setdefault(Task.model_validate_json(text).number, Call())

    def on_withdraw(self) -> None:
        self.withdrawn += 1

    def start(self, name: str, room: int = 2) -> None:
        self.begun.answer = (name, room)

    def finish(self, number: int) -> None:
        self.tasks[number].answer = TaskResult(task=task(number), place="there").model_dump_json()

    def die(self) -> None:
        for call in (self.begun, *self.tasks.values()):
            call.answer = call.answer or Gone("the worker died")


class Gone(Exception):
    """An error of Ray's."""


class Ray:
    """The part of Ray's interface that the executor uses."""

    exceptions = type("exceptions", (), {"RayError": Gone})

    def wait(self, calls: list[Call], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Call], list[Call]]:
        ready = [call for call in calls if call.answer is not None][:num_returns]
        return ready, [call for call in calls if call not in ready]

    def get(self, call: Call) -> Any:
        if isinstance(call.answer, Gone):
            raise call.answer
        return call.answer

    def kill(self, actor: Actor) -> None: ...


Made = Callable[[int], tuple[RayExecutor, list[Actor]]]


@pytest.fixture
def make() -> Made:
    def made(count: int) -> tuple[RayExecutor, list[Actor]]:
        actors = [Actor() for _ in range(count)]
        return RayExecutor(Ray(), actors, "aim"), actors

    return made


def task(number: int) -> Task:
    return Task(number=number, what="evaluate", case="toy/toy", configurations=({"x": number},))


def test_the_first_station_does_not_wait_for_the_others(make: Made) -> None:
    """Tasks go out as soon as one station has started; one that starts later takes tasks from then on."""
    executor, (first, second) = make(2)
    first.start("first")
    executor.wait_for_first(10)
    assert (executor.places, executor.room) == (("first",), 2)
    for number in range(2):
        executor.submit(task(number))
    second.start("second")
    assert executor.results(0) == []
    assert (executor.places, executor.room) == (("first", "second"), 2)
    executor.submit(task(2))
    assert (sorted(first.tasks), sorted(second.tasks)) == ([0, 1], [2])


def test_the_tasks_of_a_lost_station_go_to_another(make: Made) -> None:
    """Nothing is told as lost while a station is left, be it one that has not started yet."""
    executor, (first, second) = make(2)
    first.start("first")
    executor.wait_for_first(10)
    executor.submit(task(0))
    executor.submit(task(1))
    first.die()
    assert executor.results(0) == []
    assert (sorted(second.tasks), executor.room) == ([0, 1], 0)
    second.start("second", room=3)
    second.finish(1)
    assert [done.task.number for done in executor.results(0)] == [1]
    assert (executor.places, executor.room) == (("second",), 2)


def test_what_is_withdrawn_makes_room(make: Made) -> None:
    """A withdrawn task that was under way may still be done; lost with its station, nobody does it again."""
    executor, (first, second) = make(2)
    first.start("first", room=3)
    executor.wait_for_first(10)
    executor.submit(task(0))
    executor.submit(task(1))
    executor.withdraw()
    assert (executor.room, first.withdrawn, second.withdrawn) == (3, 1, 0)
    first.finish(0)
    assert [done.task.number for done in executor.results(0)] == [0]
    assert executor.room == 3
    second.start("second")
    first.die()
    assert executor.results(0) == []
    assert not second.tasks
