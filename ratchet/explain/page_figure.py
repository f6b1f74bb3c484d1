"""One page that shows why a case changed: PNG for a pull request, SVG for everything else.

`ratchet.explain.results` calls `draw_page`, which writes these two files. The sentences come from
`ratchet.explain.report`; the numbers are selected here from the profiles of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet import figure_style as style
from ratchet.common.launch_pairs import matched
from ratchet.common.rooflines import Roofline
from ratchet.core import units
from ratchet.core.records.environment import Environment
from ratchet.core.records.profile import Activity, CaseProfile, Effect, KernelProfile
from ratchet.core.records.run import SIDES, Side, Tree
from ratchet.core.records.verdict import CaseVerdict, Outcome
from ratchet.core.report import words
from ratchet.core.report.words import NOTHING
from ratchet.explain.report import FigureRow, findings_of, unexplained
from ratchet.explain.roofline_figure import sides_sections
from ratchet.figure_style import BODY, FAINT, HEADING, NOTE, TITLE, FigureSection, TextLine, lines_of, text_section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_ISSUED = "selected"
"""ncu lists it among the reasons to wait, but it is the cycle in which a warp issues."""
_UNCHANGED = 0.02
"""Durations that differ by less have not changed."""
MOST_STALLS, MOST_TIMES = 6, 7
LONG_S = 0.01
"""Times of a call are in ms where the longest takes this long."""


@dataclass(frozen=True)
class Bar:
    """One quantity of both sides; None where a side does not have it."""

    label: str
    reference: float | None
    head: float | None
    unit: str = "%"
    absent: tuple[str, str] = ("not in the report", "not in the report")
    """Words for a side that has no number: reference, head."""


@dataclass(frozen=True)
class Launch:
    """One launch on both sides; None where a side does not have it."""

    reference: KernelProfile | None
    head: KernelProfile | None

    @property
    def kernel(self) -> KernelProfile:
        """The kernel that names the launch: the head's if there is one."""
        return next(kernel for kernel in (self.head, self.reference) if kernel)

    def fact(self, label: str, text: Callable[[KernelProfile], str | None]) -> FigureRow:
        """Return one line of a table."""
        before, after = ((text(kernel) if kernel else None) or NOTHING for kernel in (self.reference, self.head))
        return FigureRow(label, before, after)

    def bar(self, label: str, value: Callable[[KernelProfile], float | None], unit: str = "%") -> Bar:
        """Return one pair of bars; a side without a number says whether the report lacks it or the launch does not exist."""
        sides = (self.reference, self.head)
        before, after = (value(kernel) if kernel else None for kernel in sides)
        absent = ("not in the report" if kernel else "no such launch" for kernel in sides)
        return Bar(label, before, after, unit, (next(absent), next(absent)))


def launches(profile: CaseProfile) -> list[Launch]:
    """Return the launches of both sides in pairs, then those that only the reference has."""
    return [Launch(reference, head) for head, reference in matched(profile.head, profile.reference)]


def heaviest(every: Sequence[Launch], direction: Effect | None = None) -> Launch | None:
    """Return the launch that changed most in the direction of its case (None: in any); where none changed, the longest."""

    def weight(launch: Launch) -> tuple[bool, float]:
        before, after = ((kernel.duration_s or 0.0 if kernel else 0.0) for kernel in (launch.reference, launch.head))
        change = {"slower": after - before, "faster": before - after}.get(direction or "", abs(after - before))
        changed = change > _UNCHANGED * max(before, after)
        return changed, change if changed else max(before, after)

    return max(every, key=weight, default=None)


def throughput(launch: Launch) -> list[Bar]:
    """Return how busy each part of the GPU was, in percent of the peak that it can sustain."""
    return [
        launch.bar("Multiprocessors (SM)", lambda kernel: kernel.sm_percent),
        launch.bar("Memory", lambda kernel: kernel.memory_percent),
        launch.bar("DRAM", lambda kernel: kernel.dram_percent),
        launch.bar("L2 cache", lambda kernel: kernel.metrics.get(_L2)),
        launch.bar("Matrix units", lambda kernel: kernel.tensor_percent),
        launch.bar("L2 hits", lambda kernel: kernel.l2_hit_percent),
    ]


