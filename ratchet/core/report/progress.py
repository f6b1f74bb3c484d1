"""Progress of a run: a bar on a terminal, lines in a log, or nothing.

`ratchet.core.cli.output` chooses one and the commands pass it on. It is called between blocks, never inside timing.
Writes to stderr only. Nothing here starts a thread: it would draw while a kernel is timed, and a fork would copy its locks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from ratchet.core import units, untrusted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

_REDRAW_S = 0.2
_LINE_S = 1.0
"""Least time between two drawings of the bar, and between two lines for pairs."""


class Progress(Protocol):
    """Receives the progress of a run. Every call is cheap and may be made often."""

    def start(self, total_cases: int, pairs: int) -> None:
        """Note that measuring begins: this many cases, each in at most this many pairs."""

    def announce(self, text: str) -> None:
        """Show a line that stays, such as what is compared."""

    def stage(self, text: str) -> None:
        """Note that another part of the run begins, such as ``Building the reference``."""

    def case(self, name: str, pair: int, done: int, total: int) -> None:
        """Note that ``name`` was measured in ``pair`` (from 0): ``done`` of ``total`` steps, one for each case and pair.

        ``total`` may fall when cases are decided early.
        """

    def finish(self) -> None:
        """Note that the run ended, well or not. May be called twice, and without `start`."""


class SilentProgress:
    """A progress that shows nothing, for ``--json`` and ``--quiet``."""

    def start(self, total_cases: int, pairs: int) -> None: ...

    def announce(self, text: str) -> None: ...

    def stage(self, text: str) -> None: ...

    def case(self, name: str, pair: int, done: int, total: int) -> None: ...

    def finish(self) -> None: ...


class LineProgress:
    """A line for each stage, and one for each finished pair unless the last line is younger than a second."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = self._last = clock()
        self._pairs = 0
        self._open: tuple[int, int, int] | None = None  # the pair that is under way, steps done, steps in all

    def start(self, total_cases: int, pairs: int) -> None:
        self._pairs = pairs
        self._began = self._clock()
        self._write(f"Measuring {units.plural(total_cases, 'case')} in up to {pairs} pairs of processes")

    def announce(self, text: str) -> None:
        self._write(untrusted.log_line(text))

    stage = announce

    def case(self, name: str, pair: int, done: int, total: int) -> None:  # noqa: ARG002 - a log names no single case
        if self._open and self._open[0] != pair and self._clock() - self._last >= _LINE_S:
            self._write_pair()
        self._open = (pair, done, total)

    def finish(self) -> None:
        if self._open:
            self._write_pair()
            self._open = None

    def _write_pair(self) -> None:
        pair, done, total = self._open or (0, 0, 0)
        elapsed = units.wall(self._clock() - self._began)
        self._write(f"pair {pair + 1} of {self._pairs}: {done} of {total} measurements after {elapsed}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._last = self._clock()


class LiveProgress:
    """A bar that is redrawn at most five times a second and leaves nothing behind."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._clock = clock
        self._drawn = -_REDRAW_S
        self._pairs = 0
        self._bar: Bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None)
        self._running = False

    def start(self, total_cases: int, pairs: int) -> None:
        self._pairs = pairs
        self._bar.reset(self._task, total=max(1, total_cases * pairs), description="Measuring")
        self._draw(at_once=True)

    def announce(self, text: str) -> None:
        self._bar.console.print(untrusted.clean(text), markup=False, highlight=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        self._bar.update(self._task, description=untrusted.clean(text, 60))
        self._draw(at_once=True)

    def case(self, name: str, pair: int, done: int, total: int) -> None:
        if self._clock() - self._drawn < _REDRAW_S and done < total:
            return
        description = f"pair {pair + 1} of {self._pairs}: {untrusted.clean(name, 40)}"
        self._bar.update(self._task, completed=done, total=max(1, total), description=description)
        self._draw()

    def finish(self) -> None:
        if self._running:
            self._bar.stop()
            self._running = False

    def _draw(self, *, at_once: bool = False) -> None:
        if not self._running:
            self._bar.start()
            self._running = True
        if at_once or self._clock() - self._drawn >= _REDRAW_S:
            self._bar.refresh()
            self._drawn = self._clock()


def choose_progress(stream_is_terminal: bool, quiet: bool) -> Progress:
    """Return the progress for this run, which writes to stderr."""
    if quiet:
        return SilentProgress()
    return LiveProgress() if stream_is_terminal else LineProgress()
