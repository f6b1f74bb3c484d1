"""Files of other harnesses: what is read from those that the real tools wrote, and one sentence for any other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest

from ratchet.core.config import Format
from ratchet.core.errors import RecordError
from ratchet.core.records.run import CASE_NAME
from ratchet.harness.entries import unit_of
from ratchet.harness.formats import FORMATS
from ratchet.harness.results import MOST_SAMPLES, case_name, read_results

DATA = Path(__file__).parents[1] / "data" / "harness"
STORED = {
    "test_wait.test_roll/1": 5,
    "test_wait.test_roll/-1": 5,
    "test_wait.test_cmp/gr-xf6-xdfe-b275aab6": 5,
    "test_wait.test_cmp/gr-xfc-xdfe-e312edfd": 5,
    "test_wait.test_cmp/a-b-4a826aac": 5,
    "test_wait.test_cmp/a-b-998a5be8": 5,
    "test_wait.test_cmp/u5c0f-38d06cbe": 5,
    "test_wait.test_cmp/u5927-372be767": 5,
}
READ: dict[str, tuple[str, dict[str, int]]] = {
    "google-benchmark.json": (
        "google-benchmark",
        {"BM_wait/200": 3, "BM_wait/400": 3, "BM_copy/default": 3, "BM_broken/default": 0},
    ),
    "google-benchmark-plain.json": ("google-benchmark", {"BM_wait/200": 1, "BM_wait/400": 1}),
    "hyperfine.json": ("hyperfine", {"sleep-0.010/ms_10": 5, "sleep-0.020/ms_20": 5}),
    "hyperfine-named.json": ("hyperfine", {"fast/default": 5, "sleep-0.02/default": 5}),
    "hyperfine-zero.json": ("hyperfine", {"true/default": 0, "sleep-0.01/default": 20}),
    "google-benchmark-control.json": ("google-benchmark", {"quick/default": 2, "broken/default": 0}),
    "execution-time.csv": (
        "triton",
        {
            "perf_report/Triton-fp8--N_1024-S_8-470f6a63": 1,
            "perf_report/Triton-fp16--N_1024-S_8-09d7ac49": 1,
            "perf_report/Torch-N_1024-S_8": 1,
            "perf_report/Triton-fp8--N_65536-S_16-8132803e": 1,
            "perf_report/Triton-fp16--N_65536-S_16-0bdcf7b8": 1,
            "perf_report/Torch-N_65536-S_16": 0,
        },
    ),
    "larger-is-better.csv": (
        "triton",
        {f"perf_report/{line}-batch_size_{size}": 1 for size in (1, 16) for line in ("torch-bf16", "fp8-tensor-w")},
    ),
    "pytest-benchmark.json": (
        "pytest-benchmark",
        {"tests.test_wait.test_wait/1": 6, "tests.test_wait.test_wait/2": 6, "tests.test_wait.TestSums.test_sum/default": 6},
    ),
    "softmax.csv": ("triton", {"perf_report/Triton-M_128-N_256": 1, "perf_report/Triton-M_256-N_512": 1}),
    "vector-add-performance.csv": (
        "triton",
        {f"perf_report/{line}-size_{size}": 1 for size in (4096, 8192) for line in ("Triton", "Torch")},
    ),
    "tritonbench.json": (
        "triton",
        {
            "softmax_fwd/torch_softmax-256-256": 1,
            "softmax_fwd/triton_softmax-256-256": 1,
            "softmax_fwd/torch_softmax-512-512": 1,
            "softmax_fwd/triton_softmax-512-512": 0,
        },
    ),
    "tritonbench.csv": (
        "triton",
        {f"tritonbench/{line}_softmax-{size}-{size}": 1 for size in (256, 512) for line in ("torch", "triton")},
    ),
    "seed.json": ("seed", {"normalize/rows_1k": 1, "normalize/rows_4k": 1}),
    "nvbench.json": (
        "nvbench",
        {"copy/T_F32-Elements_1048576": 1, "copy/T_F32-Elements_16777216": 1, "copy/T_F32-Elements_1073741824": 0},
    ),
    "nvbench-bulk.json": (
        "nvbench",
        {"copy/T_F32-Elements_1048576": 12, "copy/T_F32-Elements_16777216": 12, "copy/T_F32-Elements_1073741824": 0},
    ),
    "nvbench-cpu.json": (
        "nvbench",
        {
            "copy/Elements_65536": 12,
            "copy/Elements_1048576": 12,
            "wait/Clock_sleep": 12,
            "wait/Clock_absent": 0,
            "wait/Clock_broken": 0,
        },
    ),
    "nvbench-two-gpus.json": ("nvbench", {"simple/device_0": 1, "simple/device_1": 1}),
    "pytorch-lines.json": (
        "pytorch",
        {
            "TorchAO-benchmark/Meta-Llama-3.1-8B-inference-int8-tok-s": 1,
            "TorchAO-benchmark/vit_h-inference-bfloat16-avg-time-ms": 1,
        },
    ),
    "pytorch-list.json": ("pytorch", {"pr_time_benchmarks/sum_floordiv-compile_time_ms": 3}),
    "google-benchmark-twins.json": (
        "google-benchmark",
        {
            "copy/100": 3,
            "copy/100-real_time": 3,
            "copy-float-cf574a29/100": 3,
            "copy-float-cf574a29/200": 3,
            "copy-float-e4cbe697/100": 3,
            "nan_counter/default": 3,
            "fp8/default": 0,
            "broken/default": 0,
            "twin/default-1of3": 3,
            "twin/default-2of3": 3,
            "twin/default-3of3": 3,
        },
    ),
    "asv/runner/a40d3916-existing-py_usr_bin_python3.json": (
        "asv",
        {
            "b.Waits.time_wait/1-a-b": 6,
            "b.Waits.time_wait/1-c-d": 6,
            "b.Waits.time_wait/-1-a-b": 6,
            "b.Waits.time_wait/-1-c-d": 0,
            "b.time_broken/default": 0,
            "b.time_sum/default": 6,
        },
    ),
    "pytest-storage/Linux-CPython-3.11-64bit/0001_unknown_20261126_222307.json": ("pytest-benchmark", STORED),
    "pytest-storage/Linux-CPython-3.11-64bit/0002_unknown_20261126_222308.json": ("pytest-benchmark", dict.fromkeys(STORED, 1)),
    "codspeed.json": (
        "codspeed",
        {"test_wait.test_roll/1": 1, "test_wait.test_roll/-1": 1, "test_wait.test_sum/default": 1},
    ),
    "criterion.json": ("criterion", {"sums/plain-1024": 3, "sums/plain-4096": 3}),
    "bencher.json": (
        "bencher",
        {"benchmark_name/latency": 1, "benchmark_name/throughput": 1, "bin-sh--c-.-my_build_script.sh-86dd0aa9/build-time": 1},
    ),
    "json.json": ("json", {"copy/1k": 3, "scan/default": 1}),
}


@pytest.mark.parametrize("name", READ)
def test_a_recorded_file_gives_its_cases(name: str) -> None:
    """Each format is recognised by its content, and every benchmark becomes a case with all of its samples."""
    kind, cases = READ[name]
    results = read_results(DATA / name)
    assert results.format == kind
    assert {case.name: len(case.samples_ms) for case in results.cases} == cases
    assert read_results(DATA / name, kind) == results
    assert all(CASE_NAME.fullmatch(case.name) for case in results.cases)


def test_every_recorded_file_is_read_and_every_format_has_one() -> None:
    """No recording lies there unread, and what the settings offer is what can be read."""
    files = {str(file.relative_to(DATA)) for file in DATA.rglob("*") if file.suffix in (".json", ".csv")}
    assert files - {"asv/benchmarks.json", "asv/runner/machine.json", "google-benchmark-aggregates.json"} == set(READ)
    assert {kind for kind, _ in READ.values()} == set(FORMATS) == set(get_args(Format))


def times(name: str) -> dict[str, tuple[float, ...]]:
    return {case.name: case.samples_ms for case in read_results(DATA / name).cases}


def test_times_are_in_milliseconds_whatever_the_file_says() -> None:
    """Seconds, microseconds and nanoseconds are converted, by the file's own word."""
    assert times("json.json")["copy/1k"] == (0.52, 0.5305, 0.525)
    assert times("hyperfine-named.json")["fast/default"][0] == pytest.approx(13.37651)
    assert times("google-benchmark.json")["BM_wait/200"][0] == pytest.approx(0.29373804)
    assert times("google-benchmark.json")["BM_copy/default"][0] == pytest.approx(0.004968365)
    assert times("criterion.json")["sums/plain-1024"] == pytest.approx((0.0008, 0.00082, 0.00081))
    assert times("pytest-benchmark.json")["tests.test_wait.test_wait/2"][0] == pytest.approx(2.0900940)
    assert times("nvbench.json")["copy/T_F32-Elements_1048576"] == pytest.approx((0.0055,))
    assert times("nvbench-bulk.json")["copy/T_F32-Elements_1048576"][:2] == pytest.approx((0.005489, 0.0055))
    assert times("nvbench-two-gpus.json")["simple/device_1"] == pytest.approx((1.0027443,))
    assert 1.0 < min(times("nvbench-cpu.json")["wait/Clock_sleep"]) < 1.2
    assert times("tritonbench.json")["softmax_fwd/torch_softmax-256-256"] == (0.007168,)


