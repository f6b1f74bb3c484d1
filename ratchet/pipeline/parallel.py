"""The same work on several machines at once, one thread each; what they tell meanwhile is told as of one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from ratchet.report.progress import Progress

Machine = TypeVar("Machine")
Part = TypeVar("Part")
Result = TypeVar("Result")


class Stopped(BaseException):
    """Another machine failed, or somebody interrupted the run: nothing of it is worth finishing."""


def in_parallel(
    work: Callable[[Machine, Part, Progress], Result], parts: Sequence[tuple[Machine, Part]], progress: Progress
) -> list[Result]:
    """``work`` for each part, all at once; the results in the order of the parts.

    The first error ends the others at their next turn and is raised. A single part runs right here.
    """
    if len(parts) == 1:
        machine, part = parts[0]
        return [work(machine, part, progress)]
    shared = _Shared(progress, len(parts))
    with ThreadPoolExecutor(len(parts), thread_name_prefix="machine") as pool:
        try:
            futures = [pool.submit(work, machine, part, _Part(shared, number)) for number, (machine, part) in enumerate(parts)]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            shared.stop = not all(future.done() and not future.exception() for future in futures)
    errors = [error for future in futures if (error := future.exception()) and not isinstance(error, Stopped)]
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


class _Shared:
    """What all parts have told, and whether they are to end."""

    def __init__(self, progress: Progress, parts: int) -> None:
        self.progress = progress
        self.stop = False
        self.lock = threading.Lock()
        self.cases = 0
        self.steps = [(0, 0)] * parts

    @contextlib.contextmanager
    def told(self) -> Iterator[Progress]:
        with self.lock:
            if self.stop:
                raise Stopped
            yield self.progress


class _Part:
    """The progress of one part."""

    def __init__(self, shared: _Shared, number: int) -> None:
        self._shared = shared
        self._number = number

    def start(self, total_cases: int, pairs: int) -> None:
        with self._shared.told() as progress:
            self._shared.cases += total_cases
            progress.start(self._shared.cases, pairs)

    def stage(self, text: str) -> None:
        with self._shared.told() as progress:
            if self._number == 0:  # the others do the same at about the same time
                progress.stage(text)

    def case(self, name: str, pair: int, done: int, total: int) -> None:
        with self._shared.told() as progress:
            self._shared.steps[self._number] = (done, total)
            all_done, all_total = (sum(column) for column in zip(*self._shared.steps, strict=True))
            progress.case(name, pair, all_done, all_total)

    def finish(self) -> None:
        """The run goes on until all parts have ended."""
