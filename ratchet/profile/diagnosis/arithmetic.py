"""Rules about arithmetic: matrix units, precision, divergence, and more instructions than before.

`diagnose` applies `CHANGES` to both sides of a launch and `STATES` to the head. Pure.
"""

from __future__ import annotations

from ratchet import units
from ratchet.profile.diagnosis import rule as at
from ratchet.profile.diagnosis.rule import (
    Change,
    ChangeRule,
    LaunchPair,
    State,
    StateRule,
    all_flops,
    arrow,
    blocks,
    points,
    ratio,
    tensor_flops,
    whole,
)
from ratchet.profile.metrics import THREADS_PER_INSTRUCTION
from ratchet.records.profile import KernelProfile

TENSOR_RATE = 8.0
"""Matrix units are at least this many times as fast as the rest; the factor only has to be large."""
FP64_RATE = 8.0
"""Double precision costs about this many times as much with its conversions; far more on chips without fast units for it."""


def tensor_changed(pair: LaunchPair) -> Change | None:
    """Find work that matrix units do on one side only."""
    head, reference = _tensor_share(pair.head), _tensor_share(pair.reference)
    if head is None or reference is None or abs(head - reference) < 0.5:
        return None
    text = f"Tensor cores do {arrow(points(reference * 100), points(head * 100))} of the arithmetic"
    if pair.head.tensor_percent is not None and pair.reference.tensor_percent is not None:
        text += f", and are {arrow(points(pair.reference.tensor_percent), points(pair.head.tensor_percent))} busy"
    return Change(f"{text}.", TENSOR_RATE if head < reference else 1 / TENSOR_RATE)


def tensor_unused(kernel: KernelProfile) -> State | None:
    """Find much arithmetic on little data through shared memory, as in products of matrices, without matrix units."""
    flops, moved = all_flops(kernel), kernel.dram_bytes
    if not moved or flops / moved < at.MATRIX_INTENSITY or tensor_flops(kernel) > 0 or not kernel.shared_wavefronts:
        return None
    if (kernel.sm_percent or 0) < at.THROUGHPUT_PERCENT or (kernel.instructions or 0) > 64 * kernel.shared_wavefronts:
        return None  # no tiles in shared memory: no product of matrices
    return State(f"{units.rate(flops / moved, 'FLOP/B')} of arithmetic, and the tensor cores do none of it.", 0.7, "low")


def precision_changed(pair: LaunchPair) -> Change | None:
    """Find double precision that the other side does not have, or has far less of."""
    head, reference = pair.head.flops.get("fp64"), pair.reference.flops.get("fp64")
    if head is None or reference is None:
        return None
    more, less = max(head, reference), min(head, reference)
    slow = pair.head if head == more else pair.reference
    if not more or more < at.TWICE * less or more < 0.1 * all_flops(slow):
        return None
    return Change(f"Operations in double precision {arrow(whole(reference), whole(head))}.",
                  FP64_RATE if head > reference else 1 / FP64_RATE)  # fmt: skip


def precision_double(kernel: KernelProfile) -> State | None:
    """Find a tenth of the operations or more in double precision."""
    double, flops = kernel.flops.get("fp64", 0.0), all_flops(kernel)
    if not double or double < 0.1 * flops:
        return None
    return State(f"{points(100 * double / flops)} of the operations are in double precision.", 0.5 * double / flops, "low")


def divergence_changed(pair: LaunchPair) -> Change | None:
    """Find a change in the active threads of a warp, where one side has few."""
    head, reference = pair.head.metrics.get(THREADS_PER_INSTRUCTION), pair.reference.metrics.get(THREADS_PER_INSTRUCTION)
    grown = ratio(reference, head)
    if head is None or reference is None or grown is None or max(grown, 1 / grown) < at.NOTICED:
        return None
    if min(head, reference) >= at.DIVERGENT_THREADS:
        return None
    return Change(f"Active threads in the average instruction {arrow(f'{reference:.1f}', f'{head:.1f}')} of 32.", grown)


