"""Notice whether Triton or torch.compile chose among configurations by timing them: the next time, nothing may run beside it.

`child.worker` uses it in its own process. A choice made while another process uses the GPU may be another one, so it is not kept.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class _Chosen(BaseException):
    """The end of a choice that is not to be kept; no Exception, so that nobody takes it for an error."""


class AutotuneWatch:
    """A count of what is timed in this process to choose among configurations, and will be timed in the next one again."""

    def __init__(self) -> None:
        """Begin to watch. Without Triton, or in a release that names its autotuner otherwise, nothing is seen."""
        self._timed = 0
        self._crowded = False
        algorithms = getattr(sys.modules.get("torch._inductor.select_algorithm"), "AlgorithmSelectorCache", None)
        if choose := getattr(algorithms, "benchmark", None):
            algorithms.benchmark = self._refused_if_crowded(choose)  # type: ignore[union-attr]  # it has a method
        inductor = getattr(sys.modules.get("torch._inductor.runtime.triton_heuristics"), "CachingAutotuner", None)
        if choose := getattr(inductor, "autotune_to_one_config", None):
            inductor.autotune_to_one_config = self._inductor_if_crowded(choose)  # type: ignore[union-attr]  # it has a method
        autotuner = getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None)
        bench = getattr(autotuner, "_bench", None)
        if autotuner is None or bench is None:
            return

        @functools.wraps(bench)
        def counted(*arguments: Any, **named: Any) -> Any:
            self._timed += 1
            return bench(*arguments, **named)

        autotuner._bench = counted
        if keep := getattr(autotuner, "check_disk_cache", None):  # from 3.4 on: with TRITON_CACHE_AUTOTUNING
            autotuner.check_disk_cache = self._not_kept_if_crowded(keep)

    def _not_kept_if_crowded(self, keep: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(keep)
        def guarded(tuner: Any, key: Any, configs: Any, choose: Callable[[], object]) -> Any:
            def choose_only() -> None:
                choose()
                raise _Chosen

            try:
                return keep(tuner, key, configs, choose_only if self._crowded else choose)
            except _Chosen:
                return False

        return guarded

    def _refused_if_crowded(self, choose: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method of inductor that times algorithms (max-autotune): the choice is in the code, which it keeps.

        A case that fails in a crowd is done again alone. No Exception, which torch.compile would answer with other code.
        """

        @functools.wraps(choose)
        def guarded(*arguments: Any, **named: Any) -> Any:
            if self._crowded:
                raise SystemExit("torch.compile chooses algorithms by timing them, and other workers use the GPU")
            return choose(*arguments, **named)

        return guarded

    def _inductor_if_crowded(self, choose: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method of inductor's kernels that times them; it keeps its choice on the disk, unless told not to."""

        @functools.wraps(choose)
        def guarded(kernel: Any, *arguments: Any, **named: Any) -> Any:
            keep = getattr(kernel, "save_cache_hook", None)
            if keep and not self._crowded:
                return choose(kernel, *arguments, **named)
            self._timed += 1
            kernel.save_cache_hook = None
            try:
                return choose(kernel, *arguments, **named)
            finally:
                kernel.save_cache_hook = keep

        return guarded

    def forget(self, *, crowded: bool) -> None:
        """Begin to count anew. While others use the GPU too (``crowded``), what is chosen does not enter a cache."""
        self._timed, self._crowded = 0, crowded

    @property
    def seen(self) -> bool:
        """Return whether a configuration was timed since `forget`."""
        return self._timed > 0
