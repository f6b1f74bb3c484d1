"""The formats of other harnesses: each is a function from a parsed file to its benchmarks, with times in milliseconds.

A rate, such as GB/s, becomes the time of one unit of work: half the rate is twice the time. Where a file has single samples and a
summary of them, the samples are taken. `results` calls these functions and turns every error into a sentence. Where each format
is described stands in docs/harnesses.md. Only `nvbench` touches files: those of its samples, beside its JSON.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratchet.core.untrusted import clean


@dataclass(frozen=True)
class TimedBenchmark:
    benchmark: str
    """As the harness calls it, and so for ``config``; a case's name is made of both."""
    config: str = ""
    samples_ms: tuple[float, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    unit: Unit | None = None
    """Of the figures in the file, where they are rates."""
    problem: str = ""
    """Why the harness could not time it."""
    skipped: str = ""

    @property
    def name(self) -> str:
        return f"{self.benchmark} {self.config}".strip()


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
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CsvTable:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class FormatError(Exception):
    """A file of the right format without what is needed from it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


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


_TIMES = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6}
_WORDS = {"seconds": "s", "sec": "s", "milliseconds": "ms", "millisecond": "ms", "msec": "ms", "microseconds": "us", "usec": "us"}
_WORDS |= {"nanoseconds": "ns", "nsec": "ns"}
_SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def unit_of(text: str) -> Unit | None:
    """Return the unit that a text names, such as ``ms``, ``GB/s``, ``TFLOPS``, ``tok/s``; None where it names none."""
    word = text.strip().lower().replace("per_second", "/s").replace("/sec", "/s").replace("_/s", "/s")
    word = _WORDS.get(word, word)
    if word in _TIMES:
        return Unit(ms=_TIMES[word])
    if size := re.fullmatch(r"([kmgtp]?)(i?)(?:b|bytes)/s", word):
        return Unit(bytes=_SIZES[size[1]] if not size[2] else 1024.0 ** " kmgtp".index(size[1]))
    if work := re.fullmatch(r"([kmgtp]?)flop(?:s|/s|s/s)", word):
        return Unit(flops=_SIZES[work[1]])
    return Unit() if re.fullmatch(r"[a-z]*/s|fps|tps|qps|ops", word) else None


# What a file looks like, so that a wrong one can be named.


@dataclass(frozen=True)
class OurFile:
    """A file that ratchet wrote and that holds no times of another harness."""

    what: str
    hint: str


OURS = {
    "run": OurFile("a recorded run of ratchet", "Give it without --format."),
    "verdict": OurFile("the verdict of a run of ratchet, without its samples", "Give the current.json that lies beside it."),
    "baseline": OurFile("a baseline of ratchet", "Give a recorded run, such as current.json."),
    "other record": OurFile("another file of ratchet", "Give a recorded run, such as current.json."),
}


def looks_like(document: Any) -> str | None:
    """Return the format of a document, or a key of `OURS`; None where nobody knows."""
    if isinstance(document, CsvTable):
        return "triton"
    first = document[0] if isinstance(document, list) and document else document
    if _has(first, "metric") and isinstance(first["metric"], dict):
        return "pytorch"
    return next((kind for kind, is_so in _LOOKS if is_so(document)), None) if isinstance(document, dict) else None


def _is_ours(document: dict[str, Any]) -> bool:
    return type(document.get("schema_version")) is int  # PyTorch's is a text


_LOOKS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("run", lambda one: _is_ours(one) and "kind" in one and "plan" in one),
    ("verdict", lambda one: _is_ours(one) and "verdict" in one),
    ("baseline", lambda one: _is_ours(one) and "fingerprints" in one),
    ("other record", _is_ours),
    ("triton", lambda one: any(str(key).startswith("tritonbench_") for key in _metrics(one))),
    ("pytest-benchmark", lambda one: "machine_info" in one),
    ("google-benchmark", lambda one: "context" in one and isinstance(one.get("benchmarks"), list)),
    ("nvbench", lambda one: isinstance(one.get("benchmarks"), list)),
    ("hyperfine", lambda one: isinstance(one.get("results"), list) and all(_has(each, "command") for each in one["results"])),
    ("json", lambda one: isinstance(one.get("benchmarks"), dict)),
)
"""What is asked of a JSON object, in this order."""


def _metrics(document: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a file of tritonbench: all of it, or a part of it."""
    inner = document.get("metrics")
    return inner if isinstance(inner, dict) else document


def described(looks: str | None) -> str:
    """Return the rest of a sentence that begins with ``The file is``."""
    if looks in OURS:
        return OURS[looks].what
    return f"a file that {looks} writes" if looks else "no file of a harness that ratchet knows"


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


# The formats.


def _google_benchmark(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--benchmark_out=FILE --benchmark_out_format=json``: the real time of an iteration; a sample is one repetition."""
    found: dict[str, list[float]] = {}
    problems: dict[str, str] = {}
    for one in document["benchmarks"]:
        if one.get("run_type", "iteration") != "iteration":
            continue  # means and deviations of the repetitions
        name = one.get("run_name", one["name"])
        if one.get("error_occurred"):
            problems[name] = clean(one.get("error_message", "it failed"))
        else:
            found.setdefault(name, []).append(float(one["real_time"]) * _TIMES[one["time_unit"]])
    names = dict.fromkeys([*found, *problems])
    benchmarks = tuple(
        TimedBenchmark(*_halves(name), samples_ms=tuple(found.get(name, ())), problem=problems.get(name, "")) for name in names
    )
    return ParsedFile(benchmarks, FileOrigin(cpu=_text_of(document["context"], "host_name")))


def _halves(name: str) -> tuple[str, str]:
    benchmark, _, config = name.partition("/")
    return benchmark, config


_NVBENCH_FAILED = "Unexpected error: "
"""NVBench writes an exception as a skip whose reason begins so."""
_NVBENCH_SAMPLES = ("nv/json/bin:nv/cold/sample_times", "nv/json/bin:nv/cpu_only/sample_times")


def _nvbench(document: Any, _: Path | None, folder: Path) -> ParsedFile:
    """``--jsonbin FILE`` or ``--json FILE``: GPU times without a warm L2 cache; the samples where ``--jsonbin`` wrote them."""
    devices = {device["id"]: str(device["name"]) for device in document.get("devices") or ()}
    several = len({number for one in document["benchmarks"] for number in one.get("devices") or ()}) > 1
    benchmarks = []
    for one in document["benchmarks"]:
        for state in one["states"] or ():
            axes = {str(axis["name"]): str(axis["value"]) for axis in state.get("axis_values") or ()}
            words = [f"{name}_{value}" for name, value in axes.items()]
            on_gpu = bool(one.get("devices"))  # else the number of the device was never set, and may be any
            config = "-".join([f"device_{state['device']}"] * (several and on_gpu) + words)
            if state.get("is_skipped"):
                reason = clean(state.get("skip_reason", "skipped"))
                failed = reason.startswith(_NVBENCH_FAILED)
                problem, skipped = (reason.removeprefix(_NVBENCH_FAILED), "") if failed else ("", reason)
                benchmarks.append(TimedBenchmark(str(one["name"]), config, parameters=axes, problem=problem, skipped=skipped))
                continue
            summaries = {summary["tag"]: _named_values(summary.get("data") or ()) for summary in state.get("summaries") or ()}
            samples = _nvbench_samples(summaries, folder)
            benchmarks.append(TimedBenchmark(str(one["name"]), config, samples, axes))
    return ParsedFile(tuple(benchmarks), FileOrigin(gpu=next(iter(devices.values()), None)))


def _named_values(values: Iterable[Any]) -> dict[str, str]:
    return {str(one["name"]): str(one["value"]) for one in values}


def _nvbench_samples(summaries: Mapping[str, Mapping[str, str]], folder: Path) -> tuple[float, ...]:
    """Return every sample, from the file of little-endian float32 beside the JSON; else the mean."""
    if bulk := next((summaries[tag] for tag in _NVBENCH_SAMPLES if tag in summaries), None):
        # Older releases name the file by the path that was given to them: only its own folder and name count.
        parts = Path(bulk["filename"]).parts[-2:]
        if ".." in parts:
            raise FormatError("its samples lie in another folder.", "Keep them beside it.")
        place = folder.joinpath(*parts)
        count = int(bulk["size"])
        if place.exists() and not place.is_file():
            raise FormatError(f"{place} is not a regular file.", "Keep the samples beside it.")
        try:
            with place.open("rb") as stream:
                content = stream.read(4 * count + 1)
        except OSError as error:
            raise FormatError(
                f"its samples in {place} cannot be read: {error.strerror}.", "Keep that folder beside it."
            ) from None
        if len(content) != 4 * count:
            raise FormatError(f"{place} has not {count} samples, but {len(content) // 4}.", "Measure again.")
        seconds = array("f", content)
        return tuple(sample * 1e3 for sample in seconds)
    for tag in ("nv/cold/time/gpu/mean", "nv/batch/time/gpu/mean", "nv/cold/time/cpu/mean", "nv/cpu_only/time/cpu/mean"):
        if tag in summaries:
            return (float(summaries[tag]["value"]) * 1e3,)
    return ()


def _pytest_benchmark(document: Any, __: Path | None, ___: Path) -> ParsedFile:
    """``--benchmark-json=FILE``: every round, where the file has them, else the median."""
    benchmarks = []
    for one in document["benchmarks"]:
        function, _, config = str(one["fullname"]).partition("[")
        name = function.replace(".py::", ".").replace("::", ".").replace("/", ".")
        stats = one["stats"]
        seconds = stats.get("data") or [stats["median"]]
        parameters = {str(key): clean(value, 80) for key, value in (one.get("params") or {}).items()}
        samples = tuple(float(value) * 1e3 for value in seconds)
        benchmarks.append(TimedBenchmark(name, config.removesuffix("]"), samples, parameters))
    machine, commit = document["machine_info"], document.get("commit_info") or {}
    cpu = (machine.get("cpu") or {}).get("brand_raw")
    return ParsedFile(tuple(benchmarks), FileOrigin(cpu=cpu and clean(cpu, 120), commit=_commit(commit.get("id"))))


def _hyperfine(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--export-json FILE``: the wall time of every run of a command."""
    benchmarks = []
    for one in document["results"]:
        parameters = {str(key): str(value) for key, value in (one.get("parameters") or {}).items()}
        config = "-".join(f"{name}_{value}" for name, value in parameters.items())
        failed = next((code for code in one.get("exit_codes") or () if code != 0), 0)
        problem = f"the command ended with status {failed}" if failed else ""
        samples = tuple(float(value) * 1e3 for value in one.get("times") or ())
        benchmarks.append(TimedBenchmark(str(one["command"]), config, samples, parameters, problem=problem))
    return ParsedFile(tuple(benchmarks))


def _triton(document: Any, file: Path | None, _: Path) -> ParsedFile:
    """The CSV of ``perf_report`` (``run(save_path=…)``), and the CSV or JSON of tritonbench."""
    if not isinstance(document, CsvTable):
        return _tritonbench(_metrics(document))
    if any(header.endswith("-latency") for header in document.header):
        return _tritonbench_table(document, file.stem if file else "tritonbench")
    columns = [(header, re.fullmatch(r"(.*) \(([^()]*)\)", header)) for header in document.header]
    timed = {place: (found[1], unit_of(found[2])) for place, (_, found) in enumerate(columns) if found}
    if not timed:
        raise FormatError(
            f"no column names its unit, as in 'Triton (ms)': {', '.join(clean(name, 40) for name in document.header[:6])}.",
            'Give triton.testing.Benchmark a ylabel, such as "ms" or "GB/s", and take Triton 3.1 or newer.',
        )
    unknown = next((columns[place][0] for place, (_, unit) in timed.items() if unit is None), None)
    if unknown:
        raise FormatError(
            f"the unit of the column {clean(unknown, 80)!r} is none that ratchet knows.", 'Take a ylabel such as "ms" or "GB/s".'
        )
    benchmarks = []
    for row in document.rows:
        _refuse_short(document, row)
        inputs = {document.header[place]: _plain(value) for place, value in enumerate(row) if place not in timed}
        for place, (line, unit) in timed.items():
            config = "-".join([line, *(f"{name}_{value}" for name, value in inputs.items())])
            samples = (_of_unit(unit, row[place]),) if row[place] and unit else ()
            benchmarks.append(TimedBenchmark(file.stem if file else "perf_report", config, samples, inputs, unit))
    return ParsedFile(tuple(benchmarks))


def _refuse_short(table: CsvTable, row: tuple[str, ...]) -> None:
    if len(row) != len(table.header):
        raise FormatError(f"a row has {len(row)} of {len(table.header)} columns: it seems to be cut off.", "Measure again.")


def _plain(value: str) -> str:
    """Return ``4096.000000``, as pandas writes a whole number, as ``4096``."""
    return value.rstrip("0").rstrip(".") if re.fullmatch(r"-?\d+\.\d+", value) else value


def _of_unit(unit: Unit, text: str) -> float:
    value = float(text)
    if not value > 0:
        raise FormatError(f"a figure is {clean(text, 40)}, which is no time and no rate.", "Measure again.")
    return unit.in_ms(value)


_TRITONBENCH = re.compile(r"tritonbench_(.+)\[x_(.*)-([^-\]]+)\]_latency")


def _tritonbench(metrics: Mapping[str, Any]) -> ParsedFile:
    """``--output-json FILE``: the latency of each input and backend, in milliseconds."""
    benchmarks = []
    for key, value in metrics.items():
        named = _TRITONBENCH.fullmatch(key)
        if named and named[2] not in ("average", "hashes") and value is not None:
            benchmarks.append(_tritonbench_case(named[1], named[2], named[3], str(value)))
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
            if metric == "latency" and row[0] not in ("average", "hashes") and value:
                benchmarks.append(_tritonbench_case(name, row[0], backend, value))
    return ParsedFile(tuple(benchmarks))


def _tritonbench_case(operator: str, shape: str, backend: str, latency: str) -> TimedBenchmark:
    parameters = {"input": clean(shape, 80), "backend": clean(backend, 80)}
    try:
        samples = (float(latency.partition(" ")[0]),)
    except ValueError:  # such as "CUDA OOM"
        return TimedBenchmark(operator, f"{backend}-{shape}", (), parameters, problem=clean(latency, 120))
    return TimedBenchmark(operator, f"{backend}-{shape}", samples, parameters)


_METRIC_UNIT = re.compile(
    r"(?:.*[_( ])?([a-zµμ]+(?:/[a-z]+)?|[a-z]+_per_second)(?:\)?\(?(?:avg|mean|median|p50)?\)?)", re.IGNORECASE
)


def _pytorch(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Records of PyTorch's benchmark database: ``metric.benchmark_values`` of every metric that is a time or a rate."""
    benchmarks, left_out = [], []
    gpu = None
    for one in document if isinstance(document, list) else [document]:
        metric, about, model = one["metric"], one.get("benchmark") or {}, one.get("model") or {}
        name = str(metric["name"])
        stated = metric.get("unit") or (metric.get("extra_info") or {}).get("unit")
        named = _METRIC_UNIT.fullmatch(name)
        unit = unit_of(str(stated)) if stated else named and unit_of(named[1])
        if not unit:
            left_out.append(clean(name, 60))
            continue
        words = [
            str(model.get("name", "")),
            *(str(about.get(key, "")) for key in ("mode", "dtype")),
            str(model.get("backend", "")),
            name,
        ]
        samples = tuple(_of_unit(unit, str(value)) for value in metric["benchmark_values"])
        parameters = {key: clean(value, 80) for key, value in (about.get("extra_info") or {}).items() if isinstance(value, str)}
        benchmarks.append(
            TimedBenchmark(str(about.get("name", "pytorch")), "-".join(filter(None, words)), samples, parameters, unit)
        )
        gpu = gpu or next((_text_of(runner, "gpu_info") for runner in one.get("runners") or ()), None)
    others = ", ".join(dict.fromkeys(left_out))
    if not benchmarks:
        raise FormatError(f"none of its metrics is a time or a rate: {others}.", "Name a unit, as in 'latency_ms' or 'tok/s'.")
    return ParsedFile(
        tuple(benchmarks),
        FileOrigin(gpu=gpu),
        (f"Metrics that are neither times nor rates were left out: {others}.",) if others else (),
    )


def _json(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """Our own: ``{"unit": "ms", "benchmarks": {"name/config": [samples]}}``."""
    unit = unit_of(str(document.get("unit", "")))
    if unit is None:
        raise FormatError("it does not say its unit.", 'Write {"unit": "ms", "benchmarks": {"name/config": [0.52, 0.53]}}.')
    return ParsedFile(tuple(_own_cases(document["benchmarks"], unit)))


def _own_cases(benchmarks: Mapping[str, Any], unit: Unit) -> Iterator[TimedBenchmark]:
    for name, samples in benchmarks.items():
        if not isinstance(samples, list) or any(
            isinstance(value, bool) or not isinstance(value, int | float) for value in samples
        ):
            raise FormatError(f"{clean(name, 80)!r} is no list of numbers.", "Write one number for each sample.")
        yield TimedBenchmark(*_halves(name), samples_ms=tuple(_of_unit(unit, repr(value)) for value in samples), unit=unit)


def _text_of(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return clean(value, 120) if isinstance(value, str) and value else None


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40}", value) else ""


Parser = Callable[[Any, Path | None, Path], ParsedFile]
"""Takes the document, the file where it is one of a folder, and the folder that the file lies in."""
FORMATS: dict[str, Parser] = {
    "nvbench": _nvbench,
    "google-benchmark": _google_benchmark,
    "pytest-benchmark": _pytest_benchmark,
    "hyperfine": _hyperfine,
    "triton": _triton,
    "pytorch": _pytorch,
    "json": _json,
}
"""Format → its reader, which raises FormatError, or KeyError and the like for a document of another shape."""
