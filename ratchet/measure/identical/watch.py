"""Notice whether a process gets at anything that differs between its tree and the other one.

A host starts a `Watch` before it imports its tree; what it forks is watched too, until `Watch.stop`. Each kind of difference has
its own ways to be noticed (docs/decisions/0021-host-code.md). Whatever cannot be told from noticing counts as noticed.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.util
import linecache
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType, FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import ratchet
from ratchet.measure.identical.difference import GIT, Difference
from ratchet.measure.identical.runtime import FunctionWatch, NativeOpenings, audited, uncompiled_kernels

HARNESS_FOLDER = f"{Path(ratchet.__file__).parent}{os.sep}"
"""As frames name it."""
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"
_IMPORT = ("importlib._bootstrap>", "importlib._bootstrap_external>")
_READERS = tuple(
    f"{HARNESS_FOLDER}measure/child/{name}.py" for name in ("loader", "registry", "libraries", "reads", "host", "gpu_facts")
)
_READERS += (f"{HARNESS_FOLDER}records/", f"{HARNESS_FOLDER}error_lines.py", f"{HARNESS_FOLDER}subprocesses.py")
"""Code of the harness that looks at the tree itself, and calls no function of an author."""
_COMPILERS = ("torch/_inductor/", "torch/utils/cpp_extension.py", "torch/cuda/", "torch/__init__.py", "triton/", "cuda/")
"""Code that starts compilers, and looks for libraries in all of `sys.path`."""
_FRAME_TAKERS = (
    "_distutils_hack/__init__.py",
    "typing_extensions.py",
    "torch/_jit_internal.py", "torch/library.py", "torch/_library/", "torch/_utils_internal.py", "torch/_logging/")
"""Code that takes frames for the sake of names that it knows."""
_OF_KERNELS = ("triton/runtime/jit.py",)
"""Code that reads the source of each kernel when it is made; that tells nothing until it is compiled."""
_FORKS = frozenset({"os.fork", "os.forkpty", "_posixsubprocess.fork_exec", "cpython.PyInterpreterState_New"})
_PROGRAMS = _FORKS | {"os.exec", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen"}
_UNTRACED = frozenset({"sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback"})
"""They have something called that no tracer sees."""
_OBJECTS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames"})
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_UNHEARD = frozenset({"builtins.id", "import", "compile", "marshal.loads", "marshal.load", "marshal.dumps", "code.__new__"})
_SYSTEM_CALLS = ("stat", "lstat", "access", "readlink", "statvfs", "pathconf", "mkfifo", "mknod")
_OF_INSPECT = frozenset({"_signature_from_function", "_has_code_flag", "getfile"})
"""Functions that read of a code only what two bodies have in common: arguments, flags, file."""
_MESSAGES = ("collections/", "enum", "logging/", "typing", "warnings")
"""Python's own code that takes frames for the name of a module or for a message."""
_OF_PATHS = ("genericpath", "posixpath", "pathlib", "glob")
_EXISTENCE = frozenset({"exists", "isfile", "isdir", "lexists", "islink", "is_file", "is_dir", "is_symlink"})
_RESOLVING = frozenset({"realpath", "_joinrealpath"})
_DYNAMO = "/torch/_dynamo/convert_frame.py"
MOST_NOTICED = 50
_LONGEST_NAME = 4096


class _Here(threading.local):
    is_busy = False
    """This thread works for the watch."""


