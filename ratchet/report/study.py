"""The study of a benchmark's variants as text: time, work, utilisations and bound of each config and variant, then insights.

`ratchet study` prints it; `ratchet.report.figures.study` takes its insights. Bytes and FLOPs are those that the work needs, as
the benchmark declares them: what a variant moves beyond that shows as a lower rate. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet import units
from ratchet.judge.profile import cached
from ratchet.records.profile import Roof
from ratchet.records.variants import VariantsCase, VariantsRecord, VariantTime
from ratchet.report.quickwins import factor, machine_text, notes_of
from ratchet.untrusted import log_line

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
