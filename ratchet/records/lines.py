"""Records, one a line, in a file that only grows: `ratchet soak` keeps each decision as soon as it is made.

A line is written in one piece and flushed to the disk, so a kill costs at most the line under way; `load_lines` leaves a last
line without an end out. Touches the named files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ratchet.errors import OutputError, RecordError
from ratchet.records.base import Record

AnyRecord = TypeVar("AnyRecord", bound=Record)


def append_line(path: Path, record: Record) -> None:
    """Add a record at the end of a file, which is created if needed. Raises OutputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            cut = b"" if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else b"\n"  # after a kill, or a full disk
            os.write(descriptor, cut + record.model_dump_json(exclude_none=True).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}.", "Check its folder's permissions and the free space."
        ) from error


def load_lines(path: Path, record_type: type[AnyRecord]) -> list[AnyRecord]:
    """Return all records of a file; a line that was cut off is left out. Raises RecordError for one that is wrong."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}.", "Check the path and its permissions.") from error
    records = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            records.append(record_type.model_validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "json_invalid":  # cut off by a kill; the next line was begun anew
                continue
            field = ".".join(map(str, first["loc"]))
            message = f"{path}, line {number}: {field}: {first['msg']}."
            raise RecordError(message, "Restore the file, or delete the line.") from None
    return records
