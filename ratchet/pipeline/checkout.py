"""The repository that a command works in."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ratchet.errors import GitError, OutputError, UsageError
from ratchet.forge.git import Repository
from ratchet.records.run import Tree
from ratchet.records.tuning_file import TUNING_FOLDER, WRITTEN


def root_of(folder: Path) -> Path:
    """The root of a checkout; outside git, the folder itself."""
    try:
        return Repository(folder).root
    except (GitError, UsageError):
        return folder.resolve()


def checked_out(root: Path, results: Path, tuning: Path | None = None) -> Tree:
    """The commit that stands in a checkout, and whether it was changed since; outside git, none."""
    try:
        repository = Repository(root)
        tree = repository.commit_snapshot("HEAD").tree
        return tree.model_copy(update={"dirty": repository.is_dirty(apart_of(repository, results, tuning))})
    except (GitError, UsageError):
        return Tree(commit="")


def apart_of(repository: Repository, results: Path, tuning: Path | None = None) -> tuple[str, ...]:
    """Globs of what earlier runs wrote within the repository, which is no change of the code.

    All of the folder ``results``; of ``tuning`` (None: the usual one) only what a search writes there, since a repository may
    keep code of its own in a folder of that name.
    """
    root = repository.root
    reports = () if results == root else _within(root, results, ("", "/**"))  # the folder itself may be a link
    return (*reports, *_within(root, tuning or root / TUNING_FOLDER, [f"/{each}" for each in WRITTEN]))


def _within(root: Path, folder: Path, globs: Sequence[str]) -> tuple[str, ...]:
    if not folder.is_relative_to(root):
        return ()
    inside = "" if folder == root else glob.escape(folder.relative_to(root).as_posix())
    return tuple(f"{inside}{each}".removeprefix("/") for each in globs)


def writable(results: Path) -> Path:
    """Find out now, not after a minute of measuring."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        raise OutputError(
            f"The results folder {results} cannot be written: {error.strerror}.", "Choose another with --results."
        ) from None
    return results
