"""What `ratchet tune` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ratchet import units
from ratchet.records.tune_replay import ReplayResult
from ratchet.records.tuning import Configuration, Confirmation, Evaluation, TuningRecord
from ratchet.report import escape

SHOWN = 5


def tuning_lines(record: TuningRecord) -> Iterator[str]:
    """The best that were tried, what was confirmed, and the verdict."""
    timed = sorted((each for each in record.evaluations if each.timed), key=_time)
    counts = Counter(each.outcome for each in record.evaluations)
    of = f" of {record.valid}" if record.valid is not None else ""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    yield f"Tried {len(record.evaluations)}{of} configurations in {units.wall(record.wall_s)}: {outcomes}"
    for each in timed[:SHOWN]:
        share = f"{units.percent(each.normalised, 1):>9}" if each.normalised is not None else ""
        yield escape.log_line(f"{share}  {units.duration((each.median_ms or 0) * 1e-3):>9}  {settings_text(each.configuration)}")
    for confirmed in (*record.confirmations, *record.others):
        yield escape.log_line(
            f"CONFIRMED  {record.benchmark}/{confirmed.config}  {settings_text(confirmed.configuration)}: {_found(confirmed)}"
        )
    yield escape.log_line(record.verdict)


def _time(each: Evaluation) -> float:
    return each.normalised if each.normalised is not None else each.median_ms or 0.0


def settings_text(configuration: Configuration) -> str:
    """``BLOCK_M=128 BLOCK_N=64``."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def _found(confirmed: Confirmation) -> str:
    found = confirmed.comparison
    if found is None:
        return confirmed.reason
    return f"{units.change(found.ratio)} [{units.change(found.low)}, {units.change(found.high)}] in {found.pairs} pairs"


def replay_lines(result: ReplayResult) -> Iterator[str]:
    """What a search of a recorded space found, and how that compares with the best that there is."""
    of = f"{result.evaluations} of {result.configurations} configurations, {result.failed} of which failed"
    yield escape.log_line(f"{result.path}: tried {of} ({result.searched_by}, seed {result.seed})")
    if result.best_ms is None or result.configuration is None:
        yield "Nothing was found that works."
        return
    yield escape.log_line(f"Best: {units.duration(result.best_ms * 1e-3)}  {settings_text(result.configuration)}")
    yield f"Optimum: {units.duration(result.optimum_ms * 1e-3)}; fraction of the optimum: {result.fraction:.4f}"
