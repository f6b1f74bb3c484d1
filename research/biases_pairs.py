"""Pairs of workers for the experiments of `biases.py`: hosts of two trees, blocks in turns, one row for each case.

What is done with hosts and workers is what `ratchet check` does.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from biases_figures import (
    Row,
)

from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts, WorkerClient, refuse_foreign
from ratchet.core.bench.messages import BuiltCase, Sampled
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.device.gpu import Gpu
from ratchet.core.records.run import Side
from ratchet.core.workload import Device

ROOT = Path(__file__).resolve().parents[1]
SIDES: tuple[Side, Side] = ("reference", "head")
HEAVY = "attention/inference_4k"
CASES: dict[Device, tuple[str, ...]] = {
    "cuda": (
        "attention/training_512",
        "attention/inference_2k",
        "matmul/square_4096",
        "copy/mib_256",
        "normalize/rows_4k",
        "normalize/rows_8k",
    ),
    "cpu": ("matmul/square_512", "copy/mib_4", "normalize/rows_4k"),
}

FEWEST, MOST = 3, 30
SETTLED = 0.005
WARM_S: dict[Device, float] = {"cuda": 0.4, "cpu": 0.1}
"""Seconds of warm-up, copied from ratchet.core.bench.turns rather than used: a check must stay free to change."""

LEAD_IN_S = 0.1
"""Seconds of load, or of pause, before a block of ``heavy``."""
LONGER = 120
"""Characters by which ``path`` makes the head's tree deeper."""
AGE_S = 30 * 86400.0


@dataclass(frozen=True)
class Counts:
    """The numbers of repetitions, if time allows."""

    blocks: int
    block_ms: float
    parents: int = 5
    pairs_of_parent: int = 4
    first: int = 24
    heavy: int = 8
    heavy_rounds: int = 3
    resident: int = 6
    swings: int = 2
    resident_blocks: int = 6
    path: tuple[int, int] = (3, 6)
    """Host pairs, and pairs of workers of each."""
    age: tuple[int, int] = (2, 6)
    flush: int = 8


QUICK = Counts(4, 3.0, 2, 3, 8, 2, 2, 2, 1, 4, (2, 2), (2, 2), 2)


@dataclass(frozen=True)
class Ground:
    """The place and the settings of all experiments."""

    folder: Path
    settings: Settings
    device: Device
    gpu: Gpu | None
    counts: Counts
    cases: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def trees(self) -> dict[Side, Path]:
        return {"reference": self.folder / "base", "head": self.folder / "head"}


class TimeShare:
    """The time that one experiment has. No step begins that would not end in time, judged by the longest so far."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._longest = 0.0
        self.cut = False

    def room(self, steps: float = 0.0) -> bool:
        """Return whether there is time for so many more steps."""
        enough = time.monotonic() + steps * self._longest < self._end
        self.cut = self.cut or not enough
        return enough

    def steps(self, count: int) -> Iterator[int]:
        """0, 1, … up to ``count`` while there is room."""
        for index in range(count):
            if not self.room(1):
                return
            began = time.monotonic()
            yield index
            self._longest = max(self._longest, time.monotonic() - began)


@dataclass
class Found:
    """The rows of an experiment so far: kept whatever goes wrong later."""

    rows: list[Row] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    """Case → why it was left out from then on."""

    def left(self, cases: Iterable[str]) -> list[str]:
        return [case for case in cases if case not in self.troubles]


# ---------------------------------------------------------------------------------------------------------------------
# Hosts, workers, blocks


@contextlib.contextmanager
def open_hosts(
    ground: Ground,
    trees: Mapping[Side, Path],
    *,
    first: Side = "reference",
    environs: Mapping[Side, Mapping[str, str]] | None = None,
) -> Iterator[dict[Side, HostClient]]:
    """A host for each tree, ``first`` forked first; both have imported their benchmarks.

    Sides with an environment of their own have a process of their own, too.
    """
    with contextlib.ExitStack() as stack:
        hosts: dict[Side, HostClient] = {}
        inherited = {side: trees[side] for side in from_first(first)}
        groups = [({side: tree}, environs[side]) for side, tree in inherited.items()] if environs else [(inherited, {})]
        for group, own in groups:
            specs = {side: tree_spec(ground, tree) for side, tree in group.items()}
            hosts |= stack.enter_context(Hosts(specs, {**ground.environ, **own})).sides
        for host in hosts.values():
            host.listing()
        yield hosts


def tree_spec(ground: Ground, tree: Path) -> TreeSpec:
    uuid = ground.gpu.uuid if ground.gpu else None
    return TreeSpec.of(ground.settings, tree, checkout=ROOT, device=ground.device, gpu_uuid=uuid)


def from_first(first: Side) -> tuple[Side, Side]:
    return (first, other_side(first))


def other_side(side: Side) -> Side:
    return "head" if side == "reference" else "reference"


class SideWorkers:
    """The workers of one pair, each forked when it is first needed. Leaving the context ends them."""

    def __init__(self, ground: Ground, hosts: Mapping[Side, HostClient], seed: int) -> None:
        self._ground = ground
        self._hosts = hosts
        self._seed = seed
        self._alive: dict[Side, WorkerClient] = {}
        self._held: dict[Side, str] = {}

    def __enter__(self) -> SideWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(*SIDES)

    def fork(self, side: Side) -> WorkerClient:
        if side not in self._alive:
            self._alive[side] = self._hosts[side].fork()
        return self._alive[side]

    def prepare(self, side: Side, case: str) -> None:
        settings = self._ground.settings
        prepared = self.fork(side).ask(
            "prepare", BuiltCase, case=case, seed=self._seed, check=False,
            clock=settings.clock, cache=settings.cache, placements=settings.placements,
        )  # fmt: skip
        refuse_foreign(side, prepared.foreign)
        self._held[side] = case

    def hold(self, side: Side, case: str) -> None:
        """Prepare the case, unless the side's worker holds it already."""
        if self._held.get(side) != case:
            self.prepare(side, case)

    def block(self, side: Side, samples: int, place: int) -> float:
        """The median of one block, in milliseconds."""
        return statistics.median(self._alive[side].ask("block", Sampled, samples=samples, place=place).samples_ms)

    def warm_up(self, sides: Sequence[Side]) -> int:
        """Blocks in turns until the last three of each side agree, or time is up. Return the samples of a block."""
        medians: dict[Side, list[float]] = {side: [] for side in sides}
        deadline = time.monotonic() + WARM_S[self._ground.device]
        samples = FEWEST
        while True:
            for side in sides:
                medians[side].append(self.block(side, samples, len(medians[side])))
            call_ms = max(values[-1] for values in medians.values())
            samples = min(MOST, max(FEWEST, round(self._ground.counts.block_ms / max(call_ms, 1e-9))))
            rounds = len(medians[sides[0]])
            if rounds >= 3 and (all(map(settled, medians.values())) or time.monotonic() > deadline):
                return samples

    def end(self, *sides: Side) -> None:
        for side in sides:
            self._held.pop(side, None)
            worker = self._alive.pop(side, None)
            if worker is not None:
                worker.end()


