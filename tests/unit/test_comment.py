"""The sticky comment. To write the golden files again: ``pytest --golden-update``, then read the difference."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.errors import UsageError
from ratchet.core.records.verdict import Outcome
from ratchet.github.check_run import check_output
from ratchet.github.comment import LIMIT, MOST_BARS, CommentPage, chart_of_changes, marker, render_comment, run_id_of, sha_of
from ratchet.github.event import MOST_CASES, Accept, parse_command
from tests import examples, pages, reports
from tests.pages import RUN_URL
from tests.rendered import Page, faults

Make = Callable[[], CommentPage]
EVERY = pytest.mark.parametrize("make", pages.ALL, ids=lambda make: make.__name__)


@EVERY
def test_comment(make: Make, golden: Callable[[str, str], None]) -> None:
    """Each kind of comment is what it was when somebody last looked at it."""
    golden(f"comment_{make.__name__}.md", render_comment(make()))


@EVERY
def test_nothing_in_it_is_live(make: Make) -> None:
    """GitHub's renderer finds our tables, lists and folds, links to the run alone, and no mention, issue, image or other tag."""
    assert faults(render_comment(make()), pages.LINKS) == []


@EVERY
def test_the_markers_come_first(make: Make) -> None:
    """The first line finds the comment again, the second says which run and head it is of."""
    page = make()
    body = render_comment(page)
    assert body.startswith(f"{marker('default')}\n<!-- ratchet:run:{page.run.id}:")
    assert (run_id_of(body), sha_of(body)) == (page.run.id, page.run.head_sha)
    assert run_id_of(body.replace("\n", "\r\n")) == page.run.id


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


def visible(make: Make) -> str:
    """What stands open."""
    return re.sub(r"<details>.*</details>", "", render_comment(make()), flags=re.DOTALL).replace("\u00a0", " ")


def test_the_verdict_is_first_then_the_worst() -> None:
    """After the markers come the verdict, the regressions, the slowest first, their causes, how to accept them, the facts."""
    lines = [line for line in visible(pages.red).splitlines()[2:] if line]
    assert lines[0] == "### ❌ 5 of 11 cases slower; worst: normalize/rows_16k +119 % (2.2×): coalescing 100 % → 50 %"
    names = [name_in(line) for line in lines if line.startswith("| <code>")]
    assert lines[3].startswith("| <code>")
    assert names[:3] == ["normalize/rows_16k", "normalize/rows_8k", "attention/training_1k"]
    after = [line.split(" ")[0] for line in lines[3 + len(names) :]]
    assert after == ["-", "-", "-", "**Slower", "```text", "/ratchet", "```", "**Cases**", "6", *FACTS]
    assert "**Cases** 11: ❌ 5 regressed · 🟰 6 identical" in lines
    assert lines[-3].startswith(f"**Run** [19432117786]({RUN_URL}), ")


FACTS = ["**Head**", "**Reference**", "**Machine**", "**Run**", "**Thresholds**", "**Files**"]


def name_in(row: str) -> str:
    """The case in a row of a table."""
    return row.split("<code>")[1].split("</code>", maxsplit=1)[0].replace("<wbr>", "")


def test_figures_of_a_regression() -> None:
    """Each regression has the change with its interval and both times; pairs, Cliff's δ and MDE are folded away."""
    name = "<code>normalize/<wbr>rows_<wbr>8k</code>"
    opened, _, folded = render_comment(pages.red()).replace("\u00a0", " ").partition("<details>")
    assert f"| {name} | +57.0 % [+55.2, +58.4] | 12.21 → 19.17 µs |" in opened
    assert f"| {name} | 24 | +1.00 | 3.45 % |" in folded.split("<summary>Statistics")[1]
    assert "δ" not in opened
    assert "MDE" not in opened


