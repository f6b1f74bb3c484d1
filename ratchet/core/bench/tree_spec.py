"""Describe a tree whose benchmarks a child program loads: one record, which reaches every child as one JSON argument."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from ratchet.core.config import Settings
from ratchet.core.workload import Device


@dataclass(frozen=True)
class Sweep:
    """One case at several values of one of its parameters, in place of all cases of a tree."""

    case: str
    parameter: str
    values: tuple[int, ...]

    def name(self, value: int) -> str:
        """Return the name of the case with this value: ``normalize/columns_1024``."""
        return f"{self.case.partition('/')[0]}/{self.parameter}_{value}"


@dataclass(frozen=True)
class PythonEnvironment:
    """An interpreter with packages, and folders whose packages come before its own."""

    python: str
    first: tuple[str, ...] = ()

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process in this environment: its programs and folders come first."""
        if self == OURS:
            return dict(environ)
        programs = str(Path(self.python).parent)
        kept = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME")}
        path = os.pathsep.join(filter(None, (programs, environ.get("PATH", ""))))
        folders = os.pathsep.join(filter(None, (*self.first, environ.get("PYTHONPATH", ""))))
        return kept | {"PATH": path, "PYTHONPATH": folders}


OURS = PythonEnvironment(sys.executable)


class ProcessShare(NamedTuple):
    """The part of the machine, and of the controller's patience, that the processes of a tree get."""

    threads: int
    """Cores that a worker on the CPU may use."""
    gpu_uuid: str | None
    """`Gpu.address`, which shows a process this GPU alone: on NVIDIA the UUID. Of a command that uses several: all, by commas."""
    import_s: float
    """Longest wait for the imports."""
    step_s: float
    """Longest wait for one answer of a worker."""


@dataclass(frozen=True)
class TreeSpec:
    """A tree's place, the way to import its benchmarks, and the device that they run on."""

    path: Path
    checkout: Path
    """The user's own checkout: a module that is loaded from it, and not from ``path``, is foreign."""
    bench: str
    """The folder of the benchmarks within the tree."""
    python_path: tuple[str, ...]
    """Folders within the tree that imports look into first."""
    device: Device
    share: ProcessShare
    results: str = "results"
    """The folder within the tree that ratchet itself writes to."""
    variant: str | None = None
    """The way in which benchmarks do their work, of those that they offer; None: each benchmark's own."""
    sweep: Sweep | None = None
    """The only cases that this tree has; None: all."""
    python: PythonEnvironment = OURS
    late: tuple[str, ...] = ()
    """Modules that are imported after the benchmarks, since cases import them."""
    identified: Literal[False, True, "alone"] = False
    """Whether a host reads all files of the tree before it imports them, to tell later whether a case's code is the same in the
    other tree; ``alone``: in any tree that comes later."""

    @classmethod
    def of(cls, settings: Settings, path: Path, *, checkout: Path, device: Device, gpu_uuid: str | None) -> TreeSpec:
        """Return the tree at ``path``, as the settings say."""
        return cls(
            path=path,
            checkout=checkout,
            bench=settings.bench,
            python_path=settings.python_path,
            device=device,
            share=ProcessShare(settings.cpu_threads, gpu_uuid, settings.host_timeout, settings.case_timeout),
            results=settings.results,
        )

    @property
    def extensions(self) -> dict[str, str]:
        """Variables that keep what torch.utils.cpp_extension builds apart from other trees'; none for the user's own checkout.

        It goes by the name that the author gave, so in one folder for all, both sides would get what the first of them built.
        """
        if self.path == self.checkout:
            return {}
        return {"TORCH_EXTENSIONS_DIR": str(self.path.with_name(f".{self.path.name}-extensions"))}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> TreeSpec:
        """Return the record that `child_command` wrote, with absolute paths."""
        spec = TypeAdapter(cls).validate_python(fields)
        return replace(spec, path=spec.path.resolve(), checkout=spec.checkout.resolve())


_WITH_PACKAGES = """
import runpy, sys
sys.path[:0] = sys.argv.pop(1).split(":")
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""
"""Runs a module whose arguments follow, with more folders to import from. A variable would reach what profilers start, too."""


def child_command(module: str, environment: PythonEnvironment = OURS, **argument: object) -> list[str]:
    """Return the argument list that runs a module of ratchet with one JSON argument, in an environment of Python."""
    text = json.dumps(argument, default=lambda value: asdict(value) if is_dataclass(value) else str(value))  # type: ignore[arg-type]
    # -u: what was printed before a crash is not lost in a buffer.
    # -P: the folder this runs in must not offer its own `ratchet`; the harness is always the installed one.
    how = ["-c", _WITH_PACKAGES, ":".join(environment.first), module] if environment.first else ["-m", module]
    return [environment.python, "-u", "-P", *how, text]
