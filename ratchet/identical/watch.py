"""Note what a process gets at of its tree: files, folders, names that it asks for, functions that run.

A host starts a `Watch` before it imports its tree; what it forks is watched too, until `Watch.stop`. `footprint.look` says which
differences show in it (docs/decisions/0021-host-code.md). Whatever cannot be told from a touch counts as one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import itertools
import linecache
import os
import pkgutil
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import FileFinder, PathFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any

import ratchet
from ratchet.common.byte_code import followed_source
from ratchet.core.bench.child.reads import checked_out_at
from ratchet.core.bench.messages import OPENED_ELSEWHERE
from ratchet.identical.difference import GIT
from ratchet.identical.footprint import Touch
from ratchet.identical.runtime import FunctionWatch, NativeOpenings, uncompiled_kernels

HARNESS_FOLDER = f"{Path(ratchet.__file__).parent}{os.sep}"
"""As frames name it."""
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES = "-packages/"
_IMPORT = ("python:importlib._bootstrap",)

# Code by file: "python:" or "ratchet:" and a path for Python's own library and the harness, else a path as installed packages
# have it. Each list names code that makes no more of what it sees than is said below it. What is on no list costs time.
_READERS = tuple(
    f"ratchet:{name}"
    for name in (
        *("core/records/", "core/errors.", "core/processes.", "gpu_libraries/gpu_facts.", "gpu_libraries/libraries."),
        *(f"core/bench/child/{module}." for module in ("host", "loader", "registry", "reads")),
        *(f"process_state/{module}." for module in ("areas", "boundary", "state")),
    )
)
"""The harness where it reads the tree itself, and calls no function of an author's."""
_BETWEEN = ("python:", "ratchet:process_state/imports.")
"""Python's own library, and the harness where it passes each import of the tree on: they ask for somebody else."""
_COMPILERS = (
    *("torch/_inductor/", "torch/utils/cpp_extension.py", "torch/cuda/", "torch/__init__.py", "triton/", "cuda/"),
    "ratchet:nvcc.",
)
"""They start compilers, and look for NVIDIA's libraries in all of `sys.path`."""
_C_CALLERS = (*_COMPILERS, "fsspec/utils.py", "numba/cpython/hashing.py", "polars/_cpu_check.py")
"""They look up C functions of Python or the system, to copy bytes, for the seed of hashes, or for what the processor can do."""
_FRAME_TAKERS = (
    *("torch/", "triton/", "typing_extensions.py", "_distutils_hack/"),
    *("python:collections/", "python:enum", "python:logging/", "python:typing", "python:warnings"),
)
"""They take frames for names that they know, or for a message."""
_KERNEL_MAKERS = ("triton/runtime/jit.py",)
"""They read the source of each kernel where it is defined, and use it when it is compiled: see `Watch.pause`."""
_PRINTERS = ("torch/cuda/__init__.py",)
"""They keep the stack for the message that CUDA begins too late."""
_PATH_TELLERS = tuple(f"python:{name}" for name in ("genericpath", "posixpath", "pathlib", "glob"))
_PARAMETER_READERS = frozenset({"_signature_from_function", "_has_code_flag"})
_INSPECTORS = frozenset({"getfile", "findsource"})
"""Functions of `inspect` that read what both sides have in common; those above do so if a function's parameters are the same."""
_EXISTENCE = frozenset(
    {"exists", "isfile", "isdir", "lexists", "islink", "is_file", "is_dir", "is_symlink", "realpath", "_joinrealpath"}
)

