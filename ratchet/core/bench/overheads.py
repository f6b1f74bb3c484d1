"""Time what a case takes besides its calls, for gates that ask for it: its first use, and the host's part of a call.

Each pair is two fresh processes, one a side, one after the other, with nothing beside them.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence

from ratchet.core.bench.client import CaseTrouble
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.messages import Overheads
from ratchet.core.bench.turns import in_turn, order_of_pair
from ratchet.core.errors import HostError
from ratchet.core.judge.gates import OVERHEAD_PAIRS
from ratchet.core.records.run import SIDES, CaseRun, OverheadName, OverheadPair, Side
from ratchet.core.units import listed, plural


def with_overheads(
    duet: Duet, cases: Sequence[CaseRun], wanted: Collection[OverheadName], seconds: float
) -> tuple[list[CaseRun], list[str]]:
    """Return the cases with `CaseRun.overheads` where both sides do the same work, and sentences about those that lack them.

    ``seconds``: no pair begins later; 0 is no limit.
    """
    asked = {case.name: names for case in cases if (names := _names(case, wanted))}
    found: dict[str, list[Mapping[Side, Overheads]]] = {name: [] for name in asked}
    troubles: dict[str, str] = {}
    what = " and ".join(name.replace("_", " ") for name in sorted(wanted))
    deadline = time.monotonic() + seconds if seconds else math.inf
    for pair in range(OVERHEAD_PAIRS):
        for case in [name for name in asked if name not in troubles]:
            if time.monotonic() >= deadline:
                troubles[case] = "the time of the budget was over"
                continue
            duet.progress.stage(f"Timing {what} of {plural(len(asked), 'case')}: pair {pair + 1} of {OVERHEAD_PAIRS}")
            try:
                found[case].append(_pair(duet, case, pair, asked[case]))
            except (CaseTrouble, HostError) as error:
                troubles[case] = str(error)
    done = [
        case.model_copy(update={"overheads": {name: _paired(found[case.name], name) for name in asked[case.name]}})
        if case.name in asked and case.name not in troubles
        else case
        for case in cases
    ]
    whys = {why: [case for case, other in troubles.items() if other == why] for why in troubles.values()}
    unknown = f"{what.capitalize()} not compared, for a gate that asks for it"
    return done, [f"{unknown}, in {listed(names, 3)}: {why.rstrip('.')}." for why, names in whys.items()]


def _names(case: CaseRun, wanted: Collection[OverheadName]) -> list[OverheadName]:
    """Return what to time of a case: nothing where it is the same, failed or has no counterpart. Graphs have no host in them."""
    work = case.workload
    if work is None or work != case.reference_workload or case.host_same or case.failures or case.unfit or case.skipped:
        return []
    return [name for name in wanted if name == "compile_time" or work.clock == "event"]


def _pair(duet: Duet, case: str, pair: int, names: Collection[OverheadName]) -> dict[Side, Overheads]:
    """Ask one fresh process of each side. Raises CaseTrouble, and HostError for lack of a process."""
    workers, answers = duet.workers, {}
    _, flipped = order_of_pair(workers.plan.order_seed, f"overheads {case}", pair)
    for side in in_turn(SIDES, flipped=flipped):
        workers.wait_for_ends()
        worker = workers.fork(side)
        try:
            with tempfile.TemporaryDirectory(prefix="ratchet-", ignore_cleanup_errors=True) as folder:
                caches = folder if "compile_time" in names else ""
                seed = workers.plan.seed + 2 * pair
                answers[side] = worker.ask(
                    "overheads", Overheads, case=case, seed=seed, caches=caches, host_time="host_time" in names
                )
        finally:
            workers.end(worker)
    return answers


def _paired(pairs: Sequence[Mapping[Side, Overheads]], name: OverheadName) -> tuple[OverheadPair, ...]:
    sides = [(getattr(pair["head"], name), getattr(pair["reference"], name)) for pair in pairs]
    return tuple(OverheadPair(head_ms=head, reference_ms=reference) for head, reference in sides if head and reference)
