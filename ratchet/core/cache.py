"""The folder for compiled kernels and other things that can be made again, and scratch folders that end with their process.

Reads the environment and /proc; makes and removes folders below the system's temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def cache_root() -> Path:
    """Return ``$RATCHET_CACHE_DIR``, else ``$XDG_CACHE_HOME/ratchet``, else ``~/.cache/ratchet``: absolute, not yet created."""
    if chosen := os.environ.get("RATCHET_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification has relative paths ignored.
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "ratchet"


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Make a temporary folder ``ratchet-KIND-PID-…`` for the body, and remove those of killed processes. May raise OSError."""
    for folder in abandoned_folders(kind):
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"ratchet-{kind}-{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def abandoned_folders(kind: str) -> list[Path]:
    """List the scratch folders of killed processes of this user; no links, which another user may have put there."""
    folders = []
    for folder in Path(tempfile.gettempdir()).glob(f"ratchet-{kind}-*"):
        owner = re.fullmatch(rf"ratchet-{kind}-(\d+)-\w+", folder.name)
        with contextlib.suppress(FileNotFoundError):  # another process removed it first
            if owner and not Path("/proc", owner[1]).exists():
                status = folder.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    folders.append(folder)
    return folders
