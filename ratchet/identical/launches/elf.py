"""Read ELF files: the cubins that a GPU runs, the libraries that carry them, and which libraries both sides share.

`code` looks up kernels here; `launches` shortens names with `plain`. It reads the files of loaded libraries; `Elf`, `read` and
what works on bytes is pure. Layout: System V ABI, chapters 4 (object files) and 5; of 64-bit little-endian files only, as cubins
and x86-64 are.
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import re
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.core.cache import cache_root

_NOBITS, _SYMTAB = 8, 2
_INFO_LINK = 0x40
_LARGE = 0xFFFF
_OBJECT = 1
"""Numbers of the ABI: section types, SHF_INFO_LINK, SHN_XINDEX, STT_OBJECT."""

_NOT_CODE = re.compile(r"(\.rela?)?\.(nv_)?debug_|\.(str|shstr|sym)tab$|\.note\.nv\.tkinfo$")
"""Sections that no instruction reads: lines and paths of the source, names, and the command that ran ptxas. Everything
else is in the digest, known or not. Names and values of symbols are too, without hashes of paths."""
_NAMED_BY_PATH = re.compile(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_")
"""nvcc puts a hash of the source's path into the names of an anonymous namespace and of static functions."""
_VARIABLES = frozenset({".nv.global", ".nv.global.init", ".nv.constant3"})
_MADE_BY_COMPILER = ("$", "__cudart_")
"""Texts that a kernel prints, and tables of the mathematics library: constants."""


class NotElf(ValueError):
    """Bytes that are not a 64-bit little-endian ELF file, or are cut off."""


@dataclass(frozen=True)
class Section:
    """A row of the table of sections, in the order of the ABI; ``kind`` is its type."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True)
class Symbol:
    """A row of the symbol table; ``section`` is the name of the section that defines it, or ``#`` and its number."""

    name: str
    info: int
    other: int
    section: str
    value: int
    size: int


