"""The libraries that this process has loaded, and which of them belong to the environment that both sides share."""

from __future__ import annotations

import functools
import mmap
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.cache import cache_root
from ratchet.measure.identity import elf, fatbin

_GONE = " (deleted)"
_IN_A_WORD = re.compile(rb"[A-Za-z0-9_$]")


@dataclass(frozen=True)
class Roots:
    """Folders of the environment, and of what one side alone may have built."""

    shared: tuple[Path, ...]
    own: tuple[Path, ...]

    def is_shared(self, path: Path) -> bool:
        """Whether a file is the environment's: the longest folder that holds it decides, and a doubt is against it."""
        return _depth(self.shared, path) > _depth(self.own, path)


@dataclass(frozen=True)
class Image:
    """A cubin in a library."""

    architecture: int
    kernels: frozenset[str]
    code: str
    """`elf.machine_code` of it."""
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """The code for a GPU in a library."""

    images: tuple[Image, ...]
    hidden: bool
    """It has more of it, which cannot be read."""


def roots(tree: Path) -> Roots:
    """Of a process that runs the benchmarks of ``tree``."""
    import torch

    python = [sys.prefix, sys.base_prefix, *(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
    shared: list[str | Path | None] = [*python, Path(torch.__file__).parents[1], "/usr", "/lib", "/lib64", "/opt"]
    own: list[str | Path | None] = [tree, cache_root(), tempfile.gettempdir(), Path("~/.cache").expanduser()]
    return Roots(tuple(_resolved(shared)), tuple(_resolved(own)))


def executable(maps: str) -> tuple[list[Path], list[Path]]:
    """Files with executable pages in a text like /proc/self/maps (proc(5)): those still there, and libraries that are gone."""
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
    """Path, size and time of libraries with code for a GPU that are loaded from several places at once.

    Of one library the environment has one file, the same for both sides. Which others are loaded too says nothing: the side that
    is checked loads what its check needs.
    """
    families: dict[str, set[Path]] = {}
    for path in paths:
        families.setdefault(path.name.partition(".so")[0], set()).add(path.resolve())
    several = sorted(path for family in families.values() if len(family) > 1 for path in family)
    about = [(path, path.stat()) for path in several]
    return [[str(path), one.st_size, one.st_mtime_ns] for path, one in about if _has_code(path, one.st_size, one.st_mtime_ns)]


def library(path: Path) -> Library:
    """A library's code for a GPU, as far as nvcc put it there."""
    about = path.stat()
    return _library(path, about.st_size, about.st_mtime_ns)


def mentions(path: Path, name: str) -> bool:
    """Whether the bytes of a file hold a name, as a whole word that ends a string of C."""
    about = path.stat()
    return _mentions(path, about.st_size, about.st_mtime_ns, name)


@functools.cache
def _has_code(path: Path, size: int, _time: int) -> bool:
    if size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        try:
            return any(each.name == fatbin.SECTION for each in elf.Elf(image).sections)
        except elf.NotElf:
            return False


@functools.cache
def _library(path: Path, size: int, time: int) -> Library:
    if not _has_code(path, size, time):
        return Library((), hidden=False)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        whole = elf.Elf(image)
        found = [fatbin.read(whole.data(each)) for each in whole.sections if each.name == fatbin.SECTION]
    try:
        images = tuple(_image(each) for one in found for each in one.cubins)
    except elf.NotElf:
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


def _image(cubin: fatbin.Cubin) -> Image:
    read = elf.Elf(cubin.image)
    return Image(cubin.architecture, elf.kernels(read), elf.machine_code(cubin.image), elf.variables(read))


def _depth(folders: Sequence[Path], path: Path) -> int:
    return max((len(folder.parts) for folder in folders if path.is_relative_to(folder)), default=-1)


def _resolved(folders: Iterable[str | Path | None]) -> list[Path]:
    return [Path(folder).resolve() for folder in folders if folder]
