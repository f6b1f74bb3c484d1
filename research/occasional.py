"""Live checks of heads that are slow now and then, and of unchanged ones: ``python research/occasional.py`` prints a table.

Makes a git repository with a benchmark that sleeps for 2 ms, puts a head into it that is as fast in most calls, and runs
`ratchet check`: none of these may exit with 0. In ``--unchanged`` checks the head does the same work by other code; all have to.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import row, table

BENCH = """
import time

from kit import op
from ratchet import benchmark


@benchmark
def call(device):
    sleep_ms = op.make()

    def run():
        time.sleep(sleep_ms() / 1000)
        return 1

    return run
"""
BASE = "def make():\n    return lambda: 2.0\n"
COUNTED = (
    "import itertools\ndef make():\n    n = itertools.count()\n    return lambda: {slow} if next(n) % {every} == {at} else 2.0\n"
)
DRAWN = "import os\ndef make():\n    ms = {slow} if os.urandom(1)[0] < {share} else 2.0\n    return lambda: ms\n"
HEADS = {
    "every tenth call 50×": COUNTED.format(slow=100.0, every=10, at=0),
    "every third call 4×": COUNTED.format(slow=8.0, every=3, at=0),
    "every fourth call 4×, the first": COUNTED.format(slow=8.0, every=4, at=0),
    "every fourth call 4×, the last": COUNTED.format(slow=8.0, every=4, at=3),
    "every seventh call 3×": COUNTED.format(slow=6.0, every=7, at=5),
    "one process in five +50 %": DRAWN.format(slow=3.0, share=51),
    "one process in ten 2×": DRAWN.format(slow=4.0, share=26),
    "one process in four +30 %": DRAWN.format(slow=2.6, share=64),
}
UNCHANGED = "def make():\n    ms = 2.0\n    return lambda: ms\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def repository(folder: Path) -> Path:
    for name, text in {
        ".gitignore": "results/\n__pycache__/\n",
        "kit/__init__.py": "",
        "bench/call.py": BENCH,
        "kit/op.py": BASE,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


def checked(folder: Path, head: str) -> tuple[int, str, int, int, float]:
    """Return the exit code of a check, the outcome, the pairs and the processes of each side, and the seconds."""
    (folder / "kit" / "op.py").write_text(head)
    command = (sys.executable, "-m", "ratchet", "check", "--device", "cpu", "--base", "HEAD", "--no-profile", "--json", "-q")
    started = time.monotonic()
    done = subprocess.run([*command, "--wait", "600s", "--repo", str(folder)], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    try:
        case = json.loads(done.stdout)["cases"][0]
    except (ValueError, LookupError):
        return done.returncode, done.stderr[-200:], 0, 0, seconds
    compared = case["comparison"] or {}
    return done.returncode, case["outcome"], compared.get("pairs", 0), (compared.get("total") or {}).get("processes", 0), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5, help="checks of each slow head")
    parser.add_argument("--unchanged", type=int, default=0, help="checks of unchanged heads")
    parser.add_argument("--head", default="", help="heads whose names hold this text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = repository(Path(folder))
        table("head", "exit 0", "exit 1", "exit 3", "pairs", "processes", "seconds")
        heads = {name: (text, options.times) for name, text in HEADS.items() if options.head in name}
        for name, (text, times) in {**heads, "unchanged": (UNCHANGED, options.unchanged)}.items():
            found = [checked(place, text) for _ in range(times)]
            if found:
                codes = [sum(code == wanted for code, *_ in found) for wanted in (0, 1, 3)]
                means = [sum(column) / len(found) for column in list(zip(*found, strict=True))[2:]]
                row(name, *codes, *(f"{mean:.1f}" for mean in means))


if __name__ == "__main__":
    main()