def stalls(launch: Launch) -> list[Bar]:
    """Return the reasons for which warps waited longest on either side, in cycles."""

    def bar(name: str) -> Bar:
        return launch.bar(name.replace("_", " "), lambda kernel: kernel.stalls.get(name), "cycles")

    names = {name for kernel in (launch.reference, launch.head) if kernel for name in kernel.stalls} - {_ISSUED}
    return _longest([bar(name) for name in sorted(names)], MOST_STALLS)


def occupancy(launch: Launch) -> list[Bar]:
    """Return warps that were active and warps that the launch allows, in percent of those that fit."""
    return [
        launch.bar("Occupancy achieved", lambda kernel: kernel.occupancy_percent),
        launch.bar("Occupancy allowed", lambda kernel: kernel.occupancy_limit_percent),
    ]


def launch_facts(launch: Launch) -> list[FigureRow]:
    """Return what limits occupancy, and the size of the launch."""

    def size(value: float | None) -> str | None:
        return None if value is None else units.size(value)

    def shape(kernel: KernelProfile) -> str | None:
        if kernel.grid is None or kernel.block is None:
            return None
        extents = ("×".join(map(str, extent)) for extent in (kernel.grid, kernel.block))
        return ", ".join(extent.removesuffix("×1").removesuffix("×1") for extent in extents)

    return [
        launch.fact("Limited by", lambda kernel: kernel.occupancy_limiter),
        launch.fact("Registers per thread", lambda kernel: None if kernel.registers is None else str(kernel.registers)),
        launch.fact("Shared memory per block", lambda kernel: size(kernel.shared_bytes)),
        launch.fact("Spilled", lambda kernel: size(kernel.spill_bytes)),
        launch.fact("DRAM read and written", lambda kernel: size(kernel.dram_bytes)),
        launch.fact("Grid, block", shape),
        launch.fact("Duration under ncu", lambda kernel: units.duration(kernel.duration_s) if kernel.duration_s else None),
    ]


def activities(profile: CaseProfile) -> tuple[Activity | None, Activity | None]:
    """Return the traces of the reference and of the head."""
    before, after = (side.activity if side else None for side in (profile.reference, profile.head))
    return before, after


def times(profile: CaseProfile, seconds: Callable[[Activity], dict[str, float]]) -> list[Bar]:
    """Return the kernels, operators or API calls that took longest on either side, in µs or ms of one call."""
    reference, head = (
        {name: took_s / max(activity.calls, 1) for name, took_s in seconds(activity).items()} if activity else None
        for activity in activities(profile)
    )
    longest = {
        name: max((side or {}).get(name, 0.0) for side in (reference, head)) for name in {**(reference or {}), **(head or {})}
    }
    unit, factor = ("ms", 1e3) if max(longest.values(), default=0.0) >= LONG_S else ("µs", 1e6)

    def time(side: dict[str, float] | None, name: str) -> float | None:
        return None if side is None else factor * side.get(name, 0.0)

    return _longest([Bar(name, time(reference, name), time(head, name), unit) for name in sorted(longest)], MOST_TIMES)


def _longest(bars: Sequence[Bar], most: int) -> list[Bar]:
    return sorted(bars, key=lambda bar: -max(bar.reference or 0.0, bar.head or 0.0))[:most]


