"""Let each case begin from the state that the import of its own file left, whatever the cases before it did to this process.

`child.worker` has a `CaseBoundary`, and so has a profiler's target. It writes settings of the whole process
(docs/decisions/0026-state.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch

from ratchet.core.bench.child.loader import LoadedTree
from ratchet.core.bench.messages import Restored
from ratchet.process_state.state import ProcessState, StateChange, left_running, names_of, write

Result = TypeVar("Result")
KEPT_BYTES = 1 << 20
"""Memory of the GPU that a case may leave allocated: it would count in the peak of the next one, whose figure shows no less."""


class CaseBoundary:
    """The boundary between the cases of one process. A process that takes one case only need not be ``watched``."""

    def __init__(self, tree: LoadedTree) -> None:
        self._tree = tree
        self._case = ""
        self._neutral: ProcessState | None = None
        """The state before any case, without that of a file."""
        self._begun: ProcessState | None = None
        self._modules: set[str] = set()
        self._running = left_running()

    def begin(self, case: str, *, watched: bool) -> None:
        """Put the state of the case's file into force, after a case of another name has been restored."""
        if case == self._case:
            return
        if self._case:
            self.restore()
        own = self._tree.provenance.names
        if watched:
            if self._tree.spec.device == "cuda":
                torch.cuda.init()  # its settings can be read from now on: the first case that uses the GPU has not made them
            self._neutral = self._begun = self._neutral or ProcessState(own)
        changes = self._tree.states.get(self._tree.case(case).file, ())
        write(map(self._within_cores, changes))
        if watched and changes:
            self._begun = ProcessState(own)
        self._case, self._modules = case, set(sys.modules)

    def apart(self, act: Callable[[], Result]) -> Result:
        """Do something to this process that is no doing of the case, and that `restore` leaves as it is."""
        own = self._tree.provenance.names
        before = ProcessState(own)
        result = act()
        changes = before.changes_to(ProcessState(own))
        for state in {id(each): each for each in (self._neutral, self._begun) if each}.values():
            state.accept(changes)
        return result

    def restore(self) -> Restored:
        """Undo what the case left changed, now that it is released.

        The process is spent if that cannot be done, or may be wrong: where the case imported a module, perhaps that made the
        change, as it would not do again for the next case.
        """
        if self._neutral is None or self._begun is None:
            return Restored(changed=(), spent=True)
        now, running = ProcessState(self._tree.provenance.names), left_running()
        changes, has_imported = self._begun.changes_to(now), bool(set(sys.modules) - self._modules)
        changed = names_of([each for each in changes if not (has_imported and each.may_be_of_package)])
        changed += tuple(name for name, found in running.items() if found - self._running[name])
        changed += _kept_gpu_memory()
        left = self._neutral.changes_to(now)
        write(left, undo=True)
        self._case = ""
        stays = left and self._neutral.changes_to(ProcessState(self._tree.provenance.names))
        is_lasting = any(found - self._running[name] for name, found in running.items()) or bool(_kept_gpu_memory())
        return Restored(changed=changed, spent=bool((changes and has_imported) or stays or is_lasting))

    def changes(self) -> list[StateChange]:
        """Return what differs now from how a watched case began, the settings of its file included."""
        own = self._tree.provenance.names
        return self._neutral.changes_to(ProcessState(own)) if self._neutral else []

    def _within_cores(self, change: StateChange) -> StateChange:
        """Return the change, with no more threads than a measurement on the CPU has cores."""
        spec = self._tree.spec
        if change.name != "num_threads" or spec.device != "cpu":
            return change
        return replace(change, new=min(change.new, spec.share.threads))


def _kept_gpu_memory() -> tuple[str, ...]:
    """Return a name for memory of the GPU that is still held, though no case is; scratch memory of cuBLAS is none."""
    if not torch.cuda.is_initialized():
        return ()
    torch._C._cuda_clearCublasWorkspaces()
    return ("memory of the GPU",) if torch.cuda.memory_allocated() > KEPT_BYTES else ()
