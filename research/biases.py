"""Biases of paired measuring on unchanged code: ``python research/biases.py`` looks for them in seven experiments.

    python research/biases.py [--out FILE.json] [--seconds 480] [--device cuda|cpu] [--quick] [EXPERIMENT…]

Both sides are plain copies of this clone's ``bench/``. Their hosts and workers are those of `ratchet check`, and what is
done with them is what a check does: prepare, warm up, blocks A B B A, one log ratio for each case of each pair.

- ``parents``: do pairs forked from other hosts differ by more than pairs forked from the same two?
- ``first``: which first matters: to be forked, to allocate, to be timed?
- ``heavy``: what does a block lose that follows another process's heavy load?
- ``resident``: what does a second process cost that only holds its context and memory?
- ``path``: does a tree in a path 120 characters longer make its side slower?
- ``age``: does a tree that is older, and was compiled earlier?
- ``flush``: which way of emptying the L2 cache makes processes agree? It times ``normalize`` in processes of its own
  (``--child flush``), because a worker's clock cannot be changed from outside.

All figures are percent; a log ratio counts as such. Each experiment keeps to its share of ``--seconds``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import ratchet
from ratchet.config import Settings, load_settings
from ratchet.errors import RatchetError
from ratchet.measure.client import CaseTrouble, HostClient, Hosts, WorkerClient, refuse_foreign
from ratchet.measure.device.environment import describe
from ratchet.measure.device.lock import hold, lock_folder
from ratchet.measure.device.nvml import Gpu, choose_gpu
from ratchet.measure.device.telemetry import Sampler
from ratchet.measure.messages import Listing, Prepared, Sampled
from ratchet.measure.tree_spec import TreeSpec
from ratchet.records.run import Side
from ratchet.workload import Device

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
"""Seconds of warm-up, copied from ratchet.measure.duet rather than used: a check must stay free to change."""

LEAD_IN_S = 0.1
"""Seconds of load, or of pause, before a block of ``heavy``."""
LONGER = 120
"""Characters by which ``path`` makes the head's tree deeper."""
AGE_S = 30 * 86400.0

Row = dict[str, Any]


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


class Share:
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


@dataclass(frozen=True)
class Line:
    """One figure of the last table, in percent."""

    experiment: str
    case: str
    what: str
    mean: float
    error: float
    count: int
    chance: float = math.nan
    note: str = ""

    @property
    def shown(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f} %"


@dataclass(frozen=True)
class Summary:
    """The printed result of an experiment."""

    header: tuple[str, ...]
    table: Sequence[tuple[str, ...]]
    lines: list[Line]
    verdict: str


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


