"""The samples of one side of a case as one short text: what a file holds in place of a list of `WorkerSamples`.

A side of 20 workers has some three thousand samples. As decimal text they take 70 KB, here 6: `pack` writes them as whole ticks,
sorts the ticks' bytes by their place, and compresses them. `PackedWorkers` keeps the compressed bytes and unpacks them whenever
somebody looks, so that a run of thousands of cases fits into the memory of a small machine. Pure.
"""

from __future__ import annotations

import base64
import binascii
import functools
import itertools
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from operator import attrgetter
from types import MemberDescriptorType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, overload

from pydantic import Discriminator, Field, GetPydanticSchema, PlainSerializer, Tag, TypeAdapter, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass
from pydantic_core import core_schema

from ratchet.core.records import RULES, Count, NotNegative

Side = Literal["reference", "head"]
LEAST_MS, MOST_MS = 1e-9, 1e9
SampleMs = Annotated[float, Field(ge=LEAST_MS, lt=MOST_MS)]


@dataclass(frozen=True, slots=True, config=RULES)  # slots, since a large run has half a million of them
class Block:
    """Samples taken in one turn, while the other side waited."""

    index: Count
    position: Count
    """Place in the order in which the blocks of both sides were taken."""
    samples_ms: Annotated[tuple[SampleMs, ...], Field(min_length=1)]
    throttled: bool = False
    """Heat or a hardware brake slowed the GPU during this block: kept here, left out of every figure."""
    exposed: bool = False
    """The GPU ran out of queued work, so these samples may contain launch latency."""


_SLOT: MemberDescriptorType = Block.__dict__["samples_ms"]
packed_samples: Callable[[Block], array[float]] = _SLOT.__get__
"""The samples of a block as they lie in memory."""


class _PackedSamples:
    """The attribute `Block.samples_ms`: a tuple for its readers, and 8 bytes a sample in memory instead of a tuple's 32.

    A large run has ten million samples, which as tuples would not fit into the memory of a small machine.
    """

    def __get__(self, block: Block, _: type[Block]) -> tuple[float, ...]:
        return tuple(packed_samples(block))

    def __set__(self, block: Block, samples_ms: Sequence[float]) -> None:
        _SLOT.__set__(block, array("d", samples_ms))


setattr(Block, "samples_ms", _PackedSamples())  # noqa: B010 - mypy takes an assignment for a sample


@dataclass(frozen=True, slots=True, config=RULES)
class WorkerSamples:
    """Samples that one worker of one pair measured of one case."""

    pair: Count
    started_first: bool
    """This side's worker was forked and allocated before the other's."""
    blocks: tuple[Block, ...]
    ready_s: NotNegative
    """From the fork to a usable device."""
    peak_memory_bytes: Count
    error: NotNegative | None
    """‖out − ref‖ / ‖ref‖ after timing, on inputs from a fresh seed; 0 where there is nothing to compare with.

    None in a pair that was not checked after timing.
    """
    stages_ms: dict[str, tuple[SampleMs, ...]] = field(default_factory=dict)
    kernels_ms: tuple[SampleMs, ...] = ()
    """Time of all kernels of a call, without the host's: where the GPU waited for the host on both sides."""
    session: Count = 0
    """The pair of hosts that the worker was forked from, in the order in which they were started."""
    is_light: bool = False
    """A process that was looked at for one block only, without a warm-up: it counts for the mean, not for the median."""

    @property
    def kept_blocks(self) -> list[Block]:
        """The blocks that count: those not slowed by heat or a hardware brake."""
        return [block for block in self.blocks if not block.throttled]


class SideCounts(NamedTuple):
    """Counts of a side, known without its samples."""

    workers: int = 0
    blocks: int = 0
    """Those that were kept, and so for ``exposed``."""
    exposed: int = 0
    throttled: int = 0
    peak_memory_bytes: int = 0
    has_stages: bool = False
    has_kernels: bool = False


def counts_of(workers: Sequence[WorkerSamples]) -> SideCounts:
    """Count what a side has; of packed workers it is kept."""
    if isinstance(workers, PackedWorkers):
        return workers.counts
    blocks = [block for worker in workers for block in worker.blocks]
    return SideCounts(
        len(workers),
        sum(not block.throttled for block in blocks),
        sum(block.exposed and not block.throttled for block in blocks),
        sum(block.throttled for block in blocks),
        max((worker.peak_memory_bytes for worker in workers), default=0),
        any(worker.stages_ms for worker in workers),
        any(worker.kernels_ms for worker in workers),
    )


CHECKED: dict[str, object] = {}
"""Context in which to validate a record whose packed samples were unpacked before: this very object."""


