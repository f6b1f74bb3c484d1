"""A verdict without a GPU, held against what the GPU says of the same commits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.core.errors import Exit
from ratchet.core.records.files import load
from ratchet.core.records.verdict import Outcome
from ratchet.identical.static.records import Recorded
from tests.integration.playground import QUICK, Playground, new_repository

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

KERNEL = """\
import torch
import triton
import triton.language as tl
from ratchet import Workload, benchmark


@triton.jit
def scale(x, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < size) * 2.0, mask=at < size)


@benchmark(configs={"rows": {"size": 1 << 26}}, devices=("cuda",))
def scaled(*, device, size):
    x = torch.rand(size, device=device)
    out = torch.empty_like(x)

    def run():
        scale[(triton.cdiv(size, 1024),)](x, out, size, BLOCK=1024)
        return out

    return Workload(run=run)
"""
CASE = "scaled/rows"
COMMENT = KERNEL.replace("    at =", "    # a word\n    at =")
NAME = KERNEL.replace("at = tl", "place = tl").replace("+ at,", "+ place,").replace("=at <", "=place <")


def test_its_word_is_that_of_the_launches(tmp_path: Path) -> None:
    """A comment and another name in a kernel are identical without the GPU, as their launches are; a constant needs it."""
    new_repository(tmp_path / "repo", {"bench/scaled.py": KERNEL, "pyproject.toml": "[tool.ratchet]\n"})
    play = Playground(tmp_path)
    assert play.ratchet("run", "--static").code == Exit.PASS
    recorded = load(play.repo / "results" / "static.json", Recorded)
    assert [kernel.function for kernel in recorded.kernels] == ["scale"]
    for source in (COMMENT, NAME):
        play.commit({"bench/scaled.py": source})
        static = play.ratchet("check", "--static")
        assert static.code == Exit.PASS, static.out
        measured = play.ratchet("check", *QUICK, "--device", "cuda")
        assert measured.outcomes() == {CASE: Outcome.IDENTICAL}
        [case] = measured.run.cases
        assert case.launches_the_same or case.host_same
    play.commit({"bench/scaled.py": KERNEL.replace("* 2.0", "* 3.0")})
    done = play.ratchet("check", "--static", "--json")
    assert done.code == Exit.NOT_MEASURED
    [case_without_gpu] = json.loads(done.out)["cases"]
    [kernel] = case_without_gpu["kernels"]
    assert (kernel["same"], kernel["head"]["instructions"]["of"]) == (False, "machine code")
    assert play.ratchet("check", *QUICK, "--device", "cuda").outcomes()[CASE] != Outcome.IDENTICAL
