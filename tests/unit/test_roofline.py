"""Rooflines: points and roofs."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.common.rooflines import Roof, Roofline, RooflinePoint
from ratchet.core.judge.roofs import Roofs, datasheet
from ratchet.core.records.environment import Peaks
from ratchet.core.records.profile import Activity, KernelProfile, Profile
from ratchet.explain import roofline as pure
from ratchet.explain.readers import read as read_report
from ratchet.explain.roofline_figure import ceiling_text, intensity_text, precision_text, roofline_lines, slope_text
from tests import examples

REPORTS = Path(__file__).parents[1] / "data" / "profiles"
DRAM = Roof(kind="dram", source="measured", rate=4e12)
BF16 = Roof(kind="compute", source="measured", rate=800e12, precision="tensor_bf16")
FP32 = Roof(kind="compute", source="datasheet", rate=60e12, precision="fp32")
ROOFS = (DRAM, BF16, FP32)
POSITIVE = st.floats(1e3, 1e15)


def kernel(**changes: Any) -> KernelProfile:
    usual: dict[str, Any] = {
        "dram_read_bytes": 30e6,
        "dram_write_bytes": 10e6,
        "flops": {"fp32": 1e8, "tensor_bf16": 8e9},
        "duration_s": 40e-6,
        "peaks": Peaks(),
    }
    return examples.kernel_profile(**(usual | changes))


def profile(*kernels: KernelProfile) -> Profile:
    return Profile(tool="ncu", kernels=kernels)


def read(point: RooflinePoint | None, roofs: tuple[Roof, ...] = ROOFS) -> RooflinePoint:
    assert point is not None
    return pure.roofline("a GPU", [point], roofs).points[0]


def test_counted_by_hand() -> None:
    """40 MB and 8 GFLOP in 100 µs are 200 FLOP per byte, 80 TFLOP/s and 400 GB/s: a tenth of both roofs."""
    point = read(pure.counted("a/b", "head", profile(kernel()), ROOFS, 100e-6))
    assert point.intensity == 200
    assert point.flops_per_s == pytest.approx(80e12)
    assert point.bytes_per_s == pytest.approx(400e9)
    assert point.precision == "tensor_bf16"
    assert point.shares == {"dram measured": pytest.approx(0.1), "tensor_bf16 measured": pytest.approx(0.1)}
    assert point.bound == "neither"
    assert (point.source, point.timed_by) == ("counters", "benchmark")


def test_equal_to_the_report(tmp_path: Path) -> None:
    """Bytes and FLOPs of a point are to the last digit those of a real report's own metrics (recorded on an H200)."""
    pytest.importorskip("ncu_report")
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(gzip.decompress((REPORTS / "coalescing_good.ncu-rep.gz").read_bytes()))
    seen = read_report(path)
    metrics = seen.kernels[0].metrics
    point = pure.counted("a/b", None, seen, ROOFS, None)
    assert point.bytes == metrics["dram__bytes_read.sum"] + metrics["dram__bytes_write.sum"]
    rate = metrics["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"]
    assert point.flops == 2 * round(rate * metrics["smsp__cycles_elapsed.avg"]) == 2 * 4096 * 4096  # a multiply-add a thread
    assert point.seconds == seen.kernels[0].duration_s
    assert {roof.kind for roof in pure.roofs_from("report", pure.report_peaks([seen]))} == {"dram", "l2", "compute"}


def test_several_kernels_add_up() -> None:
    """The kernels of one call are one point: bytes and FLOPs are the exact sums of what the profiler counted."""
    both = profile(kernel(), kernel(flops={"fp32": 3.0}, dram_read_bytes=1.0, dram_write_bytes=2.0))
    point = pure.counted("a/b", None, both, ROOFS, 1e-4)
    assert point.bytes == 40_000_003
    assert point.all_flops == {"fp32": 100_000_003, "tensor_bf16": 8e9}


def test_without_a_benchmark_time() -> None:
    """The profiler's durations stand in for a time that nobody measured, and the point says so."""
    point = pure.counted("a/b", None, profile(kernel(), kernel()), ROOFS, None)
    assert point.seconds == pytest.approx(80e-6)
    assert point.timed_by == "profiler"
    assert pure.counted("a/b", None, profile(kernel(duration_s=None)), ROOFS, None) is None


@pytest.mark.parametrize("lacking", [{"flops": {}}, {"dram_read_bytes": None}, {"dram_write_bytes": None}])
def test_without_counters(lacking: dict[str, Any]) -> None:
    """One kernel without a counter makes the sum unknown, never smaller."""
    assert pure.counted("a/b", None, profile(kernel(), kernel(**lacking)), ROOFS, 1e-4) is None
    assert pure.counted("a/b", None, Profile(tool="torch"), ROOFS, 1e-4) is None


