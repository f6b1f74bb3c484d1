"""Gates on what a case takes besides time, on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.core.records.run import GateName
from ratchet.core.records.verdict import Outcome
from tests.integration.playground import Finished, Playground, commit, new_repository

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

KERNEL = """\
import time

import torch
import triton
import triton.language as tl
from ratchet import Workload, benchmark

BLOCK, WARPS, OPTIONS, LAUNCHES, MORE, WAIT, FIRST_S = 4096, 8, {}, 1, 0, 0, 0.0
USED = []


@triton.jit
def scan(x, out, size: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    a = tl.load(x + at, mask=at < size, other=0.0)
    tl.store(out + at, tl.cumsum(a * a + 1, 0) * a, mask=at < size)


@benchmark(configs={"rows": {"size": 1 << 22}}, devices=("cuda",))
def scanned(*, device, size):
    x = torch.rand(size, device=device)
    out = torch.empty_like(x)

    def run():
        if not USED:
            USED.append(time.sleep(FIRST_S))
        if WAIT:
            time.sleep(WAIT)
        more = torch.empty(MORE, device=device) if MORE else None
        for _ in range(LAUNCHES):
            scan[(triton.cdiv(size, BLOCK),)](x, out, size, BLOCK, num_warps=WARPS, **OPTIONS)
        return out

    def expected():
        rows = x.double().view(-1, 4096)
        return ((rows * rows + 1).cumsum(1) * rows).view(-1)

    return Workload(run=run, reference=expected, dtype="float32", clock="event", tolerance={"float32": 1e-4})
"""
USUAL = "8, {}, 1, 0, 0, 0.0"
PLANTED: dict[GateName, str] = {
    "memory": "8, {}, 1, 1 << 26, 0, 0.0",
    "spills": "1, {'maxnreg': 24}, 1, 0, 0, 0.0",
    "registers": "1, {}, 1, 0, 0, 0.0",
    "code_size": "1, {}, 1, 0, 0, 0.0",
    "launches": "8, {}, 2, 0, 0, 0.0",
    "compile_time": "8, {}, 1, 0, 0, 2.0",
    "host_time": "8, {}, 1, 0, 0.001, 0.0",
}
"""What each gate catches: warps, options, launches, floats more, seconds that a call waits, and the first one."""
SAYS: dict[GateName, str] = {
    "memory": "of memory",
    "spills": "to memory",
    "registers": "registers",
    "code_size": "machine code",
    "launches": "launches 2 kernels",
    "compile_time": "first use",
    "host_time": "keeps the host",
}


def check(folder: Path, head: str, *names: GateName) -> Finished:
    """Check a head whose line of settings is this, with these gates at 25 %."""
    gates = ", ".join(f'{name} = "25%"' for name in names)
    new_repository(folder / "repo", {"bench/scanned.py": KERNEL}, f"gates = {{ {gates} }}\n")
    edited = KERNEL.replace(USUAL, head).replace("USED = []", "USED: list[None] = []")
    commit(folder / "repo", "second", {"bench/scanned.py": edited})
    return Playground(folder).check("--device", "cuda", env={"TESTS_REAL_CLOCK": "1"})


@pytest.mark.parametrize("name", PLANTED)
def test_planted_growth_fails_its_gate(tmp_path: Path, name: GateName) -> None:
    """A head that takes more of one thing fails, and the reason says what it is."""
    done = check(tmp_path, PLANTED[name], name)
    assert (done.code, done.outcomes()) == (1, {"scanned/rows": Outcome.FAILED}), done
    assert SAYS[name] in done.verdict("scanned/rows").reason


def test_unchanged_code_passes_every_gate(tmp_path: Path) -> None:
    """An edit that changes nothing passes all gates, and the record has every figure."""
    done = check(tmp_path, USUAL, *PLANTED)
    assert done.code == 0, done
    case = done.case("scanned/rows")
    assert set(case.resources) == {"head", "reference"}
    assert set(case.overheads) == {"compile_time", "host_time"}
