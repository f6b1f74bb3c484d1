"""The table of `ratchet quickwins`: what each quick win brings here, beside what a guide claims. Text and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratchet import units
from ratchet.judge.quickwins import Holding, holding
from ratchet.records.variants import Claim, VariantsCase, VariantsRecord
from ratchet.report.words import NOTHING, aligned
from ratchet.untrusted import clean, log_line, markdown

OWN, OTHER = 0, 1
"""Places of the improved and of the naive variant."""
COMPUTES = 4
"""FLOPs of a byte from which FLOP/s say more about a case than bytes per second."""
_ANSWERS: dict[Holding, str] = {
    "holds": "yes",
    "less": "no, less",
    "more": "no, more",
    "no gain": "no, hardly anything",
    "slower": "no, slower",
    "faster": "faster; no figure to hold it to",
    "undecided": "undecided: measure with more --pairs",
    "not measured": "not measured",
}
_HEADINGS = ("Step", "Quick win", "Naive → improved", "Speed-up", "95 % interval", "Claim", "Holds here?")


@dataclass(frozen=True)
class Row:
    """One quick win as measured, with its claim."""

    claim: Claim
    case: VariantsCase
    holding: Holding
    on_cpu: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the texts of its columns."""
        times = self.case.variants
        speedup, interval = (times[OTHER].speedup, times[OTHER].interval) if len(times) > OTHER else (None, None)
        return (
            self.claim.step,
            self.claim.title,
            " → ".join(_time(self.case, place) for place in (OTHER, OWN)) if interval else NOTHING,
            factor(speedup) if speedup else NOTHING,
            f"{factor(interval[0])} to {factor(interval[1])}" if interval else NOTHING,
            self.claim.text,
            self.answer,
        )

    @property
    def answer(self) -> str:
        """Say whether the claim holds here, and where it does not, why."""
        if self.holding == "not measured":
            times = self.case.variants
            why = self.case.problem or next((one.problem for one in (*times[OTHER:], *times[:OTHER]) if one.problem), "")
        elif self.holding in ("holds", "faster", "undecided"):
            why = self.claim.note if self.holding == "holds" else ""
        else:
            why = self.claim.cpu if self.on_cpu else self.claim.more if self.holding == "more" else self.claim.less
        return ": ".join(filter(None, (_ANSWERS[self.holding], why)))


def rows_of(record: VariantsRecord) -> list[Row]:
    """Return the quick wins that this device can run, in the order of their claims."""
    on_cpu = record.environment.fingerprint.device == "cpu"
    rows = []
    for claim in record.claims:
        for case in record.cases:
            if claim.case in (case.name, case.benchmark) and not case.skipped:
                interval = case.variants[OTHER].interval if len(case.variants) > OTHER else None
                rows.append(Row(claim, case, holding(claim, interval), on_cpu))
    return rows


def quickwins_lines(record: VariantsRecord) -> Iterator[str]:
    """Yield the table, whose last column stands below its row, and notes."""
    yield log_line(f"Quick wins on {machine_text(record)}, {units.wall(record.wall_s)}.")
    rows = rows_of(record)
    table = aligned([_HEADINGS[:-1], *([log_line(cell) for cell in row.cells[:-1]] for row in rows)], "<<<>><") if rows else []
    for line, row in zip(table, [None, *rows], strict=bool(rows)):
        yield line
        if row:
            yield f"    {log_line(row.answer, 600)}"
    yield from notes_of(record)


def quickwins_markdown(record: VariantsRecord) -> str:
    """Return the table and notes as Markdown."""
    where = markdown(machine_text(record), 300)
    lines = [f"Measured on {where}, {record.started_at:%Y-%m-%d}, in {units.wall(record.wall_s)}.", ""]
    lines += [f"| {' | '.join(_HEADINGS)} |", "|:--|:--|:--|--:|:--|:--|:--|"]
    lines += [f"| {' | '.join(markdown(cell, 400) for cell in row.cells)} |" for row in rows_of(record)]
    lines += ["", *(f"{markdown(note, 600)}\n" for note in notes_of(record))]
    return "\n".join(lines).rstrip() + "\n"


def machine_text(record: VariantsRecord) -> str:
    """Return the machine, its software, and how often was measured: ``NVIDIA H200, driver 580.65, torch 2.11, 6 pairs``."""
    machine = record.environment.fingerprint
    parts = [
        machine.processor,
        f"driver {machine.driver}" if machine.driver else "",
        machine.toolkit,
        f"torch {machine.torch}",
        units.plural(record.plan.pairs, "pair") + " of processes each",
    ]
    return ", ".join(filter(None, parts))


def notes_of(record: VariantsRecord) -> Iterator[str]:
    """Yield what was left out and why, and the warnings of the run."""
    skipped: dict[str, list[str]] = {}
    for case in record.cases:
        if case.skipped:
            skipped.setdefault(case.problem, []).append(case.name)
    for why, names in skipped.items():
        yield log_line(f"Not here ({why}): {', '.join(names)}.", 600)
    for warning in record.warnings:
        yield log_line(f"Note: {warning}", 600)


def factor(value: float) -> str:
    """Show a speed-up: ``1.28×``, ``31.2×``, ``195×``."""
    return f"{value:#.3g}".rstrip(".") + "×" if value < 999.5 else f"{value:.0f}×"


def _time(case: VariantsCase, place: int) -> str:
    """Return the time of a variant, and its rate where the work is declared."""
    variant = case.variants[place]
    if variant.median_ms is None:
        return NOTHING
    moved, done = case.rate(variant, "bytes"), case.rate(variant, "flops")
    computes = done and (moved is None or done >= COMPUTES * moved)
    rate = units.rate(done, "FLOP/s") if done and computes else units.rate(moved, "B/s") if moved else ""
    return clean(f"{units.duration(variant.median_ms * 1e-3)}{f' ({rate})' if rate else ''}")
