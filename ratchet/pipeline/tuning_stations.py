"""The stations of a tuning run: on the GPUs of this host, or of a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.config import Settings
from ratchet.errors import UnfitError
from ratchet.measure.gpu import choose_gpu
from ratchet.measure.side import HostHandle
from ratchet.measure.tuning.place import Place
from ratchet.measure.tuning.station import LocalStation
from ratchet.measure.tuning.timing import Aim
from ratchet.tune.executor import LocalExecutor, Station
from ratchet.workload import Device


@contextlib.contextmanager
def local(places: Sequence[Place], aim: Aim, scout: HostHandle) -> Iterator[LocalExecutor]:
    """One station a place; the first takes over the host that is there already."""
    stations: list[LocalStation] = []
    try:
        for number, place in enumerate(places):
            stations.append(LocalStation(place, aim, None if number else scout, len(places)))
        yield LocalExecutor(stations)
    finally:
        for station in stations:
            station.close()


@dataclass(frozen=True)
class Distant:
    """What it takes to open a station in another process, perhaps on another machine that sees the same files."""

    root: Path
    settings: Settings
    device: Device
    aim: Aim

    def open(self, stack: contextlib.ExitStack) -> Station:
        """Raises UnfitError where that process may use no GPU."""
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-logs-")))
        gpu = choose_gpu(None, os.environ.get("CUDA_VISIBLE_DEVICES")) if self.device == "cuda" else None
        if self.device == "cuda" and gpu is None:
            raise UnfitError("This process of the cluster may use no GPU.", "Start its nodes with --num-gpus.")
        return LocalStation(Place(self.root, self.settings, self.device, gpu, dict(os.environ), logs), self.aim)


@contextlib.contextmanager
def on_ray(distant: Distant, environ: Mapping[str, str]) -> Iterator[LocalExecutor]:
    """A station on every GPU of the cluster. Raises as `ratchet.tune.ray_stations.ray_stations` does."""
    from ratchet.tune.ray_stations import ray_stations

    with ray_stations(functools.partial(Distant.open, distant), environ) as stations:
        yield LocalExecutor(stations)
