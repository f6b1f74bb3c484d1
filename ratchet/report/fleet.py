"""Text and JSON fields for `ratchet fleet`: cards by model, the slowest first, and what to do about outliers. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from ratchet import units
from ratchet.judge.fleet import CardReport, ClassSpeed
from ratchet.report.words import NOTHING, aligned
from ratchet.untrusted import CELL, log_line

UUID = 16
"""Characters of a UUID that are shown: ``GPU-`` and enough to know a card by."""


def fleet_json(found: Sequence[CardReport]) -> list[dict[str, Any]]:
    """Return JSON fields for other programs."""
    adapter = TypeAdapter(CardReport)
    return [adapter.dump_python(report, mode="json") for report in found]


def fleet_lines(found: Sequence[CardReport]) -> list[str]:
    """Return a table for each model and software, then a sentence for each reason against a card."""
    lines: list[str] = []
    for _, group in itertools.groupby(found, key=lambda report: report.fingerprint):
        cards = list(group)
        newest = max(card.last for card in cards)
        lines += [f"{log_line(cards[0].gpu)} ({cards[0].fingerprint}), {units.plural(len(cards), 'card')}, to {newest}", ""]
        head = ("Card", "Kernels", "Days", "Time", "Trend", "Noise", "Spread", "MDE", "Outliers", "")
        lines += aligned([head, *(row for card in cards for row in _rows(card))], "<<>>>>>>><")
        lines += ["", *(f"{log_line(card.uuid)}: {log_line(problem)}" for card in cards for problem in card.problems)]
        if any(not card.known for card in cards):
            lines.append(
                "A card without a time ran nothing that at least two others ran too: see docs/scale.md, Health of a fleet."
            )
        lines.append("")
    outliers = [card for card in found if card.problems]
    if outliers:
        names = units.listed([card.uuid for card in outliers], 5, log_line)
        lines.append(f"Measure nothing on {names}: `--quarantine` writes the list that `ratchet doctor --strict` refuses.")
    else:
        lines.append("No card is an outlier.")
    return lines


def _rows(card: CardReport) -> list[tuple[str, ...]]:
    mark = "outlier" if card.problems else ""
    shared = (
        units.percent(card.spread, 2),
        NOTHING if card.mde is None else units.percent(card.mde, 2),
        units.percent(card.outlier_share, 1),
    )
    if not card.classes:
        return [(log_line(card.uuid[:UUID], CELL), NOTHING, "0", NOTHING, NOTHING, NOTHING, *shared, mark)]
    return [(log_line(card.uuid[:UUID], CELL), *_speed(speed), *shared, mark) for speed in card.classes]


def _speed(speed: ClassSpeed) -> tuple[str, ...]:
    return (
        speed.kernel_class,
        str(speed.days),
        units.change(1 + speed.slower),
        NOTHING if speed.trend is None else units.change(1 + speed.trend),
        units.percent(speed.noise, 2),
    )
