"""Text about an evaluation, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ratchet.core import units
from ratchet.core.untrusted import clean
from ratchet.lab.records.evaluation import EvaluationRecord

MIB = 1 << 20


def evaluation_lines(record: EvaluationRecord) -> Iterator[str]:
    """Yield the lines of ``ratchet evaluate``."""
    yield from _figures(record)
    yield f"verdict: {record.verdict}"
    yield clean(record.headline)
    for violation in record.violations:
        if violation.detail:
            yield f"  {clean(violation.detail)}"
    peaks = record.observed.peaks
    if len(peaks) > 1:
        yield f"Peak memory, baseline → candidate: {units.size(peaks['reference'])} → {units.size(peaks['head'])}."
    setup_s = record.observed.setup_s
    if len(setup_s) > 1:
        once = f"{units.duration(setup_s['reference'])} → {units.duration(setup_s['head'])}"
        yield f"One-time setup (importing the file, in no time above), baseline → candidate: {once}."
    probes = record.observed.probes
    if probes and not any(violation.rule != "memory" for violation in record.violations):
        same = [probe.kind for probe in probes if not probe.problem]
        made = f"{clean(record.maker_function)} of {units.plural(len(same), 'seed')}" if record.maker else ""
        yield f"Same results on inputs that neither file had seen: {made or ', '.join(dict.fromkeys(same))}."
    if record.observed.checked_calls:
        yield f"Compared besides: {units.plural(record.observed.checked_calls, 'timed call')}, drawn afterwards."
    yield f"Containment: {describe_containment(record.observed.contained)}."
    for warning in record.warnings:
        yield f"Note: {clean(warning)}"


def _figures(record: EvaluationRecord) -> Iterator[str]:
    """Yield the first lines, which scripts read."""
    for violation in record.violations:
        yield f"Constraint violated: {clean(violation.message)}"
    if record.speedup is not None and record.baseline_ms is not None and record.optimized_ms is not None:
        yield f"speedup: {record.speedup:.4f}"
        yield f"baseline_ms: {record.baseline_ms:.4f}"
        yield f"optimized_ms: {record.optimized_ms:.4f}"
        yield f"kernel_time_ms: {record.optimized_ms:.4f}"
    peaks = record.observed.peaks
    if "head" in peaks:
        yield f"peak_memory_mb: {peaks['head'] / MIB:.2f}"
    if "head" in record.observed.held:
        yield f"current_memory_mb: {record.observed.held['head'] / MIB:.2f}"


_MEANING = {
    "pid": "processes of their own",
    "ipc": "shared memory of their own",
    "net": "no network",
    "mount": "files read-only",
    "cores": "cores and priority fixed",
    "limits": "number of processes limited",
}


def describe_containment(parts: Sequence[str]) -> str:
    """Say what confined the files, and what this machine did not allow."""
    missing = [meaning for part, meaning in _MEANING.items() if part not in parts]
    held = ", ".join(meaning for part, meaning in _MEANING.items() if part in parts)
    if not missing:
        return f"full ({held})"
    return f"{f'partial ({held}' if held else 'none ('}{'; ' if held else ''}not here: {', '.join(missing)})"
