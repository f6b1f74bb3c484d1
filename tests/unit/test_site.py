"""The pages of a history, as files and in a browser."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ratchet.core import units
from ratchet.core.errors import OutputError, UsageError
from ratchet.core.records.verdict import Outcome
from ratchet.history.judge import series_of
from ratchet.history.records import Point, Series
from ratchet.history.site import write_site
from ratchet.history.site_pages import Level, Site, SiteRun, plot_data, summary_of
from tests import site_examples as scenes
from tests.browser import CHROMIUM, WITHOUT, Tab, browser

NASTY = "x</script><img src=x onerror=alert(1)>\"'{{7*7}}/a\u202e`<!--"
KNOWN = frozenset(
    "html head meta title link script body header nav h1 h2 p a span label input kbd select option br table thead tbody tr th td "  # noqa: SIM905 - a list of words
    "svg polyline ul li div noscript code details summary b".split()
)
"""Elements that our templates write."""
REPOSITORY = "https://github.com/octocat/kernels"


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = self.data = ""
        self._in_data = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in_data = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = self._in_data and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data
        else:
            self.text += data

    def links(self) -> list[str]:
        return [value or "" for _, attributes in self.found for name, value in attributes.items() if name in ("href", "src")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of 40 runs of 8 cases, and of one whose names are hostile, on another machine."""
    folder = tmp_path_factory.mktemp("site")
    history = scenes.write(folder / "history", [*scenes.runs(40, scenes.names(8)), scenes.hostile(NASTY)])
    write_site(history, folder / "site", "octocat/kernels", REPOSITORY)
    return folder / "site"


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def case_page(site: Path, name: str) -> Path:
    (path,) = (site / "case").glob(f"{name.replace('/', '-').replace('_', '-')}-*.html")
    return path


def series(count: int = 60, cases: int = 8, of: int = 1) -> Series:
    """The series of one case; the second gets slower for good ten runs before the last."""
    return series_of(scenes.names(cases)[of], [(f"run {run.commit}", run, run.cases[of]) for run in runs_of(count, cases)])


def runs_of(count: int, cases: int) -> list[Any]:
    return scenes.runs(count, scenes.names(cases))


def remade(of: Series, change: Callable[[int, Point], dict[str, Any]]) -> Series:
    """The series with each point changed by what is said of its place and of itself."""
    points = tuple(point.model_copy(update=change(place, point)) for place, point in enumerate(of.points))
    return of.model_copy(update={"points": points})


def test_every_link_leads_somewhere(site: Path) -> None:
    """Links stay within the site, apart from those to commits and workflow runs; there is a page for each case and each run."""
    everything = pages(site)
    assert len(everything) == 1 + 9 + 41
    linked = set()
    for page in everything:
        for link in Page(page).links():
            if link.startswith(REPOSITORY) or link == "data:,":
                continue
            path, _, place = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), (page, link)
            assert not place or place in {attributes.get("id") for _, attributes in Page(target).found}, (page, link)
            linked.add(target)
    assert set(everything) <= linked


def test_names_are_text(site: Path) -> None:
    """Whatever a case, a commit, a machine or a link is called, no page gets an element, an attribute or a script of it."""
    for path in pages(site):
        page = Page(path)
        assert {tag for tag, _ in page.found} <= KNOWN, path
        assert not [name for _, attributes in page.found for name in attributes if name.startswith("on") or name == "style"]
        assert not [link for link in page.links() if link.startswith("javascript")]
        assert all(attributes.get("src") or "type" in attributes for tag, attributes in page.found if tag == "script")
        assert "script-src 'self' file:" in path.read_text(encoding="utf-8")
        if page.data:
            json.loads(page.data)
    shown = [path for path in pages(site) if "x</script><img src=x onerror=alert(1)>\"'{{7*7}}/a`<!--" in Page(path).text]
    assert len(shown) == 3  # the overview, its case and its run


def test_a_run_with_profiles_shows_them(site: Path) -> None:
    """The page of the case and that of the run say why, with the counters of both sides, and link to them from their tables."""
    case = Page(case_page(site, "attention/prefill_2k"))
    runs = [Page(site / "case" / link) for link in case.links() if link.startswith("../run/")]
    run = next(page for page in runs if "Registers per thread" in page.text)
    for page in (case, run):
        assert "Registers 128 → 255 and 1.2 MB of spills: occupancy halved." in page.text
        assert "Take a smaller tile, or fewer stages." in page.text
        assert "Registers per thread128255+99.2 %" in re.sub(r"\s*\n\s*", "", page.text)
        assert [link for link in page.links() if link.startswith("#profile-")]
    assert any("Profiles" not in page.text for page in runs)


