"""Puts what was measured into one folder for the artifact, and counts its outcomes for the outputs of the action.

The results were written by a process that ran the measured code: only regular files inside the results folder are taken, links
are not followed, and nothing of them reaches an output but a number or a word from here. Standard library only.
"""

import json
import os
import shutil
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

VERDICTS = {"0": "passed", "1": "regressed"}
LARGEST = 256 * 2**20
"""Bytes of one file, and of a report that is read here."""


def collect(results: Path, folder: Path) -> list[str]:
    """Copy the run, its profiles and its tuning records into ``folder``; returns their names."""
    taken = []
    for path, name in _found(results):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target, follow_symlinks=False)
        taken.append(name)
    return taken


def _found(results: Path) -> Iterator[tuple[Path, str]]:
    """What an artifact consists of: its file, and its name in the artifact."""
    for path, name in ((results / "current.json", "current.json"), (_bench() / "tuned.json", "tuned.json")):
        if _plain(path):
            yield path, name
    for top in (results / "nsight", Path("tuning")):
        for parent, folders, files in os.walk(top, followlinks=False):
            folders.sort()
            for path in sorted(Path(parent, name) for name in files):
                if _plain(path):
                    yield path, path.relative_to(top.parent).as_posix()


def _bench() -> Path:
    """The folder of benchmarks, as [tool.ratchet] has it."""
    try:
        return Path(tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["ratchet"]["bench"])
    except (OSError, ValueError, KeyError, TypeError):
        return Path("bench")


def _plain(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST


def counts(report: Path) -> tuple[int, int]:
    """Cases that regressed or failed, and cases that improved; zeros where no report can be read."""
    try:
        cases = json.loads(report.read_bytes())["cases"] if _plain(report) else []
        outcomes = [case["outcome"] for case in cases]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0, 0
    return sum(outcome in ("REGRESSED", "FAILED") for outcome in outcomes), outcomes.count("IMPROVED")


def main() -> int:
    results, status = Path(os.environ.get("RATCHET_RESULTS") or "results"), os.environ["STATUS"]
    sys.stdout.writelines(f"{name!a}\n" for name in collect(results, Path(os.environ["FOLDER"])))
    checked = os.environ["COMMAND"] == "check"
    regressions, improvements = counts(results / "report.json") if checked and status in VERDICTS else (0, 0)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"verdict={VERDICTS.get(status, 'unmeasured')}\n")
        file.write(f"regressions={regressions}\nimprovements={improvements}\n")
        file.write(f"report-path={(results / 'ratchet_report.md').resolve()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
