"""Where compiled kernels and other things that can be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """``$RATCHET_CACHE_DIR``, else ``$XDG_CACHE_HOME/ratchet``, else ``~/.cache/ratchet``: absolute, not yet created."""
    if chosen := os.environ.get("RATCHET_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification has relative paths ignored.
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "ratchet"
