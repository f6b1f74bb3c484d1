"""Keep what a build wrote, and restore it in a later tree of the same content.

`ratchet.core.bench.build` calls it. Only paths that `build_outputs` declares are kept and restored, each with a digest, never
over a file of the tree: an entry that somebody tampered with replaces no benchmark. The digest lies beside the files, so it
shows damage, not intent: whoever may write to the folder may write both (SECURITY.md). Reads and writes
``$RATCHET_BUILDS_DIR``, else ``builds`` in the cache folder.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from ratchet.core.cache import cache_root
from ratchet.core.errors import OutputError, RecordError
from ratchet.core.processes import run
from ratchet.core.records import SCHEMA_VERSION, Count, Record
from ratchet.core.records.files import load, save

KEPT_BUILDS = 20
"""Entries; those not used for the longest time are deleted."""
COMPILERS = {"CUDACXX": "nvcc", "CXX": "c++", "CC": "cc"}
"""Variable that names a compiler → the program without it."""
VARIABLES = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "CUDAFLAGS", "LDFLAGS", "CUDA_HOME", "CUDAARCHS", "CUDAHOSTCXX", "NVCC_CCBIN",
             "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "TORCH_CUDA_ARCH_LIST", "CMAKE_ARGS", "CMAKE_BUILD_TYPE", "CPATH",
             "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")  # fmt: skip
"""Others that change what a build writes."""
_BUILD_FILES = ("*.cmake", "*.mk", "*.py", "*.sh", "CMakeLists.txt", "Makefile", "meson.build", "pyproject.toml")
"""Files that may ask for variables of the project's own."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_LIST = "kept.json"
_CHUNK = 2**20

TreeState = dict[str, tuple[int, int]]
"""Path within the tree → (size, modification time in ns)."""


