"""Times checks of a package that nobody here wrote: ``python research/foreign.py FOLDER --tags 0.6.3 0.6.4 --operator FILE``.

FOLDER is a git repository with a bench folder, in which each release of the package is a commit with a tag; FILE, such as
``src/liger_kernel/ops/layer_norm.py``, changed between the two. The second tag is checked out, and checked as a user would: with
nothing changed, with a comment or an operator changed in the working tree, with everything timed, with one case. Each check is
run once to fill the caches of compilers, and then timed. The table holds seconds beyond t, the package's own import in a fresh
process. The working tree is restored.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

GIT = ("git", "-c", "user.name=foreign", "-c", "user.email=foreign@example.org")


@dataclass(frozen=True)
class CheckRun:
    """One check, as its report has it."""

    seconds: float
    code: int
    outcomes: dict[str, str]
    changes: dict[str, float]
    """Head over reference, less one, of each case that was timed."""
    timed_because: dict[str, str]
    causes: tuple[str, ...]
    """The first finding of each profile."""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, "-C", str(folder), *arguments], check=True, capture_output=True, text=True).stdout


def check(folder: Path, *options: str, log: Path) -> CheckRun:
    shutil.rmtree(folder / "results", ignore_errors=True)
    command = [sys.executable, "-m", "ratchet", "check", "--device", "cuda", "--repo", str(folder), *options]
    started = time.monotonic()
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
    seconds = time.monotonic() - started
    report = json.loads((folder / "results" / "report.json").read_text())
    run = json.loads((folder / "results" / "current.json").read_text())
    return CheckRun(
        seconds,
        code,
        {case["name"]: case["outcome"] for case in report["cases"]},
        {case["name"]: case["comparison"]["ratio"] - 1 for case in report["cases"] if case.get("comparison")},
        {case["name"]: case["opaque"] for case in run["cases"] if case.get("opaque")},
        tuple(f"{one['case']}: {one['findings'][0]['what'] if one['findings'] else '–'}" for one in report["profiles"]),
    )


def import_seconds(folder: Path, module: str) -> float:
    """Return the shorter of two imports, each in a fresh process."""
    times = []
    for _ in range(2):
        started = time.monotonic()
        code = f"import sys; sys.path[:0] = ['src', '.']; import torch, {module}"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
        times.append(time.monotonic() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tags", nargs=2, required=True, metavar=("REFERENCE", "HEAD"))
    parser.add_argument("--operator", type=Path, required=True, help="a file that changed between the tags, relative to FOLDER")
    parser.add_argument("--comment", type=Path, help="a file that gets a comment; the operator's if left out")
    parser.add_argument("--case", default="", help="a pattern for one case of the operator")
    parser.add_argument("--only", nargs="*", help="rows to measure")
    options = parser.parse_args()
    folder, (reference, head) = options.folder.resolve(), options.tags
    git(folder, "checkout", "-q", "--force", head)
    author = ("-c", "user.name=ratchet", "-c", "user.email=ratchet@localhost")
    git(folder, *author, "commit", "-q", "--allow-empty", "-m", "nothing")  # a commit is not compared with itself
    module = ".".join(options.operator.with_suffix("").parts).removeprefix("src.")
    t = import_seconds(folder, module)
    print(f"t = {t:.1f} s (import of {module} with torch)\n", flush=True)
    old = git(folder, "show", f"{reference}:{options.operator}")
    operator, comment = folder / options.operator, folder / (options.comment or options.operator)
    rows = {
        "nothing changed": ("", ["--base", "HEAD~1", "--no-profile"]),
        "a comment changed": ("comment", ["--base", "HEAD", "--no-profile"]),
        "one operator changed": ("operator", ["--base", "HEAD", "--no-profile"]),
        "one operator changed, with profile": ("operator", ["--base", "HEAD"]),
        "everything timed": ("", ["--base", "HEAD", "--no-profile", "--time-identical"]),
        "one case": ("operator", ["--base", "HEAD", "--no-profile", *([options.case] if options.case else [])]),
    }
    print("| what | exit code | beyond t | identical | other outcomes |\n|:--|--:|--:|--:|:--|", flush=True)
    last = None
    for name, (change, arguments) in rows.items():
        if options.only and name not in options.only:
            continue
        if change == "comment":
            comment.write_text(comment.read_text() + "\n# A comment.\n")
        elif change == "operator":
            operator.write_text(old)
        try:
            check(folder, *arguments, log=folder.parent / "foreign.log")
            last = check(folder, *arguments, log=folder.parent / "foreign.log")
        finally:
            git(folder, "checkout", "-q", "--force", "HEAD")
        identical = sum(outcome == "IDENTICAL" for outcome in last.outcomes.values())
        others = ", ".join(f"{case} {outcome}" for case, outcome in last.outcomes.items() if outcome != "IDENTICAL")
        cells = (name, last.code, f"+{last.seconds - t:.1f} s", f"{identical} of {len(last.outcomes)}", others)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for cause in last.causes:
            print(f"|   {cause} | | | | |", flush=True)
    if last:
        print("\nTimed although nothing may have changed:\n")
        for case, why in last.timed_because.items():
            print(f"- {case}: {why}")


if __name__ == "__main__":
    main()