def test_an_accepted_regression_is_shown_with_who_and_why() -> None:
    """It stands apart from the regressions, with the person, the reason and the head that it holds for."""
    text = visible(pages.accepted)
    assert text.split("\n")[2] == "### ✅ 1 of 2 cases slower, but accepted; no other slower by over 3 %"
    assert "#### ❌" not in text
    assert "- `attention/inference_4k` by a-maintainer: rows that are masked as a whole gave NaN" in text
    assert "/ratchet accept" not in text
    assert "This holds only for 3f2a1bc98d" in text
    assert "(1 accepted)" in text


def test_alerts_stand_under_the_verdict() -> None:
    """A head that moved and an edited baseline are said before any figure."""
    before = visible(pages.stale).split("| Case |")[0]
    assert "**Stale:** the pull request is now at 4e4e4e4e4e; this report is about 3f2a1bc98d." in before
    assert "**This pull request edits the baseline file.** It was judged by the file of `main`" in before


def test_no_verdict_is_said() -> None:
    """Without a run to judge, the comment says why and claims nothing."""
    text = render_comment(pages.problem())
    assert "### ❌ No verdict: The job that measures ended with “failure”" in text
    assert "neither a pass nor a regression" in text
    assert "✅" not in text


def test_no_answer_is_no_pass() -> None:
    """A case without an answer stands open with its reason, and the mark is no tick."""
    text = visible(pages.inconclusive)
    assert text.split("\n")[2].startswith("### ⚠️ ")
    assert "- `attention/training_512` inconclusive: The interval reaches" in text
    assert "⚠️ The profiles were left out" in text


def test_the_heads_benchmarks_are_said() -> None:
    """A run with the head's benchmarks on both sides says so beside its commits."""
    page = pages.red()
    assert page.report is not None
    text = render_comment(replace(page, report=page.report.model_copy(update={"bench_from": "head"})))
    line = next(line for line in text.splitlines() if line.startswith("**Reference**"))
    assert line.endswith(", benchmarks of the head on both sides\\")
    alone = render_comment(replace(page, report=page.report.model_copy(update={"reference": None})))
    assert "**Reference** not measured; times stored in the baseline stand in for it\\\n" in alone


def test_the_next_step_and_a_host_bound_case() -> None:
    """A case without an answer says how many pairs and seconds would give one; one whose GPU waited for the host says so."""
    text = render_comment(pages.page(reports.slower_report()))
    open_part, _, folded = text.partition("<details>")
    assert "8 more pairs would settle it and take 14 s" in open_part
    assert "`copy/64m` host-bound: The GPU waited for the host in 100 % of the head's blocks" in folded
    assert "⏳ Host-bound, the GPU mostly waited for the CPU: `copy/64m`." in open_part


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
    return pages.page(report.model_copy(update={"profiles": profiles, "unprofiled": tuple(case.name for case in cases)}))


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
    assert faults(text, pages.LINKS) == []


def test_4900_cases_fit() -> None:
    """The comment and both parts of the check run of 4,900 cases keep to GitHub's 65,536 characters, and name the worst."""
    kinds = (Outcome.UNCHANGED, Outcome.IDENTICAL, Outcome.REGRESSED, Outcome.INCONCLUSIVE)
    cases = tuple(
        reports.case(
            f"gemm/m{n}_n4096_k4096", kinds[n % 4], f"The interval of {n} reaches.", 1.1 + n / 1e5, unchecked="No reference."
        )
        for n in range(4900)
    )
    page = pages.page(reports.report(cases))
    _, output = check_output(page)
    for text in (render_comment(page), output.summary, output.text):
        assert len(text) < 65_536
    assert "1225 of 4900 cases slower; worst: gemm/m4898_n4096_k4096 +15 %" in output.title
    assert "gemm/<wbr>m4898_<wbr>n4096" in output.summary


@pytest.mark.parametrize("make", [pages.red, pages.slower, pages.improved, pages.accepted], ids=lambda make: make.__name__)
def test_it_fits_a_phone(make: Make) -> None:
    """Open tables break into columns of 34 characters in all, what a phone of 360 pixels has room for."""
    lines = render_comment(make()).partition("<details>")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| Case", "| <code>"))]
    pieces = [[re.split(" |<wbr>", re.sub("</?code>", "", cell)) for cell in row] for row in rows]
    assert sum(max(len(piece) for cell in column for piece in cell) for column in zip(*pieces, strict=True)) <= 34


