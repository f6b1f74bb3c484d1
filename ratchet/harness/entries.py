"""One entry of another harness's file: its name, its samples in milliseconds, or why it has none. Units are read here too. Pure.

The file is somebody else's, so only what is used of it is checked. A fault of one entry is that entry's own: it never costs
another one, and it is never dropped without its name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from ratchet.core.untrusted import clean

MOST_CASES = 5_000
LEAST_MS, MOST_MS = 1e-9, 1e9


@dataclass(frozen=True)
class TimedBenchmark:
    benchmark: str
    """A case's name is made of this and ``config``."""
    config: str = ""
    samples_ms: tuple[float, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    unit: Unit | None = None
    """Of the figures in the file."""
    problem: str = ""
    """Why the harness could not time it."""
    skipped: str = ""
    untimed: str = ""
    """Why its entry has no usable time: a failure where the other side has one, else a skip."""
    original: str = ""
    """Name that the harness gave it, where its parts do not tell."""

    @property
    def name(self) -> str:
        return self.original or f"{self.benchmark} {self.config}".strip()


@dataclass(frozen=True)
class FileOrigin:
    """The machine and the code, as far as a file names them."""

    gpu: str | None = None
    cpu: str | None = None
    commit: str = ""


@dataclass(frozen=True)
class ParsedFile:
    benchmarks: tuple[TimedBenchmark, ...]
    source: FileOrigin = field(default_factory=FileOrigin)
    left_out: tuple[str, ...] = ()
    """Each entry that is no case, with the reason: every entry is either here or among the benchmarks."""


class FormatError(Exception):
    """A file of the right format without what is needed from it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


# Entries.


class Entry(BaseModel):
    """The fields of an entry that are used. All others are the harness's own business.

    Those without a default tell what the entry is: without them it is no case.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    fault: str = Field("", validation_alias="\0")  # no field of a file has this name
    """What is wrong with its other fields, which count as absent: the reason why its case has no time."""


AnyEntry = TypeVar("AnyEntry", bound=Entry)


def entries(listed: object, kind: type[AnyEntry], left_out: list[str], name: str = "name", of: str = "") -> Iterator[AnyEntry]:
    """Yield the entries of a list; add to ``left_out`` each that has not the fields that tell what it is, with the reason."""
    if listed is not None and not isinstance(listed, list):
        raise TypeError("it has no list of results")
    for number, raw in enumerate(listed or (), 1):
        try:
            yield kind.model_validate(raw)
        except ValidationError as error:
            wrong = {str(each["loc"][0]): _fault(each) for each in error.errors(include_url=False) if each["loc"]}
            fault = next(iter(wrong.values()), f"it is {shown(raw)}")
            if not wrong or any(kind.model_fields[field].is_required() for field in wrong):
                left_out.append(f"{text_of(raw, name) or f'entry {number}{of}'}: {fault}")
            else:
                others = kind.model_validate({field: value for field, value in raw.items() if field not in wrong})
                yield others.model_copy(update={"fault": fault})


def _fault(detail: ErrorDetails) -> str:
    place = clean(".".join(map(str, detail["loc"])), 60)
    return f"it has no {place}" if detail["type"] == "missing" else f"its {place} is {shown(detail['input'])}"


def timed(benchmark: str, config: str, values: Iterable[Any], unit: Unit, fault: str = "", **about: Any) -> TimedBenchmark:
    """Return a benchmark with its figures in milliseconds, or with its ``fault`` or the figure that is no time."""
    if fault:
        return TimedBenchmark(benchmark, config, unit=unit, untimed=fault, **about)
    samples: list[float] = []
    for value in values:
        ms = _in_ms(value, unit)
        if not LEAST_MS <= ms < MOST_MS:  # NaN, too
            untimed = f"it has a time of {shown(value)}{unit.shown}, which cannot be"
            return TimedBenchmark(benchmark, config, unit=unit, untimed=untimed, **about)
        samples.append(ms)
    untimed = "" if samples else "it has no samples"
    return TimedBenchmark(benchmark, config, tuple(samples), unit=unit, untimed=untimed, **about)


def _in_ms(value: Any, unit: Unit) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return unit.in_ms(number) if number > 0 else math.nan


def shown(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return clean(value, 40) or "nothing"
    return clean(json.dumps(value, default=str), 40)


def halves(name: str) -> tuple[str, str]:
    """Return what stands before and after the first slash."""
    benchmark, _, config = name.partition("/")
    return benchmark, config


def words_of(values: Mapping[str, object]) -> str:
    """Return the name of a config that is made of parameters: ``ms_10-kind_a``."""
    return "-".join(f"{name}_{value}" for name, value in values.items())


def part(fields: object, key: str) -> Any:
    return fields.get(key) if isinstance(fields, Mapping) else None


def text_of(fields: object, key: str) -> str | None:
    value = part(fields, key)
    return clean(value, 120) if isinstance(value, str) and value else None


def commit_of(value: object) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40}", value) else ""


# Units: milliseconds, or a rate and the work that it counts.


@dataclass(frozen=True)
class Unit:
    """A unit of a figure: a time, or work a second."""

    ms: float = 0.0
    """Milliseconds in one of a time; 0 for a rate."""
    bytes: float | None = None
    """Bytes a second in one of a rate, and so for ``flops``."""
    flops: float | None = None

    def in_ms(self, value: float) -> float:
        """Return a time in milliseconds; of a rate, the time of one unit of its work (1 GB, 1 TFLOP)."""
        return value * self.ms if self.ms else 1e3 / value

    @property
    def shown(self) -> str:
        return next((f" {name}" for name, ms in _TIMES.items() if ms == self.ms), "")


_TIMES = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6}
SECONDS, NANOSECONDS = Unit(ms=1e3), Unit(ms=1e-6)
_WORDS = {"seconds": "s", "sec": "s", "milliseconds": "ms", "millisecond": "ms", "msec": "ms", "microseconds": "us", "usec": "us"}
_WORDS |= {"nanoseconds": "ns", "nsec": "ns"}
_SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_PER_TIME = re.compile(rf"[\s_-]*(?<![a-z])per[\s_-]+(?P<time>second|{'|'.join((*_TIMES, *_WORDS))})(?![a-z])", re.IGNORECASE)
"""The end of a rate in words, whose last word alone would be a time: ``token_per_sec``, ``GB per s``."""


