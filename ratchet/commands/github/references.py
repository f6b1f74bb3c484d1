"""Ask GitHub about the commits that a run compared with, and about the cases that it left out.

Only `judge_again` uses it. Beside a slow commit of its own any head looks fast enough, so the reference has to be the merge base,
or the commit that the base branch's baseline names for the case. It asks questions and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ratchet.commands.github.event import Subject
from ratchet.errors import ArtifactError
from ratchet.judge.github.state import Gap, PublishedState
from ratchet.records.baseline import Baseline, BaselineEntry, StepKind
from ratchet.records.run import RunRecord

if TYPE_CHECKING:  # PyGithub is an extra, and `ratchet baseline push` does without it
    from ratchet.forge.github import GitHub

MOST = 50
"""Commits that one run may compare with; each that the base branch's own files do not name is one question to GitHub."""
_SHOWN = 3


@dataclass(frozen=True)
class RunHistory:
    """A run among the commits of its repository. Each question to GitHub is asked once."""

    run: RunRecord
    subject: Subject
    baseline: Baseline
    """Of the base branch."""
    github: GitHub
    _had: dict[str, bool | None] = field(default_factory=dict)
    """Commit → whether the base branch had it when the head left it."""

    @cached_property
    def references(self) -> Mapping[str, str]:
        """The commit that each case was compared with.

        Raises ArtifactError where a case does not say so, or was compared with the head itself.
        """
        commits = {}
        for case in self.run.cases:
            tree = case.reference_tree or self.run.reference
            if case.in_reference and tree is None and not case.failures:
                raise ArtifactError(f"The run does not say which commit {case.name} was compared with: measure again.")
            if case.in_reference and tree is not None:
                commits[case.name] = tree.commit
        if self.run.head.commit in commits.values():
            raise ArtifactError(f"The run compares {self.run.head.commit[:10]} with itself: measure against another commit.")
        return commits

    @cached_property
    def branched_off(self) -> tuple[str, ...]:
        """The commits where the head left its base branch, as that stands now and as it stood for GitHub's pull request.

        In a merge queue also the commit that the entry is made on, which the name of its branch has.
        """
        pull, head = self.subject.pull, self.subject.run.head_sha
        bases = [self.subject.base_ref, *([pull.base_sha] if pull else [])]
        found = [self.github.merge_base(base, head) for base in bases]
        return tuple(dict.fromkeys(commit for commit in (self.subject.queued_onto, *found) if commit))

    def refuse_foreign(self) -> None:
        """Raise ArtifactError where a reference commit is not on the base branch, or GitHub does not know it.

        Commits that the base branch's baseline names count as on it. A push or a merge queue comes from somebody with write
        access, so the head's own history counts too.
        """
        known = {entry.git_commit for _, _, entry in self.baseline.every()}
        if self.subject.pull:
            known.add(self.subject.pull.base_sha)
        shown = [self.run.reference, *(case.reference_tree for case in self.run.best)]
        unchecked = sorted({*self.references.values(), *(tree.commit for tree in shown if tree)} - known)
        if len(unchecked) > MOST:
            raise ArtifactError(f"The run compares with {len(unchecked)} commits, and {MOST} are the most.")
        base = self.subject.base_ref
        refs = (base,) if self.subject.pull else (self.subject.run.head_sha, base)
        for commit in unchecked:
            answers = [self.github.holds(ref, commit) for ref in refs]
            if not any(answers):
                short = commit[:10] or "no commit"
                known_elsewhere = f"The run compares with {short}, which is not on {base}"
                nowhere = f"GitHub does not know {short}, which the run compares with"
                raise ArtifactError(f"{known_elsewhere if False in answers else nowhere}: measure against a commit of {base}.")

    def gaps(self) -> Iterator[Gap]:
        """Yield why this run is no pass, however fast its head: another reference, or cases that were left out."""
        stored = self.baseline.entries(self.run.environment.fingerprint)
        older = self.baseline.carried(self.run.environment.fingerprint)
        named = {name: entry.git_commit for name, entry in {**older, **stored}.items()}
        others = sorted({commit for name, commit in self.references.items() if commit != named.get(name)})
        head = self.subject.run.head_sha
        # A head that is on its base branch, such as a push to main, left it nowhere: there any earlier commit will do.
        if others and head not in self.branched_off and not {*others} <= {*self.branched_off}:
            wrong = [commit for commit in others if commit not in self.branched_off]
            left = self.branched_off[0][:10] if self.branched_off else "which GitHub does not know"
            yield Gap(
                PublishedState.OTHER_REFERENCE,
                f"Compared with {_listed([commit[:10] for commit in wrong])}: a pass takes the commit where the head left "
                f"{self.subject.base_ref}, {left}, or the one that the baseline names for the case.",
            )
        yield from self._unmeasured(stored)

    def _unmeasured(self, stored: Mapping[str, BaselineEntry]) -> Iterator[Gap]:
        """Yield what is missing of the baseline's cases for this machine that the base branch had when the head left it."""
        cases = {case.name: case for case in self.run.cases}
        absent: list[str] = []
        uncompared: list[str] = []
        removed: list[str] = []
        for name, entry in sorted(stored.items()):
            case = cases.get(name)
            if entry.removed or (case and case.in_head and case.in_reference and not case.skipped) or self._came_later(entry):
                continue
            (absent if case is None else uncompared if case.in_head else removed).append(name)
        if absent:
            yield Gap(PublishedState.LEFT_OUT, f"Not measured, though the baseline has them: {_listed(absent)}.", len(absent))
        if uncompared:
            yield Gap(PublishedState.LEFT_OUT, f"Skipped or called new, though the baseline has them: {_listed(uncompared)}.")
        if removed:
            yield Gap(PublishedState.REMOVED, f"The head removes what the baseline has: {_listed(removed)}.")

    def _came_later(self, entry: BaselineEntry) -> bool:
        """Return whether the base branch got a case under its name, or got it back, after the head had left it."""
        arrivals = (StepKind.FIRST, StepKind.RENAMED, StepKind.RETURNED)
        entered = next((step.commit for step in reversed(entry.steps) if step.kind in arrivals), entry.steps[0].commit)
        if entered not in self._had:
            start = self.branched_off[0] if self.branched_off else self.subject.run.head_sha
            self._had[entered] = self.github.holds(start, entered)
        return self._had[entered] is False


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
