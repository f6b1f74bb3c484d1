"""Note whether a process read in a way that no name shows: it started a program, listed a folder, unpickled, ran text as code.

`HostCode` keeps an `ActWatch` from before the first import on. Code that only could do so, as packages have for downloads and
installations, reads nothing as long as it does not run; Python's audit events (PEP 578) say whether it did, in any thread.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import ratchet

PROGRAM = "another program may read any file"
LISTING = "it lists folders"
PICKLE = "pickled objects name code"
TEXT = "it runs text as code"
SOURCE = "it reads source as text"
WATCHED = frozenset({PROGRAM, LISTING, PICKLE, TEXT})
"""They count once they were seen. Source as text is that of the files in `ActWatch.texts`."""

_EVENTS = {
    **dict.fromkeys(("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"), PROGRAM),
    "cpython.PyInterpreterState_New": PROGRAM,
    **dict.fromkeys(("os.listdir", "os.scandir"), LISTING),
    **dict.fromkeys(("pickle.find_class", "marshal.load", "marshal.loads"), PICKLE),
    **dict.fromkeys(("compile", "exec"), TEXT),
    "open": SOURCE,
}
_COMPILERS = frozenset({"cuda", "torch", "triton"})
"""They start compilers and ask the linker for libraries, and run code that they made, of sources which the tree names."""
_MAKING_CLASSES = frozenset({"ast", "collections", "dataclasses", "enum", "multiprocessing", "typing"})
_BUILDING = frozenset({"builtins", "cloudpickle", "dill", "functools", "importlib", "operator", "types"})
"""Modules of which a pickle can build a call of anything."""
_FORKS = ("os.fork", "os.forkpty")
_SPAWNS = (
    "multiprocessing.popen_forkserver",
    "multiprocessing.popen_spawn_posix",
    "joblib.externals.loky.backend.popen_loky_posix",
)
"""Modules that are imported when they start a process, of which there is no event."""
_IMPORTING = frozenset({"importlib", "pkgutil", "zipimport"})
HARNESS_FOLDER = f"{Path(ratchet.__file__).parent}{os.sep}"
"""As frames name it."""
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"


class ActWatch:
    """The ways of reading that were seen in this process since this was made. The hook stays for ever."""

    def __init__(self, tree: Path) -> None:
        self._start = f"{tree}{os.sep}"
        self._seen: set[str] = set()
        self.executed: set[str] = set()
        """Files that were run as modules."""
        self.texts: set[str] = set()
        """Python files of the tree that were read, and not to be imported."""
        sys.addaudithook(self._note)

    @property
    def seen(self) -> frozenset[str]:
        """The acts that were seen."""
        return WATCHED if any(name in sys.modules for name in _SPAWNS) else frozenset(self._seen)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (act := _EVENTS.get(event)) is None:
            return
        caller = sys._getframe().f_back
        if caller and _package(caller) in _IMPORTING:  # what is imported is known
            if event == "exec":
                self.executed.add(arguments[0].co_filename)
        elif act == SOURCE:
            self._note_text(arguments[0], caller)
        elif act not in self._seen and self._counts(event, act, arguments[0] if arguments else None, caller):
            self._seen |= WATCHED if act == PROGRAM else {act}  # a process of its own may do anything

    def _counts(self, event: str, act: str, argument: Any, caller: FrameType | None) -> bool:
        """Return whether this is an act of the tree, or may be one. ``caller``: None for C code in a thread of its own."""
        if act == PROGRAM:
            return not _is_of(_outside(caller), frozenset() if event in _FORKS else _COMPILERS)
        if act == LISTING:
            asks = _outside(caller)
            is_torch = asks is not None and asks.f_globals.get("__name__") == "torch"  # for CUDA's libraries, in all of sys.path
            return self._is_inside(argument) and not is_torch and not _is_of(asks, _IMPORTING)
        if event == "pickle.find_class":
            return self._may_be_own(argument)
        # Text and code that a library makes and runs, as attrs and jinja2 do, has the names of that library.
        if caller is None:
            return True
        file = caller.f_code.co_filename
        return file.startswith(self._start) or (_is_standard(file) and _package(caller) not in _MAKING_CLASSES)

    def _note_text(self, path: Any, caller: FrameType | None) -> None:
        """Note a Python file, whoever reads it: `linecache` keeps it for all. The harness reads bytes, which nothing keeps."""
        reader = _outside(caller) if caller and _package(caller) == "pathlib" else caller
        if str(path).endswith((".py", ".pyc")) and self._is_inside(path) and not _is_of(reader, frozenset()):
            self.texts.add(os.path.realpath(path))

    def _is_inside(self, path: object) -> bool:
        """Return whether a path lies in the tree; so may one that is a descriptor or bytes, and none is the working folder."""
        if not isinstance(path, str | os.PathLike | None):
            return True
        return f"{os.path.realpath(path or '.')}{os.sep}".startswith(self._start)

    def _may_be_own(self, name: object) -> bool:
        """Return whether an object of this module may be code of the tree, or lead to it."""
        module = sys.modules.get(str(name))
        if not isinstance(module, ModuleType) or str(name).partition(".")[0] in _BUILDING:
            return True
        return self._is_inside(vars(module).get("__file__") or "")


class ImportWatch:
    """The modules that `importlib.import_module` was asked for in this process since this was made; it watches for ever.

    A module that is loaded already is found without any audit event, so this needs `sys.monitoring` (PEP 669, Python 3.12).
    Those that code of the environment asked for are added to ``by_libraries``.
    """

    def __init__(self, tree: Path, by_libraries: set[str]) -> None:
        self._start = f"{tree}{os.sep}"
        self._by_tree: set[str] = set()
        self._by_libraries = by_libraries
        self._watches = False
        if sys.version_info < (3, 12):
            return
        monitoring = sys.monitoring
        tool = next((number for number in range(5, -1, -1) if monitoring.get_tool(number) is None), None)
        if tool is None:  # debuggers, coverage and others have them all
            return
        monitoring.use_tool_id(tool, "ratchet")
        monitoring.register_callback(tool, monitoring.events.PY_START, self._note)
        monitoring.set_local_events(tool, importlib.import_module.__code__, monitoring.events.PY_START)
        self._watches = True

    @property
    def by_tree(self) -> frozenset[str] | None:
        """The full names of modules that the tree's own code asked for; None where nobody watches."""
        return frozenset(self._by_tree) if self._watches else None

    def _note(self, *_: object) -> None:
        frame = sys._getframe(1)
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        if caller.startswith(HARNESS_FOLDER):
            return
        asked = frame.f_locals
        name, package = str(asked.get("name")), asked.get("package")
        full = importlib.util.resolve_name(name, package) if name.startswith(".") and package else name
        (self._by_tree if caller.startswith(self._start) else self._by_libraries).add(full)


def _outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that is not of Python's own library: who asked for it. None in a thread of its own."""
    while frame and _is_standard(frame.f_code.co_filename):
        if _package(frame) in _IMPORTING:
            return frame
        frame = frame.f_back
    return frame


def _is_standard(file: str) -> bool:
    return file.startswith((_STANDARD, "<frozen")) and "-packages" not in file


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_of(frame: FrameType | None, packages: frozenset[str]) -> bool:
    """Return whether a frame is of these packages or of the harness."""
    return frame is not None and (_package(frame) in packages or frame.f_code.co_filename.startswith(HARNESS_FOLDER))
