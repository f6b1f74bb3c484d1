"""The state of a walk through a range of commits: ``results/fill/…/fill.json``.

`ratchet.history.fill` writes it after each commit, and goes on from there. Below it stands what people read of it. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Literal

from pydantic import AwareDatetime

from ratchet.core import units
from ratchet.core.records import NotNegative, Record
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import Tree
from ratchet.core.records.verdict import Outcome
from ratchet.core.report.words import NOTHING, commit_label
from ratchet.core.untrusted import CELL, Markdown, cell_name, link, log_line, markdown
from ratchet.history.records import RatioTo

CommitResult = Literal["identical", "timed", "failed"]


class FilledCase(Record):
    """One case of a commit that did not do the same as the commit before it."""

    name: str
    outcome: Outcome
    """Against the commit before it."""
    reason: str
    """One sentence."""
    reference: RatioTo | None = None
    """Against the commit before it."""
    anchor: RatioTo | None = None
    """Measured again, in other processes, against the first commit of the range that has the case."""
    confirmed: bool | None = None
    """The measurement against the anchor shows the same change; None where nothing looked changed, or none was possible."""
    cause: str = ""
    """The likeliest cause, by its profile."""


class FilledCommit(Record):
    """One commit of the walk."""

    tree: Tree
    result: CommitResult
    """``identical``: no case does anything else than at the commit before; ``failed``: it could not be measured."""
    reason: str
    """One sentence."""
    before: str
    """The commit that it was compared with."""
    seconds: NotNegative
    machine: Fingerprint | None = None
    """None: it was proved to be identical without a device, or failed before there was one."""
    run: str = ""
    """Name of its file within the history; empty for one that failed."""
    same: tuple[str, ...] = ()
    """Cases that do the same as at the commit before, so that they were not timed."""
    cases: tuple[FilledCase, ...] = ()
    """All others."""


class FillRecord(Record):
    """A walk, as far as it has come."""

    schema_version: Literal[1] = 1
    older: Tree
    newer: Tree
    paths: tuple[str, ...] = ()
    """Only commits that change one of these are looked at; empty: all."""
    patterns: tuple[str, ...] = ()
    benchmarks: str
    """The hash of the folder of benchmarks that every commit is measured with."""
    commits: tuple[str, ...]
    """All commits to look at, along first parents, the oldest first."""
    done: tuple[FilledCommit, ...] = ()
    """The first of them, in this order."""
    started_at: AwareDatetime

    @property
    def before(self) -> str:
        """The commit that the next one is compared with: the last one that could be measured."""
        return next((one.tree.commit for one in reversed(self.done) if one.result != "failed"), self.older.commit)

    @property
    def left(self) -> tuple[str, ...]:
        """The commits that are still to be looked at."""
        return self.commits[len(self.done) :]

    def level_of(self, case: str, machine: Fingerprint) -> RatioTo | None:
        """Return the anchor of a case on a machine, and the time there / at the anchor that the last confirmed change left.

        None where the case was neither measured on this machine nor proved to be the same yet.
        """
        level: RatioTo | None = None
        for one in self.done:
            if one.machine not in (machine, None):  # None: proved to be the same, by what holds on any machine
                continue
            filled = next((each for each in one.cases if each.name == case), None)
            if level is None and (case in one.same or (filled and filled.reference)):
                level = RatioTo(commit=one.before, ratio=1, low=1, high=1, pairs=0)
            if filled and filled.anchor and (filled.confirmed or (level and filled.anchor.commit != level.commit)):
                level = filled.anchor
        return level


# Text about a walk: lines for the terminal, and ``fill.md`` with the tables of a page.


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