class Workers:
    """The workers of one pair, each forked when it is first needed. Leaving the context ends them."""

    def __init__(self, ground: Ground, hosts: Mapping[Side, HostClient], seed: int) -> None:
        self._ground = ground
        self._hosts = hosts
        self._seed = seed
        self._alive: dict[Side, WorkerClient] = {}
        self._held: dict[Side, tuple[str, Prepared]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(*SIDES)

    def fork(self, side: Side) -> WorkerClient:
        if side not in self._alive:
            self._alive[side] = self._hosts[side].fork()
        return self._alive[side]

    def prepare(self, side: Side, case: str) -> Prepared:
        settings = self._ground.settings
        prepared = self.fork(side).ask(
            "prepare", Prepared, case=case, seed=self._seed, check=False,
            clock=settings.clock, cache=settings.cache, placements=settings.placements,
        )  # fmt: skip
        refuse_foreign(side, prepared.foreign)
        self._held[side] = (case, prepared)
        return prepared

    def holding(self, side: Side, case: str) -> Prepared:
        """Like `prepare`, unless this is the case that the side's worker holds already."""
        held, prepared = self._held.get(side, ("", None))
        return prepared if prepared and held == case else self.prepare(side, case)

    def block(self, side: Side, samples: int, place: int) -> float:
        """The median of one block, in milliseconds."""
        return statistics.median(self._alive[side].ask("block", Sampled, samples=samples, place=place).samples_ms)

    def warm_up(self, sides: Sequence[Side], samples: int) -> None:
        """Blocks in turns until the last three of each side agree, or time is up."""
        medians: dict[Side, list[float]] = {side: [] for side in sides}
        deadline = time.monotonic() + WARM_S[self._ground.device]
        while True:
            for side in sides:
                medians[side].append(self.block(side, samples, len(medians[side])))
            rounds = len(medians[sides[0]])
            if rounds >= 3 and (all(map(settled, medians.values())) or time.monotonic() > deadline):
                return

    def end(self, *sides: Side) -> None:
        for side in sides:
            self._held.pop(side, None)
            worker = self._alive.pop(side, None)
            if worker is not None:
                worker.end()


def settled(medians: Sequence[float]) -> bool:
    last = medians[-3:]
    return max(last) - min(last) <= SETTLED * min(last)


def samples_in_block(ground: Ground, *prepared: Prepared) -> int:
    return min(MOST, max(FEWEST, round(ground.counts.block_ms / max(one.call_ms for one in prepared))))


def median_log_ratio(upper: Sequence[float], lower: Sequence[float]) -> float:
    """The median over blocks taken next to each other, as in ratchet.stats.comparison."""
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


def measure_pair(ground: Ground, workers: Workers, order: Order, share: Share, found: Found, *, parent: int, pair: int) -> None:
    """One row for each case: the log of head time / reference time."""
    first = from_first(order.time)
    for case in shuffled(found.left(ground.cases), ground.settings.seed + 1000 * parent + pair):
        if not share.room():
            return
        try:
            prepared = [workers.prepare(side, case) for side in from_first(order.prepare)]
            samples = samples_in_block(ground, *prepared)
            workers.warm_up(first, samples)
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
        with Workers(ground, hosts, ground.settings.seed) as workers:
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


# ---------------------------------------------------------------------------------------------------------------------
# The experiments


def parents(ground: Ground, share: Share, found: Found) -> None:
    for parent in range(ground.counts.parents):
        if not share.room(2):
            return
        with open_hosts(ground, ground.trees, first=SIDES[parent % 2]) as hosts:
            pairs_of(ground, hosts, share, found, parent, ground.counts.pairs_of_parent)


def pairs_of(ground: Ground, hosts: Mapping[Side, HostClient], share: Share, found: Found, parent: int, count: int) -> None:
    """Pairs of workers of one pair of hosts; over an even number of hosts their orders balance also if ``count`` is odd."""
    for index in share.steps(count):
        order = usual_order(parent * count + index)
        with Workers(ground, hosts, ground.settings.seed + 100 * parent + 2 * index) as workers:
            measure_pair(ground, workers, order, share, found, parent=parent, pair=index)


def first(ground: Ground, share: Share, found: Found) -> None:
    """All eight orders, again and again; both workers are forked before either allocates."""
    with open_hosts(ground, ground.trees) as hosts:
        for index in share.steps(ground.counts.first):
            # The two that agree with each other come next to each other, so that a short run is balanced too.
            order = Order(SIDES[index % 2], SIDES[(index + index // 2) % 2], SIDES[index // 4 % 2])
            with Workers(ground, hosts, ground.settings.seed + 2 * index) as workers:
                for side in from_first(order.fork):
                    workers.fork(side)
                measure_pair(ground, workers, order, share, found, parent=0, pair=index)


LEAD_INS = ("own", "heavy", "idle")


def heavy(ground: Ground, share: Share, found: Found) -> None:
    """Two blocks of a case after 0.1 s of: the case itself, another process's heavy case, nothing."""
    with open_hosts(ground, ground.trees) as hosts:
        for pair in share.steps(ground.counts.heavy):
            tested = SIDES[pair % 2]
            other = other_side(tested)
            with Workers(ground, hosts, ground.settings.seed + 2 * pair) as workers:
                for case in shuffled(found.left(ground.cases), ground.settings.seed + pair):
                    if not share.room():
                        break
                    try:
                        found.rows.append(after_lead_ins(ground, workers, case, tested, other, pair))
                    except CaseTrouble as error:
                        found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
                        workers.end(*SIDES)


def after_lead_ins(ground: Ground, workers: Workers, case: str, tested: Side, other: Side, pair: int) -> Row:
    load = samples_in_block(ground, workers.holding(other, HEAVY))
    samples = samples_in_block(ground, workers.prepare(tested, case))
    workers.warm_up((other,), load)
    workers.warm_up((tested,), samples)
    rounds: list[dict[str, list[float]]] = []
    for index in range(ground.counts.heavy_rounds):
        turned = (pair + index) % len(LEAD_INS)
        taken: dict[str, list[float]] = {}
        for lead_in in (*LEAD_INS[turned:], *LEAD_INS[:turned]):
            until = time.monotonic() + LEAD_IN_S
            if lead_in == "idle":
                time.sleep(LEAD_IN_S)
            while time.monotonic() < until:
                workers.block(*((other, load) if lead_in == "heavy" else (tested, samples)), index)
            # The same place in memory for all three, so that it cancels.
            taken[lead_in] = [workers.block(tested, samples, index) for _ in range(2)]
        rounds.append(taken)
    logs = {
        f"{lead_in}_{number + 1}": statistics.median(math.log(taken[lead_in][number] / taken["own"][number]) for taken in rounds)
        for lead_in in ("heavy", "idle")
        for number in range(2)
    }
    return {"case": case, "pair": pair, "tested": tested, **logs, "rounds_ms": rounds}


def resident(ground: Ground, share: Share, found: Found) -> None:
    """One worker's blocks: alone, with a second that has prepared the same case and waits, alone, with another, alone."""
    with open_hosts(ground, ground.trees) as hosts:
        for pair in share.steps(ground.counts.resident):
            tested = SIDES[pair % 2]
            with Workers(ground, hosts, ground.settings.seed + 2 * pair) as workers:
                for case in shuffled(found.left(ground.cases), ground.settings.seed + pair):
                    if not share.room():
                        break
                    try:
                        found.rows += alone_and_with(ground, workers, case, tested, pair)
                    except CaseTrouble as error:
                        found.troubles[case] = f"{error.side}, {error.stage}: {error.message}"
                        workers.end(*SIDES)


def alone_and_with(ground: Ground, workers: Workers, case: str, tested: Side, pair: int) -> list[Row]:
    samples = samples_in_block(ground, workers.prepare(tested, case))

    def phase() -> list[float]:
        workers.warm_up((tested,), samples)
        return [workers.block(tested, samples, index) for index in range(ground.counts.resident_blocks)]

    rows = []
    before = phase()
    for swing in range(ground.counts.swings):
        workers.prepare(other_side(tested), case)
        among = phase()
        workers.end(other_side(tested))
        after = phase()
        alone = [math.sqrt(a * b) for a, b in zip(before, after, strict=True)]
        rows.append({
            "case": case, "pair": pair, "swing": swing, "tested": tested, "log_ratio": median_log_ratio(among, alone),
            "drift": median_log_ratio(after, before), "before_ms": before, "with_ms": among, "after_ms": after,
        })  # fmt: skip
        before = after
    return rows


def path(ground: Ground, share: Share, found: Found) -> None:
    deep = ground.folder / ("long-" * (LONGER // 5) + "head")
    trees: dict[Side, Path] = {"reference": ground.trees["reference"], "head": copy_tree(deep, ground.settings.bench)}
    hosts_wanted, pairs_wanted = ground.counts.path
    for parent in range(hosts_wanted):
        if not share.room(2):
            return
        with open_hosts(ground, trees, first=SIDES[parent % 2]) as hosts:
            pairs_of(ground, hosts, share, found, parent, pairs_wanted)


def age(ground: Ground, share: Share, found: Found) -> None:
    """The reference's tree and caches are old; the head's are made anew for each pair of hosts."""
    aged, old = copy_tree(ground.folder / "aged", ground.settings.bench), caches(ground.folder / "caches_aged")
    make_older(aged)
    with Hosts({"reference": tree_spec(ground, aged)}, {**ground.environ, **old}) as hosts:
        hosts.sides["reference"].listing()
        compile_cases(ground, hosts.sides, ground.cases, found)
    make_older(aged)
    make_older(ground.folder / "caches_aged")
    hosts_wanted, pairs_wanted = ground.counts.age
    for parent in range(hosts_wanted):
        if not share.room(2):
            return
        fresh = copy_tree(ground.folder / f"new{parent}", ground.settings.bench)
        new = caches(ground.folder / f"caches_new{parent}")
        trees: dict[Side, Path] = {"reference": aged, "head": fresh}
        with open_hosts(ground, trees, first=SIDES[parent % 2], environs={"reference": old, "head": new}) as both:
            compile_cases(ground, both, ground.cases, found)
            pairs_of(ground, both, share, found, parent, pairs_wanted)


def caches(folder: Path) -> dict[str, str]:
    """The environment that makes ratchet and Triton keep what they compile in ``folder``, so far empty."""
    folder.mkdir()
    return {"RATCHET_CACHE_DIR": str(folder / "ratchet"), "TRITON_CACHE_DIR": str(folder / "triton")}


# ---------------------------------------------------------------------------------------------------------------------
# Flushing the L2 cache: processes of our own


@dataclass(frozen=True)
class Variant:
    """A way of emptying the L2 cache before a sample."""

    kind: str
    times: int = 2
    """Size of a buffer, in L2 caches."""
    buffers: int = 4
    """Buffers: as many as places of the workload, one each, as in a check today; else the samples take them in turn."""
    before: bool = False
    """The buffers are allocated before the workload rather than after it."""


VARIANTS = {
    "memset_2x": Variant("memset"),  # what a check does today
    "memset_1x": Variant("memset", 1),
    "memset_4x": Variant("memset", 4),
    "read_2x": Variant("read"),
    "memset_then_read": Variant("memset_then_read"),
    "memset_2x_pause": Variant("memset_pause"),
    "memset_2x_one": Variant("memset", buffers=1),
    "memset_2x_before": Variant("memset", buffers=1, before=True),
    "memset_2x_turns": Variant("memset", buffers=8),
    "none": Variant("none"),
}
FLUSHED = ("rows_8k", "rows_16k")
FLUSH_PLACES, FLUSH_BLOCKS, FLUSH_SAMPLES, FLUSH_WARM_S = 4, 12, 25, 0.2
PAUSE_CYCLES, PROBE_CYCLES = 40_000, 2_000_000
LONGEST_PROCESS_S = 60


def flush(ground: Ground, share: Share, found: Found) -> None:
    """Fresh processes, one variant after the other, in another order every time."""
    if ground.gpu is None:
        raise RuntimeError("flush needs a GPU")
    command = [sys.executable, str(Path(__file__).resolve()), "--child", "flush"]
    environ = {
        **ground.environ,
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ground.gpu.uuid,
    }
    with (
        (ground.folder / "flush.log").open("ab") as log,
        subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            ask_server(server, "memset_2x", 0)  # compiles
            for seed in range(1, ground.counts.flush + 1):
                order = shuffled(VARIANTS, seed)
                for index in share.steps(len(order)):
                    for row in ask_server(server, order[index], seed):
                        if "error" in row:
                            found.troubles[f"{order[index]} seed {seed}"] = row["error"]
                        else:
                            found.rows.append(row)
        finally:
            server.kill()


def ask_server(server: subprocess.Popen[str], variant: str, seed: int) -> list[Row]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"variant": variant, "seed": seed}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        if line.startswith('{"rows": '):
            return list(json.loads(line)["rows"])
    raise RuntimeError(f"the processes of flush ended with status {server.wait()}")


def serve_flush() -> None:
    """The server's end: imports torch and the benchmark once, touches no CUDA, forks a fresh process for each request."""
    import_normalize()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(LONGEST_PROCESS_S)
            try:
                rows = flush_process(request["variant"], request["seed"])
            except BaseException as error:  # noqa: BLE001  told to the controller, whatever it is
                rows = [{"error": f"{type(error).__name__}: {error}"[:300]}]
            os.write(1, (json.dumps({"rows": rows}) + "\n").encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            said = {"error": f"ended with status {os.waitstatus_to_exitcode(status)}"}
            os.write(1, (json.dumps({"rows": [said]}) + "\n").encode())


def import_normalize() -> Any:
    sys.path.insert(0, str(ROOT))
    from bench.normalize import normalize

    return normalize


def flush_process(name: str, seed: int) -> list[Row]:
    """Everything one process measures: a row for each config, in an order that alternates."""
    import torch

    gpu = choose_gpu(None, os.environ.get("CUDA_VISIBLE_DEVICES"))
    rows = []
    for config in FLUSHED if seed % 2 == 0 else FLUSHED[::-1]:
        torch.manual_seed(seed)
        rows.append(flush_config(name, seed, config, gpu))
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return rows


def flush_config(name: str, seed: int, config: str, gpu: Gpu | None) -> Row:
    import torch

    device = torch.device("cuda")
    variant = VARIANTS[name]
    benchmark = import_normalize()
    size = variant.times * int(torch.cuda.get_device_properties(device).L2_cache_size)
    spare = flush_buffers(variant, size) if variant.before else []
    workloads = [benchmark.build(device=device, **benchmark.configs["cuda"][config]) for _ in range(FLUSH_PLACES)]
    calls = [call_of(workload.run, dict(workload.tuning)) for workload in workloads]
    emptied = flusher(variant, spare or flush_buffers(variant, size), size)
    one = torch.zeros(1, device=device)
    clock = EventBlocks(emptied, gpu)
    deadline = time.monotonic() + FLUSH_WARM_S
    turn = 0
    while turn < FLUSH_PLACES or time.monotonic() < deadline:
        clock.take(calls[turn % FLUSH_PLACES], turn)
        turn += 1
    clock.forget()
    blocks = [clock.take(calls[index % FLUSH_PLACES], index) for index in range(FLUSH_BLOCKS)]
    figures = clock.figures()
    tiny = [clock.take(lambda: one.add_(1), index) for index in range(2)]
    samples = np.array(blocks).ravel()
    low, middle, high = np.percentile(samples, [10, 50, 90])
    return {
        "variant": name, "seed": seed, "case": f"normalize/{config}", "samples": samples.size,
        "median_us": float(middle), "p10_us": float(low), "p90_us": float(high),
        "blocks_us": [float(np.median(block)) for block in blocks], "tiny_us": float(np.median(np.array(tiny))),
        "step_us": smallest_step(samples), **figures,
    }  # fmt: skip


def call_of(run: Callable[..., object], tuning: Mapping[str, int]) -> Callable[[], object]:
    return lambda: run(**tuning)


def flush_buffers(variant: Variant, size: int) -> list[Any]:
    import torch

    return [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(variant.buffers if variant.kind != "none" else 0)]


def flusher(variant: Variant, buffers: Sequence[Any], size: int) -> Callable[[int, int], None]:
    """A function of the block's and the sample's number that queues what empties the cache."""
    import torch

    views = [buffer.view(torch.float32) for buffer in buffers]
    total = torch.zeros((), device="cuda")
    other = torch.zeros(size // 4, device="cuda") if variant.kind == "memset_then_read" else None

    def empty(block: int, sample: int) -> None:
        if not buffers:
            return
        chosen = block % len(buffers) if len(buffers) == FLUSH_PLACES else sample % len(buffers)
        if variant.kind == "read":
            torch.sum(views[chosen], dim=0, out=total)
            return
        buffers[chosen].zero_()
        if other is not None:
            torch.sum(other, dim=0, out=total)
        if variant.kind == "memset_pause":
            torch.cuda._sleep(PAUSE_CYCLES)  # time to write back what is on its way

    return empty


class EventBlocks:
    """Blocks of samples between CUDA events, as in ratchet.measure.clocks.gpu, with the GPU's clock read meanwhile."""

    def __init__(self, empty: Callable[[int, int], None], gpu: Gpu | None) -> None:
        import torch

        self._cuda = torch.cuda
        self._empty = empty
        self._gpu = gpu
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._lead_cycles = 4_000_000
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(FLUSH_SAMPLES)
        ]
        self._exposed = 0
        self._clocks: list[int] = []
        self._powers: list[float] = []
        self._probes: list[float] = []

    def take(self, call: Callable[[], object], block: int) -> list[float]:
        """Microseconds of each sample."""
        probe = (self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True))
        self._driver.cuCtxResetPersistingL2Cache()
        self._cuda._sleep(self._lead_cycles)
        call()
        for sample, (start, end) in enumerate(self._events):
            self._empty(block, sample)
            start.record()
            call()
            end.record()
        exposed = self._events[-2][1].query()
        # After the samples and still under load: a sleep lasts a known number of SM cycles.
        probe[0].record()
        self._cuda._sleep(PROBE_CYCLES)
        probe[1].record()
        if self._gpu is not None:
            reading = self._gpu.reading()
            self._clocks += [reading.sm_clock_mhz] if reading.sm_clock_mhz is not None else []
            self._powers += [reading.power_w] if reading.power_w is not None else []
        self._cuda.synchronize()
        if exposed:
            self._exposed += 1
            self._lead_cycles = min(2 * self._lead_cycles, 100_000_000)
        self._probes.append(PROBE_CYCLES / (1000 * probe[0].elapsed_time(probe[1])))
        return [1000 * start.elapsed_time(end) for start, end in self._events]

    def forget(self) -> None:
        """Leave out of `figures` what was read so far."""
        self._exposed = 0
        self._clocks, self._powers, self._probes = [], [], []

    def figures(self) -> Row:
        return {
            "exposed": self._exposed,
            "sm_mhz": statistics.median(self._clocks) if self._clocks else None,
            "power_w": statistics.median(self._powers) if self._powers else None,
            "probe_mhz": statistics.median(self._probes) if self._probes else None,
        }


def smallest_step(samples: np.ndarray[Any, Any]) -> float:
    """Return the resolution of the events."""
    steps = np.diff(np.unique(np.round(samples, 4)))
    return float(steps.min()) if steps.size else 0.0


# ---------------------------------------------------------------------------------------------------------------------
# What it means


def line_of(experiment: str, case: str, what: str, logs: Sequence[float]) -> Line:
    """Mean, standard error and the probability of such a mean by chance (Student's t)."""
    values = 100 * np.array(logs)
    if len(values) < 2:
        return Line(experiment, case, what, float(values.mean()) if len(values) else math.nan, math.nan, len(values))
    error = float(values.std(ddof=1) / math.sqrt(len(values)))
    return Line(
        experiment, case, what, float(values.mean()), error, len(values), chance_of(values.mean(), error, len(values) - 1)
    )


def chance_of(mean: float, error: float, freedom: int) -> float:
    return float(2 * stats.t.sf(abs(mean) / error, freedom)) if error > 0 and freedom > 0 else math.nan


def by(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows grouped by one key, or by the values of several."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys), []).append(row)
    return groups


def logs_of(rows: Iterable[Row], key: str = "log_ratio") -> list[float]:
    return [row[key] for row in rows]


def together(experiment: str, what: str, rows: Sequence[Row], key: str, *unit: str) -> Line:
    """Over all cases: one value for each unit that was measured afresh, the mean of its cases."""
    return line_of(experiment, "all", what, [statistics.fmean(logs_of(group, key)) for group in by(rows, *unit).values()])


def verdict_of(lines: Sequence[Line], everything: Line) -> str:
    """Says which figures differ from 0 by more than chance would have one of them do in twenty runs."""
    tested = [line for line in lines if not math.isnan(line.chance)]
    if not tested:
        return "too few pairs to say anything"
    seen = [line for line in tested if line.chance * len(tested) < 0.05]
    largest = max(tested, key=lambda line: abs(line.mean))
    if seen:
        said = "a bias: " + ", ".join(f"{line.case} {line.what} {line.shown}" for line in seen)
    else:
        said = f"no bias to be seen; the largest is {largest.case} {largest.what} {largest.shown}"
    return f"{said}; all cases together {everything.shown}"


def summarise_plain(experiment: str, what: str, rows: Sequence[Row]) -> Summary:
    """Mean log ratio for each case."""
    unit = ("parent", "pair") if "parent" in rows[0] else ("pair", "swing")
    lines = [line_of(experiment, case, what, logs_of(group)) for case, group in by(rows, "case").items()]
    everything = together(experiment, what, rows, "log_ratio", *unit)
    table = [
        (line.case, str(line.count), line.shown, percent(spread(logs_of(group))), chance(line.chance))
        for line, group in zip(lines, by(rows, "case").values(), strict=True)
    ]
    return Summary(("case", "n", what, "spread", "p"), table, [*lines, everything], verdict_of(lines, everything))


def summarise_parents(experiment: str, rows: Sequence[Row]) -> Summary:
    table, lines, chances = [], [], []
    for case, group in by(rows, "case").items():
        parts = anova(group)
        means = [statistics.fmean(logs_of(rows)) for rows in by(group, "parent").values()]
        line = line_of(experiment, case, "head/reference, over parents", means)
        lines.append(
            dataclasses.replace(line, note=f"between {parts.between:.3f} %, F {parts.ratio:.2f}, p {chance(parts.chance)}")
        )
        chances.append((parts.chance, case))
        table.append((
            case, str(len(group)), line.shown, f"{parts.within:.3f} %", f"{parts.between:.3f} %", f"{parts.component:+.4f}",
            f"{parts.ratio:.2f}", f"{parts.degrees[0]}, {parts.degrees[1]}", chance(parts.chance),
        ))  # fmt: skip
    everything = together(experiment, "head/reference, over parents", rows, "log_ratio", "parent")
    tested = [(p, case) for p, case in chances if not math.isnan(p)]
    if not tested:
        said = "too few parents to say anything"
    else:
        low, case = min(tested)
        said = "pairs of other parents differ by more" if low * len(tested) < 0.05 else "parents add nothing that can be seen"
        said += f": smallest p {chance(low)} of {len(tested)} cases ({case})"
    header = ("case", "n", "head/reference", "within", "between", "component (%²)", "F", "df", "p")
    return Summary(header, table, [*lines, everything], f"{said}; all cases together {everything.shown}")


@dataclass(frozen=True)
class Anova:
    """Standard deviations in percent; ``component`` is the variance between, in percent², and may be negative by chance."""

    within: float
    between: float
    component: float
    ratio: float
    degrees: tuple[int, int]
    chance: float


def anova(rows: Sequence[Row]) -> Anova:
    """One-way analysis of variance over parents. What the order of forks does, the same in all, is taken out first."""
    groups = [group for group in by(rows, "parent").values() if group]
    values = [100 * np.array(logs_of(group)) for group in groups]
    signs = [np.array([1.0 if row["forked_first"] == "head" else -1.0 for row in group]) for group in groups]
    sign_rest = np.concatenate([of_group - of_group.mean() for of_group in signs])
    value_rest = np.concatenate([of_group - of_group.mean() for of_group in values])
    power = float(sign_rest @ sign_rest)
    effect = float(sign_rest @ value_rest) / power if power > 0 else 0.0
    sizes = np.array([len(of_group) for of_group in values])
    total = int(sizes.sum())
    degrees = (len(groups) - 1, total - len(groups) - (1 if power > 0 else 0))
    if min(degrees) < 1:
        return Anova(math.nan, math.nan, math.nan, math.nan, degrees, math.nan)
    within = (float(value_rest @ value_rest) - effect**2 * power) / degrees[1]
    means = np.array([value.mean() - effect * sign.mean() for value, sign in zip(values, signs, strict=True)])
    between = float(sizes @ (means - np.average(means, weights=sizes)) ** 2) / degrees[0]
    component = (between - within) / float((total - (sizes**2).sum() / total) / degrees[0])
    ratio = between / within if within > 0 else math.nan
    return Anova(math.sqrt(within), math.sqrt(max(0.0, component)), component, ratio, degrees, float(stats.f.sf(ratio, *degrees)))


FIRSTS = ("forked first", "prepared first", "timed first")


def summarise_first(experiment: str, rows: Sequence[Row]) -> Summary:
    """The two arms as they are, then what each kind of being first does by itself (least squares)."""
    table, lines = [], []
    for case, group in by(rows, "case").items():
        same = line_of(experiment, case, "forks, prepares first", arm(group, same=True))
        crossed = line_of(experiment, case, "forks first, prepares second", arm(group, same=False))
        effects = [Line(experiment, case, what, *effect) for what, effect in zip(("head", *FIRSTS), firsts(group), strict=True)]
        lines += [same, crossed, *effects[1:]]
        table.append((case, str(len(group)), same.shown, crossed.shown, *(line.shown for line in effects)))
    everything = [
        line_of(experiment, "all", f"{what} (by pair)", over_cases(rows, key))
        for what, key in zip(FIRSTS, ("forked_first", "prepared_first", "timed_first"), strict=True)
    ]
    effects = [line for line in lines if line.what in FIRSTS]
    said = verdict_of(effects, everything[0]).rpartition("; all cases")[0] or "too few pairs to say anything"
    said += "; all cases together: " + ", ".join(f"{line.what} {line.shown}" for line in everything)
    header = ("case", "n", "forks+prepares first", "forks 1st, prepares 2nd", "head/reference", *FIRSTS)
    return Summary(header, table, [*lines, *everything], said)


def arm(rows: Iterable[Row], *, same: bool) -> list[float]:
    """Log of the time of the side forked first / the other's, where it also prepares first or does not."""
    chosen = (row for row in rows if (row["forked_first"] == row["prepared_first"]) == same)
    return [row["log_ratio"] * sign_of(row, "forked_first") for row in chosen]


def sign_of(row: Row, key: str) -> float:
    return 1.0 if row[key] == "head" else -1.0


def over_cases(rows: Sequence[Row], key: str) -> list[float]:
    return [statistics.fmean(row["log_ratio"] * sign_of(row, key) for row in group) for group in by(rows, "pair").values()]


def firsts(rows: Sequence[Row]) -> list[tuple[float, float, int, float]]:
    """(mean, error, n, chance) of: head/reference, forked first, prepared first, timed first."""
    design = np.array([[1.0, *(sign_of(row, f"{what.split()[0]}_first") for what in FIRSTS)] for row in rows])
    values = 100 * np.array(logs_of(rows))
    freedom = len(rows) - design.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return [(math.nan, math.nan, len(rows), math.nan)] * design.shape[1]
    coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
    rest = values - design @ coefficients
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * float(rest @ rest) / freedom)
    return [
        (float(mean), float(error), len(rows), chance_of(float(mean), float(error), freedom))
        for mean, error in zip(coefficients, errors, strict=True)
    ]


def summarise_heavy(experiment: str, rows: Sequence[Row]) -> Summary:
    keys = {
        "heavy_1": "1st block after heavy",
        "heavy_2": "2nd block after heavy",
        "idle_1": "1st block after a pause",
        "idle_2": "2nd block after a pause",
    }
    table, lines = [], []
    for case, group in by(rows, "case").items():
        of_case = [line_of(experiment, case, what, logs_of(group, key)) for key, what in keys.items()]
        lines += of_case
        table.append((case, str(len(group)), *(line.shown for line in of_case)))
    everything = [together(experiment, what, rows, key, "pair") for key, what in keys.items()]
    verdict = verdict_of([line for line in lines if line.what == keys["heavy_1"]], everything[0])
    return Summary(("case", "n", *keys.values()), table, [*lines, *everything], verdict)


def summarise_flush(experiment: str, rows: Sequence[Row]) -> Summary:
    """The spread of process medians, beside the spread of samples in a process."""
    table, lines = [], []
    medians: dict[tuple[str, str], list[float]] = {}
    for (case, variant), group in sorted(by(rows, "case", "variant").items(), key=lambda item: flush_place(*item[0])):
        logs = [math.log(row["median_us"]) for row in group]
        medians[case, variant] = logs
        between = spread(logs)
        within = statistics.fmean((row["p90_us"] - row["p10_us"]) / 2.563 / row["median_us"] for row in group)
        blocks = statistics.fmean(spread([math.log(value) for value in row["blocks_us"]]) for row in group)
        linked = [correlation(logs, logs_of(group, key)) for key in ("sm_mhz", "probe_mhz", "tiny_us")]
        clocks = [row["probe_mhz"] for row in group if row["probe_mhz"]]
        lines.append(Line(
            experiment, case, f"spread between, {variant}", 100 * between, 100 * between / math.sqrt(max(1, 2 * len(group) - 2)),
            len(group), note=f"within {100 * within:.2f} %",
        ))  # fmt: skip
        table.append((
            case.partition("/")[2], variant, str(len(group)), f"{math.exp(statistics.fmean(logs)):.3f} µs",
            percent(between), percent(within), percent(blocks), f"{statistics.fmean(clocks):.0f}" if clocks else "", *linked,
            str(sum(row["exposed"] for row in group)), f"{min(logs_of(group, 'step_us')):.3f}",
        ))  # fmt: skip
    header = (
        "case",
        "variant",
        "n",
        "median",
        "between",
        "within",
        "blocks",
        "MHz",
        "r SM",
        "r probe",
        "r tiny",
        "exp.",
        "step µs",
    )
    return Summary(header, table, lines, flush_verdict(medians))


def flush_place(case: str, variant: str) -> tuple[int, int]:
    return FLUSHED.index(case.partition("/")[2]), list(VARIANTS).index(variant)


def flush_verdict(medians: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """The quietest variant that empties the cache, against what a check does today (F test of the variances)."""
    said = []
    for case in sorted({case for case, _ in medians}):
        today = medians.get((case, "memset_2x"), ())
        others = {
            name: logs
            for (of, name), logs in medians.items()
            if of == case and name not in {"memset_2x", "none"} and len(logs) > 2
        }
        if len(today) < 3 or not others:
            said.append(f"{case}: too few processes")
            continue
        best = min(others, key=lambda name: spread(others[name]))
        ratio = (spread(today) / spread(others[best])) ** 2 if spread(others[best]) > 0 else math.inf
        p = float(stats.f.sf(ratio, len(today) - 1, len(others[best]) - 1)) * len(others)
        error = spread(today) / math.sqrt(2 * len(today) - 2)
        said.append(
            f"{case}: today {100 * spread(today):.2f} ± {100 * error:.2f} %, least with {best} {percent(spread(others[best]))}"
            f" (p {chance(min(1.0, p))} after {len(others)} looks)"
        )
    return "; ".join(said) or "nothing measured"


def spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else math.nan


def correlation(first_values: Sequence[float], second_values: Sequence[float | None]) -> str:
    known = [(a, b) for a, b in zip(first_values, second_values, strict=True) if b is not None]
    if len(known) < 3 or len({b for _, b in known}) < 2 or len({a for a, _ in known}) < 2:
        return "-"
    return f"{np.corrcoef(np.array(known).T)[0, 1]:+.2f}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def chance(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


# ---------------------------------------------------------------------------------------------------------------------
# Running it


@dataclass(frozen=True)
class Experiment:
    """An experiment: how to measure it, how to sum it up, and its part of the time."""

    measure: Callable[[Ground, Share, Found], None]
    summarise: Callable[[str, Sequence[Row]], Summary]
    weight: float


def plainly(what: str) -> Callable[[str, Sequence[Row]], Summary]:
    return lambda experiment, rows: summarise_plain(experiment, what, rows)


EXPERIMENTS = {
    "parents": Experiment(parents, summarise_parents, 90),
    "first": Experiment(first, summarise_first, 65),
    "heavy": Experiment(heavy, summarise_heavy, 50),
    "resident": Experiment(resident, plainly("with a second/alone"), 55),
    "path": Experiment(path, plainly("long path/short"), 50),
    "age": Experiment(age, plainly("new/old"), 70),
    "flush": Experiment(flush, summarise_flush, 90),
}


def run_experiment(name: str, ground: Ground, seconds: float) -> tuple[dict[str, Any], list[Line]]:
    """Measure and print one experiment; return its rows and lines, also where it broke off."""
    experiment = EXPERIMENTS[name]
    print(f"\n{name}: {seconds:.0f} s at most", flush=True)
    share, found, error = Share(seconds), Found(), ""
    began = time.monotonic()
    with Sampler(ground.gpu) if ground.gpu else contextlib.nullcontext() as sampler:
        try:
            experiment.measure(ground, share, found)
        except Exception as raised:  # noqa: BLE001  one experiment must not cost the others
            error = f"{type(raised).__name__}: {raised}"
    took = time.monotonic() - began
    telemetry = sampler.summary([(began, began + took)]) if sampler else None
    summary = None
    if found.rows:
        try:
            summary = experiment.summarise(name, found.rows)
            print_table(summary.header, summary.table)
        except Exception as raised:  # noqa: BLE001  the rows are still worth keeping
            error = error or f"summary: {type(raised).__name__}: {raised}"
    for what, why in found.troubles.items():
        print(f"  left out: {what}: {why}")
    if telemetry:
        slowed = ", ".join(telemetry.slowdown_reasons) or "no slowdown"
        print(
            f"  SM {telemetry.sm_clock_mhz_median:.0f} MHz ({telemetry.sm_clock_mhz_min} to {telemetry.sm_clock_mhz_max}), "
            f"up to {telemetry.temperature_c_max} °C, {slowed}"
        )
    if error:
        print(f"  broke off: {error}")
    verdict = summary.verdict if summary else "nothing measured"
    print(f"  {name}: {verdict} [{took:.0f} s{', cut short' if share.cut else ''}]", flush=True)
    lines = summary.lines if summary else []
    kept = {
        "seconds": took,
        "cut_short": share.cut,
        "error": error or None,
        "troubles": found.troubles,
        "verdict": verdict,
        "telemetry": telemetry.model_dump(mode="json") if telemetry else None,
        "summary": [{name: known(value) for name, value in dataclasses.asdict(line).items()} for line in lines],
        "rows": found.rows,
    }
    return kept, lines


def known(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def run_all(options: argparse.Namespace, ground: Ground, listing: Listing, deadline: float) -> bool:
    """Every experiment in turn; what one leaves of its share goes to those after it. False if any broke off."""
    environment = describe(
        ground.gpu, ground.device, torch_version=listing.torch, cuda_version=listing.cuda, triton_version=listing.triton,
        cpu_threads=ground.settings.cpu_threads,
    )  # fmt: skip
    record: dict[str, Any] = {
        "command": sys.argv[1:],
        "environment": environment.model_dump(mode="json"),
        "counts": dataclasses.asdict(ground.counts),
        "placements": ground.settings.placements,
        "cases": ground.cases,
        "experiments": {},
    }
    lines: list[Line] = []
    names = list(options.experiments)
    for position, name in enumerate(names):
        weights = [EXPERIMENTS[later].weight for later in names[position:]]
        left = max(0.0, deadline - time.monotonic())
        record["experiments"][name], found = run_experiment(name, ground, left * weights[0] / sum(weights))
        lines += found
        if options.out:  # each time, so that a killed run keeps what it has
            options.out.write_text(json.dumps(record) + "\n", encoding="utf-8")
    print("\nAll figures, mean ± standard error")
    print_table(
        ("experiment", "case", "what", "figure", "n", "p", "note"),
        [(line.experiment, line.case, line.what, line.shown, str(line.count), chance(line.chance), line.note) for line in lines],
    )
    print("\nVerdicts")
    for name, kept in record["experiments"].items():
        print(
            f"  {name}: {kept['verdict']}{' (cut short)' if kept['cut_short'] else ''}{' (broke off)' if kept['error'] else ''}"
        )
    return not any(kept["error"] for kept in record["experiments"].values())


def set_up(ground: Ground, wanted: Sequence[str]) -> tuple[Ground, Listing]:
    """Copy the trees, compile, and leave out what this machine cannot run."""
    for tree in ground.trees.values():
        copy_tree(tree, ground.settings.bench)
    with Hosts({"head": tree_spec(ground, ground.trees["head"])}, ground.environ) as hosts:
        host = hosts.sides["head"]
        listing = host.listing()
        there = {case.name: case.skipped for case in listing.cases}
        for case in wanted:
            if there.get(case, "not in this tree"):
                print(f"left out everywhere: {case}: {there.get(case, 'not in this tree')}")
        cases = [case for case in wanted if there.get(case) == ""]
        found = Found()
        compile_cases(ground, {"head": host}, [*cases, HEAVY], found)
    for case, why in found.troubles.items():
        print(f"left out everywhere: {case}: {why}")
    if not found.left(cases):
        raise SystemExit("There is no case that this machine can run.")
    return dataclasses.replace(ground, cases=tuple(found.left(cases))), listing


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the biases of paired measuring of unchanged code.")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"some of: {', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--out", type=Path, help="write everything that was measured to this JSON file")
    parser.add_argument("--seconds", type=float, default=480.0, help="for everything (480)")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="the GPU, if there is one")
    parser.add_argument("--case", action="append", help="instead of the usual cases; repeatable")
    parser.add_argument("--quick", action="store_true", help="a few pairs, to see that it works")
    parser.add_argument("--seed", type=int, default=1, help="of a single process with --child (1)")
    parser.add_argument("--child", choices=("flush",), help="be one of the processes of flush")
    parser.add_argument(
        "--variant", choices=tuple(VARIANTS), help="of a single process with --child; without it, requests are read"
    )
    options = parser.parse_args()
    unknown = set(options.experiments) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))} (there are {', '.join(EXPERIMENTS)})")
    return options


def main() -> None:
    options = parse_arguments()
    if options.child:
        if options.variant:
            print(json.dumps(flush_process(options.variant, options.seed), indent=1))
        else:
            serve_flush()
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are ended and the folder goes
    deadline = time.monotonic() + options.seconds
    # The hosts start in another folder, so a relative path to ratchet would be lost.
    inherited = os.environ.get("PYTHONPATH", "")
    places = [
        str(Path(ratchet.__file__).resolve().parents[1]),
        *(str(Path(part).resolve()) for part in inherited.split(":") if part),
    ]
    environ = {**os.environ, "PYTHONPATH": ":".join(places)}
    gpu = None if options.device == "cpu" else choose_gpu(None, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if options.device == "cuda" and gpu is None:
        raise SystemExit("There is no GPU here.")
    device: Device = "cuda" if gpu else "cpu"
    if not options.experiments:
        options.experiments = [name for name in EXPERIMENTS if gpu or name != "flush"]
    settings = load_settings(ROOT, os.environ, {})
    counts = QUICK if options.quick else Counts(settings.blocks, settings.block_ms)
    key, shown = (f"gpu-{gpu.uuid}", f"GPU {gpu.index}") if gpu else ("cpu", "The CPU")
    with (
        hold(key, "research/biases.py", 0, print, device=shown, folder=lock_folder(os.environ)),
        tempfile.TemporaryDirectory(prefix="ratchet-biases-", ignore_cleanup_errors=True) as folder,
    ):
        wanted = tuple(options.case or CASES[device])
        ground = Ground(Path(folder), settings, device, gpu, counts, (), environ)
        ground, listing = set_up(ground, wanted)
        print(f"{gpu.name if gpu else 'CPU'}: {', '.join(ground.cases)}; set up and compiled in "
              f"{options.seconds - (deadline - time.monotonic()):.0f} s")  # fmt: skip
        whole = run_all(options, ground, listing, deadline)
    if not whole:
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except RatchetError as error:
        raise SystemExit(f"{error.message} {error.hint}") from None
