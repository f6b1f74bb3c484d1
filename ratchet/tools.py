"""The tools beside the core. The core names no tool anywhere else: it finds here what each one adds, and imports it by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ratchet.records.run import RunRecord

WORKER_MODULES = (
    "ratchet.measure.child.trace",
    "ratchet.measure.child.experiment",
    "ratchet.measure.child.evaluation",
    "ratchet.measure.child.trials",
)
"""Modules whose ``OPERATIONS`` say what a worker answers beside what timing needs: name of a request → function of the worker."""


RECORDS = {
    "profiles": ("ratchet.records.profile", "Profiles"),
    "roofline": ("ratchet.records.profile", "Roofline"),
    "tuning": ("ratchet.records.tuning", "TuningRecord"),
    "history": ("ratchet.records.history", "HistoryRun"),
}
"""Kinds of files that cross a machine → module and class."""


def worker_operations() -> dict[str, Callable[..., dict[str, Any]]]:
    """Import these modules, and return what they let a worker answer."""
    return {name: answer for module in WORKER_MODULES for name, answer in importlib.import_module(module).OPERATIONS.items()}


def importer() -> Callable[..., RunRecord]:
    """Return what makes a run of files of another harness: files, its format if that is known, settings, and the command."""
    return cast("Callable[..., RunRecord]", importlib.import_module("ratchet.commands.import_results").run_of)


def records() -> dict[str, Any]:
    """Return the classes of `RECORDS`."""
    return {kind: getattr(importlib.import_module(module), name) for kind, (module, name) in RECORDS.items()}


def keep_runs() -> Callable[..., None]:
    """Return what keeps judged runs: the folder of results, pairs of run and report, and the baseline that they led to."""
    return cast("Callable[..., None]", importlib.import_module("ratchet.commands.history").keep_runs)