@pytest.mark.parametrize(
    ("traced", "launches"),
    [({"copy": 1.0}, {"copy": 3000}), ({"copy": 0.9, "other": 0.1}, {"copy": 20, "other": 10})],
)
def test_counters_of_a_part_of_the_call(traced: dict[str, float], launches: dict[str, int]) -> None:
    """Bytes of some launches or kernels over the time of the whole call would be a rate that nothing has."""
    part = profile(kernel(function="copy"), kernel(function="copy"))
    activity = Activity(calls=10, wall_s=1.0, kernels=traced, ran=launches)
    assert pure.counted("a/b", None, part.model_copy(update={"activity": activity}), ROOFS, 0.1) is None
    whole = activity.model_copy(update={"kernels": {"copy": 0.96, "other": 0.04}, "ran": {"copy": 20, "other": 10}})
    assert pure.counted("a/b", None, part.model_copy(update={"activity": whole}), ROOFS, 0.1) is not None


def test_the_precision_that_binds() -> None:
    """Of several precisions the one whose units need the most time counts, not the one with the most operations."""
    assert pure.binding_precision({"fp32": 1e9, "tensor_bf16": 8e9}, ROOFS) == "fp32"
    assert pure.binding_precision({"fp32": 0.1e9, "tensor_bf16": 8e9}, ROOFS) == "tensor_bf16"
    assert pure.binding_precision({"fp32": 1e9, "tensor_bf16": 8e9}, ()) == "tensor_bf16"
    assert pure.binding_precision({"fp32": 0.0, "fp64": 0.0}, ROOFS) in ("fp32", "fp64")


def test_declared() -> None:
    """What the benchmark declares is drawn as declared, against the units that its dtype runs on."""
    point = read(pure.declared("a/b", None, examples.WORKLOAD, 100e-6))
    assert point.source == "declared"
    assert point.precision == "tensor_bf16"
    assert point.intensity == pytest.approx(34.36e9 / 67.1e6)
    assert point.shares["tensor_bf16 measured"] == pytest.approx(34.36e9 / 100e-6 / 800e12)


def test_a_copy() -> None:
    """A case without FLOPs has no intensity and is held by the memory alone."""
    copy = examples.WORKLOAD.model_copy(update={"flops": 0.0, "bytes": 390e6, "dtype": "float32"})
    point = read(pure.declared("copy/x", None, copy, 100e-6))
    assert point.intensity is None
    assert point.bound == "memory"
    assert point.shares == {"dram measured": pytest.approx(0.975)}


def test_bounds() -> None:
    """Above half of the nearest roof it binds; a warm case is held by the cache; with no roof nothing is said."""
    cold = examples.WORKLOAD.model_copy(update={"flops": 1e6, "bytes": 300e6, "dtype": "float32"})
    assert read(pure.declared("a/b", None, cold, 100e-6)).bound == "memory"
    graph = cold.model_copy(update={"clock": "graph"})
    assert read(pure.declared("a/b", None, graph, 100e-6)).bound == "cache"
    dense = examples.WORKLOAD.model_copy(update={"flops": 60e9})
    assert read(pure.declared("a/b", None, dense, 100e-6)).bound == "compute"
    assert read(pure.declared("a/b", None, dense, 100e-6), ()).bound is None
    odd = cold.model_copy(update={"dtype": "int4"})
    assert set(read(pure.declared("a/b", None, odd, 100e-6)).shares) == {"dram measured"}


def test_measured_comes_first() -> None:
    """A case is read against what was measured here, then the report's peaks, then the datasheet's."""
    roofs = (
        Roof(kind="dram", source="datasheet", rate=4.8e12),
        Roof(kind="dram", source="report", rate=4.7e12),
        Roof(kind="dram", source="measured", rate=4.1e12),
        Roof(kind="compute", source="datasheet", rate=60e12, precision="fp32"),
        Roof(kind="compute", source="report", rate=61e12, precision="fp32"),
    )
    best = pure.best_roofs(roofs)
    assert best["dram"].source == "measured"
    assert best["fp32"].source == "report"


def test_roofs_of_every_source() -> None:
    """Datasheet, report and measurement each give a roof for every rate that they know, the L2 cache's too."""
    sheet = datasheet("NVIDIA H200")
    assert sheet is not None
    assert {roof.key for roof in pure.roofs_from("datasheet", sheet)} >= {"dram datasheet", "tensor_fp8 datasheet"}
    long, short = Peaks(dram_bytes_per_s=4.8e12, l2_bytes_per_s=1e13), Peaks(dram_bytes_per_s=6e12, flops_per_s={"fp32": 7e13})
    seen = profile(kernel(duration_s=1e-6, peaks=short), kernel(duration_s=1e-3, peaks=long))
    found = {roof.key: roof.rate for roof in pure.roofs_from("report", pure.report_peaks([seen, None]))}
    assert found == {"dram report": 4.8e12, "l2 report": 1e13, "fp32 report": 7e13}
    measured = pure.roofs_measured(Roofs(4e12, {"bfloat16": 8e14, "float32": 5e13}))
    assert {roof.key for roof in measured} == {"dram measured", "tensor_bf16 measured", "fp32 measured"}
    assert pure.roofs_measured(Roofs(None, {})) == ()


