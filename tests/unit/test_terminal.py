"""The report on a terminal and in a log."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.report.terminal import plain_lines, print_report
from tests import reports


def printed(report: ReportRecord, width: int, *, colours: bool = False) -> str:
    """What the terminal gets."""
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=width, force_terminal=colours, color_system="standard" if colours else None))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["green", "red", "slower", "run", "hostile", "cached"])
def test_print_report(name: str, width: int, golden: Callable[[str, str], None]) -> None:
    """The table is what it was when somebody last looked at it."""
    text = printed(getattr(reports, f"{name}_report")(), width)
    golden(f"terminal_{name}_{width}.txt", "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


@pytest.mark.parametrize("width", [36, 52, 80, 120, 156])
def test_names_and_outcomes_stay_whole(width: int) -> None:
    """However narrow, every case is on one line with its whole name and outcome, and no line is wider than the terminal."""
    lines = printed(reports.red_report(), width).splitlines()
    table = lines[: lines.index("")]
    assert len(table) == 2 + 13
    for case in reports.red_report().cases:
        assert any(line.startswith(f"{case.name} ") and line.rstrip().endswith(case.outcome.lower()) for line in table)
    assert all(cell_len(line) <= width for line in lines)


def test_faster_within_the_gate_is_no_slowdown() -> None:
    """A case that is UNCHANGED with its whole interval below zero keeps the name of its outcome, and is not called unchanged."""
    lines = [line for line in plain_lines(reports.cached_report()) if "norm/rows_2k" in line]
    assert [(line.split()[0], line.endswith("no slowdown")) for line in lines] == [("UNCHANGED", True)]
    row = next(line for line in printed(reports.cached_report(), 80).splitlines() if line.startswith("norm/rows_2k"))
    assert row.rstrip().endswith("no slowdown")


def test_a_long_name_keeps_both_ends() -> None:
    """A name wider than the terminal shows its beginning and its end."""
    report = reports.report((reports.case(f"benchmark_{'x' * 80}/config_512", Outcome.UNCHANGED, "Same.", 1.0),))
    row = printed(report, 60).splitlines()[2]
    assert row.startswith("benchmark_")
    assert "…" in row
    assert "/config_512" in row


def test_markup_of_others_is_text() -> None:
    """Square brackets in a name are shown, not obeyed, and no foreign escape sequence reaches the terminal."""
    text = printed(reports.hostile_report(), 120, colours=True)
    assert "[/red]bold/c" in text
    assert "\x1b[31m</td>" not in text
    assert "\u202e" not in text


def test_plain_lines(golden: Callable[[str, str], None]) -> None:
    """A log gets one line a case and the headline last, without colours."""
    golden("plain_red.txt", "".join(f"{line}\n" for line in plain_lines(reports.red_report())))


def test_plain_lines_of_what_is_not_proven(golden: Callable[[str, str], None]) -> None:
    """Each slowdown without proof says by how much and what is missing; the headline begins with them."""
    golden("plain_slower.txt", "".join(f"{line}\n" for line in plain_lines(reports.slower_report())))


def test_plain_lines_of_a_run() -> None:
    """A run without a reference says what it measured and claims no outcome."""
    assert plain_lines(reports.run_report())[:2] == [
        "MEASURED  attention/training_512  61.20 µs",
        "MEASURED  copy/32m                64.30 µs",
    ]


def test_plain_lines_command_no_runner() -> None:
    """No line of a hostile report is a command to the runner, and each is one line."""
    report = reports.hostile_report().model_copy(update={"headline": "::error::x\n::warning::y"})
    for line in plain_lines(report):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "\x1b" not in line
        assert len(line.splitlines()) == 1


def test_rich_loads_only_to_print() -> None:
    """Importing the report modules loads neither rich nor jinja2's users' time: start-up stays short."""
    code = "import sys, ratchet.core.report.terminal, ratchet.core.report.progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
