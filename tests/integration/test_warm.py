"""Commands in a fork of a warm process are as those in a process of their own (`tests/warm.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.playground import ADDS, Playground

TELLS = """\
import json, os, pathlib, signal, sys
words = pathlib.Path("/proc/self/cmdline").read_bytes().decode().split("\\0")
seen = {
    "words": words[:5],
    "environ": sorted(os.environ),
    "folder": os.getcwd() == os.path.realpath(os.path.dirname(os.path.dirname(__file__))),
    "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3],
    "session": os.getsid(0) != os.getsid(os.getppid()),
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)],
    "argv": sys.argv[1:3],
    "path": [place for place in sys.path if place.startswith(os.environ["HOME"])],
}
pathlib.Path(os.environ["SEEN"]).write_text(json.dumps(seen, indent=1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("list", "--device", "cpu"), ("check", "--base=nowhere"), ("report",), ("--help",), ("nonsense",)],
    ids=lambda words: words[0],
)
def test_a_warm_command_says_the_same(play: Playground, words: tuple[str, ...]) -> None:
    """Exit code, output and errors are those of a process that was started for it."""
    assert play.warm is not None
    assert play.ratchet(*words) == play.finish(play.start(*words))


@pytest.mark.slow
def test_what_a_warm_host_sees(make: Callable[..., Playground], tmp_path: Path) -> None:
    """Arguments, environment, folder, session and signals of the process that imports benchmarks are those of a started one."""
    play = make({"bench/adds.py": TELLS + ADDS})
    seen = []
    for run in (play.ratchet, lambda *words, env: play.finish(play.start(*words, env=env))):
        place = tmp_path / f"seen{len(seen)}.json"
        assert run("list", "--device", "cpu", env={"SEEN": str(place)}).code == 0
        seen.append(place.read_text(encoding="utf-8"))
    assert seen[0] == seen[1]
