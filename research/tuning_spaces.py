"""Made-up recorded spaces, on which ``research/tuning.py --chosen`` and ``--aside`` compare searches.

Each is a family: a seed draws the device and the kernel's habits. Times follow what such kernels are known to depend on
(occupancy, coalescing, traffic, registers, what a compiler does with one combination), with noise of one to two percent.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from recorded_spaces import RecordedSpace

from ratchet.tune.space import Candidates, Space, candidates

Floats = NDArray[np.float64]


def made_up(seeds: range = range(3), *, unseen: bool = False) -> dict[str, RecordedSpace]:
    """One of each family for each seed; ``unseen``: of the families on which nothing was ever chosen."""
    families = (twins, orders, many) if unseen else (product, stencil, channels, inside, plateaus, cliffs, holes)
    return {f"{family.__name__}/{seed}": family(seed) for family in families for seed in seeds}


def elsewhere(space: RecordedSpace, seed: int) -> RecordedSpace:
    """The recorded space on an imaginary other device: other configurations are the best, and others fail.

    Differences of log time are stretched; each value, and each pair of values of three pairs of parameters, has a factor of its
    own; and what has the largest products of two parameters fails there.
    """
    rng = np.random.default_rng(400 + seed)
    valid, sizes = space.candidates, space.candidates.space.sizes
    times = np.array([np.nan if time_ms is None else time_ms for time_ms in space.times])
    wide = [column for column, size in enumerate(sizes) if size > 1]
    log = np.log(times / np.nanmin(times)) * rng.uniform(0.7, 1.2)
    for column in wide:
        log += 0.1 * rng.standard_normal(sizes[column])[valid.codes[:, column]]
    pairs = [rng.choice(wide, 2, replace=False) for _ in range(3)]
    log += np.log(_habits(valid, rng, tuple((int(first), int(second)) for first, second in pairs), 0.15))
    numeric = [column for column in wide if sizes[column] > 2]
    first, second = (np.log2(1 + _columns(valid)[column]) for column in rng.choice(numeric, 2, replace=False))
    fails = first + second > np.quantile(first + second, rng.uniform(0.6, 1.0))
    return _recorded(valid, np.exp(log), fails | np.isnan(times))


def product(seed: int) -> RecordedSpace:
    """A matrix product's tiles: occupancy, memory, arithmetic, with luck of some tiles and noise of 1.5 %."""
    rng = np.random.default_rng(seed)
    tiles, threads, widths = (16, 32, 64, 128), (8, 16, 32), (1, 2, 4, 8)
    flag = (0, 1)
    space = Space(
        {
            "m": tiles,
            "n": tiles,
            "k": (16, 32),
            "tm": threads,
            "tn": threads,
            "vm": widths,
            "vn": widths,
            "a": flag,
            "b": flag,
            "s": flag,
        },
        (lambda m, tm, vm: m % (tm * vm) == 0, lambda n, tn, vn: n % (tn * vn) == 0, lambda tm, tn: tm * tn <= 512),
    )
    valid = candidates(space)
    m, n, k, tm, tn, vm, vn, a, b, s = _columns(valid)
    outputs = m / tm * n / tn
    registers = outputs + m / tm + n / tn + 16 + rng.uniform(0, 10) * vm
    shared = 4 * k * (a * m + b * n)
    blocks = np.minimum(np.floor(65536 / (registers * tm * tn)), np.floor(49152 / np.maximum(shared, 1)))
    occupancy = np.minimum(blocks * tm * tn, 2048) / 2048
    memory = (
        (1 / m + 1 / n) * rng.uniform(15, 60) * (1 + rng.uniform(0.2, 0.6) * (1 - a) * (vm < 2) + rng.uniform(0.2, 0.6) * (1 - b))
    )
    work = 1 + rng.uniform(0.5, 2) / outputs + rng.uniform(0.1, 0.5) / vm + rng.uniform(0, 0.15) * s
    work += rng.uniform(0.05, 0.2) * np.abs(np.log2(vn) - rng.integers(0, 3))
    busy = np.clip((occupancy + 0.05) * (1 + 0.15 * outputs) * rng.uniform(0.5, 1.2), 0.02, 1)
    times = np.maximum(work, memory) / busy * np.exp(0.015 * rng.standard_normal(valid.count))
    lucky = 1 + 0.12 * np.clip(rng.standard_normal((4, 4, 4, 2)), -1, 2)
    times *= lucky[tuple(valid.codes[:, column] for column in (0, 1, 5, 7))]
    fails = (registers > 200 + rng.uniform(0, 55)) | (shared > 49152 * rng.uniform(0.4, 0.9)) | (blocks < 1)
    return _recorded(valid, times, fails)


