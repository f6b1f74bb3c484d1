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
        logs = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=self.logs))
        root = self.root
        options = HostOptions.of(self.settings, tree=root, checkout=root, device=self.device, gpu=self.gpu, logs=logs)
        return HostHandle(side, options, self.environ)
