"""Advice on a trace of torch.profiler: which antipatterns it shows, where, what each costs, and what to do.

`ratchet.commands.advise` calls `advise`. `trace` reads a file, `timeline` accounts for its time, `rules` name what is wrong, and
`checklist` answers the ten questions of an optimiser from the same data. No torch, no GPU.
"""

from __future__ import annotations

from ratchet.profile.advice.checklist import checklist
from ratchet.profile.advice.rules import FLOOR, findings
from ratchet.profile.advice.timeline import timeline
from ratchet.profile.advice.trace import ProfilerTrace
from ratchet.records.advice import Advice


def advise(trace: ProfilerTrace, source: str) -> Advice:
    """Return what a trace shows."""
    line = timeline(trace)
    found = findings(line)
    ends = max(event.end for event in (*trace.host, *trace.gpu))
    return Advice(
        source=source,
        gpu=trace.gpu_name,
        steady_us=line.window_us,
        traced_us=ends - min(event.start for event in (*trace.host[:1], *trace.gpu[:1])),
        gpu_busy=min(1.0, line.busy_us / line.window_us) if line.gpu and line.window_us else None,
        floor=FLOOR,
        findings=tuple(found),
        checklist=checklist(line, found),
    )
