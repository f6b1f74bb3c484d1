"""Carry out `ratchet compare --replay`: judge recorded pairs again as they are, or many simulated pull requests drawn from them.

It reads runs, and archives that end in ``.npz``; it measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.errors import UsageError
from ratchet.core.judge.comparison import Pair, pairs_of_medians
from ratchet.core.judge.evidence import session_of
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord
from ratchet.core.request import Request, load_baseline, settings_of
from ratchet.core.units import did_you_mean
from ratchet.core.untrusted import clean
from ratchet.trust.archive import load_archive
from ratchet.trust.calibration_report import ReplayedFile, Simulation
from ratchet.trust.replay_rule import Pools, ReplayVerdict, judge_pairs, pool_of, simulate

ARCHIVE = ".npz"


def replay(files: Sequence[Path], request: Request, environ: Mapping[str, str]) -> list[ReplayedFile]:
    """Judge the record in each file: a run by the thresholds given, else by its own; other pairs by the settings.

    Raises RecordError for a file that is neither a run nor an archive, UsageError for a pattern that matches no case.
    """
    root, settings = settings_of(request, environ)
    baseline = load_baseline(root / settings.results)
    names: list[str] = []
    done = []
    for file, recorded in _recorded(files):
        names += _names(recorded)
        chosen = _chosen(recorded, request.patterns)
        if isinstance(chosen, RunRecord):
            report = judge_run(chosen, baseline, settings.overriding(chosen.policy, request.options))
            done.append(ReplayedFile(file, ReplayVerdict(report.cases, report.headline, report.exit_code), report))
        else:
            done.append(ReplayedFile(file, judge_pairs(chosen, settings.policy)))
    _refuse_unmatched(names, request.patterns, names, "--cases")
    return [replayed for replayed in done if replayed.judged.cases] or done


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
    names: list[str] = []
    pools: dict[str, list[Pair]] = {}
    for _, recorded in _recorded(files):
        names += _names(recorded)
        chosen = _chosen(recorded, request.patterns)
        of_file = {case.name: pool_of(case) for case in chosen.cases} if isinstance(chosen, RunRecord) else chosen
        for name, pairs in of_file.items():
            pools.setdefault(name, []).extend(pairs)
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


def _recorded(files: Sequence[Path]) -> Iterator[tuple[Path, RunRecord | Pools]]:
    for file in files:
        yield file, (pools_in(file) if file.suffix == ARCHIVE else load(file, RunRecord))


def pools_in(file: Path) -> Pools:
    """Return the pairs of every case of an archive. Raises RecordError as `load_archive` does.

    An archive does not say which hosts they come from: they count as the sessions of a check.
    """
    return {
        name: pairs_of_medians(
            np.median(sides.head, axis=2).tolist(),
            np.median(sides.reference, axis=2).tolist(),
            [session_of(pair) for pair in range(len(sides.head))],
        )
        for name, sides in load_archive(file).items()
    }


def _names(recorded: RunRecord | Pools) -> list[str]:
    return [case.name for case in recorded.cases] if isinstance(recorded, RunRecord) else list(recorded)


def _chosen(recorded: RunRecord | Pools, patterns: Sequence[str]) -> RunRecord | Pools:
    """Return only the cases that a pattern selects."""
    kept = set(select(_names(recorded), patterns))
    if not isinstance(recorded, RunRecord):
        return {name: pairs for name, pairs in recorded.items() if name in kept}
    narrowed = {field: tuple(case for case in getattr(recorded, field) if case.name in kept) for field in ("cases", "best")}
    return recorded.model_copy(update=narrowed)


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
