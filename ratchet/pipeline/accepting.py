"""The regressions of a pull request that somebody with write access accepted, as GitHub knows them now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ratchet.judge.acceptance import acknowledged_in, believed
from ratchet.records.acceptance import Acceptance
from ratchet.records.forge import Comment, Pull
from ratchet.records.verdict import SLOWDOWNS, ReportRecord

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub

EVERY = "*/*"
"""What a label accepts: every case that is red at that commit."""


def acceptances_of(github: GitHub, pull: Pull, comments: Iterable[Comment]) -> tuple[Acceptance, ...]:
    """Those that hold for the pull request's head; ``comments`` are all of its conversation."""
    by_id = {comment.id: comment for comment in comments}
    acknowledged = [each for each in acknowledged_in(by_id.values(), github.bot) if each.sha == pull.head_sha]
    permissions = {login: github.permission(login) for login in dict.fromkeys(each.by for each in acknowledged)}
    return believed(acknowledged, by_id, permissions, pull.head_sha, pull.labels)


def by_case(acceptances: Iterable[Acceptance], report: ReportRecord) -> tuple[Acceptance, ...]:
    """The same, one for each case: a label's stands for every red case that nobody named."""
    named = {each.case: each for each in acceptances}
    label = named.pop(EVERY, None)
    red = [case.name for case in report.cases if case.outcome in SLOWDOWNS]
    rest = [label.model_copy(update={"case": name}) for name in red if name not in named] if label else []
    return (*named.values(), *rest)
