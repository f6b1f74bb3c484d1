"""Find what a process takes from the user's checkout, or from an installed copy of it, in place of its own tree.

An editable install, or a copy in site-packages, makes Python load a package from somewhere else without a word; both sides would
then time the same code. Only the harness itself is meant to come from the environment. `Provenance` of a `LoadedTree` tells.

Modules and mapped libraries can be looked up at any time; that Python opened a file by its path or started a program can only be
noted when it happens (PEP 578). What C code opens by itself is not seen.
"""

from __future__ import annotations

import configparser
import contextlib
import filecmp
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import tomllib
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import ratchet

HARNESS_FOLDER = f"{Path(ratchet.__file__).resolve().parent}{os.sep}"
MOST_NOTED = 100_000
"""Names of files that are kept at once; a benchmark may write any number of them."""
BUILT = (".so", ".cubin", ".fatbin", ".hsaco", ".ptx")
"""Endings of files that a compiler made: one that lies in the checkout alone is one for both sides."""
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cxx", ".f90", ".hip", ".pyx", ".rs")
_DIGEST = re.compile(
    r"(?<![0-9a-f])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9a-z])|(?=(?:[A-Za-z]*\d){2})[A-Za-z0-9]{20,}"
)
"""Eight hexadecimal digits, or twenty letters and digits (base 32), in the path of a cache that goes by content."""
_PROGRAMS = ("subprocess.Popen", "os.exec", "os.posix_spawn")
_CACHES = ("XDG_CACHE_HOME", "RATCHET_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR")
"""Variables with the folders of compilers that find what they made by its content, and so never for another source."""
_SETUP_NAME = re.compile(r"""\bname\s*=\s*["']([\w.-]+)["']""")


class Provenance:
    """A check of each loaded module, done once. A worker inherits the checks of its host, and checks only its own modules."""

    def __init__(self, tree: Path, checkout: Path, names: frozenset[str], installed: frozenset[str] = frozenset()) -> None:
        self.tree = tree
        self._checkout = checkout
        self.names = names
        """Top-level names that the tree offers for import."""
        self._installed = installed
        self._checked: set[str] = set()
        self._watch = ReadWatch()
        self.built: set[str] = set()
        self.fresh: set[str] = set()
        """What `foreign` has found so far of `shared_files`."""
        if tree != checkout:
            self._watch.start()

    def foreign(self) -> list[str]:
        """Return what this process took from elsewhere since the last call: ``loaded acme (path) instead of its own copy``."""
        # Names first: a worker that looked at the modules themselves would copy the memory that they share with its host.
        fresh = set(sys.modules) - self._checked
        self._checked |= fresh
        modules = {name: sys.modules.get(name) for name in fresh}
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        real_path = path_resolver()
        loaded = foreign_modules(self.tree, self._checkout, self.names, modules, real_path, self._installed)
        loaded = loaded or foreign_libraries(self.tree, self._checkout, maps, self._installed)
        files = [file for module in modules.values() if isinstance(file := getattr(module, "__file__", None), str)]
        built, fresh = shared_files(self.tree, {*self._watch.opened, *files}, maps, real_path)
        self.built |= built
        self.fresh |= fresh
        mapped = mapped_files(maps, f"{self._checkout}{os.sep}")
        self._watch.opened.update(path for _, path in mapped)  # by C code perhaps, as safetensors
        taken = taken_from_checkout(self.tree, self._checkout, self._watch, real_path)
        missing = missing_builds(self.tree, self._checkout, self._watch, real_path)
        return [f"loaded {each} instead of its own copy" for each in loaded] + taken + missing


