"""Sections and symbols of ELF files: the cubins that a GPU runs, and the libraries that carry them.

Layout: System V ABI, chapters 4 (object files) and 5; of 64-bit little-endian files only, as cubins and x86-64 are.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_NOBITS, _SYMTAB = 8, 2
_INFO_LINK = 0x40
_LARGE = 0xFFFF
_OBJECT = 1
"""Numbers of the ABI: section types, SHF_INFO_LINK, SHN_XINDEX, STT_OBJECT."""

_NOT_CODE = re.compile(r"(\.rela?)?\.(nv_)?debug_|\.(str|shstr|sym)tab$|\.note\.nv\.tkinfo$")
"""Sections that no instruction reads: lines and paths of the source, names, and the command that ran ptxas. Everything
else counts, known or not. Names and values of symbols count too, by what they stand for."""
_NAMED_BY_PATH = re.compile(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_")
"""nvcc puts a hash of the source's path into the names of an anonymous namespace and of static functions."""
_VARIABLES = frozenset({".nv.global", ".nv.global.init", ".nv.constant3"})
_MADE_BY_COMPILER = ("$", "__cudart_")
"""Texts that a kernel prints, and tables of the mathematics library: constants."""


class NotElf(ValueError):
    """These bytes are not a 64-bit little-endian ELF file, or are cut off."""


@dataclass(frozen=True)
class Section:
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
    name: str
    info: int
    other: int
    section: str
    value: int
    size: int


class Elf:
    """Reads the headers at once, and contents when they are asked for."""

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
        """The contents; of a section that takes no place in the file, none."""
        if section.kind == _NOBITS:
            return b""
        if section.offset + section.size > len(self._image):
            raise NotElf(f"damaged ELF file: {section.name} is cut off")
        return bytes(self._image[section.offset : section.offset + section.size])

    def symbols(self) -> Iterator[Symbol]:
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

    def told(self) -> list[list[object]]:
        """All that shapes what the code does, in plain values."""
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
    """A digest of a cubin that is equal for two of them if they do the same, wherever their sources lay."""
    return hashlib.sha256(json.dumps(Elf(image).told()).encode()).hexdigest()


def kernels(elf: Elf) -> frozenset[str]:
    """The kernels and functions that a cubin has code of."""
    return frozenset(each.name.removeprefix(".text.") for each in elf.sections if each.name.startswith(".text."))


def variables(elf: Elf) -> tuple[str, ...]:
    """``__device__`` and ``__constant__`` variables of a cubin: the host may write them without a launch."""
    found = [each.name for each in elf.symbols() if each.section in _VARIABLES and each.info & 0xF == _OBJECT]
    return tuple(sorted(name for name in found if not name.startswith(_MADE_BY_COMPILER)))


def plain(name: str) -> str:
    """The name without what depends on where the source lay."""
    return _NAMED_BY_PATH.sub(r"\1", name)


def _text(names: bytes, at: int) -> str:
    end = names.find(b"\0", at)
    if at > len(names) or end < 0:
        raise NotElf("damaged ELF file: a name is cut off")
    return names[at:end].decode("utf-8")
