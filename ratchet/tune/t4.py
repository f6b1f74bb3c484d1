"""Recorded spaces in T4, the auto-tuning community's JSON format that Kernel Tuner writes (schema 1.0.0), and their replay.

``ratchet tune`` exports a search with `write_t4`, and searches a recorded file again without a GPU: `read_t4`, `replayed`. Reads
and writes the named file; touches no device.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.core.errors import RecordError
from ratchet.core.records.files import save_bytes
from ratchet.tune.search import Search
from ratchet.tune.space import Candidates, Configuration, Space, Value

SCHEMA = "1.0.0"
LARGEST_BYTES = 512 * 2**20
"""Most bytes of the text: a compressed file may grow to any size."""
_GZIP = b"\x1f\x8b"
_TO_MS = {"": 1.0, "ms": 1.0, "milliseconds": 1.0, "miliseconds": 1.0, "s": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}
"""Unit → milliseconds; Kernel Tuner's own files spell it without the second l, or leave it out."""
CORRECT = "correct"
_ERRORS = {"compile": "CompilationFailedConfig", "constraints": "InvalidConfig"}
"""Words that Kernel Tuner writes in place of a time; every other failure is its ``RuntimeFailedConfig``."""
_AGAIN = "Record the space again, or take a T4 file such as Kernel Tuner's store_output_file writes."


@dataclass(frozen=True)
class Result:
    """One configuration of a recorded space."""

    configuration: dict[str, Value]
    ms: float | None
    """Its time; None where it failed."""
    invalidity: str = CORRECT
    """The reason why it failed: T4 knows timeout, compile, runtime, correctness and constraints."""
    runtimes: tuple[float, ...] = ()
    """Single measurements, in milliseconds. Written and not read again, as are the next two."""
    compilation: float = 0.0
    """Compile time in milliseconds."""
    timestamp: str = ""


def read_t4(path: Path) -> list[Result]:
    """Read the results of a file, plain or gzip, each configuration once (the last).

    Raises RecordError where it is missing, cut off, not T4, or has no results.
    """
    table = _table(path)
    results = table.get("results") if isinstance(table, dict) else None
    if not isinstance(results, list):
        raise RecordError(f"{path} is not a T4 file: it has no list of results.", _AGAIN)
    if not results:
        raise RecordError(f"{path} has no results: nothing was recorded.", _AGAIN)
    by_configuration: dict[tuple[Value, ...], Result] = {}
    names: list[str] = []
    for number, entry in enumerate(results):
        try:
            result = _result(entry)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise RecordError(f"{path} is not a T4 file: results[{number}]: {why}.", _AGAIN) from None
        names = names or list(result.configuration)
        if result.configuration.keys() != set(names):
            raise RecordError(f"{path}: results[{number}] has other parameters than results[0].", _AGAIN)
        by_configuration[tuple(result.configuration[name] for name in names)] = result
    return list(by_configuration.values())


def write_t4(path: Path, results: Sequence[Result], metadata: Mapping[str, Any] | None = None) -> None:
    """Write a T4 file, in the spelling of Kernel Tuner 1.5, compressed where it is called ``.gz``. Raises OutputError."""
    table = {
        "metadata": {"timeunit": "milliseconds", **(metadata or {})},
        "results": [_entry(result) for result in results],
        "schema_version": SCHEMA,
    }
    content = f"{json.dumps(table, allow_nan=False)}\n".encode()
    save_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _table(path: Path) -> Any:
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            engine = zlib.decompressobj(wbits=31)
            content = engine.decompress(content, LARGEST_BYTES + 1)
            if len(content) <= LARGEST_BYTES and not engine.eof:
                raise EOFError
        if len(content) > LARGEST_BYTES:
            raise RecordError(f"{path} holds more than 512 MiB of text.", "Check the path.")
        return json.loads(content)
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist.", "Check the path.") from None
    except (EOFError, zlib.error):
        raise RecordError(f"{path} is cut off or damaged: its gzip data does not end as it should.", "Copy it again.") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}.", "Check the path and its permissions.") from None
    except (ValueError, RecursionError) as error:  # of JSON or of UTF-8
        raise RecordError(f"{path} is not JSON, or is cut off: {error}.", _AGAIN) from None