def foreign_modules(
    tree: Path,
    checkout: Path,
    names: frozenset[str],
    modules: Mapping[str, ModuleType | None],
    real_path: Callable[[str], str],
    installed: frozenset[str] = frozenset(),
) -> list[str]:
    """Return ``name (file)`` of each loaded module that belongs to the repository but lies outside ``tree``.

    A module belongs to the repository if its top-level name is among ``names``, if its file was ``installed`` from it, or if
    it lies in the user's own ``checkout`` (installed packages of a virtual environment inside it, and what `shared_folders`
    hold, excepted).
    """
    found, shared = [], tuple(f"{folder}{os.sep}" for folder in shared_folders(checkout))
    ours = (f"{tree}{os.sep}", HARNESS_FOLDER)
    for name, module in sorted(modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = real_path(file)
        if path.startswith(ours):
            continue
        in_checkout = path.startswith(f"{checkout}{os.sep}") and not path.startswith(shared)
        if in_checkout and is_installed(inside := Path(path).relative_to(checkout)):
            in_checkout = (tree / inside).is_file()  # a file of a ``site-packages`` is the repository's if the tree has it too
        if name.partition(".")[0] in names or in_checkout or path in installed:
            found.append(f"{name} ({path})")
    return found


def foreign_libraries(tree: Path, checkout: Path, maps: str, installed: frozenset[str] = frozenset()) -> list[str]:
    """Return ``name (file)`` of each library that was loaded from the user's ``checkout``, or ``installed`` from it: proc(5).

    Both sides would run that one. Environments and caches may lie in a checkout: a folder with ``pyvenv.cfg`` or ``conda-meta``,
    all below a name that begins with a dot, and `shared_folders`.
    """
    if tree == checkout:
        return []
    mapped = {Path(path) for rights, path in mapped_files(maps, f"{checkout}{os.sep}") if "x" in rights}
    ours = {path.relative_to(checkout) for path in mapped if not path.is_relative_to(tree)}
    found = [checkout / path for path in ours if not is_kept_apart(path, checkout) or (tree / path).is_file()]
    found += [Path(path) for path in installed if f" {path}\n" in maps]
    return [f"{path.name} ({path})" for path in sorted(found)]


class ReadWatch:
    """The files that code of this process names, from `start` on. An audit hook stays for ever, so it does no more than note."""

    def __init__(self) -> None:
        self.opened: set[str] = set()
        self.loaded: set[str] = set()
        """Libraries, for ctypes, which may not be there."""
        self.programs: set[str] = set()
        self.missed: set[tuple[str, tuple[str, ...]]] = set()
        """Modules that were not found, and where they were looked for."""

    def start(self) -> None:
        sys.addaudithook(self._note)
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, *_: object) -> None:
        """Note a module that no other finder has found."""
        self.missed.add((name, tuple(sys.path if path is None else path)))

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "sqlite3.connect"):
            self._add(self.opened, arguments[0])
        elif event == "ctypes.dlopen":
            self._add(self.loaded, arguments[0])
        elif event in _PROGRAMS:
            self._add(self.programs, arguments[0])
            words = arguments[1]
            for word in words if isinstance(words, list | tuple) else ():
                self._add(self.opened, word)

    def _add(self, names: set[str], name: object) -> None:
        if isinstance(name, str | bytes | os.PathLike) and len(names) < MOST_NOTED and "\0" not in (text := os.fsdecode(name)):
            names.add(text)


def taken_from_checkout(tree: Path, checkout: Path, watch: ReadWatch, real_path: Callable[[str], str]) -> list[str]:
    """Return the files that this process took from the checkout since the last call: ``reads a.json (path) instead …``.

    A file counts if the tree has another one at its place. What a compiler made counts also where the tree has none. The harness
    is that of the checkout, where somebody checks this repository itself, and reads its own sources (a traceback does).
    """
    found = []
    for names, verb in ((watch.opened, "reads"), (watch.programs, "runs")):
        found_by_path = verb == "runs"
        for path in sorted({real_path(shutil.which(name) or name if found_by_path else name) for name in names}):
            if not path.startswith(f"{checkout}{os.sep}") or path.startswith((f"{tree}{os.sep}", HARNESS_FOLDER)):
                continue
            if not _is_written(path, 0):
                continue
            inside = Path(path).relative_to(checkout)
            if _replaces(inside, tree, checkout, is_built=found_by_path or path.endswith(BUILT)):
                found.append(f"{verb} {inside.name} ({path}) instead of its own copy")
        names.clear()
    return found


