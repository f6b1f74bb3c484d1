"""Run a candidate under NVIDIA's compute-sanitizer: does it read or write out of bounds, or race in shared memory?

`lab.evaluate` calls it with ``--sanitize``, before anything is timed. Each tool runs `child.once`, with its log in a scratch
folder. The program is not confined: these are the results of a tool that looks for mistakes, not for cheats.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.core.errors import UnfitError, UsageError
from ratchet.core.processes import run
from ratchet.core.untrusted import clean, last_lines

TOOLS = ("memcheck", "racecheck")
LIMIT_S = 300.0
"""Longest that one of these tools may take: kernels run tens of times slower under it."""
# Calls of the runtime that fail belong to torch's own probing. The cache of torch's allocator would hide what lies out of bounds.
_OPTIONS = ("--report-api-errors", "no", "--print-limit", "1", "--target-processes", "all")
_UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_SUMMARY = re.compile(r"=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error)")
_BANNER = "COMPUTE-SANITIZER"


def find_sanitizer(environ: Mapping[str, str]) -> Path:
    """Return compute-sanitizer on the PATH, else that of the CUDA toolkit. Raises UsageError where there is none."""
    for path in (environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        if program := shutil.which("compute-sanitizer", path=path):
            return Path(program).absolute()
    raise UsageError(
        "compute-sanitizer was not found, so --sanitize cannot look for races and wrong accesses.",
        "Install it with the CUDA toolkit or put it on the PATH, or leave --sanitize out.",
    )


def sanitizer_errors(
    command: Sequence[str],
    status: Path,
    tool: str,
    sanitizer: Path,
    folder: Path,
    environ: Mapping[str, str],
    limit_s: float = LIMIT_S,
) -> str:
    """Return the first error that a tool reports of a command, as a clause; empty where there is none.

    The command writes to ``status`` why it failed, or nothing. Raises UnfitError where tool or command come to no end.
    """
    log = folder / f"{tool}.log"
    log.unlink(missing_ok=True)
    status.unlink(missing_ok=True)
    ended = run(
        [str(sanitizer), "--tool", tool, *_OPTIONS, "--log-file", str(log), *command],
        environ=dict(environ) | _UNCACHED,
        folder=folder,
        time_limit_s=limit_s,
    )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    summary = next(filter(None, map(_SUMMARY.match, reversed(lines))), None)
    if summary is not None and int(summary[1] or summary[2]):
        said = [line.lstrip("= ") for line in lines if line.startswith("=") and _BANNER not in line and not _SUMMARY.match(line)]
        return clean(" ".join(said[:2]), 300) or "it reports an error"
    trouble = status.read_text(encoding="utf-8", errors="replace") if status.is_file() else None
    if summary is not None and trouble == "":
        return ""
    last = "".join(last_lines(ended.output, 1))
    why = f"it did not end within {limit_s:g} s" if ended.status is None else trouble or last or "the file was not called"
    raise UnfitError(f"compute-sanitizer --tool {tool} gave no result: {clean(why)}.", "Leave --sanitize out.")
