"""Answer what modules ask about the GPU while a host imports them, although CUDA must not begin in that process.

Once CUDA has begun in a process, the workers that it forks cannot use the GPU (PyTorch, "Multiprocessing best practices"). Yet
many packages ask for the compute capability, the multiprocessors or the shared memory at import, to choose their kernels. `host`
opens `facts_for_imports` around the imports: such questions go to a process that was forked before, which ends with the imports.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ratchet
from ratchet.core.bench.wire import Channel, Disconnected
from ratchet.core.errors import WorkerError
from ratchet.core.processes import die_with_parent
from ratchet.gpu_libraries.libraries import WhenImported

_HARNESS_FOLDER = f"{Path(ratchet.__file__).parent}{os.sep}"
"""As frames name it."""
LONGEST_ANSWER_S = 120.0
"""The first answer takes the start of CUDA, and perhaps an import of Triton."""
_TRITON_DRIVER = "triton.backends.driver"
_NOT_INITIALIZED = 3
"""CUDA_ERROR_NOT_INITIALIZED, which the driver's functions return before cuInit: CUDA Driver API, "Data types"."""


class GpuProperties(SimpleNamespace):
    """Properties of a GPU as plain values, with the names that ``torch.cuda.get_device_properties`` gives them."""


@dataclass
class CudaUse:
    """The first use of CUDA by the imports, which no answer could take the place of."""

    where: str = ""
    """File and line that made torch begin CUDA, where that is known."""


@contextlib.contextmanager
def facts_for_imports(tree: Path, channel: Channel) -> Iterator[CudaUse]:
    """Answer questions about the GPU in the body, which imports the tree; afterwards torch and Triton are as they were.

    ``channel``: the host's conversation, which the process that answers must not hold open. Code that kept one of the functions
    gets the original's answers from then on.
    """
    import torch

    facts, use = _Facts(channel), CudaUse()
    originals = {name: getattr(torch.cuda, name) for name in ("current_device", "get_device_properties")}
    asking = {name: facts.answering(name, original) for name, original in originals.items()}
    begin: Callable[[], None] = torch.cuda._lazy_init

    def lazy_init() -> None:
        if not use.where and not torch.cuda.is_initialized():
            use.where = _place(tree)
        begin()

    def made(driver: Any) -> None:
        """Let a driver object of Triton ask too. It keeps functions of torch, and one of its own."""
        utils = getattr(driver, "utils", None)
        if utils is not None and hasattr(utils, "get_device_properties"):
            undo.callback(setattr, utils, "get_device_properties", utils.get_device_properties)
            utils.get_device_properties = facts.answering("triton", utils.get_device_properties)
        for kept, value in vars(driver).items():
            for name, function in asking.items():
                if value is function:
                    undo.callback(setattr, driver, kept, originals[name])

    with contextlib.ExitStack() as undo:
        undo.callback(facts.close)
        for name, function in [*asking.items(), ("_lazy_init", lazy_init)]:
            undo.callback(setattr, torch.cuda, name, getattr(torch.cuda, name))
            setattr(torch.cuda, name, function)
        undo.enter_context(_triton_drivers(made))
        yield use


class _Facts:
    """The process that knows the GPU, and the answers that it has given."""

    def __init__(self, channel: Channel) -> None:
        ours, theirs = socket.socketpair()
        self.are_open = True
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str], dict[str, Any]] = {}
        self._host = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            die_with_parent()
            ours.close()
            channel.close()
            _answer(Channel(theirs))
            os._exit(0)
        theirs.close()
        self._channel = Channel(ours)

    def answering(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that asks while the imports last, and is the original afterwards and in other processes."""
        import torch

        @functools.wraps(original)
        def asking(*arguments: Any, **named: Any) -> Any:
            if not self.are_open or os.getpid() != self._host or torch.cuda.is_initialized():
                return original(*arguments, **named)
            return self.ask(name, *arguments, *named.values())

        return asking

    def ask(self, question: str, device: object = None) -> Any:
        """Return an answer: a number, or properties. Raises what the question raises there, RuntimeError without an answer."""
        about = device if device is None or isinstance(device, int) else str(device)
        with self._lock:
            if (question, repr(about)) not in self._answers:
                try:
                    self._channel.send({"question": question, "device": about})
                    self._answers[question, repr(about)] = self._channel.receive(LONGEST_ANSWER_S)
                except WorkerError as error:
                    raise RuntimeError(f"CUDA does not answer a question about the GPU: {error}; see `ratchet doctor`") from None
            answer = self._answers[question, repr(about)]
        if "error" in answer:
            kind = getattr(builtins, str(answer["kind"]), None)
            raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(answer["error"])
        found = answer["found"]
        return GpuProperties(**found) if question == "get_device_properties" else found

    def close(self) -> None:
        self.are_open = False
        self._channel.close()
        os.waitpid(self._pid, 0)


def _answer(channel: Channel) -> None:
    """Answer questions with torch and Triton themselves, until nobody asks any more."""
    with contextlib.suppress(Disconnected):
        while True:
            asked = channel.receive(None)
            try:
                channel.send({"found": _found(asked["question"], asked["device"])})
            except Exception as error:  # noqa: BLE001  whatever the question raises is its answer
                channel.send({"error": str(error), "kind": type(error).__name__})


def _found(question: str, device: Any) -> Any:
    import torch

    if question == "current_device":
        return torch.cuda.current_device()
    if question == "triton":
        torch.cuda.current_device()  # begins CUDA, which Triton leaves to torch
        return dict(importlib.import_module("triton.runtime").driver.active.utils.get_device_properties(device))
    properties = torch.cuda.get_device_properties(device)
    values = {name: getattr(properties, name) for name in dir(properties) if not name.startswith("_")}
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in values.items()}


@contextlib.contextmanager
def _triton_drivers(then: Callable[[Any], None]) -> Iterator[None]:
    """Call ``then`` with each driver object that Triton makes in the body, which may be what imports Triton."""
    patched: list[tuple[Any, Any]] = []

    def patch(module: ModuleType) -> None:
        made = getattr(module, "GPUDriver", None)
        if made is None:
            return
        original = made.__init__

        def init(driver: Any) -> None:
            original(driver)
            then(driver)

        made.__init__ = init
        patched.append((made, original))

    finder = WhenImported(_TRITON_DRIVER, patch)
    if module := sys.modules.get(_TRITON_DRIVER):
        patch(module)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(finder)
        for made, original in patched:
            made.__init__ = original


def _place(tree: Path) -> str:
    """Return the file and line of the innermost frame of the tree, if there is one: whoever asked for it."""
    frame = sys._getframe().f_back
    start, outer = f"{tree}{os.sep}", ""
    while frame:
        file = frame.f_code.co_filename
        if file.startswith(start):
            return f"{file.removeprefix(start)}:{frame.f_lineno}"
        if not outer and not file.startswith((_HARNESS_FOLDER, "<")) and f"{os.sep}torch{os.sep}" not in file:
            outer = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return outer


def cuda_has_begun() -> bool:
    """Return whether CUDA has begun in this process, by torch or, as torch cannot know, by another library: CuPy, numba."""
    import torch

    if torch.cuda.is_initialized():
        return True
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    except OSError:  # nothing has loaded it
        return False
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
