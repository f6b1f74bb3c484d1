"""One page that shows why a case changed: PNG for a pull request, SVG for everything else.

`ratchet.explain.results` writes `page_figure` into these two files. Sentences and tables come from
`ratchet.explain.report`; bars show the profiles of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from ratchet import figure_style as style
from ratchet.common.launch_pairs import Match, matched
from ratchet.common.rooflines import Roofline
from ratchet.core.records.environment import Environment
from ratchet.core.records.profile import Activity, CaseProfile, Effect, KernelProfile
from ratchet.core.records.run import SIDES, Side, Tree
from ratchet.core.records.verdict import CaseVerdict, Outcome
from ratchet.core.report import words
from ratchet.core.report.words import NOTHING
from ratchet.explain.report import FigureRow, activity_rows, counter_rows, findings_of, limiter_row, unexplained
from ratchet.explain.roofline_figure import sides_sections
from ratchet.figure_style import BODY, FAINT, HEADING, NOTE, TITLE, FigureSection, TextLine, lines_of, text_section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNCHANGED = 0.02
"""Durations that differ by less have not changed."""
MOST_STALLS, MOST_TIMES = 6, 7
LONG_S = 0.01
"""Times of a call are in ms where the longest takes this long."""
FACTS = ("duration_s", "dram_bytes", "registers", "shared_bytes", "spill_bytes")
"""Figures of `KernelProfile` in the table below the bars."""
THROUGHPUT: dict[str, Callable[[KernelProfile], float | None]] = {
    "Multiprocessors (SM)": attrgetter("sm_percent"),
    "Memory": attrgetter("memory_percent"),
    "DRAM": attrgetter("dram_percent"),
    "L2 cache": lambda kernel: kernel.metrics.get("lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    "Matrix units": attrgetter("tensor_percent"),
    "L2 hits": attrgetter("l2_hit_percent"),
}
OCCUPANCY = {"Occupancy achieved": attrgetter("occupancy_percent"), "Occupancy allowed": attrgetter("occupancy_limit_percent")}
"""Bars in percent: of the peak that each part of the GPU can sustain, and of the warps that fit."""


@dataclass(frozen=True)
class Bar:
    """One quantity of both sides; None where a side does not have it."""

    label: str
    reference: float | None
    head: float | None
    unit: str = "%"


def _bar(launch: Match, label: str, value: Callable[[KernelProfile], float | None], unit: str = "%") -> Bar:
    head, reference = (value(kernel) if kernel else None for kernel in launch)
    return Bar(label, reference, head, unit)


def heaviest(every: Sequence[Match], direction: Effect | None = None) -> Match | None:
    """Return the launch that changed most in the direction of its case (None: in any); where none changed, the longest."""

    def weight(launch: Match) -> tuple[bool, float]:
        after, before = (kernel.duration_s or 0.0 if kernel else 0.0 for kernel in launch)
        change = {"slower": after - before, "faster": before - after}.get(direction or "", abs(after - before))
        changed = change > _UNCHANGED * max(before, after)
        return changed, change if changed else max(before, after)

    return max(every, key=weight, default=None)


def stalls(launch: Match) -> list[Bar]:
    """Return the reasons for which warps waited longest on either side, in cycles."""

    def bar(name: str) -> Bar:
        return _bar(launch, name.replace("_", " "), lambda kernel: kernel.stalls.get(name), "cycles")

    names = {name for kernel in launch if kernel for name in kernel.stalls} - {"selected"}  # the cycle in which a warp issues
    return _longest([bar(name) for name in sorted(names)], MOST_STALLS)


def times(before: Activity | None, after: Activity | None, seconds: Callable[[Activity], dict[str, float]]) -> list[Bar]:
    """Return the kernels, operators or API calls that took longest on either side, in µs or ms of one call."""
    reference, head = (
        {name: took_s / max(side.calls, 1) for name, took_s in seconds(side).items()} if side else None
        for side in (before, after)
    )
    names = sorted({*(reference or {}), *(head or {})})
    longest_s = max((side[name] for side in (reference, head) if side for name in side), default=0.0)
    unit, factor = ("ms", 1e3) if longest_s >= LONG_S else ("µs", 1e6)

    def time(side: Mapping[str, float] | None, name: str) -> float | None:
        return None if side is None else factor * side.get(name, 0.0)

    return _longest([Bar(name, time(reference, name), time(head, name), unit) for name in names], MOST_TIMES)


def _longest(bars: Sequence[Bar], most: int) -> list[Bar]:
    return sorted(bars, key=lambda bar: -max(bar.reference or 0.0, bar.head or 0.0))[:most]


# The picture.

_INK = {"reference": style.REFERENCE, "head": style.HEAD}
_COLOURS = {Outcome.REGRESSED: "#b5300f", Outcome.FAILED: "#b5300f", Outcome.IMPROVED: "#00724f"}
_TOOLS = {"ncu": "Nsight Compute", "nsys": "Nsight Systems", "torch": "torch.profiler"}
_TRACK = "#f2f2f2"


def page_figure(
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    roofline: Roofline | None,
    environment: Environment | None = None,
    when: datetime | None = None,
) -> Figure:
    """Draw the whole page, within `style.drawing`. It says which numbers a profile lacks."""
    sides = tuple(side for side in SIDES if getattr(profile, side) is not None) or SIDES
    launches = matched(profile.head, profile.reference)
    launch = heaviest(launches, profile.direction)
    before, after = (side.activity if side else None for side in (profile.reference, profile.head))
    sections = [_head(profile, verdict, sides, _kernel(launches, launch))]
    if launch is not None:
        facts = [limiter_row(*launch), *counter_rows(*launch, FACTS)]
        busy, warps = ([_bar(launch, *figure) for figure in figures.items()] for figures in (THROUGHPUT, OCCUPANCY))
        sections += [
            *_bars("Throughput", "of the peak that can be sustained", busy, sides, 100.0),
            *_bars("What warps wait for", "cycles between two instructions of a warp", stalls(launch), sides),
            *_bars("Occupancy", "of the warps that fit", warps, sides, 100.0),
            _table(facts, sides),
        ]
    elif before or after:
        host = [*activity_rows(after, before)]
        on_gpu = any(activity and activity.launches for activity in (before, after))
        kernels = times(before, after, lambda activity: activity.kernels)
        calls = times(before, after, lambda activity: activity.cpu_s)
        sections += [
            *_bars("Kernels" if on_gpu else "Operators", "time of one call", kernels, sides),
            *(_bars("On the CPU", "time of one call", calls, sides) if on_gpu else ()),  # else they are the same
            *((_heading("Launches, gaps, copies", "of one call"), _table(host, sides)) if host else ()),
        ]
    else:
        sections += [_heading("No profile", "neither side could be profiled")]
    sections += [_heading("Roofline"), *sides_sections(roofline), _findings(profile)]
    sections += [text_section(lines_of(_environment(profile, environment, when), NOTE))]
    return style.stacked(sections)


def _head(profile: CaseProfile, verdict: CaseVerdict | None, sides: Sequence[Side], kernel: str) -> FigureSection:
    """Show case and outcome, both commits in the colours of their sides, and the kernel of the page."""
    lines = lines_of(profile.case, TITLE, most=2)
    if verdict is not None:
        compared = verdict.comparison
        outcome = "" if verdict.outcome is Outcome.MEASURED else words.word(verdict).text.upper()
        change = f"{outcome} {words.change(compared)}" if compared else outcome
        lines += lines_of(change, replace(TITLE, colour=_COLOURS.get(verdict.outcome, style.INK)), most=1)
        times = " → ".join(words.time(side) for side in (verdict.reference, verdict.head) if side)
        lines += lines_of(" · ".join(filter(None, (times, f"{words.interval(compared)} %" if compared else ""))))
    for side in sides:
        tree: Tree | None = profile.head_tree if side == "head" else profile.reference_tree
        changed = " + uncommitted changes" if tree and tree.dirty else ""
        commit = f"{tree.commit[:10]}{changed} {tree.subject}" if tree else ""
        lines += lines_of(f"■ {side} {commit}", replace(BODY, colour=_INK[side]), most=2)
    return text_section([*lines, *lines_of(kernel, NOTE, most=4)])


def _kernel(launches: Sequence[Match], launch: Match | None) -> str:
    """Name the kernel that is shown, and the others."""
    if launch is None:
        return ""
    names = [next(kernel for kernel in pair if kernel) for pair in launches if pair is not launch]
    others = list(dict.fromkeys(kernel.function for kernel in names))
    shown = next(kernel for kernel in launch if kernel)
    parts = [f"kernel {style.drawable(shown.name, 110 if others else 300)}"]
    if None in launch:
        parts.append(f"only in the {'head' if launch[0] else 'reference'}")
    if others:
        parts.append(f"{len(names)} other launch{'' if len(names) == 1 else 'es'}: {', '.join(others)}")
    return " · ".join(parts)


def _heading(title: str, explanation: str = "") -> FigureSection:
    return text_section([TextLine(title, HEADING), *lines_of(explanation, NOTE)], above=0.14)


def _bars(title: str, explanation: str, bars: Sequence[Bar], sides: Sequence[Side], full: float = 0.0) -> list[FigureSection]:
    """Draw a heading, and pairs of bars with their numbers, reference above head; ``full`` is the least length of the axis."""
    if not bars:
        return [_heading(title, "not in the report")]
    full = max([full, *(value for bar in bars for value in (bar.reference, bar.head) if value is not None)]) or 1.0
    thick = 0.8 / len(sides)

    def draw(axes: Axes) -> None:
        for place, side in enumerate(sides):
            rows = [row + (place - (len(sides) - 1) / 2) * thick for row in range(len(bars))]
            values = [bar.head if side == "head" else bar.reference for bar in bars]
            texts = [
                NOTHING if value is None else f"{_number(value)} {bar.unit}" for bar, value in zip(bars, values, strict=True)
            ]
            axes.barh(rows, full, thick * 0.86, color=_TRACK)
            drawn = axes.barh(rows, [value or 0.0 for value in values], thick * 0.86, color=_INK[side])
            axes.bar_label(drawn, texts, padding=4, size=style.SMALL, color=_INK[side])
        axes.set_xlim(0, full)
        style.bar_axes(axes, [bar.label for bar in bars])

    height = 0.04 + (0.35 if len(sides) == 2 else 0.26) * len(bars)
    return [_heading(title, explanation), (height, lambda part: draw(part.subplots()))]


def _number(value: float) -> str:
    """Format three digits: 0.45, 41.3, 1204; nothing finer than a hundredth."""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def _table(facts: Sequence[FigureRow], sides: Sequence[Side]) -> FigureSection:
    """Draw a table without lines; the head is bold where it differs from the reference."""
    from matplotlib.transforms import Bbox

    widths = [0.44, *(0.56 / len(sides) for _ in sides)]

    def draw(axes: Axes) -> None:
        texts = [[fact.title, *(fact.head if side == "head" else fact.reference for side in sides)] for fact in facts]
        cells = [
            [style.shortened(text, BODY.points, width * 0.9 * style.ROOM) for text, width in zip(row, widths, strict=True)]
            for row in texts
        ]
        table = axes.table(cells, colWidths=widths, cellLoc="left", bbox=Bbox.unit(), edges="open")
        table.auto_set_font_size(value=False)
        table.set_fontsize(BODY.points)
        for (row, column), cell in table.get_celld().items():
            cell.PAD = 0
            if column:
                differs = len(sides) == 2 and facts[row].reference != facts[row].head
                bold = differs and sides[column - 1] == "head"
                cell.get_text().set(color=_INK[sides[column - 1]], weight="bold" if bold else "normal")
        axes.set_axis_off()

    return (0.2 * len(facts) + 0.1, lambda part: draw(part.subplots()))


def _findings(profile: CaseProfile) -> FigureSection:
    """Show the findings, the likeliest first, and what is missing."""
    lines = [TextLine("What the profiles show", HEADING)]
    for number, finding in enumerate(findings_of(profile), 1):
        lines += lines_of(f"{number}. {finding.what}", style.STRONG, most=3)
        lines += lines_of(f"{finding.why} {finding.advice} ({finding.confidence} confidence)", FAINT, most=5)
    if not profile.findings:
        lines += lines_of("nothing that stands out", FAINT)
    failed = [f"The {side} has no profile: {why}" for side, why in sorted(profile.failed.items())]
    for sentence in (unexplained(profile), *[*profile.steps_down, *failed][:4]):
        lines += lines_of(sentence, NOTE)
    return text_section(lines, above=0.14)


def _environment(profile: CaseProfile, environment: Environment | None, when: datetime | None) -> str:
    """Name GPU, driver, tools and date."""
    machine = environment.fingerprint if environment else None
    profiled = [side for side in (profile.head, profile.reference) if side]
    names = [machine.processor] if machine else [side.gpu for side in profiled if side.gpu]
    parts = [
        *names[:1],
        f"driver {machine.driver}" if machine and machine.driver else "",
        machine.toolkit if machine else "",
        f"torch {machine.torch}" if machine else "",
        *dict.fromkeys(f"{_TOOLS[side.tool]} {side.tool_version or ''}".rstrip() for side in profiled),
        f"{when:%Y-%m-%d}" if when else "",
    ]
    return " · ".join(filter(None, parts))
