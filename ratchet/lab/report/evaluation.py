"""Text about an evaluation, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.untrusted import clean
from ratchet.lab.records.evaluation import EvaluationRecord

MIB = 1 << 20


def evaluation_lines(record: EvaluationRecord) -> Iterator[str]:
    """Yield the lines of ``ratchet evaluate``."""
    for violation in record.violations:
        yield f"Constraint violated: {clean(violation.message)}"
    if record.speedup is not None and record.baseline_ms is not None and record.optimized_ms is not None:
        yield f"speedup: {record.speedup:.4f}"
        yield f"baseline_ms: {record.baseline_ms:.4f}"
        yield f"optimized_ms: {record.optimized_ms:.4f}"
        yield f"kernel_time_ms: {record.optimized_ms:.4f}"
    if record.peak_bytes is not None:
        yield f"peak_memory_mb: {record.peak_bytes / MIB:.2f}"
    yield f"verdict: {record.verdict}"
    yield clean(record.headline)
    for violation in record.violations:
        if violation.detail:
            yield f"  {clean(violation.detail)}"
    if record.baseline_peak_bytes is not None and record.peak_bytes is not None:
        both = f"{units.size(record.baseline_peak_bytes)} → {units.size(record.peak_bytes)}"
        yield f"Peak memory, baseline → candidate: {both}."
    compared = [probe for probe in record.probes if not probe.skipped]
    if compared and not any(violation.rule != "memory" for violation in record.violations):
        same = [probe.kind for probe in compared if not probe.problem]
        made = f"{clean(record.maker_function)} of {units.plural(len(same), 'seed')}" if record.maker else ""
        yield f"Same results on inputs that neither file had seen: {made or ', '.join(dict.fromkeys(same))}."
    for probe in record.probes:
        if probe.skipped:
            yield f"Not compared on {probe.kind} inputs: {clean(probe.skipped)}."
    for side, kernels in record.kernels.items():
        name = "baseline" if side == "reference" else "candidate"
        yield f"Kernels of the {name}: {', '.join(clean(kernel, 80) for kernel in kernels) or 'none'}."
    for warning in record.warnings:
        yield f"Note: {clean(warning)}"


def verified_line(before: EvaluationRecord, now: EvaluationRecord) -> str:
    """Compare an evaluation with the certificate that it ran again."""
    speeds = " and ".join(f"{one.speedup:.4f}" if one.speedup else "no speed-up" for one in (before, now))
    same = "confirmed" if before.verdict == now.verdict else "NOT confirmed"
    other = "" if before.evaluator == now.evaluator else " The evaluator is another version."
    return f"Certificate {same}: {before.verdict} then, {now.verdict} now ({speeds}).{other}"
