"""Samples of paired processes in a NumPy archive, as other collections keep them: ``CASE|A`` and ``CASE|B``.

``ratchet compare --replay`` reads such a file. Reads the named file and nothing else; never unpickles.
"""

from __future__ import annotations

import contextlib
import lzma
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ratchet.core.errors import RecordError
from ratchet.core.judge.evidence import session_of
from ratchet.core.records.environment import Environment, Fingerprint
from ratchet.core.records.files import LARGEST_BYTES, reading
from ratchet.core.records.run import Block, CaseRun, Config, Plan, Policy, RunRecord, Tree, WorkerSamples

SHORTEST_MS, LONGEST_MS = 1e-9, 1e9
"""Limits of a sample, as in records of runs."""
_LAYOUT = "Write CASE|A and CASE|B for every case: floats of shape (pairs, blocks, samples), in milliseconds."
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, EOFError, AssertionError,
    AttributeError, IndexError, KeyError, MemoryError, OverflowError, RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Errors that zipfile and numpy raise on a damaged file, a foreign one, an encrypted one, or one of pickled objects. MemoryError:
a header that claims more than its file holds."""
_UNKNOWN = "unknown"

Floats = NDArray[np.float64]


def run_of_archive(path: Path, policy: Policy) -> RunRecord:
    """Return the samples of an archive as a check of unknown code on an unknown machine. Nothing in it is ever unpickled.

    An archive does not say which hosts its pairs come from: they count as the sessions of a check. Raises RecordError naming the
    file and the array where the file is missing, too large, damaged, empty or not an archive, and where an array has no partner,
    another shape than its partner, not three dimensions, or values that are not times.
    """
    with warnings.catch_warnings(action="ignore"), _opened(path) as archive:  # numpy warns of a header that it has to repair
        names = dict.fromkeys(_name(path, key) for key in archive.files)
        if not names:
            raise RecordError(f"{path} holds no arrays.", _LAYOUT)
        if twins := [key for key, count in Counter(archive.files).items() if count > 1]:
            raise RecordError(f"{path} holds the array {_shown(twins[0])} twice.", _LAYOUT)
        cases = tuple(_case(name, *_sides(path, archive, name)) for name in names)
    fingerprint = Fingerprint(device="cpu", torch=_UNKNOWN, cpu=_UNKNOWN)
    pairs = max(len(case.head) for case in cases)
    return RunRecord(
        kind="check",
        started_at=datetime.fromtimestamp(path.stat().st_mtime, UTC),
        wall_s=0.0,
        command=("ratchet", "compare", "--replay", str(path)),
        environment=Environment(fingerprint=fingerprint, python=_UNKNOWN, platform=_UNKNOWN, ratchet=_UNKNOWN),
        plan=Plan(pairs=pairs, blocks=1, block_ms=1.0, seed=0, clock=_UNKNOWN, cache="warm"),
        policy=policy,
        head=Tree(commit=""),
        reference=Tree(commit=""),
        cases=cases,
    )


def _case(name: str, reference: Floats, head: Floats) -> CaseRun:
    benchmark, _, config = name.partition("/")
    return CaseRun(name=name, benchmark=benchmark, config=Config(name=config), head=_workers(head), reference=_workers(reference))


def _workers(samples: Floats) -> tuple[WorkerSamples, ...]:
    return tuple(
        WorkerSamples(
            pair=pair,
            started_first=True,
            blocks=tuple(Block(index=place, position=place, samples_ms=tuple(block)) for place, block in enumerate(blocks)),
            ready_s=0.0,
            peak_memory_bytes=0,
            error=0.0,
            session=session_of(pair),
        )
        for pair, blocks in enumerate(samples.tolist())
    )


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


def _sides(path: Path, archive: np.lib.npyio.NpzFile, name: str) -> tuple[Floats, Floats]:
    for side, other in ("AB", "BA"):
        if f"{name}|{side}" not in archive.files:
            raise RecordError(f"{path}: {_shown(f'{name}|{other}')} has no partner {_shown(f'{name}|{side}')}.", _LAYOUT)
    reference, head = (_times(path, archive, f"{name}|{side}") for side in "AB")
    if reference.shape != head.shape:
        raise RecordError(f"{path}: the arrays of {_shown(name)} have shapes {reference.shape} and {head.shape}.", _LAYOUT)
    return reference, head


def _times(path: Path, archive: np.lib.npyio.NpzFile, key: str) -> Floats:
    try:
        values = archive[key]
    except _BROKEN:
        raise RecordError(f"{path}: the array {_shown(key)} is damaged, or does not hold numbers.", _LAYOUT) from None
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        raise RecordError(f"{path}: the array {_shown(key)} does not hold floats.", _LAYOUT)
    if values.ndim != 3 or 0 in values.shape:
        raise RecordError(f"{path}: the array {_shown(key)} has the shape {values.shape}.", _LAYOUT)
    times = values.astype(np.float64)
    wrong = times[~((times >= SHORTEST_MS) & (times < LONGEST_MS))]  # NaN is neither
    if wrong.size:
        raise RecordError(f"{path}: the array {_shown(key)} holds {wrong[0]:g}, which is not a time in milliseconds.", _LAYOUT)
    return times


def _shown(key: str) -> str:
    """Return a name from the file, on one line and of bounded length."""
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:79]}…"