def _replaces(inside: Path, tree: Path, checkout: Path, *, is_built: bool) -> bool:
    """Return whether a file of the checkout is another than the tree's own: an equal one does no harm."""
    if (tree / inside).is_file():
        with contextlib.suppress(OSError):  # gone by now
            return ".git" not in inside.parts and not filecmp.cmp(tree / inside, checkout / inside, shallow=False)
    return is_built and not is_kept_apart(inside, checkout)


def missing_builds(tree: Path, checkout: Path, watch: ReadWatch, real_path: Callable[[str], str]) -> list[str]:
    """Return the compiled files that this process looked for in the tree, and that lie in the checkout alone: ``finds no …``."""
    looked = {Path(real_path(name)) for name in watch.loaded if os.sep in name or name.endswith(".so")}
    for name, places in watch.missed:
        if name not in sys.modules:
            looked |= {Path(place, f"{name.rpartition('.')[2]}{end}") for place in places for end in EXTENSION_SUFFIXES}
    watch.loaded.clear()
    watch.missed.clear()
    inside = sorted(path.relative_to(tree) for path in looked if path.is_relative_to(tree) and not path.exists())
    return [
        f"finds no {path}, which lies in your checkout and not in git ({checkout / path})"
        for path in inside
        if (checkout / path).is_file()
    ]


def is_kept_apart(inside: Path, checkout: Path) -> bool:
    """Return whether a path within the checkout belongs to an environment or a cache there."""
    if any(part.startswith(".") for part in inside.parts) or is_installed(inside):
        return True
    if any((checkout / inside).is_relative_to(folder) for folder in shared_folders(checkout)):
        return True
    folders = [checkout / folder for folder in inside.parents]
    return any((folder / "pyvenv.cfg").exists() or (folder / "conda-meta").exists() for folder in folders)


def shared_folders(checkout: Path) -> list[Path]:
    """Return the folders within a checkout that both sides may share: Python's own, the temporary one, and `_CACHES`."""
    named = [sys.prefix, sys.base_prefix, tempfile.gettempdir(), *(os.environ.get(name, "") for name in _CACHES)]
    folders = {Path(folder).resolve() for folder in named if Path(folder).is_absolute()}
    return [folder for folder in folders if checkout in folder.parents]


def is_installed(path: Path | str) -> bool:
    text = f"/{path}/"
    return "/site-packages/" in text or "/dist-packages/" in text


def installed_copies(tree: Path, checkout: Path, roots: Iterable[Path]) -> frozenset[str]:
    """Return the files that were installed from this repository: from a folder of it, or under the name of its project.

    A module at the top of a wheel (``acme_cuda.so``) has no name of the tree, and both sides would import that one.
    """
    own = (f"{checkout}{os.sep}", f"{tree.parent}{os.sep}")
    names = {_normal(name) for root in roots for name in _project_names(root)}
    found: set[str] = set()
    real = path_resolver()
    for package in importlib.metadata.distributions():
        place = Path(str(package.locate_file("")))
        about = {}
        with contextlib.suppress(ValueError):  # a broken file of another package is not ours to report
            about = json.loads(package.read_text("direct_url.json") or "{}")
        source = urllib.parse.unquote(urllib.parse.urlsplit(about.get("url", "")).path)
        if not (about.get("url", "").startswith("file:") and f"{source}{os.sep}".startswith(own)):
            folder = Path(str(getattr(package, "_path", ""))).name  # its file of metadata takes long to read: hundreds of them
            if _normal(folder.partition("-")[0]) not in names:
                continue
        if not is_installed(place):  # an editable install of setuptools, whose metadata lie in the checkout
            continue
        is_editable = bool(about.get("dir_info", {}).get("editable"))
        files = (str(each) for each in package.files or ())
        found |= {real(str(place / each)) for each in files if each.endswith(".so" if is_editable else (".so", ".py"))}
    return frozenset(found)


