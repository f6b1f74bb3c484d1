"""The antipatterns that rules name: category, what to do, the gain to expect, and what a checklist asks about each. Pure.

Gains and names of quick wins are those of the quick-start guide that users have; docs/profiling.md lists the patterns.
"""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.core.records.profile import Category

PINNED_MEMORY = ("Enable Pinned Memory in PyTorch", "pinned")
PREALLOCATE = ("Preallocate Tensors", "preallocated")
BATCHED = ("Use Batched Operations", "bmm")
LARGER_BATCH = ("Increase Batch Size", "batch_size")
GRAPHS = ("CUDA Graphs (Static Workloads)", "'graph_*'")
"""Names in the guide, and what `ratchet variants --quickwins` calls them."""
FLOOR = 0.05
"""Smallest share of the steady part that is a finding, unless its pattern asks for more."""
_SUMS = "a little: another kernel may add in another order"


@dataclass(frozen=True)
class Pattern:
    """The texts and facts that all findings of one kind share."""

    name: str
    category: Category
    do: str
    gain: str
    quick_win: tuple[str, str] | tuple[None, None] = (None, None)
    is_per_call: bool = True
    """Whether it costs the same for each call, however much data there is."""
    numbers: str = "the same operations, so the results stay the same bit for bit"
    """Whether results change."""
    capture: str = ""
    """What it means for a CUDA graph."""
    least: float = FLOOR
    """Smallest share of the steady part that is a finding."""


PATTERNS = {
    pattern.name: pattern
    for pattern in (
        Pattern(
            "pageable-copy",
            "transfer",
            "To the GPU: pin the source (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with non_blocking=True."
            " From it: copy into a pinned buffer that is kept, and wait for an event before reading.",
            "2 to 6 times faster copies; more where they overlap with kernels",
            PINNED_MEMORY,
            is_per_call=False,
            capture="a pinned buffer at a fixed address is safe in a graph, a pageable copy is not",
        ),
        Pattern(
            "loader-stall",
            "transfer",
            "Prepare batches in worker processes: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True)."
            " Where it has workers already: more of them, a larger prefetch_factor, cheaper samples.",
            "the loader's time, as far as workers can work meanwhile",
            PINNED_MEMORY,
            is_per_call=False,
        ),
        Pattern(
            "tensor-per-call",
            "memory",
            "Make it once, outside of the loop, and keep it on the device; write results with out= or in place.",
            "1.5 to 2 times in total where this dominates",
            PREALLOCATE,
            capture="a tensor that is kept is safe in a graph, a copy from values on the host breaks capture",
        ),
        Pattern(
            "growing-cat",
            "memory",
            "Collect the parts in a list and call torch.cat once, or write into a tensor that has room for all of them.",
            "nearly all of this time; it grows with the square of the number of steps",
            PREALLOCATE,
            is_per_call=False,
            capture="shapes that change cannot be captured; a tensor with room for all can",
        ),
        Pattern(
            "gemm-loop",
            "dispatch",
            "Multiply all at once: torch.bmm(A, B), or torch.matmul of stacked tensors.",
            "10 to 31 times for launches that are this small",
            BATCHED,
            numbers=_SUMS,
        ),
        Pattern(
            "small-batch",
            "compute",
            "Where the calls do not depend on each other, stack their inputs: a batch of 32 takes hardly longer than one of 1.",
            "2 to 8.5 times more products a second",
            LARGER_BATCH,
            numbers=_SUMS,
        ),
        Pattern(
            "indexing-loop",
            "dispatch",
            "Work on the whole tensor at once: an operator along a dimension, torch.arange, gather, index_put_.",
            "this part runs 10 times faster or more",
            BATCHED,
        ),
        Pattern(
            "elementwise-chain",
            "dispatch",
            "Fuse them: torch.compile on this function, one operator that does it all, or a Triton kernel.",
            "up to N times faster for these kernels, where N passes over memory become one",
            is_per_call=False,
            numbers="a little: fused code may contract a × b + c",
        ),
        Pattern(
            "allocation",
            "memory",
            "Do not empty the allocator's cache in the loop; keep pinned buffers and results; where sizes vary, set"
            " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            "all of this time",
            PREALLOCATE,
            capture="the driver cannot be asked for memory during capture; buffers made before are safe",
        ),
        Pattern(
            "fp32-matmul",
            "compute",
            'Allow TF32 (torch.set_float32_matmul_precision("high")), or use bfloat16 under torch.autocast.',
            "3 to 7 times for these kernels",
            is_per_call=False,
            numbers="yes, TF32 and bfloat16 round differently: compare with a tolerance",
        ),
        Pattern(
            "double-precision",
            "compute",
            "Convert to float32 where the data enters: torch.from_numpy(a).float(), dtype=torch.float32.",
            "2 times for these kernels, far more for products",
            is_per_call=False,
            numbers="yes, float32 has fewer digits: compare with a tolerance",
        ),
        Pattern(
            "sync-in-loop",
            "sync",
            "Keep the value on the GPU and read it every n steps, or copy it into pinned memory and wait for an event later."
            " Where the size of a mask is waited for, use torch.where.",
            "the GPU's idle time after each wait",
            GRAPHS,
            capture="a wait breaks capture; without it the loop may be captured",
        ),
        Pattern(
            "host-gaps",
            "dispatch",
            "Do it before the loop, one step ahead in a DataLoader worker or a thread, or on the GPU.",
            "the GPU's idle time, as far as the host's work fits beside the kernels",
        ),
        Pattern(
            "small-kernels",
            "dispatch",
            'Capture the step in a CUDA graph (torch.cuda.graph, torch.compile(mode="reduce-overhead")), fuse operators with'
            " torch.compile, or give each call more work.",
            "1.1 to 2 times end to end; the time of the launches at most",
            GRAPHS,
            numbers="not with a CUDA graph; fused code may round differently",
            capture="a graph is the change itself: shapes and addresses have to stay the same",
            least=0.09,  # less cannot bring 1.1 times, and may be the profiler's doing, which slows the host alone
        ),
        Pattern(
            "unfinished-copy",
            "correctness",
            "Record an event after the copy, and synchronise with it before the host reads the result.",
            "none: without it results may be wrong",
            numbers="yes: results may be wrong now",
        ),
    )
}
"""By name."""
