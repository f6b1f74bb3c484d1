"""The pages of `ratchet history --html`: an overview, a page for each case with its whole series, and a page for each run.

`ratchet.history.site` writes them as files that a folder or GitHub Pages serves. Every page is complete without scripts; one
script adds search, sorting and the plot, whose data lie in the page of the case. Every text that code under test may have written
is cleaned and escaped in the templates. Pure, apart from reading the templates of this package.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ratchet.core import units
from ratchet.core.records.run import OVERHEADS, GateName
from ratchet.core.records.verdict import Outcome
from ratchet.core.report import words
from ratchet.core.report.markdown import is_plain, machine
from ratchet.core.report.page import html_template
from ratchet.core.untrusted import clean, web_address
from ratchet.history.changes import FEWEST_RUNS, NORMAL, ChangePoint, change_points, level_of
from ratchet.history.records import HistoryCase, HistoryRun, Point, Series

LISTED_RUNS, LISTED_PROFILES = 30, 10
"""Runs that the overview and the page of a case list, and profiles on the page of a case; its plot has all runs."""
TREND_RUNS, TREND_WIDTH, TREND_HEIGHT = 100, 100.0, 20.0
"""Runs that the small plot of a case shows, and its size in its own units."""
LEAST_TREND = 0.02
"""It shows at least so much from bottom to top, so that noise looks flat."""
LATELY = 20
"""A change within so many of the latest runs of a case counts as a late one."""
_MARKS = {"pass": "✅", "regression": "❌", "not measured": "⚠️"}
_KINDS = {
    **dict.fromkeys((Outcome.FAILED, Outcome.REGRESSED), "bad"),
    **dict.fromkeys(words.NO_ANSWER, "unsure"),
    Outcome.IMPROVED: "good",
}
_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}


@dataclass(frozen=True)
class SiteRun:
    """A run of the history and the name of its file."""

    name: str
    run: HistoryRun

    @property
    def path(self) -> str:
        """Its page within the site."""
        return run_path(self.name)

    @property
    def mark(self) -> str:
        """The sign before its headline; a pass with a case that is muted, accepted or without an answer gets no green one."""
        in_doubt = any(_KINDS.get(case.outcome) in ("bad", "unsure") for case in self.run.cases)
        return "⚠️" if in_doubt and self.run.verdict == "pass" else _MARKS[self.run.verdict]

    @property
    def hardware(self) -> str:
        return self.run.fingerprint.processor


@dataclass(frozen=True)
class CaseLine:
    """A case in one run, as text."""

    case: HistoryCase
    index: float | None = None
    path: str = ""
    """The page of the case; empty where it has none."""

    @property
    def kind(self) -> str:
        return _KINDS.get(self.case.outcome, "")

    @property
    def word(self) -> words.Word:
        return words.WORDS[self.case.outcome]

    @property
    def change(self) -> str:
        other = self.case.reference
        if other and other.pairs:
            return units.estimate(other.ratio, other.low, other.high)[0]
        return units.change(other.ratio) if other else words.NOTHING

    @property
    def interval(self) -> str:
        other = self.case.reference
        return units.estimate(other.ratio, other.low, other.high)[1] if other and other.pairs else ""

    @property
    def since_anchor(self) -> str:
        return units.change(self.index) if self.index else words.NOTHING

    @property
    def time(self) -> str:
        return units.duration(self.case.median_ms / 1e3) if self.case.median_ms else words.NOTHING

    @property
    def roof(self) -> str:
        return words.share_of_roof(self.case.share_of_roof)

    @property
    def memory(self) -> str:
        return units.size(self.case.peak_memory_bytes) if self.case.peak_memory_bytes is not None else words.NOTHING


@dataclass(frozen=True)
class LastingChange:
    """A lasting change of the level of a case."""

    case: str
    place: int
    """Of the first point at the new level, in the whole series."""
    level: ChangePoint
    good: Point
    point: Point
    """The first one at the new level, as far as can be said; the change lies between ``good`` and ``bad``."""
    bad: Point
    seam: str
    """Why the series breaks there, if it does: then no commit need be the reason."""
    profiled: Point | None
    """The first run after ``good``, up to ``bad``, that has a profile."""

    @property
    def is_slower(self) -> bool:
        return self.level.ratio > 1

    @property
    def text(self) -> str:
        return units.estimate(self.level.ratio, *self.level.interval)[0]

    @property
    def interval(self) -> str:
        return units.estimate(self.level.ratio, *self.level.interval)[1]

    @property
    def bisect(self) -> str:
        """The command that looks for the commit of a slowdown; empty where none need be, or a name is not one plain word."""
        plain = self.is_slower and is_plain(self.case) and not self.seam
        return f"ratchet bisect {self.case} {self.good.commit[:10]} {self.bad.commit[:10]}" if plain else ""


@dataclass(frozen=True)
class Level:
    """A stretch of a series without a change, and its mean."""

    start: int
    end: int
    index: float


@dataclass(frozen=True)
class CaseSummary:
    """One case on one kind of hardware: its latest run, and what its series shows; without the series, which is long."""

    name: str
    hardware: str
    """For people; two kinds that differ in more than this have a page each."""
    path: str
    """Its page within the site."""
    last: Point
    runs: int
    changes: tuple[LastingChange, ...]
    levels: tuple[Level, ...]
    trend: str
    """Points of a small plot, the latest at the right; empty where there are fewer than two."""

    @property
    def line(self) -> CaseLine:
        return CaseLine(self.last.case, self.last.index, self.path)

    @property
    def changed_lately(self) -> bool:
        """Return whether its level changed within the latest runs."""
        return bool(self.changes) and self.changes[-1].place >= self.runs - LATELY


def summary_of(series: Series, hardware: str) -> CaseSummary:
    """Return what a series shows; it has one point at least. ``hardware``: `Fingerprint.hardware`."""
    changes, levels = _changes(series)
    last = series.points[-1]
    indexes = [point.index for point in series.points if point.index and point.segment == last.segment]
    recent = (indexes or [point.case.median_ms for point in series.points if point.case.median_ms])[-TREND_RUNS:]
    return CaseSummary(
        name=series.case,
        hardware=series.hardware,
        path=f"case/{_slug(series.case, hardware)}.html",
        last=last,
        runs=series.runs,
        changes=tuple(changes),
        levels=tuple(levels),
        trend=_trend(recent),
    )


def _changes(series: Series) -> tuple[list[LastingChange], list[Level]]:
    """Return the changes of level, and the stretches between them; each segment by itself, since others do not compare.

    A segment that is too short to be searched has neither.
    """
    changes: list[LastingChange] = []
    levels: list[Level] = []
    for segment in dict.fromkeys(point.segment for point in series.points):
        known = [(place, point) for place, point in enumerate(series.points) if point.segment == segment and point.index]
        if len(known) < FEWEST_RUNS:
            continue
        values = [math.log(point.index or 1) for _, point in known]
        widths = [math.log(point.high) - math.log(point.low) if point.low and point.high else 0.0 for _, point in known]
        found = change_points(values, [abs(width) / (2 * NORMAL) for width in widths])
        for each in found:
            good, point, bad = (known[number][1] for number in (each.earliest - 1, each.index, each.latest))
            seam = next((point.seam for _, point in known[each.earliest : each.latest + 1] if point.seam), "")
            profiled = next((point for _, point in known[each.earliest : each.latest + 1] if point.case.profile), None)
            changes.append(LastingChange(series.case, known[each.index][0], each, good, point, bad, seam, profiled))
        cuts = [0, *(each.index for each in found), len(known)]
        means = [*(each.before for each in found), *(each.after for each in found[-1:])] or [level_of(values)]
        levels += [
            Level(known[start][0], known[end - 1][0], math.exp(mean))
            for (start, end), mean in zip(pairwise(cuts), means, strict=True)
        ]
    return changes, levels


def _trend(values: Sequence[float]) -> str:
    if len(values) < 2:
        return ""
    low, high = math.log(min(values)), math.log(max(values))
    middle, span = (low + high) / 2, max(high - low, LEAST_TREND)
    return " ".join(
        f"{TREND_WIDTH * number / (len(values) - 1):.4g},{TREND_HEIGHT * (0.5 - (math.log(value) - middle) / span * 0.9):.3g}"
        for number, value in enumerate(values)
    )


class Site:
    """Renders the pages; all of them show where the commits are and when they were written."""

    def __init__(self, title: str, made: str, repository: str = "") -> None:
        """``made``: when and from what it was written. ``repository``: its address on the web; empty: commits are no links."""
        self._usual = {"site_title": title, "made": made, "commits": f"{web_address(repository)}/commit/" if repository else ""}

    def overview(self, cases: Iterable[CaseSummary], runs: Sequence[SiteRun]) -> str:
        """Return ``index.html``, with the worst cases first. ``runs``: the latest ones, newest first; at least one."""
        ordered = sorted(cases, key=lambda case: (_RANK[case.last.case.outcome], case.name, case.hardware))
        return html_template("history/site_overview.html.j2").render(
            **self._usual,
            up="",
            cases=ordered,
            runs=runs,
            newest={one.hardware: one.name for one in reversed(runs)},
            machines=sorted({case.hardware for case in ordered}),
            rank=_RANK,
            width=TREND_WIDTH,
            height=TREND_HEIGHT,
        )

    def case(self, case: CaseSummary, series: Series) -> str:
        """Return the page of a case."""
        return html_template("history/site_case.html.j2").render(
            **self._usual,
            up="../",
            case=case,
            seams=[point for point in reversed(series.points) if point.seam],
            newest=[(point, CaseLine(point.case, point.index)) for point in series.points[: -LISTED_RUNS - 1 : -1]],
            profiled=_profiled(case, series.points),
            data=plot_data(case, series.points),
            run_path=run_path,
            profile_id=_profile_id,
        )

    def run(self, one: SiteRun, lines: Iterable[CaseLine], earlier: str = "", later: str = "") -> str:
        """Return the page of a run. ``earlier`` and ``later``: names of its neighbours in time."""
        return html_template("history/site_run.html.j2").render(
            **self._usual,
            up="../",
            one=one,
            lines=sorted(lines, key=lambda line: _RANK[line.case.outcome]),
            earlier=earlier and run_path(earlier),
            later=later and run_path(later),
            url=web_address(one.run.url or ""),
            machine=machine(one.run.fingerprint),
            profile_id=_profile_id,
        )


def _profiled(case: CaseSummary, points: Sequence[Point]) -> list[Point]:
    """Return the runs whose profiles the page of a case shows, newest first: those of its changes before others."""
    of_changes = [change.profiled for change in reversed(case.changes) if change.profiled]
    others = [point for point in reversed(points) if point.case.profile]
    chosen = list({point.run: point for point in (*of_changes, *others)}.values())[:LISTED_PROFILES]
    return sorted(chosen, key=lambda point: (point.started_at, point.run), reverse=True)


# The data of the plot of a case.


def plot_data(case: CaseSummary, points: Sequence[Point]) -> dict[str, Any]:
    """Return what `assets/site.js` draws: columns with one value a run, oldest first."""
    lines = [CaseLine(point.case, point.index) for point in points]
    others = [point.case.reference for point in points]
    columns: list[tuple[str, Callable[[HistoryCase], float | None], str, float]] = [
        ("time", lambda one: one.median_ms, *_scale([one.case.median_ms for one in points], _TIMES)),
        ("peak memory", lambda one: one.peak_memory_bytes, *_scale([one.case.peak_memory_bytes for one in points], _SIZES)),
        ("TFLOP/s", lambda one: one.gflops or None, "", 1e-3),
        ("GB/s", lambda one: one.gb_s or None, "", 1.0),
        ("share of the roof, %", lambda one: one.share_of_roof, "", 100.0),
        *map(_taken, dict.fromkeys(name for point in points for name in point.case.takes)),
    ]
    series: list[dict[str, Any]] = []
    if any(point.index for point in points):
        ends = {name: [_percent(getattr(point, name)) for point in points] for name in ("index", "low", "high")}
        levels = [[level.start, level.end, _percent(level.index)] for level in case.levels]
        series.append({"name": "time since the anchor", "unit": "%", "values": ends.pop("index"), "levels": levels, **ends})
    if any(others):
        ends = {
            name: [_percent(getattr(other, name) if other else None) for other in others] for name in ("ratio", "low", "high")
        }
        series.append({"name": "change against the reference", "unit": "%", "values": ends.pop("ratio"), **ends})
    for name, value_of, unit, factor in columns:
        values = [value_of(point.case) for point in points]
        if any(value is not None for value in values):
            shown = [None if value is None else float(f"{min(value * factor, _LARGEST):.5g}") for value in values]
            series.append({"name": name, "unit": unit, "values": shown})
    return {
        "time": [int(point.started_at.timestamp()) for point in points],
        "commit": [point.commit[:10] for point in points],
        "subject": [clean(point.subject, 80) for point in points],
        "page": [f"../{run_path(point.run)}" for point in points],
        "outcome": [line.word.text for line in lines],
        "kind": [line.kind for line in lines],
        "change": [f"{line.change} {line.interval}".strip() for line in lines],
        "series": series,
        "changes": [[change.place, change.text, change.is_slower] for change in case.changes],
        "seams": [place for place, point in enumerate(points) if point.seam],
    }


def _taken(name: GateName) -> tuple[str, Callable[[HistoryCase], float | None], str, float]:
    """Return the column of one figure that a gate knows."""
    unit, factor = ("ms", 1e3) if name in OVERHEADS else ("B", 1.0) if name in ("code_size", "spills") else ("", 1.0)
    return name.replace("_", " "), lambda one: one.takes.get(name), unit, factor


_TIMES = ((1.0, "ms"), (1e3, "µs"), (1e6, "ns"))
"""Of a value in milliseconds: factor and unit, the largest unit first."""
_LARGEST = 1e15
"""A larger figure is no measurement, and infinity is no JSON."""
_SIZES = ((2.0**-30, "GiB"), (2.0**-20, "MiB"), (2.0**-10, "KiB"), (1.0, "B"))


def _scale(values: Sequence[float | None], scales: Sequence[tuple[float, str]]) -> tuple[str, float]:
    """Return the unit and the factor with which the largest value is at least 1."""
    largest = max((value for value in values if value is not None), default=1.0)
    factor, unit = next((each for each in scales if largest * each[0] >= 1), scales[-1])
    return unit, factor


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(min(100 * (ratio - 1), _LARGEST), 2)


# Paths within the site.


def run_path(name: str) -> str:
    """Return the page of a run within the site."""
    return f"run/{_slug(name.rpartition('/')[2].removesuffix('.json'), name)}.html"


def _profile_id(name: str) -> str:
    """Return where a profile stands within its page; ``name``: of its run on the page of a case, and the other way round."""
    return f"profile-{_slug(name)}"


def _slug(*names: str) -> str:
    """Return a file name for these names: no other names have it, and neither a system nor a server reads more into it."""
    shown = re.sub(r"[^A-Za-z0-9]+", "-", names[0])[:60].strip("-")
    return f"{shown}-{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:10]}"