def test_a_rate_is_the_time_of_one_unit_of_work() -> None:
    """816.596 GB/s move one GB in 1/816.596 s, so that half the rate is twice the time; the report shows the rate again."""
    case = read_results(DATA / "vector-add-performance.csv").cases[0]
    assert case.samples_ms == pytest.approx((1e3 / 816.596,))
    assert case.benchmark.unit
    assert case.benchmark.unit.bytes == 1e9
    assert times("pytorch-lines.json")["TorchAO-benchmark/Meta-Llama-3.1-8B-inference-int8-tok-s"] == pytest.approx(
        (1e3 / 152.3,)
    )


@pytest.mark.parametrize(
    ("text", "ms", "work"),
    [
        ("ms", 1.0, None),
        ("milliseconds", 1.0, None),
        ("µs", 1e-3, None),
        ("GB/s", 0.0, 1e9),
        ("GiB/s", 0.0, 2.0**30),
        ("TFLOPS", 0.0, 1e12),
        ("TFLOP/s", 0.0, 1e12),
        ("tok/s", 0.0, None),
        ("tokens_per_second", 0.0, None),
    ],
)
def test_units(text: str, ms: float, work: float | None) -> None:
    """The usual spellings of times and rates are known."""
    unit = unit_of(text)
    assert unit is not None
    assert (unit.ms, unit.bytes or unit.flops) == (ms, work)


