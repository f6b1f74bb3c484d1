"""The texts of `ratchet quickwins` (what each brings here, beside what a guide claims), `ratchet study` and `ratchet sweep`.

The command line prints and writes them; the pictures of `ratchet.report.figures.variants` take a study's insights. Bytes and
FLOPs are those that the work needs, as the benchmark declares them: what a variant moves beyond that shows as a lower rate. Pure.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ratchet import units
from ratchet.judge.profile import cached
from ratchet.records.profile import Roof
from ratchet.records.variants import Claim, VariantsCase, VariantsRecord, VariantTime
from ratchet.report.words import NOTHING, aligned
from ratchet.untrusted import clean, log_line, markdown

Holding = Literal["holds", "less", "more", "no gain", "slower", "faster", "undecided", "not measured"]
ROOM = 0.05
"""A claimed factor is rounded: a speed-up that is off by less agrees with it."""
HARDLY = 1.1
"""An interval around 1 that ends below this factor, on both sides, is hardly any gain; a wider one tells nothing."""
OWN, OTHER = 0, 1
"""Places of the improved and of the naive variant."""
COMPUTES = 4
"""FLOPs of a byte from which FLOP/s say more about a case than bytes per second."""
_ANSWERS: dict[Holding, str] = {
    "holds": "yes",
    "less": "faster, less than claimed",
    "more": "faster, more than claimed",
    "no gain": "no, hardly anything",
    "slower": "no, slower",
    "faster": "faster; no figure to hold it to",
    "undecided": "cannot tell: measure with more --pairs",
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


def holding(claim: Claim, interval: tuple[float, float] | None) -> Holding:
    """Compare the interval of a speed-up with a claim; one without a figure holds nowhere, so it is ``faster`` at best."""
    if interval is None:
        return "not measured"
    low, high = interval
    if high < 1:
        return "slower"
    if low <= 1:
        return "no gain" if low >= 1 / HARDLY and high <= HARDLY else "undecided"
    if claim.low is None or claim.high is None:
        return "faster"
    if high < claim.low * (1 - ROOM):
        return "less"
    return "more" if low > claim.high * (1 + ROOM) else "holds"


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


# `ratchet study`: time, work, utilisations and bound of each config and variant, then insights.


RIDGE = 10.0
"""FLOPs of a byte below which a case is taken as bound by memory, where no roof is known: a rule of thumb."""
_RULE, _THIN = "=" * 70, "-" * 70


@dataclass(frozen=True)
class Average:
    """How much faster the benchmark's own variant is than another one: the geometric mean over configs, and its range."""

    own: str
    other: str
    mean: float
    lowest: float
    highest: float

    @property
    def text(self) -> str:
        """Return a sentence without its full stop."""
        said = f"{self.own} is {factor(self.mean)} as fast as {self.other}"
        return f"{said} on average ({factor(self.lowest)} to {factor(self.highest)})" if self.lowest < self.highest else said


def averages(record: VariantsRecord) -> list[Average]:
    """Return the average improvement over each of the other variants that was timed."""
    names = dict.fromkeys(variant.name for case in record.cases for variant in case.variants[1:])
    own = next((case.variants[0].name for case in record.cases if case.variants), "")
    found = []
    for name in names:
        timed = [one.speedup for case in record.cases for one in case.variants[1:] if one.name == name and one.speedup]
        if timed:
            mean = math.exp(sum(map(math.log, timed)) / len(timed))
            found.append(Average(own, name, mean, min(timed), max(timed)))
    return found


def roof_of(record: VariantsRecord, kind: str) -> Roof | None:
    """Return the roof that a study reads its cases against: the datasheet's, else a measured one."""
    return next((roof for roof in record.roofs if roof.kind == kind), None)


def ridge_of(record: VariantsRecord) -> float:
    """Return the FLOPs of a byte at which the two roofs meet; `RIDGE` where one of them is not known."""
    memory, compute = roof_of(record, "dram"), roof_of(record, "compute")
    return compute.rate / memory.rate if memory and compute else RIDGE


def insights(record: VariantsRecord) -> list[str]:
    """Return what the measurements say, a sentence each."""
    lines, ridge, memory = [], ridge_of(record), roof_of(record, "dram")
    intensities = [case.intensity for case in record.cases if case.intensity]
    if intensities:
        bound = "memory bound" if max(intensities) < ridge else "compute bound" if min(intensities) >= ridge else "on both sides"
        where = "the roofs meet at" if memory and roof_of(record, "compute") else "no roof is known, and a rule of thumb says"
        lines.append(f"{_span(intensities)} FLOP/byte, {bound}: {where} {ridge:.3g}.")
    lines += [f"{average.text}." for average in averages(record)]
    reached = [
        (moved / memory.rate, case.config.name, case.variants[0].name)
        for case in record.cases
        if memory and case.variants and (moved := case.rate(case.variants[0], "bytes")) and not _in_cache(case, record)
    ]
    if reached and memory:
        share, config, own = max(reached)
        lines.append(f"{own} reaches {units.percent(share)} of the {memory.source} bandwidth at {config}.")
    if held := [case.config.name for case in record.cases if _in_cache(case, record)]:
        lines.append(f"Timed with data in the L2 cache, which the memory's roof does not limit: {', '.join(held)}.")
    return lines


