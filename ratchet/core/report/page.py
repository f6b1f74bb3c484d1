"""The report of a check as one page for a browser: ``results/report.html`` needs no network and no other file.

Every text that code under test may have written is escaped by jinja.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup

from ratchet import tools
from ratchet.core import units
from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord
from ratchet.core.report import words
from ratchet.core.report.markdown import commands_again, environment_of, machine
from ratchet.core.untrusted import clean

MOST_CASES = 200
"""Cases that a page shows, the worst first: more would load slowly, and nobody reads them."""
WIDTH, ROW, MARGIN = 560.0, 7.0, 24.0
"""Sizes of a plot, in its own units: its width, the height of a pair, and what is left free at each side."""
LABEL = 160.0
"""Room that the longest label of an axis takes on a phone, where letters are larger beside the plot."""
LEAST_SPAN = 0.01
"""A plot shows at least so much to both sides of no change, so that noise of a tenth of a per cent looks small."""


@dataclass(frozen=True)
class PairPlot:
    """Where everything of a plot lies: each pair's ratio is a dot, the first pair on top."""

    height: float
    dots: tuple[tuple[float, float, str], ...]
    """x, y and the words of each."""
    same: float
    """x of no change."""
    same_anchor: str
    gates: tuple[tuple[float, str, str], ...]
    """x, name and alignment of the gate and of the improvement threshold, where they are in sight."""
    interval: tuple[float, float] | None
    ends: tuple[tuple[float, str, str], ...]
    """x, words and alignment of the ends of the axis, where there is room beside the middle's."""


@dataclass(frozen=True)
class ForestRow:
    """A case of the forest plot: where its interval and its estimate lie, in percent of the width."""

    case: CaseVerdict
    low: float
    high: float
    ratio: float
    gate: float


@dataclass(frozen=True)
class Forest:
    """The plot of all cases that were compared, on one logarithmic axis."""

    rows: tuple[ForestRow, ...]
    same: float
    """Where no change is, in percent of the width."""


@dataclass(frozen=True)
class PageCase:
    """A case with what only the page shows of it."""

    case: CaseVerdict
    plot: PairPlot | None
    profile: CaseProfile | None
    picture: str = ""
    """The profile's picture as a data URL."""

    @property
    def is_open(self) -> bool:
        """Return whether its details are shown from the start."""
        return self.case.outcome not in (Outcome.IDENTICAL, Outcome.UNCHANGED, Outcome.SKIPPED, Outcome.MEASURED)


def render_page(report: ReportRecord, ratios: Mapping[str, Sequence[float]] = {}, pictures: Mapping[str, bytes] = {}) -> str:
    """Return the page as HTML.

    ``ratios``: case → head time / reference time of each pair, in the order in which they were taken. ``pictures``: case → the
    PNG picture of its profile.
    """
    listed = words.worst_first(report)
    profiles = {one.case: one for one in report.profiles}
    shown = [
        PageCase(
            case,
            pair_plot(ratios.get(case.name, ()), case.comparison, report.policy.of_case(case.name)),
            profiles.get(case.name),
            f"data:image/png;base64,{base64.b64encode(pictures[case.name]).decode()}" if case.name in pictures else "",
        )
        for case in listed[:MOST_CASES]
    ]
    return html_template("page.html.j2").render(
        report=report,
        mark=words.mark(report),
        headline=tools.part("profile_text").headline(report),
        compares=words.compares(report),
        counted=words.counted(report),
        cases=shown,
        forest=forest_plot([one.case for one in shown], report),
        hidden=len(listed) - len(shown),
        machine=machine(report.environment.fingerprint),
        again=commands_again(report, listed),
    )


def forest_plot(cases: Sequence[CaseVerdict], report: ReportRecord) -> Forest | None:
    """Return the plot of the cases that were compared, in this order; None for fewer than two, since each has one of its own."""
    compared = [(case, case.comparison) for case in cases if case.comparison]
    if len(compared) < 2:
        return None
    gates = [1 + report.policy.of_case(case.name).regression for case, _ in compared]
    ends = [*gates, 1 - LEAST_SPAN, *(end for _, one in compared for end in (one.low, one.high, one.ratio))]
    low, high = math.log(min(ends)), math.log(max(ends))

    def at(ratio: float) -> float:
        return round(2 + 96 * (math.log(ratio) - low) / (high - low), 2)

    rows = (
        ForestRow(case, at(one.low), at(one.high), at(one.ratio), at(gate))
        for (case, one), gate in zip(compared, gates, strict=True)
    )
    return Forest(tuple(rows), at(1.0))


