"""Two trees side by side, gone afterwards whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ratchet.cache import abandoned_folders, scratch_folder
from ratchet.errors import OutputError
from ratchet.forge.git import Repository, Snapshot

_KIND = "trees"


@dataclass(frozen=True)
class Trees:
    """Where each side is checked out. Both paths have the same length, so that no layout depends on the side."""

    head: Path
    reference: Path | None
    logs: Path


@contextmanager
def worktrees(repository: Repository, head: Snapshot, reference: Snapshot | None) -> Iterator[Trees]:
    """Check both sides out under the temporary folder and remove them at the end, on errors and Ctrl-C too."""
    _remove_abandoned(repository)
    with contextlib.ExitStack() as held:
        try:
            folder = held.enter_context(scratch_folder(_KIND))
        except OSError as error:
            raise OutputError(
                f"No temporary folder can be made: {error}.", "Free some space, or point TMPDIR elsewhere."
            ) from None
        trees = Trees(folder / "head", folder / "base" if reference else None, folder)
        try:
            if reference and trees.reference:
                repository.add_worktree(trees.reference, reference.revision)
            repository.add_worktree(trees.head, head.revision)
            yield trees
        finally:
            repository.remove_worktree(trees.head)
            if trees.reference:
                repository.remove_worktree(trees.reference)


@contextmanager
def worktree(repository: Repository, trees: Trees, snapshot: Snapshot) -> Iterator[Path]:
    """A third tree beside the two, by a path of the same length."""
    folder = trees.logs / "best"
    try:
        repository.add_worktree(folder, snapshot.revision)
        yield folder
    finally:
        repository.remove_worktree(folder)


def _remove_abandoned(repository: Repository) -> None:
    """Remove worktrees of checks that were killed with no chance to clean up."""
    for folder in abandoned_folders(_KIND):
        for tree in (folder / "head", folder / "base", folder / "best"):
            if tree.exists():
                repository.remove_worktree(tree)
