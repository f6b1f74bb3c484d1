"""Progress of a run: a bar on a terminal, lines in a log, or nothing.

They write to stderr only, between blocks and never inside timing. While a run goes on, a thread says what is at work wherever
nobody has said anything for five seconds; it sleeps until then, so that it costs what is timed no more than a line.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

from ratchet.core import units, untrusted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

_REDRAW_S = 0.2
_LINE_S = 1.0
"""Least time between two drawings of the bar, and between two lines for pairs."""
LONGEST_SILENCE_S = 5.0
"""After so long without a word, what is at work is said."""


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

    def during(self, work: Callable[[], str]) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody is told
        """While this lasts, let ``work`` say what is at work where nobody has said anything for a while; "": nothing is.

        It is asked in another thread. Of several, the one that began last counts.
        """
        return contextlib.nullcontext()

    def waiting(self) -> None:
        """Note that something is waited for, each second. Raises what ends the wait, where another part of the run failed."""

    def never_silent(self) -> AbstractContextManager[None]:
        """While this lasts, say what is at work wherever nobody has said anything for `LONGEST_SILENCE_S`."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Note that the run ended, well or not. May be called twice, and without `start`."""

    def interrupted(self) -> None:
        """Leave what was at work to be read, where `finish` would take it away."""


class _ToldProgress(Progress):
    """Tells somebody, and never falls silent while a run goes on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said = self._stage_began = clock()
        self._stage = ""
        self._work: list[Callable[[], str]] = []
        self._telling = threading.RLock()

    def stage(self, text: str) -> None:
        with self._telling:
            self._stage, self._stage_began = text, self._clock()
            self._tell(text)

    @contextlib.contextmanager
    def during(self, work: Callable[[], str]) -> Iterator[None]:
        with self._telling:
            self._work.append(work)
        try:
            yield
        finally:
            with self._telling:
                self._work.remove(work)

    @contextlib.contextmanager
    def never_silent(self) -> Iterator[None]:
        ended = threading.Event()

        def listen() -> None:
            while not ended.wait(max(0.01, self._said + LONGEST_SILENCE_S - self._clock())):
                with contextlib.suppress(OSError, ValueError):  # nobody reads any more: this thread must not say so
                    self.break_silence()

        thread = threading.Thread(target=listen, name="ratchet-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def break_silence(self) -> None:
        """Say what is at work, if nobody has said anything for `LONGEST_SILENCE_S` and any stage has begun."""
        with self._telling:
            if self._clock() - self._said < LONGEST_SILENCE_S:
                return
            self._said = self._clock()
            if self._stage:
                so_far = f"{units.wall(self._clock() - self._stage_began)} so far: {self._stage}"
                self._tell_again(next((text for work in reversed(self._work) if (text := work())), so_far))

    def _tell(self, text: str) -> None:
        """Show a text in the place of a stage."""

    def _tell_again(self, text: str) -> None:
        """Show what is at work, after a silence."""
        self._tell(text)


class LineProgress(_ToldProgress):
    """A line for each stage, and one for each finished pair unless the last line is younger than a second."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream or sys.stderr
        self._began = clock()
        self._pairs = self._pair = self._done = 0
        self._is_open = False
        """A pair is under way of which nothing was written."""

    def begin(self, text: str) -> None:
        self.announce(text)
        self._began = self._clock()

    def start(self, total_cases: int, pairs: int) -> None:
        with self._telling:
            self._end_pair()
            self._pairs, self._pair, self._done = pairs, 0, 0
            self.stage(f"Measuring {units.plural(total_cases, 'case')} in up to {pairs} pairs of processes")

    def announce(self, text: str) -> None:
        with self._telling:
            self._end_pair()
            self._write(untrusted.log_line(text))

    _tell = announce

    def case(self, name: str, pair: int, done: int) -> None:  # noqa: ARG002 - a log names no single case
        with self._telling:
            if self._is_open and pair > self._pair and self._clock() - self._said >= _LINE_S:
                self._end_pair()
            self._pair, self._done, self._is_open = max(pair, self._pair), max(done, self._done), True

    def finish(self) -> None:
        with self._telling:
            self._end_pair()
            self._stage = ""

    def _tell_again(self, text: str) -> None:
        if self._is_open:
            self._end_pair()
        else:
            self._tell(text)

    def _end_pair(self) -> None:
        if self._is_open:
            elapsed = units.wall(self._clock() - self._began)
            done = units.plural(self._done, "measurement")
            self._write(f"pair {self._pair + 1} of at most {self._pairs}: {done} after {elapsed}")
            self._is_open = False

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._said = self._clock()


class LiveProgress(_ToldProgress):
    """A bar that is redrawn at most five times a second and leaves nothing behind."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(clock)
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

    def begin(self, text: str) -> None:
        with self._telling:
            self.announce(text)
            self._share = 0.0
            self._bar.reset(self._task, total=None)

    def start(self, total_cases: int, pairs: int) -> None:
        with self._telling:
            self._pairs = pairs
            self._bar.update(self._task, total=1.0)
            self.stage(f"Measuring {units.plural(total_cases, 'case')}")

    def announce(self, text: str) -> None:
        with self._telling:
            self._bar.console.print(untrusted.clean(text), markup=False, highlight=False, soft_wrap=True)

    def case(self, name: str, pair: int, done: int) -> None:  # noqa: ARG002 - the bar shows pairs
        with self._telling:
            self._share = max(self._share, (pair + 1) / max(1, self._pairs, pair + 1))
            if self._clock() - self._drawn < _REDRAW_S:
                return
            description = f"pair {pair + 1} of at most {self._pairs}: {untrusted.clean(name, 40)}"
            self._bar.update(self._task, completed=self._share, description=description)
            self._draw()

    def finish(self) -> None:
        with self._telling:
            if self._bar.live.is_started:
                self._bar.stop()
            self._stage = ""

    def interrupted(self) -> None:
        if description := self._bar.tasks[0].description:
            self.announce(f"At work until now: {description}")

    def _tell(self, text: str) -> None:
        self._bar.update(self._task, description=untrusted.clean(text, 60))
        self._draw()

    def _draw(self) -> None:
        self._bar.start()
        self._bar.refresh()
        self._drawn = self._said = self._clock()


def choose_progress(stream_is_terminal: bool, quiet: bool) -> Progress:
    """Return the progress for this run, which writes to stderr."""
    if quiet:
        return Progress()
    return LiveProgress() if stream_is_terminal else LineProgress()
