"""Single entries of other harnesses' files: a fault costs its own case, work is never mixed, and every entry is accounted for."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratchet.core.errors import RecordError
from ratchet.core.records.files import file_stem
from ratchet.core.records.run import CASE_NAME
from ratchet.harness.entries import unit_within
from ratchet.harness.formats import FORMATS
from ratchet.harness.results import HarnessResults, case_name, read_results
from tests.unit.test_harness_results import DATA


def read(folder: Path, content: Any, name: str = "some.json") -> HarnessResults:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_results(file)


def told(results: HarnessResults) -> dict[str, str]:
    """Map each case to what is said of it: a number of samples, or why there are none."""
    shown = {}
    for case in results.cases:
        one = case.benchmark
        words = {"failed": one.problem, "skipped": one.skipped, "untimed": one.untimed}
        shown[case.name] = ", ".join(f"{kind}: {text}" for kind, text in words.items() if text) or str(len(case.samples_ms))
    return shown


def google(name: str, time: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": time, "time_unit": "us", **more}


def google_file(*benchmarks: Any) -> dict[str, Any]:
    return {"context": {"host_name": "r"}, "benchmarks": list(benchmarks)}


def test_instances_and_repetitions_of_one_name_stay_apart(tmp_path: Path) -> None:
    """So do twins within a family, and those of a version that knows no families; what repeats one benchmark is put together."""
    twins = [google("a", 1.0, per_family_instance_index=0, repetition_index=0), google("a", 9.0, per_family_instance_index=1)]
    assert told(read(tmp_path, google_file(*twins))) == {"a/default-1of2": "1", "a/default-2of2": "1"}
    older = [google("a", time, repetitions=2, repetition_index=place) for time in (1.0, 9.0) for place in (0, 1)]
    found = read(tmp_path, google_file(*older))
    assert [case.samples_ms for case in found.cases] == [pytest.approx((0.001, 0.001)), pytest.approx((0.009, 0.009))]
    [case] = read(tmp_path, google_file(*older[:2])).cases
    assert (case.name, len(case.samples_ms)) == ("a/default", 2)
    said = told(read(tmp_path, google_file(google("a", 1.0), google("a", 9.0), google("b"))))
    assert said["a/default"].startswith("untimed: 2 entries have this name, and nothing says whether they repeat")


def test_one_entry_without_a_time_costs_no_other_case(tmp_path: Path) -> None:
    """The file's own words say why; a counter that nobody uses may hold anything."""
    strange = [
        google("ok", hit_rate=math.nan, snr=math.inf, label=["a"]),
        google("fp8", 0.0, skipped=True, skip_message="needs compute capability 8.9"),
        google("broken", error_occurred=True, error_message="no device"),
        google("nan", math.nan),
        google("text", "soon"),
        google("unit", time_unit="ticks"),
        google("mean", run_type="aggregate", aggregate_name="mean"),
        google("ok_BigO", run_type="aggregate", aggregate_name="BigO"),
        google("numbered", family_index="first"),
        google("repeated", repetitions=2, repetition_index=0),
        google("repeated", repetitions=2, repetition_index=1, time_unit="ns"),
        {"real_time": 1.0},
        None,
    ]
    found = read(tmp_path, google_file(*strange))
    assert told(found) == {
        "ok/default": "1",
        "fp8/default": "skipped: needs compute capability 8.9",
        "broken/default": "failed: no device",
        "nan/default": "untimed: it has a time of nan us, which cannot be",
        "text/default": "untimed: it has a time of soon us, which cannot be",
        "unit/default": "untimed: its time_unit is ticks",
        "mean/default": "untimed: it has means of its repetitions alone (ReportAggregatesOnly)",
        "numbered/default": "untimed: its family_index is first",
        "repeated/default": "untimed: its time_unit is us and ns",
    }
    assert found.left_out == ("entry 12: it has no name", "entry 13: it is null")
    assert found.notes == ("Left out of its results: entry 12: it has no name; entry 13: it is null.",)


