"""The page of a report for a browser."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.judge.comparison import pairs_of
from ratchet.core.report.page import MOST_CASES, forest_plot, pair_plot, render_page
from tests.browser import CHROMIUM, WITHOUT, browser
from tests.pages import h200_run
from tests.recorded_runs import recorded

Golden = Callable[[str, str], None]


def h200_data() -> tuple[dict[str, list[float]], dict[str, bytes]]:
    cases = h200_run().cases
    ratios = {case.name: [math.exp(pair.log_ratio) for pair in pairs_of(case.head, case.reference)] for case in cases}
    return ratios, {"normalize/rows_16k": b"a picture"}


def test_page(golden: Golden) -> None:
    """The whole page is what it was when somebody last looked at it in a browser, on a phone's width too."""
    golden("report_h200.html", render_page(recorded("h200_red").reports["h200"], *h200_data()))


def test_a_large_run_shows_its_worst_cases() -> None:
    """Beyond so many cases the page says how many it leaves out, and has no plots of them."""
    report = recorded("h200_red").reports["h200"]
    many = tuple(report.cases[0].model_copy(update={"name": f"many/{number}"}) for number in range(MOST_CASES + 7))
    page = render_page(report.model_copy(update={"cases": many}))
    assert "7 more cases" in page
    assert page.count("<details") == MOST_CASES


def test_plot() -> None:
    """Each pair is a dot in its order; equal ratios lie on the line of no change, and the gate shows where it is in sight."""
    report = recorded("outcomes").reports[""]
    plot = pair_plot([1.0, 1.05, 1.1], None, report.policy)
    assert plot is not None
    xs, ys = [dot[0] for dot in plot.dots], [dot[1] for dot in plot.dots]
    assert xs[0] == plot.same
    assert xs == sorted(xs)
    assert ys == sorted(ys)
    assert [name for _, name, _ in plot.gates] == ["gate +3.0 %"]
    assert pair_plot([], None, report.policy) is None
    wide = pair_plot([0.3, 1.0, 12.0], None, report.policy)
    assert wide is not None
    assert [name for _, name, _ in wide.gates] == ["gate +3.0 %"], "labels that would overlap are left out, the gate's is not"
    quiet = pair_plot([1.0001, 0.9999], None, report.policy)
    assert quiet is not None
    assert max(abs(dot[0] - quiet.same) for dot in quiet.dots) < 10
    assert not quiet.gates


def test_one_case_alone_has_no_forest() -> None:
    """A plot of intervals below each other takes two; the page that is written down has one."""
    run = next(iter(recorded("outcomes").reports.values()))
    assert forest_plot(run.cases[:1], run) is None


BEYOND = """[...document.querySelectorAll('body *')].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width && !each.closest('pre') && (box.right > innerWidth + 1 || box.left < -1);
}).map(each => each.textContent)"""
OVERLAPPING = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const labels = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return labels.flatMap(([one, a], at) => labels.slice(at + 1)
    .filter(([_, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
    .map(([other]) => `${one} over ${other}`));
})"""
UNSEEN = """[...document.querySelectorAll('details[open] > p')].filter(each => {
  const box = each.getBoundingClientRect();
  return !box.height || box.left < 0 || box.right > innerWidth || each.scrollWidth > each.clientWidth;
}).map(each => each.textContent)"""
"""Reasons that are cut off."""


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT)
def test_nothing_is_cut_off_or_on_top_of_anything(tmp_path: Path) -> None:
    """On a phone and a desktop all words lie within the window, no label lies on another, and each reason can be read."""
    with browser() as tab:
        for name in ("outcomes", "hostile", "too_few_pairs", "inconclusive", "h200_red", "muted", "now_and_then"):
            found = recorded(name)
            for model, report in found.reports.items():
                cases = found.runs[model].cases
                ratios = {one.name: [math.exp(pair.log_ratio) for pair in pairs_of(one.head, one.reference)] for one in cases}
                page = tmp_path / f"{name}.html"
                page.write_text(render_page(report, {case: each for case, each in ratios.items() if each}))
                for width in (390, 1280):
                    tab.resize(width, 844, dark=True)
                    tab.open(page.as_uri())
                    assert tab.evaluate("document.documentElement.scrollWidth") == width, name
                    for script in (BEYOND, OVERLAPPING, UNSEEN):
                        assert tab.evaluate(script) == [], (name, width)
                    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
        assert tab.complaints() == []