def divergence_present(kernel: KernelProfile) -> State | None:
    """Find warps with few active threads."""
    active = kernel.metrics.get(THREADS_PER_INSTRUCTION)
    if active is None or active >= at.DIVERGENT_THREADS:
        return None
    busy = (kernel.sm_percent or 0) / 100
    return State(f"The average instruction has {active:.1f} of 32 threads active.", (1 - active / 32) * busy, "medium")


def steps_changed(pair: LaunchPair) -> Change | None:
    """Find blocks that do the same operations with less in shared memory at a time, and need more instructions for it."""
    head, reference = pair.head, pair.reference
    grown, held = ratio(head.instructions, reference.instructions), ratio(head.shared_bytes, reference.shared_bytes)
    work = ratio(tensor_flops(head), tensor_flops(reference))
    if grown is None or held is None or work is None or blocks(head) != blocks(reference) or abs(work - 1) > at.SAME_WORK:
        return None
    if max(held, 1 / held) < at.NOTICED or (held > 1) == (grown > 1):
        return None
    change = instructions_changed(pair)
    if change is None:
        return None
    sizes = arrow(units.size(reference.shared_bytes or 0), units.size(head.shared_bytes or 0))
    text = f"Each block holds {sizes} in shared memory for the same products: i{change.what[1:]}"
    return Change(text, change.factor)


def instructions_changed(pair: LaunchPair) -> Change | None:
    """Find more or fewer instructions, weighed by how busy the SM of the slower side is."""
    grown = ratio(pair.head.instructions, pair.reference.instructions)
    busy = pair.slower.sm_percent
    if grown is None or busy is None or max(grown, 1 / grown) < at.NOTICED:
        return None
    # Where the SM is hardly busy, the time does not go into instructions.
    factor = grown ** (busy / 100)
    return Change(f"Instructions {arrow(whole(pair.reference.instructions or 0), whole(pair.head.instructions or 0))}.", factor)


def _tensor_share(kernel: KernelProfile) -> float | None:
    """Return operations of the matrix units over all operations; None where the report counts none."""
    flops = all_flops(kernel)
    return tensor_flops(kernel) / flops if flops > 0 else None


TENSOR_WHY = "Tensor cores do products of matrices at eight times the rate of the other units and more."
TENSOR_ADVICE = (
    "Give the product operands that tensor cores take (bf16, fp16, fp8, or tf32 in place of IEEE float32), in tiles of at least"
    " 16 on each side; in PyTorch, see torch.set_float32_matmul_precision."
)
PRECISION_WHY = "Most chips have few units for double precision, and every conversion takes an instruction of its own."
PRECISION_ADVICE = "Look for literals without an f (0.5 for 0.5f), double accumulators, and functions of the double library."
DIVERGENCE_WHY = "A warp whose threads branch differently runs every branch, with the other threads idle."
DIVERGENCE_ADVICE = (
    "Give whole warps the same kind of work: sort or group the elements, move the branch out of the loop, or compute both sides"
    " and select."
)
CHANGES = (
    ChangeRule("tensor cores", 0.98, tensor_changed, TENSOR_WHY, TENSOR_ADVICE),
    ChangeRule("precision", 0.96, precision_changed, PRECISION_WHY, PRECISION_ADVICE),
    ChangeRule("divergence", 0.94, divergence_changed, DIVERGENCE_WHY, DIVERGENCE_ADVICE),
    ChangeRule("steps", 0.6, steps_changed,
               "A loop over smaller tiles goes round more often, and pays for each round with instructions of its own.",
               "Go back to the larger inner tile and its stages (BLOCK_N or BLOCK_K, NUM_STAGES), or tune them on this GPU."),
    ChangeRule("instructions", 0.5, instructions_changed,
               "Where the SM is busy, time goes with the instructions that it issues.",
               "Compare the machine code (ncu's source page): index arithmetic, lost vectorisation, unrolling, conversions."),
)  # fmt: skip
STATES = (
    StateRule("tensor cores", tensor_unused, TENSOR_WHY, TENSOR_ADVICE),
    StateRule("precision", precision_double, PRECISION_WHY, PRECISION_ADVICE),
    StateRule("divergence", divergence_present, DIVERGENCE_WHY, DIVERGENCE_ADVICE),
)
