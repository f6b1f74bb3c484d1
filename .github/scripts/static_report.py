"""Read the report of `ratchet check --static` for the steps of an action: packages to install, or the outputs.

A process that imported the checkout may have written it: only names that fit a pattern are printed, and without a report that can
be read the GPU has everything to do. It runs in ratchet's venv.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

NAME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
PACKAGES = re.compile(r"torch==\d[\w.]* triton==\d[\w.]*", re.ASCII)
LARGEST = 64 * 2**20
"""Bytes."""
LONGEST = 100_000
"""Characters of all names: no program starts with a variable of 128 KiB."""


def report_in(results: Path) -> Any:
    """Return the report; None where there is none that can be read."""
    path = results / "static_report.json"
    try:
        return json.loads(path.read_bytes()) if path.is_file() and path.stat().st_size <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def install(report: Any) -> str:
    """Return the packages without which kernels could not be compiled; nothing where all could be, or that is not said."""
    try:
        words = " ".join(report["install"])
    except (KeyError, TypeError):
        return ""
    return words if PACKAGES.fullmatch(words) else ""


def outputs(report: Any) -> str:
    """Return the lines of the outputs: whether the GPU is needed, and for which cases; for none by name means for all."""
    try:
        cases = {case["name"]: case["identical"] is True for case in report["cases"]}
        needed = [name for name, same in cases.items() if not same]
    except (KeyError, TypeError):
        cases, needed = {}, []
    if not cases or not all(map(NAME.fullmatch, needed)):
        return "gpu=true\nneeded=\n"
    # Where no case is proved, perhaps none of them is recorded either: the GPU job then looks for cases itself.
    names = " ".join(needed) if len(needed) < len(cases) else ""
    return f"gpu={'true' if needed else 'false'}\nneeded={names if len(names) <= LONGEST else ''}\n"


if __name__ == "__main__":
    sys.stdout.write({"install": install, "outputs": outputs}[sys.argv[1]](report_in(Path(sys.argv[2]))))
