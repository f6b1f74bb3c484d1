"""`ratchet profile --nsys`: what a recorded timeline shows of copies, gaps and overlap."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from ratchet.core.cli import main
from ratchet.core.errors import RecordError, UsageError
from ratchet.explain.ncu import ProfileError
from ratchet.explain.nsys import nsys_lines, read_nsys

KERNELS = [(1000, 2000, 7), (1500, 2500, 8), (6000, 8000, 7)]
COPIES = [(0, 1000, 7, 4_000_000, 1, 0, 2), (7000, 9000, 9, 2_000_000, 2, 2, 1), (2500, 2600, 7, 10, 8, 2, 2)]
"""Start and end in ns and the stream; of copies also bytes, kind, source and target: pageable, to pinned, on the GPU."""


def export(path: Path, kernels: list[tuple[int, ...]], copies: list[tuple[int, ...]]) -> Path:
    """Write the tables that nsys writes; where nothing of a kind was recorded, it writes none."""
    file = sqlite3.connect(path)
    if kernels:
        file.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, streamId, shortName)")
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1)", kernels)
    if copies:
        file.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, streamId, bytes, copyKind, srcKind, dstKind)")
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?, ?, ?, ?)", copies)
    file.execute("CREATE TABLE StringIds (id, value)")
    file.commit()
    file.close()
    return path


def test_copies_gaps_and_overlap_are_those_of_the_timeline(tmp_path: Path) -> None:
    """By hand: kernels run 1.5 + 2 µs, copies 1 + 2 + 0.1 µs, 1 µs of both; nothing runs from 2.6 to 6 µs."""
    found = read_nsys(export(tmp_path / "a.sqlite", KERNELS, COPIES), {})
    assert (found.kernels, found.streams) == (3, 3)
    times = (found.wall_s, found.busy_s, found.copy_s, found.overlap_s, found.idle_s, found.longest_gap_s)
    assert times == pytest.approx((9e-6, 3.5e-6, 3.1e-6, 1e-6, 3.4e-6, 3.4e-6))
    assert {(one.direction, one.memory, one.count, one.bytes) for one in found.copies} == {
        ("to the GPU", "pageable", 1, 4_000_000),
        ("from the GPU", "pinned", 1, 2_000_000),
        ("on the GPU", "device", 1, 10),
    }
    lines = list(nsys_lines(found))
    assert any("1 copy to the GPU, pageable memory" in line and "pin it" in line for line in lines)
    assert sum("pin it" in line for line in lines) == 1
    assert any("does nothing for 3.400 µs (38 %)" in line for line in lines), lines
    assert lines[-1] == "  Overlap: kernels run during 32 % of the time of copies."


def test_kernels_alone_and_copies_alone(tmp_path: Path) -> None:
    """A table that is not there holds nothing."""
    alone = read_nsys(export(tmp_path / "k.sqlite", KERNELS, []), {})
    assert (alone.copies, alone.copy_s, alone.overlap_s) == ((), 0, 0)
    assert read_nsys(export(tmp_path / "c.sqlite", [], COPIES), {}).busy_s == 0
    with pytest.raises(RecordError, match="neither kernels nor copies"):
        read_nsys(export(tmp_path / "n.sqlite", [], []), {})


def test_files_that_are_no_timeline(tmp_path: Path) -> None:
    """One sentence each."""
    text = tmp_path / "text.sqlite"
    text.write_text("hello", encoding="utf-8")
    with pytest.raises(RecordError, match="cannot be read: file is not a database"):
        read_nsys(text, {})
    with pytest.raises(RecordError, match="does not exist"):
        read_nsys(tmp_path / "none.sqlite", {})
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"x")
    with pytest.raises(UsageError, match="needs nsys, which is not on the PATH"):
        read_nsys(report, {"PATH": str(tmp_path)})


@pytest.mark.parametrize("works", [True, False])
def test_a_report_is_exported_by_nsys(works: bool, tmp_path: Path) -> None:
    """What the program exports is read; what it says where it fails is passed on."""
    ready = export(tmp_path / "ready.sqlite", KERNELS, COPIES)
    program = tmp_path / "nsys"
    copy = f"shutil.copy({str(ready)!r}, sys.argv[sys.argv.index('--output') + 1])"
    body = copy if works else "print('The report is damaged')"
    program.write_text(f"#!{sys.executable}\nimport shutil, sys\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"x")
    if works:
        assert read_nsys(report, {"PATH": str(tmp_path)}).source == str(report)
        return
    with pytest.raises(ProfileError, match="The report is damaged"):
        read_nsys(report, {"PATH": str(tmp_path)})


def test_the_command_reads_files_and_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`profile --nsys --read FILE` needs no GPU; without nsys a case gets one sentence; a commit is refused."""
    path = export(tmp_path / "a.sqlite", KERNELS, COPIES)
    assert main(["profile", "--nsys", "--read", str(path)]) == 0
    assert "Overlap: kernels run during 32 %" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["profile", "--nsys", "norm", "--repo", str(tmp_path)]) == 2
    assert "nsys is not on the PATH. Install Nsight Systems" in capsys.readouterr().err
    assert main(["profile", "--nsys", "norm", "--compare"]) == 2
