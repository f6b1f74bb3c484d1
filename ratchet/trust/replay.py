"""Carry out `ratchet compare --replay`: judge recorded pairs again as they are, or many simulated pull requests drawn from them.

It reads runs, and archives that end in ``.npz``; it measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.errors import UsageError
from ratchet.core.judge.comparison import Pair
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.files import load
from ratchet.core.records.run import Policy, RunRecord
from ratchet.core.request import Request, load_baseline, settings_of
from ratchet.core.units import did_you_mean
from ratchet.core.untrusted import clean
from ratchet.trust.archive import run_of_archive
from ratchet.trust.calibration_report import ReplayedFile, Simulation
from ratchet.trust.replay_rule import pool_of, simulate

ARCHIVE = ".npz"


def replay(files: Sequence[Path], request: Request, environ: Mapping[str, str]) -> list[ReplayedFile]:
    """Judge the record in each file: a run by the thresholds given, else by its own; an archive by the settings.

    Raises RecordError for a file that is neither a run nor an archive, UsageError for a pattern that matches no case.
    """
    root, settings = settings_of(request, environ)
    baseline = load_baseline(root / settings.results)
    runs = [_run_in(file, settings.policy) for file in files]
    names = [case.name for run in runs for case in run.cases]
    _refuse_unmatched(names, request.patterns, names, "--cases")
    done = []
    for file, run in zip(files, runs, strict=True):
        kept = set(select([case.name for case in run.cases], request.patterns))
        narrowed = {field: tuple(case for case in getattr(run, field) if case.name in kept) for field in ("cases", "best")}
        report = judge_run(run.model_copy(update=narrowed), baseline, settings.overriding(run.policy, request.options))
        done.append(ReplayedFile(file, report))
    return [replayed for replayed in done if replayed.report.cases] or done


def replay_simulated(
    files: Sequence[Path], request: Request, runs: int, seed: int, plants: Sequence[str], environ: Mapping[str, str]
) -> Simulation:
    """Draw pull requests from the pairs of all files together; each of ``plants`` is ``CASE=FACTOR``, the case maybe a glob.

    A factor is head time over reference time. Raises as `replay` does, and UsageError for a plant without a case or a valid
    factor and for files without pairs.
    """
    if runs < 1:
        raise UsageError(f"--simulate {runs}: that is too few pull requests to say anything.", "Draw 1 or more.")
    factors = dict(_factor(plant) for plant in plants)
    _, settings = settings_of(request, environ)
    cases = [case for file in files for case in _run_in(file, settings.policy).cases]
    names = [case.name for case in cases]
    kept = set(select(names, request.patterns))
    pools: dict[str, list[Pair]] = {}
    for case in cases:
        if case.name in kept:
            pools.setdefault(case.name, []).extend(pool_of(case))
    known = [name for name, pool in pools.items() if pool]
    _refuse_unmatched(known, request.patterns, names, "--cases")
    if not known:
        raise UsageError("There are no pairs in these files to draw from.", "Take runs of `ratchet check`: they have two sides.")
    _refuse_unmatched(known, list(factors), names, "--plant")
    planted = {name: factor for pattern, factor in factors.items() for name in select(known, [pattern])}
    drawn = {name: pools[name] for name in known}
    rates = simulate(drawn, settings.policy, pairs=settings.pairs, runs=runs, seed=seed, planted=planted)
    recorded_pairs = {name: len(pool) for name, pool in pools.items()}
    return Simulation(rates, settings.policy, settings.pairs, seed, planted, recorded_pairs)


def _run_in(file: Path, policy: Policy) -> RunRecord:
    return run_of_archive(file, policy) if file.suffix == ARCHIVE else load(file, RunRecord)


def _factor(plant: str) -> tuple[str, float]:
    """Parse ``copy=1.035`` into the case and its factor. Raises UsageError."""
    name, equals, text = plant.rpartition("=")
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (name and equals and 0 < factor < math.inf):
        raise UsageError(
            f"--plant {plant} is not CASE=FACTOR with a factor above 0.", "Write --plant copy=1.035 for 3.5 % slower."
        )
    return name, factor


def _refuse_unmatched(known: Sequence[str], patterns: Sequence[str], names: Sequence[str], option: str) -> None:
    """Raise UsageError for a pattern that matches none of ``known``, the usable ones of all recorded ``names``."""
    listed = list(dict.fromkeys(names))
    for pattern in unmatched(known, patterns):
        if unmatched(listed, [pattern]):
            meant = did_you_mean(pattern, listed) or f"There are {', '.join(listed[:8])}."
            raise UsageError(f"{option}: no recorded case is called {pattern}.", clean(meant))
        raise UsageError(
            f"{option}: there are no pairs of {pattern} to draw from.", "Choose it with --cases too, or leave it out."
        )
