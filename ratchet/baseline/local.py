"""Carry out `ratchet baseline` on this machine: show, verify and change ``results/baseline.json``.

`ratchet.baseline.cli` calls it; nothing is measured. It reads recorded runs and the git repository. Recorded runs are kept
in the history, too. `ratchet.github.baseline_push` changes the file on the remote.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet import tools
from ratchet.common.baseline_steps import BaselineUpdate, Move, Person, accept, rename
from ratchet.common.baseline_update import intact, record
from ratchet.core.errors import GitError, UsageError
from ratchet.core.git import Repository
from ratchet.core.judge.chain import problems
from ratchet.core.recorded import judge_again
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import save_over
from ratchet.core.request import BASELINE, Request, load_baseline, results_folder

# The file of this checkout: show, move and verify it. A file that does not verify is never overwritten.


@dataclass(frozen=True)
class Verification:
    """The faults of a baseline file, and warnings about commits that could not be looked up."""

    path: Path
    baseline: Baseline
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def record_baseline(recorded: Sequence[Path], request: Request, environ: Mapping[str, str]) -> tuple[Path, BaselineUpdate]:
    """Enter recorded runs (by default the last one) into the baseline file and the history. Return the file and the steps.

    Raises RecordError for a run that cannot be read or a baseline that does not verify, OutputError where it cannot be written.
    """
    with _moving(request, environ) as (path, before):
        done = [judge_again(run, request, environ) for run in recorded or (None,)]
        after = record(before, [(result.run, result.report) for result in done])
        _save(path, before, after.baseline)
        tools.part("kept_runs").keep_runs(path.parent, [(result.run, result.report) for result in done], after.baseline)
    return path, after


def accept_cases(
    names: Sequence[str], recorded: Path | None, by: str | None, reason: str, request: Request, environ: Mapping[str, str]
) -> tuple[Path, list[Move]]:
    """Make the head of a recorded run (by default the last one) the baseline commit of these cases, on purpose.

    Raises as `record_baseline` does, and UsageError where it is unknown who does this.
    """
    with _moving(request, environ) as (path, before):
        done = judge_again(recorded, request, environ)
        after, moved = accept(before, done.run, done.report, names, _person(by, reason, request, environ))
        _save(path, before, after)
    return path, moved


def rename_case(
    old: str, new: str, by: str | None, reason: str | None, request: Request, environ: Mapping[str, str]
) -> tuple[Path, list[Move]]:
    """Continue a case's chain under another name. Raises as `accept_cases` does."""
    with _moving(request, environ) as (path, before):
        commit = Repository(request.folder).head()
        after, moved = rename(before, old, new, commit, _person(by, reason, request, environ))
        _save(path, before, after)
    return path, moved


def verify_baseline(request: Request, environ: Mapping[str, str]) -> Verification:
    """Check the chain of every case, and that git knows the commits."""
    path, stored = show_baseline(request, environ)
    lost, warnings = _unknown_commits(stored, request.folder)
    return Verification(path, stored, (*problems(stored), *lost), tuple(warnings))


def show_baseline(request: Request, environ: Mapping[str, str]) -> tuple[Path, Baseline]:
    """Read the baseline file of the checkout. Raises RecordError."""
    results = results_folder(request, environ)
    return results / BASELINE, load_baseline(results)


@contextlib.contextmanager
def _moving(request: Request, environ: Mapping[str, str]) -> Iterator[tuple[Path, Baseline]]:
    """Yield the file and what it holds. Another command that moves it waits until the body has ended, else one move is lost."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # there is no folder yet, or its file system has no locks
            descriptor = os.open(results_folder(request, environ), os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        path, stored = show_baseline(request, environ)
        yield path, intact(stored, str(path))


def _save(path: Path, before: Baseline, after: Baseline) -> None:
    if after is not before:
        save_over(path, after)


def _person(by: str | None, reason: str | None, request: Request, environ: Mapping[str, str]) -> Person:
    # In a workflow git's user is a robot, if anyone; the person who started it is better.
    who = by or environ.get("GITHUB_ACTOR") or ""
    if not who:
        with contextlib.suppress(GitError, UsageError):
            who = Repository(request.folder).user()
    if not who.strip():
        raise UsageError("It is unknown who takes this step: git has no user.name.", "Say who with --by.")
    return Person(" ".join(who.split()), " ".join(reason.split()) if reason else None, datetime.now(UTC))


def _unknown_commits(stored: Baseline, folder: Path) -> tuple[list[str], list[str]]:
    """Return problems, for baseline commits that git does not know, and warnings, for earlier steps and shallow clones."""
    try:
        repository = Repository(folder)
    except (GitError, UsageError) as error:
        return [], [f"The commits were not looked up: {error.message}"]
    entries = [(f"{name} [{machine}]", entry) for machine, name, entry in stored.every()]
    named = {step.commit for _, entry in entries for step in entry.steps} | {entry.git_commit for _, entry in entries}
    unknown = {commit for commit in named if not repository.hash_of(f"{commit}^{{tree}}")}
    if unknown and repository.is_shallow():
        missing = f"{len(unknown)} of {len(named)} commits named in the file are not in this shallow clone"
        return [], [f"{missing}. Fetch the history with `git fetch --unshallow` to look them up."]
    lost = [
        f"{name}: git knows no commit {entry.git_commit[:10]}, so no check can build it. Fetch the branch that has it, or move "
        "the case to a commit that stays with `ratchet baseline accept`."
        for name, entry in entries
        if entry.git_commit in unknown
    ]
    earlier = sorted(unknown - {entry.git_commit for _, entry in entries})
    return lost, [f"git no longer knows {commit[:10]}, the commit of an earlier step." for commit in earlier]
