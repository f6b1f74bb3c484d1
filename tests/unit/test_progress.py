"""How far a run has come."""

from __future__ import annotations

import io
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ratchet.core.cli.output import progressing
from ratchet.core.report.progress import LineProgress, LiveProgress, Progress


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measure(progress: Progress, clock: Clock, pairs: int, cases: int, step_s: float) -> None:
    """A run of ``pairs`` × ``cases`` steps of ``step_s`` each."""
    progress.start(cases, pairs)
    for pair in range(pairs):
        for case in range(cases):
            clock.now += step_s
            progress.case(f"bench/{case}", pair, pair * cases + case + 1)
    progress.finish()


def test_lines_tell_stages_and_pairs() -> None:
    """A log gets a line for each stage and for each finished pair."""
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock)
    progress.stage("Building the reference")
    measure(progress, clock, pairs=2, cases=3, step_s=2.0)
    assert stream.getvalue().splitlines() == [
        "Building the reference",
        "Measuring 3 cases in up to 2 pairs of processes",
        "pair 1 of at most 2: 3 measurements after 8.0 s",
        "pair 2 of at most 2: 6 measurements after 12 s",
    ]


def test_lines_of_a_second_check_count_from_its_own_beginning() -> None:
    """A walk through commits begins each anew, and a pair is told before what comes after it."""
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock)
    for number in (1, 2):
        progress.begin(f"commit {number}")
        progress.start(1, 4)
        clock.now += 3.0
        progress.case("bench/0", 0, 1)
        progress.stage("Profiling 1 case")
    lines = [
        "Measuring 1 case in up to 4 pairs of processes",
        "pair 1 of at most 4: 1 measurement after 3.0 s",
        "Profiling 1 case",
    ]
    assert stream.getvalue().splitlines() == ["commit 1", *lines, "commit 2", *lines]


def test_a_bar_of_a_second_check_begins_anew() -> None:
    """After a check that went to its last pair, the bar of the next one shows how far that is."""
    stream, clock = io.StringIO(), Clock()
    progress = LiveProgress(Console(file=stream, color_system=None, force_terminal=True, width=100), clock)
    lengths = []
    for text, pairs in (("commit 1", 2), ("commit 2", 12)):
        progress.begin(text)
        progress.start(1, pairs)
        stream.truncate(0)
        clock.now += 1.0
        progress.case("bench/0", 1, 2)
        lengths.append(stream.getvalue().count("━"))
    progress.finish()
    assert lengths[0] > 4 * lengths[1] > 0, lengths
    assert re.search(r"\d:\d\d:\d\d", stream.getvalue()), "the time since it began"


def test_lines_come_at_most_once_a_second() -> None:
    """A thousand quick pairs of a ten-second run give about ten lines."""
    stream, clock = io.StringIO(), Clock()
    measure(LineProgress(stream, clock), clock, pairs=1000, cases=1, step_s=0.01)
    assert 8 <= len(stream.getvalue().splitlines()) <= 12


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("start"), st.integers(1, 3), st.integers(1, 40)),
            st.tuples(st.just("case"), st.integers(0, 39), st.integers(0, 120)),
        ),
        max_size=60,
    )
)
def test_progress_only_moves_forward(calls: list[tuple[str, int, int]]) -> None:
    """In whatever order pairs come, no line shows an earlier pair, count or time than the one above it; nor does the bar."""
    stream, clock = io.StringIO(), Clock()
    lines = LineProgress(stream, clock)
    bar, _ = live(clock)
    shares = [0.0]
    for kind, one, other in calls:
        clock.now += 1.5
        for progress in (lines, bar):
            if kind == "start":
                progress.start(one, other)
            else:
                progress.case("a/b", one, other)
        shares.append(bar._bar.tasks[0].completed)
    lines.finish()
    bar.finish()
    assert shares == sorted(shares)
    for part in stream.getvalue().split("Measuring")[1:]:
        found = re.findall(r"pair (\d+) of at most \d+: (\d+) measurement", part)
        for column in ([int(pair) for pair, _ in found], [int(done) for _, done in found]):
            assert column == sorted(column)
    seconds = [float(text) for text in re.findall(r"after ([0-9.]+) s", stream.getvalue())]
    assert seconds == sorted(seconds)


def test_a_stage_commands_no_runner() -> None:
    """The text of a stage is one harmless line."""
    stream = io.StringIO()
    LineProgress(stream, Clock()).stage("::error::x\n\x1b[31m##[group]")
    assert stream.getvalue() == "' ::error::x ## [group]\n"


def live(clock: Clock) -> tuple[LiveProgress, io.StringIO]:
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=100, _environ={"TERM": "xterm"})  # whatever these tests run in
    return LiveProgress(terminal, clock), stream


