"""Cubins in the section ``.nv_fatbin`` of a library that nvcc built.

NVIDIA does not document the format beyond the outer header (fatbinary.h of the CUDA toolkit): a magic number, a version,
the header's length and the length of what follows. Each entry then begins with its kind, the length of its own header
and of its payload; the architecture is at byte 28. What does not look exactly so is reported as hidden.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

SECTION = ".nv_fatbin"
_MAGIC = 0xBA55ED50
_CUBIN = 2
_ARCHITECTURE_AT = 28


@dataclass(frozen=True)
class Cubin:
    architecture: int
    """Such as 90."""
    image: bytes


@dataclass(frozen=True)
class Fatbin:
    cubins: tuple[Cubin, ...]
    hidden: bool
    """Some code in it is compressed or not understood."""


def read(section: bytes) -> Fatbin:
    """All cubins of a section. PTX in it is left aside: the driver compiles it only where no cubin fits."""
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