def _result(entry: dict[str, Any]) -> Result:
    configuration = entry["configuration"]
    if not isinstance(configuration, dict) or not configuration:
        raise ValueError("configuration is not a table of parameters")
    for name, value in configuration.items():
        if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"parameter {name} is not a number, string or bool")
    invalidity = str(entry["invalidity"])
    return Result(configuration, _ms(entry) if invalidity == CORRECT else None, invalidity)


def _ms(entry: dict[str, Any]) -> float | None:
    """Return the measurement that is the objective, in milliseconds; None where an error stands in its place."""
    objective = (entry.get("objectives") or ["time"])[0]
    measurement = next((candidate for candidate in entry["measurements"] if candidate["name"] == objective), None)
    if measurement is None:
        raise ValueError(f"there is no measurement of {objective}")
    unit = str(measurement.get("unit", "")).lower()
    if unit not in _TO_MS:
        raise ValueError(f"{objective} is in {unit}, which is not a unit of time")
    value = measurement["value"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None  # an error's name stands in its place
    return float(value) * _TO_MS[unit] if 0 < value < math.inf else None


def _entry(result: Result) -> dict[str, Any]:
    failed = _ERRORS.get(result.invalidity, "RuntimeFailedConfig")
    return {
        "timestamp": result.timestamp,
        "configuration": result.configuration,
        "times": {
            # The schema says compilation_time, but does not ask for it; Kernel Tuner and who reads its files say compilation.
            "compilation": result.compilation,
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 0.0,
            "runtimes": list(result.runtimes),
        },
        "invalidity": result.invalidity,
        "correctness": int(result.invalidity == CORRECT),
        "measurements": [{"name": "time", "value": failed if result.ms is None else result.ms, "unit": "ms"}],
        "objectives": ["time"],
    }


# Replay: search a recorded space again, where a configuration's recorded time is its evaluation.


@dataclass(frozen=True)
class RecordedSpace:
    """The measurements of a space."""

    candidates: Candidates
    times: tuple[float | None, ...]
    """Time of each candidate in milliseconds; None where it failed."""

    @property
    def best_ms(self) -> float | None:
        """The optimum; None where all failed."""
        return min((time for time in self.times if time is not None), default=None)


@dataclass(frozen=True)
class Trace:
    """One search of a recorded space, evaluation by evaluation."""

    tried: tuple[int, ...]
    """Candidates in order."""
    best_ms: tuple[float | None, ...]
    """The best so far after each."""
    strategy: str
    """The strategies that `auto` used, or the strategy that was asked for."""


def recorded_space(results: Sequence[Result]) -> RecordedSpace:
    """Make a space whose candidates are the recorded configurations, values sorted where they are numbers."""
    names = list(results[0].configuration)
    values = {name: list(dict.fromkeys(result.configuration[name] for result in results)) for name in names}
    for options in values.values():
        if not any(isinstance(option, str) for option in options):
            options.sort()
    space = Space({name: tuple(options) for name, options in values.items()})
    codes = np.array([space.encode(result.configuration) for result in results], dtype=np.int16)
    return RecordedSpace(Candidates(space, codes, exact=True), tuple(result.ms for result in results))


def replayed(recorded: RecordedSpace, strategy: str, seed: int, evaluations: int | None) -> Trace:
    """Search until ``evaluations`` are used or everything was tried; one at a time. Raises UsageError as `Search` does."""
    search = Search(recorded.candidates, strategy, seed, evaluations)
    tried: list[int] = []
    best: list[float | None] = []
    while evaluations is None or len(tried) < evaluations:
        proposed = search.ask()
        if not proposed:
            break
        place = recorded.candidates.index(proposed[0])
        if place is None:
            raise ValueError("a search proposed something that is not a candidate")
        value = recorded.times[place]
        search.tell(proposed[0], value)
        tried.append(place)
        before = best[-1] if best else None
        best.append(value if before is None or (value is not None and value < before) else before)
    return Trace(tuple(tried), tuple(best), search.strategy)


def configuration_of(recorded: RecordedSpace, trace: Trace) -> Configuration | None:
    """Return the best configuration that the search found; None where every one that it tried failed."""
    if not trace.best_ms or trace.best_ms[-1] is None:
        return None
    place = next(tried for tried in trace.tried if recorded.times[tried] == trace.best_ms[-1])
    return recorded.candidates.configuration(place)
