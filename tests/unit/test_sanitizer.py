"""compute-sanitizer, by a stand-in that writes its log: what is an error, what is none, and what is no result."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ratchet.core.bench.tree_spec import child_command
from ratchet.core.errors import UnfitError, UsageError
from ratchet.lab.records.evaluation import InputSpec, SourceFile
from ratchet.lab.sanitizer import find_sanitizer, sanitizer_errors

pytestmark = pytest.mark.no_cover

STAND_IN = """\
#!{python} -IS
import json, os, pathlib, subprocess, sys, time
words = sys.argv[1:]
log, target, trouble = words[words.index("--log-file") + 1], json.loads(words[-1]), {trouble!r}
assert words[0:2] == ["--tool", "memcheck"] and "--report-api-errors" in words
text = {log!r}
if text == "hang":
    time.sleep(60)
if text == "run":
    text = "========= ERROR SUMMARY: 0 errors" if subprocess.run(words[words.index("--log-file") + 2:]).returncode == 0 else ""
elif trouble is not None:
    pathlib.Path(target["status"]).write_text(trouble)
if text:
    pathlib.Path(log).write_text("========= COMPUTE-SANITIZER\\n" + text + "\\n")
else:
    print("no device")
"""
WRONG = """\
========= Invalid __global__ write of size 4 bytes
=========     at kernel(float *)+0x70
=========     by thread (0,0,0) in block (1,0,0)
========= ERROR SUMMARY: 1 error"""
RACE = """\
========= Error: Race reported between Write access at kernel(float *)+0x50
=========     and Read access at kernel(float *)+0x90 [64 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The command that calls a file on the CPU."""
    source = SourceFile(path=str(tmp_path / "one.py"), sha256="", text="def kernel(x):\n    return x + 1\n")
    inputs = [InputSpec(shape=(4,)).model_dump_json()]
    task = {"source": source.model_dump(), "function": "kernel", "maker": None, "maker_function": "", "inputs": inputs}
    return child_command("ratchet.lab.child.once", **task, device="cpu", seed=1, status=tmp_path / "status")


def error_of(command: list[str], folder: Path, log: str, trouble: str | None = "", limit_s: float = 60) -> str:
    program = folder / "compute-sanitizer"
    program.write_text(STAND_IN.format(python=sys.executable, log=log, trouble=trouble), encoding="utf-8")
    program.chmod(0o755)
    found = find_sanitizer({"PATH": str(folder)})
    return sanitizer_errors(command, folder / "status", "memcheck", found, folder, dict(os.environ), limit_s)


@pytest.mark.slow
def test_a_file_under_evaluation_is_run(command: list[str], tmp_path: Path) -> None:
    """It is called, and a summary without errors is none."""
    assert error_of(command, tmp_path, "run") == ""
    assert (tmp_path / "status").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("========= ERROR SUMMARY: 0 errors", ""),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", ""),
        ("========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)", ""),
        (WRONG, "Invalid __global__ write of size 4 bytes at kernel(float *)+0x70"),
        (RACE, "Error: Race reported between Write access at kernel(float *)+0x50 and Read access at kernel(float *)+0x90 [64 hazards]"),  # noqa: E501  as it is printed
    ],
)  # fmt: skip
def test_the_summary_decides(log: str, error: str, command: list[str], tmp_path: Path) -> None:
    """The first error is named with its place; warnings are no errors. An error counts even if the call failed because of it."""
    assert error_of(command, tmp_path, log) == error
    if error:
        assert error_of(command, tmp_path, log, "CUDA error: an illegal memory access") == error


@pytest.mark.parametrize(
    ("log", "trouble", "why"),
    [
        ("", None, "gave no result: no device"),
        ("========= ERROR SUMMARY: 0 errors", "out of memory", "gave no result: out of memory"),
        ("========= ERROR SUMMARY: 0 errors", None, "gave no result: the file was not called"),
        ("hang", None, "gave no result: it did not end within 1 s"),
    ],
)
def test_what_came_to_no_end_is_no_result(log: str, trouble: str | None, why: str, command: list[str], tmp_path: Path) -> None:
    """A tool that was asked for and saw nothing never reads as one that found nothing."""
    with pytest.raises(UnfitError, match=why):
        error_of(command, tmp_path, log, trouble, 1 if log == "hang" else 60)


def test_a_missing_tool_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With where to get it."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="compute-sanitizer was not found") as caught:
        find_sanitizer({"PATH": str(tmp_path)})
    assert "CUDA toolkit" in caught.value.hint
