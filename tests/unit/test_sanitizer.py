"""compute-sanitizer, by a stand-in that writes its log: what is an error, what is none, and what is no result."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ratchet.core.bench.child.profile_target import ProfileTarget
from ratchet.core.bench.tree_spec import Timeouts, TreeSpec
from ratchet.core.errors import UnfitError, UsageError
from ratchet.lab.measure.evaluation import CASE, find_sanitizer, sanitizer_errors, write_tree
from ratchet.lab.records.evaluation import EvaluationTask, InputSpec, SourceFile

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
    pathlib.Path(target["status"]).write_text(json.dumps(dict(case="evaluate/default", trouble=trouble)))
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
def target(tmp_path: Path) -> ProfileTarget:
    """A file under evaluation on the CPU."""
    source = SourceFile(path=str(tmp_path / "one.py"), sha256="", text="def kernel(x):\n    return x + 1\n")
    task = EvaluationTask(source=source, function="kernel", inputs=(InputSpec(shape=(4,)),), folder=str(tmp_path))
    path = write_tree(tmp_path / "head", task)
    spec = TreeSpec(path, path, "bench", (), "cpu", 1, None, Timeouts(60, 60))
    return ProfileTarget(spec, (CASE,), 1)


def error_of(target: ProfileTarget, folder: Path, log: str, trouble: str | None = "", limit_s: float = 60) -> str:
    program = folder / "compute-sanitizer"
    program.write_text(STAND_IN.format(python=sys.executable, log=log, trouble=trouble), encoding="utf-8")
    program.chmod(0o755)
    return sanitizer_errors(target, "memcheck", find_sanitizer({"PATH": str(folder)}), folder, dict(os.environ), limit_s)


@pytest.mark.slow
def test_a_file_under_evaluation_is_run(target: ProfileTarget, tmp_path: Path) -> None:
    """The program that profilers look at calls it, and a summary without errors is none."""
    assert error_of(target, tmp_path, "run") == ""
    assert json.loads((tmp_path / "memcheck.status").read_text(encoding="utf-8")) == {"case": CASE, "trouble": ""}


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
def test_the_summary_decides(log: str, error: str, target: ProfileTarget, tmp_path: Path) -> None:
    """The first error is named with its place; warnings are no errors. An error counts even if the call failed because of it."""
    assert error_of(target, tmp_path, log) == error
    if error:
        assert error_of(target, tmp_path, log, "CUDA error: an illegal memory access") == error


@pytest.mark.parametrize(
    ("log", "trouble", "why"),
    [
        ("", None, "gave no result: no device"),
        ("========= ERROR SUMMARY: 0 errors", "out of memory", "gave no result: out of memory"),
        ("========= ERROR SUMMARY: 0 errors", None, "gave no result: the case was not called"),
        ("hang", None, "gave no result: it did not end within 1 s"),
    ],
)
def test_what_came_to_no_end_is_no_result(log: str, trouble: str | None, why: str, target: ProfileTarget, tmp_path: Path) -> None:
    """A tool that was asked for and saw nothing never reads as one that found nothing."""
    with pytest.raises(UnfitError, match=why):
        error_of(target, tmp_path, log, trouble, 1 if log == "hang" else 60)


def test_a_missing_tool_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With where to get it."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="compute-sanitizer was not found") as caught:
        find_sanitizer({"PATH": str(tmp_path)})
    assert "CUDA toolkit" in caught.value.hint
