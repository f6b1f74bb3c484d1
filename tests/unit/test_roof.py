"""Measured roofs."""

from __future__ import annotations

import pytest

from ratchet.core.judge.roofs import Roofs, RoofShare, cached, measured_roofs, share
from ratchet.core.judge.verdict import judge_run, judge_two
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.run import CaseRun, Performance, Policy
from tests import examples

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
        case("copy/64m", "float32", gb_s=4200),
        case("copy/32m", "float32", gb_s=4000),
        case("matmul/4k", "bfloat16", 700e3),
        case("matmul/2k", "bfloat16", 500e3),
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
    assert reached == (found if found is None else RoofShare(found[0], pytest.approx(found[1])))


def test_a_report_uses_stored_roofs() -> None:
    """A run without roofs of its own is read against those stored for its machine."""
    base = examples.baseline()
    part = base.fingerprints[examples.FINGERPRINT.key]
    roofed = part.model_copy(update={"configs": {"copy/32m": stored("float32", 0, 671)}})
    run = examples.run_of(examples.compared(1.0, 1.0, 1.0))
    (found,) = judge_run(run, base.model_copy(update={"fingerprints": {examples.FINGERPRINT.key: roofed}})).cases
    assert (found.head.roof, found.head.share_of_roof) == ("copy", pytest.approx(0.1))
    slower = examples.run_of(examples.compared(1.5, 1.5, 1.5))  # the shares go with the times that are shown
    (found,) = judge_run(slower, base.model_copy(update={"fingerprints": {examples.FINGERPRINT.key: roofed}})).cases
    for side in (found.head, found.reference):
        assert (side.share_of_roof or 0) * side.median_ms == pytest.approx(0.1)
    warm = examples.WORKLOAD.model_copy(update={"cache": "warm"})
    warmed = examples.run_of(examples.compared(1.0, 1.0, 1.0, workload=warm, reference_workload=warm))
    (found,) = judge_run(warmed, base.model_copy(update={"fingerprints": {examples.FINGERPRINT.key: roofed}})).cases
    assert (found.head.roof, found.head.share_of_roof, found.head.cached) == ("copy", None, "warm")
    (bare,) = judge_run(run, base).cases
    assert (bare.head.roof, bare.head.share_of_roof) == (None, None)


L2 = 50 * 2**20


@pytest.mark.parametrize(
    ("changes", "cached"),
    [
        ({"bytes": float(L2)}, "fits"),
        ({"bytes": float(L2) + 1}, None),
        ({"bytes": 1.0}, "fits"),
        ({"bytes": 8e9, "cache": "warm"}, "warm"),
        ({"bytes": 8e9, "clock": "graph"}, "warm"),
        ({"bytes": float(L2), "device": "cpu", "cache": "warm", "clock": "cpu"}, None),
    ],
)
def test_what_lies_in_l2_has_no_share_of_the_copy(changes: dict[str, object], cached: str | None) -> None:
    """A case on a GPU that is timed with a warm cache, or whose bytes fit into L2, is not held to the copy."""
    workload = examples.WORKLOAD.model_copy(update={"flops": 0.0} | changes)
    found = share(workload, 1e-6, Roofs(4e12, {}, L2))
    assert (found.roof, found.cached, found.share is None) == ("copy", cached, cached is not None)


def test_bytes_that_are_not_declared_lie_nowhere() -> None:
    """A case that does not say how much it reads is not taken to fit into L2."""
    for size in (None, 0.0):
        assert cached(examples.WORKLOAD.model_copy(update={"bytes": size}), L2) is None


def test_what_lies_in_l2_is_held_to_products() -> None:
    """Products take as long wherever their operands lie."""
    workload = examples.WORKLOAD.model_copy(update={"flops": 1e12, "bytes": 1e6, "cache": "warm"})
    assert share(workload, 2e-3, Roofs(4e12, {"bfloat16": 1e15}, L2)) == RoofShare("matmul", pytest.approx(0.5))


def test_where_l2_is_not_known() -> None:
    """Records without a size of L2 are read as before, warm ones excepted."""
    workload = examples.WORKLOAD.model_copy(update={"flops": 0.0, "bytes": 1e6})
    assert share(workload, 1e-6, Roofs(1e12, {})) == RoofShare("copy", pytest.approx(1.0))


def test_a_copy_in_l2_is_no_roof() -> None:
    """A copy that is timed warm, or fits into L2, does not become the roof of the others, now or from the stored baseline."""
    small = case("copy/small", "float32", gb_s=9000)
    large = case("copy/large", "float32", gb_s=4000)
    sized = [
        each.model_copy(update={"workload": each.workload.model_copy(update={"bytes": size})})
        for each, size in ((small, 1e6), (large, 1e9))
        if each.workload
    ]
    assert measured_roofs(tuple(sized), {}, L2).bytes_per_s == 4000e9
    assert measured_roofs(tuple(sized), {}).bytes_per_s == 9000e9
    assert measured_roofs(tuple(sized[:1]), {}, L2) == Roofs(None, {}, L2)
    kept = stored("float32", 0, 9000)
    kept = kept.model_copy(update={"workload": kept.workload.model_copy(update={"bytes": 1e6})})
    assert measured_roofs((), {"copy/small": kept}, L2) == Roofs(None, {}, L2)
    assert measured_roofs((), {"copy/small": kept}).bytes_per_s == 9000e9


@pytest.mark.parametrize(("l2_bytes", "roof"), [(L2, None), (None, "copy")])
def test_reports_know_the_size_of_l2(l2_bytes: int | None, roof: str | None) -> None:
    """A run, a check and a comparison of two runs leave out a copy that fits into the L2 cache of their machine."""
    workload = examples.WORKLOAD.model_copy(update={"bytes": 1e6, "flops": None})
    small = examples.compared(*(1.0,) * 3, name="copy/small", workload=workload, reference_workload=workload)
    environment = examples.ENVIRONMENT.model_copy(update={"l2_bytes": l2_bytes})
    check = examples.run_of(small, environment=environment)
    run = check.model_copy(update={"kind": "run"})
    for report in (judge_run(check, Baseline()), judge_run(run, Baseline()), judge_two(run, run, Policy())):
        assert report.cases[0].head.roof == roof
