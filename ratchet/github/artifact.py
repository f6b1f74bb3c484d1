"""Read the artifact of a job that ran untrusted code: records that may be judged, or one sentence why not.

Every trusted job reads artifacts here and nowhere else: `ratchet ci publish` and `ratchet ci push` by `take_in`, the job that
proposes tuned parameters by `take_in_tuning`. Whoever wrote the pull request may have written every byte. Only the files of
records are read: by plain names, within bounds, through no link, against a strict schema, with numbers that a measurement can
give. Writes copies of them, and starts a child process to read a large one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from ratchet import tools
from ratchet.core.errors import RecordError
from ratchet.core.processes import run
from ratchet.core.records import Record
from ratchet.core.records.files import AnyRecord, replaced
from ratchet.core.records.profile import CaseProfile, Profiles
from ratchet.core.records.run import CASE_NAME, Block, RunRecord, WorkerSamples
from ratchet.core.records.tuned import TUNING_FOLDER
from ratchet.core.units import first_of
from ratchet.github import reading_child
from ratchet.github.contradictions import MOST_CASES, with_own_figures
from ratchet.github.errors import ArtifactError

RUN, PROFILES, STATIC = "current.json", "nsight/profiles.json", "static.json"
STATIC_REPORT = "static_report.json"
"""The report of a job without a GPU."""
PLACES = ("", "results/")
"""Folders of an artifact in which the files of a run may be."""
TUNING = re.compile(rf"{TUNING_FOLDER}/[^/]+\.json")
LARGEST_PROFILES = 8 * 2**20
LARGEST_STATIC = 8 * 2**20
"""Bytes of a static record or report: a kernel takes about one KB, a case less."""
LARGEST_SEARCH = 4 * 2**20
"""Bytes of the record of a search, enough for eight thousand evaluations."""
LARGEST_TUNING, MOST_TUNING = 16 * 2**20, 50
"""Bytes of all records of searches together, and their number."""
LARGEST_NUMBER = 1e30
"""No figure of a run comes near; larger ones only break sums."""
LONGEST_TEXT = 10_000
"""Characters of one text of a record."""
MOST_TEXTS, MOST_CHARACTERS = 1_000_000, 2**24
"""Texts of one record, and characters of them all: a report may carry every one, and a character may take four bytes."""
QUICK = 256 * 2**10
"""Bytes. A smaller file is read without a child: it cannot hold enough faults to fill the memory."""
MEMORY_BYTES = 2**29
SECONDS = 60
"""Limits of the child that reads one file. Whatever it can read takes no more here, where the work needs memory too."""

_SPLIT = f"One run has at most {MOST_CASES:,} cases: split a larger suite by `ratchet check --shard`."
_LOOK_AT_JOB = "Measure again; if it comes back, look at what the job uploaded."


@dataclass(frozen=True)
class Intake:
    """A run that may be judged. Its texts are still those of a stranger."""

    run: RunRecord
    """Its figures are computed again from its samples."""
    profiles: tuple[CaseProfile, ...] = ()
    problems: tuple[str, ...] = ()
    """One sentence for each thing that was left out."""


def take_in(artifact: Path, workspace: Path) -> Intake:
    """Take in a run from a folder, a zip archive, or its file alone. ``workspace`` gets copies of two files, and nothing else.

    Raises ArtifactError where the artifact is unsafe in any part, or its run is missing, damaged or contradicts itself. Unsound
    profiles are left out, with a sentence in ``problems``.
    """
    box = _opened(artifact)
    base = next((place for place in PLACES if f"{place}{RUN}" in box.sizes), None)
    if base is None:
        raise ArtifactError(f"The artifact has no {RUN}: the job ended before it wrote one.", "Its log says why.")
    record = _record(box, f"{base}{RUN}", workspace / RUN, reading_child.LARGEST_RUN, RunRecord)
    record, wrong = with_own_figures(record)
    if wrong:
        raise ArtifactError(f"{RUN} contradicts itself: {first_of(wrong)}", _LOOK_AT_JOB)
    index, problems = f"{base}{PROFILES}", list[str]()
    profiles: tuple[CaseProfile, ...] = ()
    if index in box.sizes:
        try:
            profiles = _record(box, index, workspace / PROFILES, LARGEST_PROFILES, Profiles).profiles
        except ArtifactError as error:
            problems.append(f"The profiles were left out: {error.message}")
    return Intake(record, profiles, tuple(problems))


def take_in_beside(artifact: Path, name: str, workspace: Path) -> Any:
    """Return STATIC or STATIC_REPORT, which may stand beside a run or alone; None where there is none. ``workspace`` gets a copy.

    Raises ArtifactError where the artifact is unsafe in any part, or the file is damaged.
    """
    box = _opened(artifact)
    kind = tools.records()[name.removesuffix(".json")]
    place = next((f"{place}{name}" for place in PLACES if f"{place}{name}" in box.sizes), None)
    return _record(box, place, workspace / name, LARGEST_STATIC, kind) if place else None


def take_in_tuning(artifact: Path, workspace: Path) -> Iterator[Any]:
    """Yield the records of searches in a folder or a zip archive, one after the other. ``workspace`` gets copies of them.

    Raises ArtifactError where the artifact is unsafe in any part, has no record or too many, or one is damaged.
    """
    box = _opened(artifact)
    names = sorted(filter(TUNING.fullmatch, box.sizes))
    if not names:
        raise ArtifactError("The artifact holds no record of a search.", "See the log of the job that tuned.")
    if len(names) > MOST_TUNING or sum(box.sizes[name] for name in names) > LARGEST_TUNING:
        most = f"{MOST_TUNING} records or {LARGEST_TUNING // 2**20} MiB"
        raise ArtifactError(f"The artifact holds more than {most} of searches.", "Tune fewer cases at once.")
    for name in names:
        record = _record(box, name, workspace / name, LARGEST_SEARCH, tools.records()["tuning"])
        if not CASE_NAME.fullmatch(record.case) or record.case != f"{record.benchmark}/{record.config}":
            raise ArtifactError(f"{name} is of a case with an impossible name.", _LOOK_AT_JOB)
        yield record


def _opened(artifact: Path) -> ArtifactFiles:
    if artifact.is_symlink():
        raise ArtifactError("The artifact is a link.", _LOOK_AT_JOB)
    if artifact.is_dir():
        # Asked not to unpack it (`skip-decompress`), the step that fetches an artifact leaves the archive alone in the folder.
        with os.scandir(artifact) as entries:
            first = [entry.name for entry in itertools.islice(entries, 2)]
        alone = artifact / first[0] if len(first) == 1 else artifact
        return archive_of(alone) if alone.suffix == ".zip" and not alone.is_symlink() else folder_of(artifact)
    if not artifact.exists():
        raise ArtifactError("There is no artifact: the job that measures left none.", "Its log says why.")
    return archive_of(artifact) if artifact.suffix == ".zip" else ArtifactFiles(artifact, {RUN: 0})


def _record(box: ArtifactFiles, name: str, copy: Path, most: int, kind: type[AnyRecord]) -> AnyRecord:
    """Copy one file into the workspace and read it there. Raises ArtifactError."""
    box.copy(name, most, copy)
    if kind is RunRecord or copy.stat().st_size > QUICK:  # a few packed samples of a run may be millions
        _refuse_bomb(copy, name, kind)
    try:
        record = reading_child.read_record(copy, kind, checked=True)
    except RecordError as error:
        raise ArtifactError(error.message.replace(str(copy), name), _LOOK_AT_JOB) from None
    _refuse_extremes(record, name)
    return record


def _refuse_extremes(record: Record, name: str) -> None:
    """Bound numbers and texts, which a schema cannot; packed samples have bounds of their own. Raises ArtifactError."""
    texts = characters = 0
    waiting: list[object] = [record]
    while waiting:
        value = waiting.pop()
        if isinstance(value, int | float):
            if not -LARGEST_NUMBER < value < LARGEST_NUMBER:
                raise ArtifactError(f"{name} holds a number beyond 1e30, which no run of ours writes.", _LOOK_AT_JOB)
        elif isinstance(value, Block):
            waiting += (value.index, value.position)
        elif isinstance(value, str):
            texts += 1
            characters += len(value)
            if len(value) > LONGEST_TEXT:
                raise ArtifactError(f"{name} holds a text of {len(value)} characters, which no run of ours writes.", _LOOK_AT_JOB)
        elif isinstance(value, tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += (*value, *value.values())
        elif isinstance(value, Record):
            waiting += vars(value).values()
        elif isinstance(value, WorkerSamples):
            waiting += (getattr(value, field) for field in WorkerSamples.__slots__)
    if texts > MOST_TEXTS or characters > MOST_CHARACTERS:
        raise ArtifactError(
            f"{name} holds more than {MOST_TEXTS:,} texts, or {MOST_CHARACTERS // 2**20} million characters of text.",
            _LOOK_AT_JOB,
        )


def _refuse_bomb(path: Path, name: str, kind: type[Record]) -> None:
    """Read a large file once in a child with little memory and time. Raises ArtifactError."""
    # -P: the current folder, perhaps a checkout of a stranger, is not a place to import from. The four variables hold no secret.
    limits = (str(MEMORY_BYTES), str(SECONDS))
    command = [sys.executable, "-P", "-m", reading_child.__name__, str(path), f"{kind.__module__}:{kind.__qualname__}", *limits]
    environ = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")}
    environ["OPENBLAS_NUM_THREADS"] = "1"  # what NumPy maps for each thread would count against the bound of memory
    ended = run(command, environ=environ, folder=Path.cwd(), time_limit_s=2 * SECONDS)
    if ended.status == reading_child.REFUSED:
        raise ArtifactError(str(json.loads(ended.output.splitlines()[-1])).replace(str(path), name), _LOOK_AT_JOB)
    if ended.status != 0:
        bound = f"{MEMORY_BYTES // 2**20} MiB of memory and {SECONDS} s of time"
        raise ArtifactError(f"{name} cannot be read in {bound}.", f"{_SPLIT} If it is small: {_LOOK_AT_JOB}")


# The files of an artifact by name: a folder or a zip archive. All names, kinds, numbers and sizes are checked before anything
# is read; no link is followed, and nothing is unpacked but what is read.

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


@dataclass(frozen=True)
class ArtifactFiles:
    """The files of an artifact. Whoever makes one has checked all names, kinds and sizes."""

    path: Path
    """A folder, an archive, which stays packed, or the file of a run alone."""
    sizes: Mapping[str, int]
    """Relative name with slashes → bytes, as far as known before reading."""
    is_packed: bool = False

    def copy(self, name: str, most: int, place: Path) -> None:
        """Copy or unpack one file. Raises ArtifactError, also for a damaged archive, and for more than ``most`` bytes."""
        if not self.is_packed:
            with _ordinary(self.path / name if self.path.is_dir() else self.path, name) as stream:
                _copy(stream, name, most, place)
            return
        try:
            with zipfile.ZipFile(self.path) as packed, packed.open(name) as stream:
                _copy(stream, name, most, place)
        except (*_BROKEN, OSError):
            raise ArtifactError(f"{name} cannot be unpacked: the archive is damaged.", _HINT) from None


def folder_of(root: Path) -> ArtifactFiles:
    """Open a folder. Raises ArtifactError for links, devices, odd names, and more than may be."""
    try:
        return ArtifactFiles(root, _bounded(_walk(root)))
    except OSError as error:
        raise ArtifactError(f"The artifact cannot be listed: {error.strerror or 'it changes'}.", _HINT) from None


def archive_of(path: Path) -> ArtifactFiles:
    """Open an archive. Raises ArtifactError for what `folder_of` refuses, for encrypted or damaged archives, and for bombs."""
    try:
        _refuse_long_list(path)
        with zipfile.ZipFile(path) as packed:
            return ArtifactFiles(path, _bounded(_list(packed)), is_packed=True)
    except (*_BROKEN, OSError):
        raise ArtifactError("The artifact is not a zip archive, or is damaged.", _HINT) from None


@contextlib.contextmanager
def _ordinary(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open an ordinary file, never through a link. Raises ArtifactError, which calls it ``name``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor has no path
            _refuse_unless_ordinary(os.fstat(stream.fileno()), name)
            yield stream
    except OSError as error:
        raise ArtifactError(f"{name} cannot be read: {error.strerror or error}.", _HINT) from None


def _copy(stream: IO[bytes], name: str, most: int, place: Path) -> None:
    """Write at most ``most`` bytes of a stream to a file, a piece at a time. Raises ArtifactError for more."""
    with replaced(place) as temporary, temporary.open("xb") as copy:
        while piece := stream.read(2**20):
            if copy.tell() + len(piece) > most:
                raise ArtifactError(f"{name} has more than {most // 2**20} MiB.", _SPLIT if name.endswith(RUN) else _HINT)
            copy.write(piece)


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
