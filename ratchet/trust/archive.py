"""Samples of paired processes in a NumPy archive, as other collections keep them: ``CASE|A`` and ``CASE|B``.

``ratchet compare --replay`` reads such a file with `load_archive`. Reads the named file and nothing else; never unpickles.
"""

from __future__ import annotations

import contextlib
import lzma
import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ratchet.core.errors import RecordError
from ratchet.core.records.files import LARGEST_BYTES, reading

SHORTEST_MS, LONGEST_MS = 1e-9, 1e9
"""Limits of a sample, as in records of runs."""
_LAYOUT = "Write CASE|A and CASE|B for every case: floats of shape (pairs, blocks, samples), in milliseconds."
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, EOFError, AssertionError,
    AttributeError, IndexError, KeyError, OverflowError, RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Errors that zipfile and numpy raise on a damaged file, a foreign one, an encrypted one, or one of pickled objects."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ArchivedCase:
    """Milliseconds of one case, (pairs, blocks, samples), the same shape on both sides: ``CASE|A`` is the reference."""

    reference: Floats
    head: Floats


def load_archive(path: Path) -> dict[str, ArchivedCase]:
    """Map each case to its samples. Nothing in the file is ever unpickled.

    Raises RecordError naming the file and the array where the file is missing, too large, damaged, empty or not an archive, and
    where an array has no partner, another shape than its partner, not three dimensions, or values that are not times.
    """
    with warnings.catch_warnings(action="ignore"), _opened(path) as archive:  # numpy warns of a header that it has to repair
        names = [_name(path, key) for key in archive.files]
        if not names:
            raise RecordError(f"{path} holds no arrays.", _LAYOUT)
        return {name: _sides(path, archive, name) for name in dict.fromkeys(names)}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    try:
        with reading(path):
            with zipfile.ZipFile(path) as packed:
                size = sum(member.file_size for member in packed.infolist())
            if size > LARGEST_BYTES:
                raise RecordError(f"{path} holds more than 256 MiB, too much to be samples.", "Check the path.")
            with np.load(path, allow_pickle=False) as archive:
                yield archive
    except _BROKEN:
        raise RecordError(f"{path} is not a NumPy archive, or is damaged.", "Save it again with numpy.savez.") from None


def _name(path: Path, key: str) -> str:
    name, bar, side = key.rpartition("|")
    if not (name and bar and side in ("A", "B")):
        raise RecordError(f"{path}: the array {_shown(key)} is called neither CASE|A nor CASE|B.", _LAYOUT)
    return name


def _sides(path: Path, archive: np.lib.npyio.NpzFile, name: str) -> ArchivedCase:
    for side, other in ("AB", "BA"):
        if f"{name}|{side}" not in archive.files:
            raise RecordError(f"{path}: {_shown(f'{name}|{other}')} has no partner {_shown(f'{name}|{side}')}.", _LAYOUT)
    reference, head = (_times(path, archive, f"{name}|{side}") for side in "AB")
    if reference.shape != head.shape:
        raise RecordError(f"{path}: the arrays of {_shown(name)} have shapes {reference.shape} and {head.shape}.", _LAYOUT)
    return ArchivedCase(reference, head)


def _times(path: Path, archive: np.lib.npyio.NpzFile, key: str) -> Floats:
    try:
        values = archive[key]
    except _BROKEN:
        raise RecordError(f"{path}: the array {_shown(key)} is damaged, or does not hold numbers.", _LAYOUT) from None
    except MemoryError:
        if _claimed_bytes(archive, key) <= LARGEST_BYTES:
            raise  # it is this machine that has too little
        raise RecordError(f"{path}: the array {_shown(key)} claims to be larger than its file.", _LAYOUT) from None
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        raise RecordError(f"{path}: the array {_shown(key)} does not hold floats.", _LAYOUT)
    if values.ndim != 3 or 0 in values.shape:
        raise RecordError(f"{path}: the array {_shown(key)} has the shape {values.shape}.", _LAYOUT)
    times = values.astype(np.float64)
    wrong = times[~((times >= SHORTEST_MS) & (times < LONGEST_MS))]  # NaN is neither
    if wrong.size:
        raise RecordError(f"{path}: the array {_shown(key)} holds {wrong[0]:g}, which is not a time in milliseconds.", _LAYOUT)
    return times


def _claimed_bytes(archive: np.lib.npyio.NpzFile, key: str) -> int:
    """Return the bytes that an array would take by its own header."""
    if archive.zip is None:  # for the type checker: it is open while arrays are read
        return 0
    with archive.zip.open(f"{key}.npy") as member:
        read = (
            np.lib.format.read_array_header_1_0
            if np.lib.format.read_magic(member)[0] == 1
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(member)
    return math.prod(shape) * dtype.itemsize


def _shown(key: str) -> str:
    """Return a name from the file, on one line and of bounded length."""
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:79]}…"
