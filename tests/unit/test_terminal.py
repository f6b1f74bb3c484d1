"""The report on a terminal and in a log, beside what `test_recorded_runs.py` holds."""

from __future__ import annotations

import subprocess
import sys

from ratchet.core.records.verdict import Outcome
from ratchet.core.report.terminal import plain_lines
from tests import reports
from tests.recorded_runs import printed, recorded


def test_a_long_name_keeps_both_ends() -> None:
    """A name wider than the terminal shows its beginning and its end."""
    report = reports.report((reports.case(f"benchmark_{'x' * 80}/config_512", Outcome.UNCHANGED, "Same.", 1.0),))
    row = printed(report, 60).splitlines()[2]
    assert row.startswith("benchmark_")
    assert "…" in row
    assert "/config_512" in row


def test_markup_of_others_is_text() -> None:
    """Square brackets in a name are shown, not obeyed, and no foreign escape sequence reaches the terminal."""
    text = printed(recorded("hostile").reports[""], 120, colours=True)
    assert "[/red]bold/c" in text
    assert "\x1b[31m</td>" not in text
    assert "\u202e" not in text


def test_a_headline_commands_no_runner() -> None:
    """A headline that tries to be commands is one harmless line."""
    report = recorded("hostile").reports[""].model_copy(update={"headline": "::error::x\n::warning::y"})
    assert not [line for line in plain_lines(report) if line.lstrip().startswith("::") or len(line.splitlines()) != 1]


def test_rich_loads_only_to_print() -> None:
    """Importing the report modules does not load rich: start-up stays short."""
    code = "import sys, ratchet.core.report.terminal, ratchet.core.report.progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
