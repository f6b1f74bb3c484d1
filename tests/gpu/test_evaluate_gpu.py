"""`ratchet evaluate` on a GPU: its own cheats gain nothing, its own honest candidates are not accused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from ratchet.core.errors import UsageError  # noqa: E402  after the skip
from ratchet.lab.sanitizer import find_sanitizer  # noqa: E402
from tests.integration.playground import Finished, Playground  # noqa: E402

TESTS = Path(__file__).parents[1]
BASELINE = TESTS / "cheats" / "baseline_of_all.py"
CHEATS = sorted((TESTS / "cheats" / "gpu").glob("*.py"))
HONEST = sorted((TESTS / "honest" / "gpu").glob("*.py"))
PRODUCT = "import torch\n\ndef kernel(x):\n    {setting}\n    return x @ x\n"


@pytest.fixture
def place(tmp_path: Path) -> Playground:
    """A folder that is no repository."""
    (tmp_path / "repo").mkdir()
    return Playground(tmp_path)


def evaluated(place: Playground, *words: str | Path) -> tuple[Finished, dict[str, Any]]:
    done = place.ratchet("evaluate", *map(str, words), "--device", "cuda", "--json")
    assert done.out, done.err
    return done, json.loads(done.out)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda path: path.stem)
def test_a_cheat_gains_nothing(place: Playground, cheat: Path) -> None:
    """One that names how it is caught breaks that rule and exits with 1; any other is just not faster."""
    rules = re.search(r"^# caught as: (.+)$", cheat.read_text(encoding="utf-8"), re.MULTILINE)
    done, record = evaluated(place, BASELINE, cheat)
    if rules is None:
        assert record["verdict"] != "faster", done.out
        return
    assert (done.code, record["verdict"]) == (1, "violated"), done.out
    assert record["violations"][0]["rule"] in rules[1].split()


@pytest.mark.parametrize("honest", HONEST, ids=lambda path: path.stem)
def test_an_honest_candidate_is_not_accused(place: Playground, honest: Path) -> None:
    """However it computes, it breaks no rule, it gets figures, and its own processes are not taken for others."""
    _, record = evaluated(place, BASELINE, honest)
    assert record["violations"] == []
    assert not any("Other processes" in warning for warning in record["warnings"])
    assert record["verdict"] != "not measured", record["headline"]
    assert record["speedup"] > 0


NEIGHBOUR = """\
import time, torch
torch.zeros(1, device="cuda")
print("there", flush=True)
held = []
while True:
    held = [*held, torch.empty(2**29, dtype=torch.uint8, device="cuda")] if len(held) < 24 else []
    torch.cuda.empty_cache()
    time.sleep(0.1)
"""


def test_memory_that_another_process_takes_meanwhile_is_not_held_against_a_candidate(place: Playground) -> None:
    """It takes 12 GiB in steps, again and again, and a call may hold 4 GB."""
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE) as neighbour:
        try:
            assert neighbour.stdout is not None
            assert neighbour.stdout.readline() == b"there\n"
            time.sleep(2)  # until the GPU counts as idle
            _, record = evaluated(place, BASELINE, BASELINE)
        finally:
            neighbour.kill()
    assert record["violations"] == []
    assert any("Other processes were on the GPU" in warning for warning in record["warnings"])


def test_less_precision_takes_a_word(place: Playground) -> None:
    """TF32 is a violation where the baseline computes in float32, and none where that is allowed."""
    exact, fast = place.repo / "exact.py", place.repo / "fast.py"
    exact.write_text(PRODUCT.format(setting="torch.backends.cuda.matmul.allow_tf32 = False"), encoding="utf-8")
    fast.write_text(PRODUCT.format(setting="torch.backends.cuda.matmul.allow_tf32 = True"), encoding="utf-8")
    loose = ("--rtol", "0.1", "--atol", "1")
    done, record = evaluated(place, exact, fast, *loose)
    assert (done.code, record["violations"][0]["rule"]) == (1, "precision")
    _, record = evaluated(place, exact, fast, *loose, "--allow-lower-precision")
    assert (record["violations"], record["verdict"]) == ([], "faster")


DOUBLE = """\
import torch, triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < {limit}
    tl.store(out + at, 2 * tl.load(x + at, mask=inside), mask=inside)

def kernel(x):
    out = torch.empty_like(x)
    double[(1,)](x, out, x.numel(), BLOCK=1024)
    return out
"""


def test_the_sanitizer_sees_what_results_do_not(place: Playground) -> None:
    """A kernel that reads and writes behind its tensors gives the right result, and breaks a rule unless the baseline does so."""
    try:
        find_sanitizer(os.environ)
    except UsageError as missing:
        pytest.skip(missing.message)
    inside, beyond = place.repo / "inside.py", place.repo / "beyond.py"
    inside.write_text(DOUBLE.format(limit="n"), encoding="utf-8")
    beyond.write_text(DOUBLE.format(limit="n + 300"), encoding="utf-8")
    words = ("--input", "700", "--sanitize")
    assert evaluated(place, inside, inside, *words)[1]["violations"] == []
    violations = evaluated(place, inside, beyond, *words)[1]["violations"]
    assert [violation["rule"] for violation in violations] == ["sanitizer"]
    assert "Invalid __global__" in violations[0]["message"]
    both = evaluated(place, beyond, beyond, *words)[1]
    assert both["violations"] == []
    assert any("held against neither" in warning for warning in both["warnings"])
