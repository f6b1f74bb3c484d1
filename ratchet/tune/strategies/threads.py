"""One thread for small linear algebra: on cores that compile and time, several wait for each other much longer than they work."""

from __future__ import annotations

import functools
import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """While it is entered, BLAS uses one thread; without threadpoolctl it uses as many as it likes."""
    controller = _controller()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    """Looks through the libraries that are loaded, which takes a while: once, when numpy and scipy are."""
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
