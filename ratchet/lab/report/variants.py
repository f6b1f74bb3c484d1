"""The text and the CSV table of `ratchet variants`: each variant below the roofline, or each quick win beside its claim.

The command line prints and writes them. Bytes and FLOPs are those that the work needs, as the benchmark declares them: what a
variant moves beyond that shows as a lower rate. Pure.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator
from typing import Literal

from ratchet import tools
from ratchet.core import units
from ratchet.core.report.words import NOTHING, aligned
from ratchet.core.untrusted import clean, log_line
from ratchet.lab.records.variants import Claim, VariantsCase, VariantsRecord, VariantTime

OWN, OTHER = 0, 1
"""Places of the improved and of the naive variant."""
COMPUTES = 4
"""FLOPs of a byte from which FLOP/s say more about a case than bytes per second."""
_CLAIMED = ("Step", "Quick win", "Naive → improved", "Speed-up", "95 % interval", "Claim")
_HEADINGS = ("Config", "Variant", "Time", "95 % interval", "Speed-up", "95 % interval", "FLOP/s", "B/s", "Of roof", "Bound by")
_RATES: tuple[tuple[str, Literal["flops", "bytes"]], ...] = (("FLOP", "flops"), ("B", "bytes"))


def variants_lines(record: VariantsRecord) -> Iterator[str]:
    """Yield a table, what it says on average, and notes."""
    title = "Quick wins" if record.claims else f"{record.cases[0].benchmark} over {record.parameter}".removesuffix(" over ")
    yield log_line(f"{title} on {machine_text(record)}, {units.wall(record.wall_s)}.")
    yield from _quickwins(record) if record.claims else _variants(record)
    skipped: dict[str, list[str]] = {}
    for case in record.cases:
        if case.skipped:
            skipped.setdefault(case.problem, []).append(case.name)
    for why, names in skipped.items():
        yield log_line(f"Not here ({why}): {', '.join(names)}.", 600)
    for warning in record.warnings:
        yield log_line(f"Note: {warning}", 600)


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


def names_of(record: VariantsRecord) -> list[str]:
    """Return the names of all variants, the benchmark's own first."""
    return list(dict.fromkeys(variant.name for case in record.cases for variant in case.variants))


def factor(value: float) -> str:
    """Show a speed-up: ``1.28×``, ``31.2×``, ``195×``."""
    return f"{value:#.3g}".rstrip(".") + "×" if value < 999.5 else f"{value:.0f}×"


def _sped(variant: VariantTime) -> tuple[str, str]:
    """Return the speed-up of the own variant beside this one, and its interval."""
    if not (variant.speedup and variant.interval):
        return NOTHING, NOTHING
    return factor(variant.speedup), " to ".join(map(factor, variant.interval))


# Variants of one benchmark: a row for each variant of each config.


def _variants(record: VariantsRecord) -> Iterator[str]:
    figure = tools.part("roofline_figure")
    points = {point.case: point for point in record.roofline.points} if record.roofline else {}
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for case in record.cases:
        for one in case.variants:
            time, *ends = [units.duration(ms * 1e-3) for ms in (one.median_ms, one.low_ms, one.high_ms) if ms] or [""]
            rates = [units.rate(rate, f"{unit}/s") if (rate := case.rate(one, kind)) else "" for unit, kind in _RATES]
            point = points.get(f"{one.name}/{case.config.name}")
            roof = (
                (figure.share(point), figure.BOUND[point.bound].partition(":")[0] if point.bound else "") if point else ("", "")
            )
            cells = (time, " to ".join(ends), *_sped(one), *rates, *roof)
            rows.append((case.config.name, one.name, *(cell or NOTHING for cell in cells)))
    yield from aligned([[log_line(cell) for cell in row] for row in rows], "<<>>>>>>>")
    for case in record.cases:
        for why, names in case.problems.items() if not case.skipped else ():
            yield log_line(f"{', '.join((case.name, *names))}: {why}", 300)
    yield from averages(record)
    if roofs := record.roofline.roofs if record.roofline else ():
        texts = [figure.ceiling_text([roof]) if roof.kind == "compute" else figure.slope_text(roof) for roof in roofs]
        yield f"Roofs: {'; '.join(texts)}."


