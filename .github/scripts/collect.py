"""Copy the results into one folder for the artifact, and count the outcomes for the outputs of the action.

A process that ran the measured code wrote the results: only regular files inside the results folder are copied, links are not
followed, and only numbers and words from this file reach an output. Standard library only.
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
"""Bytes of one file."""


def collect(results: Path, folder: Path) -> list[str]:
    """Copy the run with its profiles or decisions, or the records of a search, into ``folder``; return their names."""
    names = []
    for path, name in _files(results):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target, follow_symlinks=False)
        names.append(name)
    return names


def _files(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of the artifact, and its name there."""
    if os.environ["COMMAND"] == "static":
        path = results / "static_report.json"
        yield from [(path, path.name)] if _plain(path) else []
        return
    records = {"current.json": results / "current.json", "tuned.json": _bench() / "tuned.json"}
    if os.environ.get("STATIC") == "true":
        records["static.json"] = results / "static.json"
    for name, path in records.items():
        if _plain(path):
            yield path, name
    top = {"soak": results / "soak", "tune": Path("tuning")}.get(os.environ["COMMAND"], results / "nsight")
    since = 0.0
    if os.environ["COMMAND"] == "tune":  # what the checkout brought is older than the environment in which the search ran
        since = Path(os.environ["RUNNER_TEMP"], "ratchet", "before.json").stat().st_mtime
    for parent, folders, files in os.walk(top, followlinks=False):
        folders.sort()
        for path in sorted(Path(parent, name) for name in files):
            if _plain(path) and path.lstat().st_mtime >= since:
                yield path, path.relative_to(top.parent).as_posix()


def _bench() -> Path:
    """The folder of benchmarks, as in [tool.ratchet]."""
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
    """Count the cases that regressed or failed, and those that improved; zeros if no report can be read."""
    try:
        cases = json.loads(report.read_bytes())["cases"] if _plain(report) else []
        outcomes = [case["outcome"] for case in cases]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0, 0
    return sum(outcome in ("REGRESSED", "FAILED") for outcome in outcomes), outcomes.count("IMPROVED")


def main() -> int:
    results, status = Path(os.environ.get("RATCHET_RESULTS") or "results"), os.environ["STATUS"]
    if os.environ["COMMAND"] == "bisect":  # the check of the commit that was found, of the one search of this checkout
        results = next(iter(sorted((results / "bisect").glob("*/current.json"))), results / "bisect" / "none").parent
    sys.stdout.writelines(f"{name!a}\n" for name in collect(results, Path(os.environ["FOLDER"])))
    checked = os.environ["COMMAND"] == "check"
    regressions, improvements = counts(results / "report.json") if checked and status in VERDICTS else (0, 0)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"verdict={VERDICTS.get(status, 'unmeasured')}\n")
        file.write(f"regressions={regressions}\nimprovements={improvements}\n")
        file.write(f"report-path={(results / 'ratchet_report.md').absolute()}\n")  # a link's target may hold line breaks
    return 0


if __name__ == "__main__":
    sys.exit(main())