def test_profiles_of_changes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a case shows so many profiles; that of a lasting change is among them, however many later ones there are."""
    monkeypatch.setattr("ratchet.history.site_pages.LISTED_PROFILES", 3)
    of = series()
    kept = of.points[-10].case.profile
    assert kept
    last = len(of.points) - 10
    many = remade(of, lambda place, one: {"case": one.case.model_copy(update={"profile": kept})} if place >= last else {})
    page = Site("t", "m").case(summary_of(many, "cuda"), many)
    assert page.count("<details") == 3
    assert len(re.findall("its profile", page)) == 1


def test_the_overview_stays_small() -> None:
    """With 50 cases it is below 500 KB: it shows the last 100 runs of a case, however many there are."""
    runs = runs_of(110, 50)
    summaries = []
    for number, name in enumerate(scenes.names(50)):
        one = series_of(name, [(run.commit, run, run.cases[number]) for run in runs])
        summaries.append(summary_of(one, "cuda"))
    page = Site("t", "110 runs.").overview(summaries, [SiteRun(run.commit, run) for run in runs[:-31:-1]])
    assert page.count("<polyline") == 50
    assert max(len(points.split()) for points in re.findall(r'points="([^"]*)"', page)) == 100
    assert len(page.encode()) < 250_000


def test_the_plot_has_the_change_and_its_levels() -> None:
    """Each column has one value a run; the step lies where it was planted, and the levels meet there."""
    of = series()
    summary = summary_of(of, "cuda")
    data = plot_data(summary, of.points)
    runs = len(of.points)
    columns = [data[name] for name in ("time", "commit", "subject", "page", "outcome", "kind", "change")]
    columns += [values for one in data["series"] for name, values in one.items() if name in ("values", "low", "high")]
    assert {len(column) for column in columns} == {runs}
    assert [change[0] for change in data["changes"]] == [runs - 10]
    assert [level[:2] for level in data["series"][0]["levels"]] == [[0, runs - 11], [runs - 10, runs - 1]]
    assert summary.changed_lately
    assert summary.changes[0].bisect.startswith("ratchet bisect attention/prefill_2k ")
    assert [one["name"] for one in data["series"]][:2] == ["time since the anchor", "change against the reference"]


@pytest.mark.slow
@pytest.mark.parametrize("age", [4, 5, 9, 30])
@pytest.mark.parametrize("size", [0.69, 0.06, -0.06])
def test_last_change_levels_and_since_anchor_agree(age: int, size: float) -> None:
    """Wherever a change is told, its size is that between the levels of the plot, and the last level is that of the last runs."""
    told = 0
    for seed in range(8):
        draw = Random(seed)
        of = series()
        steps = [size * (place >= len(of.points) - age) + draw.gauss(0, 0.002) for place in range(len(of.points))]
        noisy = remade(of, lambda place, _, steps=steps: {name: math.exp(steps[place] + off) for name, off in ENDS.items()})
        points, summary = noisy.points, summary_of(noisy, "cuda")
        assert summary.levels[-1].index == pytest.approx(statistics.median(_indexes(points, summary.levels[-1])), rel=0.004)
        for change, before, after in zip(summary.changes, summary.levels, summary.levels[1:], strict=False):
            assert change.level.ratio == pytest.approx(after.index / before.index)
            assert change.place == after.start
        if summary.changes:
            told += 1
            last = summary.changes[-1]
            assert last.level.ratio == pytest.approx(math.exp(size), rel=0.006)
            assert last.text == units.estimate(last.level.ratio, *last.level.interval)[0]
            assert last.level.interval[0] < last.level.ratio < last.level.interval[1]
            assert summary.line.since_anchor == units.change(points[-1].index or 0)
            assert points[-1].index == pytest.approx(summary.levels[-1].index, rel=0.01)
    assert told >= 4


def _indexes(points: Sequence[Point], level: Level) -> list[float]:
    return [point.index or 0 for point in points[level.start : level.end + 1]]


ENDS = {"low": -0.004, "index": 0.0, "high": 0.004}
"""Ends of a point's interval."""


def test_a_change_of_the_machine_is_not_blamed_on_a_commit() -> None:
    """Where another driver came with a change of the level, the page says so, and no commit is looked for."""
    of = series()
    seam = "Another machine or software (driver: 2 here, 1 there)."
    broken = remade(of, lambda place, _: {"seam": seam} if place == len(of.points) - 10 else {})
    summary = summary_of(broken, "cuda")
    assert summary.changes[0].bisect == ""
    page = Site("t", "m").case(summary, broken)
    assert f"Perhaps not the code: {seam}" in page
    assert "ratchet bisect" not in page