LARGEST_SIDE = 32 * 2**20
"""Bytes of a side without compression: four million samples."""
_NS = 6
"""Decimals of a millisecond: a tick of a nanosecond."""
_EXACT = 1e-7
"""A float of 32 bits, which is what a GPU's clock gives, is no closer to a whole number of nanoseconds."""
_LEAST_TICKS = 100_000
"""Ticks of the shortest sample: no sample is rounded by more than the 200,000th part of it."""
_MOST_DECIMALS, _MOST_TICKS = 15, 2**52
_DOUBLES = 0
"""Stands for the decimals where the samples are no whole ticks but doubles."""


_Whole = Annotated[int, Field(ge=0, lt=2**53)]
_Figure = Annotated[float, Field(ge=0, lt=1e30)]
_Name = Annotated[str, Field(max_length=200)]


class _Row(NamedTuple):
    """A worker without its samples. Its values have bounds, since nothing looks at each of them again."""

    pair: _Whole
    started_first: bool
    ready_s: _Figure
    peak_memory_bytes: _Whole
    error: _Figure | None
    stages_ms: dict[_Name, tuple[SampleMs, ...]]
    kernels_ms: tuple[SampleMs, ...]
    session: _Whole
    is_light: bool
    blocks: tuple[tuple[_Whole, _Whole, Annotated[int, Field(ge=1)], bool, bool], ...]
    """Index, position, number of samples, throttled, exposed."""


_all_but_blocks = attrgetter(*_Row._fields[:-1])


class _Side(NamedTuple):
    decimals: Annotated[int, Field(ge=0, le=_MOST_DECIMALS)]
    """A tick is so many decimals of a millisecond."""
    least: Annotated[int, Field(ge=0, le=_MOST_TICKS)]
    step: Annotated[int, Field(ge=1, le=_MOST_TICKS)]
    """Each number times this, and ``least``, are the ticks of a sample: a GPU's clock moves by 32 ns."""
    rows: tuple[_Row, ...]


_SIDE = TypeAdapter(_Side, config=RULES)


def pack(workers: Sequence[WorkerSamples]) -> str:
    """Return the workers as text of 64 different characters; samples that are no whole ticks are rounded (`_LEAST_TICKS`)."""
    import numpy as np  # not where this file is read: commands that touch no samples start without it

    if isinstance(workers, PackedWorkers):
        return base64.b64encode(workers.packed).decode()
    rows = []
    for one in workers:
        blocks = tuple(
            (each.index, each.position, len(packed_samples(each)), each.throttled, each.exposed) for each in one.blocks
        )
        rows.append(_Row._make((*_all_but_blocks(one), blocks)))
    samples = np.frombuffer(b"".join(packed_samples(block) for worker in workers for block in worker.blocks))
    decimals, ticks = _ticks(samples)
    least, step, raw = 0, 1, samples
    if ticks.size:
        least = int(ticks.min())
        step = int(np.gcd.reduce(ticks - least)) or 1
        raw = (ticks - least) // step
    planes = np.frombuffer(raw.tobytes(), np.uint8).reshape(-1, 8).T.tobytes()
    return base64.b64encode(
        zlib.compress(_SIDE.dump_json(_Side(decimals, least, step, tuple(rows))) + b"\n" + planes, 9)
    ).decode()


def _ticks(samples: Any) -> tuple[int, Any]:
    """Return the decimals of a tick in milliseconds, and the ticks; `_DOUBLES` and none where no ticks are good enough."""
    import numpy as np

    if not samples.size:
        return _NS, samples.astype(np.int64)
    shortest, decimals = float(samples.min()), _NS
    ticks = np.rint(samples * 10**_NS)
    if np.abs(ticks / 10**_NS - samples).max() > _EXACT * shortest:
        while decimals < _MOST_DECIMALS and round(shortest * 10**decimals) < _LEAST_TICKS:
            decimals += 1
        ticks = np.rint(samples * 10**decimals)
        while decimals > _NS and not np.any(np.fmod(ticks, 10)):
            decimals, ticks = decimals - 1, ticks / 10
    return (_DOUBLES, ticks[:0]) if ticks.max() > _MOST_TICKS else (decimals, ticks.astype(np.int64))