def study_lines(record: VariantsRecord) -> Iterator[str]:
    """Yield the report."""
    memory, compute = roof_of(record, "dram"), roof_of(record, "compute")
    environment = record.environment
    benchmark = record.cases[0].benchmark if record.cases else ""
    yield from (_RULE, f"ROOFLINE ANALYSIS: {log_line(benchmark)}", _RULE, "")
    yield f"GPU: {log_line(environment.fingerprint.processor)}"
    yield f"Compute Capability: {environment.compute_capability or 'none'}"
    yield f"Peak Memory Bandwidth: {f'{memory.rate / 1e9:.1f} GB/s ({memory.source})' if memory else 'unknown'}"
    peak = f"{compute.rate / 1e9:.1f} GFLOPS ({compute.source})" if compute else "unknown"
    yield f"Peak {(compute.precision or '').upper() if compute else 'FP32'} Performance: {peak}"
    for case in record.cases:
        if case.problem:
            yield from ("", _THIN, log_line(f"{case.name}: {case.problem}", 300))
        for variant in case.variants:
            yield from ("", _THIN, *_variant_lines(case, variant, record, memory, compute))
    yield from ("", _RULE, "KEY INSIGHTS", _RULE)
    yield from (f"{number}. {log_line(text, 300)}" for number, text in enumerate(insights(record), 1))
    yield log_line(f"Measured on {machine_text(record)}, {units.wall(record.wall_s)}.")
    yield from notes_of(record)
    yield _RULE


def _variant_lines(
    case: VariantsCase, variant: VariantTime, record: VariantsRecord, memory: Roof | None, compute: Roof | None
) -> Iterator[str]:
    yield log_line(f"Configuration: {case.config.name}, {variant.name}")
    parameters = case.workload.parameters if case.workload else {}
    yield from (
        log_line(f"  {name}: {value}").replace(log_line(name), f"  {log_line(name)}", 1) for name, value in parameters.items()
    )
    if variant.problem:
        yield f"  Not measured: {log_line(variant.problem, 300)}"
    if variant.median_ms is None or variant.low_ms is None or variant.high_ms is None:
        return
    yield f"  Kernel Time: {variant.median_ms:.4f} ms"
    yield f"  95% interval: {variant.low_ms:.4f} to {variant.high_ms:.4f} ms"
    if variant.speedup and variant.interval:
        low, high = variant.interval
        yield f"  {log_line(case.variants[0].name)} is {factor(variant.speedup)} as fast ({factor(low)} to {factor(high)})"
    moved, done, work = case.rate(variant, "bytes"), case.rate(variant, "flops"), case.workload
    if moved and work and work.bytes:
        yield from ("", "  Memory Metrics:")
        yield f"    Data transferred: {work.bytes / 1e6:.2f} MB"
        yield f"    Bandwidth achieved: {moved / 1e9:.2f} GB/s"
        yield f"    Bandwidth utilization: {_share(moved, memory)}"
        if _in_cache(case, record):
            yield "    Timed with its data in the L2 cache, so the memory's roof does not limit it"
    if done and work and work.flops:
        yield from ("", "  Compute Metrics:")
        yield f"    Total FLOPs: {work.flops / 1e6:.2f} M"
        yield f"    Performance: {done / 1e9:.2f} GFLOPS"
        yield f"    Compute utilization: {_share(done, compute)}"
    if case.intensity:
        yield from ("", f"  Arithmetic Intensity: {case.intensity:.2f} FLOPs/byte", "", "  Bottleneck Analysis:")
        yield from _bottleneck(case.intensity, ridge_of(record))


def _bottleneck(intensity: float, ridge: float) -> tuple[str, ...]:
    if intensity < ridge:
        return (
            f"    ⚠ MEMORY BOUND (AI={intensity:.2f} < {ridge:.3g})",
            "    → Limited by memory bandwidth, not compute",
            "    → Optimization focus: reduce memory traffic",
        )
    return (
        f"    COMPUTE BOUND (AI={intensity:.2f} >= {ridge:.3g})",
        "    → Limited by compute, not memory",
        "    → Optimization focus: increase arithmetic intensity",
    )


def _share(rate: float, roof: Roof | None) -> str:
    return f"{rate / roof.rate * 100:.1f}%" if roof else "unknown (no peak is known)"


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.3g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.3g} to {high:.3g}"


def _in_cache(case: VariantsCase, record: VariantsRecord) -> bool:
    return case.workload is not None and cached(case.workload, record.environment.l2_bytes) is not None


# `ratchet sweep`: GB/s and TFLOP/s of every variant at every size.


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
