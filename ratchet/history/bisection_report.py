"""Text about a search for a commit, for the terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from ratchet.core import units
from ratchet.core.report.words import commit_label
from ratchet.core.untrusted import CELL, log_line
from ratchet.history.bisection import SearchRecord, decision_threshold

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
