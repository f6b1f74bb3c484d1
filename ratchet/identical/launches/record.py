"""Read the launches of one call from the driver, and make them comparable between two processes.

`identity.of` reads captured graphs with `LaunchReader`, and compares and shows them with the functions above it, which are pure.

Addresses differ from process to process. So eight bytes that are an address of device memory are replaced by which
allocation they point into, counted by first appearance, and where in it; everything else is compared as it is.
"""

from __future__ import annotations

import ctypes
import hashlib
import heapq
import json
import re
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ratchet.identical.launches.driver import MOST_LAUNCHES, Driver, NoIdentity
from ratchet.identical.launches.elf import plain

TORCHS_OWN = re.compile(r"_ZN2at6native")
"""Kernels of torch's operators. Many get structures of which parts are never written: a reduction, strides, a functor."""
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
    """Grid, block and dynamic shared memory of a kernel; extents of a copy."""
    settings: tuple[int, ...] = ()
    values: tuple[tuple[int, bytes], ...] = ()
    """Number or offset, and bytes, of each argument and attribute."""
    function: int = 0
    """The driver's handle of a kernel, valid in this process only."""


@dataclass(frozen=True)
class Launches:
    """A captured graph."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def ordered(self) -> Launches:
        """Return the graph with its nodes in the order in which they can run, ties in the order in which they were captured."""
        order = _topological(len(self.nodes), self.edges)
        place = {old: new for new, old in enumerate(order)}
        edges = sorted((place[start], place[end], how) for start, end, how in self.edges)
        return Launches(tuple(self.nodes[old] for old in order), tuple(edges))

    @property
    def one_by_one(self) -> bool:
        """Return whether each launch of an ordered graph waits for the one before it, as on a single stream."""
        return [(start, end) for start, end, _ in self.edges] == list(pairwise(range(len(self.nodes))))


@dataclass(frozen=True)
class Place:
    """The target of an address: an allocation, and the distance from its start in bytes."""

    allocation: Hashable
    offset: int


Find = Callable[[int], Place | None]
"""Returns the place of an address, or None for a number that is not one. Raises NoIdentity where its target cannot be seen."""


@dataclass(frozen=True)
class TensorAt:
    """A tensor in device memory: its address, and what else an operator knows of it."""

    address: int
    facts: tuple[Any, ...]


@dataclass(frozen=True)
class Unknown:
    """An argument that is not compared; ``what`` says of which kind it is."""

    what: str


@dataclass(frozen=True)
class Comparable:
    """The launches of a call as two processes can compare them."""

    nodes: tuple[list[Any], ...]
    """Kind, name, number of the function, shape, settings, and values; an address in these is [allocation, offset]."""
    edges: tuple[Edge, ...]
    allocations: tuple[Hashable, ...]
    """Those in the values and operators, by first appearance."""
    operators: tuple[Any, ...] = ()
    """The call's operators of torch, as `operators.described`, where they stand for the arguments of nodes."""

    def without_own_memory(self) -> Comparable:
        """Return them for a comparison within one process: all addresses of what the call got for itself become one."""
        places = [None if getattr(one, "kind", "") == "during" else getattr(one, "start", one) for one in self.allocations]

        def place(part: Any) -> Any:
            if not isinstance(part, list):
                return part
            return "own" if places[part[0]] is None else [places[part[0]], part[1]]

        nodes = tuple([*node[:-1], [[at, *map(place, parts)] for at, *parts in node[-1]]] for node in self.nodes)
        return Comparable(nodes, self.edges, ())


