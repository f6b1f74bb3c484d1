"""The report as people read it in a comment. To write the golden files again: ``pytest --golden-update``, then read the diff."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.explain.report import headline
from tests import examples, pages, reports

Golden = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["green", "red", "slower", "run", "hostile", "cached"])
def test_report(name: str, golden: Golden) -> None:
    """The whole report is what it was when somebody last looked at it."""
    golden(f"report_{name}.md", render_markdown(getattr(reports, f"{name}_report")()))


def test_the_verdict_is_first() -> None:
    """The first line says in words whether the run passes, and which case is worst."""
    first = render_markdown(reports.red_report()).splitlines()[0]
    assert first == "❌ **2 of 13 cases slower, 1 failed; worst: attention/inference_4k +5.2 %.**"


def test_the_first_line_has_the_cause_of_its_case() -> None:
    """Where a profile is sure enough of the cause of the case that ends the first line, the line ends with it; else as it is."""
    report = pages.h200_report()
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


def test_the_worst_case_is_first() -> None:
    """The table goes by outcome and then by how much slower the head is."""
    names = re.findall(r"^\| `([^`]+)`", render_markdown(reports.red_report()).split("### Why")[0], re.MULTILINE)
    assert names[:3] == ["gemm/fp8_4k", "attention/inference_4k", "layernorm/hidden_4096"]
    assert names[-1] == "copy/32m"


@pytest.mark.parametrize("outcome", [Outcome.INCONCLUSIVE, Outcome.UNFIT])
def test_no_answer_is_no_pass(outcome: Outcome) -> None:
    """A passing run with a case without an answer is marked so, and the case is never called unchanged."""
    text = render_markdown(reports.report((reports.case("a/b", outcome, "Too noisy.", 1.01),)))
    assert text.startswith("⚠️ **")
    assert "unchanged" not in text.split("<details>")[0]


def test_the_heads_benchmarks_are_said() -> None:
    """A run with the head's benchmarks on both sides says so, and the command that measures it again asks for them too."""
    text = render_markdown(reports.red_report().model_copy(update={"bench_from": "head"}))
    assert ", benchmarks of the head on both sides.\n" in text
    assert "--bench-from head" in text
    assert "of the head on both sides" not in render_markdown(reports.red_report())


def test_a_run_without_reference_claims_nothing() -> None:
    """`ratchet run` shows times and throughput and no outcome of a comparison."""
    text = render_markdown(reports.run_report())
    assert "61.20\u00a0µs" in text
    for word in ("✅", "unchanged", "regressed", "Cliff", "reference", "How to read"):
        assert word not in text


def test_a_stored_reference_is_marked() -> None:
    """A change against a stored time has a star, and the star is explained."""
    stored = reports.comparison(1.01, source="stored")
    case = reports.case("a/b", Outcome.UNCHANGED, "Inside the gate.", 1.01, comparison=stored)
    text = render_markdown(reports.report((case,), reference=None))
    assert "against the times stored in the baseline" in text
    assert "+1.00\u00a0%&#42;" in text
    assert "measured on another day" in text


def test_the_same_reason_is_said_once() -> None:
    """Cases with one reason share one line."""
    cases = tuple(reports.case(f"a/{n}", Outcome.IDENTICAL, "The machine code is the same on both sides.") for n in range(12))
    lines = [line for line in render_markdown(reports.report(cases)).splitlines() if "The machine code is the same" in line]
    assert len(lines) == 1
    assert "and 2 more" in lines[0]


def test_commands_to_paste_hold_only_plain_names() -> None:
    """A name that a shell could read as more than a name gets into no command."""
    report = reports.report(
        tuple(reports.case(name, Outcome.REGRESSED, "Slower.", 1.1) for name in ("ok/a", "$(reboot)/b", "--base/c", "x;y/d"))
    )
    block = render_markdown(report).split("```bash\n")[1].split("```")[0]
    assert block.split() == [
        "git",
        "checkout",
        examples.HEAD.commit,
        "&&",
        "ratchet",
        "check",
        "--base",
        examples.REFERENCE.commit,
        "\\",
        "ok/a",
    ]


def test_uncommitted_changes_alone_are_measured_again_where_they_are() -> None:
    """Nothing is checked out where both sides are one commit, since that would compare the commit with itself."""
    head = examples.REFERENCE.model_copy(update={"dirty": True})
    text = render_markdown(reports.red_report().model_copy(update={"head": head}))
    assert "git checkout" not in text
    assert f"```bash\nratchet check --base {head.commit} " in text
    assert "Put them back into the working tree first" in text


def test_no_command_without_true_hashes() -> None:
    """A head that is no hash gives no command at all."""
    assert "git checkout" not in render_markdown(reports.hostile_report())


def test_a_chosen_gate_is_shown_as_chosen() -> None:
    """A gate of half a percent is not rounded away."""
    report = reports.green_report().model_copy(update={"policy": Policy(regression=0.005)})
    assert "the gate of 0.5 %" in render_markdown(report)


def many(count: int) -> ReportRecord:
    cases = [reports.case(f"bench/config_{n}", Outcome.UNCHANGED, "Inside the gate.", 1.0) for n in range(count)]
    worst = reports.case("bench/worst", Outcome.REGRESSED, "5 % slower.", 1.05, last_lines=("x" * 250,) * 30)
    return reports.report((*cases, worst), verdict="regression", exit_code=1, warnings=("w" * 300,) * 50)


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


def test_every_line_of_a_table_has_its_columns() -> None:
    """No text adds or removes a column."""
    for report in (
        reports.red_report(),
        reports.hostile_report(),
        reports.run_report(),
        reports.green_report(),
    ):
        table: list[int] = []
        for line in [*render_markdown(report).split("\n"), ""]:
            if line.startswith(("| ", "|:")):
                table.append(line.count("|"))
            else:
                assert len(set(table)) <= 1
                table = []
