"""Recorded spaces, read from T4 files, and a search of one, in which a configuration's recorded time is its evaluation."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ratchet.tune.search import Search
from ratchet.tune.space import Candidates, Space, Value
from ratchet.tune.t4 import CORRECT

SPACES = Path(__file__).parents[1] / "tests" / "data" / "tuning"
MILLISECONDS = ("", "ms", "milliseconds", "miliseconds")
"""Kernel Tuner's own files spell it without the second l, or leave it out."""


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


def read(path: Path) -> RecordedSpace:
    """Read a file: each configuration once (the last), values sorted where they are numbers."""
    content = path.read_bytes()
    entries = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)["results"]
    names = list(entries[0]["configuration"])
    times: dict[tuple[Value, ...], float | None] = {}
    for entry in entries:
        (measured,) = (each for each in entry["measurements"] if each["name"] == "time")
        if measured.get("unit", "").lower() not in MILLISECONDS:
            raise ValueError(f"{path}: a time in {measured['unit']}")
        is_time = entry["invalidity"] == CORRECT and isinstance(measured["value"], int | float)
        times[tuple(entry["configuration"][name] for name in names)] = measured["value"] if is_time else None
    values = {name: list(dict.fromkeys(row[place] for row in times)) for place, name in enumerate(names)}
    for options in values.values():
        if not any(isinstance(option, str) for option in options):
            options.sort()
    space = Space({name: tuple(options) for name, options in values.items()})
    codes = np.array([space.encode(dict(zip(names, row, strict=True))) for row in times], dtype=np.int16)
    return RecordedSpace(Candidates(space, codes, exact=True), tuple(times.values()))


def best_so_far(space: RecordedSpace, strategy: str, seed: int, evaluations: int) -> list[float | None]:
    """Return the best time after each evaluation of one search, None before one worked."""
    search = Search(space.candidates, strategy, seed, evaluations)
    best: list[float | None] = []
    while len(best) < evaluations and (proposed := search.ask()):
        place = space.candidates.index(proposed[0])
        assert place is not None
        value = space.times[place]
        search.tell(proposed[0], value)
        before = best[-1] if best else None
        best.append(value if before is None or (value is not None and value < before) else before)
    return best