class PackedWorkers(Sequence[WorkerSamples]):
    """The workers of one side, unpacked each time that somebody looks at them."""

    __slots__ = ("_counts", "packed")

    def __init__(self, text: str, *, checked: bool = False) -> None:
        """Take the text of `pack`, which somebody has ``checked``. Raises ValueError where it is none."""
        try:
            self.packed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("the samples are not as ratchet packs them") from None
        if not checked:
            _opened(self.packed)
        self._counts: SideCounts | None = None

    @property
    def counts(self) -> SideCounts:
        if self._counts is None:
            self._counts = counts_of(_unpack(self.packed))
        return self._counts

    @overload
    def __getitem__(self, place: int) -> WorkerSamples: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[WorkerSamples, ...]: ...
    def __getitem__(self, place: int | slice) -> WorkerSamples | tuple[WorkerSamples, ...]:
        return _unpack(self.packed)[place]

    def __len__(self) -> int:
        return self.counts.workers

    def __iter__(self) -> Iterator[WorkerSamples]:
        return iter(_unpack(self.packed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.packed)

    def __repr__(self) -> str:
        return repr(_unpack(self.packed))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> core_schema.CoreSchema:
        def read(text: str, info: ValidationInfo) -> PackedWorkers:
            return cls(text, checked=info.context is CHECKED)

        from_text = core_schema.with_info_after_validator_function(read, core_schema.str_schema(strict=True))
        either = core_schema.union_schema([core_schema.is_instance_schema(cls), from_text])
        return core_schema.json_or_python_schema(json_schema=from_text, python_schema=either)


def rounded(workers: Sequence[WorkerSamples]) -> PackedWorkers:
    """Return the workers as files keep them, so that whoever judges again from a file has the same figures."""
    return PackedWorkers(pack(workers))


def _opened(packed: bytes) -> tuple[tuple[_Row, ...], Any]:
    """Return the rows and all samples. Raises ValueError where these bytes are not as `pack` makes them."""
    import numpy as np

    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(packed, LARGEST_SIDE)
        if unpacking.unconsumed_tail:
            raise ValueError(f"the samples of one side take more than {LARGEST_SIDE // 2**20} MiB")
        described, _, planes = content.partition(b"\n")
        side = _SIDE.validate_json(described, strict=True)
    except (zlib.error, ValidationError):
        raise ValueError("the samples are not as ratchet packs them") from None
    count, lengths = len(planes) // 8, [block[2] for row in side.rows for block in row.blocks]
    if not unpacking.eof or unpacking.unused_data or len(planes) % 8 or sum(lengths) != count:
        raise ValueError("the samples are not as many as the blocks have")
    numbers = np.frombuffer(planes, np.uint8).reshape(8, -1).T.copy().view(np.int64 if side.decimals else np.float64)
    samples = (side.least + side.step * numbers) / 10**side.decimals if side.decimals else numbers
    if not np.all((samples >= LEAST_MS) & (samples < MOST_MS)):
        raise ValueError(f"a sample is not between {LEAST_MS} and {MOST_MS} ms")
    return side.rows, samples


@functools.lru_cache(maxsize=8)  # a judge looks at both sides of a case again and again
def _unpack(packed: bytes) -> tuple[WorkerSamples, ...]:
    rows, samples = _opened(packed)
    if not samples.size:
        return tuple(_made(WorkerSamples, list(zip(*rows, strict=True)))) if rows else ()
    index, position, lengths, throttled, exposed = zip(*(block for row in rows for block in row.blocks), strict=True)
    raw, ends = samples.tobytes(), [0, *itertools.accumulate(8 * length for length in lengths)]
    pieces = [array("d", raw[start:end]) for start, end in itertools.pairwise(ends)]
    blocks = iter(_made(Block, (index, position, pieces, throttled, exposed)))
    of_rows = [tuple(itertools.islice(blocks, len(row.blocks))) for row in rows]
    return tuple(_made(WorkerSamples, (*list(zip(*rows, strict=True))[:-1], of_rows)))


Made = TypeVar("Made", Block, WorkerSamples)
_SETTERS: dict[type, tuple[Callable[[object, object], None], ...]] = {
    Block: tuple(
        _SLOT.__set__ if name == "samples_ms" else Block.__dict__[name].__set__
        for name in ("index", "position", "samples_ms", "throttled", "exposed")
    ),
    WorkerSamples: tuple(WorkerSamples.__dict__[name].__set__ for name in _Row._fields),
}


def _made(kind: type[Made], fields: Sequence[Sequence[object]]) -> list[Made]:
    """Make values of checked fields, given as columns: checks one by one would take most of the time of reading a run."""
    made = [object.__new__(kind) for _ in fields[0]]
    for put, column in zip(_SETTERS[kind], fields, strict=True):
        deque(map(put, made, column), maxlen=0)
    return made


_EITHER = Annotated[
    Annotated[PackedWorkers, Tag("packed")] | Annotated[tuple[WorkerSamples, ...], Tag("listed")],
    Discriminator(lambda value: "listed" if isinstance(value, list | tuple) else "packed"),
]
Workers = Annotated[
    Sequence[WorkerSamples],
    GetPydanticSchema(lambda _, handler: handler(_EITHER)),
    PlainSerializer(pack, return_type=str, when_used="json"),
]
"""One side of a case: a list in memory and in files of earlier ratchets; in files, the text of `pack`."""
