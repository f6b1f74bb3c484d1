"""Compile a ``.cu`` source with nvcc once and load it with ctypes, for benchmarks written in CUDA C++.

    library = nvcc.load(Path(__file__).parent / "kernels" / "normalize.cu", macros={"BLOCK": 256})
    library.normalize(...)  # an extern "C" function

Results live in ``cache_root()/nvcc/<key>/``: the library, ``build.log`` (with the register and spill counts of
``-Xptxas -v``), ``command.json`` and the sources. The key covers everything that shapes the machine code. Benchmarks call `load`;
the doctor and the environment ask `find_nvcc`. It reads sources, runs nvcc and writes to the cache; it imports torch only to ask
for the device's architecture.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ratchet.core.cache import cache_root
from ratchet.core.errors import CudaBuildError, first_error
from ratchet.core.processes import run

FLAGS = ("-O3", "-lineinfo", "-std=c++17")
FIXED_FLAGS = ("-shared", "-Xcompiler", "-fPIC", "-Xptxas", "-v", "-no-compress")
"""``-no-compress``: so that `ratchet.identical.launches` can read the machine code."""
LIBRARY = "kernel.so"
LOG_BYTES = 2**22
"""Bytes of nvcc's output that are kept: the first errors count, and templates make long ones."""
STANDARD_PLACES = (Path("/usr/local/cuda/bin/nvcc"),)
ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")
"""Variables through which nvcc and its host compiler take options: part of the key."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<beside>[^"\n]+)"|<(?P<named>[^>\n]+)>)', re.MULTILINE)
_FOLDERS, _INCLUDED = ("-I", "--include-path", "-isystem", "--system-include"), ("-include", "--pre-include")
"""Flags that name folders of headers, and flags that include a header."""


def load(
    source: Path | str,
    *,
    macros: Mapping[str, int | str] | None = None,
    flags: Sequence[str] = FLAGS,
    arch: str | None = None,
    timeout_s: float = 300.0,
) -> ctypes.CDLL:
    """Compile ``source`` if the cache does not hold it, and load it.

    ``macros`` become ``-DNAME=VALUE``; ``arch`` is such as ``"sm_90"``, by default that of torch's current device.
    Raises CudaBuildError where nvcc is missing, rejects the source or takes longer than ``timeout_s``.
    """
    library = build(source, macros=macros, flags=flags, arch=arch, timeout_s=timeout_s) / LIBRARY
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CudaBuildError(f"{library} cannot be loaded: {error}.", f"Delete {library.parent} to build it again.") from error


def build(
    source: Path | str,
    *,
    macros: Mapping[str, int | str] | None = None,
    flags: Sequence[str] = FLAGS,
    arch: str | None = None,
    timeout_s: float = 300.0,
) -> Path:
    """Compile as `load` does, and return the folder that holds the library, its log and its sources."""
    path = Path(source).absolute()
    compiler = find_nvcc()
    defines = [f"-D{name}={value}" for name, value in sorted((macros or {}).items())]
    options = [*flags, *defines, f"-arch={arch or device_arch()}", *FIXED_FLAGS]
    sources = read_sources(path, flags)
    folder = cache_root() / "nvcc" / _key(compiler, options, path, sources)
    if (folder / LIBRARY).is_file():
        return folder
    job = _Job(compiler, options, path, sources, folder, timeout_s)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock", timeout=timeout_s):
            if not (folder / LIBRARY).is_file():  # another process may have built it while this one waited
                _compile(job)
    except Timeout:
        raise CudaBuildError(
            f"Another process has been compiling {path.name} for {timeout_s:g} s.", f"If none is, delete {folder}.lock."
        ) from None
    except OSError as error:
        raise CudaBuildError(
            f"{folder.parent} cannot be written: {error.strerror or error}.", "Set RATCHET_CACHE_DIR to a folder that can be."
        ) from error
    return folder


def find_nvcc() -> Path:
    """Find nvcc in ``$CUDACXX``, ``$CUDA_HOME/bin``, the PATH or ``/usr/local/cuda/bin``, in this order."""
    if named := os.environ.get("CUDACXX"):
        if path := shutil.which(named):
            return Path(path)
        # Falling back to another compiler would change the machine code behind the author's back.
        raise CudaBuildError(f"CUDACXX names {named}, which is not a program on this machine.", "Correct or unset CUDACXX.")
    home = os.environ.get("CUDA_HOME")
    places = [str(Path(home) / "bin" / "nvcc")] if home else []
    for candidate in [*places, "nvcc", *map(str, STANDARD_PLACES)]:
        if path := shutil.which(candidate):
            return Path(path)
    raise CudaBuildError(
        "nvcc was not found, and a benchmark written in CUDA C++ needs it.",
        "Install the CUDA toolkit, or set CUDA_HOME or CUDACXX to where it is.",
    )


def device_arch() -> str:
    """Return the architecture of torch's current device, such as ``"sm_90"``."""
    import torch

    if not torch.cuda.is_available():
        raise CudaBuildError("There is no CUDA device to compile for.", 'Pass it, as in arch="sm_90".')
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def read_sources(source: Path, flags: Sequence[str] = ()) -> dict[Path, bytes]:
    """Read the source and every header that it or a flag includes, directly or not.

    Headers are looked for in the folders of ``-I<folder>`` and similar flags, and before that, where their names are in quotes,
    beside the file that includes them. One that is in none of these is left to the compiler.
    """
    folders = [Path(folder).absolute() for folder in _values(flags, _FOLDERS)]
    sources: dict[Path, bytes] = {}
    waiting = [source, *_first_of(_values(flags, _INCLUDED), (Path.cwd(), *folders))]
    while waiting:
        path = waiting.pop()
        if path in sources:
            continue
        try:
            sources[path] = path.read_bytes()
        except OSError as error:
            raise CudaBuildError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
        for found in _INCLUDE.finditer(sources[path].decode(errors="replace")):
            beside = [path.parent] if found["beside"] else []
            waiting += _first_of([found["beside"] or found["named"]], (*beside, *folders))
    return sources


