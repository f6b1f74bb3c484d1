"""`ratchet advise` without processes: what is planted is named, clean scripts are silent, any file ends with advice or a line."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.errors import RecordError
from ratchet.explain.advice import advise, rules, trace
from ratchet.explain.advice.patterns import FLOOR, PATTERNS
from ratchet.explain.advice.rules import findings
from ratchet.explain.advice.timeline import timeline
from ratchet.explain.advice.trace import read_trace
from ratchet.explain.advice_report import advice_lines
from ratchet.explain.records import Advice
from tests.advise import CLEAN, PLANTED, planted_in, runs_on_cpu

DATA = Path(__file__).parents[1] / "data" / "advise"
SCRIPTS = {script.stem: script for script in (*PLANTED, *CLEAN)}
TRACES = sorted(DATA.glob("*/*.json.gz"))
"""Of a CPU, of an H200, and of a simulated GPU: ``tests/data/README.md``."""


@functools.cache
def of_h200(name: str) -> str:
    return gzip.decompress((DATA / "h200" / f"{name}.json.gz").read_bytes()).decode()


@pytest.fixture
def read(tmp_path: Path) -> Callable[[Any], Advice]:
    """Gives advice on a document, or on a text."""

    def on(document: Any) -> Advice:
        path = tmp_path / "trace.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return advise(read_trace(path), "trace.json")

    return on


def expected(name: str) -> list[str]:
    return [planted_in(SCRIPTS[name])] if SCRIPTS[name] in PLANTED else []


def holds(advice: Advice, name: str) -> None:
    """What belongs first is first; a clean script has no finding; a moment is lost once."""
    found = advice.findings
    assert [finding.pattern for finding in found][:1] == expected(name)
    assert sum(finding.share for finding in found) <= 1 + 1e-6
    assert all(finding.share >= FLOOR or finding.category == "correctness" for finding in found)
    patterns = dict.fromkeys(finding.pattern for finding in found if finding.pattern != "small-kernels")
    costs = [sum(finding.lost_us for finding in found if finding.pattern == pattern) for pattern in patterns]
    assert costs == sorted(costs, reverse=True)
    lines = SCRIPTS[name].read_text(encoding="utf-8").splitlines()
    for where in (finding.where for finding in found if finding.where and finding.where.is_exact):
        assert where.file.endswith(f"{name}.py")
        assert where.line <= len(lines)
        assert lines[where.line - 1].strip()


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_a_script_and_its_trace(path: Path) -> None:
    """The plant is named first, and clean scripts have no finding; a GPU's work is in view."""
    name = path.name.partition(".")[0]
    advice = advise(read_trace(path), path.name)
    holds(advice, name)
    assert (advice.gpu_busy is None) == runs_on_cpu(SCRIPTS[name])


@pytest.mark.parametrize(
    ("name", "line"),
    [("item_in_loop", "losses.append(forward(x).item())"), ("gaps", "time.sleep"), ("pageable_copy", '.to("cuda")')],
)
def test_the_line_is_the_one_of_the_call(name: str, line: str, read: Callable[[Any], Advice]) -> None:
    """Where the trace has the callers, a finding leads to the line itself."""
    where = read(of_h200(name)).findings[0].where
    assert where.is_exact
    assert line in SCRIPTS[name].read_text(encoding="utf-8").splitlines()[where.line - 1]


def test_a_trace_of_somebody_else(read: Callable[[Any], Advice]) -> None:
    """Without the callers' lines the function is named; without stacks no place, but the same first finding."""
    document = json.loads(of_h200("item_in_loop"))
    del document["ratchetCallers"]
    where = read(document).findings[0].where
    assert (where.is_exact, where.function, where.call) == (False, "<module>", "item")
    document["traceEvents"] = [event for event in document["traceEvents"] if event["cat"] != "python_function"]
    first = read(document).findings[0]
    assert (first.pattern, first.where) == ("sync-in-loop", None)
    assert read(document["traceEvents"]).findings[0].pattern == "sync-in-loop"  # a list of events is a trace too


def test_older_names_of_categories(read: Callable[[Any], Advice]) -> None:
    """Traces of older releases say Operator, Runtime, Kernel and Memcpy."""
    older = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "gpu_memcpy": "Memcpy"}
    document = json.loads(of_h200("pageable_copy"))
    for event in document["traceEvents"]:
        event["cat"] = older.get(event["cat"], event["cat"])
    assert read(document).findings[0].pattern == "pageable-copy"


def test_a_wait_stands_before_small_kernels() -> None:
    """Whatever either costs: the graph that helps against launches cannot be captured with the wait in the loop."""
    found = advise(read_trace(DATA / "h200" / "cpu_in_loop.json.gz"), "x").findings
    assert [finding.pattern for finding in found] == ["sync-in-loop", "small-kernels"]
    assert found[0].lost_us < found[1].lost_us


