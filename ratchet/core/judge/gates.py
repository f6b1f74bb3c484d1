"""Gates on what a case takes besides time: memory, spilled registers, registers, machine code, launches. Pure.

These figures are exact: the driver, or the allocator, tells them of both sides in one run, so no interval is needed. Each grows
past its gate or does not. ``warn`` says so in the report; a fraction is a gate that fails the case.
"""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.records.run import SIDES, CaseRun, GateName, Policy, Side

WARNS: dict[GateName, float] = {"memory": 0.1, "spills": 0.0}
"""What is worth a sentence unless the settings say otherwise, and the growth from which on."""
LEAST_MORE_BYTES = 1 << 20
"""An allocator's rounding is no growth."""


_SENTENCES: dict[GateName, str] = {
    "memory": "A call takes {} of memory; the reference takes {}",
    "spills": "A thread spills up to {} of registers to memory; in the reference {}",
    "registers": "A thread uses up to {} registers; in the reference {}",
    "code_size": "Its kernels have {} of machine code; in the reference {}",
    "launches": "A call launches {} kernels; in the reference {}",
}
"""Sentences about a figure of the head and one of the reference."""


def growths(case: CaseRun, policy: Policy) -> Iterator[tuple[str, bool]]:
    """Yield a sentence about each figure that grew past its gate, and whether that fails the case."""
    for name, sentence in _SENTENCES.items():
        gate = policy.gates.get(name, "warn" if name in WARNS else "off")
        if gate == "off" or (figures := _figures(case, name)) is None:
            continue
        head, reference = figures["head"], figures["reference"]
        limit = WARNS.get(name, 0.0) if gate == "warn" else gate
        least = LEAST_MORE_BYTES if name == "memory" else 1
        if head - reference < least or head <= reference * (1 + limit):
            continue
        gated = f", past the gate of {units.threshold(limit)} more" if limit else ", where any growth fails"
        past = "" if gate == "warn" else gated
        yield f"{sentence.format(_shown(name, head), _shown(name, reference))}{past}.", gate != "warn"


def _shown(name: GateName, figure: int) -> str:
    if name in ("memory", "code_size"):
        return units.size(figure)
    return units.plural(figure, "byte") if name == "spills" else str(figure)


def _figures(case: CaseRun, name: GateName) -> dict[Side, int] | None:
    """Return a figure of both sides; None unless both are known."""
    if name == "memory":
        head, reference = case.performance, case.reference_performance
        return {"head": head.peak_memory_bytes, "reference": reference.peak_memory_bytes} if head and reference else None
    if len(case.resources) < len(SIDES):
        return None
    return {side: int(getattr(case.resources[side], name)) for side in SIDES}
