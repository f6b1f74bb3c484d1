"""Runs what many tests look at, and none changes, once for all processes of pytest-xdist."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]) -> Any:
    """Return what ``make`` returns, which gets a folder: the first process to ask calls it, and the others wait for it."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    kept = shared / f"{name}.pickle"
    with FileLock(f"{kept}.lock"):
        if not kept.exists():
            kept.write_bytes(pickle.dumps(make(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=shared)))))
    return pickle.loads(kept.read_bytes())
