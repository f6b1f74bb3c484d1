"""One page that shows why a case changed: PNG for a pull request, SVG for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.records.environment import Environment
from ratchet.records.profile import CaseProfile, Finding
from ratchet.records.roofline import Roofline
from ratchet.records.run import Side, Tree
from ratchet.records.verdict import CaseVerdict, Outcome
from ratchet.report import words
from ratchet.report.figures import canvas, quantities
from ratchet.report.figures.arrow import draw_arrow
from ratchet.report.figures.axes import charted
from ratchet.report.figures.bars import (
    FACT,
    REFERENCE_INK,
    ROW,
    SIZE,
    SMALL,
    TOP,
    Panel,
    draw_bars,
    draw_facts,
    rectangle,
    rule,
    title,
)
from ratchet.report.figures.canvas import FAINT, HEAD, INK, REFERENCE, WIDTH, write
from ratchet.report.figures.quantities import Launch
from ratchet.report.profile import unexplained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGE, GUTTER = 28, 44
HALF = (WIDTH - 2 * EDGE - GUTTER) / 2
FINDINGS = 3
_HEAD, _ROOFLINE, _SPACE = 150, 304, 28
"""Heights of the head, of the roofline, and of what is left free below a panel, in pixels."""
LINE = 18
_BOTH: tuple[Side, ...] = ("reference", "head")
_COLOURS = {Outcome.REGRESSED: "#b5300f", Outcome.FAILED: "#b5300f", Outcome.IMPROVED: "#00724f"}
_TOOLS = {"ncu": "Nsight Compute", "nsys": "Nsight Systems", "torch": "torch.profiler"}


def draw(
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    roofline: Roofline | None,
    folder: Path,
    name: str,
    *,
    environment: Environment | None = None,
    when: datetime | None = None,
) -> list[Path]:
    """Write ``NAME.png``, 1200 pixels wide, and ``NAME.svg``; their paths.

    Figures that a profile lacks are said to be missing. Raises PageError where matplotlib is missing, OutputError where the
    files cannot be written.
    """
    with canvas.drawing():
        return canvas.write_files(page(profile, verdict, roofline, environment, when), folder, name)


def page(
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    roofline: Roofline | None,
    environment: Environment | None = None,
    when: datetime | None = None,
) -> Figure:
    """The whole page. Only within `canvas.drawing`."""
    told = [_finding(number, each) for number, each in enumerate(profile.findings[:FINDINGS], 1)]
    below = [*canvas.wrapped(unexplained(profile), SMALL, WIDTH - 2 * EDGE, 2), *_steps(profile)]
    lines = sum(len(each) for each in told) + len(below) + (not told)
    every = quantities.launches(profile)
    launch = quantities.heaviest(every, profile.direction)
    rows = _rows(profile, launch, roofline)
    height = _HEAD + rows.upper + rows.lower + TOP + 18 + LINE * lines + 8 * len(told) + 44
    figure = canvas.new_figure(height)
    sides = sides_of(profile)
    _head(figure, height, profile, verdict, sides, every, launch)
    upper = [Panel(left, _HEAD, HALF, height) for left in (EDGE, EDGE + HALF + GUTTER)]
    lower = [Panel(left, _HEAD + rows.upper, HALF, height) for left in (EDGE, EDGE + HALF + GUTTER)]
    if launch is not None:
        _counters(figure, launch, upper, lower[0], sides)
    elif any(quantities.activities(profile)):
        _activity(figure, profile, upper, lower[0], sides)
    else:
        title(figure, upper[0], "No profile")
        write(figure, upper[0].at(0, 46), "neither side could be profiled", size=SIZE, color=FAINT, va="baseline")
    draw_arrow(figure, lower[1], roofline, _ROOFLINE)
    _words(figure, Panel(EDGE, _HEAD + rows.upper + rows.lower, WIDTH - 2 * EDGE, height), told, below)
    rule(figure, Panel(EDGE, height - 40, WIDTH - 2 * EDGE, height), 0)
    write(figure, (EDGE, 16), _environment(profile, environment, when), 600, size=SMALL, color=FAINT, va="baseline")
    return figure


@dataclass(frozen=True)
class _Rows:
    """Heights of the two rows of panels: as high as what is in them."""

    upper: int
    lower: int


def _rows(profile: CaseProfile, launch: Launch | None, roofline: Roofline | None) -> _Rows:
    if launch is not None:
        bars, facts = 6, TOP + 2 * ROW + 10 + 7 * FACT
    elif any(quantities.activities(profile)):
        bars, facts = max(len(quantities.kernel_times(profile)), len(quantities.cpu_times(profile)), 1), TOP + 7 * FACT
    else:
        bars, facts = 1, 60
    drawn = _ROOFLINE if roofline and charted(roofline.points) else 60
    return _Rows(TOP + bars * ROW + _SPACE, max(facts, drawn) + _SPACE)


def sides_of(profile: CaseProfile) -> tuple[Side, ...]:
    """The sides that were profiled; both where neither was."""
    return tuple(side for side in _BOTH if getattr(profile, side) is not None) or _BOTH


def _head(
    figure: Figure,
    height: int,
    profile: CaseProfile,
    verdict: CaseVerdict | None,
    sides: Sequence[Side],
    every: Sequence[Launch],
    launch: Launch | None,
) -> None:
    """Case and outcome, both commits in the colours of their sides, the kernel that is shown."""
    panel = Panel(EDGE, 0, WIDTH - 2 * EDGE, height)
    outcome, change = _outcome(verdict)
    room = panel.width - (canvas.width_of(outcome, 17, "bold") + 30 if outcome else 0)
    name = canvas.elided(profile.case, 17, room, weight="bold")
    write(figure, panel.at(0, 36), name, size=17, weight="bold", color=INK, va="baseline")
    colour = _COLOURS.get(verdict.outcome, INK) if verdict else INK
    write(figure, panel.at(panel.width, 36), outcome, size=17, weight="bold", color=colour, ha="right", va="baseline")
    write(figure, panel.at(panel.width, 62), change, size=SIZE, color=INK, ha="right", va="baseline")
    left = panel.width - canvas.width_of(change, SIZE) - 30
    for number, side in enumerate(sides):
        shade, ink = (REFERENCE, REFERENCE_INK) if side == "reference" else (HEAD, HEAD)
        rectangle(figure, panel.at(0, 64 + 22 * number), 12, 12, shade)
        text = canvas.elided(_commit(side, profile), SIZE, left if number == 0 else panel.width - 20, at_end=True)
        write(figure, panel.at(20, 62 + 22 * number), text, size=SIZE, color=ink, va="baseline")
    kernel = canvas.elided(_kernel(every, launch), SMALL, panel.width)
    write(figure, panel.at(0, 116), kernel, 1200, size=SMALL, color=FAINT, va="baseline")
    rule(figure, panel, 128)


def _outcome(verdict: CaseVerdict | None) -> tuple[str, str]:
    """``REGRESSED +5.21 %``, and the times behind it."""
    if verdict is None:
        return "", ""
    name = "" if verdict.outcome is Outcome.MEASURED else words.word(verdict).text.upper()
    compared = verdict.comparison
    times = [words.time(side) for side in (verdict.reference, verdict.head) if side]
    parts = (" → ".join(times), words.interval(compared) + " %" if compared else "")
    return f"{name} {words.change(compared)}" if compared else name, " · ".join(each for each in parts if each)


def _commit(side: Side, profile: CaseProfile) -> str:
    tree: Tree | None = profile.head_tree if side == "head" else profile.reference_tree
    if tree is None:
        return side
    changed = " + uncommitted changes" if tree.dirty else ""
    return f"{side} {words.short_hash(tree)}{changed}  {tree.subject}".rstrip()


def _kernel(every: Sequence[Launch], launch: Launch | None) -> str:
    """The kernel that is shown, and how many others there are."""
    if launch is None or launch.shown is None:
        return ""
    others = list(dict.fromkeys(other.shown.function for other in every if other is not launch and other.shown))
    parts = [f"kernel {canvas.drawable(launch.shown.name, 110 if others else 400)}"]
    if not (launch.reference and launch.head):
        parts.append(f"only in the {'head' if launch.head else 'reference'}")
    if others:
        parts.append(f"{len(every) - 1} other launch{'' if len(every) == 2 else 'es'}: {', '.join(others)}")
    return " · ".join(parts)


def _counters(figure: Figure, launch: Launch, upper: Sequence[Panel], lower: Panel, sides: Sequence[Side]) -> None:
    title(figure, upper[0], "Throughput", "of the peak that can be sustained")
    draw_bars(figure, upper[0], quantities.throughput(launch), sides, 100.0)
    title(figure, upper[1], "What warps wait for", "cycles between two instructions of a warp")
    waits = quantities.stalls(launch)
    draw_bars(figure, upper[1], waits, sides)
    if not waits:
        write(figure, upper[1].at(0, 46), "not in the report", size=SIZE, color=FAINT, va="baseline")
    title(figure, lower, "Occupancy", "of the warps that fit")
    bars = quantities.occupancy(launch)
    draw_bars(figure, lower, bars, sides, 100.0)
    draw_facts(figure, lower, quantities.launch_facts(launch), sides, TOP + ROW * len(bars) + 10)


def _activity(figure: Figure, profile: CaseProfile, upper: Sequence[Panel], lower: Panel, sides: Sequence[Side]) -> None:
    on_gpu = any(seen and seen.launches for seen in quantities.activities(profile))
    title(figure, upper[0], "Kernels" if on_gpu else "Operators", "time of one call")
    draw_bars(figure, upper[0], quantities.kernel_times(profile), sides, label=250)
    title(figure, upper[1], "On the CPU", "time of one call")
    draw_bars(figure, upper[1], quantities.cpu_times(profile), sides, label=250)
    title(figure, lower, "Launches, gaps, copies", "of one call")
    draw_facts(figure, lower, quantities.activity_facts(profile), sides)


def _finding(number: int, finding: Finding) -> list[tuple[str, str]]:
    """Lines of one finding: (weight, text)."""
    width = WIDTH - 2 * EDGE - 24
    first = canvas.wrapped(f"{number}. {finding.what}", SIZE, width * 0.92, 2)  # bold is wider
    rest = f"{finding.why} {finding.advice} ({finding.confidence} confidence)"
    return [*(("bold", line) for line in first), *(("normal", line) for line in canvas.wrapped(rest, SIZE, width, 3))]


def _steps(profile: CaseProfile) -> list[str]:
    """What could not be had, in lines."""
    failed = [f"The {side} has no profile: {why}" for side, why in sorted(profile.failed.items())]
    lines = [canvas.wrapped(each, SMALL, WIDTH - 2 * EDGE, 2) for each in (*profile.steps_down, *failed)[:4]]
    return [line for each in lines for line in each]


def _words(figure: Figure, panel: Panel, told: Sequence[Sequence[tuple[str, str]]], below: Sequence[str]) -> None:
    """The findings, the likeliest first, and what could not be had."""
    title(figure, panel, "What the profiles show")
    y = TOP + 10.0
    if not told:
        write(figure, panel.at(0, y), "nothing that stands out", size=SIZE, color=FAINT, va="baseline")
        y += LINE
    for finding in told:
        for weight, text in finding:
            start = panel.at(0 if weight == "bold" else 18, y)
            write(figure, start, text, size=SIZE, color=INK if weight == "bold" else FAINT, weight=weight, va="baseline")
            y += LINE
        y += 8
    for text in below:
        write(figure, panel.at(0, y), text, size=SMALL, color=FAINT, va="baseline")
        y += LINE


def _environment(profile: CaseProfile, environment: Environment | None, when: datetime | None) -> str:
    """GPU, driver, tools and date."""
    machine = environment.fingerprint if environment else None
    seen = [each for each in (profile.head, profile.reference) if each]
    names = [machine.gpu or machine.cpu] if machine else [each.gpu for each in seen if each.gpu]
    parts = [
        *names[:1],
        f"driver {machine.driver}" if machine and machine.driver else "",
        f"CUDA {machine.cuda}" if machine and machine.cuda else "",
        f"torch {machine.torch}" if machine else "",
        *dict.fromkeys(f"{_TOOLS[each.tool]} {each.tool_version or ''}".rstrip() for each in seen),
        f"{when:%Y-%m-%d}" if when else "",
    ]
    return " · ".join(each for each in parts if each)
