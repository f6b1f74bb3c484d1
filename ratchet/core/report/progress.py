"""Progress of a run: a bar on a terminal, lines in a log, or nothing.

`ratchet.core.cli.output` chooses one and the commands pass it on. It is called between blocks, never inside timing.
Writes to stderr only. Nothing here starts a thread: it would draw while a kernel is timed, and a fork would copy its locks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from ratchet.core import units, untrusted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

_REDRAW_S = 0.2
_LINE_S = 1.0
"""Least time between two drawings of the bar, and between two lines for pairs."""


class Progress:
    """Receives the progress of a run, and shows nothing, as for ``--json`` and ``--quiet``. Every call is cheap."""

    def begin(self, text: str) -> None:
        """Show a line that stays, and count time and pairs from now on: a check, or the next of several, begins."""

    def start(self, total_cases: int, pairs: int) -> None:
        """Note that measuring begins: this many cases, each in at most this many pairs."""

    def announce(self, text: str) -> None:
        """Show a line that stays, such as what is compared."""

    def stage(self, text: str) -> None:
        """Note that another part of the run begins, such as ``Building the reference``."""

    def case(self, name: str, pair: int, done: int) -> None:
        """Note that ``name`` was measured in ``pair`` (from 0), and that ``done`` measurements were made since `start`.

        Pairs may come in any order, and cases may be decided long before the last pair: what is shown only moves forward.
        """

    def finish(self) -> None:
        """Note that the run ended, well or not. May be called twice, and without `start`."""

    def interrupted(self) -> None:
        """Leave what was at work to be read, where `finish` would take it away."""


class LineProgress(Progress):
    """A line for each stage, and one for each finished pair unless the last line is younger than a second."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = self._last = clock()
        self._pairs = self._pair = self._done = 0
        self._is_open = False
        """A pair is under way of which nothing was written."""

    def begin(self, text: str) -> None:
        self.announce(text)
        self._began = self._clock()

    def start(self, total_cases: int, pairs: int) -> None:
        self.finish()
        self._pairs, self._pair, self._done = pairs, 0, 0
        self._write(f"Measuring {units.plural(total_cases, 'case')} in up to {pairs} pairs of processes")

    def announce(self, text: str) -> None:
        self.finish()
        self._write(untrusted.log_line(text))

    stage = announce

    def case(self, name: str, pair: int, done: int) -> None:  # noqa: ARG002 - a log names no single case
        if self._is_open and pair > self._pair and self._clock() - self._last >= _LINE_S:
            self._write_pair()
        self._pair, self._done, self._is_open = max(pair, self._pair), max(done, self._done), True

    def finish(self) -> None:
        if self._is_open:
            self._write_pair()

    def _write_pair(self) -> None:
        elapsed = units.wall(self._clock() - self._began)
        self._write(f"pair {self._pair + 1} of at most {self._pairs}: {units.plural(self._done, 'measurement')} after {elapsed}")
        self._is_open = False

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._last = self._clock()


class LiveProgress(Progress):
    """A bar that is redrawn at most five times a second and leaves nothing behind."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._clock = clock
        self._drawn = -_REDRAW_S
        self._pairs, self._share = 0, 0.0
        self._bar: Bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None)
        self._running = False

    def begin(self, text: str) -> None:
        self.announce(text)
        self._share = 0.0
        self._bar.reset(self._task, start=self._running, total=None)

    def start(self, total_cases: int, pairs: int) -> None:
        self._pairs = pairs
        self._bar.update(self._task, total=1.0, description=f"Measuring {units.plural(total_cases, 'case')}")
        self._draw(at_once=True)

    def announce(self, text: str) -> None:
        self._bar.console.print(untrusted.clean(text), markup=False, highlight=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        self._bar.update(self._task, description=untrusted.clean(text, 60))
        self._draw(at_once=True)

    def case(self, name: str, pair: int, done: int) -> None:  # noqa: ARG002 - the bar shows pairs
        self._share = max(self._share, (pair + 1) / max(1, self._pairs, pair + 1))
        if self._clock() - self._drawn < _REDRAW_S:
            return
        description = f"pair {pair + 1} of at most {self._pairs}: {untrusted.clean(name, 40)}"
        self._bar.update(self._task, completed=self._share, description=description)
        self._draw()

    def finish(self) -> None:
        if self._running:
            self._bar.stop()
            self._running = False

    def interrupted(self) -> None:
        if description := self._bar.tasks[0].description:
            self.announce(f"At work until now: {description}")

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
        return Progress()
    return LiveProgress() if stream_is_terminal else LineProgress()
