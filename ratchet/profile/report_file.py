"""Check that a file is a complete report of Nsight Compute. ncu's own module reads half a file without an error.

`ratchet.profile.readers` calls it before any reader. Reads one file and touches nothing else.

A report is ``NVR`` and a zero byte, a header with the version of the format, then blocks: the length of a block's header, the
header, and as many bytes of payload as that says; lengths have four bytes, the lowest first, and headers are protocol buffers.
(Nsight Compute, ``extras/FileFormat``.)
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ratchet.errors import RecordError

LARGEST_BYTES = 2 * 2**30
KNOWN_FORMAT = 7
"""The format of Nsight Compute 2025.3."""
_MAGIC = b"NVR\0"
_FORMAT, _SESSION, PAYLOAD_SIZE, _SOFTWARE = 1, 3, 5, 8
"""Numbers of fields in the headers."""
_LARGEST_HEADER = 64 * 2**20
"""Bytes that are read of a header at most: a damaged length can claim 4 GiB."""
_AGAIN = "Copy it again from where it was recorded, or profile again."


@dataclass(frozen=True)
class About:
    """Versions that a report names."""

    format_version: int
    tool_version: str | None


def ordinary(path: Path) -> int:
    """Return the size of an ordinary, readable file in bytes. Raises RecordError for others, and above `LARGEST_BYTES`."""
    try:
        status = path.stat()
        with path.open("rb") if stat.S_ISREG(status.st_mode) else open(os.devnull, "rb"):  # noqa: PTH123 - a fifo would block
            pass
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist.", "Check the path, or profile first.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RecordError(f"{path} cannot be read: {why}.", "Check the path and its permissions.") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a special file"
        raise RecordError(f"{path} is {kind}, not a report.", "Give the path of one .ncu-rep file.")
    if status.st_size == 0:
        raise RecordError(f"{path} is empty.", _AGAIN)
    if status.st_size > LARGEST_BYTES:
        raise RecordError(f"{path} is larger than 2 GiB.", "Profile fewer launches: ncu --launch-count.")
    return status.st_size


def examine(path: Path) -> About:
    """Walk through the blocks of a report. Raises RecordError where it is not one, is cut off, or goes on where it should end."""
    size = ordinary(path)
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise RecordError(
                f"{path} is not a report of Nsight Compute.", "Reports end in .ncu-rep; ncu writes them with --export."
            )
        try:
            version = number(_header(stream), _FORMAT)
            if not version:
                raise EOFError
            names = [name for header in _blocks(stream, size) if (name := _tool_version(header))]
        except (EOFError, IndexError, struct.error):
            raise RecordError(f"{path} is cut off or damaged: it ends within a block.", _AGAIN) from None
    return About(version, names[0] if names else None)


def _blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while (place := stream.tell()) < size:
        header = _header(stream)
        payload = number(header, PAYLOAD_SIZE)
        if stream.tell() + payload > size:
            raise EOFError(place)
        stream.seek(payload, os.SEEK_CUR)
        yield header


def _header(stream: BinaryIO) -> bytes:
    (length,) = struct.unpack("<I", stream.read(4))
    header = stream.read(min(length, _LARGEST_HEADER))
    if len(header) < length:
        raise EOFError
    return header


def _tool_version(header: bytes) -> str | None:
    """Return the version of ncu (``2025.3.1.0``) from the list of software in the session's details."""
    for session in _values(header, _SESSION):
        for software in _values(session, _SOFTWARE):
            name, value = (next(iter(_values(software, field)), b"") for field in (1, 2))
            if name.startswith(b"Nsight Compute"):
                return value.decode("utf-8", "replace").split(" ")[0][:40] or None
    return None


def number(message: bytes, field: int) -> int:
    """Return a number in a header, 0 where it is not given."""
    return next((value for number, value in _fields(message) if number == field and isinstance(value, int)), 0)


def _values(message: bytes, field: int) -> list[bytes]:
    return [value for number, value in _fields(message) if number == field and isinstance(value, bytes)]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffer, one level deep. Raises IndexError or EOFError where the bytes are not one."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        length, place = _varint(message, place) if kind == 2 else ({1: 8, 5: 4}.get(kind, len(message) + 1), place)
        if place + length > len(message):
            raise EOFError
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise EOFError
