"""Measured roofs."""

from __future__ import annotations

import examples
import pytest

from ratchet.judge.roof import Roofs, measured_roofs, share
from ratchet.judge.verdict import judge_run
from ratchet.records import BaselineEntry, CaseRun, Performance

STORED = examples.baseline().fingerprints[examples.FINGERPRINT.key].configs["attention/training_512"]


def figures(gflops: float, gb_s: float) -> Performance:
    return examples.performance(1.0).model_copy(update={"throughput_gflops": gflops, "bandwidth_gb_s": gb_s})


def case(name: str, dtype: str, gflops: float = 0.0, gb_s: float = 0.0) -> CaseRun:
    workload = examples.WORKLOAD.model_copy(update={"dtype": dtype})
    return examples.compared(1.0, 1.0, 1.0, name=name, workload=workload, performance=figures(gflops, gb_s))


def stored(dtype: str, gflops: float, gb_s: float) -> BaselineEntry:
    workload = examples.WORKLOAD.model_copy(update={"dtype": dtype})
    return STORED.model_copy(update={"workload": workload, "throughput_gflops": gflops, "bandwidth_gb_s": gb_s})


def test_the_best_of_the_run() -> None:
    """The roofs are the fastest copy, and the fastest matrix product of each dtype."""
    cases = (
        case("copy/32m", "float32", gb_s=4000),
        case("copy/64m", "float32", gb_s=4200),
        case("matmul/2k", "bfloat16", 500e3),
        case("matmul/4k", "bfloat16", 700e3),
        case("matmul/f32", "float32", 50e3),
        case("attention/x", "bfloat16", 900e3, 9000),
        case("copy_strided/x", "float32", gb_s=9000),
    )
    assert measured_roofs(cases, {}) == Roofs(4200e9, {"bfloat16": 700e12, "float32": 50e12})


def test_none_measured() -> None:
    """Without such benchmarks, or without their times, there is no roof."""
    untimed = case("copy/x", "float32").model_copy(update={"performance": None})
    assert measured_roofs((untimed,), {}) == Roofs(None, {})


def test_stored_roofs() -> None:
    """What this run did not measure comes from the stored baseline, roof by roof."""
    entries = {
        "copy/32m": stored("float32", 0, 3900),
        "matmul/4k": stored("bfloat16", 650e3, 10),
        "matmul/f32": stored("float32", 45e3, 10),
    }
    assert measured_roofs((), entries) == Roofs(3900e9, {"bfloat16": 650e12, "float32": 45e12})
    cases = (case("copy/8m", "float32", gb_s=3000), case("matmul/1k", "bfloat16", 600e3))
    assert measured_roofs(cases, entries) == Roofs(3000e9, {"bfloat16": 600e12, "float32": 45e12})


@pytest.mark.parametrize(
    ("flops", "size", "dtype", "found"),
    [
        (1e12, 1e9, "bfloat16", ("matmul", 0.5)),  # 1 ms of products, 0.25 ms of bytes, in 2 ms
        (1e12, 6e9, "bfloat16", ("copy", 0.75)),
        (1e12, 1e9, "float32", ("copy", 0.125)),
        (0, 8e9, "bfloat16", ("copy", 1.0)),
        (1e12, 0, "bfloat16", ("matmul", 0.5)),
        (1e12, 0, "float32", None),
    ],
)
def test_share(flops: float, size: float, dtype: str, found: tuple[str, float] | None) -> None:
    """The roof that takes longer binds, and a product is only read against products of its own dtype."""
    workload = examples.WORKLOAD.model_copy(update={"flops": flops, "bytes": size, "dtype": dtype})
    reached = share(workload, 2e-3, Roofs(4e12, {"bfloat16": 1e15}))
    assert reached == (found if found is None else (found[0], pytest.approx(found[1])))


def test_a_report_uses_stored_roofs() -> None:
    """A run without roofs of its own is read against those stored for its machine."""
    base = examples.baseline()
    part = base.fingerprints[examples.FINGERPRINT.key]
    roofed = part.model_copy(update={"configs": {"copy/32m": stored("float32", 0, 671)}})
    run = examples.run_of(examples.compared(1.0, 1.0, 1.0))
    (found,) = judge_run(run, base.model_copy(update={"fingerprints": {examples.FINGERPRINT.key: roofed}})).cases
    assert found.head is not None
    assert (found.head.roof, found.head.share_of_roof) == ("copy", pytest.approx(0.1))
    (bare,) = judge_run(run, base).cases
    assert bare.head is not None
    assert (bare.head.roof, bare.head.share_of_roof) == (None, None)
