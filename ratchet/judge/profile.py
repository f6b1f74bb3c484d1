"""Profiles beside each other (which launch of the head is which of the reference), and measured roofs.

The diagnosis and the page of a profile match launches with `matched`; verdicts and the roofline ask how near a case comes to
the roof that the same machine reached. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Literal

from ratchet.records.baseline import BaselineEntry
from ratchet.records.environment import Peaks
from ratchet.records.profile import Activity, CaseProfile, KernelProfile, Profile
from ratchet.records.run import CaseRun, WorkloadIdentity
from ratchet.untrusted import SENTENCE, clean

Match = tuple[KernelProfile | None, KernelProfile | None]
"""Head and reference; None where the other side has no such launch."""


def matched(head: Profile | None, reference: Profile | None) -> list[Match]:
    """Return the launches of both sides in pairs, by function name and order: the third ``softmax`` with the third ``softmax``.

    A side that is None launches nothing. The order is that of the head; launches that only the reference has come last, in its
    own order.
    """
    heads, references = (side.kernels if side else () for side in (head, reference))
    left: dict[str, list[KernelProfile]] = defaultdict(list)
    for kernel in references:
        left[kernel.function].append(kernel)
    pairs: list[Match] = []
    for kernel in heads:
        waiting = left[kernel.function]
        pairs.append((kernel, waiting.pop(0) if waiting else None))
    alone = {id(kernel) for waiting in left.values() for kernel in waiting}
    return [*pairs, *((None, kernel) for kernel in references if id(kernel) in alone)]


# What of a profile is worth keeping for years.

KEPT, KEPT_TIMES = 3, 5
"""Findings, sentences and kernels, and traced times, that stay of a profile: as many as a report shows."""
_OTHERS = "all others"


def shortened(profile: CaseProfile) -> CaseProfile:
    """Return the first findings, and the counters of the longest kernels or else the longest traced times: a few kilobytes.

    Files, trees, rules of the profiler and other metrics are left out.
    """
    pairs = matched(profile.head, profile.reference)
    longest = nlargest(KEPT, pairs, key=lambda pair: max(kernel.duration_s or 0.0 for kernel in pair if kernel))
    kept = {id(kernel) for pair in longest for kernel in pair}
    changes = {
        "findings": tuple(
            finding.model_copy(update={name: clean(value, SENTENCE) for name, value in finding if isinstance(value, str)})
            for finding in profile.findings[:KEPT]
        ),
        "steps_down": _sentences(profile.steps_down),
        "failed": {side: clean(why, SENTENCE) for side, why in profile.failed.items()},
        **dict.fromkeys(("head_tree", "reference_tree")),
        "files": {},
    }
    for name, side in (("head", profile.head), ("reference", profile.reference)):
        if side is not None:
            kernels = tuple(_counters(kernel) for kernel in side.kernels if id(kernel) in kept)
            activity = None if kept or side.activity is None else _longest_times(side.activity)
            changes[name] = Profile(tool=side.tool, kernels=kernels, activity=activity, warnings=_sentences(side.warnings))
    return profile.model_copy(update=changes)


def _sentences(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean(text, SENTENCE) for text in texts[:KEPT])


def _counters(kernel: KernelProfile) -> KernelProfile:
    function = clean(kernel.function, SENTENCE)
    limiter = kernel.occupancy_limiter and clean(kernel.occupancy_limiter, SENTENCE)
    texts = {"name": function, "function": function, "occupancy_limiter": limiter}
    return kernel.model_copy(update={**texts, "stalls": {}, "flops": {}, "metrics": {}, "peaks": Peaks(), "rules": ()})


def _longest_times(activity: Activity) -> Activity:
    """Return the activity with its longest kernels and copies."""
    kernels, copies = _longest(activity.kernels), _longest(activity.copies)
    return activity.model_copy(update={"kernels": kernels, "copies": copies, "ran": {}, "cpu_s": {}})


def _longest(times: Mapping[str, float]) -> dict[str, float]:
    """Return the longest of some times by name; the time of the others is together, so that the sum stays."""
    longest = nlargest(KEPT_TIMES, times, key=lambda name: times[name])
    rest = sum(seconds for name, seconds in times.items() if name not in longest)
    return {clean(name, SENTENCE): times[name] for name in longest} | ({_OTHERS: rest} if rest else {})


# Roofs: how near a case comes to what the same machine reached in the same run, the copy for bytes, the matmul for FLOPs.


COPY, MATMUL = "copy", "matmul"
"""Benchmarks with these names are the roofs."""


@dataclass(frozen=True)
class Roofs:
    """Measured ceilings: bytes per second, and FLOP per second by dtype."""

    bytes_per_s: float | None
    flops_per_s: Mapping[str, float]
    l2_bytes: int | None = None
    """Size of the L2 cache, where it is known: the copy is no roof for what fits into it."""


@dataclass(frozen=True)
class RoofShare:
    """The share that a case reaches of the roof that binds it."""

    roof: str
    share: float | None
    """None where the roof does not hold the case, for the reason that ``cached`` gives."""
    cached: Literal["warm", "fits"] | None = None


def measured_roofs(cases: tuple[CaseRun, ...], stored: Mapping[str, BaselineEntry], l2_bytes: int | None = None) -> Roofs:
    """Return the best copy and matmul of this run; where the run has none, of the stored baseline of the same machine.

    A copy whose data come from the L2 cache (of ``l2_bytes``) says nothing about device memory, and is left out.
    """
    copies: list[float] = []
    products: dict[str, float] = {}
    for name, entry in stored.items():
        speed = 0.0 if cached(entry.workload, l2_bytes) else entry.bandwidth_gb_s
        _note(name, entry.workload, speed, entry.throughput_gflops, copies, products)
    fresh_copies: list[float] = []
    fresh_products: dict[str, float] = {}
    for case in cases:
        if case.workload and case.performance:
            done = case.performance
            speed = 0.0 if cached(case.workload, l2_bytes) else done.bandwidth_gb_s
            _note(case.name, case.workload, speed, done.throughput_gflops, fresh_copies, fresh_products)
    return Roofs(max(fresh_copies or copies, default=None), {**products, **fresh_products}, l2_bytes)


def is_warm(workload: WorkloadIdentity) -> bool:
    """Return whether the samples found their data in the L2 cache: asked for so, or replayed in a graph."""
    return workload.device == "cuda" and (workload.cache == "warm" or workload.clock == "graph")


def cached(workload: WorkloadIdentity, l2_bytes: int | None) -> Literal["warm", "fits"] | None:
    """Return why a case on a GPU may get its data from the L2 cache instead of device memory; None where it may not.

    What fits is read from device memory by the first touch after a flush; what is written stays in the cache.
    """
    if is_warm(workload):
        return "warm"
    return "fits" if workload.device == "cuda" and l2_bytes and 0 < (workload.bytes or 0) <= l2_bytes else None


def share(workload: WorkloadIdentity, seconds: float, roofs: Roofs) -> RoofShare | None:
    """Return how near the case comes to the roof that binds it; None where no roof was measured for it."""
    times = {}
    if roofs.bytes_per_s and workload.bytes:
        times[COPY] = workload.bytes / roofs.bytes_per_s
    if workload.flops and workload.dtype in roofs.flops_per_s:
        times[MATMUL] = workload.flops / roofs.flops_per_s[workload.dtype]
    if not times:
        return None
    roof = max(times, key=lambda name: times[name])
    if roof == COPY and (why := cached(workload, roofs.l2_bytes)):
        return RoofShare(roof, None, why)
    return RoofShare(roof, times[roof] / seconds)


def _note(
    name: str, workload: WorkloadIdentity, gb_s: float, gflops: float, copies: list[float], products: dict[str, float]
) -> None:
    benchmark = name.partition("/")[0]
    if benchmark == COPY and gb_s:
        copies.append(gb_s * 1e9)
    if benchmark == MATMUL and gflops:
        products[workload.dtype] = max(products.get(workload.dtype, 0.0), gflops * 1e9)
