"""What every reader of a report hands on: per launch the metrics by their own names, before anything is made of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ratchet.records.profile import Rule


class RawKernel(BaseModel):
    """One launch as it stands in the report. The metrics are in base units, and may still hold what is not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    metrics: dict[str, float] = {}
    texts: dict[str, str] = {}
    """Metrics that are words: the GPU's name, the cache preference."""
    constant_moves: float | None = None
    """Thread instructions of half precision that only put a constant into a register; None where nothing says how many."""
    rules: tuple[Rule, ...] = ()


_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BASES = ("byte", "hz", "inst", "sector", "request", "thread", "warp", "block", "cycle", "register", "B", "op")
_SCALES: dict[str, float] = {
    **{f"{prefix}{base}": factor for prefix, factor in _PREFIXES.items() if factor >= 1 for base in _BASES},
    **dict.fromkeys(("ns", "nsecond"), 1.0),
    **dict.fromkeys(("us", "usecond"), 1000.0),
    **dict.fromkeys(("ms", "msecond"), 1000000.0),
    **dict.fromkeys(("s", "second"), 1000000000.0),
    "Kibyte": 2.0**10,
    "Mibyte": 2.0**20,
    "Gibyte": 2.0**30,
}
_SECONDS = {"s": 1.0, "second": 1.0, "ns": 1e9, "nsecond": 1e9, "us": 1e6, "usecond": 1e6, "ms": 1e3, "msecond": 1e3}


def in_base_units(value: float, unit: str) -> float:
    """A figure as Nsight Compute's own base units have it: nanoseconds, bytes, bytes per second, hertz.

    ``unit`` is what stands beside it in the report (``Gbyte/s``, ``us``); a unit that is not known, like ``%``, stays.
    """
    amount, slash, per = unit.partition("/")
    if not slash:
        return value * _SCALES.get(unit, 1.0)
    return value * _SCALES.get(amount, 1.0) * _SECONDS.get(per, 1.0)