def comparable(
    launches: Launches, find: Find, operators: Sequence[Any] | None = None, by_operator: Set[int] = frozenset()
) -> Comparable:
    """Return the launches of a captured call as two processes can compare them. Raises NoIdentity.

    In the place of the arguments of the functions in ``by_operator``, the call's ``operators`` are compared.
    """
    numbers: dict[Hashable, int] = {}
    functions: dict[int, int] = {}  # two kernels may have one name, as Triton's do for each value of a constant
    names = _names([node.name for node in launches.nodes])
    nodes: list[list[Any]] = []
    for node, name in zip(launches.nodes, names, strict=True):
        kept = () if node.function in by_operator else node.values
        values = [[at, *_without_addresses(value, find, numbers)] for at, value in kept]
        if node.kind in ("memcpy", "memset") and not all(isinstance(part, list) for _, *parts in values for part in parts):
            raise NoIdentity("it copies to or from memory that is not the GPU's")
        function = functions.setdefault(node.function, len(functions))
        nodes.append([node.kind, name, function, node.shape, node.settings, values])
    located = tuple(_located(call, find, numbers) for call in operators or ()) if by_operator else ()
    return Comparable(tuple(nodes), launches.edges, tuple(numbers), located)


def digest(content: object) -> str:
    """Return the SHA-256 of plain values, in canonical JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def difference(first: Comparable, second: Comparable) -> str:
    """Return where two calls differ, in a few words; nothing where they are equal."""
    if len(first.nodes) != len(second.nodes):
        return f"{len(first.nodes)} launches in one call, {len(second.nodes)} in the next"
    fields = ("kind", "name", "function", "grid or block", "settings", "arguments")
    for number, (one, other) in enumerate(zip(first.nodes, second.nodes, strict=True), 1):
        for field, mine, yours in zip(fields, one, other, strict=True):
            if digest(mine) != digest(yours):
                return f"launch {number} of {len(first.nodes)} ({(one[1] or one[0])[:LONGEST_NAME]}) has other {field}"
    if digest(first.operators) != digest(second.operators):
        return "the operators of torch differ"
    return "" if first.edges == second.edges else "their order differs"


def shown(launches: Launches) -> tuple[str, ...]:
    """Return a line for people for each launch; the last line counts those that are left out."""
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


def _located(value: Any, find: Find, numbers: dict[Hashable, int]) -> Any:
    """Return the description of an operator with the number of the allocation, and the offset in it, for each address."""
    if isinstance(value, list):
        return [_located(part, find, numbers) for part in value]
    if isinstance(value, Unknown):
        raise NoIdentity(f"an operator of torch gets a {value.what}, which is not compared")
    if not isinstance(value, TensorAt):
        return value
    place = find(value.address)
    return [*value.facts, None if place is None else [numbers.setdefault(place.allocation, len(numbers)), place.offset]]


def _without_addresses(value: bytes, find: Find, numbers: dict[Hashable, int]) -> list[object]:
    """Return the bytes as hexadecimal text, with each address in them as [allocation, offset].

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
    """Return the names without hashes of paths, unless two of them then look alike."""
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
        raise NoIdentity("its launches wait for each other in a circle")
    return order


# Reading a captured CUDA graph through the driver: CUDA Driver API, sections Graph Management and Execution Control. The
# numbers and structures are those of cuda.h.


_INVALID_VALUE = 1
_KERNEL, _MEMCPY, _MEMSET, _EMPTY = 0, 1, 2, 5
_UNSEEN = {
    3: "a function of the host",
    4: "another graph",
    6: "a wait for an event from outside",
    7: "an event for the outside",
    8: "a semaphore",
    9: "a semaphore",
    10: "memory allocated on the GPU",
    11: "memory freed on the GPU",
    12: "operations on memory",
    13: "a condition",
}
"""CUgraphNodeType, by what people call it."""
_ATTRIBUTES = (1, 2, 4, 5, 8, 9, 10, 11, 13, 14)
"""CUlaunchAttributeID of kernel nodes: L2 window, cooperative, clusters, priority, memory domains, carveout, device-updatable."""
_DEVICE_UPDATABLE = 13
_FUNCTION_ATTRIBUTES = 16
"""CUfunction_attribute 0 to 15: threads, shared memory, registers, cache mode, carveout, clusters."""
_HOST, _DEVICE, _UNIFIED = 1, 2, 4
"""CUmemorytype."""
_PARAMETERS_END, _PARAMETERS_POINTER, _PARAMETERS_SIZE = 0, 1, 2
"""CU_LAUNCH_PARAM_END, _BUFFER_POINTER and _BUFFER_SIZE."""


class KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("parameters", POINTER(c_void_p)),
        ("extra", POINTER(c_void_p)),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    ]


class CopyEnd(ctypes.Structure):
    """One half of CUDA_MEMCPY3D_v2: source or destination."""

    _fields_ = [
        ("start", c_size_t * 4),
        ("type", c_uint),
        ("host", c_void_p),
        ("device", c_uint64),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    ]


class CopyParams(ctypes.Structure):
    """CUDA_MEMCPY3D_v2."""

    _fields_ = [("source", CopyEnd), ("target", CopyEnd), ("extent", c_size_t * 3)]


class SetParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS_v1."""

    _fields_ = [
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    ]


@dataclass(frozen=True)
class _KernelFunction:
    handle: int
    name: str
    settings: tuple[int, ...]
    layout: tuple[tuple[int, int], ...]
    """Offset and size of each argument."""


class LaunchReader:
    """A reader of captured graphs. Raises NoIdentity where a graph holds a node that cannot be compared."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._functions: dict[int, _KernelFunction] = {}

    def launches(self, graph: int) -> Launches:
        """Return the nodes of a graph (a CUgraph or cudaGraph_t, which are the same) in the order in which they can run."""
        count = c_size_t(0)
        self._driver.call("cuGraphGetNodes", c_void_p(graph), None, byref(count))
        handles = (c_void_p * count.value)()
        self._driver.call("cuGraphGetNodes", c_void_p(graph), handles, byref(count))
        numbers = {handle or 0: index for index, handle in enumerate(handles)}
        nodes = tuple(self._node(handle) for handle in numbers)
        return Launches(nodes, tuple(self._edges(graph, numbers))).ordered()

    def _edges(self, graph: int, numbers: dict[int, int]) -> Iterator[Edge]:
        count = c_size_t(0)
        self._driver.call("cuGraphGetEdges_v2", c_void_p(graph), None, None, None, byref(count))
        if not count.value:
            return  # the driver takes empty arrays for an invalid value
        starts, ends, data = (c_void_p * count.value)(), (c_void_p * count.value)(), (c_ubyte * (8 * count.value))()
        self._driver.call("cuGraphGetEdges_v2", c_void_p(graph), starts, ends, data, byref(count))
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            yield numbers[start or 0], numbers[end or 0], bytes(data[8 * index : 8 * index + 8]).hex()

    def _node(self, node: int) -> Node:
        kind = c_int(-1)
        self._driver.call("cuGraphNodeGetType", c_void_p(node), byref(kind))
        if kind.value == _KERNEL:
            return self._kernel(node)
        if kind.value == _MEMCPY:
            return self._copy(node)
        if kind.value == _MEMSET:
            return self._set(node)
        if kind.value == _EMPTY:
            return Node("empty")
        raise NoIdentity(f"its launches hold {_UNSEEN.get(kind.value, f'something unknown (node type {kind.value})')}")

    def _kernel(self, node: int) -> Node:
        params = KernelParams()
        self._driver.call("cuGraphKernelNodeGetParams_v2", c_void_p(node), byref(params))
        handle = c_void_p(params.func)
        if not params.func:
            self._driver.call("cuKernelGetFunction", byref(handle), c_void_p(params.kern))
        function = self._function(handle.value or 0)
        settings = list(function.settings)
        values = list(self._arguments(params, function))
        for attribute in _ATTRIBUTES:
            answer = (c_uint64 * 8)()  # CUlaunchAttributeValue is 64 bytes
            settings.append(self._driver.code("cuGraphKernelNodeGetAttribute", c_void_p(node), c_int(attribute), answer))
            if attribute == _DEVICE_UPDATABLE and bytes(answer)[:4] != bytes(4):
                raise NoIdentity("a kernel on the GPU can change its launches")
            values.append((-attribute, bytes(answer)))
        shape = (*params.grid, *params.block, params.shared)
        return Node("kernel", function.name, shape, tuple(settings), tuple(values), function.handle)

    def _function(self, handle: int) -> _KernelFunction:
        """Return the facts that are the same for every launch of a kernel."""
        if handle in self._functions:
            return self._functions[handle]
        name = c_char_p()
        self._driver.call("cuFuncGetName", byref(name), c_void_p(handle))
        settings: list[int] = []
        for attribute in range(_FUNCTION_ATTRIBUTES):
            number = c_int(0)
            settings += (self._driver.code("cuFuncGetAttribute", byref(number), c_int(attribute), c_void_p(handle)), number.value)
        layout: list[tuple[int, int]] = []
        while True:
            offset, size = c_size_t(0), c_size_t(0)
            code = self._driver.code("cuFuncGetParamInfo", c_void_p(handle), c_size_t(len(layout)), byref(offset), byref(size))
            if code == _INVALID_VALUE:  # no argument has this number: the way to count them
                break
            self._driver.check("cuFuncGetParamInfo", code)
            layout.append((offset.value, size.value))
        found = _KernelFunction(handle, (name.value or b"").decode("utf-8", "replace"), tuple(settings), tuple(layout))
        self._functions[handle] = found
        return found

    def _arguments(self, params: KernelParams, function: _KernelFunction) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, bytes) of each argument."""
        if not function.layout and (params.parameters or params.extra):
            raise NoIdentity("the driver does not tell the arguments of a kernel")
        packed = self._packed(params) if params.extra else None
        for index, (offset, size) in enumerate(function.layout):
            if packed is not None and offset + size <= len(packed):
                yield offset, packed[offset : offset + size]
            elif packed is None and params.parameters and params.parameters[index]:
                yield offset, ctypes.string_at(params.parameters[index], size)
            else:
                raise NoIdentity("the arguments of a kernel cannot be read")

    def _packed(self, params: KernelParams) -> bytes:
        """Return arguments that were given as one buffer: cuLaunchKernel's ``extra``. cuBLAS gives those of its products so."""
        address, size, at = 0, 0, 0
        while (word := params.extra[at] or _PARAMETERS_END) != _PARAMETERS_END:
            if word == _PARAMETERS_POINTER:
                address = params.extra[at + 1] or 0
            elif word == _PARAMETERS_SIZE:
                size = c_size_t.from_address(params.extra[at + 1] or 0).value
            else:
                raise NoIdentity("the arguments of a kernel cannot be read")
            at += 2
        return ctypes.string_at(address, size) if address else b""

    def _copy(self, node: int) -> Node:
        params = CopyParams()
        self._driver.call("cuGraphMemcpyNodeGetParams", c_void_p(node), byref(params))
        ends = (params.source, params.target)
        if any(end.type == _HOST for end in ends):
            raise NoIdentity("it copies to or from the host's memory")
        if any(end.type not in (_DEVICE, _UNIFIED) for end in ends):
            raise NoIdentity("it copies to or from an array")
        settings = [number for end in ends for number in (*end.start, end.pitch, end.height)]
        values = [(index, int(end.device).to_bytes(8, "little")) for index, end in enumerate(ends)]
        return Node("memcpy", "", tuple(params.extent), tuple(settings), tuple(values))

    def _set(self, node: int) -> Node:
        params = SetParams()
        self._driver.call("cuGraphMemsetNodeGetParams", c_void_p(node), byref(params))
        shape = (params.width, params.height, params.element)
        return Node("memset", "", shape, (params.value, params.pitch), ((0, int(params.dst).to_bytes(8, "little")),))
