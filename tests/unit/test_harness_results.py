"""Files of other harnesses: what is read from those that the real tools wrote, and one sentence for any other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from ratchet.core.config import Format
from ratchet.core.errors import RecordError
from ratchet.core.records.run import CASE_NAME
from ratchet.harness.entries import unit_of
from ratchet.harness.formats import FORMATS
from ratchet.harness.results import MOST_SAMPLES, HarnessResults, case_name, read_results

DATA = Path(__file__).parents[1] / "data" / "harness"
APART = {"asv/benchmarks.json", "asv/runner/machine.json", "google-benchmark-aggregates.json"}
"""Files that hold no results, as another test says."""


def described(name: str, results: HarnessResults) -> Iterator[str]:
    """Yield what was read: the machine, then each case with its number of samples and the first, or why it has none."""
    source = results.source
    about = ", ".join(filter(None, (source.gpu, source.cpu, source.commit[:10])))
    yield f"# {name}: {results.format}{f', {about}' if about else ''}"
    for case in results.cases:
        one = case.benchmark
        shown = {"failed": one.problem, "skipped": one.skipped, "untimed": one.untimed}
        said = "; ".join(f"{kind}: {words}" for kind, words in shown.items() if words)
        if case.samples_ms:
            said = f"{len(case.samples_ms)} × {case.samples_ms[0]:.6g} ms"
        if one.unit and (work := one.unit.bytes or one.unit.flops):
            said += f" for {work:.0e} of work"
        yield f"{case.name}: {said}"
    yield from results.notes


def test_recorded_files(golden: Callable[[str, str], None]) -> None:
    """Each format is known by its content, each benchmark is a case, times are in milliseconds, rates the time of one unit.

    No recording lies there unread, and what the settings offer is what can be read.
    """
    names = sorted(str(file.relative_to(DATA)) for file in DATA.rglob("*") if file.suffix in (".json", ".csv"))
    read = {name: read_results(DATA / name) for name in names if name not in APART}
    assert {each.format for each in read.values()} == set(FORMATS) == set(get_args(Format))
    assert all(CASE_NAME.fullmatch(case.name) for each in read.values() for case in each.cases)
    assert all(read_results(DATA / name, each.format) == each for name, each in read.items())
    golden("harness_files.txt", "".join(f"{line}\n" for name, each in read.items() for line in described(name, each)))


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
    ("Benchmark,Device,N,Skipped,Samples,CPU Time (sec)\na,0,8,No,52,0.1\n", None, "is a table of NVBench. Let the program"),
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
