"""What the benchmarks declare, held against the counters of a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from playground import HARNESS, Playground

from ratchet.measure.surroundings import of_benchmarks
from ratchet.measure.target import Target
from ratchet.pipeline.profiling_side import Look, look_at
from ratchet.profile import roofline
from ratchet.profile.ncu import Wish
from ratchet.records.profile import Profile
from ratchet.records.run import WorkloadIdentity

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


def counted(case: str, tmp_path: Path) -> Profile:
    target = Target(HARNESS, HARNESS, "bench", case, "cuda", 1, 1, (".", "src"))
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    environ = Playground(tmp_path).environ()
    looked = look_at(target, Look(of_benchmarks(environ, "cuda", 1, uuid), tmp_path, 60, Wish()))
    if looked.profile is None or looked.profile.tool != "ncu":
        pytest.skip(" ".join(looked.steps_down))
    return looked.profile


def declared(flops: float, moved: float) -> WorkloadIdentity:
    return WorkloadIdentity(parameters={}, device="cuda", dtype="bfloat16", flops=flops, bytes=moved, clock="event", cache="cold")


def test_declared_products(tmp_path: Path) -> None:
    """A matrix product takes the operations that it declares, and moves at least its inputs."""
    workload = declared(2 * 2048**3, 3 * 2 * 2048**2)
    profile = counted("matmul/square_2048", tmp_path)
    assert roofline.agreement(workload, profile) == pytest.approx(1, abs=roofline.AGREEMENT)
    moved = roofline.counted_bytes(profile)
    assert moved is not None
    assert moved >= 2 * 2 * 2048**2 * 0.95


def test_declared_attention(tmp_path: Path) -> None:
    """Causal attention takes what it declares, and half of the tiles on the diagonal: 3 % more at 4096."""
    batch, heads, seq, width = 4, 32, 4096, 128
    workload = declared(4 * batch * heads * seq * seq * width / 2, 4 * 2 * batch * heads * seq * width)
    ratio = roofline.agreement(workload, counted("attention/inference_4k", tmp_path))
    assert ratio == pytest.approx(1, abs=roofline.AGREEMENT)


def test_attention_of_short_sequences(tmp_path: Path) -> None:
    """With 8 tiles of 64 to a row of 512, the tiles on the diagonal are an eighth more, and that is all there is more."""
    batch, heads, seq, width = 32, 8, 512, 64
    workload = declared(4 * batch * heads * seq * seq * width / 2, 4 * 2 * batch * heads * seq * width)
    ratio = roofline.agreement(workload, counted("attention/training_512", tmp_path))
    assert ratio == pytest.approx(1 + 64 / 512, rel=0.01)