def test_the_bar_is_redrawn_rarely() -> None:
    """A thousand steps in one second redraw the bar a handful of times."""
    clock = Clock()
    progress, stream = live(clock)
    measure(progress, clock, pairs=10, cases=100, step_s=0.001)
    assert 3 <= stream.getvalue().count("pair ") <= 9


def test_after_five_seconds_of_silence_a_log_says_what_is_at_work() -> None:
    """The last that began says it; where it has nothing to say, an earlier one; without any, the stage and its seconds."""
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock)

    def after(seconds: float) -> list[str]:
        stream.seek(stream.truncate(0))
        clock.now += seconds
        progress.break_silence()
        return stream.getvalue().splitlines()

    assert after(60) == [], "nothing has begun"
    progress.stage("Profiling 2 cases")
    assert after(4.9) == []
    assert after(0.2) == ["5.1 s so far: Profiling 2 cases"]
    assert after(4.9) == []
    with progress.during(lambda: "8.0 s at a/b (head)"):
        assert after(5) == ["8.0 s at a/b (head)"]
        with progress.during(lambda: ""):
            assert after(5) == ["8.0 s at a/b (head)"]
    assert after(5) == ["25 s so far: Profiling 2 cases"]
    progress.start(1, 4)
    progress.case("a/b", 1, 3)
    assert after(5) == ["pair 2 of at most 4: 3 measurements after 1 min 30 s"]
    assert after(5) == ["10 s so far: Measuring 1 case in up to 4 pairs of processes"]
    progress.finish()
    assert after(60) == [], "it is over"


def test_after_five_seconds_of_silence_the_bar_says_what_is_at_work() -> None:
    """With the seconds first, since a terminal cuts long lines."""
    clock = Clock()
    progress, stream = live(clock)
    progress.stage("Profiling 2 cases")
    clock.now += 39
    progress.break_silence()
    progress.finish()
    assert "39 s so far: Profiling 2 cases" in stream.getvalue()


@pytest.mark.parametrize("is_closed", [False, True])
def test_silence_is_broken_by_a_thread_that_ends(is_closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command waits for, and whether or not anybody still reads; afterwards nothing is left of it."""
    monkeypatch.setattr("ratchet.core.report.progress.LONGEST_SILENCE_S", 0.01)
    stream = io.StringIO()
    progress = LineProgress(stream)
    asked = threading.Event()

    def work() -> str:
        asked.set()
        return "at work"

    with progress.never_silent(), progress.during(work):
        progress.stage("Building")
        if is_closed:
            stream.close()
        assert asked.wait(300)
        asked.clear()
        assert asked.wait(300)
    assert "ratchet-progress" not in {thread.name for thread in threading.enumerate()}
    assert is_closed or "at work" in stream.getvalue().splitlines()


def test_the_bar_shows_names_as_text() -> None:
    """A name with markup or escape sequences is shown, not obeyed."""
    clock = Clock()
    progress, stream = live(clock)
    progress.start(1, 1)
    clock.now += 1
    progress.case("[red]x\x1b[2Jy", 0, 1)
    progress.finish()
    assert "[red]xy" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_what_was_at_work_stays_after_an_interruption() -> None:
    """The bar leaves nothing behind, but a command that was interrupted says what it was at, if it had begun anything."""
    progress, stream = live(Clock())
    progress.interrupted()
    assert stream.getvalue() == ""
    progress.stage("1 of 4 ready; 15 s at a/b (head)")
    progress.interrupted()
    progress.finish()
    assert "At work until now: 1 of 4 ready; 15 s at a/b (head)\n" in stream.getvalue()


def test_the_cursor_comes_back() -> None:
    """After the end the cursor is visible again, also when finished twice or never started."""
    clock = Clock()
    progress, stream = live(clock)
    progress.finish()
    progress.stage("Building")
    progress.finish()
    progress.finish()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("terminal", "options", "shown"),
    [
        (True, {}, LiveProgress),
        (False, {}, LineProgress),
        (True, {"verbose": True}, LineProgress),
        (True, {"as_json": True}, Progress),
        (True, {"as_json": True, "verbose": True}, LineProgress),
        (True, {"quiet": True}, Progress),
        (False, {"quiet": True}, Progress),
    ],
)
def test_how_much_is_shown(terminal: bool, options: dict[str, bool], shown: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets a bar, a log lines; with -v lines that stay, with -q nothing; stdout is JSON's alone in any case."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with progressing({"quiet": False, "verbose": False, "as_json": False, **options}) as progress:
        assert type(progress) is shown
