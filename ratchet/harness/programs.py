"""Files of harnesses that are programs: Google Benchmark, NVBench and hyperfine. `formats` lists the readers.

Only NVBench's reader touches files: those of its samples, beside its JSON.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ratchet.core.untrusted import clean
from ratchet.harness.entries import (
    SECONDS,
    Entry,
    FileOrigin,
    FormatError,
    ParsedFile,
    TimedBenchmark,
    entries,
    halves,
    text_of,
    timed,
    unit_of,
    words_of,
)


class _GoogleEntry(Entry):
    name: str
    run_name: str | None = None
    run_type: str = ""
    aggregate_name: str = ""
    family_index: int = 0
    per_family_instance_index: int = 0
    repetitions: int | None = None
    repetition_index: int | None = None
    real_time: Any = None
    time_unit: Any = None
    error_occurred: bool = False
    error_message: str = "it failed"
    skipped: bool = False
    skip_message: str = "skipped"


_OLD_AGGREGATE = re.compile(r"(.+)_(mean|median|stddev|cv|BigO|RMS)")
"""Names by which Google Benchmark 1.4 and older tell figures of several entries from entries."""
_Work = tuple[str, int, int, int]
"""What Google Benchmark repeats: name, family, instance in it, and how often one repetition of these was listed before."""


def google_benchmark(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--benchmark_out=FILE --benchmark_out_format=json``: the real time of an iteration; a sample is one repetition.

    Several families may have one name. What tells them apart is their index, so their repetitions are never put together.
    """
    left_out: list[str] = []
    works: dict[_Work, list[_GoogleEntry]] = {}
    means: dict[_Work, _GoogleEntry] = {}
    seen = Counter[Any]()
    listed = [*entries(document["benchmarks"], _GoogleEntry, left_out)]
    names = {one.name for one in listed}
    for one in listed:
        if not one.run_type and (old := _OLD_AGGREGATE.fullmatch(one.name)) and (old[1] in names or old[2] in ("BigO", "RMS")):
            continue
        work = (one.run_name or one.name, one.family_index, one.per_family_instance_index)
        if one.run_type not in ("iteration", ""):
            if one.aggregate_name not in ("BigO", "RMS"):  # fits of several benchmarks
                means.setdefault((*work, 0), one)
            continue
        place = 0 if one.repetition_index is None else seen[work, one.repetition_index]
        seen[work, one.repetition_index] += 1
        works.setdefault((*work, place), []).append(one)
    if means and not works:
        raise FormatError(
            "it has means of repetitions alone, without the repetitions (--benchmark_report_aggregates_only).",
            "Measure again without that option.",
        )
    found = [(work, replace(_google_case(listed), original=work[0])) for work, listed in works.items()]
    found += [
        (
            work,
            TimedBenchmark(
                *halves(work[0]), original=work[0], untimed="it has means of its repetitions alone (ReportAggregatesOnly)"
            ),
        )
        for work in means
        if work not in works
    ]
    first = {work[0]: place for place, (work, _) in reversed([*enumerate(found)])}
    found.sort(key=lambda one: (first[one[0][0]], one[0]))
    return ParsedFile(
        tuple(case for _, case in found), FileOrigin(cpu=text_of(document["context"], "host_name")), tuple(left_out)
    )


def _google_case(listed: list[_GoogleEntry]) -> TimedBenchmark:
    names = halves(listed[0].run_name or listed[0].name)
    if fault := next((one.fault for one in listed if one.fault), ""):
        return TimedBenchmark(*names, untimed=fault)
    if failed := next((one for one in listed if one.error_occurred), None):
        return TimedBenchmark(*names, problem=clean(failed.error_message))
    if skipped := next((one for one in listed if one.skipped), None):
        return TimedBenchmark(*names, skipped=clean(skipped.skip_message))
    if len(listed) > 1 and all(one.repetition_index is one.repetitions is None for one in listed):
        several = f"{len(listed)} entries have this name, and nothing says whether they repeat one benchmark"
        return TimedBenchmark(*names, untimed=several)
    units = " and ".join(dict.fromkeys(clean(one.time_unit, 40) for one in listed))
    unit = unit_of(units)
    if unit is None or not unit.ms:
        return TimedBenchmark(*names, untimed=f"its time_unit is {units}")
    return timed(*names, [one.real_time for one in listed], unit)


_NVBENCH_FAILED = "Unexpected error: "
"""NVBench writes an exception as a skip whose reason begins so."""
_NVBENCH_SAMPLES = ("nv/json/bin:nv/cold/sample_times", "nv/json/bin:nv/cpu_only/sample_times")
_MOST_SAMPLES = 1 << 24
"""Most samples of one state that are read: 64 MiB."""
_NVBENCH_TIMES = ("nv/cold/time/gpu/mean", "nv/batch/time/gpu/mean", "nv/cold/time/cpu/mean", "nv/cpu_only/time/cpu/mean")


class _NamedValue(Entry):
    name: str
    value: Any = None


class _Summary(Entry):
    tag: str
    data: list[_NamedValue] | None = None


class _State(Entry):
    axis_values: list[_NamedValue] | None
    device: Any = None
    summaries: list[_Summary] | None = None
    is_skipped: bool = False
    skip_reason: str = "skipped"