def _project_names(root: Path) -> Iterable[str]:
    """Yield the names under which the project in a folder is installed."""
    with contextlib.suppress(OSError, ValueError):
        about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        yield from filter(None, [about.get("project", {}).get("name"), about.get("tool", {}).get("poetry", {}).get("name")])
    with contextlib.suppress(OSError, ValueError, configparser.Error):
        settings = configparser.ConfigParser()
        settings.read_string((root / "setup.cfg").read_text(encoding="utf-8"))
        yield from filter(None, [settings.get("metadata", "name", fallback=None)])
    with contextlib.suppress(OSError, ValueError):
        yield from _SETUP_NAME.findall((root / "setup.py").read_text(encoding="utf-8"))[:1]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def path_resolver() -> Callable[[str], str]:
    """Return a function from a file's name to its real path; for a compiled Python file, to that of its source.

    It remembers what it found, so it is meant for one look at the files of a process.
    """
    real_folder = functools.cache(os.path.realpath)  # thousands of files lie in a few hundred folders

    @functools.cache
    def real_path(name: str) -> str:
        folder, file_name = os.path.split(name)
        path = os.path.join(real_folder(folder), file_name)  # noqa: PTH118  a Path for each takes longer than all the rest
        if os.path.islink(path):  # noqa: PTH114  as above
            path = os.path.realpath(path)
        if path.endswith(".pyc"):
            with contextlib.suppress(ValueError):
                return importlib.util.source_from_cache(path)
        return path

    return real_path


def shared_files(tree: Path, names: Iterable[str], maps: str, real_path: Callable[[str], str]) -> tuple[set[str], set[str]]:
    """Return the files outside the trees that another process may have made: trouble where both sides have the same one.

    First the mapped libraries (proc(5)) of whose name the tree has a source; then others that were written since git checked the
    tree out, of those mapped, or opened or imported as ``names``: a cache that goes by names. A part of the path that is a digest
    of its content says that the file belongs to that content.
    """
    if (since := checked_out_at(tree)) is None:
        return set(), set()
    mapped = {path for rights, path in mapped_files(maps) if "x" in rights and _may_be_shared(path, tree)}
    others = {path for path in map(real_path, names) if _may_be_shared(path, tree)}
    sources = _source_names(tree) if mapped else frozenset()
    built = {path for path in mapped if Path(path).name.partition(".")[0].removeprefix("lib") in sources}
    fresh = {path for path in mapped | others if _is_written(path, since)}
    return built, fresh - built


def checked_out_at(tree: Path) -> float | None:
    """Return when git has checked a tree out for this run; None where it has not."""
    made = tree / ".git/objects/info/alternates"
    return made.stat().st_mtime if made.exists() else None


def mapped_files(maps: str, start: str = os.sep) -> Iterator[tuple[str, str]]:
    """Yield the rights and the path of each mapping of a file whose path begins so: proc(5)."""
    for line in maps.splitlines():
        # As text first: each worker asks for each case, and the lines are thousands.
        if f" {start}" in line and len(fields := line.split(None, 5)) == 6:
            yield fields[1], fields[5]


def _is_written(path: str, since: float) -> bool:
    with contextlib.suppress(OSError):  # it may be gone by now, or a text that is no file's name
        status = os.stat(path)  # noqa: PTH116  as above
        return stat.S_ISREG(status.st_mode) and status.st_ctime >= since
    return False


@functools.cache
def _source_names(tree: Path) -> frozenset[str]:
    return frozenset(path.stem for path in tree.rglob("*") if path.suffix in _SOURCES)


def _may_be_shared(path: str, tree: Path) -> bool:
    apart = ("/dev/", "/lib/", "/lib64/", "/opt/", "/proc/", "/sys/", "/usr/", f"{tree.parent}{os.sep}", f"{sys.prefix}{os.sep}")
    if path.startswith((*apart, f"{sys.base_prefix}{os.sep}")) or path.endswith(".lock") or _DIGEST.search(path):
        return False
    return not is_installed(path) and not path.startswith(HARNESS_FOLDER)