def test_a_reason_that_stands_below_is_not_in_the_first_line() -> None:
    """The first line of what failed or could not be measured names a case; why, the list below says, once."""
    for make, said in ((pages.failed, "❌ 2 of 3 cases failed, such as attention/training_512"), (pages.nothing, NOTHING)):
        text = visible(make)
        assert text.splitlines()[2] == f"### {said}"
        assert text.count("NameError") + text.count("SW thermal slowdown") == 1


NOTHING = "❌ Nothing was measured: 2 unfit, 1 skipped"


def test_the_order_in_which_detail_goes() -> None:
    """With less room the counters go first, then the logs' length, then causes with what to try, then chart and machine."""
    sizes = (60_000, 12_000, 10_500, 7_500)
    page = pages.red()
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
    text = render_comment(pages.page(report.model_copy(update={"profiles": (profile,)}), base_ref=name, problem=reason), limit)
    assert faults(text, pages.LINKS) == []
    assert len(text.encode()) <= limit


def test_a_table_has_its_columns() -> None:
    """No text adds or removes a column in any comment."""
    for make in pages.ALL:
        table: list[int] = []
        for line in [*render_comment(make()).split("\n"), ""]:
            if line.startswith(("| ", "|:")):
                table.append(line.count("|"))
            else:
                assert len(set(table)) <= 1
                table = []


BAR = re.compile(r"(?:[A-Za-z0-9_./+…-]+|case \d+) +[+−]?[0-9.e+]+ %\*? +[▐█]*│[█▌]*")


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


def test_one_bar_is_no_chart() -> None:
    """A single compared case gets no chart."""
    assert "at a glance" not in render_comment(pages.page(reports.report((reports.case("a/b", Outcome.UNCHANGED, "x", 1.0),))))


def test_commands_hold_plain_names_only() -> None:
    """What people paste, as a command or as a comment, has no name in it that is more than a name."""
    text = render_comment(pages.hostile())
    assert "reboot" not in "".join(re.findall(r"```(?:text|bash)\n(.*?)```", text.replace("`````", ""), re.DOTALL))
    assert "\n/ratchet" not in text


def test_the_line_that_accepts_stands_open_and_names_slowdowns_alone() -> None:
    """It is complete but for the reason, and holds plain names of slowdowns only: a wrong result cannot be accepted."""
    assert "\n/ratchet accept attention/inference_4k layernorm/hidden_4096 REASON\n" in visible(pages.mixed)
    assert visible(pages.slower).count("/ratchet accept normalize/rows_16k ") == 1
    for make in (pages.green, pages.improved, pages.inconclusive, pages.problem):
        assert "/ratchet accept" not in render_comment(make())
    cases = tuple(reports.case(name, Outcome.REGRESSED, "Slower.", 1.1) for name in ("a/b", "$(reboot)/b", "c/d"))
    text = render_comment(pages.page(reports.report(cases)))
    assert "/ratchet accept a/b c/d REASON" in text
    assert "; the line names 2 of 3 cases)" in text
    many_red = tuple(reports.case(f"a/{n}", Outcome.REGRESSED, "Slower.", 2 - n / 100) for n in range(30))
    line = re.search(r"^/ratchet accept .*", render_comment(pages.page(reports.report(many_red))), re.MULTILINE)
    assert line
    command = parse_command(line[0])
    assert command == Accept(tuple(f"a/{n}" for n in range(MOST_CASES)), "REASON")


def test_a_link_leads_to_github_alone() -> None:
    """An address that is none is shown as text."""
    green = pages.green()
    page = replace(green, run=replace(green.run, url="https://x.example/a b"))
    assert Page(render_comment(page)).links == []
