"""Conflicts: banks of shared memory, and atomics on the same addresses."""

from __future__ import annotations

from ratchet.profile.diagnosis import thresholds as at
from ratchet.profile.diagnosis.figures import ATOMICS, arrow, points, summed, whole
from ratchet.profile.diagnosis.rule import Change, ChangeRule, Pair, State, StateRule
from ratchet.records.profile import KernelProfile

REQUESTS = ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum")
METRICS = REQUESTS


def conflict_share(kernel: KernelProfile) -> float | None:
    """Extra wavefronts over all of shared memory, 0 to 1."""
    if kernel.bank_conflicts is None or kernel.shared_wavefronts is None:
        return None
    return min(1.0, kernel.bank_conflicts / kernel.shared_wavefronts) if kernel.shared_wavefronts else 0.0


def conflicts_changed(pair: Pair) -> Change | None:
    head, reference = conflict_share(pair.head), conflict_share(pair.reference)
    if head is None or reference is None or max(head, reference) < at.CONFLICT_SHARE:
        return None
    # An access with conflicts takes 1 / (1 - share) times as long as one without.
    factor = (1 - min(reference, 0.99)) / (1 - min(head, 0.99))
    if max(factor, 1 / factor) < at.NOTICED:
        return None
    counts = arrow(whole(pair.reference.bank_conflicts or 0), whole(pair.head.bank_conflicts or 0))
    repeats = arrow(points(reference * 100), points(head * 100))
    return Change(f"Bank conflicts {counts}: {repeats} of the passes through shared memory are repeats.", factor)


def conflicts_present(kernel: KernelProfile) -> State | None:
    share = conflict_share(kernel)
    if share is None or share < at.CONFLICT_SHARE:
        return None
    busy = max(kernel.memory_percent or 0, kernel.sm_percent or 0) / 100
    return State(
        f"{points(share * 100)} of the passes through shared memory are repeats, because of bank conflicts.",
        share * busy,
        "medium",
    )


def atomics_changed(pair: Pair) -> Change | None:
    head, reference = summed(pair.head, *ATOMICS), summed(pair.reference, *ATOMICS)
    if head is None or reference is None:
        return None
    more, less = max(head, reference), min(head, reference)
    if more < at.TWICE * less or _atomic_share(pair.head if head == more else pair.reference) < at.SERIAL_ATOMICS_SHARE:
        return None
    return Change(f"Atomics on global memory {arrow(whole(reference), whole(head))} (counted for each warp).",
                  max(head, 1.0) / max(reference, 1.0))  # fmt: skip


def atomics_present(kernel: KernelProfile) -> State | None:
    share = _atomic_share(kernel)
    if share < at.SERIAL_ATOMICS_SHARE or max(kernel.memory_percent or 0, kernel.sm_percent or 0) >= at.THROUGHPUT_PERCENT:
        return None
    return State(f"{points(share * 100)} of the requests to global memory are atomics, and no unit is busy.", share, "medium")


def _atomic_share(kernel: KernelProfile) -> float:
    atomics, others = summed(kernel, *ATOMICS), summed(kernel, *REQUESTS)
    return atomics / (atomics + (others or 0)) if atomics else 0.0


BANKS_WHY = "Shared memory serves 32 banks at once. Threads of a warp that want different words of one bank wait for each other."
BANKS_ADVICE = "Pad the rows of the tile by one element, or swizzle its columns, so that a warp touches 32 different banks."
ATOMICS_WHY = "Atomics on one address are done one after another in L2, however many threads ask."
ATOMICS_ADVICE = "Add up within the warp and the block first (shuffles, shared memory), and send one atomic for each block."
CHANGES = (
    ChangeRule("bank conflicts", 0.95, conflicts_changed, BANKS_WHY, BANKS_ADVICE),
    ChangeRule("atomics", 0.93, atomics_changed, ATOMICS_WHY, ATOMICS_ADVICE),
)
STATES = (
    StateRule("bank conflicts", conflicts_present, BANKS_WHY, BANKS_ADVICE),
    StateRule("atomics", atomics_present, ATOMICS_WHY, ATOMICS_ADVICE),
)