def stencil(seed: int) -> RecordedSpace:
    """A stencil that does several steps of time in shared memory: halos cost more the more steps, traffic less."""
    rng = np.random.default_rng(100 + seed)
    limit = int(rng.choice([48, 64, 96, 160])) * 1024
    space = Space(
        {
            "bx": (8, 16, 32, 64, 128, 256),
            "by": (1, 2, 4, 8, 16, 32),
            "tx": (1, 2, 3, 4, 6, 8),
            "ty": (1, 2, 3, 4, 6, 8),
            "steps": (1, 2, 3, 4, 5, 6, 8, 10),
            "unroll": (1, 2, 4, 5),
            "power": (0, 1),
        },
        (
            lambda bx, by: 32 <= bx * by <= 1024,
            lambda steps, unroll: steps % unroll == 0,
            lambda bx, tx, steps: bx * tx > 2 * steps,
            lambda by, ty, steps: by * ty > 2 * steps,
        ),
    )
    valid = candidates(space)
    bx, by, tx, ty, steps, unroll, power = _columns(valid)
    wide, high = bx * tx, by * ty
    useful = (wide - 2 * steps) * (high - 2 * steps)
    shared = 4 * wide * high * (2 + power)
    registers = 18 + rng.uniform(2, 5) * tx * ty + rng.uniform(1, 4) * unroll + rng.uniform(0, 8) * (1 - power)
    threads = bx * by
    blocks = np.minimum(np.floor(65536 / (registers * threads)), np.floor(limit / shared))
    blocks = np.minimum(blocks, np.minimum(np.floor(2048 / threads), 16))
    occupancy = blocks * threads / 2048
    coalesced = np.minimum(1, (wide / 32) ** 0.3) * (1 - rng.uniform(0.05, 0.3) * (bx < 32))
    traffic = wide * high * (2 + (1 - power) * steps * rng.uniform(0.1, 0.4)) / (useful * steps) / np.maximum(coalesced, 0.1)
    work = wide * high * rng.uniform(0.1, 0.6) / useful * (1 + rng.uniform(0.1, 0.4) / unroll) * (1 + 0.3 / (tx * ty))
    hidden = np.clip((occupancy + 0.03 * tx * ty) * rng.uniform(1.2, 2.5), 0.02, 1)
    times = np.maximum(traffic, work) / hidden + 0.2 * np.minimum(traffic, work)
    times *= _habits(valid, rng, ((0, 2), (1, 3), (4, 5)), 0.04) * np.exp(0.01 * rng.standard_normal(valid.count))
    return _recorded(valid, times, (shared > limit) | (blocks < 1) | (registers > 255))


