"""Compute the identity of a case's host code: a digest of all of its tree that the process can have run or read.

A host makes a `HostCode` before it imports the benchmarks; its workers ask for the identity of a case that they have prepared.
It reads the files of the tree, and changes nothing. docs/decisions/0021-host-code.md says why equal digests mean equal work.

Both sides run the same interpreter, libraries and harness in the same environment. So what they do can differ only by what they
read in their trees:

- the statements of loaded modules that the case can depend on (`statements`), without comments, docstrings and positions;
- all files that are not Python, but for documentation that no text in these statements names;
- all files, byte for byte, where these statements read in ways that no name shows (`mentions`), or where a function ran
  that is in none of them (`FunctionWatch`).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from ratchet.measure.host_code.acts import HARNESS_FOLDER, ActWatch, ImportWatch
from ratchet.measure.host_code.statements import LoadedProgram, Name, Wide
from ratchet.records.tuning import TUNED_FILE

MOST_BYTES = 2 << 30
"""A larger tree takes longer to read than its cases to be timed."""
MOST_PARTS = 500
"""Files that are not Python are one part of an identity each, up to so many; else all are one."""
_IGNORED = frozenset({".git"})
_UNCHECKED = b"\1\0\0\0"
"""Flags of a compiled file that Python runs without a look at its source: PEP 552."""
_OF_RATCHET = frozenset({"baseline.json", "current.json", "report.json", "ratchet_report.md"})
"""Files of ratchet's own in the folder of results."""
_DOCUMENTATION = (".md", ".rst")
_OF_TOOLS = frozenset(
    {".gitattributes", ".gitignore", ".pre-commit-config.yaml", "LICENSE", "RECORD", "SOURCES.txt", "pyproject.toml", TUNED_FILE}
)
"""Files that nothing reads unless a text names them; tuned values of a case are in its identity themselves."""
_OF_IMPORTLIB = ("<frozen importlib", importlib.import_module.__code__.co_filename)
"""Files of the frames between an import and who asks for it."""
Ran = frozenset[tuple[str, int, str]]
"""Functions that ran: file, first line, name."""


@dataclass(frozen=True)
class HostIdentity:
    """Part of a tree → digest; or the reason why the host code is not compared."""

    parts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    """Why everything in the tree counts."""
    unknown: str = ""


class HostCode:
    """The files of a tree, as they are before anything of it is imported, and its modules once they are."""

    def __init__(self, tree: Path, bench: str, results: str) -> None:
        self._tree = tree
        self._bench = bench
        self._content = _content(tree, tree / results)
        importers = _Importers(tree)
        self._program = LoadedProgram(tree, self._content, importers.by_libraries)
        sys.meta_path.insert(0, importers)
        self.acts = ActWatch(tree)
        self._imports = ImportWatch(tree, importers.by_libraries)
        self._executed: set[str] = set()
        """Files of the tree that were run as modules."""

    def update(self) -> None:
        """Read the modules that were loaded meanwhile."""
        self._program.update()
        fresh, self.acts.executed = self.acts.executed, set()  # thousands, with those of libraries: each is looked up once
        real = (os.path.realpath(file) for file in fresh if file.startswith(os.sep))
        self._executed |= {path for path in real if path.startswith(f"{self._tree}{os.sep}")}

    def identity(self, benchmark: object, tuning: Mapping[str, Any], ran: Ran) -> HostIdentity:
        """Return the identity of a case of this benchmark, whose timed call ran these functions."""
        if not self._content:
            return HostIdentity(unknown=f"the tree has more than {MOST_BYTES >> 30} GiB of files")
        self.update()
        values = {"tuning": _digest(json.dumps(dict(tuning), sort_keys=True, default=repr))}
        try:
            roots = self._roots(benchmark)
            closure = self._program.closure(roots, self.acts.seen, self._imports.by_tree)
            if stray := self._program.uncounted(ran, closure):
                raise Wide(f"{stray} ran, and no name leads to it")
            unloaded = self._program.unloaded(closure, self._bench)
            if hidden := self._program.unlisted(self._executed, unloaded):
                raise Wide(f"{hidden} was imported, and is none of the modules")
        except Wide as reason:
            parts = values | _few(self._content, "everything in the tree") | {"commit": _commit(self._tree)}
            return HostIdentity(parts, str(reason))
        mentioned = closure.mentioned
        if "git" in mentioned.words:
            values["commit"] = _commit(self._tree)
        for folder in mentioned.listed:
            inside = [
                path for path in self._content if path.endswith(".py") and (self._tree / path).is_relative_to(folder or "/")
            ]
            values[f"Python files in {os.path.relpath(folder or self._tree, self._tree)}"] = _digest("\n".join(sorted(inside)))
        whole = unloaded | {path for path in self._content if path.endswith(tuple(mentioned.python_files))}
        whole |= {os.path.relpath(path, self._tree) for path in self.acts.texts if mentioned.source}
        data = {path: digest for path, digest in self._content.items() if path in whole or _is_data(Path(path), mentioned.words)}
        order = {"the order of imports": _digest("\n".join(self._program.order(closure)))}
        return HostIdentity(values | closure.digests() | _few(data, "files that are not Python") | order)

    def _roots(self, benchmark: object) -> list[Name]:
        """Return the names that stand for the benchmark. Raises Wide where there is none."""
        names = [
            (module, name)
            for module, source in self._program.sources.items()
            for name, value in vars(source.module).items()
            if value is benchmark and name in source.by_name
        ]
        if not names:
            raise Wide("no statement binds the benchmark to a name")
        return names


