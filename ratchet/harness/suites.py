"""Files of suites and services in JSON: pytest-benchmark, CodSpeed, asv, Bencher, PyTorch's database, and our own. Pure.

`formats` lists the readers.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.core.untrusted import clean
from ratchet.harness.entries import (
    MOST_CASES,
    NANOSECONDS,
    SECONDS,
    Entry,
    FileOrigin,
    FormatError,
    ParsedFile,
    TimedBenchmark,
    Unit,
    commit_of,
    entries,
    halves,
    text_of,
    timed,
    unit_of,
    words_of,
)


class _PytestStats(Entry):
    data: list[Any] | None = None
    median: Any = None


class _PytestEntry(Entry):
    fullname: str
    params: dict[str, Any] | None = None
    stats: _PytestStats


def pytest_benchmark(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--benchmark-json=FILE``, or a file of its storage: every round, where the file has them, else the median."""
    refused: list[str] = []
    found = []
    for one in entries(document["benchmarks"], _PytestEntry, refused, "fullname"):
        parameters = {name: clean(value, 80) for name, value in (one.params or {}).items()}
        found.append(timed(*_of_test(one.fullname), one.stats.data or [one.stats.median], SECONDS, parameters=parameters))
    machine, commit = document["machine_info"], document.get("commit_info") or {}
    source = FileOrigin(cpu=text_of(machine.get("cpu"), "brand_raw"), commit=commit_of(commit.get("id")))
    return ParsedFile(tuple(found), source, tuple(refused))


def _of_test(name: str) -> tuple[str, str]:
    """Return benchmark and config of a test as pytest calls it: ``tests/test_k.py::test_roll[-1]``."""
    function, _, config = name.partition("[")
    return function.replace(".py::", ".").replace("::", ".").replace("/", "."), config.removesuffix("]")


class _CodspeedStats(Entry):
    median_ns: Any = None


class _CodspeedEntry(Entry):
    uri: str
    stats: _CodspeedStats