class Elf:
    """An ELF file. It reads the headers at once, and contents when they are asked for. Raises NotElf."""

    def __init__(self, image: bytes | mmap.mmap) -> None:
        self._image = image
        try:
            self._read()
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise NotElf(f"damaged ELF file: {error}") from None

    def _read(self) -> None:
        image = self._image
        if bytes(image[:6]) != b"\x7fELF\x02\x01":
            raise NotElf("not a 64-bit little-endian ELF file")
        self.machine: int = struct.unpack_from("<H", image, 18)[0]
        self.flags: int = struct.unpack_from("<I", image, 48)[0]
        (table,) = struct.unpack_from("<Q", image, 40)
        count, names_at = struct.unpack_from("<HH", image, 60)
        if table == 0:
            self.sections: tuple[Section, ...] = ()
            return
        first = struct.unpack_from("<IIQQQQIIQQ", image, table)
        count, names_at = count or first[5], first[6] if names_at == _LARGE else names_at
        if table + 64 * count > len(image):
            raise NotElf("damaged ELF file: its table of sections is cut off")
        rows = [struct.unpack_from("<IIQQQQIIQQ", image, table + 64 * i) for i in range(count)]
        names = bytes(image[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]])
        self.sections = tuple(Section(_text(names, r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in rows)

    def data(self, section: Section) -> bytes:
        """Return the contents of a section; none for one that takes no place in the file. Raises NotElf."""
        if section.kind == _NOBITS:
            return b""
        if section.offset + section.size > len(self._image):
            raise NotElf(f"damaged ELF file: {section.name} is cut off")
        return bytes(self._image[section.offset : section.offset + section.size])

    def symbols(self) -> Iterator[Symbol]:
        """Yield the symbols of all symbol tables. Raises NotElf."""
        for table in self.sections:
            if table.kind != _SYMTAB:
                continue
            names = self.data(self._section(table.link))
            data = self.data(table)
            for at in range(0, len(data) - 23, 24):
                name, info, other, index, value, size = struct.unpack_from("<IBBHQQ", data, at)
                home = self.sections[index].name if index < len(self.sections) else f"#{index}"
                yield Symbol(_text(names, name), info, other, home, value, size)

    def _section(self, index: int) -> Section:
        if index >= len(self.sections):
            raise NotElf(f"damaged ELF file: there is no section {index}")
        return self.sections[index]

    def described(self) -> list[list[object]]:
        """Return everything that shapes what the code does, in plain values."""
        out: list[list[object]] = [[self.machine, self.flags]]
        for section in self.sections:
            if _NOT_CODE.match(section.name):
                continue
            info: object = plain(self._section(section.info).name) if section.flags & _INFO_LINK else section.info
            content = hashlib.sha256(self.data(section)).hexdigest()
            out.append([plain(section.name), section.kind, section.flags, info, section.alignment, section.size, content])
        symbols = (each for each in self.symbols() if not _NOT_CODE.match(each.section))
        out.extend([plain(s.name), s.info, s.other, plain(s.section), s.value, s.size] for s in symbols)
        return out


def machine_code(image: bytes) -> str:
    """Return a digest of a cubin that does not depend on where its sources lay. Raises NotElf."""
    return hashlib.sha256(json.dumps(Elf(image).described()).encode()).hexdigest()


def kernels(elf: Elf) -> frozenset[str]:
    """Return the names of the kernels and functions that a cubin has code of."""
    return frozenset(each.name.removeprefix(".text.") for each in elf.sections if each.name.startswith(".text."))


def text_size(elf: Elf) -> int:
    """Return the bytes of instructions of a cubin."""
    return sum(each.size for each in elf.sections if each.name.startswith(".text."))


def variables(elf: Elf) -> tuple[str, ...]:
    """Return the ``__device__`` and ``__constant__`` variables of a cubin: the host may write them without a launch."""
    found = [each.name for each in elf.symbols() if each.section in _VARIABLES and each.info & 0xF == _OBJECT]
    return tuple(sorted(name for name in found if not name.startswith(_MADE_BY_COMPILER)))


def plain(name: str) -> str:
    """Return a name without the hash of its source's path."""
    return _NAMED_BY_PATH.sub(r"\1", name)


def _text(names: bytes, at: int) -> str:
    end = names.find(b"\0", at)
    if at > len(names) or end < 0:
        raise NotElf("damaged ELF file: a name is cut off")
    return names[at:end].decode("utf-8")


# Cubins in the section ``.nv_fatbin`` of a library that nvcc built.
# NVIDIA documents only the outer header (fatbinary.h of the CUDA toolkit): a magic number, a version, the header's length and
# the length of the rest. Each entry then begins with its kind, the length of its own header and of its payload; the architecture
# is at byte 28. Anything else is reported as hidden.


SECTION = ".nv_fatbin"
_MAGIC = 0xBA55ED50
_CUBIN = 2
_ARCHITECTURE_AT = 28


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture of GPU: an ELF file."""

    architecture: int
    """Compute capability times ten, such as 90."""
    image: bytes


@dataclass(frozen=True)
class Fatbin:
    """The cubins of one section ``.nv_fatbin``."""

    cubins: tuple[Cubin, ...]
    hidden: bool
    """Some code in it is compressed or not understood."""


def read(section: bytes) -> Fatbin:
    """Return all cubins of a section. PTX in it is left aside: the driver compiles it only where no cubin fits."""
    cubins: list[Cubin] = []
    hidden = False
    at = 0
    while at + 16 <= len(section):
        magic, version, header, size = struct.unpack_from("<IHHQ", section, at)
        if magic == 0:  # padding between two of them, in steps of 8 bytes
            at += 8
            continue
        end = at + header + size
        if magic != _MAGIC or version != 1 or header < 16 or end > len(section):
            return Fatbin(tuple(cubins), hidden=True)
        found, whole = _entries(section, at + header, end)
        cubins += found
        hidden |= not whole
        at = end
    return Fatbin(tuple(cubins), hidden)


def _entries(section: bytes, at: int, end: int) -> tuple[list[Cubin], bool]:
    cubins: list[Cubin] = []
    whole = True
    while at < end:
        if at + 32 > end:
            return cubins, False
        kind, _, header, size = struct.unpack_from("<HHIQ", section, at)
        (architecture,) = struct.unpack_from("<I", section, at + _ARCHITECTURE_AT)
        payload = at + header
        if header < 32 or payload + size > end:
            return cubins, False
        if kind == _CUBIN:
            image = section[payload : payload + size]
            if image.startswith(b"\x7fELF"):
                cubins.append(Cubin(architecture, image))
            else:
                whole = False
        at = payload + size
    return cubins, whole


# Libraries that this process has loaded: those of the environment, which both sides share, and those that one side built.

_GONE = " (deleted)"
_IN_A_WORD = re.compile(rb"[A-Za-z0-9_$]")


@dataclass(frozen=True)
class Roots:
    """Folders of the environment, and folders in which one side alone may have built something."""

    shared: tuple[Path, ...]
    own: tuple[Path, ...]

    def is_shared(self, path: Path) -> bool:
        """Return whether a file is the environment's: the longest folder that holds it decides; in doubt it is not."""
        return _depth(self.shared, path) > _depth(self.own, path)


@dataclass(frozen=True)
class Image:
    """A cubin in a library."""

    architecture: int
    kernels: frozenset[str]
    code: str
    """`machine_code` of it."""
    variables: tuple[str, ...]
    size: int = 0
    """Bytes of its instructions."""


@dataclass(frozen=True)
class Library:
    """A library's code for a GPU."""

    images: tuple[Image, ...]
    hidden: bool
    """Whether it holds more code for a GPU, which cannot be read."""


def roots(tree: Path) -> Roots:
    """Return the folders for a process that runs the benchmarks of ``tree``."""
    import torch

    python = [sys.prefix, sys.base_prefix, *(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
    shared: list[str | Path | None] = [*python, Path(torch.__file__).parents[1], "/usr", "/lib", "/lib64", "/opt"]
    own: list[str | Path | None] = [tree, cache_root(), tempfile.gettempdir(), Path("~/.cache").expanduser()]
    return Roots(tuple(_resolved(shared)), tuple(_resolved(own)))


def executable(maps: str) -> tuple[list[Path], list[Path]]:
    """Return files with executable pages, from the text of /proc/self/maps (proc(5)): those still there, and deleted ones."""
    there: set[Path] = set()
    gone: set[Path] = set()
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/"):
            continue
        name = fields[5]
        if not name.endswith(_GONE):
            there.add(Path(name))
        elif ".so" in name:  # other files that are gone are Python's and libffi's own
            gone.add(Path(name.removesuffix(_GONE)))
    return sorted(there), sorted(gone)


def ambiguous(paths: Iterable[Path]) -> list[list[object]]:
    """Return path, size and time of libraries with code for a GPU that are loaded from several places at once.

    A library that is loaded from one place has one file in the environment, the same for both sides. Which other libraries are
    loaded says nothing: the side that is checked loads the libraries of its check.
    """
    families: dict[str, set[Path]] = {}
    for path in paths:
        families.setdefault(path.name.partition(".so")[0], set()).add(path.resolve())
    several = sorted(path for family in families.values() if len(family) > 1 for path in family)
    about = [(path, path.stat()) for path in several]
    return [[str(path), one.st_size, one.st_mtime_ns] for path, one in about if _has_code(path, one.st_size, one.st_mtime_ns)]


def library(path: Path) -> Library:
    """Return a library's code for a GPU, as far as nvcc put it there."""
    about = path.stat()
    return _library(path, about.st_size, about.st_mtime_ns)


def mentions(path: Path, name: str) -> bool:
    """Return whether the bytes of a file hold a name, as a whole word that ends a string of C."""
    about = path.stat()
    return _mentions(path, about.st_size, about.st_mtime_ns, name)


@functools.cache
def _has_code(path: Path, size: int, _time: int) -> bool:
    if size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        try:
            return any(each.name == SECTION for each in Elf(image).sections)
        except NotElf:
            return False


@functools.cache
def _library(path: Path, size: int, time: int) -> Library:
    if not _has_code(path, size, time):
        return Library((), hidden=False)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        whole = Elf(image)
        found = [read(whole.data(each)) for each in whole.sections if each.name == SECTION]
    try:
        images = tuple(_image(each) for one in found for each in one.cubins)
    except NotElf:
        return Library((), hidden=True)
    return Library(images, any(one.hidden for one in found))


@functools.cache
def _mentions(path: Path, size: int, _time: int, name: str) -> bool:
    if size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        word, at = name.encode() + b"\0", -1
        while (at := image.find(word, at + 1)) >= 0:
            if at == 0 or not _IN_A_WORD.match(image[at - 1 : at]):
                return True
    return False


def _image(cubin: Cubin) -> Image:
    read = Elf(cubin.image)
    return Image(cubin.architecture, kernels(read), machine_code(cubin.image), variables(read), text_size(read))


def _depth(folders: Sequence[Path], path: Path) -> int:
    text = f"{path}/"  # a string: `is_relative_to` took half a second for some hundred libraries
    return max((len(folder.parts) for folder in folders if text.startswith(f"{folder}/".replace("//", "/"))), default=-1)


def _resolved(folders: Iterable[str | Path | None]) -> list[Path]:
    return [Path(folder).resolve() for folder in folders if folder]
