"""The report in Markdown, beside what `test_recorded_runs.py` holds."""

from __future__ import annotations

import re

import pytest

from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.explain.report import headline
from tests import reports
from tests.recorded_runs import recorded


def test_the_first_line_has_the_cause_of_its_case() -> None:
    """Where a profile is sure enough of the cause of the case that ends the first line, the line ends with it; else as it is."""
    report = recorded("h200_red").reports["h200"]
    profiled, *others = (profile.model_copy(update={"ratio": 2.19}) for profile in report.profiles)
    assert headline(report) == f"{report.headline.removesuffix('.')}: coalescing 100 % → 50 %."
    assert headline(report.model_copy(update={"profiles": tuple(others)})) == report.headline
    several = "Each call spends more in aten::pow (5 ms → 32 ms); also aten::copy_ (11 µs → 28 ms), and more."
    traced = profiled.model_copy(update={"findings": (profiled.findings[0].model_copy(update={"what": several}),)})
    shown = headline(report.model_copy(update={"profiles": (traced,)}))
    assert shown == f"{report.headline.removesuffix('.')}: each call spends more in aten::pow (5 ms → 32 ms)."
    for change in ({"confidence": "low"}, {"what": "x" * 101}, {"effect": "faster"}):
        doubtful = profiled.model_copy(update={"findings": (profiled.findings[0].model_copy(update=change),)})
        assert headline(report.model_copy(update={"profiles": (doubtful,)})) == report.headline
    one_sided = profiled.model_copy(update={"reference": None})
    assert headline(report.model_copy(update={"profiles": (one_sided,)})) == report.headline


def many(count: int) -> ReportRecord:
    cases = [reports.case(f"bench/config_{n}", Outcome.UNCHANGED, "Inside the gate.", 1.0) for n in range(count)]
    worst = reports.case("bench/worst", Outcome.REGRESSED, "5 % slower.", 1.05, last_lines=("x" * 250,) * 30)
    return reports.report((*cases, worst), verdict="regression", exit_code=1, warnings=("w" * 300,) * 50)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4000, 10_000, 60_000])
def test_a_long_report_fits_a_comment(limit: int) -> None:
    """A report over its limit loses its mild cases and says so, and keeps the verdict and the worst case."""
    text = render_markdown(many(2000), limit=limit)
    assert len(text) <= limit
    assert text.startswith("❌ **1 of 2001 cases slower; worst: bench/worst +5.0 %.**")
    assert re.search(r"\d+ cases left out here", text)
    assert "2000" in text or "unchanged" in text
    assert len(render_markdown(many(2000))) > 60_000


def test_a_hostile_report_fits_a_comment() -> None:
    """Text that is longest when escaped does not push a report over its limit."""
    nasty = "<>&|`[]" * 60
    cases = tuple(reports.case(f"{nasty}{n}", Outcome.FAILED, f"{nasty}{n}", last_lines=(nasty,) * 50) for n in range(60))
    report = reports.report(cases, headline=nasty, warnings=(nasty,) * 60, verdict="regression", command=(nasty,))
    assert len(render_markdown(report, limit=65_536)) <= 65_536
