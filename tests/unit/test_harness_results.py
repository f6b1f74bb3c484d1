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
from ratchet.harness.formats import FORMATS, unit_of
from ratchet.harness.results import MOST_SAMPLES, HarnessResults, case_name, read_results

DATA = Path(__file__).parents[1] / "data" / "harness"
FILES = sorted(path.name for path in DATA.iterdir() if path.suffix in (".json", ".csv"))


def lines_of(results: HarnessResults) -> Iterator[str]:
    """What was read of a file, with the first three samples of each case."""
    yield f"{results.format}, {results.source.gpu or 'no GPU'}, {results.source.cpu or 'no CPU'}"
    yield from results.notes
    for case in results.cases:
        said, samples = case.benchmark, [f"{ms:.7g}" for ms in case.samples_ms]
        yield f"{case.name}: {len(samples)} samples in ms: {' '.join(samples[:3])}"
        yield from (
            f"  {what}: {value}" for what, value in vars(said).items() if value and what in ("unit", "problem", "skipped")
        )


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_file_gives_its_cases(name: str, golden: Callable[[str, str], None]) -> None:
    """Each format is recognised by its content; each benchmark is a case with its samples in milliseconds, or says why not."""
    results = read_results(DATA / name)
    assert read_results(DATA / name, results.format) == results
    assert all(CASE_NAME.fullmatch(case.name) for case in results.cases)
    golden(f"harness/{name}.txt", "".join(f"{line}\n" for line in lines_of(results)))


def test_every_format_has_a_recorded_file() -> None:
    """What the settings offer is what can be read, and was."""
    assert {read_results(DATA / name).format for name in FILES} == set(FORMATS) == set(get_args(Format))


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


@pytest.mark.parametrize("name", ["a b c", "f<int, 4>", "../../etc/passwd", "x" * 400, "naïve", "", "-", "::set-output"])
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
WRONG: list[tuple[Any, str | None, str]] = [
    (OURS | {"verdict": "pass"}, None, "the verdict of a run of ratchet, without its samples. Give the current.json"),
    (OURS | {"verdict": "pass"}, "nvbench", "is not what nvbench writes: it is the verdict of a run of ratchet"),
    (OURS | {"fingerprints": {}}, None, "is a baseline of ratchet"),
    (OURS | {"kind": "run", "plan": {}}, "json", "it is a recorded run of ratchet. Give it without --format"),
    (GOOGLE, "nvbench", "it is a file that google-benchmark writes. Name it with --format google-benchmark"),
    ({"results": []}, "hyperfine", "has no benchmark in it"),
    ({"results": [{"command": "a", "times": []}]}, None, "a has no samples"),
    ({"results": [{"command": "a", "times": [0.1, -0.1]}]}, None, "a has a time of -100 ms, which cannot be"),
    ({"results": [{"command": "a", "times": [1e300]}]}, None, "which cannot be"),
    ({"results": [{"command": "a", "times": ["soon"]}]}, None, "is not what hyperfine writes: could not convert"),
    ({"results": [{"command": "a", "times": [1]}, {"command": "a", "times": [1]}]}, None, "a and a are both called a/default"),
    (GOOGLE | {"benchmarks": [{"name": "a", "real_time": 1.0}]}, None, "the field 'time_unit' is missing"),
    (GOOGLE | {"benchmarks": [{"name": "a", "real_time": 1.0, "time_unit": "fortnight"}]}, None, "'fortnight' is missing"),
    ({"machine_info": {}}, None, "the field 'benchmarks' is missing"),
    ({"unit": "ms", "benchmarks": {"a": [True]}}, None, "'a' is no list of numbers"),
    ({"unit": "furlongs", "benchmarks": {"a": [1]}}, None, "it does not say its unit"),
    ({"unit": "GB/s", "benchmarks": {"a": [0]}}, None, "a figure is 0, which is no time and no rate"),
    ([{"metric": {"name": "memory", "benchmark_values": [1]}}], None, "none of its metrics is a time or a rate: memory"),
    ({"hello": "world"}, None, "is no file of a harness that ratchet knows. ratchet reads files of nvbench, "),
    ([1, 2, 3], "json", "it is no file of a harness that ratchet knows"),
    ("", None, "is empty"),
    ('{"results": [{"command": "a", "ti', None, "The file seems to be cut off there."),
    ('{"unit": "ms", "benchmarks": {"a": [NaN]}}', None, "contains NaN, which is not a JSON number"),
    ('{"unit": "ms", "benchmarks": {"a": [1], "a": [2]}}', None, 'the field "a" stands twice in one object'),
    ("[" * 100_000, None, "nested too deeply"),
    ('{"unit": "ms", "benchmarks": {"a": [1' + "0" * 5000 + "]}}", None, "thousands of digits"),
    ("M,N,Triton\n1,2,3\n", None, "no column names its unit, as in 'Triton (ms)': M, N, Triton"),
    ("M,Triton (parsecs)\n1,3\n", None, "the unit of the column 'Triton (parsecs)' is none that ratchet knows"),
    ("M,Triton (ms)\n1,3\n2\n", None, "a row has 1 of 2 columns: it seems to be cut off"),
    ("M,Triton (ms)\n1,nan\n", None, "a figure is nan"),
    ("hello\n", None, "no column names its unit"),
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
    with (tmp_path / "huge.json").open("wb") as stream:
        stream.truncate(2**30)
    for name, sentence in (
        ("none.json", "does not exist"),
        ("empty", "has no .json or .csv file"),
        ("bytes.json", "is not UTF-8 text"),
        ("pipe.json", "is not a regular file"),
        ("huge.json", "is larger than 64 MiB"),
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
    with pytest.raises(RecordError, match="has not 12 samples, but 2"):
        read_results(file)
    file.write_text(file.read_text().replace("/somewhere/else/nvbench-bulk.json-bin/0.bin", "../secrets.bin"))
    with pytest.raises(RecordError, match="its samples lie in another folder"):
        read_results(file)
