"""Say what to change next: targets from the profile and from `ratchet advise`, and when to replace a whole stage.

`ratchet.lab.experiment` calls `advised` once, at the start of a session, and `targets` and `escalation` for each status. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ratchet.common.call_trace import host_copies_s
from ratchet.core import units
from ratchet.core.records.profile import Activity
from ratchet.lab.judge import E2E, PATTERNS, candidate
from ratchet.lab.records.experiment import WHOLE, ExperimentRecord, SessionRecord, Target

SHOWN = 5
MANY_LAUNCHES = 4
"""From here on a stage has kernels to fuse."""
HIDDEN = 2
"""Gains of a stage, in a row, that the whole call does not show: then single changes are too small."""
QUESTIONS = {
    "Pattern": "which antipattern is it: transfer, dispatch, sync, memory, compute or correctness?",
    "Hot path": "does a profile of the GPU show it? One of Python's functions cannot.",
    "Pipeline stage": "which stage is it: the host before, copies, kernels, or the host after?",
    "Transfer or compute": "does moving data take the time, or computing?",
    "Per call or amortized": "is it the same for each call, or does it grow with the data?",
    "GPU warm": "is all that happens once (context, engine, autotuning) over before the clock starts?",
    "Mechanism": "how does the change save time: fewer copies, launches or waits?",
    "Correctness": "does the change alter results, and within which tolerance?",
    "CUDA graphs": "does the project capture graphs, and would the change break that?",
    "Cheap check": "can two events around it show the gain before a full run?",
}
"""The name of each question that comes before a change → the question."""
_WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "aten::item", "aten::_local_scalar_dense")


def advised(advice: Any, session: SessionRecord) -> tuple[Target, ...]:
    """Return the findings of `ratchet advise` as targets: shares of the steady part are shares of the whole call."""
    whole_us = session.noise[0].median_ms * 1e3
    return tuple(
        Target(
            stage=finding.where.function if finding.where and finding.where.function in session.stages else WHOLE,
            pattern=finding.pattern,
            category=finding.category,
            cost_us=min(1.0, finding.share) * whole_us,
            count=round(finding.times * whole_us / advice.steady_us) if advice.steady_us else None,
            source="advise",
            where=f"{finding.where.file}:{finding.where.line}" if finding.where else "",
        )
        for finding in advice.findings
    )


def targets(session: SessionRecord) -> tuple[Target, ...]:
    """Return what costs most, has not been tried, and is enough for the whole call to show; the costliest first."""
    tried = {(one.stage, one.pattern) for one in session.experiments}
    whole_us = session.noise[0].median_ms * 1e3
    found = [
        *session.advised,
        *(target for stage, activity in session.stages_activity.items() for target in _of_stage(session, stage, activity)),
    ]
    kept = [one for one in found if (one.stage, one.pattern) not in tried and one.cost_us >= E2E * whole_us]
    return tuple(sorted(kept, key=lambda one: -one.cost_us)[:SHOWN])


def _of_stage(session: SessionRecord, stage: str, activity: Activity) -> Iterator[Target]:
    calls = max(1, activity.calls)
    limit_us = next((one.median_ms * 1e3 for one in session.noise if one.name == stage), 0.0)
    launches, pageable = round(activity.launches / calls), activity.pageable_copies / calls
    waits_s = sum(seconds for name, seconds in activity.cpu_s.items() if name.startswith(_WAITS))
    launches_us = max(launches * session.floors.launch_us, (activity.gaps_s or 0.0) / calls * 1e6)
    costs: dict[str, tuple[float, int | None]] = {
        "pageable-h2d": (host_copies_s(activity) / calls * 1e6 if pageable else 0.0, round(pageable)),
        "dispatch-gaps": (launches_us if launches >= MANY_LAUNCHES else 0.0, launches),
        "stream-block": (waits_s / calls * 1e6, None),
        "allocation": (activity.allocation_s / calls * 1e6, None),
    }
    for pattern, (cost_us, count) in costs.items():
        if cost_us:
            yield Target(
                stage=stage,
                pattern=pattern,
                category=PATTERNS[pattern][0],
                cost_us=min(cost_us, limit_us),
                count=count,
                source="profile",
            )


def escalation(session: SessionRecord) -> str:
    """Return why a whole stage should become one operation: the whole call shows no gain of single changes."""
    done = [one for one in session.experiments if one.decision.status != "crash"]
    last = done[-HIDDEN:]
    if len(last) < HIDDEN or not all(one.kind in ("transfer", "dispatch") and _is_hidden(one) for one in last):
        return ""
    names = " and ".join(str(one.number) for one in last)
    longest = max(session.stages, key=session.time_us, default="")
    stage = next((one.stage for one in last if one.stage != WHOLE), longest)
    return (
        f"Stages got faster in experiments {names}, and the whole call does not show it. Make one compiled operation of "
        f"{stage} ({session.time_us(stage):.0f}us), so that all savings come at once: --pattern monolithic-{stage}."
    )


def _is_hidden(one: ExperimentRecord) -> bool:
    """Return whether the stage or the micro-benchmark got faster beyond its interval, and the whole call did not."""
    parts = [part for part in (one.change_of(one.stage) if one.stage != WHOLE else None, one.micro) if part]
    shown = one.decision.branch == "e2e" or one.e2e is None
    return not shown and any(part.comparison.high < 1 for part in parts)


def target_text(target: Target, whole_us: float, *, on_gpu: bool) -> str:
    """Return one line: place, cost, count and what it is a candidate for."""
    what = "kernels" if on_gpu else "operators"
    counted = {"dispatch": what, "transfer": "copies"}.get(target.category, "times")
    count = f", {target.count} {counted}" if target.count else ""
    share = units.percent(target.cost_us / whole_us) if whole_us else ""
    where = f", {target.where}" if target.where else ""
    note = candidate(target.pattern)
    return (
        f"{target.stage}.{target.pattern} (up to {target.cost_us:.0f}us a call, {share}{count} — [{target.category}]"
        f"{f' {note}' if note else ''}), by {target.source}{where}"
    )
