"""`ratchet tune --replay`: the same search, over a space that somebody measured before."""

from __future__ import annotations

from pathlib import Path

from ratchet.errors import RecordError
from ratchet.records.tune_replay import ReplayResult
from ratchet.tune.replay import configuration_of, recorded_space, replayed
from ratchet.tune.t4 import read_t4


def tune_replay(path: Path, max_evaluations: int | None, seed: int, strategy: str) -> ReplayResult:
    """Search the recorded space in ``path`` (T4, plain or gzip); a recorded time is the evaluation of its configuration.

    Raises RecordError for a file that cannot be read, is no T4, is empty, or in which everything failed, and UsageError for
    an unknown strategy.
    """
    recorded = recorded_space(read_t4(path))
    optimum = recorded.best_ms
    if optimum is None:
        raise RecordError(
            f"{path}: each of its {recorded.candidates.count} configurations failed, so there is nothing to find.",
            "Record a space in which some run.",
        )
    trace = replayed(recorded, strategy, seed, max_evaluations)
    best = trace.best_ms[-1] if trace.best_ms else None
    found = configuration_of(recorded, trace)
    return ReplayResult(
        path=str(path),
        strategy=strategy,
        searched_by=trace.strategy,
        seed=seed,
        evaluations=len(trace.tried),
        failed=sum(recorded.times[place] is None for place in trace.tried),
        configurations=recorded.candidates.count,
        best_ms=best,
        optimum_ms=optimum,
        fraction=0.0 if best is None else optimum / best,
        configuration=None if found is None else dict(found),
    )
