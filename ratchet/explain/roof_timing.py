"""Measured roofs of a machine: benchmarks that come with ratchet, timed once where a command needs roofs and has none.

`ratchet variants`, with or without --roofline, calls `roofs_of`, which writes ``results/roofs.json``, a recorded run. Profiles
take `stored_roofs`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ratchet.core.bench.suite import CaseTask, measure_suite
from ratchet.core.command_result import record_of
from ratchet.core.config import Settings
from ratchet.core.errors import RatchetError
from ratchet.core.judge.roofs import Roofs, measured_roofs
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import Machine, environment_of, plan_of
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.files import load, save
from ratchet.core.records.run import RunRecord, Tree
from ratchet.core.report.progress import Progress
from ratchet.core.trees import tree_spec

FILE = "roofs.json"
SHIPPED = Path(__file__).parent / "shipped"
PAIRS, BLOCKS = 3, 4
"""Fresh processes for each roof, and turns in each: the best of these is a roof to a few per cent."""


def stored_roofs(results: Path, fingerprint: Fingerprint) -> Roofs | None:
    """Return the roofs that were measured on this machine; None where there are none, or the file cannot be read."""
    with contextlib.suppress(RatchetError):
        run = load(results / FILE, RunRecord)
        if run.environment.fingerprint == fingerprint:
            return measured_roofs(run.cases, {}, run.environment.l2_bytes)
    return None


def roofs_of(machine: Machine, settings: Settings, results: Path, progress: Progress, environ: Mapping[str, str]) -> Roofs:
    """Return the roofs of a machine that is held: those of an earlier call, else measured now.

    Raises as `measure_suite` does.
    """
    if known := stored_roofs(results, environment_of(machine).fingerprint):
        return known
    progress.stage("Measuring the roofs of this machine")
    few = {"bench": "roofs", "pairs": PAIRS, "blocks": min(settings.blocks, BLOCKS), "placements": 1}
    settings = settings.model_copy(update=few)
    clock, started = time.monotonic(), datetime.now(UTC)
    task = CaseTask(
        plan_of(settings, machine.device),
        (),
        settings.confidence,
        Rule((PAIRS,)),
        compared=False,
        gpu=machine.gpu,
        idle=machine.idle,
    )
    suite = measure_suite({"head": tree_spec(settings, machine, SHIPPED, SHIPPED)}, task, progress, environ)
    timing = (started, time.monotonic() - clock)
    run = record_of("run", ("ratchet", "variants", "--roofline"), settings, machine, suite, timing, Tree(commit=""))
    save(results / FILE, run)
    return measured_roofs(run.cases, {}, run.environment.l2_bytes)
