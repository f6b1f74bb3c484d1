"""Peaks of datasheets."""

from __future__ import annotations

import pytest

from ratchet.core.judge.roofs import SHEETS, datasheet

NAMES = {
    "Tesla V100-SXM2-16GB": (900, 15.7),
    "Tesla V100-SXM2-32GB": (900, 15.7),
    "NVIDIA A100-SXM4-40GB": (1555, 19.5),
    "NVIDIA A100-PCIE-40GB": (1555, 19.5),
    "NVIDIA A100-SXM4-80GB": (2039, 19.5),
    "NVIDIA H100 80GB HBM3": (3350, 66.9),
    "NVIDIA H200": (4800, 66.9),
    "NVIDIA GH200 480GB": (4023, 66.9),
    "NVIDIA L4": (300, 30.3),
    "NVIDIA GeForce RTX 3090": (936, 35.6),
    "NVIDIA GeForce RTX 4090": (1008, 82.6),
    "NVIDIA B200": (7700, 75.0),
    "NVIDIA GB200": (8000, 80.0),
}
OTHERS = (
    "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL",
    "NVIDIA H20",
    "NVIDIA L40S",
    "NVIDIA A100 80GB PCIe",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GH200 144G HBM3e",
    "NVIDIA T4",
    "AMD Instinct MI300X",
    "",
)


@pytest.mark.parametrize("name", NAMES)
def test_known(name: str) -> None:
    """A GPU is found by the name that NVML gives it."""
    peaks = datasheet(name)
    bandwidth, fp32 = NAMES[name]
    assert peaks.dram_bytes_per_s == bandwidth * 1e9
    assert peaks.flops_per_s["fp32"] == fp32 * 1e12


def test_spelling() -> None:
    """Case and spaces do not matter."""
    assert datasheet("nvidia  h200") == datasheet("NVIDIA H200") != datasheet("NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize("name", OTHERS)
def test_unknown(name: str) -> None:
    """Another variant, a slice or another maker's GPU has no peaks rather than somebody else's."""
    assert datasheet(name) is None
    assert datasheet(None) is None


def test_dense_rates() -> None:
    """An H200 does 989 dense BF16 TFLOP/s, half of that in TF32, twice that in FP8; nothing printed for sparse matrices."""
    peaks = datasheet("NVIDIA H200")
    rates = peaks.flops_per_s
    assert rates["tensor_bf16"] == rates["tensor_fp16"] == 989.4e12
    assert rates["tensor_tf32"] == pytest.approx(rates["tensor_bf16"] / 2)
    assert rates["tensor_fp8"] == pytest.approx(rates["tensor_bf16"] * 2, rel=1e-3)


def test_formulas() -> None:
    """FP32 is SMs × lanes × 2 × boost clock; matrix units do 1024, 2048 and 4096 FLOP per SM and clock."""
    for name, sms, lanes, clock, per_clock, kind in (
        ("Tesla V100-SXM2-16GB", 80, 64, 1.53e9, 1024, "tensor_fp16"),
        ("NVIDIA A100-SXM4-40GB", 108, 64, 1.41e9, 2048, "tensor_bf16"),
        ("NVIDIA H200", 132, 128, 1.98e9, None, ""),
        ("NVIDIA H200", 132, None, 1.83e9, 4096, "tensor_bf16"),  # matrix units are rated at a lower boost clock
    ):
        peaks = datasheet(name)
        assert peaks is not None
        if lanes:
            assert peaks.flops_per_s["fp32"] == pytest.approx(sms * lanes * 2 * clock, rel=0.01)
        if per_clock:
            assert peaks.flops_per_s[kind] == pytest.approx(sms * per_clock * clock, rel=0.01)


def test_matrix_units_are_never_slower() -> None:
    """No datasheet has a matrix rate below FP32, nor FP32 below FP64: a row with swapped columns would."""
    for _, peaks in SHEETS:
        rates = peaks.flops_per_s
        assert rates.get("fp64", 0) < rates["fp32"]
        assert all(rate >= rates["fp32"] for name, rate in rates.items() if name.startswith("tensor_") and name != "tensor_fp64")