def test_numbers_that_are_none_cost_their_entry_alone(tmp_path: Path) -> None:
    """Google Benchmark writes -NaN for 0/0, and C's printf -nan and inf; the same words within a text stay as they are."""
    text = json.dumps(google_file(google("a", rate="X"), google("b -NaN", 0.5), google('c" inf, nan', "Y")))
    for word in ("NaN", "-NaN", "nan", "-nan", "inf", "-inf", "Infinity", "-Infinity"):
        found = told(read(tmp_path, text.replace('"X"', word).replace('"Y"', word)))
        assert [*found.values()][:2] == ["1", "1"]
        assert [*found.values()][2].startswith("untimed: it has a time of ")
        assert [*found][1] == "b--NaN/default"
    for broken in ("{nan: 1}", '{"a": ["' + '\\"' * 200_000, '{"a": -NaN'):  # the second, quickly
        with pytest.raises(RecordError, match="is not JSON"):
            read(tmp_path, broken)


def test_what_lists_nothing_is_named(tmp_path: Path) -> None:
    """A benchmark whose axis or parameter has no values times nothing, and an entry without figures costs no other one."""
    timed = {"device": 0, "axis_values": [], "summaries": [mean(0, 1.0)]}
    benchmarks = [{"name": "a", "states": []}, {"name": "b", "states": [timed]}]
    assert read(tmp_path, {"meta": {}, "benchmarks": benchmarks}).left_out == ("a: it has no states",)
    rows = {"b.time_x": [[], [[]]], "b.time_y": [[1.0], []]}
    found = read(tmp_path, {"version": 2, "commit_hash": "", "result_columns": ["result", "params"], "results": rows})
    assert told(found) == {"b.time_x/default": "untimed: one of its parameters has no values", "b.time_y/default": "1"}
    one, *others = {"config": {"name": "x"}, "performance": {"mean_time_ms": 1.0}}, {"config": {"name": "y"}}
    found = read(tmp_path, [*others, one, {"config": {"name": "z"}, "performance": {}}])
    assert told(found) == {"benchmark/x": "1", "benchmark/z": "untimed: it has no performance.mean_time_ms"}
    assert found.left_out == ("entry 1: it has no performance",)


def test_aggregates_of_any_name_are_no_reason_to_drop_a_benchmark(tmp_path: Path) -> None:
    """ComputeStatistics adds others than the mean; a fit over several benchmarks is none of them."""
    aggregates = [("a", "p99"), ("a", "median"), ("fit", "BigO"), ("fit", "RMS")]
    listed = [google(f"{run}_{name}", run_name=run, run_type="aggregate", aggregate_name=name) for run, name in aggregates]
    assert set(told(read(tmp_path, google_file(google("x"), *listed)))) == {"x/default", "a/default"}


def test_samples_of_nvbench_that_cannot_be_read_cost_their_state_alone(tmp_path: Path) -> None:
    """Whatever a file says of where they are and how many."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "0.bin").write_bytes(bytes.fromhex("6f12833a") * 2)
    places = [("bin/0.bin", "2"), ("bin/0.bin", -1), ("bin/0.bin", 10**15), ("bin/0.bin", math.inf), ("bin/0.bin", [])]
    places += [("bin", 2), ("../../bin/0.bin", 2), ("/etc/passwd", 2), ([1], 2), ("a\0b", 2), ("/none.bin", 2)]
    states = [
        {
            "axis_values": [{"name": "n", "value": number}],
            "summaries": [
                {
                    "tag": "nv/json/bin:nv/cold/sample_times",
                    "data": [{"name": "filename", "value": file}, {"name": "size", "value": size}],
                }
            ],
        }
        for number, (file, size) in enumerate(places)
    ]
    said = told(read(tmp_path, {"meta": {}, "benchmarks": [{"name": "b", "states": states}]}))
    assert said.pop("b/n_0") == said.pop("b/n_6") == "2", "older releases give the path from where the program ran"
    assert len(said) == len(places) - 2
    assert all(words.startswith("untimed: ") for words in said.values())
    assert f"{tmp_path.name}/none.bin" in said["b/n_10"], "nothing outside of the file's own folder is read"


def test_means_alone_say_which_option_made_them() -> None:
    """Google Benchmark's file is full of entries, so "no benchmark in it" would mislead."""
    with pytest.raises(RecordError, match=r"means of repetitions alone, .*--benchmark_report_aggregates_only"):
        read_results(DATA / "google-benchmark-aggregates.json")


