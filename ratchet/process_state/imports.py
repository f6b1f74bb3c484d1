"""Note what the import of each benchmark file changes in this process, and undo it before the next file is imported.

`child.loader` imports files within `ImportWatch.importing`. `PristineProcess` imports a file where no other one has been: only
that shows what a file and its modules set, since Python imports each module once. `boundary` puts it into force for the
cases of the file (docs/decisions/0026-state.md).
"""

from __future__ import annotations

import builtins
import contextlib
import os
import pickle
import re
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.abc import MetaPathFinder
from typing import Any

import torch

from ratchet.core.processes import die_with_parent
from ratchet.process_state.areas import IMPORTS
from ratchet.process_state.state import ProcessState, StateChange, names_of, read_package_settings, write

States = Mapping[str, tuple[StateChange, ...]]
"""File → what its import changes, which is in force while its cases are measured and at no other time."""


class ImportWatch:
    """Notes what the import of each file changes, and undoes it. ``own``: top-level names of the tree's modules.

    Variables and warnings that packages from outside the tree set belong to the environment of all files, and stay.
    """

    def __init__(self, own: Collection[str]) -> None:
        self.states: dict[str, tuple[StateChange, ...]] = {}
        self._own = own
        self._of_packages: dict[tuple[str, str], list[Any]] = {}
        """Area and name → the filters of warnings that packages added; an empty list for other settings."""
        self._state: ProcessState | None = None

    @contextlib.contextmanager
    def importing(self, file: str) -> Iterator[None]:
        """Note what happens meanwhile as the import of this file."""
        before = self._state or ProcessState()
        try:
            with self._packages_apart():
                yield
        finally:
            self._state = ProcessState()
            found = before.changes_to(self._state)
            changes = [own for each in found if each.area != IMPORTS and (own := self._without_packages(each))]
            self.states[file] = tuple(changes)
            if changes:
                write(changes, undo=True)
                self._state = ProcessState()

    def _without_packages(self, change: StateChange) -> StateChange | None:
        """Return the change from what packages have set, if they did not make it alone."""
        added = self._of_packages.get((change.area, change.name))
        if added is None:
            return change
        kept = tuple(each for each in change.new if each in change.old or each in added) if added else change.new
        return None if kept == change.new else replace(change, old=kept)

    @contextlib.contextmanager
    def _packages_apart(self) -> Iterator[None]:
        original, is_inside = builtins.__import__, False

        def imported(name: str, *arguments: Any, **named: Any) -> Any:
            nonlocal is_inside
            level = arguments[3] if len(arguments) > 3 else named.get("level", 0)
            if is_inside or level or name.partition(".")[0] in self._own:
                return original(name, *arguments, **named)
            before, is_inside = read_package_settings(), True
            try:
                return original(name, *arguments, **named)
            finally:
                is_inside = False
                after = read_package_settings()
                for key in (key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
                    filters = after[key] if key[1] == "warning filters" else ()
                    self._of_packages.setdefault(key, []).extend(each for each in filters if each not in before[key])

        builtins.__import__ = imported
        try:
            yield
        finally:
            builtins.__import__ = original


class LateImports(MetaPathFinder):
    """Notes which modules cases import while they are built and called. It finds none itself; it goes into `sys.meta_path`.

    A host may import them before it forks other workers, as long as a case had changed nothing when it began to import: what a
    module does then, it does without the case too. What is imported after that each worker imports itself.
    """

    def __init__(self, changes: Callable[[], Iterable[StateChange]]) -> None:
        """``changes`` returns what has changed in this process since the first case began."""
        self._changes = changes
        self._by_imports: set[tuple[str, object]] = set()
        self._is_inside, self._root = False, ""
        self._found: list[str] = []
        self._may_be_ahead = True
        """No case had changed anything yet when it imported the last of them."""
        self._import = builtins.__import__
        builtins.__import__ = self._imported
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, *_: object) -> None:
        root = getattr(sys.modules.get(self._root), "__spec__", None)
        if not self._root or not (self._is_inside or getattr(root, "_initializing", False)):  # the case itself asks for it
            self._root = fullname
            self._may_be_ahead = self._may_be_ahead and self._by_imports.issuperset(map(_key, self._changes()))
            if self._may_be_ahead and fullname.partition(".")[0] not in ("torch", "triton"):  # which are left to `libraries`
                self._found.append(fullname)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that cases asked for until one had changed something, in this order. Each brings what it imports."""
        return tuple(name for name in self._found if getattr(sys.modules.get(name), "__spec__", None))

    def _imported(self, *arguments: Any, **named: Any) -> Any:
        if self._is_inside:
            return self._import(*arguments, **named)
        self._is_inside, self._root, count = True, "", len(sys.modules)
        try:
            return self._import(*arguments, **named)
        finally:
            self._is_inside = False
            if len(sys.modules) > count:
                self._by_imports |= set(map(_key, self._changes()))


class PristineProcess:
    """A copy of this process from before anything was imported; it imports single files on request. A context manager."""

    def __init__(self, load: Callable[[str], tuple[StateChange, ...] | None]) -> None:
        """``load`` imports a file and returns what that changed; None if it cannot."""
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            die_with_parent()
            ours.close()
            _answer(theirs, load)
            os._exit(0)
        theirs.close()
        self._conversation = ours.makefile("rwb")
        ours.close()

    def __enter__(self) -> PristineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # an author's code may have closed anything, and waited for any process
            self._conversation.close()
            os.waitpid(self._pid, 0)

    def states(self, found: States) -> States:
        """Return what each file's import changes by itself, where ``found`` has them in the order in which they were imported.

        Only those are imported again for which an earlier file has changed something that they did not: perhaps a module did
        that which both import. If a file cannot be imported by itself, what was found stays.
        """
        states: dict[str, tuple[StateChange, ...]] = {}
        earlier: set[tuple[str, object]] = set()
        for file, changes in found.items():
            own = set(map(_key, changes))
            states[file] = self._state(file, found) if earlier - own else changes
            earlier |= own
        return states

    def _state(self, file: str, found: States) -> tuple[StateChange, ...]:
        try:
            self._conversation.write(f"{file}\n".encode())
            self._conversation.flush()
            alone: list[StateChange] | None = pickle.load(self._conversation)  # noqa: S301  it runs the same files as this process
        except (OSError, EOFError, pickle.UnpicklingError):  # an author's code closed the conversation, or ended the process
            alone = None
        if alone is None:
            return found[file]
        here = {(each.area, each.name): each for changes in (*found.values(), found[file]) for each in changes}
        mended = (here.get((each.area, each.name)) if each.new is None else each for each in alone)
        return tuple(each for each in mended if each is not None)


def _answer(conversation: socket.socket, load: Callable[[str], tuple[StateChange, ...] | None]) -> None:
    with conversation, conversation.makefile("rb") as questions:
        for line in questions:
            reader, writer = os.pipe()
            if os.fork() == 0:
                try:
                    changes = load(line.decode().strip())
                    portable = changes and [replace(each, old=None, new=_plain(each.new)) for each in changes]
                    with open(writer, "wb") as file:  # noqa: PTH123  a descriptor has no path
                        pickle.dump(portable, file)
                finally:
                    os._exit(0)
            os.close(writer)
            with open(reader, "rb") as file:  # noqa: PTH123
                answer = file.read()
            os.wait()
            conversation.sendall(answer or pickle.dumps(None))


_PLAIN = (bool, int, float, str, bytes, re.Pattern, torch.dtype, torch.device)


def _plain(value: Any) -> Any:
    """Return a value that is the same in any process; None for another one, such as a function."""
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    if isinstance(value, tuple | list | frozenset | dict):
        return value if all(part is None or _plain(part) is not None for part in parts) else None
    is_category = isinstance(value, type) and issubclass(value, Warning)
    return value if isinstance(value, _PLAIN) or is_category else None


def _key(change: StateChange) -> tuple[str, object]:
    """Return a key that is the same for equal changes."""
    return str(change), id(change.new) if _plain(change.new) is None else repr(change.new)


def differing(states: States, files: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return file → what it sets for its own cases, unless all ``files`` that have cases set the same."""
    keys = {file: set(map(_key, changes)) for file, changes in states.items()}
    shared = set.intersection(*(keys.get(file, set()) for file in files)) if files else set()
    return {
        file: names_of([each for each in changes if _key(each) not in shared])
        for file, changes in states.items()
        if keys[file] - shared
    }