@pytest.mark.parametrize("text", ["", "speedup", "%", "memory", "accuracy"])
def test_what_is_no_unit_of_time(text: str) -> None:
    """A figure that is neither a time nor a rate is never taken for one."""
    assert unit_of(text) is None


def test_what_a_tool_says_of_a_benchmark_that_gave_no_time() -> None:
    """A failed benchmark keeps the tool's own words, a skipped one its reason."""
    found = {case.name: case.benchmark for name in READ for case in read_results(DATA / name).cases}
    assert found["BM_broken/default"].problem == "no device"
    assert found["softmax_fwd/triton_softmax-512-512"].problem == "CUDA OOM"
    assert found["copy/T_F32-Elements_1073741824"].skipped == "Not enough memory on device."
    assert found["wait/Clock_absent"].skipped == "There is no such clock."
    assert found["true/default"].skipped.startswith("a run took 0 s, less than the shell")
    coloured = {case.name: case.benchmark for case in read_results(DATA / "google-benchmark-control.json").cases}
    assert coloured["broken/default"].problem == "no device: needs sm_90"
    assert found["perf_report/Torch-N_65536-S_16"].untimed == "its cell is empty"
    assert found["wait/Clock_broken"].problem.startswith("ValueError: the clock stands still")


def test_a_benchmark_without_a_gpu_is_named_after_none(tmp_path: Path) -> None:
    """NVBench writes an arbitrary number where a benchmark has no device; what it was is no part of the case's name."""
    document = json.loads((DATA / "nvbench-cpu.json").read_text())
    gpu = json.loads((DATA / "nvbench-two-gpus.json").read_text())["benchmarks"][0]
    gpu |= {"devices": [0], "states": gpu["states"][:1]}
    nothing = {**document["benchmarks"][0], "name": "nothing", "states": None}
    copy = document["benchmarks"][0]
    for state in copy["states"]:
        del state["summaries"][-1]  # without the files of its samples, which is what --json writes
    (tmp_path / "both.json").write_text(json.dumps({**document, "benchmarks": [copy, gpu, nothing]}))
    names = [case.name for case in read_results(tmp_path / "both.json").cases]
    assert names == ["copy/Elements_65536", "copy/Elements_1048576", "simple/default"]