def channels(seed: int) -> RecordedSpace:
    """A sum over many channels with shifts: bound by memory, reuse across rows, unrolling that must divide the channels."""
    rng = np.random.default_rng(200 + seed)
    space = Space(
        {
            "bx": (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512),
            "by": (1, 2, 4, 8, 16, 32, 64, 128),
            "tx": (1, 2, 3, 4, 5, 6, 8),
            "ty": (1, 2, 3, 4, 6, 8),
            "sx": (0, 1),
            "sy": (0, 1),
            "unroll": (0, 2, 4, 6, 8, 16),
        },
        (
            lambda bx, by: 32 <= bx * by <= 1024,
            lambda tx, sx: tx > 1 or sx == 0,
            lambda ty, sy: ty > 1 or sy == 0,
            lambda tx, ty: tx * ty <= 32,
        ),
    )
    valid = candidates(space)
    bx, by, tx, ty, sx, sy, unroll = _columns(valid)
    threads, outputs = bx * by, tx * ty
    registers = 16 + rng.uniform(1, 2.5) * outputs + rng.uniform(0.2, 1.0) * unroll * np.sqrt(outputs)
    blocks = np.minimum(np.floor(65536 / (registers * threads)), np.minimum(np.floor(2048 / threads), 24))
    occupancy = blocks * threads / 2048
    reuse = 1 + rng.uniform(0.3, 1.0) * np.log2(by * ty)
    stride = np.where(sx == 1, 1.0, 1 / (1 + rng.uniform(0.1, 0.6) * (tx - 1)))
    coalesced = np.minimum(1, (bx / 32) ** rng.uniform(0.5, 0.9)) * stride * np.where(bx % 32 == 0, 1, rng.uniform(0.7, 0.95))
    memory = 1 / (reuse * coalesced)
    work = rng.uniform(0.1, 0.35) * (1 + rng.uniform(0.2, 1) / outputs) * (1 + rng.uniform(0.1, 0.5) / (unroll + 1))
    hidden = np.clip(rng.uniform(1.2, 3) * (occupancy + 0.02 * outputs), 0.02, 1)
    waves = 1 + 0.25 * ((rng.uniform(500, 4000) / (bx * tx)) % 1) * rng.uniform(0, 1) + 0.1 * sy * rng.uniform(-0.5, 0.5)
    times = (np.maximum(memory, work) + 0.3 * np.minimum(memory, work)) / hidden * waves
    times *= _habits(valid, rng, ((0, 6), (2, 3), (1, 3)), 0.05) * np.exp(0.012 * rng.standard_normal(valid.count))
    return _recorded(valid, times, (blocks < 1) | (registers > 255))


def inside(seed: int) -> RecordedSpace:
    """Points in a polygon: weak slopes, methods without an order, and very many configurations near the best."""
    rng = np.random.default_rng(300 + seed)
    space = Space(
        {
            "bx": tuple(range(32, 1024 + 1, 32)),
            "tile": (1, *range(2, 21, 2)),
            "between": (0, 1, 2, 3),
            "method": (0, 1, 2),
            "slopes": (0, 1),
        },
    )
    valid = candidates(space)
    bx, tile, between, _, slopes = _columns(valid)
    registers = 20 + tile * rng.uniform(2, 6) + 6 * slopes
    blocks = np.minimum(np.floor(65536 / (registers * bx)), np.minimum(np.floor(2048 / bx), 16))
    occupancy = blocks * bx / 2048
    between_cost, method_cost = rng.uniform(0.9, 1.5, 4), rng.uniform(0.95, 1.3, 3)
    pairs = np.exp(0.12 * rng.standard_normal((4, 3)))
    codes = valid.codes
    work = between_cost[codes[:, 2]] * method_cost[codes[:, 3]] * pairs[codes[:, 2], codes[:, 3]]
    work = work * (1 - slopes * rng.uniform(0, 0.15) * (between > 1)) * (1 + rng.uniform(0.2, 0.9) / tile)
    hidden = np.clip(occupancy + 0.04 * tile, 0.05, 1) ** rng.uniform(0.15, 0.4)
    left = (rng.uniform(1e4, 1e5) / (bx * tile)) % 1
    times = work / hidden * (1 + 0.1 * left) * _habits(valid, rng, ((0, 1), (1, 2)), 0.03)
    times *= np.exp(0.01 * rng.standard_normal(valid.count))
    return _recorded(valid, times, (blocks < 1) | (registers > 255))


def plateaus(seed: int) -> RecordedSpace:
    """Steps: most configurations are as slow as many others, and one parameter alone seldom leaves a step."""
    rng = np.random.default_rng(500 + seed)
    values = (1, 2, 4, 8, 16, 32)
    space = Space({**dict.fromkeys("abcd", values), "e": (0, 1), "f": (0, 1), "g": (0, 1, 2)})
    valid = candidates(space)
    logs = np.log2(np.stack(_columns(valid)[:4]))
    log = np.zeros(valid.count)
    for first, second in ((0, 1), (2, 3), (0, 3)):
        away = np.abs(logs[first] + logs[second] - rng.integers(2, 9))
        log += rng.uniform(0.2, 0.5) * np.floor((away + rng.uniform(0, 2)) / 2)
    log += rng.uniform(0.1, 0.3) * (np.abs(logs[1] - logs[2] - rng.integers(-3, 4)) > 1)
    times = np.exp(log) * _habits(valid, rng, ((4, 6), (5, 6)), 0.1) * np.exp(0.005 * rng.standard_normal(valid.count))
    return _recorded(valid, times, np.zeros(valid.count, dtype=bool))


