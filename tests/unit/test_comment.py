"""The sticky comment, beside what `test_recorded_runs.py` holds."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.errors import UsageError
from ratchet.core.records.verdict import Outcome
from ratchet.github.check_run import check_output
from ratchet.github.comment import LIMIT, MOST_BARS, CommentPage, chart_of_changes, marker, render_comment, run_id_of, sha_of
from ratchet.github.event import MOST_CASES, Accept, parse_command
from tests import examples, reports
from tests.recorded_runs import LINKS, RUN_URL, page_of, recorded
from tests.rendered import Page, faults


@pytest.mark.parametrize(
    "body",
    ["", "x", marker("a"), f"{marker('a')}\n<!-- ratchet:run:0:x -->", f"> {marker('a')}\n<!-- ratchet:run:1:{'a' * 40} -->"],
)
def test_another_text_names_no_run(body: str) -> None:
    """What we did not write names neither a run nor a head."""
    assert run_id_of(body) is None
    assert sha_of(body) is None


def test_an_id_is_a_plain_word() -> None:
    """An id that could end the marker is refused."""
    for wrong in ("", "a b", "--> <b>", "x" * 65, "a\n"):
        with pytest.raises(UsageError):
            marker(wrong)


@functools.cache
def many(count: int, name: str = "bench/config_{}") -> CommentPage:
    """A page with so many cases, a third of each of them regressed, failed and improved, with profiles."""
    kinds = (Outcome.REGRESSED, Outcome.FAILED, Outcome.IMPROVED)
    cases = tuple(
        reports.case(
            name.format(n), kinds[n % 3], f"Reason {n} <&|`[]*~$\\> " * 20, 1.1 + n / 1000, last_lines=("<&|`x" * 60,) * 30
        )
        for n in range(count)
    )
    profiles = tuple(examples.case_profile(case.name) for case in cases[:30])
    report = reports.report(cases, verdict="regression", headline="<&|`[]*~$\\>" * 60, exit_code=1, warnings=("<@x" * 200,) * 50)
    return page_of(report.model_copy(update={"profiles": profiles, "unprofiled": tuple(case.name for case in cases)}))


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("limit", [8_000, 20_000, LIMIT])
@pytest.mark.parametrize("name", ["bench/config_{}", "<&|`[]*~$\\>" * 20 + "/{}", "größe🟰" * 20 + "/{}"])
def test_a_long_comment_fits(limit: int, name: str) -> None:
    """With hundreds of cases a comment keeps to its bytes, keeps verdict, counts and links, and says how many it left out."""
    text = render_comment(many(300, name), limit)
    assert len(text.encode()) <= limit
    assert text.split("\n")[2].startswith("### ❌ ")
    assert "**Cases** 300: " in text
    assert f"]({RUN_URL})" in text
    assert re.search(r"\d+ more cases: the run’s `ratchet_report.md` lists them all", text)
    assert faults(text, LINKS) == []


def test_4900_cases_fit() -> None:
    """The comment and both parts of the check run of 4,900 cases keep to GitHub's 65,536 characters, and name the worst."""
    kinds = (Outcome.UNCHANGED, Outcome.IDENTICAL, Outcome.REGRESSED, Outcome.INCONCLUSIVE)
    cases = tuple(
        reports.case(
            f"gemm/m{n}_n4096_k4096", kinds[n % 4], f"The interval of {n} reaches.", 1.1 + n / 1e5, unchecked="No reference."
        )
        for n in range(4900)
    )
    page = page_of(reports.report(cases))
    _, output = check_output(page)
    for text in (render_comment(page), output.summary, output.text):
        assert len(text) < 65_536
    assert "1225 of 4900 cases slower; worst: gemm/m4898_n4096_k4096 +15 %" in output.title
    assert "gemm/<wbr>m4898_<wbr>n4096" in output.summary


@pytest.mark.parametrize("name", ["h200_red", "h200_slower", "pass", "accepted"])
def test_it_fits_a_phone(name: str) -> None:
    """Open tables break into columns of 34 characters in all, what a phone of 360 pixels has room for."""
    lines = render_comment(recorded(name).comment_page).partition("<details>")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| Case", "| <code>"))]
    pieces = [[re.split(" |<wbr>", re.sub("</?code>", "", cell)) for cell in row] for row in rows]
    assert sum(max(len(piece) for cell in column for piece in cell) for column in zip(*pieces, strict=True)) <= 34


