"""The stations of a tuning run: on the GPUs of this host, or of a Ray cluster.

Both begin with what takes long and does not depend on the case, which is to import the benchmarks next to every GPU.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ratchet.cache import scratch_folder
from ratchet.config import Settings
from ratchet.errors import UnfitError
from ratchet.measure.gpu import choose_gpu
from ratchet.measure.hosts import Hosts
from ratchet.measure.tuning.place import Place
from ratchet.measure.tuning.station import LocalStation
from ratchet.measure.tuning.timing import Aim
from ratchet.tune.executor import LocalExecutor, Station
from ratchet.workload import Device

Begin = Callable[[Aim], AbstractContextManager[LocalExecutor]]
"""Opens the stations once it is known what is tuned."""


@contextlib.contextmanager
def local(places: Sequence[Place], scout: Hosts) -> Iterator[Begin]:
    """One station a place; the first takes over the host that is there already."""
    with contextlib.ExitStack() as stack:
        heads = [scout, *(stack.enter_context(place.hosts()) for place in places[1:])]

        @contextlib.contextmanager
        def begin(aim: Aim) -> Iterator[LocalExecutor]:
            with contextlib.ExitStack() as held:
                stations = []
                for place, head in zip(places, heads, strict=True):
                    stations.append(LocalStation(place, aim, head, len(places)))
                    held.callback(stations[-1].close)
                yield LocalExecutor(stations)

        yield begin


@dataclass(frozen=True)
class Distant:
    """What it takes to open a station in another process, perhaps on another machine that sees the same files."""

    root: Path
    settings: Settings
    device: Device

    def prepare(self, held: contextlib.ExitStack) -> Callable[[Aim], Station]:
        """Import the benchmarks there. Raises UnfitError where that process may use no GPU."""
        logs = held.enter_context(scratch_folder("logs"))
        gpu = choose_gpu(None, os.environ.get("CUDA_VISIBLE_DEVICES")) if self.device == "cuda" else None
        if self.device == "cuda" and gpu is None:
            raise UnfitError("This process of the cluster may use no GPU.", "Start its nodes with --num-gpus.")
        place = Place(self.root, self.settings, self.device, gpu, dict(os.environ), logs)
        head = held.enter_context(place.hosts())
        return lambda aim: LocalStation(place, aim, head)


@contextlib.contextmanager
def on_ray(distant: Distant, environ: Mapping[str, str]) -> Iterator[Begin]:
    """A station on every GPU of the cluster. Raises as `ratchet.tune.ray_stations` does."""
    from ratchet.tune.ray_stations import ray_actors

    with ray_actors(distant.prepare, environ) as begin_actors:

        @contextlib.contextmanager
        def begin(aim: Aim) -> Iterator[LocalExecutor]:
            with begin_actors(aim) as stations:
                yield LocalExecutor(stations)

        yield begin
