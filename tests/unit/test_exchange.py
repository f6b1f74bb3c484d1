"""`ratchet check --junit` and `--sarif`: files that other tools read, held against the schemas of both formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.cli import main
from ratchet.core.errors import OutputError, RecordError
from ratchet.core.judge.verdict import ending
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.exchange.texts import SourceLine, defined_at, junit_text, sarif_text, seed_text
from ratchet.harness.results import read_results
from tests import examples, reports

DATA = Path(__file__).parents[1] / "data" / "exchange"
JUNIT = xmlschema.XMLSchema(DATA / "junit-10.xsd")
SARIF = jsonschema.Draft4Validator(json.loads((DATA / "sarif-schema-2.1.0.json").read_text(encoding="utf-8")))
HOSTILE = "\x1b[31m]]><a>&\x00\ufffe\ud800 @everyone"
PLACES = {"norm": SourceLine("bench/norm.py", 12)}


def report_on(*cases: CaseVerdict, **changes: Any) -> ReportRecord:
    """A report whose exit code is what the judge says of these cases."""
    policy = changes.pop("policy", Policy())
    code, headline = ending(cases, policy)
    return reports.report(cases, policy=policy, exit_code=int(code), headline=headline, **changes)


def results(report: ReportRecord) -> tuple[ElementTree.Element, dict[str, Any]]:
    """Both files, after they have passed their schemas."""
    xml, log = junit_text(report), json.loads(sarif_text(report, PLACES))
    JUNIT.validate(xml)
    SARIF.validate(log)
    (run,) = log["runs"]
    return ElementTree.fromstring(xml), run


OUTCOMES = st.sampled_from([one for one in Outcome if one is not Outcome.MEASURED])


@given(
    st.lists(st.tuples(OUTCOMES, st.sampled_from([None, "until 2027-01-01 by a: b"])), max_size=6),
    st.sampled_from(["pass", "fail"]),
)
def test_a_file_has_a_failure_exactly_where_the_run_does_not_pass(cases: list[tuple[Outcome, str | None]], policy: Any) -> None:
    """Whatever the outcomes, mutes and policy: JUnit and SARIF agree with the exit code, and both keep their schemas."""
    listed = [
        reports.case(f"norm/c{number}", outcome, "It is so.", ratio=1.1, muted=muted)
        for number, (outcome, muted) in enumerate(cases)
    ]
    report = report_on(*listed, policy=Policy(on_inconclusive=policy))
    xml, run = results(report)
    failures, errors = len(xml.findall(".//failure")), len(xml.findall(".//error"))
    assert bool(failures + errors) == bool(report.exit_code)
    assert bool(failures) == (report.exit_code == 1)
    assert [int(xml[0].get(name, "")) for name in ("tests", "failures", "errors")] == [
        len(xml.findall(".//testcase")),
        failures,
        errors,
    ]
    levels = [one["level"] for one in run["results"]]
    assert (levels.count("error"), levels.count("warning")) == (failures, errors)
    assert run["invocations"][0]["exitCode"] == report.exit_code


@pytest.mark.parametrize("hostile", [HOSTILE, "a\nb", "::error::x"])
def test_text_of_others_changes_neither_file(hostile: str) -> None:
    """Names, reasons and output of code under test stand in both files as text, without what XML forbids."""
    case = reports.case("norm/a", Outcome.FAILED, hostile, last_lines=(hostile,))
    xml, run = results(report_on(case))
    (failure,) = xml.findall(".//failure")
    assert failure.get("message", "").isprintable()
    assert run["results"][0]["message"]["text"].isprintable()


def test_what_is_in_both_files() -> None:
    """A time in seconds, the place of the benchmark, the figures, and the mute of a case that is muted."""
    slow = reports.case("norm/a", Outcome.REGRESSED, "Slower by 10 %.", ratio=1.1, reference_ms=2.0)
    muted = reports.case("other/b", Outcome.REGRESSED, "Slower.", ratio=1.05, muted="until 2027-01-01 by a: b")
    xml, run = results(report_on(slow, muted, reports.case("norm/c", Outcome.UNCHANGED, "The same.", ratio=1.0)))
    tests = {f"{one.get('classname')}/{one.get('name')}": one for one in xml.findall(".//testcase")}
    assert tests["norm/a"].get("time") == "0.002200000"
    assert tests["norm/a"].find("failure").get("message") == "REGRESSED: Slower by 10 %."  # type: ignore[union-attr]
    assert tests["other/b"].find("skipped") is not None
    assert tests["norm/c"].find("system-out") is not None
    first, second = run["results"]
    where = first["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"], where["region"]["startLine"]) == ("bench/norm.py", 12)
    assert first["properties"] == {"ratio": 1.1, "low": pytest.approx(1.0982), "high": pytest.approx(1.1018)}
    assert (second["level"], second["suppressions"][0]["kind"]) == ("note", "external")


def test_the_place_of_a_benchmark_is_a_uri() -> None:
    """Characters of a path that mean something else in a URI, or stand in none, are escaped."""
    report = report_on(reports.case("norm/a", Outcome.REGRESSED, "Slower.", ratio=1.1))
    (run,) = json.loads(sarif_text(report, {"norm": SourceLine("bench/a b#1%2/é.py", 3)}))["runs"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "bench/a%20b%231%252/%C3%A9.py"


def test_benchmarks_are_found_where_they_are_defined(tmp_path: Path) -> None:
    """The line of the function; a file that is no Python is passed over."""
    (tmp_path / "bench/deep").mkdir(parents=True)
    (tmp_path / "bench/deep/norm.py").write_text(
        "import x\n\n@benchmark\ndef norm(device): ...\n\ndef helper(): ...\n", encoding="utf-8"
    )
    (tmp_path / "bench/broken.py").write_text("def (", encoding="utf-8")
    assert defined_at(tmp_path, "bench") == {"norm": SourceLine("bench/deep/norm.py", 4)}


def test_a_recorded_run_is_written_as_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ratchet report RUN --junit FILE --sarif FILE`, with the exit code of the verdict."""
    text = gzip.decompress((DATA.parent / "h200_red" / "current.json.gz").read_bytes())
    (tmp_path / "run.json").write_bytes(text)
    xml, sarif = tmp_path / "junit.xml", tmp_path / "ratchet.sarif"
    words = ["report", str(tmp_path / "run.json"), "--junit", str(xml), "--sarif", str(sarif), "--repo", str(tmp_path)]
    code = main(words)
    JUNIT.validate(xml.read_text(encoding="utf-8"))
    log = json.loads(sarif.read_text(encoding="utf-8"))
    SARIF.validate(log)
    assert (code, {one["ruleId"] for one in log["runs"][0]["results"]}) == (3, {"SLOWER"}), capsys.readouterr().err


