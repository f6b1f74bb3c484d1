"""The scripts behind the figures of docs/trust.md still run. What they print is not tested here: it takes minutes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.playground import ADDS, Playground

RESEARCH = Path(__file__).parents[2] / "research"


def ran(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a script printed that came to its end."""
    done = subprocess.run([sys.executable, RESEARCH / script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def adversary(table: str) -> tuple[str, tuple[str, ...]]:
    """The script and its words for one of its shorter tables."""
    return "adversary.py", ("--scale", "0.001", "--only", table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "words", "printed"),
    [
        ("verdicts.py", ("--runs", "1"), ["| h200_checks, 11 cases | 0.00 % | 0.0 % | 6.", "Mean over the cases: "]),
        ("intervals.py", ("--runs", "16"), ["| bootstrap-t |"]),
        ("history.py", ("--runs", "3", "--cases", "2", "--repeats", "2"), ["| ratio to the anchor |"]),
        ("choices.py", ("--scale", "0.004"), ["| OWN_PAIRS 80 instead of 40 |"]),
        (*adversary("intervals"), ["| normal, 5 %, +10.0 % |", "| AR(1), ρ 0.5, sd 2 %, +3.0 % |"]),
        (*adversary("creep"), ["| +0.5 %, 0.7 % |", "Unchanged histories of 20 merges"]),
        (*adversary("slower"), ["| spread"]),
        (*adversary("total"), ["| unchanged, quiet |", "| every tenth call 50× |", "| one process in ten 2× |"]),
    ],
)
def test_scripts_run(script: str, words: tuple[str, ...], printed: list[str]) -> None:
    """Each prints its tables, however few runs it is given."""
    done = ran(script, *words)
    assert [text for text in printed if text not in done.stdout] == []
    assert done.stderr == ""


@pytest.mark.slow
def test_speed_of_records() -> None:
    """research/record_speed.py judges one record again and compares two."""
    done = ran("record_speed.py", "--cases", "2", "--pairs", "4", "--blocks", "2", "--repeat", "1")
    assert "ratchet compare, 2 cases" in done.stdout
    assert "ratchet compare, 1 cases" in done.stdout
    assert done.stdout.count("exit 0") == 2


@pytest.mark.slow
def test_speed_of_publishing() -> None:
    """research/publish_speed.py publishes one run."""
    done = ran("publish_speed.py", "--cases", "2")
    assert "exit 0 after " in done.stdout
    assert "2 of 2 cases slower" in done.stdout


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other check of this machine holds these up."""
    monkeypatch.setenv("RATCHET_LOCK_DIR", str(tmp_path))


@pytest.mark.slow
def test_start_in_a_repository() -> None:
    """research/large_repository.py makes a repository and times the start of a check in it, clean and dirty."""
    done = ran("large_repository.py", "--commits", "20", "--files", "1000", "--repeat", "1")
    assert done.stdout.count("the hosts are started here") == 2


@pytest.mark.slow
def test_where_the_seconds_of_a_check_go(play: Playground) -> None:
    """research/timeline.py runs the command and prints how long each activity took."""
    play.commit({"bench/adds.py": ADDS})
    command = [
        sys.executable,
        RESEARCH / "timeline.py",
        "check",
        "--base",
        "HEAD",
        "--time-identical",
        "--pairs",
        "3",
        "--device",
        "cpu",
    ]
    done = subprocess.run(command, cwd=play.repo, env=play.environ(), capture_output=True, text=True, check=False)
    assert re.search(r"^\d+\.\d s, exit [0-3]$", done.stdout, re.MULTILINE), done
    rows = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \| \d+ \|", done.stdout, re.MULTILINE))
    assert rows.keys() >= {"import", "context", "prepare", "block"}, done.stdout
