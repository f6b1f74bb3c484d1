"""Two trees side by side, gone afterwards whatever happens."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ratchet.cache import abandoned_folders, scratch_folder
from ratchet.errors import OutputError
from ratchet.forge.git import Repository, Snapshot

_KIND = "trees"
_GET_ATTRIBUTES, _SET_ATTRIBUTES, _ATTRIBUTE_T = 0x80086601, 0x40086602, 0x00020000
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of 64-bit machines, and EXT4_TOPDIR_FL: linux/fs.h and fs/ext4/ext4.h."""


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
            folder = _quick_place(held.enter_context(scratch_folder(_KIND)))
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


def _quick_place(folder: Path) -> Path:
    """A new folder within ``folder``, where files are created quickly even right after a check's trees were removed.

    For minutes ext4 does not use the inode of a deleted file again, but passes by all of these whenever it creates a file nearby:
    20,000 files then take 10 s instead of 1. Folders within one that has the attribute T (``chattr +T``) lie in other parts of
    the disk.
    """
    with contextlib.suppress(OSError):  # another file system has no such attribute
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(struct.calcsize("l"))))
            fcntl.ioctl(descriptor, _SET_ATTRIBUTES, struct.pack("l", flags | _ATTRIBUTE_T))
        finally:
            os.close(descriptor)
    place = folder / secrets.token_hex(4)  # the name decides on the part
    place.mkdir()
    return place


def _remove_abandoned(repository: Repository) -> None:
    """Remove worktrees of checks that were killed with no chance to clean up."""
    for folder in abandoned_folders(_KIND):
        for tree in (tree for name in ("head", "base", "best") for tree in (folder / name, *folder.glob(f"*/{name}"))):
            if tree.exists():
                repository.remove_worktree(tree)
