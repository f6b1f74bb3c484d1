"""Datasheets, counters, declared work and times as a `Roofline`. Pure.

Called by ``ratchet variants --roofline`` and for each profiled case; checks use `highest` as rates that their GPU cannot exceed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from ratchet.common.rooflines import Bound, Roof, Roofline, RooflinePoint, printed_peaks
from ratchet.core.judge.roofs import Roofs, cached, is_warm
from ratchet.core.records.environment import Fingerprint, Peaks
from ratchet.core.records.profile import Profile
from ratchet.core.records.run import Side, WorkloadIdentity
from ratchet.explain.traces import MATTERS, kernel_times, launches_by_name

# Roofs and points.


FAR = 0.5
"""Below this share of every roof, neither memory nor arithmetic limits a case: too little is in flight, or it does other work."""
AGREEMENT = 0.05
"""Fraction by which declared and counted FLOPs may differ."""
PRECISIONS = {
    "float64": "fp64",
    "float32": "fp32",
    "tfloat32": "tensor_tf32",
    "float16": "tensor_fp16",
    "bfloat16": "tensor_bf16",
}
"""dtype of a workload → the unit that computes in it. 16-bit types: matrix units, because no other unit is as fast."""
_SOURCES: tuple[Literal["measured", "report", "datasheet"], ...] = ("measured", "report", "datasheet")
"""A case is read against the first one that is known: a rate reached on this machine says more than a printed one."""


def precision_of(dtype: str) -> str:
    """Convert ``bfloat16`` to ``tensor_bf16``; an unknown dtype stays as it is, and has no roof."""
    return "tensor_fp8" if dtype.startswith("float8") else PRECISIONS.get(dtype, dtype)


def roofs_from(source: Literal["datasheet", "report", "measured"], peaks: Peaks) -> tuple[Roof, ...]:
    """Return one roof for each rate that is known."""
    roofs = [Roof(kind="compute", source=source, rate=rate, precision=name) for name, rate in peaks.flops_per_s.items()]
    if peaks.dram_bytes_per_s:
        roofs.append(Roof(kind="dram", source=source, rate=peaks.dram_bytes_per_s))
    if peaks.l2_bytes_per_s:
        roofs.append(Roof(kind="l2", source=source, rate=peaks.l2_bytes_per_s))
    return tuple(roofs)


def roofs_measured(roofs: Roofs) -> tuple[Roof, ...]:
    """Return the roofs that the copy and matmul benchmarks reached."""
    by_rate = sorted(roofs.flops_per_s.items(), key=lambda item: item[1])  # of two types of 8 bits the faster one counts
    flops = {precision_of(dtype): rate for dtype, rate in by_rate}
    return roofs_from("measured", Peaks(dram_bytes_per_s=roofs.bytes_per_s, flops_per_s=flops))


def machine_roofs(fingerprint: Fingerprint, measured: Roofs, profiles: Iterable[Profile | None] = ()) -> tuple[Roof, ...]:
    """Return every roof that is known for a machine: measured, from the reports of these profiles, and from the datasheet."""
    sheet = printed_peaks(fingerprint)
    reported, printed = roofs_from("report", report_peaks(profiles)), roofs_from("datasheet", sheet) if sheet else ()
    return (*roofs_measured(measured), *reported, *printed)


def report_peaks(profiles: Iterable[Profile | None]) -> Peaks:
    """Return the peaks of these reports, each from the longest kernel that has it: short kernels know clocks badly."""
    kernels = [kernel for profile in profiles if profile for kernel in profile.kernels]
    longest_first = [kernel.peaks for kernel in sorted(kernels, key=lambda kernel: -(kernel.duration_s or 0.0))]
    return Peaks(
        dram_bytes_per_s=next((peaks.dram_bytes_per_s for peaks in longest_first if peaks.dram_bytes_per_s), None),
        l2_bytes_per_s=next((peaks.l2_bytes_per_s for peaks in longest_first if peaks.l2_bytes_per_s), None),
        flops_per_s={name: rate for peaks in reversed(longest_first) for name, rate in peaks.flops_per_s.items()},
    )


def counted_flops(profile: Profile) -> dict[str, float]:
    """Return precision → operations of all kernels of one call."""
    names = dict.fromkeys(name for kernel in profile.kernels for name in kernel.flops)
    return {name: sum(kernel.flops.get(name, 0.0) for kernel in profile.kernels) for name in names}


def counted_bytes(profile: Profile) -> float | None:
    """Return the bytes of device memory that the kernels of one call read and wrote; None where one has no such counter."""
    moved = [kernel.dram_bytes for kernel in profile.kernels]
    known = [count for count in moved if count is not None]
    return sum(known) if known and len(known) == len(moved) else None


def is_of_whole_call(profile: Profile) -> bool:
    """Return whether counters are those of a whole call: nearly all its kernels, each launch. True where no trace says more."""
    activity = profile.activity
    if activity is None or not activity.ran:
        return True
    counted = Counter(kernel.function for kernel in profile.kernels)
    times, launches = kernel_times(activity), launches_by_name(activity, counted)
    is_every_launch = all(count >= math.floor(launches.get(name, 0)) for name, count in counted.items())
    return is_every_launch and sum(times.get(name, 0.0) for name in counted) >= MATTERS * sum(times.values())


def counted(
    case: str,
    side: Side | None,
    profile: Profile,
    roofs: tuple[Roof, ...],
    seconds: float | None,
    workload: WorkloadIdentity | None = None,
) -> RooflinePoint | None:
    """Return a point whose FLOPs and bytes are the profiler's own.

    ``seconds`` is the benchmark's median; without one, the profiler's durations are added up. None where the report lacks the
    counters, where neither knows a time, or where the benchmark timed more than the profiler counted.
    """
    moved, flops = counted_bytes(profile), counted_flops(profile)
    durations = [kernel.duration_s for kernel in profile.kernels if kernel.duration_s]
    if moved is None or not all(kernel.flops for kernel in profile.kernels):
        return None
    if seconds is None and len(durations) < len(profile.kernels):
        return None
    if seconds is not None and not is_of_whole_call(profile):
        return None
    precision = binding_precision(flops, roofs)
    return RooflinePoint(
        case=case,
        side=side,
        flops=flops[precision],
        precision=precision,
        bytes=moved,
        seconds=seconds or sum(durations),
        source="counters",
        timed_by="benchmark" if seconds else "profiler",
        warm=seconds is not None and workload is not None and is_warm(workload),
        all_flops=flops,
        of_declared=agreement(workload, profile) if workload else None,
    )


def binding_precision(flops: Mapping[str, float], roofs: Iterable[Roof]) -> str:
    """Return the precision whose units need the most time; without roofs, the one with the most operations."""
    best = best_roofs(roofs)
    known = {name: count / best[name].rate for name, count in flops.items() if name in best and count}
    chosen = known or dict(flops)
    return max(sorted(chosen), key=lambda name: chosen[name])


def declared(
    case: str, side: Side | None, workload: WorkloadIdentity, seconds: float, l2_bytes: int | None = None
) -> RooflinePoint:
    """Return a point from the work that the benchmark declares for one call; what it does not declare counts as 0."""
    return RooflinePoint(
        case=case,
        side=side,
        flops=workload.flops or 0.0,
        precision=precision_of(workload.dtype),
        bytes=workload.bytes or 0.0,
        seconds=seconds,
        source="declared",
        warm=cached(workload, l2_bytes) is not None,
    )


def point(
    case: str,
    side: Side | None,
    profile: Profile | None,
    workload: WorkloadIdentity | None,
    seconds: float | None,
    roofs: tuple[Roof, ...],
    l2_bytes: int | None,
) -> RooflinePoint | None:
    """Return the point from counters where there are any, else from the work that the benchmark declares, if it does."""
    by_counters = counted(case, side, profile, roofs, seconds, workload) if profile else None
    if by_counters or workload is None or seconds is None or not workload.declares_work:
        return by_counters
    return declared(case, side, workload, seconds, l2_bytes)


def best_roofs(roofs: Iterable[Roof]) -> dict[str, Roof]:
    """Return precision or kind → the roof that a case is read against."""
    order = {source: rank for rank, source in enumerate(_SOURCES)}
    best: dict[str, Roof] = {}
    for roof in sorted(roofs, key=lambda roof: (order[roof.source], -roof.rate)):
        best.setdefault(roof.precision or roof.kind, roof)
    return best


def roofline(device: str, points: Iterable[RooflinePoint], roofs: tuple[Roof, ...], notes: Iterable[str] = ()) -> Roofline:
    """Join everything; each point gets its share of every roof that may limit it, and what binds it."""
    return Roofline(device=device, roofs=roofs, points=tuple(_read(point, roofs) for point in points), notes=tuple(notes))


def _read(point: RooflinePoint, roofs: tuple[Roof, ...]) -> RooflinePoint:
    """Return the point with its share of every roof that applies to it, and what binds it.

    Declared bytes that come from a cache have no share of a memory roof; where that would be the nearest one, the cache binds.
    """
    every = {roof.key: share for roof in roofs if (share := _share(point, roof)) is not None}
    cached = {roof.key for roof in roofs if roof.kind == "dram" and point.warm and point.source == "declared"}
    shares = {key: share for key, share in every.items() if key not in cached}
    best = best_roofs(roofs)
    held = [best[name] for name in ("dram", point.precision) if name in best and best[name].key in every]
    if not held:
        return point.model_copy(update={"shares": shares})
    nearest = max(held, key=lambda roof: every[roof.key])
    return point.model_copy(
        update={
            "shares": shares,
            "bound": _bound(point, nearest, every[nearest.key]),
            "bound_roof": None if nearest.key in cached else nearest.key,
        }
    )


def _share(point: RooflinePoint, roof: Roof) -> float | None:
    if roof.kind == "dram":
        return point.bytes_per_s / roof.rate if point.bytes else None
    if roof.kind == "compute" and roof.precision == point.precision and point.flops:
        return point.flops_per_s / roof.rate
    return None  # the bytes between L2 and the SMs are not those of device memory


def _bound(point: RooflinePoint, nearest: Roof, share: float) -> Bound:
    if share < FAR:
        return "neither"
    if nearest.kind == "dram" and point.warm:
        return "cache"
    return "memory" if nearest.kind == "dram" else "compute"


def agreement(workload: WorkloadIdentity, profile: Profile) -> float | None:
    """Return counted over declared FLOPs, which should be within 1 ± `AGREEMENT`.

    Only FLOPs in the workload's own precision count: the matrix units' work is compared with the declared products, without the
    exponentials beside them. None where the workload declares no FLOPs or the report counted none.
    """
    done = counted_flops(profile).get(precision_of(workload.dtype))
    return done / workload.flops if done and workload.flops else None
