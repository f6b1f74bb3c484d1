"""Tasks spread over stations, some of which are lost."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from ratchet.tune.executor import Executor
from ratchet.tune.ray_stations import RayStation
from ratchet.tune.records import Task, TaskResult


def task(number: int) -> Task:
    return Task(number=number, what="evaluate", case="a/b", configurations=({"X": number},))


class Actor:
    """An actor of Ray whose calls stay open until the test answers them."""

    def __init__(self) -> None:
        self.calls: dict[str, Future[Any]] = {}
        self.kills = 0

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

    def kill(self) -> None:
        self.kills += 1


RAY = SimpleNamespace(exceptions=SimpleNamespace(RayError=OSError), kill=Actor.kill)


def on_ray(count: int) -> tuple[Executor, list[Actor]]:
    actors = [Actor() for _ in range(count)]
    return Executor([RayStation(RAY, actor, "aim") for actor in actors]), actors


def test_tasks_go_where_there_is_room() -> None:
    """Each task goes to the station with the most room, and all that was done comes back once."""
    executor, (one, two) = on_ray(2)
    one.calls["begin"].set_result(("one", 1))
    two.calls["begin"].set_result(("two", 3))
    assert (executor.places, executor.room) == (("one", "two"), 4)
    for number in range(4):
        executor.submit(task(number))
    assert executor.room == 0
    assert [sum(name.startswith("carry_out") for name in actor.calls) for actor in (one, two)] == [1, 3]
    one.finish(2)
    two.finish(3)
    assert [done.task.number for done in executor.results(1)] == [2, 3]
    assert executor.results(0) == []


def test_a_station_of_ray_that_starts_late_takes_the_tasks_of_a_lost_one() -> None:
    """Nobody waits for the slowest node, and nothing is told as lost while a station is left; then all of it is.

    The lost one is closed, and gets no more.
    """
    executor, (first, second) = on_ray(2)
    first.calls["begin"].set_result(("first", 2))
    assert (executor.places, executor.room) == (("first",), 2)
    executor.submit(task(0))
    executor.submit(task(1))
    first.die()
    assert executor.results(0) == []
    assert (first.kills, second.kills) == (1, 0)
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