def test_a_segment_is_searched_by_itself() -> None:
    """A break that nothing bridges is no change, whatever the index does there, and no level crosses it."""

    def anew(place: int, point: Point) -> dict[str, Any]:
        return {"segment": 1, "index": 3 * (point.index or 1), "low": None, "high": None} if place >= 30 else {}

    of = series()
    summary = summary_of(remade(of.model_copy(update={"points": of.points[:50]}), anew), "cuda")
    assert summary.changes == ()
    assert [(level.start, level.end) for level in summary.levels] == [(0, 29), (30, 49)]


def test_without_anchors_there_are_pages_too(tmp_path: Path) -> None:
    """A case that was never timed, and one without an anchor, have a page each, without levels and changes."""
    bare = {"anchor": None, "reference": None, "share_of_roof": None, "peak_memory_bytes": None, "gb_s": None}
    runs = [
        run.model_copy(
            update={
                "cases": tuple(
                    case.model_copy(update=bare | ({"median_ms": None} if number else {}))
                    for number, case in enumerate(run.cases)
                )
            }
        )
        for run in runs_of(3, 2)
    ]
    written = write_site(scenes.write(tmp_path / "h", runs), tmp_path / "site", "t")
    assert (written.cases, written.runs) == (2, 3)
    timed, other = map(Page, sorted((tmp_path / "site" / "case").iterdir()))
    assert [one["name"] for one in json.loads(timed.data)["series"]] == ["time"]
    assert "It was never timed." in other.text
    assert not other.data


def test_figures_that_cannot_be() -> None:
    """Ratios and figures near the limits of a number give pages and valid JSON."""

    def extreme(place: int, point: Point) -> dict[str, Any]:
        value = 1e-300 if place % 2 else 1e300
        case = point.case.model_copy(update={"median_ms": value, "share_of_roof": 1e308, "gflops": value})
        return {"index": value, "low": 1e-308, "high": 1e308, "case": case}

    broken = remade(series(20), extreme)
    page = Site("t", "m").case(summary_of(broken, "cuda"), broken)
    assert "Infinity" not in page
    assert "NaN" not in page