def settled(medians: Sequence[float]) -> bool:
    last = medians[-3:]
    return max(last) - min(last) <= SETTLED * min(last)


def median_log_ratio(upper: Sequence[float], lower: Sequence[float]) -> float:
    """The median over blocks taken next to each other, as in ratchet.core.judge.comparison."""
    return statistics.median(math.log(a) - math.log(b) for a, b in zip(upper, lower, strict=True))


def shuffled(cases: Iterable[str], seed: int) -> list[str]:
    order = list(cases)
    random.Random(seed).shuffle(order)
    return order


@dataclass(frozen=True)
class Order:
    """The side that does each thing first."""

    fork: Side
    prepare: Side
    time: Side


def usual_order(index: int) -> Order:
    """Order the sides as a check does: who forks and allocates first changes every pair, who is timed first every other one."""
    return Order(SIDES[index % 2], SIDES[index % 2], SIDES[index // 2 % 2])


def measure_pair(
    ground: Ground, workers: SideWorkers, order: Order, share: TimeShare, found: Found, *, parent: int, pair: int
) -> None:
    """One row for each case: the log of head time / reference time."""
    first = from_first(order.time)
    for case in shuffled(found.left(ground.cases), ground.settings.seed + 1000 * parent + pair):
        if not share.room():
            return
        try:
            for side in from_first(order.prepare):
                workers.prepare(side, case)
            samples = workers.warm_up(first)
            medians: dict[Side, list[float]] = {side: [] for side in SIDES}
            for index in range(ground.counts.blocks):
                for side in first if index % 2 == 0 else tuple(reversed(first)):
                    medians[side].append(workers.block(side, samples, index))
        except CaseTrouble as error:
            found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
            workers.end(*SIDES)
            continue
        found.rows.append({
            "case": case, "parent": parent, "pair": pair,
            "log_ratio": median_log_ratio(medians["head"], medians["reference"]),
            "forked_first": order.fork, "prepared_first": order.prepare, "timed_first": order.time,
            "head_ms": medians["head"], "reference_ms": medians["reference"],
        })  # fmt: skip


def compile_cases(ground: Ground, hosts: Mapping[Side, HostClient], cases: Sequence[str], found: Found) -> None:
    """Build every case once on each side, so that no compilation is left for later."""
    for side in hosts:
        with SideWorkers(ground, hosts, ground.settings.seed) as workers:
            for case in found.left(cases):
                try:
                    workers.prepare(side, case)
                except CaseTrouble as error:
                    found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
                    workers.end(side)


def copy_tree(folder: Path, bench: str) -> Path:
    shutil.copytree(ROOT / bench, folder / bench, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def make_older(folder: Path) -> None:
    """Set back when everything in ``folder`` was last changed."""
    then = time.time() - AGE_S
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (then, then))
