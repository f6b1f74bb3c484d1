"""Tables of Triton: the CSV of ``perf_report``, and the CSV and JSON of tritonbench. `formats` lists the readers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.core.untrusted import clean
from ratchet.harness.entries import (
    FormatError,
    ParsedFile,
    TimedBenchmark,
    Unit,
    timed,
    unit_of,
    unit_within,
    with_slash,
    words_of,
)


@dataclass(frozen=True)
class CsvTable:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def triton(document: Any, file: Path | None, _: Path) -> ParsedFile:
    """The CSV of ``perf_report`` (``run(save_path=…)``), and the CSV or JSON of tritonbench."""
    if not isinstance(document, CsvTable):
        return _tritonbench(metrics_of(document))
    if any(header.endswith("-latency") for header in document.header):
        return _tritonbench_table(document, file.stem if file else "tritonbench")
    timed_columns = _timed_columns(document.header)
    inputs_end = min(timed_columns)  # what follows the first time is made of times, such as a speedup
    others = {place: name for place, name in enumerate(document.header) if place > inputs_end and place not in timed_columns}
    found: list[TimedBenchmark] = []
    for row in document.rows:
        _refuse_short(document, row)
        if named := next((place for place in others if not _is_number(row[place])), None):
            raise FormatError(
                f"its column {clean(document.header[named], 40)!r} holds {clean(row[named], 40)!r}, right of the first time.",
                "Put all columns that tell one row from another left of the times.",
            )
        inputs = {name: _plain(value) for name, value in zip(document.header[:inputs_end], row, strict=False)}
        for place, (line, unit) in timed_columns.items():
            config = "-".join([line, words_of(inputs)] if inputs else [line])
            name = file.stem if file else "perf_report"
            found.append(_cell(name, config, row[place], unit, inputs))
    return ParsedFile(
        tuple(found), left_out=tuple(f"the column {clean(name, 60)}: it is neither a time nor a rate" for name in others.values())
    )


def _timed_columns(header: tuple[str, ...]) -> dict[int, tuple[str, Unit]]:
    """Return the columns of times and rates, right of the first: those with a unit in brackets, else those that end in one."""
    labelled = {place: label for place, name in enumerate(header) if place and (label := _label_of(name))}
    if found := {place: (line, unit) for place, (line, words) in labelled.items() if (unit := unit_within(words))}:
        return found
    if labelled:
        raise FormatError(
            f"the unit of the column {clean(header[min(labelled)], 80)!r} is none that ratchet knows.",
            'Take a ylabel such as "ms" or "GB/s".',
        )
    if found := {place: (name, unit) for place, name in enumerate(header) if place and (unit := _unit_at_end(name))}:
        return found
    raise FormatError(
        f"no column names its unit, as in 'Triton (ms)': {', '.join(clean(name, 40) for name in header[:6])}.",
        'Give triton.testing.Benchmark a ylabel, such as "ms" or "GB/s", and take Triton 3.1 or newer.',
    )


def _label_of(header: str) -> tuple[str, str] | None:
    """Return line and axis of a column, as in ``Triton [fp8] (Time (ms))`` or ``Latency [us]``; None without an axis."""
    text, depth = header.strip(), 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ")]") - (text[place] in "([")
        if depth == 0:
            return (text[:place].strip() or header, text[place + 1 : -1]) if place < len(text) - 1 else None
    return None


def _unit_at_end(name: str) -> Unit | None:
    """Return the unit of a column such as ``latency_ms``, ``Triton-GB/s`` or ``us``; none of ``S``, a length."""
    word = re.split(r"[-_\s]", with_slash(name.strip()))[-1]
    unit = unit_of(word) if len(word) > 1 else None
    return unit if unit and (unit.ms or unit.bytes or unit.flops) else None


def _is_number(text: str) -> bool:
    """Return whether a cell is empty or a number, such as ``2.5x``."""
    try:
        float(text.strip().rstrip("x%") or 0)
    except ValueError:
        return False
    return True


def _cell(name: str, config: str, value: str, unit: Unit, inputs: Mapping[str, str]) -> TimedBenchmark:
    if not value.strip():  # perf_report writes NaN so
        return TimedBenchmark(name, config, parameters=inputs, unit=unit, untimed="its cell is empty")
    return timed(name, config, [value], unit, parameters=inputs)


def _refuse_short(table: CsvTable, row: tuple[str, ...]) -> None:
    if len(row) != len(table.header):
        raise FormatError(f"a row has {len(row)} of {len(table.header)} columns: it seems to be cut off.", "Measure again.")


def _plain(value: str) -> str:
    """Return ``4096.000000``, as pandas writes a whole number, as ``4096``."""
    return value.rstrip("0").rstrip(".") if re.fullmatch(r"-?\d+\.\d+", value) else value


_TRITONBENCH = re.compile(r"tritonbench_(.+)\[x_(.*)-([^-\]]+)\]_latency", re.DOTALL)


def metrics_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a file of tritonbench: all of it, or a part of it."""
    inner = document.get("metrics")
    return inner if isinstance(inner, dict) else document


def _tritonbench(metrics: Mapping[str, Any]) -> ParsedFile:
    """``--output-json FILE``: the latency of each input and backend, in milliseconds."""
    named = [(found, value) for key, value in metrics.items() if (found := _TRITONBENCH.fullmatch(key))]
    benchmarks = [
        _tritonbench_case(found[1], found[2], found[3], value) for found, value in named if found[2] not in ("average", "hashes")
    ]
    if not benchmarks:
        raise FormatError("it has no latency of any input.", "Run tritonbench with --metrics latency.")
    return ParsedFile(tuple(benchmarks))


def _tritonbench_table(table: CsvTable, name: str) -> ParsedFile:
    """``--output FILE``: a table whose first column is the input, with a column ``BACKEND-latency`` for each backend."""
    benchmarks = []
    for row in table.rows:
        _refuse_short(table, row)
        for header, value in zip(table.header[1:], row[1:], strict=True):
            backend, _, metric = header.rpartition("-")
            if metric == "latency" and row[0] not in ("average", "hashes"):
                benchmarks.append(_tritonbench_case(name, row[0], backend, value))
    return ParsedFile(tuple(benchmarks))


def _tritonbench_case(operator: str, shape: str, backend: str, latency: object) -> TimedBenchmark:
    parameters = {"input": clean(shape, 80), "backend": clean(backend, 80)}
    numbers = re.fullmatch(r"\(([\w.+-]+(?:, [\w.+-]+)*),?\)", shape)
    config = f"{backend}-{numbers[1].replace(', ', '-') if numbers else shape}"
    figure = "" if latency is None else str(latency).partition(" ")[0]
    if not figure:
        return TimedBenchmark(operator, config, parameters=parameters, untimed="it has no latency")
    try:
        float(figure)
    except ValueError:  # such as "CUDA OOM"
        return TimedBenchmark(operator, config, parameters=parameters, problem=clean(latency, 120))
    return timed(operator, config, [figure], Unit(ms=1.0), parameters=parameters)
