"""Files of an artifact by name: a folder or a zip archive of somebody who may have written every byte of it.

`ratchet.forge.artifact` opens one with `folder_of` or `archive_of` and reads the files that it wants. All names, kinds, numbers
and sizes are checked before anything is read; no link is followed; nothing is unpacked but what is read. Writes nothing.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ratchet.errors import ArtifactError

MOST_ENTRIES = 2_000
MOST_BYTES = 2 * 2**30
"""Bytes of all files together, unpacked."""
LONGEST_NAME = 200
DEEPEST = 8
"""Folders within folders."""
LARGEST_RATIO = 400
"""Unpacked over packed size, for a file beyond a mebibyte: JSON of samples packs to a tenth."""
LARGEST_DIRECTORY = 2**20
"""Bytes of an archive's list of entries."""

_HINT = "Upload what `ratchet check` wrote, and nothing else; then measure again."
# One part of a path: not hidden (no leading dot), and nothing that a program reads as an option (no leading dash).
_PLAIN = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+ -]*")
_END, _END64 = b"PK\x05\x06", b"PK\x06\x07"
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)
"""Errors of zipfile on a damaged, foreign or encrypted archive."""


class Container(Protocol):
    """Files by name. Whoever makes one has checked all names, kinds and sizes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Relative name with slashes → bytes, as far as known before reading."""
        ...

    def read(self, name: str, most: int) -> bytes:
        """Return the content. Raises ArtifactError if it has more than ``most`` bytes."""
        ...


@dataclass(frozen=True)
class Folder:
    """Files on disk."""

    paths: Mapping[str, Path]
    sizes: Mapping[str, int]

    def read(self, name: str, most: int) -> bytes:
        """Return the content. Raises ArtifactError, also for more than ``most`` bytes."""
        return read_file(self.paths[name], name, most)


@dataclass(frozen=True)
class Archive:
    """A zip file, still packed."""

    path: Path
    sizes: Mapping[str, int]

    def read(self, name: str, most: int) -> bytes:
        """Unpack one file. Raises ArtifactError for a damaged archive, and for more than ``most`` bytes."""
        try:
            with zipfile.ZipFile(self.path) as packed, packed.open(name) as stream:
                content = stream.read(most + 1)
        except (*_BROKEN, OSError):
            raise ArtifactError(f"{name} cannot be unpacked: the archive is damaged.", _HINT) from None
        return _at_most(content, name, most)


def folder_of(root: Path) -> Folder:
    """Open a folder. Raises ArtifactError for links, devices, odd names, and more than may be."""
    try:
        sizes = _bounded(_walk(root))
    except OSError as error:
        raise ArtifactError(f"The artifact cannot be listed: {error.strerror or 'it changes'}.", _HINT) from None
    return Folder({name: root / name for name in sizes}, sizes)


def archive_of(path: Path) -> Archive:
    """Open an archive. Raises ArtifactError for what `folder_of` refuses, for encrypted or damaged archives, and for bombs."""
    try:
        _refuse_long_list(path)
        with zipfile.ZipFile(path) as packed:
            return Archive(path, _bounded(_list(packed)))
    except (*_BROKEN, OSError):
        raise ArtifactError("The artifact is not a zip archive, or is damaged.", _HINT) from None


def read_file(path: Path, name: str, most: int) -> bytes:
    """Read an ordinary file, never through a link. Raises ArtifactError, which calls it ``name``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor has no path
            _refuse_unless_ordinary(os.fstat(stream.fileno()), name)
            return _at_most(stream.read(most + 1), name, most)
    except OSError as error:
        raise ArtifactError(f"{name} cannot be read: {error.strerror or error}.", _HINT) from None


def _at_most(content: bytes, name: str, most: int) -> bytes:
    if len(content) > most:
        raise ArtifactError(f"{name} has more than {most // 2**20} MiB, so no run of ours wrote it.", _HINT)
    return content


def _walk(folder: Path, above: str = "", depth: int = 1) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = _safe(f"{above}{entry.name}")
            if entry.is_dir(follow_symlinks=False):
                if depth >= DEEPEST:
                    raise ArtifactError(f"The artifact has folders more than {DEEPEST} deep.", _HINT)
                yield f"{name}/", 0
                yield from _walk(Path(entry.path), f"{name}/", depth + 1)
            else:
                status = entry.stat(follow_symlinks=False)
                _refuse_unless_ordinary(status, name)
                yield name, status.st_size


def _refuse_unless_ordinary(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactError(f"{name} is not an ordinary file but a link, a pipe or a device.", _HINT)
    if status.st_nlink > 1:
        raise ArtifactError(f"{name} is a hard link to another file.", _HINT)


def _list(packed: zipfile.ZipFile) -> Iterator[tuple[str, int]]:
    for entry in packed.infolist():
        if entry.orig_filename != entry.filename or "\\" in entry.filename:
            raise ArtifactError("The archive has a name with a backslash or a null in it.", _HINT)
        name = _safe(entry.filename.removesuffix("/"))
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG):
            raise ArtifactError(f"{name} is not an ordinary file but a link, a pipe or a device.", _HINT)
        if entry.flag_bits & 1:
            raise ArtifactError(f"{name} is encrypted.", _HINT)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArtifactError(f"{name} is packed by a method that no upload uses.", _HINT)
        if entry.file_size > max(2**20, LARGEST_RATIO * entry.compress_size):
            raise ArtifactError(f"{name} unpacks to far more than it is packed to.", _HINT)
        yield (f"{name}/", 0) if entry.is_dir() else (name, entry.file_size)


def _bounded(entries: Iterator[tuple[str, int]]) -> dict[str, int]:
    """Return name → bytes of the files. Raises ArtifactError if there are too many."""
    sizes: dict[str, int] = {}
    total = 0
    for name, size in entries:
        if name in sizes:
            raise ArtifactError("The archive has one name twice.", _HINT)
        sizes[name] = size
        total += size
        if len(sizes) > MOST_ENTRIES:
            raise ArtifactError(f"The artifact has more than {MOST_ENTRIES} entries.", _HINT)
        if total > MOST_BYTES:
            raise ArtifactError(f"The artifact holds more than {MOST_BYTES // 2**30} GiB.", _HINT)
    return {name: size for name, size in sizes.items() if not name.endswith("/")}


def _safe(name: str) -> str:
    """Return the name if each part is a plain word: not `..`, not absolute, not hidden. Raises ArtifactError."""
    parts = name.split("/")
    fits = len(name) <= LONGEST_NAME and len(parts) <= DEEPEST + 1 and all(map(_PLAIN.fullmatch, parts))
    if not fits:
        raise ArtifactError(
            "The artifact has a name that no file of ours has: absolute, hidden, long, or of odd characters.", _HINT
        )
    return name


def _refuse_long_list(path: Path) -> None:
    """Check the archive's own count before anything reads its list of entries, which may claim a gigabyte."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        # The end record (22 bytes), a comment of at most 65,535 bytes after it, and the locator of zip64 (20 bytes) before it.
        stream.seek(max(0, size - 65_536 - 64))
        tail = stream.read()
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < 22:
        raise ArtifactError("The artifact is not a zip archive, or is cut off.", _HINT)
    entries, length = struct.unpack("<HI", tail[place + 10 : place + 16])
    if entries > MOST_ENTRIES or length > LARGEST_DIRECTORY or tail[max(0, place - 20) : place].startswith(_END64):
        raise ArtifactError(f"The artifact has more than {MOST_ENTRIES} entries.", _HINT)