class Watch:
    """What this process has noticed of the difference between two trees, since `start`."""

    def __init__(self, difference: Difference, tree: Path) -> None:
        self._paths, self._python, self._one_sided = difference.paths, difference.python, difference.one_sided
        self._start = f"{tree}{os.sep}"
        self._has_code = any(change.bodies or change.names for change in self._python.values())
        self._noticed: dict[str, None] = {}
        self._known: Counter[str] = Counter()
        """Openings of files that were heard of."""
        self._kernels: set[tuple[str | None, str]] = set()
        """Functions, by path and qualified name, whose code Triton has taken."""
        self._modules: dict[int, tuple[ModuleType, str]] = {}
        """Namespaces that have more functions on one side: number of the namespace → module, path."""
        self._names: dict[str, frozenset[str]] = {}
        """File, as code objects name it → functions that are not to run."""
        self._is_on = False
        self._here = _Here()
        self._undo = contextlib.ExitStack()

    def start(self) -> None:
        """Watch from now on: this thread, and all that begin."""
        sys.addaudithook(self._audited)
        system, processes = sys.modules["posix"], sys.modules["_posixsubprocess"]
        imports_system = ModuleType("posix")
        vars(imports_system).update(vars(system))  # what imports ask does not pass through the wrappers
        self._replace(sys.modules["_frozen_importlib_external"], "_os", imports_system)
        for name in _SYSTEM_CALLS:
            original = getattr(os, name)
            wrapped = self._noting(original, f"os.{name}")
            for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
                able |= {wrapped} if original in able else set()
            for module in (os, system):
                self._replace(module, name, wrapped)
        self._replace(SourceFileLoader, "path_stats", self._noting(SourceFileLoader.path_stats, "path_stats"))
        self._replace(FileFinder, "find_spec", self._noting(FileFinder.find_spec, "find_spec"))
        self._replace(processes, "fork_exec", self._noting(processes.fork_exec, "_posixsubprocess.fork_exec"))
        self._replace(linecache, "cache", _Lines(self, linecache.cache))
        for name in ("_path_cache", "_relaxed_path_cache"):
            self._undo.callback(delattr, FileFinder, name)
            setattr(FileFinder, name, _Listing(self, name))
        if any(change.names for change in self._python.values()):
            for tell in (globals, locals, vars, dir):
                self._replace(builtins, tell.__name__, self._telling(tell))
            self._undo.enter_context(audited(FunctionType, "__globals__"))
            self._undo.enter_context(audited(ModuleType, "__dict__"))
        if self._has_code:
            self._functions = self._undo.enter_context(FunctionWatch(self._began))
        self.go_on()

    def go_on(self) -> None:
        """Hear of everything from now on, in a process that was forked from a paused one too."""
        self._known.clear()
        self._natives = NativeOpenings(self._start + (f"{GIT}/HEAD" if path == GIT else path) for path in self._paths)
        self._is_on = True

    def stop(self) -> None:
        """Take everything out of the way of what runs from now on."""
        self._is_on = False
        self._undo.close()
        for module, _ in self._modules.values():
            if isinstance(module, _WatchedModule):
                module.__class__ = ModuleType

    def pause(self) -> tuple[str, ...]:
        """Return what was noticed until now, as sentences without an end; hear of no more than which functions begin.

        Raises WorkerError where too much happened.
        """
        self._is_on = False
        for file, count in self._natives.counts().items():
            path = self._touched(file)
            if count > self._known[path]:
                self._note(f"{path} {self._paths[path]}, and something that is not Python opened it")
        if self._has_code and (trouble := self._functions.trouble()):
            self._note(f"functions changed, and {trouble}")
        codes = [function.__code__ for function in (uncompiled_kernels() if self._kernels else ())]
        idle = {(self._path_of(code.co_filename), code.co_qualname) for code in codes}
        for path, name in self._kernels - idle:
            self._note(f"{path}: the body of {name} changed, and Triton compiled it")
        for module, path in self._modules.values():
            if not isinstance(module, _WatchedModule):
                self._note(f"{path} changed, and its module got another class")
        return tuple(self._noticed)

    def _note(self, text: str) -> None:
        if len(self._noticed) < MOST_NOTICED:
            self._noticed[text] = None

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

        return noting

    def _telling(self, tell: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of Python's own that tells the names around its caller, with a note of that."""

        @functools.wraps(tell)
        def telling(*arguments: Any, **named: Any) -> Any:
            if arguments or named:
                return tell(*arguments, **named)
            self.hear("namespace")
            frame = sys._getframe(1)
            if tell.__name__ == "globals":
                return frame.f_globals
            names = frame.f_locals
            if type(names).__name__ == "FrameLocalsProxy":  # from Python 3.13 on, where callers expect a copy
                names = dict(names)
            return sorted(names) if tell.__name__ == "dir" else names

        return telling

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _UNHEARD:
            self.hear(event, arguments)

    def hear(self, event: str, arguments: tuple[Any, ...] = (), named: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Take note of an event that happens in the innermost frame outside this file."""
        if not self._is_on or self._here.is_busy:
            return
        self._here.is_busy = True
        try:
            frame: FrameType | None = sys._getframe(1)
            while frame and frame.f_code.co_filename == __file__:
                frame = frame.f_back
            self._heard(event, arguments, named, frame)
        except Exception as error:  # noqa: BLE001  raised here, it would become an error of the author's code
            self._note(f"the watch did not understand {event} ({type(error).__name__}: {error})")
        finally:
            self._here.is_busy = False

    def _heard(self, event: str, arguments: tuple[Any, ...], named: Mapping[str, Any], caller: FrameType | None) -> None:
        asker = _asker(caller)
        is_reader = asker is not None and asker.f_code.co_filename.startswith(_READERS)
        if event == "exec":
            self._executed(arguments[0], caller)
        elif event == "open":
            self._opened(arguments[0], caller, asker, is_reader=is_reader)
        elif is_reader:
            pass
        elif event in _PROGRAMS:
            if event in _FORKS or not self._is_of(asker, _COMPILERS):
                self._note(f"{self._place(asker)} started a process, which may notice anything")
        elif event == "sys.setprofile" and _is_of_python(caller, "threading") and self._has_code:
            if not self._functions.thread_began():
                self._note("functions changed, and threads are profiled, which no tracer sees")
        elif event in _UNTRACED or event in _OBJECTS:
            if self._has_code:
                self._note(f"functions changed, and {self._place(asker)} called {event}")
        elif event == "ctypes.dlsym":
            if _leads_past_python(*arguments) and not self._is_of(asker, _COMPILERS):
                self._note(f"{self._place(asker)} called {arguments[1]} past Python, which may notice anything")
        elif event == "object.__getattr__":
            self._read(arguments[0], arguments[1], caller, asker)
        elif event == "sys._getframe":
            if not _is_of_python(caller, *_MESSAGES):
                self._framed(arguments[0], asker)
        elif event == "namespace":
            self._looked_through(caller.f_globals if caller else {}, asker)
        elif event == "module":
            self._module_read(arguments[0], arguments[1], asker)
        elif event in ("os.listdir", "os.scandir"):
            if not self._is_of(asker, _COMPILERS):
                self._listed(event, arguments[0], caller, asker)
        elif event == "find_spec":
            self._found(arguments[0].path, arguments[1], asker)
        else:
            self._named(event, arguments, named, caller, asker)

    # Kinds of events. ``caller``: the innermost frame; ``asker``: the innermost one that is not of Python's own library.

    def _began(self, code: CodeType) -> None:
        """Note that a function began to run, unless it is the same on both sides."""
        file, name = code.co_filename, code.co_qualname
        if file not in self._names:
            busy, self._here.is_busy = self._here.is_busy, True
            change = self._python.get(self._path_of(file))
            self._names[file] = change.bodies | change.names if change else frozenset()
            self._here.is_busy = busy
        if name in self._names[file]:
            self._note(f"{self._path_of(file)}: the body of {name} changed, and it ran")
        elif code.co_name == "__call__" and file.endswith(_DYNAMO):
            self._note("functions changed, and torch.compile may have read any of them")

    def _executed(self, code: CodeType, caller: FrameType | None) -> None:
        """Note that a file was imported, or a text run as code."""
        loaded = caller.f_back if caller and caller.f_code.co_name == "_call_with_frames_removed" else None
        by_import = _is_import(loaded, "exec_module")
        if not by_import and caller:  # it may use any name of its caller's
            self._looked_through(caller.f_globals, _asker(caller))
        path = self._path_of(code.co_filename)
        if (what := self._paths.get(path)) is None:
            return
        change = self._python.get(path)
        if not by_import or loaded is None:
            self._note(f"{path} {what}, and {self._place(_asker(caller))} ran it")
        elif path in self._one_sided:
            self._note(f"{path} {what}, and was imported")
        elif change and change.top:
            self._note(f"{path}: {change.top}, and it was imported")
        elif change:
            self._known[path] += 1
            if code != compile(Path(code.co_filename).read_bytes(), code.co_filename, "exec", dont_inherit=True):
                self._note(f"{path} changed, and what was imported is not what Python compiles of it")
            if change.names:
                module = loaded.f_locals["module"]
                self._modules[id(vars(module))] = module, path
                module.__class__ = type("module", (_WatchedModule,), {"_watch": self})

    def _opened(self, file: Any, caller: FrameType | None, asker: FrameType | None, *, is_reader: bool) -> None:
        if path := self._touched(file):
            self._known[path] += 1
            back = caller.f_back if caller and caller.f_code.co_name == "get_data" else None
            by_import = back is not None and back.f_code.co_name == "get_code" and _is_import(back.f_back, "exec_module")
            if not (is_reader or by_import or self._is_harmless(caller, asker)):
                self._note(f"{path} {self._paths[path]}, and {self._place(asker)} opened it")

    def _named(
        self, event: str, arguments: tuple[Any, ...], named: Mapping[str, Any], caller: FrameType | None, asker: FrameType | None
    ) -> None:
        """Note whatever event it may be that has a file's name among its arguments."""
        within = caller.f_code.co_name if caller and _is_of_python(caller, *_IMPORT) else ""
        if within == "_write_atomic" or (within == "get_code" and caller and _is_import(caller.f_back, "exec_module")):
            return
        exists_only = (event == "os.access" and arguments[1:2] == (os.F_OK,)) or (
            event.startswith("os.") and _asks_existence(caller)
        )
        base = f"/proc/self/fd/{named['dir_fd']}" if named.get("dir_fd") is not None else ""
        for each in (*arguments, *named.values()):
            if isinstance(each, str | bytes | os.PathLike) and (path := self._touched(each, base, exists_only=exists_only)):
                if not self._is_harmless(caller, asker):
                    self._note(f"{path} {self._paths[path]}, and {self._place(asker)} asked for it ({event})")

    def _listed(self, event: str, place: Any, caller: FrameType | None, asker: FrameType | None) -> None:
        """Note a look at a folder. Imports (`_found`) and metadata look there for names that are known otherwise."""
        if _is_of_python(caller, "importlib/metadata") or _is_of_python(caller, *_IMPORT):
            return
        folder = self._path_of(f"/proc/self/fd/{place}" if isinstance(place, int) else os.fsdecode(place or "."))
        shows_more = event == "os.scandir" and not _is_standard(caller)  # size and time of each entry
        listed = [path for path in self._paths if str(PurePath(path).parent) == (folder or ".") and path != GIT]
        listed = [path for path in listed if shows_more or path in self._one_sided]
        if folder is not None and (path := self._touched(self._start + folder) or next(iter(listed), "")):
            self._note(f"{path} {self._paths[path]}, and {self._place(asker)} listed its folder")

    def _found(self, folder: str, name: str, asker: FrameType | None) -> None:
        """Note that an import, or something like it, looked for a module in a folder."""
        base = os.path.join(folder, name.rpartition(".")[2])  # noqa: PTH118  this is done for each folder of `sys.path`
        for end in ("", ".py", "/__init__.py"):
            if path := self._touched(base + end, exists_only=True):
                self._note(f"{path} {self._paths[path]}, and {self._place(asker)} looked for a module of that name")

    def _read(self, owner: Any, name: str, caller: FrameType | None, asker: FrameType | None) -> None:
        """Note that an attribute was read from which code, a frame or a namespace can be had."""
        within = caller.f_code.co_name if caller and _is_of_python(caller, "inspect") else ""
        if name in ("__code__", "gi_code", "cr_code", "ag_code"):
            code = getattr(owner, name)
            path, function = self._path_of(code.co_filename), code.co_qualname
            change = self._python.get(path)
            watched = change.bodies | change.names if change else ()
            inner = any(each == function or each.startswith(f"{function}.<locals>.") for each in watched)
            if not inner or within in _OF_INSPECT:
                return
            if self._is_of(asker, _OF_KERNELS):
                self._kernels.add((path, function))
            else:
                self._note(f"{path}: the body of {function} changed, and {self._place(asker)} took its code")
        elif name in _FRAMES:
            self._framed(getattr(owner, name), asker)
        elif name == "__dict__":
            known = within == "findsource" or _is_of_python(caller, *_IMPORT, "dataclasses", "typing")
            if isinstance(owner, ModuleType) and not known:
                self._looked_through(vars(owner), asker)
        elif name == "__globals__" and not (
            within in _OF_INSPECT or _is_of_python(caller, "typing") or self._is_of(asker, _OF_KERNELS)
        ):
            self._looked_through(owner.__globals__, asker)

    def _framed(self, frame: FrameType | None, asker: FrameType | None) -> None:
        """Note that a frame was taken: it shows lines and names of all that called it."""
        while frame and not self._is_of(asker, _FRAME_TAKERS):
            if (path := self._path_of(frame.f_code.co_filename)) in self._python:
                self._note(f"{path} changed, and {self._place(asker)} took a frame of it")
            self._looked_through(frame.f_globals, asker)
            frame = frame.f_back

    def _module_read(self, module: ModuleType, name: str, asker: FrameType | None) -> None:
        """Note that an attribute of a module was read, if it tells of functions that one side alone has."""
        _, path = self._modules[id(vars(module))]
        if name in self._python[path].names:
            self._note(f"{path}: {name} is on one side only, and {self._place(asker)} asked for it")

    def _looked_through(self, namespace: dict[str, Any], asker: FrameType | None) -> None:
        if id(namespace) in self._modules:
            _, path = self._modules[id(namespace)]
            names = ", ".join(sorted(self._python[path].names))
            self._note(f"{path}: {names} on one side only, and {self._place(asker)} may have looked through its names")

    # Paths and frames.

    def _path_of(self, file: str) -> str | None:
        """Return a path within the tree; None for one that is outside. The tree itself is an empty path."""
        real = f"{os.path.realpath(file)}{os.sep}"
        return real[len(self._start) : -1] if real.startswith(self._start) else None

    def _touched(self, file: Any, base: str = "", *, exists_only: bool = False) -> str:
        """Return the difference that a file's name leads to; no text if there is none."""
        if not isinstance(file, str | bytes | os.PathLike) or len(text := os.fsdecode(file)) > _LONGEST_NAME or "\0" in text:
            return ""
        if text.endswith(".pyc"):
            with contextlib.suppress(ValueError):
                text = importlib.util.source_from_cache(text)
        paths = [self._path_of(os.path.join(base, text))]  # noqa: PTH118  Path would take dots out
        if ".." in text:  # a folder that is left again has to be there
            paths += [self._path_of(str(each)) for each in PurePath(base, text).parents]
        if not base and not os.path.isabs(text):  # noqa: PTH117  perhaps it is relative to a descriptor, of which the event says nothing
            paths += [path for path in self._paths if f"/{path}".endswith(f"/{text}")]
        for path in filter(None, paths):
            if path in self._paths and (path in self._one_sided or not exists_only):
                return path
            above = (str(each) for each in PurePath(path).parents)
            if found := next((each for each in above if each in self._one_sided or (each == GIT and GIT in self._paths)), ""):
                return found
        return ""

    def _is_harmless(self, caller: FrameType | None, asker: FrameType | None) -> bool:
        """Return whether source is read for a message, or to make a kernel of it (see `findings`)."""
        if self._is_of(asker, (*_OF_KERNELS, "torch/cuda/__init__.py")):
            return True
        return any(frame.f_code.co_name == "_showwarnmsg_impl" for frame in _back(caller) if _is_of_python(frame, "warnings"))

    def _is_of(self, frame: FrameType | None, places: tuple[str, ...]) -> bool:
        """Return whether a frame belongs to these files or folders of installed packages."""
        file = frame.f_code.co_filename if frame else ""
        for place in places if not file.startswith(self._start) else ():
            name, below, _ = place.partition("/")
            package = sys.modules.get(name.removesuffix(".py"))
            folders = getattr(package, "__path__", ()) if below else [getattr(package, "__file__", None) or ""]
            if any(file.startswith(f"{folder.rpartition('/')[0]}/{place}") for folder in folders):
                return True
        return False

    def _place(self, frame: FrameType | None) -> str:
        if frame is None:
            return "a thread of C code"
        file = frame.f_code.co_filename
        return f"{self._path_of(file) or os.sep.join(PurePath(file).parts[-2:])}:{frame.f_lineno}"


class _WatchedModule(ModuleType):
    """A module of which the watch wants to know who reads it."""

    _watch: Watch

    def __getattribute__(self, name: str) -> Any:
        type(self)._watch.hear("module", (self, name))
        return super().__getattribute__(name)


class _Lines(dict[Any, Any]):
    """The lines that `linecache` keeps: whoever takes them there need not open the file."""

    def __init__(self, watch: Watch, lines: dict[Any, Any]) -> None:
        super().__init__(lines)
        self._watch = watch

    def __getitem__(self, name: Any) -> Any:
        self._watch.hear("linecache", (name,))
        return super().__getitem__(name)

    def get(self, name: Any, default: Any = None) -> Any:
        self._watch.hear("linecache", (name,))
        return super().get(name, default)


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


def _back(frame: FrameType | None) -> Iterator[FrameType]:
    while frame:
        yield frame
        frame = frame.f_back


def _is_standard(frame: FrameType | None) -> bool:
    file = frame.f_code.co_filename if frame else ""
    return file.startswith((_STANDARD, "<frozen ")) and "-packages/" not in file


def _is_of_python(frame: FrameType | None, *places: str) -> bool:
    """Return whether a frame belongs to these modules of Python's own library."""
    return (
        _is_standard(frame)
        and frame is not None
        and frame.f_code.co_filename.removeprefix(_STANDARD).removeprefix("<frozen ").startswith(places)
    )


def _asker(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that is not of Python's own library; None in a thread of its own."""
    return next((each for each in _back(frame) if not _is_standard(each)), None)


def _is_import(frame: FrameType | None, function: str) -> bool:
    """Return whether a frame is where Python's own loader does this for a module."""
    is_there = frame is not None and _is_of_python(frame, *_IMPORT) and frame.f_code.co_name == function
    return is_there and frame is not None and type(frame.f_locals["self"]) is SourceFileLoader


def _asks_existence(frame: FrameType | None) -> bool:
    """Return whether the innermost frames want to know of a path no more than whether it is there, and what it is."""
    for each in _back(frame):
        if not _is_of_python(each, *_OF_PATHS):
            return False
        if each.f_code.co_name in _EXISTENCE | _RESOLVING:
            return True
    return False


def _leads_past_python(library: Any, name: object) -> bool:
    """Return whether ctypes looked up a function of Python or of the system."""
    file = getattr(library, "_name", None)
    return str(name).startswith(("Py", "_Py")) or file is None or PurePath(str(file)).name.startswith("libc.")
