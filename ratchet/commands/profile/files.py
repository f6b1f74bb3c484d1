"""Files of a profile folder: their names, their index, their CSV."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ratchet.errors import OutputError, RecordError
from ratchet.records.files import load, replaced, save, save_text
from ratchet.records.profile import CaseProfile, Profile, Profiles
from ratchet.records.run import Side
from ratchet.untrusted import clean

FOLDER, INDEX = "nsight", "profiles.json"


SIDES: tuple[Side, ...] = ("reference", "head")


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]")


_OF_A_CASE = (*(f"{side}.{kind}" for side in SIDES for kind in ("ncu-rep", "nsys-rep")), "csv", "png", "svg")


def stem_of(case: str) -> str:
    """``attention/training_512`` → ``attention.training_512``; whatever else a name holds, a plain file name."""
    return _NOT_IN_NAMES.sub("_", case.replace("/", ".")).lstrip(".")[:150] or "case"


def clear(folder: Path, case: str) -> None:
    """Remove what an earlier run left of this case. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending in _OF_A_CASE:
            (folder / f"{stem_of(case)}.{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}.", "Check its permissions.") from None


def keep(source: Path, folder: Path, name: str) -> Path:
    """Copy a file into the folder, whole or not at all; returns its place. Raises OutputError."""
    with replaced(folder / name) as temporary:
        shutil.copyfile(source, temporary)
    return folder / name


def write_metrics(path: Path, sides: Mapping[Side, Profile]) -> bool:
    """Every metric of both sides, one a line; False where there is none, and then no file. Raises OutputError."""
    rows = [
        (side, kernel.index, _cell(kernel.name), _cell(metric), repr(value))
        for side in SIDES
        if side in sides
        for kernel in sides[side].kernels
        for metric, value in sorted(kernel.metrics.items())
    ]
    if rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("side", "launch", "kernel", "metric", "value"), *rows])
        save_text(path, text.getvalue())
    return bool(rows)


def read_index(folder: Path) -> Profiles:
    """The profiles that are there; none where the file is missing or was written by something else."""
    path = folder / INDEX
    try:
        return load(path, Profiles) if path.exists() else Profiles()
    except RecordError:
        return Profiles()


def add_to_index(folder: Path, fresh: Iterable[CaseProfile]) -> None:
    """Put the fresh profiles in the place of those of the same cases; the others stay. Raises OutputError."""
    by_case = {each.case: each for each in (*read_index(folder).profiles, *fresh)}
    save(folder / INDEX, Profiles(profiles=tuple(by_case.values())))


def _cell(text: str) -> str:
    """Text of others for a table: a spreadsheet takes what begins so for a formula."""
    shown = clean(text, 1000)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