def test_figures_of_repetitions_are_no_cases_in_old_files_either(tmp_path: Path) -> None:
    """Google Benchmark 1.4 has no run_type: only the name tells a mean from a benchmark."""
    names = ("a/8", "a/8_mean", "a/8_stddev", "a_BigO", "geometric_mean")
    listed = [{"name": name, "real_time": 1.0, "time_unit": "us"} for name in names]
    assert told(read(tmp_path, google_file(*listed))) == {"a/8": "1", "geometric_mean/default": "1"}


def test_what_hyperfine_says_of_a_command(tmp_path: Path) -> None:
    """No exit code is no success, and one run of 0 s is no reason to lose the others."""
    results = [
        {"command": "./gemm 4096", "times": [0.1], "exit_codes": [None]},
        {"command": "./fast", "times": [0.1, 0.0], "exit_codes": [0, 0]},
        {"command": "./gemm --fast", "times": [0.1], "exit_codes": [0]},
        {"command": "./gemm -fast", "times": [0.2], "exit_codes": [0]},
        {"command": "./gemm", "times": None},
    ]
    assert told(read(tmp_path, {"results": results})) == {
        ".-gemm-4096/default": "failed: a signal ended the command: it has no exit code",
        ".-fast/default": "skipped: a run took 0 s, less than the shell that hyperfine takes off: give it --shell=none",
        ".-gemm---fast/default": "1",
        ".-gemm--fast/default": "1",
        ".-gemm/default": "untimed: it has no samples",
    }


def test_states_of_nvbench_that_have_no_times_or_are_listed_twice(tmp_path: Path) -> None:
    """A summary whose samples NVBench could not write has no file's name; its mean is taken."""

    def state(value: str, summaries: Any) -> dict[str, Any]:
        return {"device": 0, "axis_values": [{"name": "T", "value": value}], "summaries": summaries, "is_skipped": False}

    mean = {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "value": "1e-4"}]}
    unwritten = {"tag": "nv/json/bin:nv/cold/sample_times", "data": [{"name": "hide", "value": "x"}]}
    states = [state("I8", [mean]), state("I8", [mean]), state("I16", None), state("F32", [unwritten, mean])]
    document = {"devices": [{"id": 0, "name": "NVIDIA H100"}], "benchmarks": [{"name": "b", "devices": [0], "states": states}]}
    assert told(read(tmp_path, document)) == {
        "b/T_I8-1of2": "1",
        "b/T_I8-2of2": "1",
        "b/T_I16": "untimed: it has no samples",
        "b/T_F32": "1",
    }


@pytest.mark.parametrize(
    ("axis", "ms", "work"),
    [
        ("Execution Time (ms)", 1.0, None),
        ("TFLOP/s (larger is better)", 0.0, 1e12),
        ("Latency [us]", 1e-3, None),
        ("Latency (us)", 1e-3, None),
        ("Time in ms", 1.0, None),
        ("Throughput (GB/s)", 0.0, 1e9),
        ("tokens/s", 0.0, None),
        ("Throughput (tokens per sec)", 0.0, None),
        ("GB per s", 0.0, 1e9),
        ("us per token", 1e-3, None),
    ],
)
def test_a_unit_is_found_where_people_write_it(axis: str, ms: float, work: float | None) -> None:
    """In brackets of either kind, before them, or after a word."""
    unit = unit_within(axis)
    assert unit is not None
    assert (unit.ms, unit.bytes or unit.flops) == (ms, work)


