"""Read a report file of Nsight Compute into a `Profile`, with NVIDIA's module ``ncu_report``. No GPU is needed.

Called by `ratchet.explain` for reports that a check recorded and for ``--read``. Reads one file in a child process, once
`examine` has seen that the file is complete.
"""

from __future__ import annotations

import importlib.util
import math
import os
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from ratchet.core.errors import RecordError
from ratchet.core.records.files import reading
from ratchet.core.records.profile import Profile
from ratchet.core.untrusted import clean
from ratchet.explain.metrics import RawKernel, kernel_profile
from ratchet.explain.ncu import ProfileError, Surroundings, last_line, newest, run, signal_name
from ratchet.explain.ncu_child import NO_MODULE

_COMPRESSED = ".ncu-repz"
_TEMPORARY = "derived_tempMetric"
"""Start of names of metrics that the rules of ncu leave behind; sometimes NaN, and no figure uses them."""
_VERSION = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")
_RATIOS = (".ratio", ".pct", "_pct", ".max_rate")
"""Ends of names of ratios, which are NaN where nothing was counted: zero divided by zero."""


def read(path: Path, environ: Mapping[str, str] | None = None) -> Profile:
    """Return the kernels of a ``.ncu-rep`` of any kernel, chip and version.

    Raises RecordError where the file is missing, damaged, not a report or without a kernel, ProfileError where a counter is not a
    number or the module is not installed.
    """
    size = ordinary(path)
    version = None if path.suffix.lower() == _COMPRESSED else examine(path, size)
    kernels = _launches(path, os.environ if environ is None else environ)
    if not kernels:
        hint = "Check ncu's --kernel-name and --launch-count. For reports of a newer ncu: pip install --upgrade ncu-report."
        raise RecordError(f"{path} holds no kernel.", hint)
    finite = [_finite(path, kernel) for kernel in kernels]
    try:
        records = tuple(kernel_profile(kernel, index) for index, kernel in enumerate(finite))
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors()[0]["loc"])
        raise ProfileError(f"{path} holds an impossible figure: {place} of a kernel.", "Profile it once more.") from None
    first = finite[0]
    sm_count = first.metrics.get("launch__sm_count", first.metrics.get("device__attribute_multiprocessor_count"))
    return Profile(
        tool="ncu",
        tool_version=version,
        reader="ncu_report",
        gpu=first.texts.get("device__attribute_display_name"),
        compute_capability=_capability(first.metrics),
        sm_count=None if sm_count is None else round(sm_count),
        kernels=records,
    )


def _finite(path: Path, kernel: RawKernel) -> RawKernel:
    """Drop ratios of nothing. Raises ProfileError where a counter itself is not a number: then the rest is unreliable too."""
    wrong = [name for name, value in kernel.metrics.items() if not math.isfinite(value)]
    for name in wrong:
        if not name.startswith(_TEMPORARY) and not name.endswith(_RATIOS):
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise ProfileError(
                f"{path}: the counter {clean(name, 120)} of {clean(kernel.name, 80)} is not a number{more}.",
                "Profile it once more, with nothing else on the GPU.",
            )
    kept = {name: value for name, value in kernel.metrics.items() if name not in wrong and not name.startswith(_TEMPORARY)}
    return kernel.model_copy(update={"metrics": kept})


def _capability(metrics: Mapping[str, float]) -> str | None:
    major, minor = (metrics.get(name) for name in _VERSION)
    return None if major is None or minor is None else f"{major:.0f}.{minor:.0f}"


# Nsight Compute's Python module: the package ``ncu-report``, else the copy in an installation of Nsight Compute. It runs in a
# child process (`ncu_child`), which writes JSON to a temporary folder. (Nsight Compute, Python Report Interface.)

TIME_LIMIT_S = 120.0
"""Time in which the module reads a report. A hundred launches take a few seconds."""
_CHILD = Path(__file__).with_name("ncu_child.py")
_AGAIN = "Copy it again from where it was recorded, or profile again."


