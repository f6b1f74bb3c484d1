"""Text about a walk through a range of commits: lines for the terminal, and tables for a page. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.report.words import commit_label
from ratchet.core.untrusted import CELL, log_line
from ratchet.history.fill_records import FilledCase, FilledCommit, FillRecord
from ratchet.history.records import RatioTo

_NOT_CHANGED = ("UNCHANGED", "INCONCLUSIVE")


def commit_line(done: FilledCommit) -> str:
    """Return one line about a commit."""
    return f"{done.result}: {commit_label(done.tree)}. {log_line(done.reason)} ({units.wall(done.seconds)})"


def fill_lines(record: FillRecord) -> Iterator[str]:
    """Yield the changes that were found, then how many commits were identical, timed, failed, and left."""
    for done, case in _changes(record):
        yield f"{done.tree.commit[:10]}  {log_line(case.name, CELL)}  {_change(case.reference)}, {_confirmation(case)}"
    yield _counts(record)


def _changes(record: FillRecord) -> Iterator[tuple[FilledCommit, FilledCase]]:
    for done in record.done:
        for case in done.cases:
            if case.outcome not in _NOT_CHANGED and done.result != "failed":
                yield done, case


def _change(ratio: RatioTo | None) -> str:
    return f"{units.change(ratio.ratio, 1)} {units.interval(ratio.low, ratio.high, 1)}" if ratio else "–"


def _confirmation(case: FilledCase) -> str:
    if case.confirmed is None or case.anchor is None:
        return f"{case.outcome.lower()}, not measured again"
    against = f"{_change(case.anchor)} against {case.anchor.commit[:10]}"
    return f"confirmed: {against}" if case.confirmed else f"not confirmed: {against}"


def _counts(record: FillRecord) -> str:
    parts = []
    for result in ("identical", "timed", "failed"):
        seconds = [one.seconds for one in record.done if one.result == result]
        median = f" ({units.wall(statistics.median(seconds))} each)" if seconds else ""
        parts.append(f"{len(seconds)} {result}{median}")
    left = f"; {len(record.left)} left: run the same command again" if record.left else ""
    return f"{units.plural(len(record.commits), 'commit')}: {', '.join(parts)}{left}."
