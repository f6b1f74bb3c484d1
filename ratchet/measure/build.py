"""Run a repository's build command in a tree, or restore the outputs of an earlier build; choose the variables its code sees.

`ratchet.commands.trees` builds with `build_tree`; `client.Hosts` and profiling start children with `benchmark_environ`. It runs
the build command without CI tokens, writes into the tree, and keeps outputs in the cache folder (``builds/``).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.cache import cache_root
from ratchet.error_lines import LONGEST, first_error
from ratchet.errors import BuildError, OutputError
from ratchet.measure.tree_spec import TreeSpec
from ratchet.subprocesses import STRAY, run
from ratchet.untrusted import clean, last_lines

_PRIVATE = ("GITHUB_", "ACTIONS_", "RUNNER_")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without a CI runner's tokens and output files, and without those that point git elsewhere."""
    return {name: value for name, value in environ.items() if not name.startswith(_PRIVATE) and name not in STRAY}


def benchmark_environ(environ: Mapping[str, str], tree: TreeSpec) -> dict[str, str]:
    """Return the variables of a process that imports the benchmarks of ``tree``: one GPU or none."""
    kept = without_secrets(environ) | {
        "PYTHONHASHSEED": "0",  # the same layouts on both sides
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available() at import must not initialise CUDA
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": tree.gpu_uuid or "",
    }
    if tree.device == "cpu":
        kept |= {name: str(tree.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return kept


KEPT_BUILDS = 20
"""Builds in the cache; those not used for the longest time are deleted."""

State = dict[str, tuple[int, int]]
"""Path within the tree → (size, modification time in ns)."""


def build_tree(
    tree: Path, command: Sequence[str], content: str, timeout_s: float, environ: Mapping[str, str], *, cache: bool
) -> bool:
    """Build ``tree``. Return True if the outputs came from the cache.

    ``content`` is the hash of the tree's sources. Together with the command, Python and the kind of machine it is the key.
    Raises BuildError with the last lines printed, also where the command takes longer than ``timeout_s`` seconds; OutputError
    where the cache cannot be read or written.
    """
    store = cache_root() / "builds" / _key(command, content)
    if cache and (store / "complete").exists():
        _restore(store, tree)
        return True
    before = _state(tree)
    _run(tree, command, timeout_s, environ)
    if cache:
        _keep(tree, before, store)
    return False


def _restore(store: Path, tree: Path) -> None:
    try:
        shutil.copytree(store / "outputs", tree, symlinks=True, dirs_exist_ok=True)
        os.utime(store / "complete")
    except OSError as error:
        raise OutputError(
            f"The cached build {store} cannot be copied to {tree}: {clean(error.strerror or str(error))}.",
            "Free some space, or pass --no-build-cache.",
        ) from None


def _run(tree: Path, command: Sequence[str], timeout_s: float, environ: Mapping[str, str]) -> None:
    shown = " ".join(command)
    try:
        ended = run(command, environ=without_secrets(environ), folder=tree, time_limit_s=timeout_s)
    except OSError as error:
        raise BuildError(
            f"The build command `{shown}` cannot be started: {error.strerror}.", "Fix build in [tool.ratchet]."
        ) from None
    if ended.status is None:
        raise BuildError(f"The build `{shown}` took more than {timeout_s:g} s.", "Raise build_timeout in [tool.ratchet].")
    if ended.status != 0:
        first = clean(first_error(ended.output).replace(f"{tree}/", ""), LONGEST)
        why = first or " | ".join(last_lines(ended.output, 3)) or "it printed nothing"
        raise BuildError(f"The build `{shown}` failed with status {ended.status}: {why}", "Run it by hand in that commit.")


def _key(command: Sequence[str], content: str) -> str:
    parts = [content, *command, sys.version, platform.machine(), sys.prefix]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _state(tree: Path) -> State:
    state: State = {}
    for folder, names, files in os.walk(tree):
        links = [name for name in names if Path(folder, name).is_symlink()]
        if ".git" in names:
            names.remove(".git")
        for name in [*files, *links]:
            path = Path(folder, name)
            status = path.lstat()
            state[str(path.relative_to(tree))] = (status.st_size, status.st_mtime_ns)
    return state


def _keep(tree: Path, before: State, store: Path) -> None:
    """Copy what the build wrote or changed into the cache; a full disk costs the cache, not the check."""
    written = [path for path, state in _state(tree).items() if before.get(path) != state and path != ".git"]
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=store.parent))
    except OSError as error:
        raise OutputError(
            f"The build cache {store.parent} cannot be written: {error.strerror}.", "Set RATCHET_CACHE_DIR."
        ) from None
    try:
        (fresh / "outputs").mkdir()
        for path in written:
            target = fresh / "outputs" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / path, target, follow_symlinks=False)
        (fresh / "complete").touch()
        fresh.rename(store)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
    _prune(store.parent)


def _prune(folder: Path) -> None:
    marks = sorted(folder.glob("*/complete"), key=lambda mark: mark.stat().st_mtime, reverse=True)
    for mark in marks[KEPT_BUILDS:]:
        shutil.rmtree(mark.parent, ignore_errors=True)
