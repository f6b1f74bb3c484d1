"""A tree whose benchmarks a child program loads: one record, which reaches every child as one JSON argument.

The host (`child.host`) and the profiler's target (`child.profile_target`) read it back with `TreeSpec.read`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from ratchet.config import Settings
from ratchet.workload import Device


@dataclass(frozen=True)
class TreeSpec:
    """Where a tree is, how its benchmarks are imported, and on which device they run."""

    path: Path
    checkout: Path
    """The user's own checkout: a module that is loaded from it, and not from ``path``, is foreign."""
    bench: str
    """The folder of the benchmarks within the tree."""
    python_path: tuple[str, ...]
    """Folders within the tree that imports look into first."""
    device: Device
    threads: int
    """Cores that a worker on the CPU may use."""
    gpu_uuid: str | None
    import_timeout_s: float
    """Longest that the controller waits for the imports …"""
    step_timeout_s: float
    """… and for one answer of a worker."""

    @classmethod
    def of(cls, settings: Settings, path: Path, *, checkout: Path, device: Device, gpu_uuid: str | None) -> TreeSpec:
        """The tree at ``path``, as the settings say."""
        return cls(
            path=path,
            checkout=checkout,
            bench=settings.bench,
            python_path=settings.python_path,
            device=device,
            threads=settings.cpu_threads,
            gpu_uuid=gpu_uuid,
            import_timeout_s=settings.host_timeout,
            step_timeout_s=settings.case_timeout,
        )

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> TreeSpec:
        """The record that `child_command` wrote, with absolute paths."""
        path, checkout = Path(fields["path"]).resolve(), Path(fields["checkout"]).resolve()
        return cls(**{**fields, "path": path, "checkout": checkout, "python_path": tuple(fields["python_path"])})


def child_command(module: str, **argument: object) -> list[str]:
    """The argument list that runs a module of ratchet with one JSON argument."""
    text = json.dumps(argument, default=lambda value: asdict(value) if is_dataclass(value) else str(value))  # type: ignore[arg-type]
    # -u: what was printed before a crash is not lost in a buffer.
    # -P: the folder this runs in must not offer its own `ratchet`; the harness is always the installed one.
    return [sys.executable, "-u", "-P", "-m", module, text]