def test_a_trend_does_not_cross_a_break() -> None:
    """The small plot shows one segment, since indexes of others do not compare; without any index it shows times."""
    of = series(30)
    for changed, shown_points in ((lambda place, _: {"segment": place // 25}, 5), (lambda *_: {"index": None}, 30)):
        assert len(summary_of(remade(of, changed), "cuda").trend.split()) == shown_points


def test_a_pass_in_doubt_is_not_green() -> None:
    """A run that passed with a muted regression, or a case without an answer, has a warning sign."""
    run = runs_of(1, 2)[0].model_copy(update={"verdict": "pass"})
    marks = []
    for outcome in (Outcome.UNCHANGED, Outcome.INCONCLUSIVE, Outcome.REGRESSED):
        cases = tuple(case.model_copy(update={"outcome": outcome}) for case in run.cases)
        marks.append(SiteRun("a.json", run.model_copy(update={"cases": cases})).mark)
    assert marks == ["✅", "⚠️", "⚠️"]


def test_writing_again(tmp_path: Path) -> None:
    """Pages of runs that are gone go too; files of others stay; somebody else's page is never overwritten."""
    folder = tmp_path / "site"
    write_site(scenes.write(tmp_path / "a", runs_of(5, 3)), folder, "t")
    (folder / "CNAME").write_text("example.org")
    (folder / "run" / "notes.html").write_text("mine")
    write_site(scenes.write(tmp_path / "b", runs_of(2, 1)), folder, "t")
    assert len(list((folder / "run").iterdir())) == 3
    assert len(list((folder / "case").iterdir())) == 1
    assert (folder / "CNAME").exists()
    (folder / "index.html").write_text("<h1>My page</h1>", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a page of ratchet"):
        write_site(scenes.write(tmp_path / "b", []), folder, "t")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_site(scenes.write(tmp_path / "b", []), tmp_path / "file" / "site", "t")


def test_the_library_has_its_licence(site: Path) -> None:
    """uPlot is the file of its release, and its licence travels with it."""
    assets = site / "assets"
    assert "uPlot (v1.6.32)" in (assets / "uPlot.iife.min.js").read_text(encoding="utf-8")[:80]
    assert "The MIT License" in (assets / "uPlot.LICENSE.txt").read_text(encoding="utf-8")


# In a browser.


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip(WITHOUT)
    with browser() as tab:
        yield tab


def shown(tab: Tab) -> list[str]:
    """The cases that the overview shows, in its order."""
    rows = "[...document.querySelectorAll('#cases tbody tr')].filter(row => !row.hidden)"
    listed: list[str] = tab.evaluate(f"{rows}.map(row => row.querySelector('a').textContent)")
    return listed


def test_search_filter_and_sort(site: Path, tab: Tab) -> None:
    """By keyboard alone: / and a word leave the cases with it, the arrow goes to the first, Enter opens it."""
    tab.resize(1280, 900)
    tab.open((site / "index.html").as_uri())
    assert len(shown(tab)) == 9
    assert shown(tab)[0] == "conv/rows_16k"  # the last case regressed in the last run
    tab.press("/")
    for key in "atten 4k":
        tab.press(key)
    assert shown(tab) == ["attention/rows_4k"]
    assert tab.evaluate("document.getElementById('count').textContent") == "1 of 9"
    tab.press("Escape")
    tab.choose("filter", "changed")
    assert "attention/prefill_2k" in shown(tab)
    assert "attention/small" not in shown(tab)
    tab.choose("filter", "bad")
    assert "conv/rows_16k" in shown(tab)
    tab.choose("filter", "")
    tab.evaluate("document.querySelectorAll('#cases th button')[0].click()")
    assert shown(tab)[:2] == ["attention/decode", "attention/prefill_2k"]
    tab.evaluate("document.querySelectorAll('#cases th button')[2].click()")
    times = tab.evaluate("[...document.querySelectorAll('#cases tbody tr')].map(row => +row.cells[2].dataset.sort)")
    assert times == sorted(times)
    assert len(times) == 9
    tab.press("/")
    for key in "rows_4k":
        tab.press(key)
    tab.press("ArrowDown")
    tab.press("Enter")
    tab.wait("document.querySelector('#chart canvas')")
    assert tab.evaluate("document.querySelector('h1').textContent") == "attention/rows_4k"
    assert tab.complaints() == []


def test_a_plot_by_keyboard(site: Path, tab: Tab) -> None:
    """The plot draws, shows another series, and the arrow keys choose a run, which Enter opens."""
    tab.resize(1280, 900, dark=True)
    tab.open(case_page(site, "attention/prefill_2k").as_uri())
    data = json.loads(Page(case_page(site, "attention/prefill_2k")).data)
    colours = (
        "new Set(new Uint32Array(document.querySelector('canvas').getContext('2d').getImageData(0, 0, 900, 400).data.buffer))"
    )
    assert tab.evaluate(f"{colours}.size") > 20
    chosen = "document.getElementById('run').textContent"
    assert data["commit"][-1] in tab.evaluate(chosen)
    tab.evaluate("document.getElementById('chart').focus()")
    tab.press("ArrowLeft")
    assert data["commit"][-2] in tab.evaluate(chosen)
    tab.press("Home")
    assert data["commit"][0] in tab.evaluate(chosen)
    for number, one in enumerate(data["series"]):
        tab.choose("series", str(number))
        assert one["name"] in tab.evaluate(chosen)
    tab.evaluate("document.getElementById('dates').click()")
    assert tab.evaluate(f"{colours}.size") > 20
    tab.evaluate("document.getElementById('chart').focus()")
    tab.press("Enter")
    tab.wait("document.title.startsWith('" + data["commit"][0] + "')")
    assert tab.complaints() == []


def test_a_link_to_a_profile_opens_it(site: Path, tab: Tab) -> None:
    """The profile of the latest run with one is open; a link to a closed one opens it."""
    tab.resize(1280, 900)
    tab.open(case_page(site, "attention/prefill_2k").as_uri())
    assert tab.evaluate("document.querySelector('details').open")
    tab.evaluate("document.querySelector('details').open = false")
    tab.evaluate("document.querySelector('a[href^=\"#profile-\"]').click()")
    tab.wait("document.querySelector('details').open")


def test_a_phone_and_the_dark(site: Path, tab: Tab) -> None:
    """No page scrolls sideways on a phone, and the dark one is dark."""
    run = sorted((site / "run").iterdir())[-1]
    hostile = [path for path in pages(site) if path.name.startswith("x-script")]
    for page in (site / "index.html", case_page(site, "attention/rows_4k"), run, *hostile):
        for dark in (False, True):
            tab.resize(390, 844, dark=dark)
            tab.open(page.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") == 390, page
            back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert tab.complaints() == []


@pytest.mark.no_cover
def test_hostile_names_in_a_browser(site: Path, tab: Tab) -> None:
    """No script of a name runs, no picture of one loads, and the name is read as it is; the policy of the page stops others."""
    tab.resize(1280, 900)
    hostile = [path for path in pages(site) if NASTY[:20] in Page(path).text]
    assert len(hostile) == 3
    for page in hostile:
        tab.open(page.as_uri())
        assert tab.evaluate("document.images.length") == 0
        assert tab.evaluate("document.body.textContent.includes('onerror=alert(1)')")
    assert tab.complaints() == []
    tab.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    assert tab.evaluate("window.ran") is None  # nor would a script that got in