def with_slash(text: str) -> str:
    """Return a text in which a rate has a slash: ``token/s`` for ``token_per_sec``."""
    return _PER_TIME.sub(lambda rate: f"/{_WORDS.get(rate['time'].lower(), rate['time'])}", text).replace("/second", "/s")


def unit_of(text: str) -> Unit | None:
    """Return the unit that a text names, such as ``ms``, ``GB/s``, ``TFLOPS``, ``tok/s``; None where it names none."""
    word = with_slash(text).strip().lower().replace("/sec", "/s")
    word = _WORDS.get(word, word)
    if word in _TIMES:
        return Unit(ms=_TIMES[word])
    if size := re.fullmatch(r"([kmgtp]?)(i?)(?:b|bytes)/s", word):
        return Unit(bytes=_SIZES[size[1]] if not size[2] else 1024.0 ** " kmgtp".index(size[1]))
    if work := re.fullmatch(r"([kmgtp]?)flop(?:s|/s|s/s)", word):
        return Unit(flops=_SIZES[work[1]])
    return Unit() if re.fullmatch(r"[a-z]*/s|fps|tps|qps|ops", word) else None


def unit_within(text: str) -> Unit | None:
    """Return the unit that stands somewhere in the words of an axis: ``Execution Time (ms)``, ``TFLOP/s (larger is better)``.

    Two different units, such as in ``GB/s (at 5 ms)``, are none.
    """
    text = with_slash(text)
    if whole := unit_of(text):
        return whole
    found = [unit for word in re.split(r"[\s,;:()\[\]]+", text) if (unit := unit_of(word))]
    return found[0] if found and all(unit == found[0] for unit in found) else None
