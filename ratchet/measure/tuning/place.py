"""Where a case is tuned: a checkout, and one device."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.config import Settings
from ratchet.measure.gpu import Gpu
from ratchet.measure.hosts import Hosts
from ratchet.measure.side import HostOptions
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

    def hosts(self) -> Hosts:
        """Start a host, of the head; it takes seconds until it lists its cases."""
        logs = Path(tempfile.mkdtemp(prefix="hosts-", dir=self.logs))
        options = HostOptions.of(self.settings, checkout=self.root, device=self.device, gpu=self.gpu, logs=logs)
        return Hosts({"head": self.root}, options, self.environ)
