"""``bench/tuned.json``: the parameters that a search recommended and somebody applied, for each case and GPU."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, model_validator

from ratchet.records.base import Count, Positive, Record
from ratchet.records.environment import Fingerprint
from ratchet.workload import Parameter

TUNED_FILE = "tuned.json"
"""In the folder of benchmarks of a tree."""


class TunedCase(Record):
    """What stands in for a workload's own ``tuning`` on one kind of GPU, and why."""

    parameters: dict[str, Parameter]
    """One value for each parameter of the workload's ``tune``."""
    speedup: Positive
    """The default's time over this one's: above 1 is faster."""
    speedup_low: Positive
    speedup_high: Positive
    confidence: Positive
    pairs: Count
    default: dict[str, Parameter]
    """What it was compared with."""
    commit: str
    """Of the tree in which it was measured."""
    date: AwareDatetime
    driver: str | None = None
    cuda: str | None = None
    torch: str
    triton: str | None = None

    @model_validator(mode="after")
    def _is_an_improvement(self) -> TunedCase:
        if not 1 < self.speedup_low <= self.speedup <= self.speedup_high:
            raise ValueError("speedup lies within its interval, and the interval above 1")
        return self


class Tuned(Record):
    """The whole file."""

    schema_version: Literal[1] = 1
    cases: dict[str, dict[str, TunedCase]] = {}
    """Case → device (see `device_name`) → what is used there."""

    def parameters(self, case: str, device: str) -> dict[str, Parameter]:
        """Empty where nothing was applied for this case on this device."""
        found = self.cases.get(case, {}).get(device)
        return dict(found.parameters) if found else {}


def device_name(fingerprint: Fingerprint) -> str:
    """``NVIDIA H200``; on a CPU, that of the CPU."""
    return fingerprint.gpu or fingerprint.cpu
