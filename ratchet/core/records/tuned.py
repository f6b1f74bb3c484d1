"""Files that a search leaves in a checkout: its folder, and ``bench/tuned.json``, the values that benchmarks use from then on."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, model_validator

from ratchet.core.records import Count, Positive, Record
from ratchet.core.workload import Parameter

TUNING_FOLDER = "tuning"
"""Folder in the repository, unless the user names another."""
SUGGESTIONS = "suggestions.md"
EARLIER = "earlier"
"""Folder within it for records that a new one replaced: never read as the present record of a case."""
_KEYED = f"*.{'[0-9a-f]' * 10}"
"""Pattern of the names that `tuning_path` makes."""
WRITTEN = (SUGGESTIONS, f"{EARLIER}/**", *(f"{_KEYED}.{kind}" for kind in ("json", "png", "svg")))
"""Globs of the files that a search leaves in the folder; pictures are of earlier releases."""


TUNED_FILE = "tuned.json"
"""Name of the file in the folder of benchmarks of a tree."""


class TunedCase(Record):
    """Parameters that replace a workload's own ``tuning`` on one kind of GPU, and why."""

    parameters: dict[str, Parameter]
    """One value for each parameter of the workload's ``tune``."""
    speedup: Positive
    """The default's time over this one's: above 1 is faster."""
    speedup_low: Positive
    speedup_high: Positive
    confidence: Positive
    pairs: Count
    default: dict[str, Parameter]
    """The configuration that it was compared with."""
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
    """Case → device (see `Fingerprint.processor`) → what is used there."""

    def parameters(self, case: str, device: str) -> dict[str, Parameter]:
        """Return the applied parameters; empty where nothing was applied for this case on this device."""
        tuned = self.cases.get(case, {}).get(device)
        return dict(tuned.parameters) if tuned else {}
