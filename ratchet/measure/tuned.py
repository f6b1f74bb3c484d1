"""``bench/tuned.json`` of a tree, laid over its workloads' own tuning: each side of a check reads its own tree's file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.errors import UsageError
from ratchet.records.files import load
from ratchet.records.tuned import TUNED_FILE, Tuned
from ratchet.workload import Workload


def read_tuned(folder: Path) -> Tuned:
    """What was applied in a folder of benchmarks; nothing where there is no such file. Raises RecordError."""
    path = folder / TUNED_FILE
    return load(path, Tuned) if path.exists() else Tuned()


def overlaid(workload: Workload, tuned: Tuned, case: str, device: str) -> Workload:
    """The workload with what was applied for this case on this device (see `ratchet.records.tuned.device_name`).

    Raises UsageError where the file has a parameter or a value that the workload's ``tune`` has not.
    """
    parameters = tuned.parameters(case, device)
    return with_tuning(workload, parameters, f"{TUNED_FILE} for {case} on {device}") if parameters else workload


def with_tuning(workload: Workload, tuning: Mapping[str, Any], where: str) -> Workload:
    """The workload with other values of all its parameters. Raises UsageError, which begins with ``where``."""
    hint = "Tune it again, or take the entry out."
    if set(tuning) != set(workload.tune):
        raise UsageError(f"{where}: it names {sorted(tuning)}, the workload's tune {sorted(workload.tune)}.", hint)
    for name, value in tuning.items():
        if value not in workload.tune[name]:
            raise UsageError(f"{where}: {name}={value} is not among {list(workload.tune[name])}.", hint)
    try:
        return dataclasses.replace(workload, tuning=dict(tuning))
    except ValueError as error:  # a constraint
        raise UsageError(f"{where}: {error}.", hint) from None
