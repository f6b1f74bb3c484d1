"""The fixture `ratchet_benchmark`: it times what a test calls where it is asked to, and otherwise only calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.harness.results import read_results

pytestmark = pytest.mark.no_cover
TESTS = """
import sys
import pytest

@pytest.mark.parametrize("n", [-1, 1])
def test_sum(ratchet_benchmark, n):
    assert ratchet_benchmark(abs, n) == 1

def test_twice(ratchet_benchmark):
    assert ratchet_benchmark(abs, -2) == ratchet_benchmark(abs, 2)

def test_light():
    assert "torch" not in sys.modules
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_speed.py").write_text(TESTS, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:ratchet",
        "-p",
        "ratchet.harness.pytest_plugin",
    ]
    environ = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"}
    return subprocess.run([*words, *options], cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_each_test_becomes_a_case(tmp_path: Path) -> None:
    """Its parameters are the config, a second call is numbered, and every round is a sample; nothing imports torch."""
    done = run(tmp_path, "--ratchet-json=out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_results(tmp_path / "out.json")
    names = ["test_sum/-1", "test_sum/1", "test_twice/default", "test_twice/default-2"]
    assert [case.name for case in found.cases] == [f"test_speed.{name}" for name in names]
    assert all(len(case.samples_ms) >= 5 for case in found.cases)


def test_without_the_option_nothing_is_timed(tmp_path: Path) -> None:
    """The call runs once, and no file is written."""
    done = run(tmp_path)
    assert (done.returncode, [each.name for each in tmp_path.glob("*.json")]) == (0, []), done.stdout + done.stderr


def test_tests_beside_each_other_are_not_timed(tmp_path: Path) -> None:
    """Each process of pytest-xdist would write the one file, the last of them without any sample: the error says what to add."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -n 2\n")
    done = run(tmp_path, "--ratchet-json=out.json")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "add -n 0 to the command" in done.stderr
    assert run(tmp_path, "--ratchet-json=out.json", "-n", "0").returncode == 0
    assert run(tmp_path).returncode == 0
