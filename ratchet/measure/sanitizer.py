"""Look for accesses out of bounds and races in shared memory: one side of an evaluation under NVIDIA's compute-sanitizer.

`ratchet.measure.evaluation` calls `errors_of`. Each tool has a process of its own, which imports the tree and calls the case (the
program that profilers look at, too). It writes logs to a scratch folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from ratchet.errors import UnfitError, UsageError
from ratchet.measure.build import benchmark_environ
from ratchet.measure.child.profile_target import MARK, ProfileTarget, read_status
from ratchet.subprocesses import run
from ratchet.untrusted import clean, last_lines

TOOLS = ("memcheck", "racecheck")
LIMIT_S = 300.0
"""Longest that one tool may take: kernels run tens of times slower under it."""
# Calls of the runtime that fail belong to torch's own probing. The cache of torch's allocator would hide what lies out of bounds.
_OPTIONS = ("--report-api-errors", "no", "--print-limit", "1", "--target-processes", "all")
_UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_SUMMARY = re.compile(r"=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error)")
_HEAD = "COMPUTE-SANITIZER"


def find_sanitizer(environ: Mapping[str, str]) -> Path:
    """Return compute-sanitizer on the PATH, else that of the CUDA toolkit. Raises UsageError where there is none."""
    for path in (environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        if program := shutil.which("compute-sanitizer", path=path):
            return Path(program).absolute()
    raise UsageError(
        "compute-sanitizer was not found, so --sanitize cannot look for races and wrong accesses.",
        "Install it with the CUDA toolkit or put it on the PATH, or leave --sanitize out.",
    )


def errors_of(
    target: ProfileTarget, tool: str, sanitizer: Path, folder: Path, environ: Mapping[str, str], limit_s: float = LIMIT_S
) -> str:
    """Return the first error that a tool reports of a case, as a clause; empty where there is none.

    Raises UnfitError where the tool or the case comes to no end.
    """
    log, status = folder / f"{tool}.log", folder / f"{tool}.status"
    log.unlink(missing_ok=True)
    command = target.command(limit_s, status=status, turn=folder / f"{tool}.turn")
    ended = run(
        [str(sanitizer), "--tool", tool, *_OPTIONS, "--log-file", str(log), *command],
        environ=benchmark_environ(environ, target.tree) | _UNCACHED,
        folder=folder,
        time_limit_s=limit_s,
    )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    summary = next(filter(None, map(_SUMMARY.match, reversed(lines))), None)
    if summary is not None and int(summary[1] or summary[2]):
        said = [line.lstrip("= ") for line in lines if line.startswith("=") and _HEAD not in line and not _SUMMARY.match(line)]
        return clean(" ".join(said[:2]), 300) or "it reports an error"
    trouble = read_status(status).get(target.cases[0])
    if summary is not None and trouble == "":
        return ""
    last = "".join(last_lines(ended.output, 1)).removeprefix(MARK)
    why = f"it did not end within {limit_s:g} s" if ended.status is None else trouble or last or "the case was not called"
    raise UnfitError(f"compute-sanitizer --tool {tool} gave no result: {clean(why)}.", "Leave --sanitize out.")