def test_what_a_file_says_of_its_machine() -> None:
    """Times of other machines are not compared, so what names the machine is kept."""
    assert read_results(DATA / "nvbench.json").source.gpu == "NVIDIA H200"
    assert read_results(DATA / "pytest-benchmark.json").source.cpu == "AMD EPYC"


def test_metrics_that_are_no_times_are_left_out_and_named() -> None:
    """PyTorch's records hold memory, speedups and counts too."""
    assert read_results(DATA / "pytorch-lines.json").notes == (
        "Left out of its results: memory: it names no unit of a time or a rate.",
    )


def test_a_folder_of_tables_names_its_benchmarks_by_their_files(tmp_path: Path) -> None:
    """perf_report writes one file for each plot; other kinds of files beside them do not matter."""
    for name in ("softmax.csv", "vector-add-performance.csv"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    (tmp_path / "results.html").write_text("<html>")
    names = [case.name for case in read_results(tmp_path, "triton").cases]
    assert names[0] == "softmax/Triton-M_128-N_256"
    assert names[-1] == "vector-add-performance/Torch-size_8192"


@pytest.mark.parametrize(
    "name", ["a b c", "f<int, 4>", "../../etc/passwd", "x" * 400, "naïve", "", "-", "::set-output", "\u3164", "a\uffa0b"]
)
def test_any_name_becomes_the_name_of_a_case(name: str) -> None:
    """What comes out is a name that the trusted job accepts, however the harness called it."""
    assert CASE_NAME.fullmatch(case_name(name, name))


def test_long_names_stay_apart() -> None:
    """A name that is cut keeps a digest of the whole."""
    assert case_name("x" * 200 + "a") != case_name("x" * 200 + "b")


def test_more_samples_than_are_kept_are_thinned_out(tmp_path: Path) -> None:
    """A harness that writes every iteration cannot make a run as large as a disk."""
    file = tmp_path / "many.json"
    file.write_text(json.dumps({"unit": "ms", "benchmarks": {"a/b": [1.0] * 10_000}}))
    assert len(read_results(file).cases[0].samples_ms) == MOST_SAMPLES


OURS = {"schema_version": 1}
GOOGLE = {"context": {}, "benchmarks": [{"name": "a", "real_time": 1.0, "time_unit": "us"}]}
AGGREGATE = {"name": "a_mean", "run_name": "a", "run_type": "aggregate", "aggregate_name": "mean", "real_time": 1.0}
WRONG: list[tuple[Any, str | None, str]] = [
    (OURS | {"verdict": "pass"}, None, "the verdict of a run of ratchet, without its samples. Give the current.json"),
    (OURS | {"verdict": "pass"}, "nvbench", "is not what nvbench writes: it is the verdict of a run of ratchet"),
    (OURS | {"fingerprints": {}}, None, "is a baseline of ratchet"),
    (OURS | {"kind": "run", "plan": {}}, "json", "it is a recorded run of ratchet. Give it without --format"),
    (GOOGLE, "nvbench", "it is a file that google-benchmark writes. Name it with --format google-benchmark"),
    ({"results": []}, "hyperfine", "has no benchmark in it"),
    ({"results": [{"command": "a", "times": []}]}, None, "a: it has no samples"),
    ({"results": [{"command": "a", "times": [0.1, -0.1]}]}, None, "a: it has a time of -0.1 s, which cannot be"),
    ({"results": [{"command": "a", "times": [1e300]}]}, None, "which cannot be"),
    ({"results": [{"command": "a", "times": ["soon"]}]}, None, "a: it has a time of soon s, which cannot be"),
    (GOOGLE | {"benchmarks": [{"name": "a", "real_time": 1.0}]}, None, "a: its time_unit is None"),
    (GOOGLE | {"benchmarks": [{"name": "a", "real_time": 1.0, "time_unit": "fortnight"}]}, None, "a: its time_unit is fortnight"),
    ({"machine_info": {}}, None, "the field 'benchmarks' is missing"),
    ({"unit": "ms", "benchmarks": {"a": [True]}}, None, "a: it is no list of numbers"),
    ({"unit": "furlongs", "benchmarks": {"a": [1]}}, None, "it does not say its unit"),
    ({"unit": "GB/s", "benchmarks": {"a": [0]}}, None, "a: it has a time of 0, which cannot be"),
    (
        [{"metric": {"name": "memory", "benchmark_values": [1]}}],
        None,
        "none of its metrics is a time or a rate: memory: it names no unit",
    ),
    ({"hello": {}}, None, "is no file of a harness that ratchet knows"),
    ({"hello": "world"}, None, "is no file of a harness that ratchet knows. ratchet reads files of nvbench, "),
    ([1, 2, 3], "json", "it is no file of a harness that ratchet knows"),
    ("", None, "is empty"),
    ('{"results": [{"command": "a", "ti', None, "The file seems to be cut off there."),
    ('{"unit": "ms", "benchmarks": {"a": [NaN]}}', None, "a: it has a time of nan ms, which cannot be"),
    ('{"unit": "ms", "benchmarks": {"a": [1], "a": [2]}}', None, "a: it is given twice"),
    ("[" * 100_000, None, "nested too deeply"),
    ('{"unit": "ms", "benchmarks": {"a": [1' + "0" * 5000 + "]}}", None, "a: it has a time of inf ms, which cannot be"),
    (json.dumps(GOOGLE) + "\n" + json.dumps(GOOGLE), None, "goes on after its JSON document, at line 2, column 1: '{"),
    (json.dumps(GOOGLE) + "\nDone in 3 s\n", None, "goes on after its JSON document, at line 2, column 1: 'Done in 3 s'."),
    (GOOGLE | {"benchmarks": None}, None, "has no benchmark in it"),
    ({"meta": {}, "devices": None, "benchmarks": None}, None, "has no benchmark in it"),
    (
        {"version": 1, "commit_hash": "a", "results": {"b.time_x": 1.0}},
        None,
        "it is version 1 of asv's results. Run `asv update`",
    ),
    ("routine,median_ms,backend\na,1,fa2\n", None, "its column 'backend' holds 'fa2', right of the first time. Put all columns"),
    ("M,N,Triton\n1,2,3\n", None, "no column names its unit, as in 'Triton (ms)': M, N, Triton"),
    ("M,Triton (parsecs)\n1,3\n", None, "the unit of the column 'Triton (parsecs)' is none that ratchet knows"),
    ("M,Triton (ms)\n1,3\n2\n", None, "a row has 1 of 2 columns: it seems to be cut off"),
    ("M,Triton (ms)\n1,nan\n", None, "Triton-M_1: it has a time of nan ms, which cannot be"),
    ("hello\n", None, "is neither JSON nor a table: it has one column"),
    ("5", None, "is neither JSON nor a table: it has one column"),
    ("N" * 200_000 + ",Triton (ms)\n", None, "is neither JSON nor a table: field larger than field limit"),
    ({"meta": {}, "benchmarks": [{"name": "a"}]}, None, "has no benchmark that can be read: a: it has no states"),
    ({"unit": "ms", "benchmarks": [{"name": "a"}]}, None, "is no file of a harness that ratchet knows"),
    ({"version": "1.0", "benchmarks": [{"runs": [{"values": [0.1]}]}]}, None, "is no file of a harness that ratchet knows"),
    (
        "Benchmark,Device,N,Skipped,Samples,CPU Time (sec)\na,0,8,No,52,0.1\n",
        None,
        "is a table of NVBench. Let the program",
    ),
    ("name,iterations,real_time,cpu_time,time_unit\na,9,1.5,1.5,ns\n", None, "is a table of Google Benchmark. Let the program"),
    ("command,mean,stddev,median,user,system,min,max\na,1,1,1,1,1,1,1\n", None, "is a table of hyperfine. Let hyperfine write"),
    ("name,min,max,mean,stddev,rounds,ops\na,1,1,1,1,5,1\n", "triton", "it is a table of pytest-benchmark. Let pytest write"),
    ('Loading weights...\n{"context": {}}', None, "has other lines before its JSON: 'Loading weights...'. Let the harness write"),
    (GOOGLE | {"benchmarks": [AGGREGATE]}, None, "has means of repetitions alone, without the repetitions"),
    ({"instrument": {"type": "valgrind"}, "benchmarks": []}, None, "its instrument is not walltime"),
    ({"a": {"file-size": {"value": 1.0}}}, None, "neither latency nor throughput: file-size of a"),
    ({"version": 2, "a.time_b": {"code": "def time_b"}}, None, "is a description beside the results of asv"),
]


@pytest.mark.parametrize(("content", "wanted", "sentence"), WRONG)
def test_a_file_of_another_kind_or_a_broken_one_gives_a_sentence(
    content: Any, wanted: str | None, sentence: str, tmp_path: Path
) -> None:
    """It names the file, what it looks like or what is wrong in it, and what to do."""
    file = tmp_path / "some.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        read_results(file, wanted)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(file))
    assert caught.value.hint


def test_what_is_no_text_or_not_there_gives_a_sentence(tmp_path: Path) -> None:
    """So does a folder without results, a file that is too large, and one of bytes."""
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "many").mkdir()
    for name in ("huge.json", "many/a.json", "many/b.json"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(2**30 if name == "huge.json" else 40 * 2**20)
    for name, sentence in (
        ("none.json", "does not exist"),
        ("empty", "has no .json or .csv file"),
        ("bytes.json", "is not UTF-8 text"),
        ("pipe.json", "is not a regular file"),
        ("huge.json", "is larger than 64 MiB"),
        ("many", "holds more than 64 MiB of results"),
    ):
        with pytest.raises(RecordError, match=sentence):
            read_results(tmp_path / name)


def test_samples_of_nvbench_are_looked_for_beside_its_json_alone(tmp_path: Path) -> None:
    """A file from a stranger cannot point at another file of this machine, and a short one is no measurement."""
    document = json.loads((DATA / "nvbench-bulk.json").read_text())
    file = tmp_path / "bulk.json"
    file.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=f"its samples in {tmp_path}/nvbench-bulk.json-bin/0.bin cannot be read"):
        read_results(file)
    (tmp_path / "nvbench-bulk.json-bin").mkdir()
    (tmp_path / "nvbench-bulk.json-bin" / "0.bin").write_bytes(b"\0" * 8)
    with pytest.raises(RecordError, match="has not 48 bytes of 12 samples, but 8"):
        read_results(file)
    file.write_text(file.read_text().replace("/somewhere/else/nvbench-bulk.json-bin/0.bin", "../secrets.bin"))
    with pytest.raises(RecordError, match="its samples lie in another folder"):
        read_results(file)