@pytest.mark.parametrize(
    ("pattern", "share", "kept"),
    [("small-kernels", 0.06, False), ("small-kernels", 0.1, True), ("host-gaps", 0.06, True), ("host-gaps", 0.04, False)],
)
def test_launches_count_from_the_share_that_their_remedy_can_win(
    pattern: str, share: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph is said to bring 1.1 times at least, so launches that cost 6 % are no finding; other work that costs as much is."""
    line = timeline(read_trace(DATA / "h200" / "cpu_in_loop.json.gz"))
    one = findings(line)[1].model_copy(update={"pattern": pattern, "share": share, "lost_us": 1e3})
    monkeypatch.setattr(rules, "RULES", (lambda _: [one],))
    assert bool(findings(line)) == kept


@pytest.mark.no_cover
def test_the_profiler_s_own_time_is_taken_off(read: Callable[[Any], Advice]) -> None:
    """What it costs was measured with small operators, so launches are named only if they remain with twice that."""
    document = json.loads(of_h200("small_kernels"))
    with_little, with_more, with_much = (read(document | {"ratchetOverhead": cost_us}) for cost_us in (0.8, 4.0, 5.0))
    assert with_little.steady_us > with_more.steady_us > with_much.steady_us
    assert with_little.findings[0].lost_us > 1.5 * with_more.findings[0].lost_us
    assert with_much.findings == ()


@pytest.mark.no_cover
def test_results_that_nobody_waits_for(read: Callable[[Any], Advice]) -> None:
    """Copies into pinned memory without any wait after them are named, though they cost nothing; with a wait they are not."""

    def span(cat: str, name: str, ts: float, dur: float, **args: int) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}

    events: list[dict[str, Any]] = []
    for number in range(1, 6):
        start = 100.0 * number
        events += [
            span("cpu_op", "aten::copy_", start, 20),
            span("cuda_runtime", "cudaMemcpyAsync", start + 5, 5, correlation=number),
            span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", start + 10, 95, correlation=number, bytes=1 << 20),
        ]
    assert [finding.pattern for finding in read({"traceEvents": events}).findings] == ["unfinished-copy"]
    assert read({"traceEvents": [*events, span("cuda_runtime", "cudaEventSynchronize", 600, 200)]}).findings == ()


def test_the_checklist_answers_ten_questions(read: Callable[[Any], Advice]) -> None:
    """From data where the trace has them; for a trace without a GPU some are not visible."""
    answers = {answer.question: answer for answer in read(of_h200("pageable_copy")).checklist}
    assert len(answers) == 10
    assert all(answer.from_data for answer in answers.values())
    assert answers["Pattern"].answer == "pageable-copy [transfer]"
    assert answers["Transfer or compute"].answer.startswith("transfer")
    assert answers["GPU warm"].answer.startswith("yes")
    assert read(of_h200("graph_replay")).checklist[8].answer.startswith("used: ")
    on_cpu = advise(read_trace(DATA / "cpu" / "cpu_products.json.gz"), "cpu")
    assert {answer.question for answer in on_cpu.checklist if not answer.from_data} >= {"CUDA graphs", "Mechanism", "GPU warm"}


def test_the_lines_that_are_printed(read: Callable[[Any], Advice], golden: Callable[[str, str], None]) -> None:
    """Findings, the costliest first, then the checklist; a clean script has one line in their place."""
    texts = ["\n".join(advice_lines(read(of_h200(name)))) for name in ("tensor_per_call", "fused_activation")]
    golden("advise.txt", "\n\n".join(texts) + "\n")


def test_names_in_a_trace_are_made_harmless(read: Callable[[Any], Advice]) -> None:
    """A file name in a trace cannot command a terminal or a runner."""
    text = of_h200("item_in_loop").replace("item_in_loop.py(", "\\u001b[2J::error::x.py(")
    printed = "\n".join(advice_lines(read(text)))
    assert "\x1b" not in printed
    assert "x.py" in printed


def test_every_pattern_is_written_down() -> None:
    """docs/profiling.md has an entry for each pattern."""
    page = (DATA.parents[2] / "docs" / "profiling.md").read_text(encoding="utf-8")
    assert [name for name in PATTERNS if f"\n- `{name}`: " not in page] == []


# Files.


WRONG = {
    "empty": (b"", "is not a trace of torch.profiler, which is JSON"),
    "report": (b"NVR\0\1\2\3", "is not a trace of torch.profiler, which is JSON"),
    "other JSON": (b'{"cases": []}', "has no traceEvents"),
    "no events": (b'{"traceEvents": []}', "holds no event of torch.profiler"),
    "of a browser": (b'{"traceEvents": [{"ph": "X", "cat": "v8", "name": "x", "ts": 1, "dur": 1}]}', "holds no event"),
    "cut off": (
        b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}',
        "its list of events has no end",
    ),
    "cut in an event": (b'{"traceEvents": [{"ph": "X", "cat": "ker', "an event in it is not whole"),
    "nested": (b'{"traceEvents": [' + b"[" * 100_000, "nested without end"),
    "cut gzip": (gzip.compress(b'{"traceEvents": []}')[:-9], "cannot be decompressed"),
    "not gzip": (b"\x1f\x8bnot so", "cannot be decompressed"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_file_of_another_kind_gets_one_sentence(kind: str, tmp_path: Path) -> None:
    """The file, and what is wrong with it."""
    content, sentence = WRONG[kind]
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"trace\.json") as caught:
        read_trace(path)
    assert sentence in caught.value.message


@pytest.mark.parametrize("name", ["build\x01\x7f", 'a "quoted" name', 'ends in "', '", "dur": {]'])
def test_an_event_with_a_damaged_name_costs_only_that_event(name: str, tmp_path: Path) -> None:
    """torch.profiler writes what stands where a name was freed, without escapes; the events around it count."""
    events = [
        f'{{"ph": "X", "cat": "cpu_op", "name": "{text}", "ts": {at}, "dur": 1}}' for at, text in enumerate(("a", name, "b"))
    ]
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [\n' + ",\n  ".join(events) + "\n]}", encoding="utf-8")
    assert {"a", "b"} <= {event.name for event in read_trace(path).host}


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    """So they are, by name."""
    with pytest.raises(RecordError, match="is not a file"):
        read_trace(tmp_path)
    with pytest.raises(RecordError, match="does not exist"):
        read_trace(tmp_path / "none.json")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the text: a small archive may hold a large one."""
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 3_000_000))
    monkeypatch.setattr(trace, "LARGEST_BYTES", 2_000_000)
    with pytest.raises(RecordError, match="larger than"):
        read_trace(path)
    monkeypatch.setattr(trace, "MOST_EVENTS", 10)
    with pytest.raises(RecordError, match="more than 10 events"):
        read_trace(DATA / "cpu" / "element_loop.json.gz")


