"""The same work on several machines at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ratchet.core.machine import in_parallel
from ratchet.core.report.progress import Progress

PARTS = [("gpu 0", 1), ("gpu 1", 2), ("gpu 2", 3)]


class Told(Progress):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int]] = []
        self.steps: list[int] = []
        self.stages: list[str] = []

    def start(self, total_cases: int, pairs: int) -> None:
        self.started.append((total_cases, pairs))

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def case(self, name: str, pair: int, done: int) -> None:
        self.steps.append(done)


def test_results_come_in_the_order_of_the_parts() -> None:
    """Whichever machine is done first, and although all work at the same time."""
    together = threading.Barrier(len(PARTS))

    def work(machine: str, part: int, progress: Progress) -> str:
        together.wait(300)
        return f"{machine}: {part}"

    assert in_parallel(work, PARTS, Told()) == ["gpu 0: 1", "gpu 1: 2", "gpu 2: 3"]


def test_progress_is_told_as_of_one_run() -> None:
    """Cases and steps of all machines add up; a stage that all go through is told once."""

    def work(machine: str, part: int, progress: Progress) -> None:
        progress.stage("Importing benchmarks")
        progress.start(part, 20)
        progress.case("a/b", 0, part)
        progress.finish()

    told = Told()
    in_parallel(work, PARTS, told)
    assert told.stages == ["Importing benchmarks"]
    assert told.started[-1] == (6, 20)
    assert told.steps[-1] == 6


def test_a_single_part_runs_where_it_was_asked_for() -> None:
    """On one machine there is no thread, and progress is the caller's own."""
    told = Told()
    where = in_parallel(lambda machine, part, progress: (threading.current_thread(), progress), PARTS[:1], told)
    assert where == [(threading.main_thread(), told)] or where[0][0] is threading.current_thread()


@pytest.mark.parametrize("goes_on", [lambda progress: progress.case("a/b", 0, 0), lambda progress: progress.waiting()])
@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_the_first_error_ends_the_others(error: BaseException, goes_on: Callable[[Progress], None]) -> None:
    """The machines that are still at work or wait for it stop at their next turn; the error is what the caller gets."""
    failed = threading.Event()

    def work(machine: str, part: int, progress: Progress) -> None:
        if part == 1:
            failed.set()
            raise error
        failed.wait(300)
        while True:
            goes_on(progress)

    with pytest.raises(type(error)):
        in_parallel(work, PARTS, Told())
