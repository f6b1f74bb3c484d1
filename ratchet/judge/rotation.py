"""The next step in a session of experiments: which kind of change is exhausted, and which limit of the machine is reached.

`ratchet experiment run` and `status` call it. The figures come from the profile with which the session began. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from ratchet import units
from ratchet.records.experiment import PROFILED_CALLS, Ceiling, CopyRow, ExperimentRecord, Kind, Rotation, SessionRecord

IN_A_ROW = 3
"""Discards of one kind in a row after which another kind is tried."""
KINDS: tuple[Kind, ...] = get_args(Kind)
AT_FLOOR, AT_RATE, OPAQUE, FULL = 0.7, 0.8, 0.5, 0.8
"""Shares from which a ceiling is reached: launches of a call, copies of the rate of pinned ones, an engine of all kernels;
kernels of a call and their warps of those that fit, both."""
_ENGINE = re.compile(r"tensorrt|\btrt|onnxruntime|\bort_|ExecutionContext|myelin", re.IGNORECASE)
_SYNC = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "aten::item", "aten::_local_scalar_dense")
_PRODUCTS = re.compile(r"gemm|matmul|cutlass|conv|aten::(add)?mm|aten::bmm|wgmma", re.IGNORECASE)


def rotation(session: SessionRecord) -> Rotation | None:
    """Return the kind to go to, once a kind was discarded three times in a row. None: go on. Crashes are no evidence."""
    done = [one for one in session.experiments if one.decision.status != "crash"]
    last = [one.kind for one in done[-IN_A_ROW:] if one.decision.status == "discard"]
    if len(last) < IN_A_ROW or len(set(last)) > 1:
        return None
    exhausted = exhausted_kinds(done)
    later = [kind for kind in KINDS[KINDS.index(last[0]) + 1 :] if kind not in exhausted]
    following = next(iter(later), None)
    why = what_profile_says(following, session) if following else "Every kind of change after it is exhausted."
    return Rotation(exhausted=last[0], next=following, why=why)


def exhausted_kinds(experiments: Sequence[ExperimentRecord]) -> set[Kind]:
    """Return the kinds that were discarded three times in a row, and not kept since."""
    found: set[Kind] = set()
    for kind in KINDS:
        run = 0
        for one in (one for one in experiments if one.kind == kind):
            run = run + 1 if one.decision.status == "discard" else 0
        if run >= IN_A_ROW:
            found.add(kind)
    return found


def what_profile_says(kind: Kind, session: SessionRecord) -> str:
    """Return one sentence of the first profile about a kind of change, in time a call."""
    baseline, activity = session.baseline, session.baseline.activity
    calls = max(1, activity.calls)
    slowest = max(session.noise[1:], key=lambda one: one.median_ms, default=None)
    if kind == "transfer":
        pageable = f", {activity.pageable_copies / calls:.0f} of them pageable" if activity.pageable_copies else ""
        copies = [row for row in baseline.copies if row.name.startswith("Memcpy")] or list(baseline.copies[:1])  # on a CPU
        took_us, count = (sum(column) / PROFILED_CALLS for column in ([row.us for row in copies], [row.count for row in copies]))
        return f"Copies take {took_us:.0f}us a call ({count:.0f} of them{pageable})."
    if kind == "dispatch":
        gaps = f", and the GPU is idle {activity.gaps_s / calls * 1e6:.0f}us between them" if activity.gaps_s is not None else ""
        return f"{_launches(session)} operations are started a call{gaps}."
    if kind == "monolithic":
        where = f"{slowest.name} is the longest stage: {slowest.median_ms * 1e3:.0f}us" if slowest else "No stage is declared"
        return f"{where}. Make one compiled operation of a whole stage, so that all its savings come at once."
    if kind == "synchronisation":
        waits_us = sum(seconds for name, seconds in activity.cpu_s.items() if name.startswith(_SYNC)) / calls * 1e6
        return f"The host waits for the GPU {waits_us:.0f}us a call."
    if kind == "compute":
        total = sum(activity.kernels.values())
        products = sum(seconds for name, seconds in activity.kernels.items() if _PRODUCTS.search(name))
        return (
            f"Matrix products and convolutions are {units.percent(products / total if total else 0)} of the time of all kernels."
        )
    return f"The whole call takes {session.noise[0].median_ms:.3f}ms: overlap its stages across inputs, or batch them."


def ceilings(session: SessionRecord) -> tuple[Ceiling, ...]:
    """Return the limits of this machine beside what the profile shows."""
    activity, floors = session.baseline.activity, session.floors
    whole_us = session.noise[0].median_ms * 1e3
    launches = _launches(session)
    floor_us = launches * floors.launch_us
    found: list[Ceiling] = []
    if session.baseline.by_cuda:  # a CPU launches nothing, and its operators differ in what they cost
        figures = f"{launches} launches × {floors.launch_us:.2f}us = {floor_us:.0f}us of {whole_us:.0f}us"
        found.append(Ceiling(name="launch floor", reached=floor_us >= AT_FLOOR * whole_us, figures=figures))
    if floors.h2d_bytes_per_s:
        found += _copy_ceiling("PCIe to the GPU", "HtoD", floors.h2d_bytes_per_s, session.baseline.copies)
    if floors.d2h_bytes_per_s:
        found += _copy_ceiling("PCIe from the GPU", "DtoH", floors.d2h_bytes_per_s, session.baseline.copies)
    total = sum(activity.kernels.values())
    engine = sum(seconds for name, seconds in activity.kernels.items() if _ENGINE.search(name))
    if engine:
        figures = f"{units.percent(engine / total)} of the time of all kernels is inside an engine that Python cannot change"
        found.append(Ceiling(name="opaque engine", reached=engine >= OPAQUE * total, figures=figures))
    if (occupancy := session.baseline.occupancy) is not None:
        busy = min(1.0, total / max(1, activity.calls) * 1e6 / whole_us)
        figures = f"kernels run {units.percent(busy)} of the call, and hold {units.percent(occupancy)} of the warps that fit"
        found.append(Ceiling(name="occupancy", reached=min(busy, occupancy) >= FULL, figures=figures))
    return tuple(found)


def is_plateau(session: SessionRecord) -> bool:
    """Return whether there is reason to stop: the last three were no use and a ceiling is reached, or no kind is left."""
    done = [one for one in session.experiments if one.decision.status != "crash"]
    useless = len(done) >= IN_A_ROW and all(one.decision.status == "discard" for one in done[-IN_A_ROW:])
    reached = any(one.reached for one in ceilings(session))
    return (useless and reached) or exhausted_kinds(done) == set(KINDS)


def _copy_ceiling(name: str, direction: str, most: float, copies: Sequence[CopyRow]) -> list[Ceiling]:
    chosen = [row for row in copies if direction in row.name and row.bytes and row.us]
    moved, took_us = sum(row.bytes or 0 for row in chosen), sum(row.us for row in chosen)
    if not chosen:
        return []
    rate = moved / took_us * 1e6
    figures = f"{units.rate(rate, 'B/s')} of {units.rate(most, 'B/s')}, which a large copy of pinned memory reaches here"
    return [Ceiling.model_validate({"name": name, "reached": rate >= AT_RATE * most, "figures": figures})]


def _launches(session: SessionRecord) -> int:
    """Return the launches of a call; on a CPU, the operators that no other one calls."""
    activity = session.baseline.activity
    return round(activity.launches / max(1, activity.calls))
