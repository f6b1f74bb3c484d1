"""Run a repository's build command in a tree, and choose the variables that its code sees.

The build command runs without CI tokens and writes into the tree. The tool ``kept_builds`` keeps and restores what it wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ratchet import tools
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import LONGEST, BuildError, first_error
from ratchet.core.processes import STRAY, run
from ratchet.core.untrusted import clean, last_lines

_PRIVATE = ("GITHUB_", "ACTIONS_", "RUNNER_")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without a CI runner's tokens and output files, and without those that point git elsewhere."""
    return {name: value for name, value in environ.items() if not name.startswith(_PRIVATE) and name not in STRAY}


def benchmark_environ(environ: Mapping[str, str], tree: TreeSpec) -> dict[str, str]:
    """Return the variables of a process that imports the benchmarks of ``tree``: its GPUs or none."""
    kept = without_secrets(environ) | {
        "PYTHONHASHSEED": "0",  # the same layouts on both sides
        "TRITON_CACHE_AUTOTUNING": environ.get("TRITON_CACHE_AUTOTUNING", "1"),  # one choice for the same kernel on both sides
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available() at import must not initialise CUDA
        **vendor_here().environ(tree.share.gpu_uuid),
    }
    if tree.device == "cpu":
        kept |= {name: str(tree.share.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
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
    kept = tools.part("kept_builds")
    entry = kept.kept_folder(command, outputs, content, tree, environ, folder)
    if kept.restore_kept(entry, tree, outputs):
        return True
    before = kept.state_of(tree)
    _run(tree, folder, command, timeout_s, environ)
    if cache != "read":
        kept.keep(entry, tree, before, outputs)
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