@pytest.mark.parametrize("axis", ["Speedup (x)", "Memory (MB)", "larger is better", "GB/s (at 5 ms)", "tokens per ms"])
def test_an_axis_without_one_unit_has_none(axis: str) -> None:
    """Nothing is guessed."""
    assert unit_within(axis) is None


@pytest.mark.parametrize(
    ("text", "cases"),
    [
        (
            "T,chunk (Execution Time (ms)),recurrent (Execution Time (ms))\n128.000000,0.120000,0.300000\n",
            {"perf_report/chunk-T_128": "1", "perf_report/recurrent-T_128": "1"},
        ),
        (
            "batch_size,fp8-tensor-w (TFLOP/s (larger is better))\n1.000000,20.000000\n",
            {"perf_report/fp8-tensor-w-batch_size_1": "1"},
        ),
        ("N,Latency [us]\n1024.000000,12.0\n", {"perf_report/Latency-N_1024": "1"}),
        ("\nwait (ms),Torch (ms)\n1.0,5.0\n2.0,6.0\n", {case_name("perf_report", f"Torch-wait (ms)_{n}"): "1" for n in (1, 2)}),
        ('N,"Torch, fp8; fast (ms)"\n8,5.0\n', {case_name("perf_report", "Torch, fp8; fast-N_8"): "1"}),
        (
            "N,Triton (ms),Torch (ms),Speedup,Diff (%)\n8.0,0.12,,2.5,1\n8.5,0.12,0.3,,1\n",
            {
                "perf_report/Triton-N_8": "1",
                "perf_report/Torch-N_8": "untimed: its cell is empty",
                "perf_report/Triton-N_8.5": "1",
                "perf_report/Torch-N_8.5": "1",
            },
        ),
    ],
)
def test_tables_of_perf_report(text: str, cases: dict[str, str], tmp_path: Path) -> None:
    """A column made of times, such as a speedup, is no part of a name: it changes in each process."""
    assert told(read(tmp_path, text, "t.csv")) == cases


def test_left_out_columns_are_named(tmp_path: Path) -> None:
    """Nobody wonders where a column went."""
    left_out = read(tmp_path, "N,Triton (ms),Speedup,Memory (MB)\n8.0,0.1,2.5x,\n", "t.csv").left_out
    assert left_out == tuple(f"the column {name}: it is neither a time nor a rate" for name in ("Speedup", "Memory (MB)"))


def test_a_result_that_asv_lacks(tmp_path: Path) -> None:
    """null is a failure and NaN a skip; a damaged row costs itself alone, however many parameters it claims."""
    document = {
        "version": 2,
        "commit_hash": "a" * 40,
        "params": {"machine": "r"},
        "result_columns": ["result", "params"],
        "results": {
            "b.time_x": [[1e-3, None, math.nan], [["1", "2", "3"]]],
            "b.time_y": None,
            "b.time_z": [[1.0], [["1"] * 1000] * 9],
            "b.TimeSuite": [[1.0], []],
            "b.time_w": [[1.0], "x"],
            "b.Timely": [[1.0], []],
            "b.peakmem_x": [[5], []],
        },
    }
    found = read(tmp_path, document)
    assert told(found) == {
        "b.time_x/1": "1",
        "b.time_x/2": "failed: asv has no result of it: it failed",
        "b.time_x/3": "skipped: asv skipped it",
        "b.time_y/default": "untimed: its entry is no list",
        "b.time_z/default": f"untimed: it has not a result for each of {10**27} combinations of parameters",
        "b.TimeSuite/default": "1",
        "b.time_w/default": "untimed: its parameters or its samples are no list",
    }
    assert found.left_out == ("b.Timely: it is no time", "b.peakmem_x: it is no time")