def installed_modules() -> list[Path]:
    """Return the folders in which NVIDIA's installers put the module, the newest first."""
    return [*newest(Path("/opt/nvidia/nsight-compute"), "*/extras/python"), *newest(Path("/usr/local"), "cuda*/*/extras/python")]


def need_module() -> None:
    """Raise ProfileError where this machine has no module."""
    if importlib.util.find_spec("ncu_report") is None and not installed_modules():
        raise _no_module()


def _no_module() -> ProfileError:
    what = "The package ncu-report, which reads the reports of ncu, is not installed."
    return ProfileError(what, "Install it with `pip install 'gpu-ratchet[profile]'`; it needs no GPU.")


def _launches(path: Path, environ: Mapping[str, str]) -> list[RawKernel]:
    """Return the launches of a report.

    Raises ProfileError where the module is missing, RecordError where it crashes, hangs or fails over the file.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-report-") as scratch:
        output = Path(scratch) / "report.json"
        command: list[str | Path] = [sys.executable, "-P", _CHILD, path.resolve(), output]
        folders = [environ.get("PYTHONPATH", ""), *map(str, installed_modules())]
        paths = {**environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
        ended = run(command, Surroundings(paths, Path(scratch), TIME_LIMIT_S))
        if ended.status == NO_MODULE:
            raise _no_module()
        if ended.status is None:
            raise RecordError(f"{path} could not be read within {TIME_LIMIT_S:.0f} s: it is damaged, or far too large.", _AGAIN)
        if ended.status < 0:
            raise RecordError(
                f"{path} is damaged: Nsight Compute's module crashed over it ({signal_name(ended.status)}).", _AGAIN
            )
        if ended.status > 0:
            raise RecordError(f"{path} is not a report that Nsight Compute's module can read: {last_line(ended)}", _AGAIN)
        try:
            with output.open(encoding="utf-8") as lines:
                return [RawKernel.model_validate_json(line) for line in lines]
        except (OSError, ValueError):
            raise RecordError(f"{path} is damaged: what Nsight Compute's module reads in it makes no sense.", _AGAIN) from None


# Whether a file is a complete report of Nsight Compute: ncu's own module reads half a file without an error. A report is ``NVR``
# and a zero byte, a header with the version of the format, then blocks: the length of a block's header, the header, and as many
# bytes of payload as that says; lengths have four bytes, the lowest first, and headers are protocol buffers. (Nsight Compute,
# ``extras/FileFormat``.)

LARGEST_REPORT_BYTES = 2 * 2**30
_MAGIC = b"NVR\0"
_FORMAT, _SESSION, PAYLOAD_SIZE, _SOFTWARE = 1, 3, 5, 8
"""Numbers of fields in the headers."""
_LARGEST_HEADER = 64 * 2**20
"""Bytes that are read of a header at most: a damaged length can claim 4 GiB."""


def ordinary(path: Path) -> int:
    """Return the size of an ordinary, readable file in bytes. Raises RecordError for others, and above 2 GiB."""
    with reading(path, "Check the path, or profile first."):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):  # opening a pipe would block
            path.open("rb").close()
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a special file"
        raise RecordError(f"{path} is {kind}, not a report.", "Give the path of one .ncu-rep file.")
    if status.st_size == 0:
        raise RecordError(f"{path} is empty.", _AGAIN)
    if status.st_size > LARGEST_REPORT_BYTES:
        raise RecordError(f"{path} is larger than 2 GiB.", "Profile fewer launches: ncu --launch-count.")
    return status.st_size


def examine(path: Path, size: int) -> str | None:
    """Walk through the blocks of a report of so many bytes. Return the version of ncu, where one names it.

    Raises RecordError where it is no report, is cut off, or goes on where it should end.
    """
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise RecordError(
                f"{path} is not a report of Nsight Compute.", "Reports end in .ncu-rep; ncu writes them with --export."
            )
        try:
            if not number(_header(stream), _FORMAT):
                raise EOFError
            names = [name for header in _blocks(stream, size) if (name := _tool_version(header))]
        except (EOFError, IndexError, struct.error):
            raise RecordError(f"{path} is cut off or damaged: it ends within a block.", _AGAIN) from None
    return next(iter(names), None)


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
