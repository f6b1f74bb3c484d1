"""Cases whose code is the same as far as they use it are not timed, on the CPU too."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, Playground, new_repository

KERNELS = "import time\n\nREPEAT = 3\n\n\ndef plus(x):\n    for _ in range(REPEAT):\n        x = x + 1\n    return x\n"
BENCH = """\
import torch
from kernels import {name}
from ratchet import benchmark


@benchmark(devices=("cpu",))
def {name}(*, device):
    x = torch.ones(64)
    return lambda: {name}_kernel(x)
"""
FILES = {
    "pyproject.toml": "[tool.ratchet]\nblock_ms = 10\n",
    "kernels/__init__.py": "VERSION = 1\n",
    "bench/adds.py": ADDS,
    **{
        f"bench/{name}.py": BENCH.format(name=name)
        .replace(f"from kernels import {name}", f"from kernels.{name} import plus")
        .replace(f"{name}_kernel", "plus")
        for name in ("one", "two")
    },
    "kernels/one.py": KERNELS,
    "kernels/two.py": KERNELS,
}


@pytest.mark.slow
def test_what_did_not_change_is_identical(tmp_path: Path) -> None:
    """Nothing is timed after a comment or a new file; after a change the case that uses it is, and the record says why."""
    play = Playground(tmp_path)
    new_repository(play.repo, {"notes.txt": "x\n"})
    play.commit(FILES)
    more = {"kernels/new.py": KERNELS, "tests/test_one.py": "pass\n"}
    play.commit({"kernels/one.py": "# a comment\n" + KERNELS, "README.md": "More.\n", **more})
    done = play.check("--base", "HEAD~1")
    assert done.outcomes() == dict.fromkeys(("adds/small", "one/default", "two/default"), Outcome.IDENTICAL)
    assert done.code == 0
    assert "All that it runs and reads in the tree is the same on both sides; it was not timed." in done.markdown

    play.commit({"kernels/one.py": KERNELS.replace("x + 1", "1 + x")})
    done = play.check("--base", "HEAD~1", "--pairs", "6")
    outcomes = done.outcomes()
    assert outcomes.pop("one/default") is not Outcome.IDENTICAL
    assert set(outcomes.values()) == {Outcome.IDENTICAL}
    assert done.case("one/default").host_difference == "kernels/one.py: the body of plus changed, and it runs"

    done = play.check("--base", "HEAD", "--time-identical")
    assert Outcome.IDENTICAL not in done.outcomes().values()
    assert all(case.timed_because is None for case in done.report.cases), "nobody looked, since that was asked for"