class _NvBenchmark(Entry):
    name: str
    states: list[Any] | None
    devices: list[Any] | None = None


def nvbench(document: Any, _: Path | None, folder: Path) -> ParsedFile:
    """``--jsonbin FILE`` or ``--json FILE``: GPU times without a warm L2 cache; the samples where ``--jsonbin`` wrote them."""
    left_out: list[str] = []
    gpu = next((text_of(device, "name") for device in document.get("devices") or ()), None)
    benchmarks = [*entries(document["benchmarks"], _NvBenchmark, left_out)]
    several = len({str(number) for one in benchmarks for number in one.devices or ()}) > 1
    found = []
    for one in benchmarks:
        if not one.states:
            left_out.append(f"{clean(one.name, 80)}: it has no states")
        for state in entries(one.states, _State, left_out, of=f" of {clean(one.name, 80)}"):
            axes = {axis.name: str(axis.value) for axis in state.axis_values or ()}
            on_gpu = bool(one.devices)  # else the number of the device was never set, and may be any
            config = "-".join([f"device_{state.device}"] * (several and on_gpu) + [words_of(axes)] * bool(axes))
            found.append(_nvbench_case(one.name, config, axes, state, folder))
    return ParsedFile(tuple(found), FileOrigin(gpu=gpu), tuple(left_out))


def _nvbench_case(name: str, config: str, axes: Mapping[str, str], state: _State, folder: Path) -> TimedBenchmark:
    if state.is_skipped:
        reason = clean(state.skip_reason)
        failed = reason.startswith(_NVBENCH_FAILED)
        problem, skipped = (reason.removeprefix(_NVBENCH_FAILED), "") if failed else ("", reason)
        return TimedBenchmark(name, config, parameters=axes, problem=problem, skipped=skipped)
    if state.fault:
        return TimedBenchmark(name, config, parameters=axes, untimed=state.fault)
    summaries = {one.tag: {value.name: value.value for value in one.data or ()} for one in state.summaries or ()}
    # NVBench could not write the samples of a summary without a file's name.
    bulk = next((summaries[tag] for tag in _NVBENCH_SAMPLES if "filename" in summaries.get(tag, ())), None)
    try:
        if bulk:
            return timed(name, config, _nvbench_samples(bulk, folder), SECONDS, parameters=axes)
    except (FormatError, KeyError, TypeError, ValueError, OverflowError) as error:
        return TimedBenchmark(name, config, parameters=axes, untimed=clean(error).rstrip("."))
    values = [summaries[tag].get("value") for tag in _NVBENCH_TIMES if tag in summaries][:1]
    return timed(name, config, values, SECONDS, parameters=axes)


def _nvbench_samples(bulk: Mapping[str, Any], folder: Path) -> array[float]:
    """Return the samples in the file of little-endian float32 beside the JSON."""
    # Older releases name the file by the path that was given to them: only its own folder and name count.
    parts = Path(str(bulk["filename"]).lstrip("/")).parts[-2:]
    if ".." in parts:
        raise FormatError("its samples lie in another folder.", "Keep them beside it.")
    place, count = folder.joinpath(*parts), int(bulk["size"])
    if not 0 < count <= _MOST_SAMPLES:
        raise FormatError(f"it says that it has {count} samples.", "Measure again.")
    if place.exists() and not place.is_file():
        raise FormatError(f"{place} is not a regular file.", "Keep the samples beside it.")
    try:
        with place.open("rb") as stream:
            content = stream.read(4 * count + 1)
    except OSError as error:
        raise FormatError(f"its samples in {place} cannot be read: {error.strerror}.", "Keep that folder beside it.") from None
    if len(content) != 4 * count:
        raise FormatError(f"{place} has not {4 * count} bytes of {count} samples, but {len(content)}.", "Measure again.")
    return array("f", content)


class _HyperfineEntry(Entry):
    command: str
    times: list[Any] | None = None
    exit_codes: list[int | None] | None = None
    parameters: dict[str, Any] | None = None


def hyperfine(document: Any, _: Path | None, __: Path) -> ParsedFile:
    """``--export-json FILE``: the wall time of every run of a command."""
    left_out: list[str] = []
    found = []
    for one in entries(document["results"], _HyperfineEntry, left_out, "command"):
        parameters = {name: str(value) for name, value in (one.parameters or {}).items()}
        names = one.command, words_of(parameters)
        if one.fault:
            found.append(TimedBenchmark(*names, parameters=parameters, untimed=one.fault))
            continue
        failed = next((code for code in one.exit_codes or () if code != 0), 0)
        if failed != 0:
            problem = f"the command ended with status {failed}" if failed else "a signal ended the command: it has no exit code"
            found.append(TimedBenchmark(*names, parameters=parameters, problem=problem))
        elif one.times and 0 in one.times:
            why = "a run took 0 s, less than the shell that hyperfine takes off: give it --shell=none"
            found.append(TimedBenchmark(*names, parameters=parameters, skipped=why))
        else:
            found.append(timed(*names, one.times or (), SECONDS, parameters=parameters))
    return ParsedFile(tuple(found), left_out=tuple(left_out))
