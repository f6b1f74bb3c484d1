"""Whether the commits that a run compared its head with lie where they should: on the base branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ratchet.errors import ArtifactError
from ratchet.pipeline.subject import Subject
from ratchet.records.baseline import Baseline
from ratchet.records.run import RunRecord

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub

MOST = 50
"""Commits that one run may compare with; each that the base branch's own files do not name is one question to GitHub."""


def refuse_foreign(run: RunRecord, subject: Subject, baseline: Baseline, github: GitHub) -> tuple[str, ...]:
    """Raise ArtifactError where a reference commit is not on the base branch: against a slow commit of its own, any head passes.

    Of each commit that GitHub does not know, a sentence comes back: a branch that was rewritten loses commits too. Commits that
    the base branch's ``baseline`` names count as on it for that reason. What has no pull request was pushed by somebody with
    write access: for a push or a merge queue the head's own history counts too.
    """
    left = sorted(_compared(run) - _named(subject, baseline))
    if len(left) > MOST:
        raise ArtifactError(f"The run compares with {len(left)} commits, and {MOST} are the most.")
    refs = (subject.base_ref,) if subject.pull else (subject.run.head_sha, subject.base_ref)
    unknown = []
    for commit in left:
        held = [github.holds(ref, commit) for ref in refs]
        if not any(held) and False in held:
            raise ArtifactError(
                f"The run compares with {commit[:10] or 'no commit'}, which is not on {subject.base_ref}: measure against a "
                "commit of that branch."
            )
        if not any(held):
            unknown.append(
                f"GitHub does not know {commit[:10]}, which the run compares with: whether {subject.base_ref} has it is open."
            )
    return tuple(unknown)


def _compared(run: RunRecord) -> set[str]:
    trees = [run.reference, *(case.reference_tree for case in (*run.cases, *run.best))]
    return {tree.commit for tree in trees if tree is not None}


def _named(subject: Subject, baseline: Baseline) -> set[str]:
    """Commits of the base branch that are known without asking."""
    stored = {entry.git_commit for _, _, entry in baseline.every()}
    return stored | {subject.pull.base_sha} if subject.pull else stored