def test_the_plain_form_is_written_and_read(tmp_path: Path) -> None:
    """One case is one object with config and performance.mean_time_ms, several are a list; `compare` reads both."""
    run = examples.run_record()
    (timed,) = [case for case in run.cases if case.performance][:1]
    one = tmp_path / "one.json"
    one.write_text(seed_text(run.model_copy(update={"cases": (timed,)})), encoding="utf-8")
    document = json.loads(one.read_text(encoding="utf-8"))
    assert document["config"]["name"] == timed.config.name
    assert document["performance"]["mean_time_ms"] == timed.performance.mean_time_ms
    (read,) = read_results(one).cases
    assert (read.name, read.samples_ms) == (timed.name, (timed.performance.mean_time_ms,))
    two = tmp_path / "two.json"
    other = timed.model_copy(update={"config": timed.config.model_copy(update={"name": "other"})})
    two.write_text(seed_text(run.model_copy(update={"cases": (timed, other)})), encoding="utf-8")
    assert [case.name for case in read_results(two).cases] == [timed.name, f"{timed.benchmark}/other"]
    with pytest.raises(OutputError, match="No case was timed"):
        seed_text(run.model_copy(update={"cases": ()}))


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"config": {"batch": 32, "seq": 512}, "performance": {"mean_time_ms": 0.05}}, "benchmark/batch_32-seq_512"),
        ({"config": "training_512", "performance": {"mean_time_ms": 0.05}}, "benchmark/training_512"),
        ({"config": {}, "performance": {"mean_time_ms": 0.05}}, "benchmark/default"),
    ],
)
def test_the_plain_form_of_other_scripts_is_read(document: Any, name: str, tmp_path: Path) -> None:
    """Whatever a script put into config; without a time there is one sentence."""
    file = tmp_path / "current.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert [(case.name, case.samples_ms) for case in read_results(file).cases] == [(name, (0.05,))]
    file.write_text(json.dumps(document | {"performance": {}}), encoding="utf-8")
    with pytest.raises(RecordError, match="mean_time_ms"):
        read_results(file)