def codspeed(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``.codspeed/results_….json`` of pytest-codspeed in its walltime mode: the median of the rounds."""
    if document["instrument"].get("type") != "walltime":
        raise FormatError("it has no times: its instrument is not walltime.", "Run pytest with --codspeed-mode walltime.")
    refused: list[str] = []
    listed = entries(document["benchmarks"], _CodspeedEntry, refused, "uri")
    found = [timed(*_of_test(one.uri), [one.stats.median_ns], NANOSECONDS) for one in listed]
    return ParsedFile(tuple(found), notes=tuple(refused))


def asv(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``.asv/results/MACHINE/COMMIT-ENVIRONMENT.json``: every sample with ``asv run --record-samples``, else the median."""
    if document.get("version") != 2:
        raise FormatError("it is not version 2 of asv's results.", "Measure with asv 0.6 or newer.")
    columns = document["result_columns"]
    found: list[TimedBenchmark] = []
    left_out = []
    for name, row in document["results"].items():
        if not re.match(r"time(raw)?_", name.rpartition(".")[2]):
            left_out.append(clean(name, 60))
        elif isinstance(row, list):
            found += _of_asv(name, dict(zip(columns, row, strict=False)))
        else:
            found.append(TimedBenchmark(name, untimed="its entry is no list"))
    params = document.get("params")
    source = FileOrigin(cpu=text_of(params, "cpu") or text_of(params, "machine"), commit=commit_of(document.get("commit_hash")))
    notes = (f"Results of asv that are no times were left out: {', '.join(left_out)}.",) if left_out else ()
    return ParsedFile(tuple(found), source, notes)


def _of_asv(name: str, row: Mapping[str, Any]) -> Iterator[TimedBenchmark]:
    """Yield a case for each combination of parameters, in asv's order."""
    params, results = row.get("params") or [], row.get("result")
    count = math.prod(map(len, params))
    results = [None] * min(count, MOST_CASES) if results is None else results
    if not isinstance(results, list) or len(results) != count:
        yield TimedBenchmark(name, untimed=f"it has not a result for each of {count} combinations of parameters")
        return
    configs = ["-".join(map(_asv_value, values)) for values in itertools.product(*params)]
    samples = row.get("samples") or []
    for config, result, drawn in itertools.zip_longest(configs, results, samples[:count]):
        if result is None:
            yield TimedBenchmark(name, config, problem="asv has no result of it: it failed")
        elif isinstance(result, float) and math.isnan(result):
            yield TimedBenchmark(name, config, skipped="asv skipped it")
        else:
            yield timed(name, config, drawn if isinstance(drawn, list) and drawn else [result], SECONDS)


def _asv_value(shown: object) -> str:
    """Return a parameter without the quotes that asv writes around a text."""
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        if isinstance(value := ast.literal_eval(str(shown)), str):
            return value
    return str(shown)


_MEASURES = {"latency": NANOSECONDS, "throughput": Unit(), "build-time": SECONDS}
"""Measures that Bencher has in each project, and their units; of any other, only its user knows the unit."""


def bencher(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Bencher's metric format: ``{"name": {"latency": {"value": 88.0}}}``; a case for each measure that is a time or a rate."""
    found = []
    left_out = []
    for name, measures in document.items():
        if not isinstance(measures, dict):
            left_out.append(clean(name, 60))
            continue
        for measure, metric in measures.items():
            unit = _MEASURES.get(measure)
            if unit is None:
                left_out.append(f"{clean(measure, 40)} of {clean(name, 60)}")
            elif not isinstance(metric, dict):
                found.append(TimedBenchmark(name, measure, untimed="its measure has no value"))
            else:
                found.append(timed(name, measure, [metric.get("value")], unit))
    if not found:
        raise FormatError(f"it has neither latency nor throughput: {', '.join(left_out[:6])}.", "Give it one of these measures.")
    notes = (f"Measures whose unit is not known were left out: {', '.join(left_out)}.",) if left_out else ()
    return ParsedFile(tuple(found), notes=notes)


_METRIC_UNIT = re.compile(
    r"(?:.*[_( ])?([a-zµμ]+(?:/[a-z]+)?|[a-z]+_per_second)(?:\)?\(?(?:avg|mean|median|p50)?\)?)", re.IGNORECASE
)


class _Metric(Entry):
    name: str
    unit: Any = None
    benchmark_values: Any = None
    extra_info: Any = None


class _Record(Entry):
    metric: _Metric
    benchmark: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    runners: list[Any] | None = None


def pytorch(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Records of PyTorch's benchmark database: ``metric.benchmark_values`` of every metric that is a time or a rate."""
    refused: list[str] = []
    found, left_out = [], []
    gpu = None
    for one in entries(document if isinstance(document, list) else [document], _Record, refused):
        metric, about, model = one.metric, one.benchmark or {}, one.model or {}
        stated = metric.unit or text_of(metric.extra_info, "unit")
        named = _METRIC_UNIT.fullmatch(metric.name)
        unit = unit_of(str(stated)) if stated else named and unit_of(named[1])
        if not unit:
            left_out.append(clean(metric.name, 60))
            continue
        words = [
            str(model.get("name", "")),
            *(str(about.get(key, "")) for key in ("mode", "dtype")),
            str(model.get("backend", "")),
            re.sub(r"\((\w+)\)$", r"-\1", metric.name),
        ]
        info = about.get("extra_info")
        parameters = {key: clean(value, 80) for key, value in (info or {}).items() if isinstance(value, str)}
        values = metric.benchmark_values if isinstance(metric.benchmark_values, list) else [metric.benchmark_values]
        config = "-".join(filter(None, words))
        found.append(timed(str(about.get("name", "pytorch")), config, values, unit, parameters=parameters))
        gpu = gpu or next((text_of(runner, "gpu_info") for runner in one.runners or ()), None)
    others = ", ".join(dict.fromkeys(left_out))
    if not found:
        raise FormatError(f"none of its metrics is a time or a rate: {others}.", "Name a unit, as in 'latency_ms' or 'tok/s'.")
    notes = (f"Metrics that are neither times nor rates were left out: {others}.",) if others else ()
    return ParsedFile(tuple(found), FileOrigin(gpu=gpu), (*notes, *refused))


def own(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Our own: ``{"unit": "ms", "benchmarks": {"name/config": [samples]}}``."""
    unit = unit_of(str(document.get("unit", "")))
    if unit is None:
        raise FormatError("it does not say its unit.", 'Write {"unit": "ms", "benchmarks": {"name/config": [0.52, 0.53]}}.')
    return ParsedFile(tuple(_own_case(*halves(name), values, unit) for name, values in document["benchmarks"].items()))


def _own_case(benchmark: str, config: str, values: object, unit: Unit) -> TimedBenchmark:
    if not isinstance(values, Sequence) or not all(type(value) in (int, float) for value in values):
        what = clean(values, 60) if isinstance(values, str) else "no list of numbers"
        return TimedBenchmark(benchmark, config, untimed=f"it is {what}")
    return timed(benchmark, config, values, unit)


def seed(document: Any, file: Path | None, _: Path) -> ParsedFile:
    """``{"config": {…}, "performance": {"mean_time_ms": 0.053}}``, or a list: what `ratchet run --seed-format` writes."""
    entries = document if isinstance(document, list) else [document]
    return ParsedFile(tuple(_seed_case(entry["config"], entry["performance"], file) for entry in entries))


def _seed_case(config: object, performance: Mapping[str, Any], file: Path | None) -> TimedBenchmark:
    about = config if isinstance(config, Mapping) else {"name": config}
    plain = {str(name): value for name, value in about.items() if isinstance(value, str | int | float)}
    benchmark = str(plain.pop("benchmark", file.stem if file else "benchmark"))
    name = str(plain.pop("name", "")) or words_of({key: str(value) for key, value in plain.items()}) or "default"
    return timed(benchmark, name, [performance["mean_time_ms"]], Unit(ms=1.0))
