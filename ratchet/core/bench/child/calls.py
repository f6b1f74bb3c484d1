"""Call a workload as it is timed: what its run changes gets its content back before each call.

The clocks call ``before`` of a `TimedCall` untimed and ``run`` timed; everything else calls both, as one.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.outputs import Part, Value
from ratchet.core.bench.clocks import Call
from ratchet.core.workload import Workload

_CHANGED = "mutated tensor"
"""Names the parts of ``mutates`` in messages: ``mutated tensor [0]``."""
_seed_torch = torch.manual_seed
"""Bound here: torch's compiler replaces it when it is imported, and so might an author's code."""
FEW = 16
"""Up to so many tensors are copied one by one: unlike a fused copy, that launches the same in each process (`identity`)."""
_EMPTY = (type(None), tuple, dict)


class TimedCall:
    """A workload's call, and a copy of what it changes. Raises as `Kept` does."""

    def __init__(self, workload: Workload, kept: Kept | None = None) -> None:
        self.workload = workload
        run, tuning = workload.run, dict(workload.tuning)
        self.run: Call = (lambda: run(**tuning)) if tuning else run
        self.kept = kept or Kept(workload)
        self.before: Call | None = self._before if workload.is_restored else None

    def __call__(self) -> object:
        if self.before is not None:
            self.before()
        return self.run()

    def tuned(self, tuning: Mapping[str, Any]) -> TimedCall:
        """Return the call with other values of the workload's parameters; both share the copy of what they change."""
        return TimedCall(replace(self.workload, tuning=dict(tuning), constraints=()), self.kept)

    def outputs(self, result: object) -> dict[str, Part]:
        """Return the parts of a result; where run returns nothing, those of what it changes. Raises TypeError."""
        found = outputs.parts(self.workload.mutates if result is None and self.kept.holds_any else result)
        if all(isinstance(part, Value) and isinstance(part.value, _EMPTY) and not part.value for part in found.values()):
            raise TypeError("run returns nothing that can be checked: return its result, or name in mutates=… what it changes")
        return found

    def evidence(self, result: object) -> dict[str, Part]:
        """Return the parts of a result and of everything that the call changes, gradients included. Raises TypeError."""
        found = self.outputs(result)
        return ({} if result is None else found) | self.kept.now() if self.kept.holds_any else found

    def _before(self) -> None:
        self.kept.restore()
        if self.workload.setup is not None:
            self.workload.setup()


def seed_all(seed: int) -> None:
    _seed_torch(seed)
    np.random.seed(seed % 2**32)  # the generator that an author's np.random.rand draws from
    random.seed(seed)


def forget_compiled(*, in_parallel: bool) -> None:
    """Have torch.compile compile anew, as in a process of its own: once it has seen two sizes, it makes code for any size.

    Unless ``in_parallel``, it compiles in this process: its cache on the disk has the code by then, and the processes that it
    starts otherwise, one for each core, would be busy with their imports while samples are taken.
    """
    if has_compiled():  # else a reset would load the whole compiler, only to forget nothing
        torch.compiler.reset()
    if not in_parallel and "torch._inductor.config" in sys.modules:
        torch._inductor.config.compile_threads = 1


def has_compiled() -> bool:
    """Return whether torch.compile has tried to compile anything in this process since it was last reset.

    A release that counts otherwise is taken to have compiled as soon as its compiler is loaded.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and getattr(utils, "curr_frame", 1) > 0


class Kept:
    """A copy of the tensors that a workload names in ``mutates``, as they are when it has been built.

    What does not exist then (the state of an optimizer, the parameters of a lazy module) is created by one call, and copied after
    it. Raises TypeError or ValueError for what cannot be copied, and whatever the author's code raises.
    """

    def __init__(self, workload: Workload) -> None:
        self._tree = workload.mutates
        if not self._take():
            return
        if workload.setup is not None:
            workload.setup()
        workload.run(**workload.tuning)
        self.restore()
        self._take()

    @property
    def holds_any(self) -> bool:
        return bool(self._live)

    @property
    def device_bytes(self) -> int:
        return sum(each.nbytes for each in self._copies if each.is_cuda)

    def restore(self) -> None:
        """Give everything the content of its copy; on a GPU the copying is queued on the current stream."""
        with torch.inference_mode() if self._inference else torch.no_grad():
            if len(self._live) > FEW:
                torch._foreach_copy_(self._live, self._copies)
            else:
                for tensor, kept in zip(self._live, self._copies, strict=True):
                    tensor.copy_(kept)
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        for settings, values in self._settings:
            settings.update(values)

    def now(self) -> dict[str, Part]:
        """Return the parts of everything that is restored, as it is now, with gradients."""
        found = outputs.parts(self._tree, _CHANGED)
        for place, node in outputs.leaves(self._tree, _CHANGED):
            if isinstance(node, torch.Tensor) and node.is_leaf and node.grad is not None:
                found[f"{place} .grad"] = outputs.part(node.grad, f"{place} .grad")
        return found

    def _take(self) -> bool:
        """Copy what exists. Return whether a call has to create something first."""
        self._live: list[torch.Tensor] = []
        self._gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._settings: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        lacking = False
        for place, node in outputs.leaves(self._tree, _CHANGED):
            if isinstance(node, torch.Tensor) and is_lazy(node):
                lacking = True
                continue
            self._add(node, place)
        for optimizer in _optimizers(self._tree):
            lacking |= not optimizer.state
            self._settings += [(group, _plain(group)) for group in optimizer.param_groups]
            self._settings += [(state, _plain(state)) for state in optimizer.state.values()]
        self._copies = [each.clone() for each in self._live]
        self._inference = any(each.is_inference() for each in self._live)
        return lacking

    def _add(self, node: object, place: str) -> None:
        if isinstance(node, tuple | list | Mapping) and not node:
            return
        if not isinstance(node, torch.Tensor | np.ndarray):
            raise TypeError(f"{place} is a {type(node).__name__}: mutates names tensors, modules, optimizers, or trees of them")
        part = outputs.tensor(node, place)
        if outputs.is_expanded(part):
            raise ValueError(f"{place} is an expanded view, whose elements share memory: name the tensor that it shows")
        if part.is_cuda and part.device.index != torch.cuda.current_device():
            raise ValueError(f"{place} is on {part.device}: make it on the device that the benchmark gets")
        self._live.append(part)
        if isinstance(node, torch.Tensor) and node.requires_grad and node.is_leaf:
            self._gradients.append((node, node.grad))
            if node.grad is not None:
                self._live.append(node.grad.detach())


def _optimizers(tree: object) -> Iterator[torch.optim.Optimizer]:
    if isinstance(tree, torch.optim.Optimizer):
        yield tree
    elif isinstance(tree, Mapping | tuple | list):
        for node in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _optimizers(node)


def _plain(settings: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the settings of an optimizer that are no tensors: its learning rate, a count of steps."""
    kept = {key: each for key, each in settings.items() if key != "params" and not isinstance(each, torch.Tensor)}
    return copy.deepcopy(kept)