_FORKS = frozenset({"os.fork", "os.forkpty", "fork_exec", "cpython.PyInterpreterState_New"})
_PROGRAMS = _FORKS | {"os.exec", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen"}
_UNTRACED = frozenset({"sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback"})
"""They have something called that no tracer sees."""
_OBJECTS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames"})
_SHOWING = (_UNTRACED | _OBJECTS | {"signal", "addaudithook"}) - {"sys.addaudithook"}
"""They show frames or code to their caller, or to what he gives them, and no other event tells of that."""
_MEMORY = frozenset({"ctypes.cdata", "ctypes.string_at", "ctypes.wstring_at", "ctypes.PyObj_FromPtr"})
"""They read memory by its address."""
_TRACERS = ("gettrace", "getprofile")
"""Functions of `sys` that tell whether somebody watches."""
_CODES = frozenset({"__code__", "gi_code", "cr_code", "ag_code"})
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_ATTRIBUTES = _CODES | _FRAMES
_UNHEARD = frozenset({"builtins.id", "compile", "marshal.loads", "marshal.load", "marshal.dumps", "code.__new__"}) | {
    "object.__setattr__",
    "object.__delattr__",
}
"""Other events tell what these lead to; arguments of the last two are names of attributes, and no files."""
_stat, _lstat = os.stat, os.lstat
"""As they are before a watch puts its own in their place."""
_SYSTEM_CALLS = ("stat", "lstat", "access", "readlink", "statvfs", "pathconf", "mkfifo", "mknod")
_ONE_PLACE = {"path_stats": 1, "import": 1} | dict.fromkeys(
    ("open", "find_spec", "linecache", "os.listdir", "os.scandir", "os.stat", "os.lstat", "os.readlink"), 0
)
"""Events that have no more to say than the name of one file: which of their arguments it is, or has it as its path."""
_DYNAMO = "/torch/_dynamo/convert_frame.py"
_LONGEST_PATH = 4096


class _Here(threading.local):
    is_busy = False
    """This thread works for the watch."""


@dataclass
class _Event:
    name: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    caller: FrameType | None = None
    """Where it happened; None in a thread of C code."""

    @functools.cached_property
    def asker(self) -> FrameType | None:
        """The innermost frame that asks for itself: not of Python's own library."""
        return next((frame for frame in _back(self.caller) if not _is_of(frame, *_BETWEEN)), None)

    @functools.cached_property
    def within(self) -> str:
        """The function of `inspect` that is the caller."""
        return self.caller.f_code.co_name if self.caller and _is_of(self.caller, "python:inspect") else ""

    @functools.cached_property
    def steps(self) -> tuple[str, ...]:
        """The functions of Python's import system that are the innermost frames."""
        found = []
        for frame in _back(self.caller):
            if not _is_of(frame, *_IMPORT):
                break
            found.append(frame.f_code.co_name)
            if found[-1] == "exec_module" and type(frame.f_locals["self"]) is SourceFileLoader:
                found.append("import")
        return tuple(found)


class Watch:
    """Notes what this process gets at of its tree, from `start` on: its footprint."""

    def __init__(self, tree: Path, paths: Collection[str], *, functions: bool) -> None:
        """Prepare a watch. ``paths`` are all that may differ in another tree; ``functions``: bodies of functions may, too."""
        self._start, self._paths = f"{tree}{os.sep}", frozenset(paths)
        self._folders: dict[str, tuple[int, int, str]] = {}
        """Folder, as it was named → its device and number, and where it really is."""
        self._functions = FunctionWatch(self._began) if functions else None
        self.touched: dict[Touch, str] = {}
        """Everything of its tree that this process got at → how, as a clause."""
        self._known: Counter[str] = Counter()
        """Openings of files that were heard of."""
        self._kernels: set[tuple[str, str]] = set()
        """Functions, by path and qualified name, whose code Triton has taken."""
        self._files: dict[str, str] = {}
        """File, as code objects name it → its path within the tree."""
        self._since = time.time()
        self._made = checked_out_at(tree)
        self._loaded: frozenset[str] = frozenset()
        """Modules of packages that were there already, so that no import looks for them."""
        self._is_on = self._forks_itself = False
        self._threads_of = ""
        """Where the tree began a thread, by itself or by what it called."""
        self._here = _Here()
        self._undo = contextlib.ExitStack()

    def start(self) -> None:
        """Watch from now on: this thread, and all that begin. Raises WorkerError where that is impossible."""
        self._loaded = frozenset(name for name, module in sys.modules.items() if "." not in name and _is_installed(module))
        sys.addaudithook(self._audited)
        system, processes = map(importlib.import_module, ("posix", "_posixsubprocess"))
        own = ModuleType("posix")
        vars(own).update(vars(system))  # what imports ask does not pass through the wrappers
        self._replace(sys.modules["_frozen_importlib_external"], "_os", own)
        for name in _SYSTEM_CALLS:
            original = getattr(os, name)
            wrapped = self._noting(original, f"os.{name}")
            for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
                able.update({wrapped} if original in able else ())
            for module in (os, system):
                self._replace(module, name, wrapped)
        for owner, name in ((SourceFileLoader, "path_stats"), (FileFinder, "find_spec"), (processes, "fork_exec")):
            self._replace(owner, name, self._noting(getattr(owner, name), name))
        for finders, name in ((PathFinder, "_path_importer_cache"), (pkgutil, "get_importer")):
            self._replace(finders, name, self._finding(getattr(finders, name)))
        for name in ("_path_cache", "_relaxed_path_cache"):
            setattr(FileFinder, name, _Listing(self, name))
            self._undo.callback(delattr, FileFinder, name)
        self._replace(linecache, "cache", _Lines(self, linecache.cache))
        self._replace(sys, "addaudithook", self._traceable(sys.addaudithook))
        handlers = sys.modules["_signal"]
        self._replace(handlers, "signal", self._noting(handlers.signal, "signal"))
        for starter in (threading.Thread, sys.modules["_thread"]):
            for name in [name for name in vars(starter) if name.startswith("start")]:
                self._replace(starter, name, self._noting(getattr(starter, name), "thread"))
        for name in _TRACERS:
            self._replace(sys, name, self._noting(getattr(sys, name), name))
        if self._functions:
            self._undo.enter_context(self._functions)
        self.go_on()

    def go_on(self) -> None:
        """Hear of everything from now on, in a process that was forked from a paused one too. Raises WorkerError as `start`."""
        self._is_on = False
        self._known.clear()
        self._natives = NativeOpenings(self._start + (f"{GIT}/HEAD" if path == GIT else path) for path in self._paths)
        self._is_on = True

    def pause(self) -> None:
        """Hear of no more than which functions begin; `touched` is complete. Raises WorkerError where too much happened."""
        self._is_on = False
        for file, count in self._natives.counts().items():
            if count > self._known[path := self._path_of(file)]:
                self._touch(Touch("read", path), OPENED_ELSEWHERE)
        if self._functions and (trouble := self._functions.trouble()):
            self._touch(Touch("functions", trouble))
        for folder in filter(None, map(self._path_of, sys.path)):
            self.touched |= {Touch("searched", folder, name): "a module of that name was there before" for name in self._loaded}
        codes = (function.__code__ for function in (uncompiled_kernels() if self._kernels else ()))
        for path, name in self._kernels - {(self._path_of_code(code), code.co_qualname) for code in codes}:
            self._touch(Touch("kernel", path, name))

    @contextlib.contextmanager
    def open_for_forks(self) -> Iterator[None]:
        """Hear, in a paused process, what runs at a fork of it: what `os.register_at_fork` was given, before and after."""
        self._is_on = self._forks_itself = True
        yield
        self._is_on = self._forks_itself = False

    def note_threads(self) -> None:
        """Note threads of the tree that keep running: what they do later, nobody hears."""
        was_busy, self._here.is_busy = self._here.is_busy, True  # a look at frames is an event
        others = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
        self._here.is_busy = was_busy
        for frame in others:
            place = next((self._place(each) for each in _back(frame) if self._path_of_code(each.f_code)), self._threads_of)
            if place:
                self._touch(Touch("anything", f"a thread of {place} keeps running after the import"))

    def stop(self) -> None:
        """Take everything out of the way of what runs from now on."""
        self._is_on = False
        self._undo.close()

    def _touch(self, touch: Touch, how: str = "", event: _Event | None = None) -> None:
        """Note that something was touched, and how: a clause, of which who caused the ``event`` is the subject."""
        if touch not in self.touched:
            self.touched[touch] = f"{self._place(event.asker)} {how}" if event else how

    def _replace(self, owner: Any, name: str, value: object) -> None:
        """Put a value in the place of another one, until `stop`; unless the author does the same meanwhile."""
        before = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.callback(lambda: setattr(owner, name, before) if getattr(owner, name) is value else None)

    def _noting(self, function: Callable[..., Any], event: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            self.hear(event, arguments, named)
            return function(*arguments, **named)

        del noting.__wrapped__
        return noting

    def _finding(self, find: Callable[[str], Any]) -> Callable[[str], Any]:
        """Return what makes finders for folders, and tells where it makes none: imports look there once a folder is there."""

        @functools.lru_cache  # each import asks again, of Python's own .zip too
        def path_of(place: str | os.PathLike[str]) -> str:
            return self._path_of(os.fsdecode(place))

        def finding(place: str) -> Any:
            finder = find(place)
            if finder is None and (path := path_of(place)) and Touch("asked", path) not in self.touched:
                self.hear("os.stat", (place,))
            return finder

        return finding

    def _traceable(self, add: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return `sys.addaudithook` that has tracers see what a hook calls: without ``__cantrace__`` none does (PEP 578)."""

        def adding(hook: Callable[[str, tuple[Any, ...]], Any]) -> None:
            def traceable(event: str, arguments: tuple[Any, ...]) -> None:
                hook(event, arguments)

            self.hear("addaudithook")
            traceable.__cantrace__ = True  # type: ignore[attr-defined]  # read by the interpreter
            was_busy, self._here.is_busy = self._here.is_busy, True  # its own event would say that nobody can trace the hook
            try:
                add(traceable)
            finally:
                self._here.is_busy = was_busy

        return adding

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import":
            is_heard = arguments[1] is not None  # a library, which C code opens; Python opens all else
        elif event == "object.__getattr__":
            is_heard = arguments[1] in _ATTRIBUTES
        else:
            is_heard = event not in _UNHEARD
        if is_heard:
            self.hear(event, arguments)

    def hear(self, event: str, arguments: tuple[Any, ...] = (), named: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Take note of an event that happens in the innermost frame outside this file."""
        if not self._is_on or self._here.is_busy:
            return
        self._here.is_busy = True
        try:
            noted = _Event(event, tuple(map(_plain, arguments)), {name: _plain(each) for name, each in named.items()})
            if not self._is_elsewhere(noted):  # most are: found before anybody looks at frames, of which each look is an event
                noted.caller = next((each for each in _back(sys._getframe(1)) if each.f_code.co_filename != __file__), None)
                self._heard(noted)
        except Exception as error:  # noqa: BLE001  raised here, it would become an error of the author's code
            self._touch(Touch("anything", f"the watch did not understand {event} ({type(error).__name__}: {error})"))
        finally:
            self._here.is_busy = False

    def _heard(self, event: _Event) -> None:  # noqa: PLR0912  one branch for each kind of event
        name, arguments = event.name, event.arguments
        is_of_import = event.name == "os.listdir" and event.steps  # byte code makes folders young
        if not is_of_import and self._is_left_outside(event) and not _is_of(event.asker, *_READERS):
            place = f"{self._place(event.asker)} used {arguments[_ONE_PLACE.get(name, 0)]}"
            self._touch(Touch("anything", f"{place}, which a build has written outside of its tree"))
        if name == "exec":
            self._executed(event, arguments[0])
        elif name == "open":
            if isinstance(arguments[0], str | bytes | os.PathLike):  # and not a descriptor, which was opened before
                self._opened(event, os.fsdecode(arguments[0]))
        elif name == "os.fork" and self._forks_itself:
            self._forks_itself = False
        elif name == "import" or _is_of(event.asker, *_READERS):
            pass
        elif name in _PROGRAMS:
            is_own = os.sep in str(program := next(iter(arguments), "")) and self._places(program)  # and no compiler of theirs
            if name in _FORKS or is_own or not self._is_outside(event, _COMPILERS):
                self._touch(Touch("anything", f"{self._place(event.asker)} started a process, which may notice anything"))
        elif name == "thread":
            calling = itertools.takewhile(lambda each: not _is_of(each, *_IMPORT), _back(event.caller))
            own = next((self._place(each) for each in calling if self._path_of_code(each.f_code)), "")
            self._threads_of = self._threads_of or ("" if self._is_outside(event, _COMPILERS) else own)
        elif name == "ctypes.dlsym":
            library = getattr(arguments[0], "_name", None)
            may_do_all = (
                library is None or PurePath(str(library)).name.startswith("libc.") or str(arguments[1])[:2] in ("Py", "_P")
            )
            if may_do_all and not _is_of(event.asker, "ratchet:") and not self._is_outside(event, _C_CALLERS):
                what = f"{self._place(event.asker)} called {arguments[1]} past Python, which may notice anything"
                self._touch(Touch("anything", what))
        elif name in _MEMORY:
            if event.asker and self._path_of_code(event.asker.f_code):
                self._touch(Touch("anything", f"{self._place(event.asker)} read memory, where it may notice anything"))
        elif name in _TRACERS:
            if event.asker and self._path_of_code(event.asker.f_code):
                self._touch(Touch("anything", f"{self._place(event.asker)} asked whether it is being watched (sys.{name})"))
        elif name in _UNTRACED or name in _SHOWING:
            self._shown(event)
        elif name == "object.__getattr__":
            self._read(event, *arguments[:2])
        elif name == "sys._getframe":
            self._framed(event, arguments[0])
        elif name in ("os.listdir", "os.scandir"):
            self._listed(event, arguments[0])
        elif name == "find_spec":
            if folder := self._path_of(arguments[0].path):
                touch = Touch("searched", folder, arguments[1].rpartition(".")[2])
                self._touch(touch, "looked for a module of that name", event)
        else:
            self._named(event, (*arguments, *event.named.values()))

    def _is_elsewhere(self, event: _Event) -> bool:
        """Return whether an event tells only of a file outside the tree, by a plain path, or of code of one."""
        if event.name == "exec":
            return not self._path_of_code(event.arguments[0])
        if event.name == "object.__getattr__" and event.arguments[1] in _CODES:
            code = getattr(*event.arguments[:2])
            return not (isinstance(code, CodeType) and self._path_of_code(code))
        if event.name not in _ONE_PLACE or event.named.keys() - {"follow_symlinks"}:  # which `pathlib` always gives
            return False
        place = event.arguments[_ONE_PLACE[event.name]]
        place = place.path if event.name == "find_spec" else place
        if not isinstance(place, str | bytes | os.PathLike):
            return False
        text = _source(os.fsdecode(place))
        is_plain = text.startswith(os.sep) and ".." not in text and "\0" not in text
        return is_plain and not self._path_of(text) and not self._is_left_outside(event)

    def _is_left_outside(self, event: _Event) -> bool:
        """Return whether an event is of a file outside the tree that is younger than the tree, and older than this watch.

        A build has written it, of whatever differs between the trees: a file, a link on the way there, or what is in a folder
        that is listed. Environments may be as young, and what the kernel makes up.
        """
        place = next(iter(event.arguments[_ONE_PLACE.get(event.name, 0) :]), None)
        if (made := self._made) is None or not isinstance(place, str | bytes | os.PathLike):
            return False
        elsewhere = (self._start, f"{sys.prefix}{os.sep}", f"{sys.base_prefix}{os.sep}", "/proc/", "/sys/")

        def is_young(file: str, *kinds: int) -> bool:
            try:
                found = _lstat(file)
            except (OSError, ValueError):
                return False
            is_made = stat.S_IFMT(found.st_mode) in kinds and made <= found.st_ctime < self._since
            return is_made and not file.startswith(elsewhere)

        if "\0" in (text := os.fsdecode(place)):
            return False
        real = self._real(text)
        folder = {stat.S_IFDIR} if event.name in ("os.listdir", "os.scandir") else set()
        way = () if real == text else (text, *map(str, PurePath(text).parents))
        return is_young(real, stat.S_IFREG, *folder) or any(is_young(each, stat.S_IFLNK) for each in way)

    def _shown(self, event: _Event) -> None:
        """Note a call after which somebody sees frames or code that no event tells of, or runs what nothing traces."""
        name, watched = event.name, self._functions
        if name == "sys.setprofile" and _is_of(event.caller, "python:threading") and watched and watched.thread_began():
            return
        is_own = event.asker is None or self._path_of_code(event.asker.f_code)
        if is_own and name in _SHOWING and (name != "signal" or any(map(callable, event.arguments[1:]))):
            self._touch(Touch("anything", f"{self._place(event.asker)} called {name}, which shows code with its lines"))
        elif watched and name in _UNTRACED | _OBJECTS:
            self._touch(Touch("functions", f"{self._place(event.asker)} called {name}"))

    def _began(self, code: CodeType) -> None:
        """Note that a function of the tree began to run."""
        was_busy, self._here.is_busy = self._here.is_busy, True
        path = self._path_of_code(code)
        self._here.is_busy = was_busy
        if path and code.co_flags & inspect.CO_OPTIMIZED:
            self._touch(Touch("ran", path, code.co_qualname))
        elif code.co_name == "__call__" and code.co_filename.endswith(_DYNAMO):
            self._touch(Touch("functions", "torch.compile may have read any of them"))

    def _executed(self, event: _Event, code: CodeType) -> None:
        """Note that a file was imported, or a text run as code."""
        path = self._path_of_code(code)
        is_import = event.steps[:2] == ("_call_with_frames_removed", "exec_module") and "import" in event.steps
        if not is_import or event.caller is None or event.caller.f_locals["args"][1]["__name__"] == "__main__":
            self._touch(Touch("read", path), "ran it", event)
            return
        self._written(event, path)
        self._touch(Touch("imported", path))
        if path in self._paths and path.endswith(".py"):
            self._known[path] += 1
            if code != compile(Path(code.co_filename).read_bytes(), code.co_filename, "exec", dont_inherit=True):
                self._touch(Touch("read", path), "what was imported is not what Python compiles of it")

    def _opened(self, event: _Event, file: str) -> None:
        places = self._places(file)
        if not file.endswith(".pyc"):
            self._known.update(set(places))
        if self._is_harmless(event):
            return
        for path in places:
            self._written(event, path)
            self._touch(Touch("read", path), "opened it", event)
        self._asked(event, file)
        self._listed(event, file)

    def _written(self, event: _Event, path: str) -> None:
        """Note a file that the run itself has written: an earlier worker did what this one need not do any more."""
        try:
            found = _lstat(file := f"{self._start}{path}")
        except OSError:  # a file that is made now has not kept anything
            return
        if found.st_ctime > self._since and not stat.S_ISDIR(found.st_mode) and not followed_source(Path(file)):
            what = f"{self._place(event.asker)} used {PurePath(path).name}, which the run itself has written"
            self._touch(Touch("anything", what))

    def _named(self, event: _Event, arguments: tuple[Any, ...]) -> None:
        """Note whatever event it may be that has a file's name among its arguments."""
        base = f"/proc/self/fd/{event.named['dir_fd']}" if event.named.get("dir_fd") is not None else ""
        named = [each for each in arguments if isinstance(each, str | bytes | os.PathLike)]
        if named and not any(self._names(event, each, base) for each in named):  # of files elsewhere: no look at frames
            return
        exists_only = event.name.startswith("os.") and _asks_existence(event)
        for each in named if not self._is_harmless(event) else ():
            self._asked(event, each, base)
            for path in self._places(each, base):
                if not event.steps:
                    self._written(event, path)
                below = [each for each in self._paths if each.startswith(f"{path}/")] if event.name == "os.rename" else ()
                for seen in (path, *below) if not exists_only else ():  # what a folder holds has other names from now on
                    self._touch(Touch("read", seen), f"asked for it ({event.name})", event)
        if event.name in ("os.stat", "os.lstat") and not exists_only:  # size and links of a folder tell what is in it
            self._listed(event, os.path.join(base, arguments[0]) if base else arguments[0])  # noqa: PTH118  as in `_places`

    def _asked(self, event: _Event, file: Any, base: str = "") -> None:
        """Note a name that was asked for, of a file that is there or of one that another tree may have."""
        for name in self._names(event, file, base):
            self._touch(Touch("asked", name), f"asked for it ({event.name})", event)

    def _names(self, event: _Event, file: Any, base: str) -> list[str]:
        """Return the names within the tree that a file's name may mean, of files that need not be there."""
        names = self._places(file, base)
        may_be_relative = not base and event.name.startswith(("open", "os."))
        if may_be_relative and not (text := os.fsdecode(file)).startswith(os.sep):
            names.append(f"*/{PurePath(text)}")
        return names

    def _listed(self, event: _Event, place: Any) -> None:
        """Note a look at a folder. Imports look there for names that are heard of, and metadata for folders that always count."""
        folder = self._path_of(f"/proc/self/fd/{place}" if isinstance(place, int) else os.fsdecode(place or "."))
        is_known = event.steps or _is_of(event.caller, "python:importlib/metadata") or self._is_outside(event, _COMPILERS)
        if folder and not is_known:
            shows_more = event.name == "os.scandir" and not _is_of(event.caller, "python:os", *_PATH_TELLERS)  # size, time
            self._touch(Touch("looked through" if shows_more else "listed", folder), "listed its folder", event)
            with contextlib.suppress(OSError):  # no folder, or none any more
                for entry in Path(self._start, folder).iterdir():
                    self._written(event, f"{folder}/{entry.name}")

    def _read(self, event: _Event, owner: Any, name: str) -> None:
        """Note that an attribute was read which is code or a frame."""
        if name in _FRAMES:
            self._framed(event, getattr(owner, name))
            return
        code, path = getattr(owner, name), self._path_of_code(getattr(owner, name))
        if self._is_outside(event, _KERNEL_MAKERS):
            if path in self._paths:
                self._kernels.add((path, code.co_qualname))
                if self._is_given_as_it_is_defined(event, code):
                    self._touch(Touch("taken", path, code.co_qualname))
        elif event.within in _PARAMETER_READERS:
            self._touch(Touch("inspected", path, code.co_qualname), "read its parameters", event)
        elif event.within not in _INSPECTORS:
            for function in _functions_of(code):
                self._touch(Touch("ran", path, function), "took its code", event)
            if not self._is_outside(event, _FRAME_TAKERS):
                self._touch(Touch("read", path), f"took the code of {code.co_qualname}, with its lines", event)

    def _is_given_as_it_is_defined(self, event: _Event, code: CodeType) -> bool:
        """Return whether the line that decorates a function has called Triton itself: so nobody else has had the function."""

        def passes_on(frame: FrameType) -> bool:
            return _is_of(frame, "python:", "triton/") and not frame.f_code.co_filename.startswith(self._start)

        giver = next(itertools.dropwhile(passes_on, _back(event.caller)), None)
        if giver is None or giver.f_code.co_name != "<module>":
            return False
        return (giver.f_code.co_filename, giver.f_lineno) == (code.co_filename, code.co_firstlineno)

    def _framed(self, event: _Event, frame: FrameType | None) -> None:
        """Note that a frame was taken. It shows the lines of all that called it: those of the nearest other caller count.

        An installed package that takes frames while it is imported does not mean whoever imports it.
        """
        if _is_of(event.caller, *_FRAME_TAKERS) or self._is_outside(event, _FRAME_TAKERS):
            return
        own = event.asker.f_code.co_filename if event.asker else ""
        is_installed = _PACKAGES in own and not own.startswith(self._start)
        shown = list(itertools.takewhile(lambda each: not (is_installed and _is_of(each, *_IMPORT)), _back(frame)))
        others = (each for each in shown if not _is_of(each, *_BETWEEN) and each.f_code.co_filename != own)
        for each in (*shown[:1], *itertools.islice(others, 1)):
            if path := self._path_of_code(each.f_code):
                self._touch(Touch("read", path), "took a frame of it", event)

    def _path_of_code(self, code: CodeType) -> str:
        """Return the path within the tree that code is of; no text for code from outside."""
        file = code.co_filename
        if file not in self._files:
            self._files[file] = "" if file.startswith("<") else self._path_of(file)  # "<string>" is the name of no file
        return self._files[file]

    def _path_of(self, file: str) -> str:
        """Return a path within the tree; no text for one that is outside."""
        real = f"{self._real(file)}{os.sep}"
        return (real[len(self._start) : -1] or ".") if real.startswith(self._start) else ""

    def _real(self, file: str) -> str:
        """Return what `os.path.realpath` does, which takes a system call for each folder above a file: half of a long import."""
        folder, _, name = file.rpartition(os.sep)
        try:
            if not folder.startswith(os.sep) or name in ("", ".", "..") or stat.S_ISLNK(_lstat(file).st_mode):
                return os.path.realpath(file)
        except FileNotFoundError:  # no link either
            pass
        except OSError:
            return os.path.realpath(file)
        try:
            found = _stat(folder)
        except FileNotFoundError:
            return os.path.join(self._real(folder), name)  # noqa: PTH118  as in `_places`
        except OSError:
            return os.path.realpath(file)
        device, number, real = self._folders.get(folder, (0, 0, ""))
        if (device, number) != (found.st_dev, found.st_ino):  # a name may lead to another folder by now
            real = self._real(folder)
            self._folders[folder] = found.st_dev, found.st_ino, real
        return os.path.join(real, name)  # noqa: PTH118  as in `_places`

    def _places(self, file: Any, base: str = "") -> list[str]:
        """Return the paths within the tree that a file's name may mean."""
        if not isinstance(file, str | bytes | os.PathLike) or len(text := os.fsdecode(file)) > _LONGEST_PATH or "\0" in text:
            return []
        text = _source(text)
        paths = [self._path_of(os.path.join(base, text))]  # noqa: PTH118  Path would take dots out
        if ".." in text:  # a folder that is left again has to be there
            paths += [self._path_of(str(each)) for each in PurePath(base, text).parents]
        if not (base or text.startswith(os.sep)):  # perhaps it is relative to a descriptor, of which an event says nothing
            paths += [path for path in self._paths if f"/{path}".endswith(f"/{PurePath(text)}")]
        return list(filter(None, paths))

    def _is_outside(self, event: _Event, places: tuple[str, ...]) -> bool:
        """Return whether the asker is one of these places in installed packages, and not in the tree."""
        return (
            _is_of(event.asker, *places)
            and event.asker is not None
            and not event.asker.f_code.co_filename.startswith(self._start)
        )

    def _is_harmless(self, event: _Event) -> bool:
        """Return whether a file is read to import it, by the harness, to make a kernel of it, or to print a line of it."""
        if "import" in event.steps or _is_of(event.asker, *_READERS) or self._is_outside(event, (*_KERNEL_MAKERS, *_PRINTERS)):
            return True
        standard = itertools.takewhile(lambda frame: _is_of(frame, "python:"), _back(event.caller))
        return any(frame.f_code.co_name == "_showwarnmsg_impl" and _is_of(frame, "python:warnings") for frame in standard)

    def _place(self, frame: FrameType | None) -> str:
        if frame is None:
            return "a thread of C code"
        file = frame.f_code.co_filename
        return f"{self._path_of(file) or PurePath(*PurePath(file).parts[-2:])}:{frame.f_lineno}"


class _Lines(dict[Any, Any]):
    """The lines that `linecache` keeps: whoever takes them there need not open the file."""

    def __init__(self, watch: Watch, lines: dict[Any, Any]) -> None:
        super().__init__(lines)
        self._watch = watch

    def __getitem__(self, name: Any) -> Any:
        self._watch.hear("linecache", (name,))
        return super().__getitem__(name)

    def get(self, name: Any, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  which would be this function


class _Listing:
    """An attribute of finders that holds the names in a folder."""

    def __init__(self, watch: Watch, name: str) -> None:
        self._watch = watch
        self._name = name

    def __get__(self, finder: Any, _: type) -> Any:
        self._watch.hear("os.listdir", (finder.path,))
        return vars(finder)[self._name]

    def __set__(self, finder: Any, names: Any) -> None:
        vars(finder)[self._name] = names


def _plain(value: Any) -> Any:
    """Return a text without an author's class, whose methods might say something else of it; anything else as it is."""
    return str.__str__(value) if issubclass(type(value), str) else value


@functools.lru_cache(4096)
def _source(file: str) -> str:
    """Return the source of a file of byte code, which shows what its source does; another file as it is."""
    if file.endswith(".pyc"):
        with contextlib.suppress(ValueError):
            return importlib.util.source_from_cache(file)
    return file


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or _STANDARD
    return file.startswith(_STANDARD) or _PACKAGES in file


def _functions_of(code: CodeType) -> Iterator[str]:
    """Yield the qualified names of a function and of all within it."""
    yield code.co_qualname
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _functions_of(inner)


def _back(frame: FrameType | None) -> Iterator[FrameType]:
    while frame:
        yield frame
        frame = frame.f_back


@functools.lru_cache(4096)
def _origin(file: str) -> str:
    """Return where code comes from: ``python:typing.py``, ``ratchet:errors.py``, ``torch/cuda/__init__.py``, or its file."""
    if file.startswith(HARNESS_FOLDER):
        return "ratchet:" + file.removeprefix(HARNESS_FOLDER)
    if file.startswith(("<frozen ", _STANDARD)) and _PACKAGES not in file:
        return "python:" + file.removeprefix("<frozen ").removeprefix(_STANDARD)
    return file.rpartition(_PACKAGES)[2]


def _is_of(frame: FrameType | None, *places: str) -> bool:
    return frame is not None and _origin(frame.f_code.co_filename).startswith(places)


def _asks_existence(event: _Event) -> bool:
    """Return whether it is asked of a path no more than whether it is there, and what it is."""
    if event.name == "os.access":
        return event.arguments[1:2] == (os.F_OK,)
    for frame in _back(event.caller):
        if not _is_of(frame, *_PATH_TELLERS) or frame.f_code.co_name in _EXISTENCE:
            return _is_of(frame, *_PATH_TELLERS)
    return False
