"""What the benchmarks declare, held against the counters of a real GPU."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from ratchet.core.records.profile import Profile
from ratchet.core.records.run import WorkloadIdentity
from ratchet.explain import roofline
from tests.gpu.test_profile_gpu import look
from tests.integration.playground import HARNESS, Playground

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.fixture
def attention(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(HARNESS)
    return importlib.import_module("bench.attention")


def counted(case: str, tmp_path: Path) -> Profile:
    looked = look(tmp_path, Playground(tmp_path).environ(), case)[case]["head"]
    if looked.profile is None or looked.profile.tool != "ncu":
        pytest.skip(" ".join(looked.steps_down))
    return looked.profile


def declared(flops: float, moved: float) -> WorkloadIdentity:
    return WorkloadIdentity(parameters={}, device="cuda", dtype="bfloat16", flops=flops, bytes=moved, clock="event", cache="cold")


def whole_tiles(seq: int, rows: int, keys: int) -> float:
    """Logits that causal attention computes in tiles of rows × keys, over those that the mask leaves: seq² / 2."""
    visited = sum(rows * (-(-(first + rows) // keys) * keys) for first in range(0, seq, rows))
    return visited / (seq * seq / 2)


@pytest.mark.parametrize("size", [2048, 4096])
def test_declared_products(size: int, tmp_path: Path) -> None:
    """A matrix product takes the operations that it declares, and moves at least its inputs."""
    profile = counted(f"matmul/square_{size}", tmp_path)
    ratio = roofline.agreement(declared(2 * size**3, 3 * 2 * size**2), profile)
    assert ratio == pytest.approx(1, abs=roofline.AGREEMENT)
    moved = roofline.counted_bytes(profile)
    assert moved is not None
    assert moved >= 2 * 2 * size**2 * 0.95


@pytest.mark.parametrize("config", ["training_512", "training_1k", "inference_2k", "inference_4k"])
def test_declared_attention(config: str, attention: ModuleType, tmp_path: Path) -> None:
    """Causal attention takes what it declares and the hidden half of its tiles on the diagonal, and nothing else."""
    batch, heads, seq, width = (attention.CONFIGS[config][name] for name in ("batch", "heads", "seq", "head_dim"))
    workload = declared(4 * batch * heads * seq * seq * width / 2, 4 * 2 * batch * heads * seq * width)
    ratio = roofline.agreement(workload, counted(f"attention/{config}", tmp_path))
    tuning = attention.TUNING[width]
    assert ratio == pytest.approx(whole_tiles(seq, tuning["BLOCK_M"], tuning["BLOCK_N"]), rel=0.01)