def test_a_damaged_record_of_pytorch_costs_no_other_one(tmp_path: Path) -> None:
    """Not even where it is the first, by which the file might be known."""
    good = {"metric": {"name": "latency_ms", "benchmark_values": [1.0]}, "benchmark": {"name": "b"}}
    found = read(tmp_path, [{"metric": None}, good])
    assert told(found) == {"b/latency_ms": "1"}
    assert found.left_out == ("entry 1: its metric is null",)


@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("mean_ttft_ms", 1.0),
        ("tokens_per_second", 1e3),
        ("output tokens_per_second(mean)", 1e3),
        ("token_per_sec", 1e3),
        ("samples_per_s", 1e3),
        ("avg time(ms)", 1.0),
        ("tok/s(avg)", 1e3),
        ("compile_time_us", 1e-3),
        ("latency", None),
        ("peak memory", None),
    ],
)
def test_the_name_of_a_metric_may_tell_its_unit(name: str, ms: float | None, tmp_path: Path) -> None:
    """vLLM and torchao give no other: what counts things a second is a rate, and a latency without a unit is left out."""
    other = {"metric": {"name": "x_ms", "benchmark_values": [5.0]}}
    found = read(tmp_path, [{"metric": {"name": name, "benchmark_values": [1.0]}}, other])
    assert [case.samples_ms for case in found.cases[:-1]] == ([] if ms is None else [pytest.approx((ms,))])
    assert found.left_out == ((f"{name}: it names no unit of a time or a rate",) if ms is None else ())


def test_a_folder_of_results_is_one_process(tmp_path: Path) -> None:
    """asv describes its machine and benchmarks beside them; a storage of several runs has to be named file by file."""
    assert len(read_results(DATA / "asv").cases) == 6
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "trace.json").write_text("{}")
    assert len(read(tmp_path, google_file(google("a"))).cases) == len(read_results(tmp_path).cases) == 1
    with pytest.raises(RecordError, match="keeps 2 runs of pytest-benchmark, each of its own process: 0001_"):
        read_results(DATA / "pytest-storage")


TWINS = [("1", "-1"), ("a<b", "a>b"), ("float", "float*"), ("--fast", "-fast"), ("größe", "grüße"), ("小", "大"), ("a", "a ")]


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_names_that_differ_give_cases_that_differ(one: str, other: str) -> None:
    """The name of each depends on it alone, so one that comes later never renames or replaces the other."""
    for names in ((one, other), (f"f<{one}>", f"f<{other}>"), (f"./f {one}", f"./f {other}")):
        for place in (0, 1):
            cases = {case_name(*((name, "x") if place == 0 else ("x", name))) for name in names}
            assert len(cases) == 2
            assert all(CASE_NAME.fullmatch(case) and not case.startswith("-") for case in cases)


def test_tests_whose_paths_are_spelled_alike_keep_their_own_times(tmp_path: Path) -> None:
    """``a/b.py`` and ``a.b.py`` are two files; nothing but their whole names tells their cases apart, in any order."""
    names = ["a/b.py::t", "a.b.py::t"]
    tests = [{"fullname": name, "stats": {"median": 1e-3 * place}} for place, name in enumerate(names, 1)]
    one, other = (
        {case.name: case.samples_ms for case in read(tmp_path, {"machine_info": None, "benchmarks": listed}).cases}
        for listed in (tests, tests[::-1])
    )
    assert one == other
    assert len(one) == 2


# Every entry is a case, or is left out by name.

TEXT = st.text(st.sampled_from("ab1-_ /:<>*[]()é小\u3164\\\n\x00\x1b\u202e\ud800"), max_size=6)
TIME = st.one_of(
    st.floats(0.01, 1e3),
    st.sampled_from([0.0, -1.0, math.nan, math.inf, None, "x", "", True, [], {}, 1e300, 10**30, "HUGE", "2.5", "-NaN", "-inf"]),
)
HUGE = "1" + "0" * 5000
"""Stands in place of the text HUGE, since Python itself writes no such number."""
Entries = list[tuple[str, Any]]


