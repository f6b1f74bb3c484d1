"""The launches of one call, as the driver describes them, made comparable between two processes. Pure: no GPU here.

Addresses differ from process to process. So eight bytes that are an address of device memory are replaced by which
allocation they point into, counted by first appearance, and where in it; everything else is compared as it is.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ratchet.measure.identity.base import MOST_LAUNCHES, Opaque
from ratchet.measure.identity.elf import plain

ADDRESS_BYTES = 8
LONGEST_NAME = 100

Edge = tuple[int, int, str]
"""From, to, and the driver's eight bytes about how the one waits for the other, as hexadecimal text."""


@dataclass(frozen=True)
class Node:
    """One node of a captured graph. ``values`` may hold addresses, the other fields never do."""

    kind: str
    """kernel, memcpy, memset or empty."""
    name: str = ""
    shape: tuple[int, ...] = ()
    """Of a kernel its grid, block and dynamic shared memory; of a copy its extents."""
    settings: tuple[int, ...] = ()
    values: tuple[tuple[int, bytes], ...] = ()
    """Number or offset, and bytes, of each argument and attribute."""
    function: int = 0
    """The driver's handle of a kernel: of this process alone."""


@dataclass(frozen=True)
class Launches:
    """A captured graph."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def ordered(self) -> Launches:
        """The same with its nodes in the order in which they can run, ties in the order in which they were captured."""
        order = _topological(len(self.nodes), self.edges)
        place = {old: new for new, old in enumerate(order)}
        edges = sorted((place[start], place[end], how) for start, end, how in self.edges)
        return Launches(tuple(self.nodes[old] for old in order), tuple(edges))


@dataclass(frozen=True)
class Place:
    """Where an address points: into which allocation, and how far from its start."""

    allocation: Hashable
    offset: int


Find = Callable[[int], Place | None]
"""The place of an address, or None for a number that is none. Raises Opaque where it points to what cannot be seen."""


def comparable(launches: Launches, find: Find) -> tuple[list[object], list[Hashable]]:
    """What two processes can compare, and the allocations it speaks of, by first appearance."""
    numbers: dict[Hashable, int] = {}
    functions: dict[int, int] = {}  # two kernels may have one name, as Triton's do for each value of a constant
    names = _names([node.name for node in launches.nodes])
    nodes: list[object] = []
    for node, name in zip(launches.nodes, names, strict=True):
        values = [[at, *_without_addresses(value, find, numbers)] for at, value in node.values]
        if node.kind in ("memcpy", "memset") and not all(isinstance(part, list) for _, *parts in values for part in parts):
            raise Opaque("it copies to or from memory that is not the GPU's")
        function = functions.setdefault(node.function, len(functions))
        nodes.append([node.kind, name, function, node.shape, node.settings, values])
    return [nodes, launches.edges], list(numbers)


def digest(told: object) -> str:
    """SHA-256 of plain values, in one way of writing them."""
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def shown(launches: Launches) -> tuple[str, ...]:
    """A line for each launch, for people; the last one counts those left out."""
    lines = [_line(node) for node in launches.nodes]
    if len(lines) > MOST_LAUNCHES:
        lines[MOST_LAUNCHES - 1 :] = [f"and {len(lines) - MOST_LAUNCHES + 1} more"]
    return tuple(lines)


def _line(node: Node) -> str:
    if node.kind != "kernel":
        return f"{node.kind} {' × '.join(map(str, node.shape))}".strip()
    name = plain(node.name)
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 1] + "…"
    return f"{name} grid {node.shape[:3]} block {node.shape[3:6]}"


def _without_addresses(value: bytes, find: Find, numbers: dict[Hashable, int]) -> list[object]:
    """The bytes as hexadecimal text, with each address in them as [allocation, offset].

    A pointer lies at a multiple of its size, also within a structure that is passed by value (CUDA C++ Programming Guide, kernel
    parameters): nothing else is looked at.
    """
    parts: list[object] = []
    for at in range(0, len(value), ADDRESS_BYTES):
        piece = value[at : at + ADDRESS_BYTES]
        place = find(int.from_bytes(piece, "little")) if len(piece) == ADDRESS_BYTES else None
        parts.append(piece.hex() if place is None else [numbers.setdefault(place.allocation, len(numbers)), place.offset])
    return parts


def _names(names: Sequence[str]) -> list[str]:
    """Names without hashes of paths, unless two of them then look alike."""
    short = [plain(name) for name in names]
    return short if len(set(short)) == len(set(names)) else list(names)


def _topological(count: int, edges: Sequence[Edge]) -> list[int]:
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for start, end, _ in edges:
        after[start].append(end)
        waits[end] += 1
    ready = [index for index in range(count) if waits[index] == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for end in after[index]:
            waits[end] -= 1
            if waits[end] == 0:
                heapq.heappush(ready, end)
    if len(order) != count:
        raise Opaque("its launches wait for each other in a circle")
    return order
