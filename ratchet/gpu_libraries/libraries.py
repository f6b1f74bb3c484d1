"""Do in a process, before it forks others or gets the device, what libraries would do in each of them at their first call.

A host calls `load_ahead` once it has imported a tree, and so does a profiler's target before its turn. It imports modules and
reads files; it touches no GPU. A release of a library that names these things otherwise goes on doing them at its first call.
`WhenImported` is for what has to be done to a library that is not loaded yet.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from ratchet.core.bench.child.loader import LoadedTree
from ratchet.core.workload import Device


def load_ahead(tree: LoadedTree) -> None:
    """Load what the cases of this tree will need.

    torch's compiler only where a benchmark file names it, since it takes 3 to 6 s. If anything else compiles, a worker says so
    (`messages.BuiltCase.compiles`), and its host loads the compiler then.
    """
    sources = []
    for file in (tree.spec.path / tree.spec.bench).rglob("*.py"):
        with contextlib.suppress(OSError):  # a folder of that name, or a file that nobody may read
            sources.append(file.read_text(encoding="utf-8", errors="replace"))
    if any("torch.compile" in source for source in sources):
        load_compiler(tree.spec.device)
    if any(re.search(r"\boptim\b", source) for source in sources):
        with contextlib.suppress(Exception):  # as below
            importlib.import_module("torch._dynamo")  # the first optimizer of torch.optim imports it, which takes 1.3 s
    if "triton" in sys.modules:
        _load_triton()


def load_compiler(device: Device) -> None:
    """Do what torch.compile does at the first call: import itself, hash torch's sources, try vectors. It takes 6 s otherwise.

    For a CPU it starts programs that try vectors, and waits for them; for a GPU it starts none.
    """
    with contextlib.suppress(Exception):  # whatever is wrong with the compiler, its own first use says it better
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch._inductor.cudagraph_trees")  # with compile_fx; `torch.compiler.reset` wants it on a GPU
        importlib.import_module("torch._inductor.codecache").torch_key()
        if device == "cpu":
            importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()


def load_late(modules: Sequence[str]) -> None:
    """Import modules that cases import when they are called (`imports.LateImports`), each after the one before it."""
    for name in modules:
        with contextlib.suppress(Exception, SystemExit):  # the case's own import says better what is wrong
            importlib.import_module(name)


def _load_triton() -> None:
    """Do what Triton does at the first launch: hash its library of 400 MB, and import the rest of itself. It takes 0.4 s."""
    with contextlib.suppress(Exception):  # whatever is wrong with Triton, its own first use says it better
        importlib.import_module("triton.experimental.gluon")
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        key = getattr(sys.modules.get(module), "triton_key", None)
        if key is not None:
            with contextlib.suppress(Exception):
                key()
            return


class WhenImported(importlib.abc.MetaPathFinder):
    """A finder of one module, which calls ``then`` with it once it has been imported. It goes into `sys.meta_path`."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one loader
        return spec