@pytest.mark.no_cover
def test_a_trace_that_is_cut_anywhere_is_refused_or_read(tmp_path: Path) -> None:
    """Only what stands behind the events may be missing."""
    text = of_h200("fused_activation")
    path = tmp_path / "trace.json"
    events_end = text.index('],"ratchetCallers"')
    for length in range(0, len(text), len(text) // 60):
        path.write_text(text[:length], encoding="utf-8")
        if length > events_end:
            advise(read_trace(path), "x")
        else:
            with pytest.raises(RecordError):
                read_trace(path)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just([[1], "x", -1])
KINDS = st.sampled_from(["cpu_op", "python_function", "cuda_runtime", "kernel", "gpu_memcpy", "user_annotation", "overhead", "x"])
NAMES = st.sampled_from(
    [
        *("aten::mm", "aten::select", "aten::zeros", "cudaMalloc", "cudaFree", "cudaStreamSynchronize"),
        *("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pageable -> Device)", "elementwise_kernel", "sgemm"),
        *("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "a.py(3): f", "<built-in method item of x>"),
    ]
)
TIMES = st.integers(0, 2000) | VALUES
ARGUMENTS = st.sampled_from(["correlation", "bytes", "Input Dims", "Input type", "blocks per SM"])
EVENT = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": KINDS, "name": NAMES | VALUES, "ts": TIMES, "dur": TIMES},
    optional={
        "pid": st.integers(0, 1),
        "tid": st.integers(0, 2),
        "args": st.dictionaries(ARGUMENTS, st.integers(1, 4) | VALUES) | VALUES,
    },
)
EVENTS = st.lists(EVENT | VALUES, max_size=40)


@pytest.mark.no_cover
@given(EVENTS, st.dictionaries(st.sampled_from(["ratchetCallers", "ratchetOverhead", "deviceProperties"]), VALUES))
def test_any_events_end_with_advice_or_a_sentence(events: list[Any], fields: dict[str, Any]) -> None:
    """Whatever stands in the list, and around it; and its advice can be printed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(RecordError):
        path = Path(folder, "trace.json")
        path.write_text(json.dumps({"traceEvents": events, **fields}), encoding="utf-8")
        advice = advise(read_trace(path), "any")
        assert list(advice_lines(advice))
        assert Advice.model_validate_json(advice.model_dump_json()) == advice
