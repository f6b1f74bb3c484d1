"""Saved files of other harnesses as recorded runs: what compares, and what a verdict on them lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import FingerprintError, RecordError
from ratchet.core.recorded import compare
from ratchet.core.records import Record
from ratchet.core.records.files import load, save
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.request import Request
from ratchet.harness.import_results import import_results
from tests.unit.test_harness_results import DATA

Write = Callable[[str, Mapping[str, list[float]]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(name: str, cases: Mapping[str, list[float]]) -> Path:
        place = tmp_path / name
        place.write_text(json.dumps({"unit": "ms", "benchmarks": cases}))
        return place

    return make


@pytest.fixture
def request_here(tmp_path: Path) -> Request:
    return Request(tmp_path, ("ratchet", "import"))


def imported(write: Write, here: Request, folder: Path, name: str, ms: float) -> Path:
    """A run of five processes."""
    files = [write(f"{name}-{number}.json", {"a/b": [ms * (1 + number * 1e-4)] * 3}) for number in range(5)]
    save(folder / name, import_results(files, None, here, {}))
    return folder / name


def test_runs_of_several_processes_are_judged_and_say_what_they_lack(write: Write, request_here: Request, tmp_path: Path) -> None:
    """Each file is a process; a slowdown that the whole interval shows is red, and the report says that nothing cancelled."""
    before, after = (imported(write, request_here, tmp_path, name, ms) for name, ms in (("before", 1.0), ("after", 1.2)))
    report = compare(before, after, None, request_here, {})
    assert [case.outcome for case in report.cases] == [Outcome.REGRESSED]
    assert any(
        "ratchet did not start the processes, so the two sides did not alternate" in warning for warning in report.warnings
    )
    assert not any("a verdict takes 3 processes" in warning for warning in report.warnings)
    again = imported(write, request_here, tmp_path, "again", 1.0001)
    assert compare(before, again, None, request_here, {}).cases[0].outcome is Outcome.UNCHANGED


def test_two_files_of_one_process_each_give_no_verdict_but_a_figure(write: Write, request_here: Request) -> None:
    """The medians are shown with the reason why no verdict can rest on them."""
    before, after = write("before.json", {"a/b": [1.0, 1.0]}), write("after.json", {"a/b": [1.2, 1.2]})
    report = compare(before, after, None, request_here, {})
    assert report.cases[0].outcome is Outcome.INCONCLUSIVE
    assert report.cases[0].reason.endswith("too few for an interval; the medians differ by +20.00 %.")
    assert any("a verdict takes 3 processes a side" in warning for warning in report.warnings)


def test_files_of_different_machines_are_not_compared(request_here: Request) -> None:
    """nvbench names its GPU and pytest-benchmark its CPU."""
    with pytest.raises(FingerprintError, match="NVIDIA H200"):
        compare(DATA / "pytest-benchmark.json", DATA / "nvbench.json", None, request_here, {})


def test_a_machine_has_the_name_that_its_user_gives_it(request_here: Request, tmp_path: Path) -> None:
    """Each container has a host name of its own, so files of one machine seem to come from several."""
    document = json.loads((DATA / "google-benchmark-plain.json").read_text())
    files = []
    for number in range(3):
        document["context"]["host_name"] = f"container-{number}"
        for one in document["benchmarks"]:
            one["real_time"] *= 1 + number * 1e-4
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"from a different machine or commit .*--machine") as caught:
        import_results(files, None, request_here, {})
    assert caught.value.hint
    with pytest.raises(FingerprintError):
        compare(files[0], files[1], None, request_here, {})
    named = replace(request_here, options={"machine": "runner-7"})
    assert import_results(files, None, named, {}).environment.fingerprint.cpu == "runner-7"
    assert import_results(files, None, request_here, {"RATCHET_MACHINE": "runner-8"}).environment.fingerprint.cpu == "runner-8"
    assert compare(files[0], files[1], None, named, {}).cases


def test_a_time_that_was_lost_is_a_failure_in_saved_files_too(write: Write, request_here: Request) -> None:
    """Only a check sees that neither side has it, so a saved file never hides it as skipped."""
    before, after = write("before.json", {"a/b": [1.0], "c": [1.0]}), write("after.json", {"a/b": [0.0], "c": [1.0]})
    outcomes = {case.name: case.outcome for case in compare(before, after, None, request_here, {}).cases}
    assert outcomes["a/b"] is Outcome.FAILED


def test_files_that_are_no_processes_of_one_run_are_refused(write: Write, request_here: Request) -> None:
    """The same file twice would look like perfect agreement, and two harnesses time different things."""
    one, other = write("one.json", {"a/b": [1.0]}), write("other.json", {"a/b": [1.0]})
    with pytest.raises(RecordError, match="Two of the files hold the same times"):
        import_results([one, other], None, request_here, {})
    with pytest.raises(RecordError, match="The files are of hyperfine and of json"):
        import_results([one, DATA / "hyperfine.json"], None, request_here, {})


def _later(name: str, folder: Path) -> Path:
    """Return a copy of a harness's file that is another run, since its text ends otherwise."""
    copy = folder / name
    copy.write_text((DATA / name).read_text().rstrip() + "\n\n\n")
    return copy


def test_what_failed_or_was_skipped_stays_so(request_here: Request, tmp_path: Path) -> None:
    """A benchmark that its harness could not time is red, and one that it skipped is not."""
    done = compare(DATA / "google-benchmark.json", _later("google-benchmark.json", tmp_path), None, request_here, {})
    assert {case.name: case.outcome for case in done.cases}["BM_broken/default"] is Outcome.FAILED
    done = compare(DATA / "nvbench.json", _later("nvbench.json", tmp_path), "nvbench", request_here, {})
    assert {case.name: case.outcome for case in done.cases}["copy/T_F32-Elements_1073741824"] is Outcome.SKIPPED


WRONG: list[tuple[dict[str, Any], type[Record], str]] = [
    (
        {"verdict": "pass", "headline": ""},
        RunRecord,
        "is the verdict of a run (report.json), without its samples. Give a recorded run",
    ),
    ({"fingerprints": {}}, RunRecord, "is a baseline (baseline.json). Give a recorded run, such as current.json."),
    (
        {"kind": "run", "plan": {}, "cases": []},
        ReportRecord,
        "is a recorded run, such as current.json. Give the verdict of a run",
    ),
]


@pytest.mark.parametrize(("document", "wanted", "sentence"), WRONG)
def test_a_file_of_ours_of_the_wrong_kind_says_what_it_is(
    document: dict[str, Any], wanted: type[Record], sentence: str, tmp_path: Path
) -> None:
    """Instead of naming the first field that is missing."""
    place = tmp_path / "some.json"
    place.write_text(json.dumps({"schema_version": 1} | document))
    with pytest.raises(RecordError) as caught:
        load(place, wanted)
    assert sentence in str(caught.value)
