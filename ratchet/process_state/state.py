"""Read the state of this process that a benchmark's code may leave changed, name what it changed, and restore it.

`boundary` uses it between the cases of one worker, `imports` around the import of each benchmark file. A process is
the only boundary that needs no list, so on the CPU each case has one. This serves where a process costs too much: a GPU's
context takes 0.13 to 0.33 s. `areas` has what is read; docs/decisions/0026-state.md says what it does not see.
"""

from __future__ import annotations

import contextlib
import operator
import re
import sys
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ratchet.core.processes import children
from ratchet.process_state.areas import (
    ENVIRONMENT,
    GONE,
    IMPORTS,
    PYTHON,
    PYTHON_SETTINGS,
    WATCHED,
    Area,
    areas_of,
    is_gone,
    variables,
)

MOST_NAMED = 50
"""Changes of one case or file that are named to the controller."""


@dataclass(frozen=True)
class StateChange:
    """One value that is not what it was."""

    area: str
    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.area})"

    @property
    def may_be_of_package(self) -> bool:
        """Return whether packages often make this change for their own sake when they are imported."""
        return self.area in (ENVIRONMENT, IMPORTS) or (self.area == PYTHON and self.name in _OF_PACKAGES)


class ProcessState:
    """The state as it was when this was made. ``own``: top-level names of the tree's modules, whose namespaces count too."""

    def __init__(self, own: Collection[str] = ()) -> None:
        self._values = {name: (area, area.read()) for name, area in areas_of(own).items()}

    def changes_to(self, later: ProcessState) -> list[StateChange]:
        """Return what differs in a later state; the names of a module that was imported meanwhile are no change."""
        found = []
        for place, (area, values) in later._values.items():
            if place not in self._values and not area.from_defaults:
                continue
            earlier = self._values[place][1] if place in self._values else {}
            if [*values] == [*earlier] and all(map(operator.is_, values.values(), earlier.values())):
                continue
            for name in [*earlier, *(name for name in values if name not in earlier)]:
                change = StateChange(place, name, earlier.get(name, GONE), values.get(name, GONE))
                if change.old is not change.new and _counts(area, change):
                    found.append(change)
        return found

    def accept(self, changes: Iterable[StateChange]) -> None:
        """Take the new values of these changes for those that were there from the start."""
        for change in changes:
            if change.area in self._values:
                values = self._values[change.area][1]
                values.pop(change.name, None)
                values |= {} if is_gone(change.new) else {change.name: change.new}


def write(changes: Iterable[StateChange], *, undo: bool = False) -> None:
    """Give each of these its new value, or its old one to undo the change. What cannot be written stays as it is."""
    if not (changes := list(changes)):
        return
    areas = areas_of({change.area.partition(".")[0] for change in changes} - {*WATCHED})
    for change in changes:
        with contextlib.suppress(Exception):  # an object of the author's may raise anything; the next reading shows what stayed
            areas[change.area].write(change.name, change.old if undo else change.new)


def names_of(changes: Iterable[StateChange]) -> tuple[str, ...]:
    """Return the first names of what changed, each once."""
    return tuple(dict.fromkeys(map(str, changes)))[:MOST_NAMED]


def read_package_settings() -> dict[tuple[str, str], Any]:
    """Return area and name → value of the settings that packages often make for their own sake when they are imported."""
    found = {(ENVIRONMENT, name): value for name, value in variables().items()}
    return found | {(PYTHON, name): PYTHON_SETTINGS[name][0]() for name in _OF_PACKAGES}


_OF_PACKAGES = ("warning filters", "logging")


def left_running() -> dict[str, set[int]]:
    """Return the threads and the child processes of this process; not those that torch's compiler keeps.

    Python has a `_DummyThread` for each thread of C code in which somebody asked for the current one, such as autograd's.
    """
    of_torch = ("torch.", "tqdm.", *(["concurrent.futures."] if "torch._inductor.async_compile" in sys.modules else []))
    threads = {
        thread.ident
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
        and thread.ident
        and not isinstance(thread, threading._DummyThread)
        and not _module_of(thread).startswith(of_torch)
    }
    processes = {pid for pid in children() if b"torch/_inductor/" not in _command(pid)}
    return {"threads": threads, "child processes": processes}


def _module_of(thread: threading.Thread) -> str:
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", type(thread).__module__)) + "."


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _counts(area: Area, change: StateChange) -> bool:
    old, new = change.old, change.new
    if not area.is_code:
        if change.name == "recursion limit" and new == _DEEP and "torch._inductor.compile_fx" in sys.modules:
            return False
        try:
            return bool(old != new)
        except Exception:  # noqa: BLE001  an object of the author's may compare in any way
            return True
    is_dunder, is_added = change.name.startswith("__"), old is GONE and not area.hides(change.name)
    if is_dunder or is_added or old is None or _is_torchs_own(change):
        return False
    is_plain = isinstance(old, bool | int | float | str) and not change.name.startswith("_")
    return area.is_own or old is GONE or callable(old) or is_plain


_DEEP = 2000
"""The recursion limit that torch's compiler sets, if it is lower."""
_SELF_REPLACED = re.compile(r"torch\.(optim|jit|fx|distributions|compiler)\b|torch\.nn\.modules\.module\.Module$|torch$")
"""Namespaces in which torch's compiler replaces functions, when it is imported and when it compiles for the first time."""
_TORCH = str(Path(torch.__file__).parent)


def _is_torchs_own(change: StateChange) -> bool:
    """Return whether torch has replaced a function by one of its own: torch.manual_seed, Module.__init__, Adam.step."""
    if (change.area, change.name) == ("torch", "Storage"):  # which follows the default dtype
        return True
    new = change.new.fget if isinstance(change.new, property) else change.new
    file = getattr(getattr(new, "__code__", None), "co_filename", "")
    return bool(_SELF_REPLACED.match(change.area)) and file.startswith(_TORCH)
