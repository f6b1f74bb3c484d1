"""Notice whether Triton or torch.compile chose among configurations by timing them: the next time, nothing may run beside it.

`child.worker` uses it in its own process. A choice made while another process uses the GPU may be another one, so it is not kept.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ratchet.core.bench.child.libraries import WhenImported

_Method = Callable[..., Any]


class _Chosen(BaseException):
    """The end of a choice that is not to be kept; no Exception, so that nobody takes it for an error."""


class AutotuneWatch:
    """A count of what is timed in this process to choose among configurations, and will be timed in the next one again."""

    def __init__(self) -> None:
        """Begin to watch what is loaded, and the rest once it is. In a release with other names nothing is seen."""
        self._timed = 0
        self._crowded = False
        _wrap("torch._inductor.select_algorithm", "AlgorithmSelectorCache", benchmark=self._refused_if_crowded)
        heuristics = "torch._inductor.runtime.triton_heuristics"
        _wrap(heuristics, "CachingAutotuner", autotune_to_one_config=self._inductor_if_crowded)
        # The second method is there from Triton 3.4 on: with TRITON_CACHE_AUTOTUNING.
        _wrap("triton.runtime.autotuner", "Autotuner", _bench=self._counted, check_disk_cache=self._not_kept_if_crowded)

    def _counted(self, bench: _Method) -> _Method:
        def counted(*arguments: Any, **named: Any) -> Any:
            self._timed += 1
            return bench(*arguments, **named)

        return counted

    def _not_kept_if_crowded(self, keep: _Method) -> _Method:
        def guarded(tuner: Any, key: Any, configs: Any, choose: Callable[[], object]) -> Any:
            def choose_only() -> None:
                choose()
                raise _Chosen

            try:
                return keep(tuner, key, configs, choose_only if self._crowded else choose)
            except _Chosen:
                return False

        return guarded

    def _refused_if_crowded(self, choose: _Method) -> _Method:
        """Return the method of inductor that times algorithms (max-autotune): the choice is in the code, which it keeps.

        A case that fails in a crowd is done again alone. No Exception, which torch.compile would answer with other code.
        """

        def guarded(*arguments: Any, **named: Any) -> Any:
            if self._crowded:
                raise SystemExit("torch.compile chooses algorithms by timing them, and other workers use the GPU")
            return choose(*arguments, **named)

        return guarded

    def _inductor_if_crowded(self, choose: _Method) -> _Method:
        """Return the method of inductor's kernels that times them; it keeps its choice on the disk, unless told not to."""

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


def _wrap(name: str, owner: str, **wrappers: Callable[[_Method], _Method]) -> None:
    """Put wrappers around methods of a class, as far as it has them, now or when its module is imported."""

    def wrap(module: ModuleType) -> None:
        kind = getattr(module, owner, None)
        for each, wrapper in wrappers.items():
            if method := getattr(kind, each, None):
                setattr(kind, each, functools.wraps(method)(wrapper(method)))

    if name in sys.modules:
        wrap(sys.modules[name])
    else:
        sys.meta_path.insert(0, WhenImported(name, wrap))