def test_dtypes() -> None:
    """16-bit and 8-bit types run on matrix units, the others on the vector ones; an unknown dtype has no roof."""
    named = [pure.precision_of(name) for name in ("bfloat16", "float16", "float8_e4m3fn", "float32", "float64", "int8")]
    assert named == ["tensor_bf16", "tensor_fp16", "tensor_fp8", "fp32", "fp64", "int8"]


def test_agreement() -> None:
    """Counted FLOPs over declared ones, in the workload's own precision."""
    workload = examples.WORKLOAD.model_copy(update={"flops": 8e9})
    assert pure.agreement(workload, profile(kernel())) == 1
    assert pure.agreement(workload, profile(kernel(flops={"tensor_bf16": 9e9}))) == pytest.approx(1.125)
    assert pure.agreement(workload, profile(kernel(flops={"fp32": 9e9}))) is None
    assert pure.agreement(workload.model_copy(update={"flops": 0.0}), profile(kernel())) is None


@given(flops=POSITIVE, moved=POSITIVE, seconds=st.floats(1e-7, 10), dram=POSITIVE, rate=POSITIVE)
def test_shares_are_times(flops: float, moved: float, seconds: float, dram: float, rate: float) -> None:
    """A share is the time that the roof alone would take over the time taken, and the nearest roof has the largest."""
    roofs = (Roof(kind="dram", source="report", rate=dram), Roof(kind="compute", source="report", rate=rate, precision="fp32"))
    point = read(RooflinePoint(case="a/b", flops=flops, precision="fp32", bytes=moved, seconds=seconds, source="declared"), roofs)
    assert point.shares["dram report"] == pytest.approx(moved / dram / seconds)
    assert point.shares["fp32 report"] == pytest.approx(flops / rate / seconds)
    assert point.bound_roof is not None
    assert point.shares[point.bound_roof] == max(point.shares.values())
    assert point.intensity is not None
    assert math.isclose(point.intensity * point.bytes_per_s, point.flops_per_s, rel_tol=1e-9)


@given(
    st.dictionaries(st.sampled_from(["fp32", "fp64", "tensor_bf16", "tensor_tf32"]), POSITIVE, min_size=1), st.floats(1.1, 100)
)
def test_a_faster_unit_never_binds_more(flops: dict[str, float], faster: float) -> None:
    """Whatever precision binds, raising the roof of the others does not change that."""
    roofs = tuple(Roof(kind="compute", source="report", rate=1e12, precision=name) for name in flops)
    binding = pure.binding_precision(flops, roofs)
    raised = tuple(roof if roof.precision == binding else roof.model_copy(update={"rate": roof.rate * faster}) for roof in roofs)
    assert pure.binding_precision(flops, raised) == binding


def test_words() -> None:
    """The words beside the lines name the rate, the unit and where it is from."""
    assert precision_text("tensor_bf16") == "BF16 tensor"
    assert slope_text(DRAM) == "copy 4.00 TB/s, measured"
    assert slope_text(Roof(kind="l2", source="report", rate=1e13)) == "L2 10.0 TB/s, report"
    half = [BF16, BF16.model_copy(update={"precision": "tensor_fp16"}), FP32]
    assert ceiling_text(half) == "800 TFLOP/s FP32, BF16, FP16 tensor, datasheet and measured"
    assert [intensity_text(value) for value in (None, 0.75, 12.34, 1365.3)] == ["–", "0.75", "12.3", "1365"]


def test_table() -> None:
    """A line for each roof and case, with the share of each roof and what binds; hostile names stay on their line."""
    workload = examples.WORKLOAD.model_copy(update={"flops": 60e9})
    points = [pure.declared("a/b", "head", workload, 1e-4), pure.declared(examples.HOSTILE, None, workload, 1e-4)]
    lines = roofline_lines(pure.roofline("a GPU", points, ROOFS, ["::error::pwned"]))
    assert lines[0] == "a GPU: 2 cases."
    (row,) = [line for line in lines if line.startswith("  a/b (head)")]
    assert "BF16 tensor 75 % measured; DRAM 17 % measured" in row
    assert "compute" in row
    assert lines[-1] == "Note: ::error::pwned"
    assert len(lines) == 1 + 4 + 3 + 1
    assert "\x1b" not in "".join(lines)


def test_empty() -> None:
    """A roofline without roofs and points is still a roofline."""
    assert roofline_lines(Roofline(device="a CPU"))[0] == "a CPU: 0 cases."
