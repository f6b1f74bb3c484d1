"""The scripts behind the figures of docs/trust.md still run. What they print is not tested here: it takes minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CALIBRATION = Path(__file__).parents[1] / "calibration"


@pytest.mark.parametrize(
    ("script", "words", "printed"),
    [
        ("verdicts.py", ("--runs", "1"), "| h200_checks, 11 cases | 20 |"),
        ("symmetry.py", (), "over the cases: "),
        ("intervals.py", ("--runs", "16"), "| bootstrap-t |"),
        ("../../research/adversary.py", ("--scale", "0.002", "--only", "creep"), "Unchanged histories of 1,000 merges"),
        ("judging_speed.py", ("--cases", "2"), "reading and judging: "),
    ],
)
def test_scripts_run(script: str, words: tuple[str, ...], printed: str) -> None:
    """Each prints its tables, however few runs it is given."""
    done = subprocess.run([sys.executable, CALIBRATION / script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert done.stderr == ""