class KeptFile(Record):
    """One file that a build wrote."""

    size: Count
    """Bytes."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    is_executable: bool


class KeptBuild(Record):
    """The list of one entry of the build cache; the files lie beside it."""

    schema_version: int = SCHEMA_VERSION
    files: dict[str, KeptFile]
    """Path within the tree → what it held."""


class _DamagedError(Exception):
    """An entry is not what was kept, or does not fit the tree."""


def kept_folder(
    command: Sequence[str], outputs: Sequence[str], content: str, tree: Path, environ: Mapping[str, str], folder: str = ""
) -> Path:
    """Return the folder for the build of a tree: one for each content, command, compiler, Python and set of its packages.

    ``folder``: where in the tree the command runs.
    """
    compilers = []
    for variable, program in COMPILERS.items():
        named = environ.get(variable) or program
        words = dict.fromkeys((named, *named.split()))  # a path, or such as `ccache g++ -m64`
        found = [which for word in words if (which := shutil.which(word, path=environ.get("PATH")))]
        said = [run([each, "--version"], environ=environ, folder=tree, time_limit_s=30).output for each in found]
        compilers.append((named, found, said))
    metadata = [package.metadata for package in importlib.metadata.distributions()]  # its file is read at each access
    packages = sorted(f"{each['Name']}=={each['Version']}" for each in metadata)
    asked = _words_of_build_files(tree) | _words_of_build_files(tree / folder)
    variables = [f"{name}={value}" for name, value in sorted(environ.items()) if name in VARIABLES or name in asked]
    machine = [sys.version, platform.machine(), sys.prefix]
    parts = [content, folder, list(command), list(outputs), compilers, variables, packages, machine]
    root = Path(environ.get("RATCHET_BUILDS_DIR") or cache_root() / "builds")
    return root / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _words_of_build_files(folder: Path) -> set[str]:
    """Return all words of the files at the top of a folder that a build may run: names of variables are among them."""
    files = [path for pattern in _BUILD_FILES for path in folder.glob(pattern) if path.is_file()]
    return {word for path in files for word in _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))}


def restore_kept(folder: Path, tree: Path, outputs: Sequence[str]) -> bool:
    """Copy an entry into the tree. Return False, with the tree as it was, if there is none, or it is not what was kept."""
    written: list[Path] = []
    try:
        for path, file in load(folder / _LIST, KeptBuild).files.items():
            target = tree / path
            if not _is_output(path, outputs) or os.path.lexists(target) or not _is_inside(target.parent, tree):
                raise _DamagedError
            target.parent.mkdir(parents=True, exist_ok=True)
            written.append(target)
            if _copy(folder / "outputs" / path, target) != file:
                raise _DamagedError
    except (RecordError, _DamagedError, OSError):  # a full disk as well: the build that follows has the words for it
        for target in written:
            target.unlink(missing_ok=True)
        return False
    with contextlib.suppress(OSError):  # a folder that this job may only read
        os.utime(folder / _LIST)
    return True


def keep(folder: Path, tree: Path, before: TreeState, outputs: Sequence[str]) -> None:
    """Copy the declared files that the build wrote; a full disk costs the entry, not the check.

    Nothing is kept of a build that rewrites a source or links out of the tree: restoring could not give the same tree.
    """
    written = [path for path, state in state_of(tree).items() if before.get(path) != state and _is_output(path, outputs)]
    if any(path in before or not _is_inside(tree / path, tree) for path in written):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
    except OSError as error:
        raise OutputError(
            f"The build cache {folder.parent} cannot be written: {error.strerror}.",
            "Set RATCHET_BUILDS_DIR or RATCHET_CACHE_DIR.",
        ) from None
    try:
        files = {}
        for path in written:
            target = fresh / "outputs" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            files[path] = _copy((tree / path).resolve(), target)
        save(fresh / _LIST, KeptBuild(files=files))
        shutil.rmtree(folder, ignore_errors=True)  # one that was damaged
        fresh.rename(folder)
    except (OSError, OutputError, _DamagedError):
        shutil.rmtree(fresh, ignore_errors=True)
    ages = {}
    for mark in folder.parent.glob(f"*/{_LIST}"):
        with contextlib.suppress(FileNotFoundError):  # another job that shares this cache has just removed it
            ages[mark] = mark.stat().st_mtime
    for mark in sorted(ages, key=ages.__getitem__, reverse=True)[KEPT_BUILDS:]:
        shutil.rmtree(mark.parent, ignore_errors=True)


def state_of(tree: Path) -> TreeState:
    """Return what lies in a tree, git's own files apart."""
    state: TreeState = {}
    for folder, names, files in os.walk(tree):
        links = [name for name in names if Path(folder, name).is_symlink()]
        if ".git" in names:
            names.remove(".git")
        for name in [*files, *links]:
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):  # a compiler's server that the build started tidies up after it
                status = path.lstat()
                state[str(path.relative_to(tree))] = (status.st_size, status.st_mtime_ns)
    return state


def _is_output(path: str, outputs: Sequence[str]) -> bool:
    """Return whether the settings declare a path: as a file, a folder with a slash at its end, or a pattern."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or {"..", ".git"} & set(parts.parts):
        return False
    return any(fnmatch.fnmatchcase(path, f"{output}*" if output.endswith("/") else output) for output in outputs)


def _is_inside(path: Path, tree: Path) -> bool:
    return path.resolve().is_relative_to(tree.resolve())


def _copy(source: Path, target: Path) -> KeptFile:
    """Copy a file, and return what was copied. Raises _DamagedError if it is no regular file or is not there."""
    try:
        reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise _DamagedError from None
    digest = hashlib.sha256()
    with open(reader, "rb") as stream, target.open("xb") as copy:  # noqa: PTH123 - a descriptor has no path
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise _DamagedError
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    is_executable = bool(status.st_mode & stat.S_IXUSR)
    target.chmod(0o755 if is_executable else 0o644)
    return KeptFile(size=target.stat().st_size, sha256=digest.hexdigest(), is_executable=is_executable)