def averages(record: VariantsRecord) -> list[str]:
    """Return how much faster the benchmark's own variant is than each other one: the geometric mean, and its range."""
    own, *others = names_of(record) or [""]
    lines = []
    for name in others:
        timed = [one.speedup for case in record.cases for one in case.variants if one.name == name and one.speedup]
        if timed:
            said = f"{own} is {factor(math.exp(sum(map(math.log, timed)) / len(timed)))} as fast as {name}"
            more = f" on average ({factor(min(timed))} to {factor(max(timed))})" if min(timed) < max(timed) else ""
            lines.append(log_line(f"{said}{more}.", 300))
    return lines


def value_of(record: VariantsRecord, case: VariantsCase) -> float:
    """Return the value of the parameter that changes."""
    return float(case.config.parameters[record.parameter])


def variants_csv(record: VariantsRecord) -> str:
    """Return a row for each case: milliseconds with their 95 % interval, GB/s, TFLOP/s, the own variant's speed-up."""
    names = names_of(record)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("ms", "low_ms", "high_ms", "gb_s", "tflop_s", "speedup", "speedup_low", "speedup_high")
    writer.writerow([record.parameter or "case", *(f"{name}_{column}" for name in names for column in columns)])
    for case in record.cases:
        times = {variant.name: variant for variant in case.variants}
        first = f"{value_of(record, case):.0f}" if record.parameter else case.name
        writer.writerow([first, *(field for name in names for field in _fields(case, times.get(name)))])
    return text.getvalue()


def _fields(case: VariantsCase, variant: VariantTime | None) -> list[str]:
    if variant is None:
        return [""] * 8
    moved, done = case.rate(variant, "bytes"), case.rate(variant, "flops")
    scaled = (moved and moved / 1e9, done and done / 1e12)
    values = (variant.median_ms, variant.low_ms, variant.high_ms, *scaled, variant.speedup, *(variant.interval or (None, None)))
    return ["" if value is None else f"{value:.6g}" for value in values]


# Quick wins: a row for each, with its claim; below it stands what the interval shows against that.


def against_claim(claim: Claim, interval: tuple[float, float]) -> str:
    """Say what the interval of a speed-up shows against a claim; every value in the interval agrees with it."""
    low, high = interval
    if low > 1:
        return _gain(claim, low, high)
    if high < 1:
        return "slower"
    if claim.low and high >= claim.low:
        return f"undecided between no gain and the claimed {factor(claim.low)}: measure with more --pairs"
    widest = max(high, 1 / low)
    within = f"{math.ceil(100 * (widest - 1) - 1e-9)} %" if widest < DOUBLE else f"a factor of {factor(widest)}"
    return f"no difference shown within {within}{', so less than claimed' if claim.low else ''}"


DOUBLE = 2.0
"""From this factor on, a factor is easier to read than per cent."""


def _gain(claim: Claim, low: float, high: float) -> str:
    is_more = claim.high is not None and low > claim.high
    if claim.low is None:
        why = "; the claim is a bound" if claim.high else "; the claim has no figure"
        return f"faster{', more than claimed' if is_more else why}"
    if high < claim.low:
        return "faster, but less than claimed"
    if low < claim.low:
        return f"faster; whether by the claimed {factor(claim.low)} is undecided: measure with more --pairs"
    return "reached, and more than claimed" if is_more else "reached"


def _quickwins(record: VariantsRecord) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [_CLAIMED]
    answers = [""]
    for claim, case in itertools.product(record.claims, record.cases):
        if case.skipped or claim.case not in (case.name, case.benchmark):
            continue
        other = case.variants[OTHER] if len(case.variants) > OTHER else VariantTime(name="")
        times = " → ".join(_time(case, place) for place in (OTHER, OWN)) if other.interval else NOTHING
        rows.append(tuple(log_line(cell) for cell in (claim.step, claim.title, times, *_sped(other), claim.text)))
        answers.append(
            against_claim(claim, other.interval) if other.interval else f"not measured: {next(iter(case.problems), '')}"
        )
    for line, answer in zip(aligned(rows, "<<<>><"), answers, strict=True):
        yield line
        if answer:
            yield f"    {log_line(answer, 600)}"


def _time(case: VariantsCase, place: int) -> str:
    """Return the time of a variant, and its rate where the work is declared."""
    variant = case.variants[place]
    if variant.median_ms is None:
        return NOTHING
    moved, done = case.rate(variant, "bytes"), case.rate(variant, "flops")
    computes = done and (moved is None or done >= COMPUTES * moved)
    rate = units.rate(done, "FLOP/s") if done and computes else units.rate(moved, "B/s") if moved else ""
    return clean(f"{units.duration(variant.median_ms * 1e-3)}{f' ({rate})' if rate else ''}")