def test_the_order_in_which_detail_goes() -> None:
    """With less room the counters go first, then the logs' length, then causes with what to try, then chart and machine."""
    sizes = (60_000, 12_000, 10_500, 7_500)
    page = recorded("h200_red").comment_page
    whole, shorter, *_, least = [render_comment(page, size) for size in sizes]
    assert "Figures under the profiler" in whole
    assert "Figures under the profiler" not in shorter
    assert "What the profiles show" in shorter or "what the profiles show" in shorter
    assert "at a glance" in shorter
    assert "what the profiles show" not in least
    assert "normalize/rows_16k" in least
    assert [len(render_comment(page, size).encode()) <= size for size in sizes] == [True] * 4


@pytest.mark.slow
@pytest.mark.no_cover
@given(st.text(max_size=60), st.text(max_size=60), st.integers(min_value=8_000, max_value=60_000))
def test_any_text_stays_text(name: str, reason: str, limit: int) -> None:
    """Whatever a case is called and whatever is said of it, nothing in the comment becomes live, and it fits."""
    cases = tuple(reports.case(f"{name}{n}", outcome, reason, 1.1, last_lines=(reason,)) for n, outcome in enumerate(Outcome))
    report = reports.report(cases, headline=reason, warnings=(reason,), verdict="regression", exit_code=1)
    profile = examples.case_profile(f"{name}1", steps_down=(reason,))
    text = render_comment(page_of(report.model_copy(update={"profiles": (profile,)}), base_ref=name, problem=reason), limit)
    assert faults(text, LINKS) == []
    assert len(text.encode()) <= limit


BAR = re.compile(r"(?:[A-Za-z0-9_./+…-]+|case \d+) +(?:>?[+−])?[0-9.e+]+ %\*? \[[+−0-9.e, ]+\] [a-z ,-]+ +[▐█]*│[█▌]*")


@given(st.lists(st.tuples(st.text(max_size=40), st.floats(min_value=1e-26, max_value=1e26)), max_size=30))
def test_any_chart_is_safe(taken: list[tuple[str, float]]) -> None:
    """No name reaches a chart that is not plain; each line has a change and a bar on one side of a line that stands straight."""
    found = [reports.comparison(1.0).model_copy(update={"ratio": ratio}) for _, ratio in taken]
    cases = [reports.case(name, Outcome.UNCHANGED, "x", comparison=each) for (name, _), each in zip(taken, found, strict=True)]
    made = chart_of_changes(cases)
    assert (made is None) == (len(taken) < 2)
    if made:
        lines = made.split("\n")[1:-1]
        assert len(lines) == min(len(taken), MOST_BARS)
        assert all(BAR.fullmatch(line) for line in lines), lines
        assert len({line.index("│") for line in lines}) == 1


def test_bars_grow_from_none_to_both_sides() -> None:
    """Slower is to the right, faster to the left, and lengths are in the proportion of the changes."""
    ratios = {"a/slow": 1.1, "a/slower": 1.2, "a/same": 1.0, "a/fast": 0.9}
    made = chart_of_changes([reports.case(name, Outcome.UNCHANGED, "x", ratio) for name, ratio in ratios.items()])
    assert made is not None
    sides = [tuple(map(len, line.rsplit("  ", 1)[-1].strip().split("│"))) for line in made.split("\n")[1:-1]]
    assert sides == [(0, 12), (0, 24), (0, 0), (12, 0)]


def test_the_line_that_accepts_is_a_command() -> None:
    """It accepts the worst slowdowns, as many as a command takes."""
    many_red = tuple(reports.case(f"a/{n}", Outcome.REGRESSED, "Slower.", 2 - n / 100) for n in range(30))
    line = re.search(r"^`(/ratchet accept .*)`$", render_comment(page_of(reports.report(many_red))), re.MULTILINE)
    assert line
    assert parse_command(line[1]) == Accept(tuple(f"a/{n}" for n in range(MOST_CASES)), "REASON")


def test_a_link_leads_to_github_alone() -> None:
    """An address that is none is shown as text."""
    green = recorded("pass").comment_page
    page = replace(green, run=replace(green.run, url="https://x.example/a b"))
    assert Page(render_comment(page)).links == []
