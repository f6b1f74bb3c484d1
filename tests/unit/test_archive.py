"""Reading samples from a NumPy archive."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratchet.core.errors import Exit, RecordError
from ratchet.core.judge.evidence import session_of
from ratchet.core.records.run import Policy, RunRecord
from ratchet.trust import archive
from ratchet.trust.archive import run_of_archive

RECORDED = Path(__file__).parents[1] / "data" / "h200_paired.npz"
TIMES = np.full((3, 2, 4), 0.25, dtype=np.float32)


def run(path: Path) -> RunRecord:
    return run_of_archive(path, Policy())


def refused(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        run(path)
    assert caught.value.exit_code is Exit.USAGE
    assert "\n" not in str(caught.value)
    assert str(path) in caught.value.message
    return str(caught.value)


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "times.npz"
    np.savez(path, **arrays)
    return path


def test_recorded_archive() -> None:
    """Every case of the recorded archive has both sides: pairs of processes that are those of several sessions."""
    found = {case.name: case for case in run(RECORDED).cases}
    assert {"copy", "copy+2.0", "warm:attn_512"} <= set(found)
    for side, workers in (("A", found["copy"].reference), ("B", found["copy"].head)):
        samples = [[block.samples_ms for block in worker.blocks] for worker in workers]
        assert np.array_equal(samples, np.load(RECORDED)[f"copy|{side}"].astype(np.float64))
        assert [worker.session for worker in workers] == [session_of(pair) for pair in range(6)]


def test_a_case_may_be_called_anything(tmp_path: Path) -> None:
    """Only the last bar parts a name from its side."""
    assert [case.name for case in run(saved(tmp_path, **{"a|b/c d=1|A": TIMES, "a|b/c d=1|B": TIMES})).cases] == ["a|b/c d=1"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.25, 1e-12, 1e9])
@pytest.mark.parametrize("side", ["A", "B"])
def test_values_that_are_no_times(tmp_path: Path, value: float, side: str) -> None:
    """One sample that is no time spoils its array, which is named."""
    wrong = TIMES.astype(np.float64)
    wrong[1, 1, 2] = value
    said = refused(saved(tmp_path, **{"copy|A": TIMES, "copy|B": TIMES, f"copy|{side}": wrong}))
    assert f"'copy|{side}' holds {value:g}, which is not a time" in said


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "holds no arrays"),
        ({"copy|A": TIMES}, "'copy|A' has no partner 'copy|B'"),
        ({"copy|B": TIMES}, "'copy|B' has no partner 'copy|A'"),
        ({"copy": TIMES}, "'copy' is called neither"),
        ({"copy|C": TIMES}, "'copy|C' is called neither"),
        ({"|A": TIMES, "|B": TIMES}, "'|A' is called neither"),
        ({"copy|A": TIMES, "copy|B": TIMES[:2]}, "'copy' have shapes (3, 2, 4) and (2, 2, 4)"),
        ({"copy|A": TIMES[0], "copy|B": TIMES[0]}, "'copy|A' has the shape (2, 4)"),
        ({"copy|A": TIMES[:0], "copy|B": TIMES[:0]}, "'copy|A' has the shape (0, 2, 4)"),
        ({"copy|A": TIMES, "copy|B": np.array(0.25)}, "'copy|B' has the shape ()"),
        ({"copy|A": TIMES, "copy|B": np.ones((3, 2, 4), dtype=int)}, "'copy|B' does not hold floats"),
        ({"copy|A": TIMES, "copy|B": TIMES.astype(str)}, "'copy|B' does not hold floats"),
        ({"copy|A": TIMES, "copy|B": np.array([{"a": 1}], dtype=object)}, "'copy|B' is damaged, or does not hold numbers"),
        ({"x" * 300: TIMES}, "xxx… is called neither"),
        ({"copy\n\x1b[31m": TIMES}, r"'copy\n\x1b[31m' is called neither"),
    ],
)
def test_wrong_layouts(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    """What does not fit the layout is refused in one line that names the array; nothing is unpickled."""
    assert words in refused(saved(tmp_path, **arrays))


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    """No file, a folder, another format, an empty file, a bare array: one sentence each."""
    assert "does not exist" in refused(tmp_path / "nowhere.npz")
    assert "Is a directory" in refused(tmp_path)
    bare = io.BytesIO()
    np.save(bare, TIMES)
    for content in (b"", b"{}", bare.getvalue(), b"\x80\x04K\x01.", b"PK\x05\x06"):
        path = tmp_path / "times.npz"
        path.write_bytes(content)
        assert "is not a NumPy archive" in refused(path)


def test_members_that_are_no_arrays(tmp_path: Path) -> None:
    """A zip of something else has no arrays to offer, whatever its members are called."""
    path = tmp_path / "times.npz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("copy|A", "text")
        packed.writestr("copy|B", "text")
    assert "'copy|A' does not hold floats" in refused(path)


@pytest.mark.parametrize("name", ["copy|B", "copy|B.npy"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice(tmp_path: Path, name: str) -> None:
    """Nobody knows which of them is meant."""
    path = saved(tmp_path, **{"copy|A": TIMES, "copy|B": TIMES})
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr(name, packed.read("copy|A.npy"))
    assert "holds the array 'copy|B' twice" in refused(path)


@pytest.mark.parametrize("shape", ["(8, 2, 2(, }", "(8, 2, ", "(9999999999,)}", "(True, 2, 2}"])
def test_hostile_headers(tmp_path: Path, shape: str) -> None:
    """A header that is no Python, cut off or larger than its file is refused, and nothing of it is run."""
    good = io.BytesIO()
    np.save(good, np.ones((8, 2, 2)))
    path = tmp_path / "times.npz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("copy|A.npy", good.getvalue().replace(b"(8, 2, 2), }", shape.ljust(12).encode()))
        packed.writestr("copy|B.npy", good.getvalue())
    assert str(path) in refused(path)


def test_an_archive_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that would fill the memory is refused before it is unpacked."""
    monkeypatch.setattr(archive, "LARGEST_BYTES", 1000)
    path = tmp_path / "times.npz"
    np.savez_compressed(path, **{"copy|A": np.ones((10, 10, 10))})
    assert "too much to be samples" in refused(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_archives(tmp_path: Path, data: st.DataObject) -> None:
    """A file cut short or with bytes changed anywhere is read or refused, and never ends in another error."""
    whole = bytearray(saved(tmp_path, **{"copy|A": TIMES, "copy|B": TIMES}).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.npz"
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with contextlib.suppress(RecordError):
        run(path)
