"""Text about a walk through a range of commits: lines for the terminal, and ``fill.md`` with the tables of a page. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.report.words import NOTHING, commit_label
from ratchet.core.untrusted import CELL, Markdown, cell_name, link, log_line, markdown
from ratchet.history.fill_records import FilledCase, FilledCommit, FillRecord
from ratchet.history.records import RatioTo

_UNDECIDED = ("INCONCLUSIVE", "UNFIT")
_NOT_CHANGED = ("UNCHANGED", "MEASURED", *_UNDECIDED)


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
            if (case.confirmed or case.outcome not in _NOT_CHANGED) and done.result != "failed":
                yield done, case


def _change(ratio: RatioTo | None) -> str:
    return " ".join(units.estimate(ratio.ratio, ratio.low, ratio.high)) if ratio else NOTHING


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
    undecided = sum(case.outcome in _UNDECIDED for one in record.done for case in one.cases)
    parts += [f"{units.plural(undecided, 'verdict')} missing"] if undecided else []
    left = f"; {len(record.left)} left: run the same command again" if record.left else ""
    return f"{units.plural(len(record.commits), 'commit')}: {', '.join(parts)}{left}."


def fill_page(record: FillRecord, repository: str = "") -> str:
    """Return the walk as Markdown: every change, every commit that failed, and what each kind of commit took.

    ``repository``: its address on the web; empty: commits are no links.
    """
    lines = [f"# {markdown(_title(record))}", "", _counts(record), "", "| commit | case | change | measured again | cause |"]
    lines.append("|:--|:--|--:|--:|:--|")
    for done, case in _changes(record):
        again = _change(case.anchor) if case.anchor else NOTHING
        verdict = {True: again, False: f"{again}, not confirmed", None: f"{again} {case.outcome.lower()}"}[case.confirmed]
        cells = (_commit(done, repository), cell_name(case.name), _change(case.reference), verdict, markdown(case.cause, CELL))
        lines.append(f"| {' | '.join(cells)} |")
    failed = [done for done in record.done if done.result == "failed"]
    if failed:
        lines += ["", "| commit that could not be measured | why |", "|:--|:--|"]
        lines += [f"| {_commit(done, repository)} | {markdown(done.reason, CELL)} |" for done in failed]
    return "\n".join(lines) + "\n"


def _title(record: FillRecord) -> str:
    limits = " ".join((*record.patterns, *record.paths))
    return f"{record.older.commit[:10]} to {record.newer.commit[:10]}{f', {limits}' if limits else ''}"


def _commit(done: FilledCommit, repository: str) -> Markdown:
    name, subject = done.tree.commit[:10], markdown(done.tree.subject, 80)
    return Markdown(f"{link(f'{repository}/commit/{done.tree.commit}', name) if repository else name} {subject}")