def activity_facts(profile: CaseProfile) -> list[FigureRow]:
    """Return launches, gaps and copies of one call."""

    def fact(label: str, total: Callable[[Activity], float | None], text: Callable[[float], str]) -> FigureRow:
        def shown(activity: Activity | None) -> str:
            value = total(activity) if activity else None
            return NOTHING if value is None or activity is None else text(value / max(activity.calls, 1))

        before, after = map(shown, activities(profile))
        return FigureRow(label, before, after)

    def count(value: float) -> str:
        return f"{value:.3g}"

    def duration(value: float) -> str:
        return units.duration(value) if value else "0"

    return [
        fact("Launches", lambda activity: activity.launches, count),
        fact("First event to last", lambda activity: activity.wall_s, duration),
        fact("Kernels", lambda activity: sum(activity.kernels.values()), duration),
        fact("Idle between kernels", lambda activity: activity.gaps_s, duration),
        fact("Copies", lambda activity: activity.copies_s, duration),
        fact("Pageable copies", lambda activity: activity.pageable_copies, count),
        fact("Allocation, on the CPU", lambda activity: activity.allocation_s, duration),
    ]


# The picture.

_INK = {"reference": style.REFERENCE, "head": style.HEAD}
_COLOURS = {Outcome.REGRESSED: "#b5300f", Outcome.FAILED: "#b5300f", Outcome.IMPROVED: "#00724f"}
_TOOLS = {"ncu": "Nsight Compute", "nsys": "Nsight Systems", "torch": "torch.profiler"}
_TRACK = "#f2f2f2"


def draw_page(
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    roofline: Roofline | None,
    folder: Path,
    name: str,
    *,
    environment: Environment | None,
    when: datetime | None = None,
) -> list[Path]:
    """Write ``NAME.png``, 1200 pixels wide, and ``NAME.svg``, and return their paths.

    The page says which numbers a profile lacks. Raises PageError where matplotlib is missing, OutputError where the files cannot
    be written.
    """
    with style.drawing():
        return style.write_files(page_figure(profile, verdict, roofline, environment, when), folder, name)


def page_figure(
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    roofline: Roofline | None,
    environment: Environment | None = None,
    when: datetime | None = None,
) -> Figure:
    """Draw the whole page, within `style.drawing`."""
    sides = tuple(side for side in SIDES if getattr(profile, side) is not None) or SIDES
    paired = launches(profile)
    launch = heaviest(paired, profile.direction)
    sections = [_head(profile, verdict, sides, _kernel(paired, launch))]
    if launch is not None:
        sections += [
            *_bars("Throughput", "of the peak that can be sustained", throughput(launch), sides, 100.0),
            *_bars("What warps wait for", "cycles between two instructions of a warp", stalls(launch), sides),
            *_bars("Occupancy", "of the warps that fit", occupancy(launch), sides, 100.0),
            _table(launch_facts(launch), sides),
        ]
    elif any(activities(profile)):
        on_gpu = any(activity and activity.launches for activity in activities(profile))
        kernels = times(profile, lambda activity: activity.kernels)
        calls = times(profile, lambda activity: activity.cpu_s)
        sections += [
            *_bars("Kernels" if on_gpu else "Operators", "time of one call", kernels, sides),
            *(_bars("On the CPU", "time of one call", calls, sides) if on_gpu else ()),  # else they are the same
            _heading("Launches, gaps, copies", "of one call"),
            _table(activity_facts(profile), sides),
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
        commit = f"{words.short_hash(tree)}{changed} {tree.subject}" if tree else ""
        lines += lines_of(f"■ {side} {commit}", replace(BODY, colour=_INK[side]), most=2)
    return text_section([*lines, *lines_of(kernel, NOTE, most=4)])


def _kernel(launches: Sequence[Launch], launch: Launch | None) -> str:
    """Name the kernel that is shown, and the others."""
    if launch is None:
        return ""
    others = list(dict.fromkeys(other.kernel.function for other in launches if other is not launch))
    parts = [f"kernel {style.drawable(launch.kernel.name, 110 if others else 300)}"]
    if not (launch.reference and launch.head):
        parts.append(f"only in the {'head' if launch.head else 'reference'}")
    if others:
        parts.append(f"{len(launches) - 1} other launch{'' if len(launches) == 2 else 'es'}: {', '.join(others)}")
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
                bar.absent[SIDES.index(side)] if value is None else f"{_number(value)} {bar.unit}"
                for bar, value in zip(bars, values, strict=True)
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
