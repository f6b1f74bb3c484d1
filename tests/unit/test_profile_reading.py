"""Report files → `Profile`: real ones, and what is no report, in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path

import pytest

from ratchet.core.errors import RatchetError, RecordError
from ratchet.core.records.profile import KernelProfile, Profile
from ratchet.explain import readers
from ratchet.explain.ncu import ProfileError
from ratchet.explain.readers import read

pytest.importorskip("ncu_report", reason="the reader comes with gpu-ratchet[profile]")
DATA = Path(__file__).parents[1] / "data" / "profiles"


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return read(unpacked("coalescing_bad.ncu-rep", tmp_path_factory.mktemp("bad")))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return unpacked("coalescing_bad.ncu-rep", tmp_path)


def figures(kernel: KernelProfile) -> dict[str, object]:
    return kernel.model_dump(exclude={"rules", "metrics", "stalls", "flops", "peaks"})


def test_the_slow_report(bad: Profile) -> None:
    """Every figure of the slow kernel is the one that the report holds, and those that follow from the code are exact."""
    assert (bad.tool, bad.reader, bad.tool_version) == ("ncu", "ncu_report", "2025.3.1.0")
    assert (bad.gpu, bad.compute_capability, bad.sm_count) == ("NVIDIA H200", "9.0", 132)
    (kernel,) = bad.kernels
    metrics = kernel.metrics
    assert figures(kernel) == {
        "name": "scale(const float *, float *)",
        "function": "scale",
        "index": 0,
        "grid": (128, 512, 1),
        "block": (32, 8, 1),
        "duration_s": 250912e-9,
        "sm_percent": metrics["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
        "memory_percent": metrics["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"],
        "dram_percent": metrics["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"],
        "l1_hit_percent": metrics["l1tex__t_sector_hit_rate.pct"],
        "l2_hit_percent": metrics["lts__t_sector_hit_rate.pct"],
        "tensor_percent": metrics["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"],
        "occupancy_percent": metrics["sm__warps_active.avg.pct_of_peak_sustained_active"],
        "occupancy_limit_percent": 100.0,
        "occupancy_limiter": "warps",
        "waves": 65536 / (132 * 8),
        "registers": 16,
        "shared_bytes": 1024,  # the driver's own
        "spill_bytes": 0.0,
        "load_sectors_per_request": 32.0,
        "store_sectors_per_request": pytest.approx(31.845, abs=1e-3),
        "coalesced_percent": 12.5,  # 4 of the 32 bytes of each sector
        "bank_conflicts": 0.0,
        "shared_wavefronts": 0.0,
        "dram_read_bytes": 67967488.0,
        "dram_write_bytes": 52471296.0,
        "instructions": 18.0 * 2**19,  # of 18 instructions and 2^24 threads in warps of 32
        "passes": 38,
    }


def test_operations_follow_from_the_code(bad: Profile) -> None:
    """A multiply-add a thread is two operations in float32, and the constant moved by a half-precision instruction is none."""
    (kernel,) = bad.kernels
    assert kernel.metrics["smsp__sass_thread_inst_executed_op_hfma_pred_on.sum.per_cycle_elapsed"] > 0
    assert {name: count for name, count in kernel.flops.items() if count} == {"fp32": 2.0 * 2**24}
    assert kernel.flops["fp16"] == 0.0


def test_peaks_of_the_report(bad: Profile) -> None:
    """The report's own peaks are the chip's units times its clocks: 132 SMs with 4096 dense bf16 operations a cycle."""
    (kernel,) = bad.kernels
    sm_clock = kernel.metrics["sm__cycles_elapsed.avg.per_second"]
    dram_clock = kernel.metrics["dram__cycles_elapsed.avg.per_second"]
    assert kernel.peaks.dram_bytes_per_s == pytest.approx(1504 * dram_clock)
    expected = {"fp64": 128, "fp32": 256, "fp16": 512, "tensor_fp64": 256, "tensor_tf32": 2048, "tensor_fp16": 4096}
    expected |= {"tensor_bf16": 4096, "tensor_fp8": 8192}
    assert kernel.peaks.flops_per_s == pytest.approx({name: 132 * rate * sm_clock for name, rate in expected.items()}, rel=0.02)


def test_rules_are_ranked_and_readable(bad: Profile) -> None:
    """Nsight Compute's own first sentence is about uncoalesced accesses, without the marks of its links."""
    rules = bad.kernels[0].rules
    assert (rules[0].name, rules[0].scope) == ("UncoalescedGlobalAccess", "global")
    assert rules[0].speedup_percent == pytest.approx(86.83, abs=0.01)
    assert not any("@" in rule.message for rule in rules)
    assert any("Programming Guide (https://docs.nvidia.com" in rule.message for rule in rules)


def test_what_was_not_collected_is_absent(bad: Profile) -> None:
    """A metric that was asked for and never counted is no 0, which Nsight Compute's module says of it."""
    assert "FBSP.TriageCompute.dramc__throughput.avg.pct_of_peak_sustained_elapsed" not in bad.kernels[0].metrics


def changed(report: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """Have the module give another value of one metric."""
    launches = readers._launches(report, os.environ)
    others = [one.model_copy(update={"metrics": {**one.metrics, name: value}}) for one in launches]
    monkeypatch.setattr(readers, "_launches", lambda *_: others)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("dram__bytes_read.sum", float("nan"), r"the counter dram__bytes_read\.sum of scale\(.*\) is not a number"),
        ("launch__waves_per_multiprocessor", -1, "an impossible figure: waves"),
    ],
)
def test_a_figure_that_cannot_be(report: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float, sentence: str) -> None:
    """A counter that is not a number, or below zero, is refused by its name, and nothing is made of the others."""
    changed(report, monkeypatch, name, value)
    with pytest.raises(ProfileError, match=sentence):
        read(report)


def test_a_ratio_of_nothing(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of nothing out of nothing is absent."""
    changed(report, monkeypatch, "l1tex__t_sector_hit_rate.pct", float("nan"))
    assert read(report).kernels[0].l1_hit_percent is None


@pytest.mark.parametrize("share", [0.00001, 0.5, 0.9999])
def test_a_truncated_report(share: float, report: Path) -> None:
    """Half a report is refused wherever it ends, though Nsight Compute's module may read it without a word."""
    content = report.read_bytes()
    report.write_bytes(content[: max(5, int(len(content) * share))])
    with pytest.raises(RecordError, match="is cut off or damaged"):
        read(report)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something else", "is not a report of Nsight Compute"),
        (b"NVR\0", "is cut off or damaged"),
        (b"NVR\0" + bytes(3000), "is cut off or damaged"),
        (b"NVR\0" + b"\xff" * 3000, "is cut off or damaged"),
        (b"NVR\0\x02\0\0\0\x08\x07", "holds no kernel"),
    ],
)
def test_files_that_are_no_report(content: bytes, sentence: str, tmp_path: Path) -> None:
    """An empty, foreign, damaged or empty-handed report gives one sentence, and what to do."""
    path = tmp_path / "some.ncu-rep"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=sentence) as caught:
        read(path)
    assert caught.value.hint


def test_records_of_nsight_systems_still_load() -> None:
    """Earlier releases ran nsys, and their records are read."""
    activity = {"calls": 1, "wall_s": 1e-5, "kernels": {"gemm": 9e-6}, "queued_s": 3e-6}
    older = Profile.model_validate({"tool": "nsys", "reader": "nsys stats", "activity": activity})
    assert older.activity.queued_s == 3e-6


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe are refused before anything opens them."""
    os.mkfifo(tmp_path / "pipe.ncu-rep")
    (tmp_path / "folder.ncu-rep").mkdir()
    for name, sentence in (
        ("none.ncu-rep", "does not exist"),
        ("folder.ncu-rep", "a folder"),
        ("pipe.ncu-rep", "a special file"),
    ):
        with pytest.raises(RecordError, match=sentence):
            read(tmp_path / name)


def test_a_huge_file(tmp_path: Path) -> None:
    """A file of terabytes is refused by its size."""
    path = tmp_path / "huge.ncu-rep"
    with path.open("wb") as stream:
        stream.truncate(2**41)
    with pytest.raises(RecordError, match="larger than 2 GiB"):
        read(path)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_bytes(seed: int, report: Path) -> None:
    """Whatever a byte in the middle of a report was turned into, it is read or refused with a sentence, and never a crash."""
    content = bytearray(report.read_bytes())
    for place in range(200_000 + seed, len(content), 9973):
        content[place] ^= 0xA5
    report.write_bytes(content)
    with contextlib.suppress(RatchetError):
        assert read(report).kernels
