"""A sweep over sizes as text and as CSV: GB/s and TFLOP/s of every variant at every size. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from ratchet import units
from ratchet.records.variants import VariantsCase, VariantsRecord, VariantTime
from ratchet.report.quickwins import factor, machine_text, notes_of
from ratchet.report.words import NOTHING, aligned
from ratchet.untrusted import log_line


def names_of(record: VariantsRecord) -> list[str]:
    """Return the names of all variants, the benchmark's own first."""
    return list(dict.fromkeys(variant.name for case in record.cases for variant in case.variants))


def value_of(record: VariantsRecord, case: VariantsCase) -> float:
    """Return the value of the parameter that the sweep changes."""
    return float(case.config.parameters[record.parameter])


def sweep_lines(record: VariantsRecord) -> Iterator[str]:
    """Yield a table with a row for each value, a column for each variant, and notes."""
    names = names_of(record)
    benchmark = record.cases[0].benchmark if record.cases else ""
    yield log_line(f"{benchmark} over {record.parameter} on {machine_text(record)}, {units.wall(record.wall_s)}.", 300)
    rows = [[log_line(record.parameter), *map(log_line, names)]]
    for case in record.cases:
        times = {variant.name: variant for variant in case.variants}
        cells = [_cell(case, times.get(name)) for name in names]
        rows.append([f"{value_of(record, case):.0f}", *cells])
    yield from aligned(rows, ">")
    for case in record.cases:
        for why in dict.fromkeys(case.problems if not case.skipped else ()):
            yield log_line(f"{case.name}: {why}", 300)
    yield from notes_of(record)


def sweep_csv(record: VariantsRecord) -> str:
    """Return a row for each value: milliseconds with their 95 % interval, GB/s, TFLOP/s, the own variant's speed-up."""
    names = names_of(record)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("ms", "low_ms", "high_ms", "gb_s", "tflop_s", "speedup", "speedup_low", "speedup_high")
    writer.writerow([record.parameter, *(f"{name}_{column}" for name in names for column in columns)])
    for case in record.cases:
        times = {variant.name: variant for variant in case.variants}
        writer.writerow([f"{value_of(record, case):.0f}", *(field for name in names for field in _fields(case, times.get(name)))])
    return text.getvalue()


def _fields(case: VariantsCase, variant: VariantTime | None) -> list[str]:
    if variant is None:
        return [""] * 8
    moved, done = case.rate(variant, "bytes"), case.rate(variant, "flops")
    low, high = variant.interval or (None, None)
    scaled = (moved and moved / 1e9, done and done / 1e12)
    return [
        "" if value is None else f"{value:.6g}"
        for value in (variant.median_ms, variant.low_ms, variant.high_ms, *scaled, variant.speedup, low, high)
    ]


def _cell(case: VariantsCase, variant: VariantTime | None) -> str:
    if variant is None or variant.median_ms is None:
        return NOTHING
    moved, done = case.rate(variant, "bytes"), case.rate(variant, "flops")
    rates = [units.rate(moved, "B/s") if moved else "", units.rate(done, "FLOP/s") if done else ""]
    speed = f"({factor(variant.speedup)})" if variant.speedup else ""
    return " ".join(filter(None, (units.duration(variant.median_ms * 1e-3), *rates, speed)))