class _Importers:
    """A finder that finds nothing, and notes the modules that code of the environment imports."""

    def __init__(self, tree: Path) -> None:
        self._known = (f"{tree}{os.sep}", HARNESS_FOLDER)
        self.by_libraries: set[str] = set()

    def find_spec(self, name: str, *_: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame and frame.f_code.co_filename.startswith(_OF_IMPORTLIB):
            frame = frame.f_back
        if frame and not frame.f_code.co_filename.startswith(self._known):
            self.by_libraries.add(name)


class FunctionWatch:
    """A context that notes which functions run within it, in this thread and in those that it starts."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    @property
    def ran(self) -> Ran:
        codes = self._codes.copy()  # a thread that still runs may add one at any time
        return frozenset((each.co_filename, each.co_firstlineno, each.co_name) for each in codes)

    def __enter__(self) -> FunctionWatch:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)


def _content(tree: Path, results: Path) -> dict[str, str]:
    """Return the digest of each file of a tree; none at all where there are too many bytes.

    The tree's own path in a file that is not Python counts as if it were the same on both sides: builds write it.
    """
    found: dict[str, str] = {}
    total, here = 0, os.fsencode(tree)
    for folder, folders, files in os.walk(tree):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in _IGNORED and Path(folder, name) != results / "history")
        for name in sorted([*files, *links]):
            path = Path(folder, name)
            relative = str(path.relative_to(tree))
            if name in _IGNORED or (path.parent == results and name in _OF_RATCHET):
                continue
            if path.is_symlink():
                found[relative] = _digest(f"link to {path.readlink()}".replace(str(tree), ""))
                if not path.is_file() or not path.resolve().is_relative_to(tree):
                    continue
            if Path(folder).name == "__pycache__" and not _is_unchecked(path):
                continue
            total += path.stat().st_size
            if total > MOST_BYTES:
                return {}
            if path.is_file():
                data = path.read_bytes()
                same = data if path.suffix == ".py" else data.replace(here, b"")
                found[relative] = found.get(relative, "") + hashlib.sha256(same).hexdigest()
    return found


def _is_unchecked(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8)[4:] == _UNCHECKED


def _is_data(path: Path, words: Iterable[str]) -> bool:
    if path.suffix == ".py":
        return False
    unread = path.suffix in _DOCUMENTATION or path.name in _OF_TOOLS or path.parts[0] == ".github"
    return not unread or bool({path.stem, path.suffix[1:], path.name} & set(words))


def _commit(tree: Path) -> str:
    """Return the digest of the name of the commit, which a program may ask git for."""
    head = tree / ".git" / "HEAD"
    return _digest(head.read_text(encoding="utf-8") if head.is_file() else "")


def _few(parts: Mapping[str, str], name: str) -> dict[str, str]:
    if len(parts) <= MOST_PARTS:
        return dict(parts)
    return {name: _digest("\n".join(f"{path} {digest}" for path, digest in sorted(parts.items())))}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
