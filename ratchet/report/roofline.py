"""A roofline as text: a table of cases, and the words beside the lines of its picture.

Called by ``ratchet roofline`` and by `ratchet.report.figures.roofline`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ratchet import units
from ratchet.records.profile import Roof, Roofline, RooflinePoint
from ratchet.report.baseline import table
from ratchet.report.words import ABOVE, NOTHING
from ratchet.untrusted import CELL, log_line

BOUND = {
    "memory": "memory",
    "compute": "compute",
    "cache": "L2 cache",
    "neither": "neither: below half of every roof",
}
ABOVE_MEANS = "Above a roof, because the data come from a cache or the case declares too much work"
_HEADINGS = ("Case", "FLOP/B", "FLOP/s", "B/s", "Of the roofs", "Bound by", "Work", "Time")
_FROM = {"counters": "counted", "declared": "declared"}


def roofline_lines(roofline: Roofline) -> list[str]:
    """Return the roofs, a line for each case, and the notes."""
    lines = [log_line(f"{roofline.device}: {units.plural(len(roofline.points), 'case')}.")]
    roofs = sorted(roofline.roofs, key=lambda roof: (roof.kind == "compute", -roof.rate, roof.key))
    lines += table([("Roof", "", ""), *map(_roof_row, roofs)], right=1) if roofs else []
    lines += table([_HEADINGS, *(_row(point, roofline) for point in roofline.points)], right=1)
    above = [point.case for point in roofline.points if any(share > ABOVE for share in point.shares.values())]
    notes = [*roofline.notes, *([f"{ABOVE_MEANS}: {', '.join(dict.fromkeys(above))}."] if above else [])]
    return lines + [log_line(f"Note: {note}", 600) for note in notes]


def precision_text(precision: str | None) -> str:
    """Convert ``tensor_bf16`` to ``BF16 tensor``."""
    name = precision or ""
    return f"{name.removeprefix('tensor_').upper()} tensor" if name.startswith("tensor_") else name.upper()


def intensity_text(value: float | None) -> str:
    """Format FLOP per byte: 0.75, 128, 1365."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def share_text(share: float) -> str:
    """Format a share of a roof, such as ``86 %``; ``above`` where the roof does not limit the case."""
    return "above" if share > ABOVE else units.percent(share)


def roof_text(roof: Roof) -> str:
    """Format the rate of a roof: ``4.80 TB/s``, ``989 TFLOP/s``."""
    return units.rate(roof.rate, "FLOP/s" if roof.kind == "compute" else "B/s")


def slope_text(group: Sequence[Roof]) -> str:
    """Return the words along a slope that one or several roofs share."""
    name = "L2" if group[0].kind == "l2" else "copy" if {roof.source for roof in group} == {"measured"} else "DRAM"
    return f"{name} {roof_text(group[0])}, {sources(group)}"


def ceiling_text(group: Sequence[Roof]) -> str:
    """Return the words beside a ceiling that one or several roofs share."""
    names = list(dict.fromkeys(roof.precision or "" for roof in sorted(group, key=lambda roof: roof.precision or "")))
    plain = [precision_text(name) for name in names if not name.startswith("tensor_")]
    matrix = [precision_text(name).removesuffix(" tensor") for name in names if name.startswith("tensor_")]
    words = [*plain, *([f"{', '.join(matrix)} tensor"] if matrix else [])]
    return f"{roof_text(group[0])} {', '.join(words)}, {sources(group)}"


def sources(group: Sequence[Roof]) -> str:
    """Return the sources of these roofs, such as ``datasheet and report``."""
    return " and ".join(sorted({roof.source for roof in group}))


def _roof_row(roof: Roof) -> tuple[str, str, str]:
    name = precision_text(roof.precision) if roof.kind == "compute" else {"dram": "DRAM", "l2": "L2"}[roof.kind]
    return name, roof_text(roof), roof.source


def _row(point: RooflinePoint, roofline: Roofline) -> tuple[str, ...]:
    side = f" ({point.side})" if point.side else ""
    return (
        f"{log_line(point.case, CELL)}{side}",
        intensity_text(point.intensity),
        units.rate(point.flops_per_s, "FLOP/s") if point.flops else NOTHING,
        units.rate(point.bytes_per_s, "B/s") if point.bytes else NOTHING,
        _shares(point, roofline),
        BOUND[point.bound] if point.bound else NOTHING,
        _FROM[point.source],
        point.timed_by,
    )


def _shares(point: RooflinePoint, roofline: Roofline) -> str:
    """Return each kind of roof once, with the share of every source: ``DRAM 86 % datasheet, 100 % measured; BF16 tensor …``."""
    kinds: dict[str, list[str]] = {}
    for key, share in point.shares.items():
        roof = roofline.roof(key)
        if roof:
            kinds.setdefault("DRAM" if roof.kind == "dram" else precision_text(roof.precision), []).append(
                f"{share_text(share)} {roof.source}"
            )
    return "; ".join(f"{name} {', '.join(parts)}" for name, parts in sorted(kinds.items())) or NOTHING
