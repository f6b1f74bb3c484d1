"""Empty the L2 cache between samples."""

from __future__ import annotations

import ctypes

import torch

_fill_with_zeros = torch.Tensor.zero_  # bound before an author's code is imported, as in `queue`


class L2Flush:
    """Overwrites twice the size of the L2 cache; persisting lines are given back first."""

    def __init__(self, device: torch.device) -> None:
        size = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self._buffer = torch.empty(max(2 * size, 1 << 20), dtype=torch.uint8, device=device)
        self._driver = ctypes.CDLL("libcuda.so.1")

    def reset_persisting(self) -> None:
        """Undo what a kernel pinned in L2; a driver without the call has nothing to undo."""
        if hasattr(self._driver, "cuCtxResetPersistingL2Cache"):
            self._driver.cuCtxResetPersistingL2Cache()

    def __call__(self) -> None:
        _fill_with_zeros(self._buffer)
