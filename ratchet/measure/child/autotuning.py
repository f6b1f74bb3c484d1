"""Notice whether Triton chose among configurations by timing them: the next time, nothing else may run beside it.

`child.worker` uses it in its own process. A choice made while another process uses the GPU may be another one.
"""

from __future__ import annotations

import functools
import sys
from typing import Any


class AutotuneWatch:
    """A count of the configurations that ``triton.autotune`` times in this process."""

    def __init__(self) -> None:
        """Begin to watch. Without Triton, or in a release that names its autotuner otherwise, nothing is seen."""
        self._timed = 0
        autotuner = getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None)
        bench = getattr(autotuner, "_bench", None)
        if autotuner is None or bench is None:
            return

        @functools.wraps(bench)
        def counted(*arguments: Any, **named: Any) -> Any:
            self._timed += 1
            return bench(*arguments, **named)

        autotuner._bench = counted

    def forget(self) -> None:
        """Begin to count anew."""
        self._timed = 0

    @property
    def seen(self) -> bool:
        """Return whether a configuration was timed since `forget`."""
        return self._timed > 0