def _values(flags: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield the values of these flags: ``-I include``, ``-Iinclude``, ``-I=include,more``."""
    for flag, following in itertools.pairwise((*flags, "")):
        if name := next((name for name in names if flag.startswith(name)), ""):
            value = following if flag == name else flag.removeprefix(name).removeprefix("=")
            yield from filter(None, value.split(","))


def _first_of(names: Iterable[str], folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the file of each name in the first of the folders that has it."""
    for name in names:
        files = (Path(os.path.normpath(folder / name)) for folder in folders)
        yield from itertools.islice(filter(Path.is_file, files), 1)


@dataclass(frozen=True)
class _Job:
    compiler: Path
    options: list[str]
    source: Path
    sources: dict[Path, bytes]
    folder: Path
    timeout_s: float


def _key(compiler: Path, options: Sequence[str], source: Path, sources: Mapping[Path, bytes]) -> str:
    files = [(os.path.relpath(path, source.parent), hashlib.sha256(text).hexdigest()) for path, text in sources.items()]
    environment = [os.environ.get(name, "") for name in ENVIRONMENT]
    parts = [_version(compiler), options, source.name, sorted(files), environment]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@functools.cache
def _version(compiler: Path) -> str:
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CudaBuildError(f"{compiler} does not say its version: {error}.", "Check the CUDA toolkit.") from error
    return done.stdout


def _compile(job: _Job) -> None:
    """Build in a temporary folder and move it into place whole, so that no process finds half a result."""
    with tempfile.TemporaryDirectory(prefix=".building-", dir=job.folder.parent, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        command = [str(job.compiler), *job.options, "-o", str(made / LIBRARY), str(job.source)]
        # nvcc starts other programs, and a timeout must end them too.
        ended = run(command, environ=os.environ, folder=Path.cwd(), time_limit_s=job.timeout_s, kept_bytes=LOG_BYTES)
        if ended.status is None:
            raise CudaBuildError(
                f"nvcc took longer than {job.timeout_s:g} s over {job.source.name}.", "Simplify it or pass a larger timeout_s."
            )
        if ended.status != 0:
            kept = job.folder.with_suffix(".failed.log")
            kept.write_text(ended.output)
            printed = [line.strip() for line in ended.output.splitlines() if line.strip()]
            reason = (first_error(ended.output) or "; ".join(printed[:3]) or f"exit status {ended.status}").rstrip(".")
            raise CudaBuildError(f"nvcc rejected {job.source.name}: {reason}.", f"Its whole output is in {kept}.")
        if any(path.read_bytes() != text for path, text in job.sources.items()):
            # The key was made of the earlier text: the result must not be filed under it.
            raise CudaBuildError(f"{job.source.name} or a header changed while it was compiled.", "Run again.")
        (made / "build.log").write_text(ended.output)
        (made / "command.json").write_text(json.dumps(command, indent=2) + "\n")
        for path, text in job.sources.items():
            steps = Path(os.path.relpath(path, job.source.parent)).parts
            copy = made.joinpath("sources", *("up" if step == ".." else step for step in steps))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
        if job.folder.exists():  # damaged: it has no library, or nobody would be here
            shutil.rmtree(job.folder)
        made.replace(job.folder)
