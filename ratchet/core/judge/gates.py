"""Gates on what a case takes besides time: memory, spilled registers, registers, machine code, launches. Pure.

These figures are exact: the driver, or the allocator, tells them of both sides in one run, so no interval is needed. Each grows
past its gate or does not. ``warn`` says so in the report; a fraction is a gate that fails the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ratchet.core import units
from ratchet.core.records.run import SIDES, CaseRun, GateName, Policy, Side

WARNS: dict[GateName, float] = {"memory": 0.1, "spills": 0.0}
"""What is worth a sentence unless the settings say otherwise, and the growth from which on."""
LEAST_MORE_BYTES = 1 << 20
"""An allocator's rounding is no growth."""


@dataclass(frozen=True)
class _Quantity:
    text: str
    """A sentence about a figure of the head and one of the reference."""
    shown: Callable[[float], str]
    least: float = 1.0
    """A smaller growth is none."""


def _bytes(value: float) -> str:
    return units.plural(round(value), "byte")


def _number(value: float) -> str:
    return f"{value:.0f}"


_QUANTITIES: dict[GateName, _Quantity] = {
    "memory": _Quantity("A call takes {} of memory; the reference takes {}", units.size, LEAST_MORE_BYTES),
    "spills": _Quantity("A thread spills up to {} of registers to memory; in the reference {}", _bytes),
    "registers": _Quantity("A thread uses up to {} registers; in the reference {}", _number),
    "code_size": _Quantity("Its kernels have {} of machine code; in the reference {}", units.size),
    "launches": _Quantity("A call launches {} kernels; in the reference {}", _number),
}


def growths(case: CaseRun, policy: Policy) -> Iterator[tuple[str, bool]]:
    """Yield a sentence about each figure that grew past its gate, and whether that fails the case."""
    for name, quantity in _QUANTITIES.items():
        gate = policy.gates.get(name, "warn" if name in WARNS else "off")
        if gate == "off" or (figures := _figures(case, name)) is None:
            continue
        head, reference = figures["head"], figures["reference"]
        limit = WARNS.get(name, 0.0) if gate == "warn" else gate
        if head - reference < quantity.least or head <= reference * (1 + limit):
            continue
        gated = f", past the gate of {units.threshold(limit)} more" if limit else ", where any growth fails"
        past = "" if gate == "warn" else gated
        yield f"{quantity.text.format(quantity.shown(head), quantity.shown(reference))}{past}.", gate != "warn"


def _figures(case: CaseRun, name: GateName) -> dict[Side, float] | None:
    """Return a figure of both sides; None unless both are known."""
    if name == "memory":
        head, reference = case.performance, case.reference_performance
        return {"head": head.peak_memory_bytes, "reference": reference.peak_memory_bytes} if head and reference else None
    if len(case.resources) < len(SIDES):
        return None
    return {side: float(getattr(case.resources[side], name)) for side in SIDES}
