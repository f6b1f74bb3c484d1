"""The repository that a command works in."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ratchet.errors import GitError, OutputError, UsageError
from ratchet.forge.git import Repository
from ratchet.records.run import Tree


def root_of(folder: Path) -> Path:
    """The root of a checkout; outside git, the folder itself."""
    try:
        return Repository(folder).root
    except (GitError, UsageError):
        return folder.resolve()


def checked_out(root: Path, results: Path) -> Tree:
    """The commit that stands in a checkout, and whether it was changed since; outside git, none."""
    try:
        repository = Repository(root)
        tree = repository.commit_snapshot("HEAD").tree
        return tree.model_copy(update={"dirty": repository.is_dirty(apart_of(repository, results))})
    except (GitError, UsageError):
        return Tree(commit="")


def apart_of(repository: Repository, results: Path) -> str:
    """The results folder within the repository: what earlier checks wrote there is no change of the code."""
    inside = results.is_relative_to(repository.root) and results != repository.root
    return results.relative_to(repository.root).as_posix() if inside else ""


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
