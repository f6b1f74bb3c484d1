"""Where the thresholds come from that the trusted job judges by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.core import units
from ratchet.core.config import Settings, tool_table


def origin_of_thresholds(
    settings: Settings, text: str, place: str, environ: Mapping[str, str], options: Mapping[str, Any]
) -> str:
    """Say both thresholds and where each comes from: ``gate 3 %, improvement 5 % from pyproject.toml of main at 533226cf33``.

    The arguments are those of `settings_from`; ``place`` names the file and its commit.
    """
    table = tool_table(text, place) or {}
    origins: dict[str, list[str]] = {}
    for key, word in (("regression_threshold", "gate"), ("improvement_threshold", "improvement")):
        if options.get(key) is not None:
            origin = "an option of this command"
        elif environ.get(f"RATCHET_{key.upper()}"):
            origin = f"this workflow, not from {place}"
        else:
            origin = place if key in table else f"the defaults, since {place} sets none"
        value = getattr(settings, key)
        origins.setdefault(origin, []).append(f"{word} {value if value == 'auto' else units.threshold(value)}")
    return "; ".join(f"{', '.join(values)} from {origin}" for origin, values in origins.items())
