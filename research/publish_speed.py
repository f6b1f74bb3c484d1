"""Seconds and memory that publishing a large run takes: ``python research/publish_speed.py --cases 4900``.

The artifact is a record of so many slower cases with 8 pairs, as a GPU job uploads it; GitHub is the tests' stand-in for it, on
this machine. Prints seconds from the start of the process to its end, its CPU seconds and peak memory, and requests to the
stand-in.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the stand-in for GitHub that its tests use

from ratchet.core.records.files import save
from ratchet.core.records.run import Tree
from tests import examples
from tests.examples import compared, run_of
from tests.fake_github import FakeGitHub
from tests.history_examples import STEADY
from tests.integration.playground import git, new_repository
from tests.integration.publish_scene import HEAD, Scene

PAIRS, SLOWER = 8, 1.1


def artifact(folder: Path, cases: int) -> Path:
    """Write the artifact of a run, zipped as GitHub serves it. Return its folder."""
    record, place = folder / "current.json", folder / "artifact"
    place.mkdir()
    runs = [compared(*(SLOWER * ratio for ratio in STEADY[:PAIRS]), name=f"case_{number}/default") for number in range(cases)]
    save(record, run_of(*runs, head=Tree(commit=HEAD), reference=examples.REFERENCE))
    with zipfile.ZipFile(place / "artifact.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(record, "current.json")
    print(f"{cases} cases: a record of {record.stat().st_size / 2**20:.0f} MiB")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=4900)
    options = parser.parse_args()
    with FakeGitHub() as fake, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        new_repository(folder / "clone", {"kernel.cu": "first\n"})
        git(folder / "clone", "remote", "add", "origin", (folder / "clone").as_uri())
        scene = Scene(folder, fake)
        place = artifact(folder, options.cases)
        environ = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")} | scene.environ
        before, started = len(fake.requests), time.monotonic()
        command = [sys.executable, "-m", "ratchet", "publish", str(place)]
        done = subprocess.run(command, cwd=folder / "clone", env=environ, capture_output=True, text=True, check=False)
        seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(f"exit {done.returncode} after {seconds:.1f} s ({cpu_s:.1f} s of CPU), {used.ru_maxrss // 1024} MB,", end=" ")
    print(f"{len(fake.requests) - before} requests: {(done.stderr.strip() or done.stdout.strip())[:200]}")


if __name__ == "__main__":
    main()