def cliffs(seed: int) -> RecordedSpace:
    """A bowl with edges: beyond some products of two parameters everything takes twice to four times as long."""
    rng = np.random.default_rng(600 + seed)
    values = (1, 2, 3, 4, 6, 8, 12, 16)
    space = Space({**dict.fromkeys("abcd", values), "e": (0, 1), "f": (0, 1, 2, 3)})
    valid = candidates(space)
    logs = np.log2(np.stack(_columns(valid)[:4]))
    log = np.zeros(valid.count)
    for column in range(4):
        log -= rng.uniform(0.05, 0.3) * logs[column]
    for first, second in ((0, 1), (1, 2), (2, 3)):
        log += np.log(rng.uniform(2, 4)) * (logs[first] + logs[second] > rng.uniform(2.5, 6))
    times = np.exp(log) * _habits(valid, rng, ((0, 4), (3, 5), (4, 5)), 0.08) * np.exp(0.01 * rng.standard_normal(valid.count))
    return _recorded(valid, times, np.zeros(valid.count, dtype=bool))


def holes(seed: int) -> RecordedSpace:
    """Three of five configurations fail, whole regions of them, also beside the best."""
    rng = np.random.default_rng(700 + seed)
    values = (1, 2, 4, 8, 16, 32, 64)
    space = Space({**dict.fromkeys("abcd", values), "e": (0, 1), "f": (0, 1, 2)})
    valid = candidates(space)
    logs = np.log2(np.stack(_columns(valid)[:4]))
    mixed = rng.normal(size=(4, 4)) * 0.15 + np.eye(4)
    away = mixed @ (logs - rng.uniform(0.5, 5.5, size=(4, 1)))
    log = 0.06 * (away**2).sum(axis=0)
    fails = np.zeros(valid.count, dtype=bool)
    for first, second in ((0, 1), (1, 3), (2, 3), (2, 4), (3, 5)):
        table = rng.random((space.sizes[first], space.sizes[second])) < 0.17
        fails |= table[valid.codes[:, first], valid.codes[:, second]]
    times = np.exp(log) * _habits(valid, rng, ((0, 4), (1, 5), (2, 3)), 0.08) * np.exp(0.01 * rng.standard_normal(valid.count))
    return _recorded(valid, times, fails)


def twins(seed: int) -> RecordedSpace:
    """Two dimensions that a kernel treats alike: swapping their parameters changes little, so the good spots come in pairs."""
    rng = np.random.default_rng(800 + seed)
    tiles, widths = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8)
    space = Space(
        {"m": tiles, "n": tiles, "vm": widths, "vn": widths, "stages": (1, 2, 3, 4), "warps": (1, 2, 4, 8)},
        (lambda m, n: m * n >= 256,),
    )
    valid = candidates(space)
    m, n, vm, vn, stages, warps = _columns(valid)
    traffic = rng.uniform(20, 60) * (1 / m + 1 / n) / np.minimum(1, 0.3 + 0.25 * stages)
    per_thread = m * n / (32 * warps)
    work = 1 + rng.uniform(1, 4) / per_thread + rng.uniform(0.05, 0.2) * np.abs(np.log2(vm * vn) - rng.integers(2, 5))
    shared = 4 * rng.integers(16, 33) * (m + n) * stages
    occupancy = np.clip(
        np.minimum(np.floor(200_000 / shared), np.floor(65536 / ((30 + per_thread) * 32 * warps))) * warps / 64, 0, 1
    )
    times = np.maximum(traffic, work) / np.clip(rng.uniform(1.5, 4) * occupancy + 0.02, 0.02, 1)
    times *= np.exp(0.04 * rng.standard_normal(4)[valid.codes[:, 2]] + 0.01 * rng.standard_normal(valid.count))
    return _recorded(valid, times, (occupancy <= 0) | (per_thread > rng.uniform(150, 300)))


