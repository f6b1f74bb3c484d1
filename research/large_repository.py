"""Seconds until a check starts in a large repository: ``python research/large_repository.py`` makes one and times checks in it.

It has 50,000 commits and 20,000 files, made by ``git fast-import``, and a benchmark of one tiny case. Prints the seconds from the
start of the process until the hosts are started, in a clean and in a dirty checkout, and how long each call of git took. On ext4
the first check may be quicker than those that follow within minutes: see `ratchet.core.git`.
``--folder`` keeps the repository, so that two versions of ratchet can be timed in the same one.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FILES_OF_A_FOLDER = 100
LINES = 40
"""Lines of a file."""
BENCH = """\
import torch

from ratchet import Workload, benchmark


@benchmark(configs={"tiny": {"n": 16}})
def add(n: int) -> Workload:
    x = torch.ones(n)
    return Workload(run=lambda: x + 1, flops=n, bytes=8 * n)
"""
TIMED = """\
import os, subprocess, sys, time
began = time.perf_counter()
run = subprocess.run
def timed(command, *positional, **named):
    start = time.perf_counter()
    try:
        return run(command, *positional, **named)
    finally:
        end = time.perf_counter()
        if command[0] == "git":
            print(f"    {start - began:6.2f} s  + {end - start:.2f} s  {' '.join(command)[:100]}", file=sys.stderr)
subprocess.run = timed
from ratchet.core.bench.ready import sessions
def started(*_, **__):
    print(f"    {time.perf_counter() - began:6.2f} s  the hosts are started here", file=sys.stderr)
    raise KeyboardInterrupt
sessions.Hosts = started
from ratchet.core.cli import main
sys.exit(main())
"""


def main() -> None:
    """Make the repository where it is missing, then time a check in it, clean and dirty."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=50_000)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep the repository here, and take the one that is here already")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-large-")))
        repository = folder / f"repository-{given.commits}x{given.files}"
        if not repository.exists():
            start = time.perf_counter()
            make(repository, given.commits, given.files)
            print(f"{repository.name} made in {time.perf_counter() - start:.1f} s", flush=True)
        for state in ("clean", "dirty"):
            with changed(repository) if state == "dirty" else contextlib.nullcontext():
                for _ in range(given.repeat):
                    print(f"ratchet check, {state}:", flush=True)
                    start_check(repository)


def make(repository: Path, commits: int, files: int) -> None:
    """A history of one branch: the first commit has all files, and each later one changes one of them."""
    repository.mkdir(parents=True)
    git(repository, "init", "--quiet", "--initial-branch=main")
    importing = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=repository, stdin=subprocess.PIPE)
    assert importing.stdin is not None
    for part in history(commits, files):
        importing.stdin.write(part)
    importing.stdin.close()
    if importing.wait():
        raise RuntimeError("git fast-import failed")
    git(repository, "reset", "--quiet", "--hard", "main")


def history(commits: int, files: int) -> Iterator[bytes]:
    """The input of ``git fast-import``."""
    drawn = random.Random(1)
    for number in range(commits):
        yield b"commit refs/heads/main\n"
        yield f"committer someone <someone@localhost> {1_600_000_000 + number * 600} +0000\n".encode()
        yield b"data 9\nA change.\n"
        if number == 0:
            yield modified("bench/add.py", BENCH)
            yield modified(".gitignore", "results/\n")
            for file in range(files):
                yield modified(path_of(file), text_of(file, drawn))
        else:
            file = drawn.randrange(files)
            yield modified(path_of(file), text_of(file, drawn))


def modified(path: str, text: str) -> bytes:
    """One file of a commit."""
    content = text.encode()
    return f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"


def path_of(file: int) -> str:
    """The path of a file, a hundred of them to a folder."""
    folder = file // FILES_OF_A_FOLDER
    return f"source/part_{folder // 10}/section_{folder}/module_{file}.py"


def text_of(file: int, drawn: random.Random) -> str:
    """A text of a few lines."""
    return f"# module {file}\n" + "".join(f"value_{line} = {drawn.random()}\n" for line in range(LINES))


@contextlib.contextmanager
def changed(repository: Path) -> Iterator[None]:
    """Ten changed files and ten new ones, as in a checkout in which somebody works."""
    for number in range(10):
        with (repository / path_of(number * FILES_OF_A_FOLDER)).open("a") as stream:
            stream.write("changed = True\n")
        (repository / f"new_{number}.py").write_text("new = True\n")
    try:
        yield
    finally:
        git(repository, "reset", "--quiet", "--hard", "main")
        git(repository, "clean", "--quiet", "--force")


def start_check(repository: Path) -> None:
    """Print the calls of git of one check, with when each began, up to the start of the hosts; and when all was tidied up."""
    words = ["check", "--device", "cpu", "--results", "results"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", TIMED, *words], cwd=repository, capture_output=True, text=True, check=False)
    print("\n".join(line for line in done.stderr.splitlines() if line.startswith("    ")))
    print(f"    {time.perf_counter() - start:6.2f} s  the check is interrupted, and its trees are removed", flush=True)


def git(repository: Path, *words: str) -> None:
    """Run git."""
    subprocess.run(["git", *words], cwd=repository, check=True)


if __name__ == "__main__":
    main()
