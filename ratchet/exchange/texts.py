"""Write a verdict as other tools read it: JUnit's XML, SARIF 2.1.0, and the plain JSON of scripts of your own.

`ratchet.core.cli` writes both where ``--junit`` and ``--sarif`` ask for them. A file has a failure or an error exactly where the
run does not exit with 0. Formats: https://github.com/jenkinsci/xunit-plugin (junit-10.xsd) and
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. Pure, apart from `defined_at`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from ratchet import __version__
from ratchet.core.errors import Exit, OutputError
from ratchet.core.judge.verdict import RED
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.core.report import words
from ratchet.core.untrusted import clean

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RUN = "the whole run"
"""Stands for a case where the run failed and no case of it did, such as when nothing was measured."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that stand in no XML file, even escaped: https://www.w3.org/TR/xml/#charsets"""
Ending = Literal["", "skipped", "error", "failure"]


class SourceLine(NamedTuple):
    """Where a benchmark is defined, relative to the root of the repository."""

    file: str
    line: int


def ending_of(case: CaseVerdict, report: ReportRecord) -> Ending:
    """Return what a case means in a list of tests: a failure exits with 1, an error with 3."""
    if case.is_silenced or case.outcome in (Outcome.SKIPPED, Outcome.MISSING):
        return "skipped"
    if case.outcome in RED:
        return "failure"
    undecided = case.outcome is Outcome.INCONCLUSIVE and report.policy.on_inconclusive == "fail"
    return "error" if undecided or case.outcome in (Outcome.SLOWER, Outcome.UNFIT) else ""


def _text(text: str) -> str:
    """Return text that a person wrote or code printed, in one line, of characters that XML allows."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", clean(text))


def _whole(report: ReportRecord) -> Ending:
    """Return what the run as a whole adds where it failed and no case says so."""
    if not report.exit_code or {"error", "failure"} & {ending_of(case, report) for case in report.cases}:
        return ""
    return "failure" if report.exit_code == Exit.REGRESSION else "error"


def junit_text(report: ReportRecord) -> str:
    """Return JUnit's XML: a test for each case, whose time is that of one call of the head in seconds."""
    endings = [ending_of(case, report) for case in report.cases] + ([_whole(report)] if _whole(report) else [])
    counts = {
        "tests": str(len(endings)),
        "failures": str(endings.count("failure")),
        "errors": str(endings.count("error")),
    }
    top = ElementTree.Element("testsuites", {"name": "ratchet", "time": f"{report.wall_s:.3f}", **counts})
    suite = ElementTree.SubElement(
        top,
        "testsuite",
        {
            "name": "ratchet",
            "time": f"{report.wall_s:.3f}",
            "timestamp": report.started_at.isoformat(timespec="seconds"),
            "skipped": str(endings.count("skipped")),
            **counts,
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    trees = {"head": report.head, **({"reference": report.reference} if report.reference else {})}
    facts = {"headline": report.headline, "machine": report.environment.fingerprint.key}
    facts |= {side: tree.commit for side, tree in trees.items()}
    for name, value in facts.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for case in words.worst_first(report):
        benchmark, _, config = case.name.partition("/")
        test = ElementTree.SubElement(suite, "testcase", {"classname": _text(benchmark), "name": _text(config or benchmark)})
        if case.head:
            test.set("time", f"{case.head.median_ms / 1e3:.9f}")
        text = _text(f"{case.outcome}: {case.reason}")
        if ending := ending_of(case, report):
            message = _text(f"muted {case.muted}. {text}") if case.is_silenced else text
            found = ElementTree.SubElement(test, ending, {"type": str(case.outcome), "message": message})
            found.text = "\n".join([message, *map(_text, case.last_lines)])
        else:
            ElementTree.SubElement(test, "system-out").text = text
    if whole := _whole(report):
        test = ElementTree.SubElement(suite, "testcase", {"classname": "ratchet", "name": _RUN})
        ElementTree.SubElement(test, whole, {"type": report.verdict, "message": _text(report.headline)})
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


_LEVELS = {"failure": "error", "error": "warning"}


def sarif_text(report: ReportRecord, places: Mapping[str, SourceLine]) -> str:
    """Return a SARIF log: a result for each case that has no pass, at the place where its benchmark is defined.

    ``places``: benchmark → its definition. A case that is muted is a suppressed result.
    """
    shown = [case for case in words.worst_first(report) if ending_of(case, report) in _LEVELS or case.is_silenced]
    doubtful = [case for case in report.cases if case.outcome is Outcome.INCONCLUSIVE and case not in shown]
    results = [_result(case, report, places) for case in (*shown, *doubtful)]
    if whole := _whole(report):
        message = {"text": _text(report.headline)}
        results.append({"ruleId": "RUN", "level": _LEVELS[whole], "message": message})
    rules = [
        {"id": str(outcome), "shortDescription": {"text": word.text}, "fullDescription": {"text": word.meaning}}
        for outcome, word in words.WORDS.items()
    ]
    rules.append({"id": "RUN", "shortDescription": {"text": "the run has no verdict that passes"}})
    run = {
        "tool": {"driver": {"name": "ratchet", "semanticVersion": __version__, "rules": rules}},
        "invocations": [
            {
                "executionSuccessful": report.exit_code in (Exit.PASS, Exit.REGRESSION),
                "exitCode": report.exit_code,
                "startTimeUtc": report.started_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            }
        ],
        "results": results,
        "properties": {"headline": _text(report.headline), "head": report.head.commit},
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _result(case: CaseVerdict, report: ReportRecord, places: Mapping[str, SourceLine]) -> dict[str, object]:
    name = _text(case.name)
    place = places.get(case.name.partition("/")[0])
    location: dict[str, object] = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}]}
    if place:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(place.file)}, "region": {"startLine": place.line}}
    comparison = case.comparison
    figures = {"ratio": comparison.ratio, "low": comparison.low, "high": comparison.high} if comparison else {}
    return {
        "ruleId": str(case.outcome),
        "level": "note" if case.is_silenced else _LEVELS.get(ending_of(case, report), "note"),
        "message": {"text": f"{name}: {_text(case.reason)}"},
        "locations": [location],
        "partialFingerprints": {"ratchetCase/v1": name},
        **({"suppressions": [{"kind": "external", "justification": _text(case.muted or "")}]} if case.is_silenced else {}),
        **({"properties": figures} if figures else {}),
    }


def seed_text(run: RunRecord) -> str:
    """Return ``{"config": {…}, "performance": {"mean_time_ms": …}}`` of the one case that was timed; of several, a list of these.

    Raises OutputError where no case was timed.
    """
    found = [
        {
            "config": {"name": case.config.name, "benchmark": case.benchmark, "parameters": case.config.parameters},
            "performance": case.performance.model_dump(mode="json"),
        }
        for case in run.cases
        if case.performance is not None
    ]
    if not found:
        raise OutputError("No case was timed, so --seed-format has nothing to write.", "See the reasons above.")
    return json.dumps(found[0] if len(found) == 1 else found, indent=2, ensure_ascii=False) + "\n"


def defined_at(root: Path, bench: str) -> dict[str, SourceLine]:
    """Return benchmark → where a function of its name is defined. Files that cannot be read define none."""
    found: dict[str, SourceLine] = {}
    for path in sorted((root / bench).rglob("*.py")):
        try:
            body = ast.parse(path.read_bytes()).body
        except (OSError, SyntaxError, ValueError):
            continue
        for one in body:
            if isinstance(one, ast.FunctionDef) and one.decorator_list:
                found.setdefault(one.name, SourceLine(path.relative_to(root).as_posix(), one.lineno))
    return found
