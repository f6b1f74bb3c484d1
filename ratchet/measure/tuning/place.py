"""Where a case is tuned: a checkout, and one device."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.config import Settings
from ratchet.measure.gpu import Gpu
from ratchet.measure.side import HostHandle, HostOptions
from ratchet.records.run import Side
from ratchet.workload import Device


@dataclass(frozen=True)
class Place:
    """Where a station stands."""

    root: Path
    """The checkout, measured in place."""
    settings: Settings
    device: Device
    gpu: Gpu | None
    environ: Mapping[str, str]
    logs: Path

    @property
    def name(self) -> str:
        return f"{self.gpu.name} [{self.gpu.index}]" if self.gpu else "CPU"

    def host(self, side: Side) -> HostHandle:
        """Start a host; it takes seconds until it lists its cases."""
        settings = self.settings
        options = HostOptions(
            tree=self.root,
            checkout=self.root,
            bench=settings.bench,
            python_path=settings.python_path,
            device=self.device,
            threads=settings.cpu_threads,
            gpu_uuid=self.gpu.uuid if self.gpu else None,
            logs=Path(tempfile.mkdtemp(prefix=f"{side}-", dir=self.logs)),
            start_timeout_s=settings.host_timeout,
            step_timeout_s=settings.case_timeout,
        )
        return HostHandle(side, options, self.environ)