def orders(seed: int) -> RecordedSpace:
    """Words that have no order: loop orders, layouts, caches; each pair has a cost of its own, and some do not compile."""
    rng = np.random.default_rng(900 + seed)
    loops = tuple("".join(order) for order in itertools.permutations("mnkb"))
    space = Space(
        {
            "loops": loops,
            "left": ("row", "column", "tiled", "swizzled"),
            "right": ("row", "column", "tiled", "swizzled"),
            "cache": ("none", "read", "write", "both", "stream"),
            "unroll": (1, 2, 4, 8, 16),
            "threads": (32, 64, 128, 256, 512, 1024),
        }
    )
    valid = candidates(space)
    codes = valid.codes
    inner = np.array(["mnkb".index(order[-1]) for order in loops])[codes[:, 0]]
    outer = np.array(["mnkb".index(order[0]) for order in loops])[codes[:, 0]]
    log = 0.5 * rng.random((4, 4))[inner, codes[:, 1]] + 0.5 * rng.random((4, 4))[inner, codes[:, 2]] + 0.3 * rng.random(4)[outer]
    log += 0.15 * rng.random((4, 5))[codes[:, 2], codes[:, 3]]
    log += rng.uniform(0.03, 0.1) * (codes[:, 4] + codes[:, 5] - rng.uniform(3, 7)) ** 2 + 0.1 * rng.random(6)[codes[:, 5]]
    fails = (rng.random((24, 4)) < 0.15)[codes[:, 0], codes[:, 1]] | (codes[:, 4] + codes[:, 5] > 8)
    return _recorded(valid, np.exp(log + 0.01 * rng.standard_normal(valid.count)), fails)


def many(seed: int) -> RecordedSpace:
    """Fourteen parameters of which few matter, some only where a switch is on."""
    rng = np.random.default_rng(1000 + seed)
    values, switches = (1, 2, 4, 8, 16), dict.fromkeys("hijklmn", (0, 1))
    valid = candidates(Space({**dict.fromkeys("abcdefg", values), **switches}), limit=20_000)
    logs, on = np.log2(np.stack(_columns(valid)[:7])), valid.codes[:, 7:].T.astype(float)
    log = rng.uniform(0.05, 0.2) * (logs[0] - rng.uniform(0, 4)) ** 2
    log += rng.uniform(0.05, 0.2) * np.abs(logs[1] + logs[2] - rng.uniform(2, 6))
    log += on[0] * (rng.uniform(0.1, 0.2) * np.abs(logs[3] - rng.uniform(0, 4)) - 0.3)
    log += rng.uniform(0.1, 0.3) * (on[1] != on[2]) - rng.uniform(0, 0.1) * on[3]
    log += 0.7 * (logs[1] + logs[3] > rng.uniform(5, 7))
    fails = (on[4] == 1) & (logs[4] > rng.integers(2, 4))
    return _recorded(valid, np.exp(log + 0.008 * rng.standard_normal(valid.count)), fails)


def _columns(valid: Candidates) -> list[Floats]:
    """The values of each parameter."""
    options = valid.space.parameters.values()
    return [np.array(values, dtype=float)[valid.codes[:, column]] for column, values in enumerate(options)]


def _habits(valid: Candidates, rng: np.random.Generator, pairs: tuple[tuple[int, int], ...], size: float) -> Floats:
    """Draw the luck of a compiler with some combinations: a factor for each pair of values."""
    factor = np.ones(valid.count)
    for first, second in pairs:
        table = np.exp(size * rng.standard_normal((valid.space.sizes[first], valid.space.sizes[second])))
        factor *= table[valid.codes[:, first], valid.codes[:, second]]
    return factor


def _recorded(valid: Candidates, times: Floats, fails: NDArray[np.bool_]) -> RecordedSpace:
    return RecordedSpace(valid, tuple(None if bad else float(time) for time, bad in zip(times, fails, strict=True)))
