"""Draw the arguments of calls: each has a content of its own, which nobody can know before it is handed over.

`lab.referee` calls it, for both sides alike. Where the user has a maker of arguments, that runs in a confined process too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_structure, treespec_dumps

from ratchet.lab.child.memory import SharedMemory, aligned
from ratchet.lab.records.evaluation import InputKind, InputSpec
from ratchet.lab.runners import Done, MadeArguments, Part, Runner, RunnerTrouble

KINDS: tuple[InputKind, ...] = ("random", "structured", "random", "large", "random")
"""Inputs on which results are compared before anything is timed."""
_BANDS = 7
SEED_BITS = 63


class CallContents:
    """A source of arguments; ``tree`` and ``parts`` say what they are, as `child.runner` takes them."""

    def __init__(self, specs: Sequence[InputSpec], maker: Runner | None, device: str, seed: int) -> None:
        """Take arguments from ``specs`` or, where there is one, from the maker. Raises RunnerTrouble."""
        self.device = torch.device(device)
        self._specs, self._maker = specs, maker
        self.kinds: tuple[InputKind, ...] = KINDS
        self.tree: dict[str, Any]
        if maker is None:
            tensors = [spec for spec in specs if spec.number is None]
            self.parts = tuple(Part(place=str(place), dtype=one.dtype, shape=one.shape) for place, one in enumerate(tensors))
            numbers = [[] if one is None else [int(one) if one.is_integer() else one] for one in (spec.number for spec in specs)]
            self.tree = {"values": numbers, "structure": treespec_dumps(tree_structure([0] * len(specs)))}
            return
        self.kinds = tuple(KINDS[0] for _ in KINDS)  # only its author could make others
        maker.fork(seed)
        made = maker.ask("make", MadeArguments, seed=seed)
        self.tree, self.parts = made.tree, made.parts
        self._layout = placed(self.parts)
        maker.map(self.bytes)
        maker.stop()

    @property
    def have_masks(self) -> bool:
        """Return whether structured contents have rows of a mask that random ones never have."""
        return any(spec.dtype == "bool" for spec in self._specs)

    @property
    def bytes(self) -> int:
        """The memory that the arguments of a call take."""
        return end_of(self.parts)

    def made(self, seed: int, kind: InputKind = "random") -> list[torch.Tensor]:
        """Return one content in memory that no runner has. Raises RunnerTrouble."""
        tensors = [torch.empty(part.shape, dtype=getattr(torch, part.dtype), device=self.device) for part in self.parts]
        self.fill(tensors, seed, kind)
        return tensors

    def fill(self, tensors: Sequence[torch.Tensor], seed: int, kind: InputKind = "random") -> None:
        """Write one content into the tensors of a call, and wait until it is there. Raises RunnerTrouble."""
        if (maker := self._maker) is not None:
            maker.go()
            made = maker.ask("make", MadeArguments, seed=seed)
            if made.parts != self.parts:
                raise RunnerTrouble("maker", "--inputs makes arguments of other shapes or types for another seed")
            if made.tree != self.tree:
                raise RunnerTrouble("maker", "--inputs makes another number or text for another seed: only tensors may differ")
            maker.ask("write", Done, results=self._layout)
            maker.stop()
            for there, to in zip(tensors_of(maker.map(self.bytes), self._layout), tensors, strict=True):
                to.copy_(there)
        else:
            specs = [spec for spec in self._specs if spec.number is None]
            for number, (spec, to) in enumerate(zip(specs, tensors, strict=True)):
                _draw(spec, to, torch.Generator(self.device).manual_seed(derived(seed, number)), kind)
        settle(self.device)


def settle(device: torch.device) -> None:
    """Wait until a GPU has done what it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def derived(seed: int, number: int) -> int:
    """Return a seed of its own for each number."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") >> (64 - SEED_BITS)


def placed(parts: Sequence[Part], start: int = 0) -> list[dict[str, Any]]:
    """Return the place, dtype and shape of each tensor with the byte at which it lies, and the one after it."""
    found = []
    for part in parts:
        size = torch.Size(part.shape).numel() * getattr(torch, part.dtype).itemsize
        found.append({**part.model_dump(mode="json"), "offset": start, "end": start + aligned(size)})
        start += aligned(size)
    return found


def end_of(parts: Sequence[Part]) -> int:
    """Return the bytes that tensors take, if the first one lies at the beginning."""
    return placed(parts)[-1]["end"] if parts else 0


def tensors_of(memory: SharedMemory, layout: Sequence[dict[str, Any]], offset: int = 0) -> list[torch.Tensor]:
    """Return the tensors of a layout, so many bytes further on."""
    return [
        memory.tensor(part["offset"] + offset, getattr(torch, part["dtype"]), part["shape"], part["order"]) for part in layout
    ]


def _draw(spec: InputSpec, to: torch.Tensor, generator: torch.Generator, kind: InputKind) -> None:
    if not spec.is_float:
        to.copy_(torch.randint(spec.low, spec.high, to.shape, generator=generator, device=to.device))
        if kind == "structured" and to.dtype == torch.bool:  # rows that a mask leaves nothing of, or all
            for band, value in zip(to.tensor_split(_BANDS), (spec.low, spec.high - 1), strict=False):
                band.fill_(value)
        return
    to.normal_(generator=generator)
    if kind == "large":
        to *= 64
    elif kind == "structured":
        _structure(to)
    elif kind == "mixed":
        _mix(to, generator.initial_seed())


def _structure(made: torch.Tensor) -> None:
    """Give bands of rows what random numbers never are: zeros, ones, a ramp, a large offset, tiny and large values, outliers."""
    rows = made.view(-1) if made.dim() < 2 or len(made) < _BANDS else made
    zeros, ones, ramp, offset, tiny, large, outliers = rows.tensor_split(_BANDS)
    zeros.zero_()
    ones.fill_(1)
    ramp.copy_(torch.linspace(-2, 2, ramp.numel(), device=made.device).view(ramp.shape))
    offset.add_(16)
    tiny.mul_(1e-3)
    large.mul_(32)
    outliers.reshape(-1)[::97] *= 256


def _mix(made: torch.Tensor, seed: int) -> None:
    """Give the same to a few rows or, as often, elements, which the seed draws: who has not read all of them cannot know."""
    generator = torch.Generator().manual_seed(seed)  # on the CPU: nothing here waits for a GPU
    is_rows = bool(torch.randint(2, (), generator=generator))
    parts = made if is_rows and made.dim() > 1 and len(made) >= _BANDS else made.view(-1)
    if step := len(parts) // _BANDS:
        within = torch.randint(step, (_BANDS,), generator=generator)
        chosen = (torch.randperm(_BANDS, generator=generator) * step + within).to(made.device)  # no two are the same
        some = parts[chosen]
        _structure(some)
        parts[chosen] = some
