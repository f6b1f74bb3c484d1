"""Causal attention, forward: our Triton kernel in bfloat16 on a GPU, torch's float32 attention on the CPU.

`ratchet variants attention/inference_4k --over seq=2**10..2**14` times it beside torch's own, at many lengths.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from ratchet import Workload, benchmark

try:  # here rather than where it is used: imported once before the workers are forked, not again in each
    from bench.kernels.attention_triton import attend
except ModuleNotFoundError:  # no triton: the GPU cases are listed as skipped, the CPU ones do without
    attend = None

CONFIGS = {
    "training_512": {"batch": 32, "heads": 8, "seq": 512, "head_dim": 64},
    "training_1k": {"batch": 16, "heads": 8, "seq": 1024, "head_dim": 64},
    "inference_2k": {"batch": 8, "heads": 16, "seq": 2048, "head_dim": 128},
    "inference_4k": {"batch": 4, "heads": 32, "seq": 4096, "head_dim": 128},
}
# The names stay true: the sequences are as long, with fewer and smaller heads.
CPU_CONFIGS = {
    "training_512": {"batch": 1, "heads": 4, "seq": 512, "head_dim": 64},
    "training_1k": {"batch": 1, "heads": 1, "seq": 1024, "head_dim": 64},
    "inference_2k": {"batch": 1, "heads": 1, "seq": 2048, "head_dim": 16},
    "inference_4k": {"batch": 1, "heads": 1, "seq": 4096, "head_dim": 16},
}

TUNE = {
    "BLOCK_M": (32, 64, 128, 256),  # queries of one program
    "BLOCK_N": (32, 64, 128, 256),  # keys and values that it takes at a time
    "NUM_STAGES": (1, 2, 3, 4, 5),
    "NUM_WARPS": (4, 8, 16),
}
TUNING = {  # head_dim → the values used today
    64: {"BLOCK_M": 64, "BLOCK_N": 64, "NUM_STAGES": 3, "NUM_WARPS": 4},
    128: {"BLOCK_M": 128, "BLOCK_N": 64, "NUM_STAGES": 3, "NUM_WARPS": 8},
}

ALL_HEADS = 0  # of `HEADS`, on the CPU: one call for all heads, as today

REFERENCE_LOGITS = 1 << 26  # at most, at a time: 512 MiB of float64, of which the reference holds about three


@benchmark(configs=CONFIGS, devices=("cuda", "cpu"), cpu_configs=CPU_CONFIGS, requires=("triton",), variants=("ours", "torch"))
def attention(*, device: torch.device, batch: int, heads: int, seq: int, head_dim: int, variant: str) -> Workload:
    """q, k, v and out: (batch, heads, seq, head_dim)."""
    on_gpu = device.type == "cuda"
    is_tuned = on_gpu and variant == "ours"
    takes_heads = not on_gpu and variant == "ours" and heads > 1
    dtype = torch.bfloat16 if on_gpu else torch.float32
    q, k, v = (torch.randn(batch, heads, seq, head_dim, device=device, dtype=dtype) for _ in range(3))
    return Workload(
        run=_on_gpu(q, k, v) if is_tuned else functools.partial(_on_cpu, q, k, v),
        reference=lambda: _reference(q, k, v),
        dtype=str(dtype).removeprefix("torch."),
        # Two products of 2 × seq² × head_dim each, of which the causal mask leaves half.
        flops=4 * batch * heads * seq * seq * head_dim / 2,
        bytes=4 * q.nbytes,
        tune=TUNE if is_tuned else {"HEADS": (ALL_HEADS, *range(1, heads))} if takes_heads else {},
        tuning=TUNING[head_dim] if is_tuned else {"HEADS": ALL_HEADS} if takes_heads else {},
        constraints=_constraints(head_dim, q.element_size(), Limits.of(device)) if is_tuned else (),
    )


class Limits(NamedTuple):
    """Limits of the GPU for one block."""

    shared_bytes: int
    whole_stages: bool
    """Hopper's tensor cores read all stages from shared memory; before, one of them was in registers."""
    registers: int = 65536
    registers_of_a_thread: int = 255

    @classmethod
    def of(cls, device: torch.device) -> Limits:
        properties = torch.cuda.get_device_properties(device)
        return cls(properties.shared_memory_per_block_optin, properties.major == 9)


def _constraints(head_dim: int, size: int, limits: Limits) -> tuple[Callable[..., bool], ...]:
    """Return the tests of a tuning: tiles of ``head_dim`` × ``size`` bytes a row fit the shared memory, sums the registers.

    The bytes are those that Triton reports of a compiled kernel, or a few less; tiles of 32 queries do not reach the tensor
    cores of Hopper. The sums are the result and the logits, in float32; what else a thread holds is not counted.
    """

    def fits_shared_memory(BLOCK_M: int, BLOCK_N: int, NUM_STAGES: int) -> bool:
        held = NUM_STAGES if limits.whole_stages and BLOCK_M >= 64 else NUM_STAGES - 1
        return (BLOCK_M + 2 * held * BLOCK_N) * head_dim * size <= limits.shared_bytes

    def fits_registers(BLOCK_M: int, BLOCK_N: int, NUM_WARPS: int) -> bool:
        threads = 32 * NUM_WARPS
        return BLOCK_M * (head_dim + BLOCK_N) <= threads * min(limits.registers_of_a_thread, limits.registers // threads)

    return fits_shared_memory, fits_registers


def _on_gpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[..., torch.Tensor]:
    out = torch.empty_like(q)

    def run(BLOCK_M: int, BLOCK_N: int, NUM_STAGES: int, NUM_WARPS: int) -> torch.Tensor:
        attend(q, k, v, out, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, NUM_STAGES=NUM_STAGES, NUM_WARPS=NUM_WARPS)
        return out

    return run


def _on_cpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, HEADS: int = ALL_HEADS) -> torch.Tensor:
    """torch's attention, for so many heads at a time: fewer of them keep less in a core's caches, and take more calls."""
    attend_to = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    if HEADS == ALL_HEADS:
        return attend_to(q, k, v)
    return torch.cat([attend_to(*part) for part in zip(*(x.split(HEADS, dim=1) for x in (q, k, v)), strict=True)], dim=1)


def _reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax(q kᵀ / √head_dim + mask) v in float64, a few heads at a time."""
    batch, heads, seq, head_dim = q.shape
    hidden = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    out = torch.empty(batch * heads, seq, head_dim, dtype=torch.float64, device=q.device)
    step = max(1, REFERENCE_LOGITS // seq**2)
    flat = [x.reshape(batch * heads, seq, head_dim) for x in (q, k, v)]
    for first in range(0, batch * heads, step):
        q64, k64, v64 = (x[first : first + step].double() for x in flat)
        logits = q64 @ k64.transpose(1, 2) / math.sqrt(head_dim)
        out[first : first + step] = torch.softmax(logits.masked_fill_(hidden, -math.inf), dim=2) @ v64
    return out.reshape(batch, heads, seq, head_dim)