def nvbench(entries: Entries, summary: Callable[[int, Any], dict[str, Any]]) -> tuple[Any, int]:
    said = [[summary(number, time)] for number, (_, time) in enumerate(entries)]
    states = [
        {"device": 0, "axis_values": [{"name": "T", "value": name}], "summaries": each, "is_skipped": False}
        for (name, _), each in zip(entries, said, strict=True)
    ]
    return {"meta": {}, "devices": None, "benchmarks": [{"name": "b", "devices": [0], "states": states}]}, len(entries)


def mean(_: int, time: Any) -> dict[str, Any]:
    return {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": time}]}


def samples_file(number: int, time: Any) -> dict[str, Any]:
    """Only the first state has a file of its samples, as long as it says."""
    data = [{"name": "filename", "value": f"out.json-bin/{number}.bin"}, {"name": "size", "value": time if number else "1"}]
    return {"tag": "nv/json/bin:nv/cold/sample_times", "data": data}


def pytest_file(entries: Entries, *, stored: bool) -> tuple[Any, int]:
    stats = [{"median": time} if stored else {"median": None, "data": [time]} for _, time in entries]
    tests = [{"fullname": f"t.py::{name}", "stats": each} for (name, _), each in zip(entries, stats, strict=True)]
    return {"machine_info": {}, "commit_info": {}, "benchmarks": tests}, len(entries)


def asv(entries: Entries) -> tuple[Any, int]:
    """One benchmark of many parameters, and one each."""
    names, times = [repr(name) for name, _ in entries], [time for _, time in entries]
    rows = {"b.time_all": [times, [names], [[time] for time in times]]} if entries else {}
    rows |= {f"b.time_{name.replace('.', '')}": [[time], [], None] for name, time in entries}
    columns = ["result", "params", "samples"]
    document = {"version": 2, "commit_hash": "", "result_columns": columns, "results": rows | {"b.track_x": [[1.0], []]}}
    return document, len(entries) + len(rows) + 1 - bool(entries)


def table(entries: Entries, columns: Sequence[str], delimiter: str) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerow(columns)
    writer.writerows([name, "" if time is None else str(time), "0.5", "2.5x"] for name, time in entries)
    return stream.getvalue().replace("\ud800", "?")


FILES: dict[str, Callable[[Entries], tuple[Any, int]]] = {
    "google-benchmark": lambda all_: (google_file(*(google(*one, family_index=n) for n, one in enumerate(all_))), len(all_)),
    "google-benchmark without families": lambda all_: (
        google_file(*({"name": name, "real_time": time, "time_unit": "us"} for name, time in all_)),
        len({name for name, _ in all_}),
    ),
    "nvbench": lambda all_: nvbench(all_, mean),
    "nvbench with samples": lambda all_: nvbench(all_, samples_file),
    "hyperfine": lambda all_: ({"results": [{"command": name, "times": [time]} for name, time in all_]}, len(all_)),
    "pytest-benchmark": lambda all_: pytest_file(all_, stored=False),
    "pytest-benchmark storage": lambda all_: pytest_file(all_, stored=True),
    "codspeed": lambda all_: (
        {
            "instrument": {"type": "walltime"},
            "benchmarks": [{"uri": f"t.py::{name}", "stats": {"median_ns": time}} for name, time in all_],
        },
        len(all_),
    ),
    "pytorch": lambda all_: (
        [{"metric": {"name": "t_ms", "benchmark_values": [time]}, "model": {"name": name}} for name, time in all_],
        len(all_),
    ),
    "asv": asv,
    "criterion": lambda all_: (
        [{"reason": "group-complete"}]
        + [
            {"reason": "benchmark-complete", "id": name, "iteration_count": [2], "measured_values": [time], "unit": "us"}
            for name, time in all_
        ],
        len(all_),
    ),
    "bencher": lambda all_: (
        {name: {"latency": {"value": time}, "Throughput": {"value": time}, "size": {"value": 1}} for name, time in all_},
        3 * len(dict(all_)),
    ),
    "json": lambda all_: ({"unit": "ms", "benchmarks": {name: [time] for name, time in all_}}, len(dict(all_))),
    "seed": lambda all_: ([{"config": {"name": name}, "performance": {"mean_time_ms": time}} for name, time in all_], len(all_)),
    "triton": lambda all_: (table(all_, ["N", "Triton (ms)", "Torch [fp8] (ms)", "Speedup"], ","), 2 * len(all_) + 1),
    "triton, units at the end": lambda all_: (table(all_, ["N", "latency_ms", "Torch-GB/s", "Speedup"], ","), 2 * len(all_) + 1),
    "triton, tritonbench": lambda all_: (
        {f"tritonbench_op[x_{place}{name}-a]_latency": time for place, (name, time) in enumerate(all_)},
        len(all_),
    ),
    "triton, table of tritonbench": lambda all_: (table(all_, ["x", "a-latency", "b-latency", "a-speedup"], ";"), 2 * len(all_)),
}
"""What a harness writes of some names and times, and how many entries that file has."""


def test_every_format_is_among_them() -> None:
    """A format that is added gets its generated files."""
    assert {name.split(",")[0].split(" ")[0] for name in FILES} == set(FORMATS)


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(listed=st.lists(st.tuples(TEXT, TIME), max_size=6))
def test_no_entry_is_merged_dropped_or_invented(kind: str, listed: Entries, tmp_path: Path) -> None:
    """Whatever entries are called, and whatever stands for their times; a file is refused only where none of them has a time."""
    (tmp_path / "out.json-bin").mkdir(exist_ok=True)
    (tmp_path / "out.json-bin" / "0.bin").write_bytes(b"\x00\x00\x80\x3f")
    content, count = FILES[kind](listed)
    text = (content if isinstance(content, str) else json.dumps(content)).replace('"HUGE"', HUGE).replace("HUGE", HUGE)
    text = re.sub('"(-NaN|-inf)"', r"\1", text)  # as C writes them
    try:
        found = read(tmp_path, text, "t.csv" if isinstance(content, str) else "out.json")
    except RecordError:
        if len(dict(listed)) == len(listed):
            assert not any(type(time) is float and 0.01 <= time <= 1e3 for _, time in listed)
        return
    assert len(found.cases) + len(found.left_out) == count
    assert len({case.name for case in found.cases}) == len(found.cases)
    assert all(CASE_NAME.fullmatch(case.name) for case in found.cases)
    for case in found.cases:
        one = case.benchmark
        assert sum(map(bool, (case.samples_ms, one.problem, one.skipped, one.untimed))) == 1


@given(names=st.lists(TEXT, unique=True, min_size=2, max_size=6), seed=st.randoms())
def test_names_do_not_depend_on_the_order_of_a_file(names: list[str], seed: random.Random, tmp_path_factory: Any) -> None:
    """A harness that shuffles its benchmarks never has one compared with another: each keeps its time by its name."""
    shuffled = list(names)
    seed.shuffle(shuffled)
    folder = tmp_path_factory.mktemp("order")
    one, other = (
        {
            case.name: case.samples_ms
            for case in read(folder, {"unit": "ms", "benchmarks": {name: [1.0 + names.index(name)] for name in order}}).cases
            if not re.search(r"\dof\d", case.name)
        }
        for order in (names, shuffled)
    )
    assert one == other


def test_files_of_cases_stay_apart() -> None:
    """A file's name has Latin letters only, so that of another script gets a digest; so does one that is cut."""
    names = ["k/größe", "k/grüße", "k/小", "k/大", f"{'a' * 100}/{'b' * 90}1", f"{'a' * 100}/{'b' * 90}2"]
    assert len({file_stem(name) for name in names}) == len(names)
    assert all(file_stem(name).isascii() and len(file_stem(name)) <= 150 for name in names)
