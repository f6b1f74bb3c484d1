"""Run a repository's build command in a tree, or restore the outputs of an earlier build; choose the variables its code sees.

`ratchet.commands.trees` builds with `build_tree`; `client.Hosts` and profiling start children with `benchmark_environ`. It runs
the build command without CI tokens and writes into the tree; `kept_builds` has the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ratchet.error_lines import LONGEST, first_error
from ratchet.errors import BuildError
from ratchet.measure import kept_builds
from ratchet.measure.device.vendor import vendor_here
from ratchet.measure.tree_spec import TreeSpec
from ratchet.subprocesses import STRAY, run
from ratchet.untrusted import clean, last_lines

_PRIVATE = ("GITHUB_", "ACTIONS_", "RUNNER_")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without a CI runner's tokens and output files, and without those that point git elsewhere."""
    return {name: value for name, value in environ.items() if not name.startswith(_PRIVATE) and name not in STRAY}


def benchmark_environ(environ: Mapping[str, str], tree: TreeSpec) -> dict[str, str]:
    """Return the variables of a process that imports the benchmarks of ``tree``: its GPUs or none."""
    kept = without_secrets(environ) | {
        "PYTHONHASHSEED": "0",  # the same layouts on both sides
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available() at import must not initialise CUDA
        **vendor_here().environ(tree.gpu_uuid),
    }
    if tree.device == "cpu":
        kept |= {name: str(tree.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return kept


def build_tree(
    tree: Path,
    command: Sequence[str],
    outputs: Sequence[str],
    content: str,
    timeout_s: float,
    environ: Mapping[str, str],
    *,
    cache: bool | Literal["read"],
    folder: str = "",
) -> bool:
    """Build ``tree``. Return True if the outputs came from the cache, which holds what ``outputs`` declares and nothing else.

    It runs in ``folder`` of the tree. ``content`` is the hash of the tree's sources. With ``"read"`` nothing new is kept. Raises
    BuildError with the last lines printed, also where the command takes longer than ``timeout_s`` seconds; OutputError where the
    cache cannot be written.
    """
    if not cache or not outputs:
        _run(tree, folder, command, timeout_s, environ)
        return False
    entry = kept_builds.entry(command, outputs, content, tree, environ)
    if kept_builds.restore(entry, tree, outputs):
        return True
    before = kept_builds.state_of(tree)
    _run(tree, folder, command, timeout_s, environ)
    if cache != "read":
        kept_builds.keep(entry, tree, before, outputs)
    return False


def _run(tree: Path, folder: str, command: Sequence[str], timeout_s: float, environ: Mapping[str, str]) -> None:
    shown = " ".join(command)
    try:
        ended = run(command, environ=without_secrets(environ), folder=tree / folder, time_limit_s=timeout_s)
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
