"""Advice on a trace of torch.profiler: which antipatterns it shows, where, what each costs, and what to do.

`ratchet.explain.advise_command` calls `advise`. `trace` reads a file, `timeline` accounts for its time, `rules` name what is
wrong, and the checklist answers the ten questions of an optimiser from the same data. No torch, no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.common.records import ChecklistAnswer
from ratchet.core.units import duration, percent, plural
from ratchet.explain.advice.patterns import FLOOR, PATTERNS
from ratchet.explain.advice.rules import findings
from ratchet.explain.advice.timeline import WAITS, WARM, Timeline, timeline
from ratchet.explain.advice.trace import ProfilerTrace
from ratchet.explain.records import Advice, AdviceFinding


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


# The ten questions that an optimiser asks before any change, answered where the timeline and its findings have the data.


UNSEEN = "not visible in this trace"


def checklist(line: Timeline, found: Sequence[AdviceFinding]) -> tuple[ChecklistAnswer, ...]:
    """Return ten answers, in the order of the questions."""
    first = next((finding for finding in found if finding.category != "correctness"), None)
    stages = _stages(line)
    answers = {
        "Pattern": f"none that costs enough, {percent(FLOOR)} at least",
        "Hot path": "",
        "Pipeline stage": ", ".join(f"{name} {percent(us / line.window_us)}" for name, us in stages.items() if us > 0),
        "Transfer or compute": _transfer_or_compute(stages) if line.gpu else "",
        "Per call or amortized": "",
        "GPU warm": "",
        "Mechanism": "",
        "Correctness": "",
        "CUDA graphs": _graphs(line, first) if line.gpu else "",
        "Cheap check": "",
    }
    if line.gpu:
        steady, whole = f"yes: the first {percent(WARM)} of the repetitions are left out", "nothing repeats, so warm-up is in it"
        answers["GPU warm"] = steady if line.is_steady else whole
    if first is not None:
        pattern = PATTERNS[first.pattern]
        answers |= {
            "Pattern": f"{first.pattern} [{first.category}]",
            "Hot path": f"confirmed by torch.profiler: {percent(first.share)} of the steady part",
            "Per call or amortized": "fixed for each call" if pattern.is_per_call else "grows with the size of the data",
            "Mechanism": first.do,
            "Correctness": pattern.numbers,
        }
        if line.gpu and first.times:
            each = duration(first.lost_us / first.times * 1e-6)
            answers["Cheap check"] = f"time it with CUDA events: up to {each} can be gained each time, {first.times} times"
    return tuple(ChecklistAnswer(question=name, answer=text or UNSEEN, from_data=bool(text)) for name, text in answers.items())


def _graphs(line: Timeline, first: AdviceFinding | None) -> str:
    """Say whether graphs are used, and what would break the capture of one."""
    launches = sum("GraphLaunch" in event.name for event in line.calls)
    if launches:
        return f"used: {launches} launches of a graph"
    parts = ["not used", PATTERNS[first.pattern].capture if first else ""]
    if count := sum(event.name in WAITS for event in line.calls):
        parts.append(f"{plural(count, 'wait')} of the host would have to stay outside")
    return "; ".join(filter(None, parts))


def _stages(line: Timeline) -> dict[str, float]:
    """Return the time of each stage of a pipeline, as far as events tell them apart."""
    causes = {"host preparing": ("loader", "python"), "host launching and waiting": ("dispatch", "sync", "allocation")}
    stages = {name: sum(piece.us for piece in line.pieces if piece.cause in causes[name]) for name in causes}
    if not line.gpu:
        return {"loader and Python": stages["host preparing"], "operators": stages["host launching and waiting"]}
    stages["H2D"] = sum(work.dur for work in line.gpu if "HtoD" in work.name)
    stages["D2H"] = sum(work.dur for work in line.gpu if "DtoH" in work.name)
    stages["kernels"] = sum(work.dur for work in line.gpu if work.kind == "kernel")
    return stages


def _transfer_or_compute(stages: dict[str, float]) -> str:
    transfer, compute = stages["H2D"] + stages["D2H"], stages["kernels"]
    host = stages["host preparing"] + stages["host launching and waiting"]
    largest = max((transfer, "transfer"), (compute, "compute"), (host, "neither: the GPU waits for the host"))
    return f"{largest[1]} ({duration(largest[0] * 1e-6)} of {duration((transfer + compute + host) * 1e-6)})"
