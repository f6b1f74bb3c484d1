"""The search for the commit that changed a case: which to look at next, which end of the range it is like, and how to tell it.

`ratchet.history.bisect` asks; pure. Each commit is compared with GOOD in pairs. It is like BAD where an exact randomisation test
shows that it lies past half of the change between GOOD and BAD (as logs), like GOOD where the test shows that it lies before
that, and undecided otherwise. The commit that is named is like BAD and its parent like GOOD, so it is a wrong one only if one of
these tests errs. The k-th commit that is timed gets the share 1 / k (k + 1) of the errors that are allowed, divided by its looks:
however many there are, all shares together are less than the whole.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import AwareDatetime

from ratchet.core import units
from ratchet.core.judge.comparison import Pair
from ratchet.core.judge.estimate import randomisation_p, session_medians, student_p
from ratchet.core.judge.evidence import CHANGE_PAIRS, FEWEST_SESSIONS
from ratchet.core.judge.rule import looks_for_change
from ratchet.core.records import Positive, Record
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.run import Plan, Tree
from ratchet.core.records.verdict import Comparison
from ratchet.core.report.words import commit_label
from ratchet.core.untrusted import CELL, log_line

End = Literal["good", "bad"]
"""The end of the range that a commit is like."""
VerdictName = End | Literal["skipped", "undecided"]


# The state of a search, ``results/bisect/…/search.json``: it is written after each commit that was looked at, and read to go on.


class CommitVerdict(Record):
    """One commit that the search looked at."""

    tree: Tree
    verdict: VerdictName
    reason: str
    """One sentence."""
    comparison: Comparison | None = None
    """The commit against GOOD, where it was timed."""
    identity: str = ""
    """Digest of its launches, as in `CaseRun`."""

    @property
    def end(self) -> End | None:
        """Which end of the range the commit is like; None where that is not known."""
        return self.verdict if self.verdict in ("good", "bad") else None


class SearchRecord(Record):
    """A search, as far as it has come."""

    schema_version: Literal[1] = 1
    case: str
    package: str = ""
    """The package whose versions stand in the place of commits; empty where commits are searched."""
    good: Tree
    bad: Tree
    benchmarks: str
    """The hash of the folder of benchmarks that every commit is measured with."""
    fingerprint: Fingerprint
    plan: Plan
    error: Positive
    """The probability that the search names a wrong commit is at most this."""
    commits: tuple[str, ...]
    """All commits after GOOD up to BAD, along first parents, the oldest first."""
    looked_at: tuple[CommitVerdict, ...] = ()
    """In this order; one that was undecided in an earlier run may come again."""
    started_at: AwareDatetime
    command: tuple[str, ...]
    suspects: tuple[Tree, ...] = ()
    """At the end: the commits among which the change is, one where all could be measured, the oldest first."""
    parent: Tree | None = None
    """The last commit before these that is as GOOD."""
    merged: tuple[str, str] | None = None
    """Where the one suspect is a merge: where the merged branch began, and its last commit."""


# Where to look next, and what pairs show.


ERROR = 0.01
"""How often a search may name a wrong commit."""


def ends_of(search: SearchRecord) -> dict[int, End]:
    """Return the commits of which it is known which end they are like, by their place after GOOD, from 0."""
    places = {commit: place for place, commit in enumerate(search.commits)}
    return {places[one.tree.commit]: one.end for one in search.looked_at if one.end}


def decision_threshold(search: SearchRecord) -> float:
    """Return half of the change between GOOD and BAD, as a log."""
    bad = next(one for one in search.looked_at if one.tree.commit == search.bad.commit and one.verdict == "bad")
    return math.log(bad.comparison.ratio) / 2 if bad.comparison else 0.0


def bounds(count: int, ends: Mapping[int, End]) -> tuple[int, int]:
    """Return the places of the last commit that is as GOOD (−1: GOOD itself), and of the first one after it that is as BAD."""
    bad = min((place for place, end in ends.items() if end == "bad"), default=count - 1)
    return max((place for place, end in ends.items() if end == "good" and place < bad), default=-1), bad


def next_place(count: int, ends: Mapping[int, End], closed: Collection[int]) -> int | None:
    """Return the commit to look at next: BAD, then the one nearest the middle that is not ``closed``. None at the end."""
    if ends.get(count - 1) != "bad":
        return None if count - 1 in ends or count - 1 in closed else count - 1
    low, high = bounds(count, ends)
    left = [place for place in range(low + 1, high) if place not in closed]
    return min(left, key=lambda place: abs(place - (low + high) / 2), default=None)


def level_of(error: float, number: int, pairs: int) -> float:
    """Return the p-value that decides the ``number``-th timed commit (from 1) at one of the looks of so many pairs."""
    return error / (number * (number + 1)) / looks_for_change(pairs)


def end_of(pairs: Sequence[Pair], half: float, level: float) -> End | None:
    """Return which end a commit is like that was timed against GOOD in these pairs; None where that is not shown."""
    way = math.copysign(1.0, half)
    if _is_above(pairs, way, abs(half), level):
        return "bad"
    return "good" if _is_above(pairs, -way, -abs(half), level) else None


def differs(pairs: Sequence[Pair], level: float) -> bool:
    """Return whether BAD, timed against GOOD in these pairs, is shown to be slower or faster."""
    return any(_is_above(pairs, way, 0.0, level / 2) for way in (1.0, -1.0))


def _is_above(pairs: Sequence[Pair], way: float, least: float, level: float) -> bool:
    """Return whether log ratios, times ``way``, are above ``least``.

    By the test over pairs, with as many of them as any change takes, and by Student's t over at least four sessions.
    """
    values = [way * pair.log_ratio - least for pair in pairs]
    sessions = session_medians(values, [pair.session for pair in pairs])
    return (
        len(values) >= CHANGE_PAIRS
        and len(sessions) >= FEWEST_SESSIONS
        and (student_p(sessions, slower=True) or 0.0) <= level
        and randomisation_p(np.array(values), slower=True) <= level
    )


# Text about a search, for the terminal.


_LEAST_REST = 0.25
"""Share of the whole change that is worth another search."""


def search_lines(search: SearchRecord) -> Iterator[str]:
    """Yield the commits that were looked at, in the order of history, then what was found and what to run next."""
    last = {one.tree.commit: one for one in search.looked_at}  # one that was undecided may have come again
    order = {commit: place for place, commit in enumerate(search.commits)}
    for commit in sorted(last, key=lambda commit: order[commit]):
        one = last[commit]
        yield f"{one.verdict:<10}{commit_label(one.tree)}: {log_line(one.reason)}"
    what = "version" if search.package else "commit"
    yield f"{units.plural(len(search.commits), what)} in the range, of which {len(last)} had to be looked at."
    case = log_line(search.case, CELL)
    if not search.suspects:
        is_same = search.looked_at[-1].verdict == "good"
        yield f"{case}: " + ("there is no change to search for." if is_same else "no change between GOOD and BAD was shown.")
        return
    slower = decision_threshold(search) > 0
    if len(search.suspects) > 1:
        yield f"One of these {len(search.suspects)} {what}s made {case} {'slower' if slower else 'faster'}:"
    else:
        yield f"This {what} made {case} {'slower' if slower else 'faster'}:"
    yield from (f"  {commit_label(tree)}" for tree in search.suspects)
    yield f"At most {units.threshold(search.error)} of searches name a wrong {what}."
    yield from _next_lines(search)


def _next_lines(search: SearchRecord) -> Iterator[str]:
    """Yield the commands that go on from here: read it, measure it again, search the rest."""
    parent, found = search.parent or search.good, search.suspects[-1]
    if not search.package:
        yield f"Read it:     git diff {parent.commit[:10]} {found.commit[:10]}"
    yield f"Do it again: {_command(search, parent.commit, found.commit)} --again"
    if search.merged:
        yield f"It is a merge; to search the merged branch: {_command(search, *search.merged)}"
    ratios = {one.tree.commit: one.comparison.ratio for one in search.looked_at if one.comparison}
    whole = 2 * decision_threshold(search)
    before = math.log(ratios.get(parent.commit, 1.0))
    after = whole - math.log(ratios.get(found.commit, math.exp(whole)))
    for rest, good, bad in ((before, search.good, parent), (after, found, search.bad)):
        if rest / whole >= _LEAST_REST:
            change = units.slowdown(math.exp(rest))
            yield f"{change} of {units.slowdown(math.exp(whole))} are elsewhere: {_command(search, good.commit, bad.commit)}"


def _command(search: SearchRecord, good: str, bad: str) -> str:
    ends = ["--env", f"{search.package}=={good}..{bad}"] if search.package else [good[:10], bad[:10]]
    return shlex.join(["ratchet", "bisect", search.case, *ends])
