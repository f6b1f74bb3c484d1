"""Read the measured roofs of a machine from ``results/roofs.json``, a recorded run that `ratchet.explain.roof_timing` writes."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ratchet.core.errors import RatchetError
from ratchet.core.judge.roofs import Roofs, measured_roofs
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord

FILE = "roofs.json"


def stored_roofs(results: Path, fingerprint: Fingerprint) -> Roofs | None:
    """Return the roofs that were measured on this machine; None where there are none, or the file cannot be read."""
    with contextlib.suppress(RatchetError):
        run = load(results / FILE, RunRecord)
        if run.environment.fingerprint == fingerprint:
            return measured_roofs(run.cases, {}, run.environment.l2_bytes)
    return None
