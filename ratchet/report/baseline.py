"""The baseline file as lines of text."""

from __future__ import annotations

from ratchet import units
from ratchet.records.baseline import Baseline
from ratchet.report.escape import log_line


def baseline_lines(stored: Baseline, path: str) -> list[str]:
    """One block for each kind of machine, one line for each case."""
    if not stored.fingerprints:
        return [f"{path}: no baseline yet. Measure with `ratchet check`, then `ratchet baseline record`."]
    lines = []
    for key, part in stored.fingerprints.items():
        machine = part.fingerprint
        software = [
            f"driver {machine.driver}" if machine.driver else "",
            f"CUDA {machine.cuda}" if machine.cuda else "",
            f"torch {machine.torch}",
        ]
        lines += [log_line(f"{machine.gpu or machine.cpu} ({', '.join(word for word in software if word)}) [{key}]")]
        names = {name: log_line(name) for name in part.configs}  # before padding, which it would take away
        width = max((len(name) for name in names.values()), default=0)
        for name, entry in part.configs.items():
            interval = f"[{units.duration(entry.ci_95_low * 1e-3)}, {units.duration(entry.ci_95_high * 1e-3)}]"
            when = f"{entry.git_commit[:10]}  {entry.timestamp:%Y-%m-%d}"
            lines.append(f"  {names[name]:<{width}}  {units.duration(entry.median_ms * 1e-3):>10}  {interval:<24}  {when}")
    return lines