def pair_plot(ratios: Sequence[float], comparison: Comparison | None, policy: Policy) -> PairPlot | None:
    """Return the plot of a case's pairs on a logarithmic axis; None where there is nothing to show."""
    if not ratios:
        return None
    marks = [*ratios, 1 + LEAST_SPAN, 1 / (1 + LEAST_SPAN)]
    marks += [comparison.low, comparison.high] if comparison else []
    low, high = math.log(min(marks)), math.log(max(marks))

    def at(ratio: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (math.log(ratio) - low) / (high - low), 1)

    thresholds = [(1 + policy.regression, "gate"), (1 - policy.improvement, "improvement")]
    if abs(at(thresholds[0][0]) - at(thresholds[1][0])) < LABEL:
        thresholds.pop()  # their labels would overlap, and the gate is what counts
    return PairPlot(
        height=ROW * len(ratios),
        dots=tuple(
            (at(ratio), ROW * (number + 0.5), f"pair {number + 1}: {units.change(ratio, 1)}")
            for number, ratio in enumerate(ratios)
        ),
        same=at(1.0),
        same_anchor=_anchor(at(1.0)),
        gates=tuple(
            (at(ratio), f"{name} {units.change(ratio, 1)}", _anchor(at(ratio)))
            for ratio, name in thresholds
            if low <= math.log(ratio) <= high
        ),
        interval=(at(comparison.low), at(comparison.high)) if comparison else None,
        ends=tuple(
            (at(ratio), units.change(ratio, 1), "start" if ratio < 1 else "end")
            for ratio in (math.exp(low), math.exp(high))
            if abs(at(ratio) - at(1.0)) > LABEL
        ),
    )


def _anchor(x: float) -> str:
    """Return the alignment of a label at ``x`` that keeps it within the plot."""
    return "start" if x < LABEL / 2 else "end" if x > WIDTH - LABEL / 2 else "middle"


def dot(mark: str) -> Markup:
    """Return a coloured dot in the place of a mark: not every machine has a font with emoji."""
    return Markup('<span class="mark {}"></span>').format(_COLOURS.get(mark, "none"))


_COLOURS = {"❌": "REGRESSED", "🟠": "UNFIT", "⚠️": "UNFIT", "❔": "UNFIT", "✅": "IMPROVED"}
"""Mark → the class of its colour."""


def whole(text: str) -> Markup:
    """Return escaped text in which no line begins with a percent sign or breaks an option."""
    unbroken = re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text)
    option = Markup('<span class="number">{}</span>')
    return Markup("").join(
        option.format(part) if part.startswith("--") else part for part in re.split(r"(--[a-z][a-z-]*)", unbroken)
    )


def _tree(code: Tree) -> str:
    subject = f" “{clean(code.subject, 100)}”" if code.subject else ""
    return f"{code.commit[:10]}{subject}{' + uncommitted changes' if code.dirty else ''}"


def html_template(name: str) -> jinja2.Template:
    """Return a template of a page; it escapes whatever it prints, and a value that is no text is cleaned too."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = environment_of(autoescape=True, finalize=lambda value: value if isinstance(value, str) else clean(value, 4000))
    environment.filters |= {
        "clean": clean,
        "dot": dot,
        "whole": whole,
        "tree": _tree,
        "word": words.word,
        "reason": words.reason,
        "times": words.times,
        "change": lambda case: words.change(case.comparison),
        "interval": lambda case: words.interval(case.comparison),
        "counters": tools.part("profile_text").tables,
        "date": lambda at: at.strftime("%Y-%m-%d %H:%M"),
        "day": lambda at: at.strftime("%Y-%m-%d"),
    }
    environment.globals |= {"width": WIDTH}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment
