"""Files of suites and services in JSON: pytest-benchmark, CodSpeed, asv, Criterion, Bencher, PyTorch's database, ours. Pure.

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
from typing import Annotated, Any

from pydantic import Field

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
    part,
    shown,
    text_of,
    timed,
    unit_of,
    with_slash,
    words_of,
)


class _PytestStats(Entry):
    data: list[Any] | None = None
    median: Any = None


class _PytestEntry(Entry):
    fullname: str
    params: Any = None
    stats: _PytestStats = _PytestStats()


def pytest_benchmark(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--benchmark-json=FILE``, or a file of its storage: every round, where the file has them, else the median."""
    left_out: list[str] = []
    found = []
    for one in entries(document["benchmarks"], _PytestEntry, left_out, "fullname"):
        parameters = {name: clean(value, 80) for name, value in one.params.items()} if isinstance(one.params, dict) else {}
        values = one.stats.data or [one.stats.median]
        found.append(timed(*_of_test(one.fullname), values, SECONDS, one.fault, parameters=parameters, original=one.fullname))
    cpu, commit = part(document["machine_info"], "cpu"), part(document.get("commit_info"), "id")
    return ParsedFile(tuple(found), FileOrigin(cpu=text_of(cpu, "brand_raw"), commit=commit_of(commit)), tuple(left_out))


def _of_test(name: str) -> tuple[str, str]:
    """Return benchmark and config of a test as pytest calls it: ``tests/test_k.py::test_roll[-1]``."""
    function, _, config = name.partition("[")
    return function.replace(".py::", ".").replace("::", ".").replace("/", "."), config.removesuffix("]")


class _CodspeedStats(Entry):
    median_ns: Any = None


class _CodspeedEntry(Entry):
    uri: str
    stats: _CodspeedStats = _CodspeedStats()


def codspeed(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``.codspeed/results_….json`` of pytest-codspeed in its walltime mode: the median of the rounds."""
    if document["instrument"].get("type") != "walltime":
        raise FormatError("it has no times: its instrument is not walltime.", "Run pytest with --codspeed-mode walltime.")
    left_out: list[str] = []
    listed = entries(document["benchmarks"], _CodspeedEntry, left_out, "uri")
    found = [timed(*_of_test(one.uri), [one.stats.median_ns], NANOSECONDS, one.fault, original=one.uri) for one in listed]
    return ParsedFile(tuple(found), left_out=tuple(left_out))


def asv(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``.asv/results/MACHINE/COMMIT-ENVIRONMENT.json``: every sample with ``asv run --record-samples``, else the median."""
    if document.get("version") != 2:
        raise FormatError(
            f"it is version {shown(document.get('version'))} of asv's results.", "Run `asv update` with asv 0.6 or newer."
        )
    columns = document["result_columns"]
    found: list[TimedBenchmark] = []
    left_out = []
    for name, row in document["results"].items():
        if not _IS_TIME.match(name.rpartition(".")[2]):
            left_out.append(f"{clean(name, 80)}: it is no time")
        elif isinstance(row, list):
            found += _of_asv(name, dict(zip(columns, row, strict=False)))
        else:
            found.append(TimedBenchmark(name, untimed="its entry is no list"))
    params = document.get("params")
    source = FileOrigin(cpu=text_of(params, "cpu") or text_of(params, "machine"), commit=commit_of(document.get("commit_hash")))
    return ParsedFile(tuple(found), source, tuple(left_out))


_IS_TIME = re.compile(r"time_|timeraw_|Time(raw)?[A-Z_]")
"""Begins the name of what asv takes for a time."""


def _of_asv(name: str, row: Mapping[str, Any]) -> Iterator[TimedBenchmark]:
    """Yield a case for each combination of parameters, in asv's order."""
    params, results, samples = row.get("params") or [], row.get("result"), row.get("samples") or []
    if not all(isinstance(each, list) for each in (params, samples, *params)):
        yield TimedBenchmark(name, untimed="its parameters or its samples are no list")
        return
    count = math.prod(map(len, params))
    results = [None] * min(count, MOST_CASES) if results is None else results
    if not count:
        yield TimedBenchmark(name, untimed="one of its parameters has no values")
        return
    if not isinstance(results, list) or len(results) != count:
        yield TimedBenchmark(name, untimed=f"it has not a result for each of {count} combinations of parameters")
        return
    configs = ["-".join(map(_asv_value, values)) for values in itertools.product(*params)]
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


CRITERION_RESULT = "benchmark-complete"
"""The reason of a message of cargo-criterion that has a benchmark's samples; other messages tell of groups."""


class _CriterionEntry(Entry):
    id: str
    iteration_count: list[Annotated[int, Field(gt=0)]] = []
    measured_values: list[Any] = []
    unit: Any = None


def criterion(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``cargo criterion --message-format=json``: each sample is a time of several iterations, and becomes that of one."""
    listed = [one for one in document if part(one, "reason") == CRITERION_RESULT] if isinstance(document, list) else [document]
    left_out: list[str] = []
    found = []
    for one in entries(listed, _CriterionEntry, left_out, "id"):
        unit = unit_of(str(one.unit))
        if not one.fault and (unit is None or not unit.ms):
            left_out.append(f"{clean(one.id, 80)}: its unit, {shown(one.unit)}, is none of time")
            continue
        is_whole = len(one.iteration_count) == len(one.measured_values)
        fault = one.fault or ("" if is_whole else "it has not as many counts of iterations as samples")
        samples = zip(one.measured_values, one.iteration_count, strict=False)
        each = [value / count if type(value) in (int, float) else value for value, count in samples]
        found.append(timed(*halves(one.id), each, unit or NANOSECONDS, fault, original=one.id))
    return ParsedFile(tuple(found), left_out=tuple(left_out))


_MEASURES = {"latency": NANOSECONDS, "throughput": Unit(), "build-time": SECONDS}
"""Measures that Bencher has in each project, and their units; of any other, only its user knows the unit."""


def bencher(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Bencher's metric format: ``{"name": {"latency": {"value": 88.0}}}``; a case for each measure that is a time or a rate."""
    found = []
    left_out = []
    for name, measures in document.items():
        if not isinstance(measures, dict) or not measures:
            left_out.append(f"{clean(name, 80)}: it has no measure")
            continue
        for measure, metric in measures.items():
            unit = _MEASURES.get(measure.strip().lower().replace(" ", "-"))  # by its name, or its slug
            if unit is None:
                left_out.append(f"{clean(measure, 40)} of {clean(name, 80)}: only its user knows its unit")
            elif not isinstance(metric, dict):
                found.append(TimedBenchmark(name, measure, untimed="its measure has no value"))
            else:
                found.append(timed(name, measure, [metric.get("value")], unit))
    if not found:
        raise FormatError(f"it has neither latency nor throughput: {'; '.join(left_out[:6])}.", "Give it one of these measures.")
    return ParsedFile(tuple(found), left_out=tuple(left_out))


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
    left_out: list[str] = []
    found = []
    gpu = None
    for one in entries(document if isinstance(document, list) else [document], _Record, left_out):
        metric, about, model = one.metric, one.benchmark or {}, one.model or {}
        stated = metric.unit or text_of(metric.extra_info, "unit")
        unit = unit_of(str(stated)) if stated else _unit_of_metric(metric.name)
        if not unit:
            left_out.append(f"{clean(metric.name, 60)}: it names no unit of a time or a rate")
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
        found.append(timed(str(about.get("name", "pytorch")), config, values, unit, one.fault, parameters=parameters))
        gpu = gpu or next((text_of(runner, "gpu_info") for runner in one.runners or ()), None)
    if not found:
        others = "; ".join(dict.fromkeys(left_out))
        raise FormatError(f"none of its metrics is a time or a rate: {others}.", "Name a unit, as in 'latency_ms' or 'tok/s'.")
    return ParsedFile(tuple(found), FileOrigin(gpu=gpu), tuple(left_out))


def _unit_of_metric(name: str) -> Unit | None:
    """Return the unit that ends a name: ``latency_ms``, ``avg time(ms)``, ``tok/s(avg)``, ``output_tokens_per_second``."""
    text = re.sub(r"[_ ]?\(?(?:avg|mean|median|p50)\)?$", "", with_slash(name.strip()), flags=re.IGNORECASE)
    found = re.search(r"(?:^|[_( ])([a-z]*/s(?:ec)?|[a-zµμ]+)\)?$", text, re.IGNORECASE)
    return unit_of(found[1]) if found else None


def own(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Our own: ``{"unit": "ms", "benchmarks": {"name/config": [samples]}}``."""
    unit = unit_of(str(document.get("unit", "")))
    if unit is None:
        raise FormatError("it does not say its unit.", 'Write {"unit": "ms", "benchmarks": {"name/config": [0.52, 0.53]}}.')
    return ParsedFile(tuple(_own_case(name, values, unit) for name, values in document["benchmarks"].items()))


def _own_case(name: str, values: object, unit: Unit) -> TimedBenchmark:
    if not isinstance(values, Sequence) or not all(type(value) in (int, float) for value in values):
        what = clean(values, 60) if isinstance(values, str) else "no list of numbers"
        return TimedBenchmark(*halves(name), original=name, untimed=f"it is {what}")
    return timed(*halves(name), values, unit, original=name)


class _SeedEntry(Entry):
    config: Any
    performance: dict[str, Any]


def seed(document: Any, file: Path | None, _: Path) -> ParsedFile:
    """``{"config": {…}, "performance": {"mean_time_ms": 0.053}}``, or a list: what `ratchet run --seed-format` writes."""
    left_out: list[str] = []
    listed = entries(document if isinstance(document, list) else [document], _SeedEntry, left_out)
    return ParsedFile(tuple(_seed_case(one, file) for one in listed), left_out=tuple(left_out))


def _seed_case(one: _SeedEntry, file: Path | None) -> TimedBenchmark:
    about = one.config if isinstance(one.config, Mapping) else {"name": one.config}
    plain = {str(name): value for name, value in about.items() if isinstance(value, str | int | float)}
    benchmark = str(plain.pop("benchmark", file.stem if file else "benchmark"))
    name = str(plain.pop("name", "")) or words_of({key: str(value) for key, value in plain.items()}) or "default"
    fault = "" if "mean_time_ms" in one.performance else "it has no performance.mean_time_ms"
    return timed(benchmark, name, [one.performance.get("mean_time_ms")], Unit(ms=1.0), fault)
