"""Read and write the parts of this process's state that code may leave changed for the code after it.

They are made as far as possible from what is there and not from names: all settings of torch that can be read and written, all
functions of its public modules, all variables. `state` compares them. Everything is bound here before an author's code is
imported, so that replaced functions do not hide what they did.
"""

from __future__ import annotations

import builtins
import ctypes
import decimal
import functools
import gc
import itertools
import locale
import logging
import operator
import os
import re
import resource
import signal
import sys
import types
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch.optim import optimizer
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch
from torch.utils._config_module import ConfigModule

from ratchet import tools

GONE = "\0gone"
"""Stands for a name that is not there; no variable can have this value."""
Values = dict[str, Any]
_launches = tools.part("launches")
ENVIRONMENT, PYTHON, IMPORTS = "environment variables", "Python settings", "import path"
"""Names of areas: with a space, since others are names of modules."""


def is_gone(value: object) -> bool:
    """Return whether a value stands for a name that is not there; it may come from another process."""
    return isinstance(value, str) and value == GONE


Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""The function that reads a value, and the one that writes it."""


class Area(ABC):
    """A part of the state: named values, and how to write one of them."""

    is_code = False
    """It is the namespace of a module or a class: only what is replaced in it counts."""
    is_own = False
    """It is no module of torch, which changes data of its own: all data counts."""
    from_defaults = False
    """It holds only what differs from the defaults, so that it is complete however late its module is imported."""

    @abstractmethod
    def read(self) -> Values:
        """Return all values by name."""

    @abstractmethod
    def write(self, name: str, value: Any) -> None:
        """Change one value."""

    def hides(self, _name: str) -> bool:
        """Return whether a name that is added there hides another one: a builtin, or the method of a base class."""
        return False


def areas_of(own: Collection[str]) -> dict[str, Area]:
    """Return all areas by name. ``own``: top-level names of the tree's modules, whose namespaces are among them."""
    modules = list(sys.modules.items())
    compiler = {f"{name} settings": _Configuration(module) for name, module in modules if isinstance(module, ConfigModule)}
    return _FIXED | compiler | _namespaces(own)


class _Settings(Area):
    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = settings

    def read(self) -> Values:
        found = {}
        for name, (read, _) in self._settings.items():
            try:
                found[name] = read()
            except Exception:  # noqa: BLE001  flags of TF32 do, where the old and the new way to set them were mixed
                found[name] = GONE
        return found

    def write(self, name: str, value: Any) -> None:
        self._settings[name][1](value)


def _torch_settings() -> dict[str, Setting]:
    """Return a setting for each pair of functions of torch that read and write one, and those that come in no such pair.

    The order counts: what comes first may change what comes later.
    """
    core = torch._C
    found: dict[str, Setting] = {
        "function modes": (_function_modes, _set_function_modes),
        "default device": (lambda: getattr(_global_device(), "device", None), torch.set_default_device),
        "dispatch modes": (_dispatch_modes, _set_dispatch_modes),
        "inference mode": (torch.is_inference_mode_enabled, _set_inference_mode),
        "saved tensor hooks": (_saved_tensor_hooks, _set_saved_tensor_hooks),
        "anomaly detection": (
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda value: core.set_anomaly_enabled(*value),
        ),
        "deterministic algorithms": (
            lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
            lambda value: core._set_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        "flush_denormal": (lambda: _SMALLEST / 2 == 0, torch.set_flush_denormal),
        "printoptions": (lambda: dict(vars(_printing())), lambda value: vars(_printing()).update(value)),
        "sharing strategy": (torch.multiprocessing.get_sharing_strategy, torch.multiprocessing.set_sharing_strategy),
        "mha fastpath": (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
        "check_sparse_tensor_invariants": (core._check_sparse_tensor_invariants, core._set_check_sparse_tensor_invariants),
        "replaced operators": (_replaced_operators, _cannot_write),
    }
    for device in ("cpu", "cuda"):
        found[f"autocast for {device}"] = (partial(core.is_autocast_enabled, device), partial(core.set_autocast_enabled, device))
        found[f"autocast_dtype for {device}"] = (
            partial(core.get_autocast_dtype, device),
            partial(core.set_autocast_dtype, device),
        )
    for backend in ("generic", "cuda", "mkldnn"):
        for operation in ("all", "matmul", "conv", "rnn")[: 1 if backend == "generic" else 4]:
            found[f"fp32_precision of {backend} {operation}"] = (
                partial(core._get_fp32_precision_getter, backend, operation),
                partial(core._set_fp32_precision_setter, backend, operation),
            )
    for owner, names in ((torch.nn.modules.module, vars(torch.nn.modules.module)), (optimizer, vars(optimizer))):
        for name in [name for name in names if name.startswith("_global_")]:
            found[name.removeprefix("_global_")] = (partial(_hooks, owner, name), partial(_set_hooks, owner, name))
    for getter in sorted(vars(core)):
        setter = _setter_of(getter)
        if setter:
            found[re.sub(r"^_?(get|is)_", "", getter)] = (getattr(core, getter), partial(_call, getattr(core, setter)))
    return found


_SPECIAL = re.compile(
    "autocast_(?!cache)|anomaly|deterministic_algorithms|tracing_state|thread_name|graph_exec_group|sdp_priority_order"
)
"""Settings above, some that are none, and one that torch sets itself at the first call of attention."""


def _setter_of(getter: str) -> str | None:
    """Return the name of the function of torch that writes what this one reads: ``set_num_threads`` for ``get_num_threads``."""
    matched = re.fullmatch(r"_?(?:get|is)_(\w+)", getter)
    if not matched or _SPECIAL.search(getter):
        return None
    name = matched[1]
    short = name.removesuffix("_enabled")
    names = (f"_set_{name}", f"set_{name}", f"_set_{short}", f"_set_sdp_use_{short.removesuffix('_sdp')}")
    return next((each for each in names if hasattr(torch._C, each)), None)


def _call(setter: Callable[..., object], value: Any) -> None:
    """Write a value, or several that are read as a tuple."""
    if isinstance(value, tuple):
        setter(*value)
    else:
        setter(value)


_SMALLEST = sys.float_info.min
_kept_guards: list[object] = []


def _set_inference_mode(value: bool) -> None:
    guard = torch.inference_mode(value)
    guard.__enter__()
    _kept_guards.append(guard)  # its end would end the mode


def _global_device() -> object:
    """Return the mode of `torch.set_default_device`, if it is in force."""
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _function_modes() -> tuple[object, ...]:
    return tuple(mode for mode in _get_current_function_mode_stack() if mode is not _global_device())


def _set_function_modes(modes: tuple[Any, ...]) -> None:
    while _get_current_function_mode_stack():
        _pop_mode()
    for mode in (*filter(None, [_global_device()]), *modes):
        _push_mode(mode)


def _dispatch_modes() -> tuple[object, ...]:
    return tuple(_python_dispatch._get_current_dispatch_mode_stack())


def _set_dispatch_modes(modes: tuple[Any, ...]) -> None:
    while _dispatch_modes():
        _python_dispatch._pop_mode()
    for mode in modes:
        _python_dispatch._push_mode(mode)


def _saved_tensor_hooks() -> object:
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def _set_saved_tensor_hooks(hooks: Any) -> None:
    while _saved_tensor_hooks() and _saved_tensor_hooks() != hooks:
        torch._C._autograd._pop_saved_tensors_default_hooks()
    if hooks and _saved_tensor_hooks() != hooks:
        torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


def _printing() -> object:
    return torch._tensor_str.PRINT_OPTS


def _replaced_operators() -> frozenset[str]:
    """Return the operators of torch for which Python code has taken over: ``torch.library.Library("aten", "IMPL")``."""
    return frozenset(name for name in torch.library._impls if name.startswith("aten/"))


def _cannot_write(_: object) -> None:
    raise NotImplementedError


def _hooks(owner: object, name: str) -> object:
    hooks = getattr(owner, name)
    return tuple(hooks.items()) if isinstance(hooks, dict) else hooks


def _set_hooks(owner: object, name: str, value: Any) -> None:
    hooks = getattr(owner, name)
    if isinstance(hooks, dict):
        hooks.clear()
        hooks.update(value)
    else:
        setattr(owner, name, value)


def _attribute(owner: object, name: str) -> Setting:
    return (lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _list(values: list[Any]) -> Setting:
    return (lambda: tuple(values), lambda value: operator.setitem(values, slice(None), list(value)))


def _python_settings() -> dict[str, Setting]:
    root = logging.getLogger()
    return {
        "working folder": (os.getcwd, os.chdir),
        "umask": (_umask, os.umask),
        "locale": (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "switch interval": (sys.getswitchinterval, sys.setswitchinterval),
        "trace function": (sys.gettrace, sys.settrace),
        "profile function": (sys.getprofile, sys.setprofile),
        "garbage collection": (gc.isenabled, lambda value: gc.enable() if value else gc.disable()),
        "thresholds of garbage collection": (gc.get_threshold, lambda value: gc.set_threshold(*value)),
        "callbacks of garbage collection": _list(gc.callbacks),
        **{name: _attribute(sys, name) for name in ("stdin", "stdout", "stderr", "excepthook", "displayhook", "unraisablehook")},
        "warning filters": (lambda: tuple(warnings.filters), _set_filters),
        "decimal context": (lambda: repr(decimal.getcontext()), _set_decimals),
        "logging": (lambda: (root.level, root.manager.disable, tuple(root.handlers)), _set_logging),
        "errors of NumPy": (np.geterr, lambda value: np.seterr(**value)),
        "error function of NumPy": (np.geterrcall, np.seterrcall),
        "printoptions of NumPy": (np.get_printoptions, lambda value: np.set_printoptions(**value)),
        "timers": (
            lambda: tuple(signal.getitimer(timer) != (0, 0) for timer in _TIMERS),
            lambda _: [signal.setitimer(timer, 0) for timer in _TIMERS],
        ),
        "cores": (lambda: os.sched_getaffinity(0), lambda value: os.sched_setaffinity(0, value)),
        "niceness": (partial(os.getpriority, os.PRIO_PROCESS, 0), partial(os.setpriority, os.PRIO_PROCESS, 0)),
        "scheduler": (partial(os.sched_getscheduler, 0), _cannot_write),
        **{
            name: (partial(resource.getrlimit, number), partial(resource.setrlimit, number))
            for name, number in vars(resource).items()
            if name.startswith("RLIMIT_")
        },
    }


_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def _umask() -> int:
    mask = os.umask(0o777)
    os.umask(mask)
    return mask


def _set_filters(filters: Iterable[Any]) -> None:
    warnings.resetwarnings()  # so that what Python remembers of earlier filters is forgotten
    warnings.filters[:] = list(filters)  # type: ignore[index]


def _set_decimals(context: str) -> None:
    decimal.setcontext(eval(context, vars(decimal)))  # noqa: S307  the text that decimal itself wrote


def _set_logging(value: tuple[int, int, tuple[logging.Handler, ...]]) -> None:
    root = logging.getLogger()
    root.level, root.manager.disable, root.handlers[:] = value[0], value[1], value[2]
    root.manager._clear_cache()  # type: ignore[attr-defined]


def _gpu_settings() -> dict[str, Setting]:
    return {
        "current device": (torch.cuda.current_device, torch.cuda.set_device),
        "current stream": (torch.cuda.current_stream, torch.cuda.set_stream),
        "sync debug mode": (torch.cuda.get_sync_debug_mode, torch.cuda.set_sync_debug_mode),
        "cudnn.benchmark_limit": _attribute(torch.backends.cudnn, "benchmark_limit"),
        "settings of the context and the stream": (_launches.launch_settings, _cannot_write),
    }


class _GpuSettings(_Settings):
    def read(self) -> Values:
        return super().read() if torch.cuda.is_initialized() else {}


_ENVIRON = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")


def variables() -> dict[str, str]:
    """Return the variables as C has them: what a library sets by setenv(3) is not in `os.environ`."""
    found = dict(os.environ)
    entries: Any = _ENVIRON if _ENVIRON else ()
    for entry in itertools.takewhile(bool, entries):
        name, _, value = os.fsdecode(entry).partition("=")
        found[name] = value
    return {name: value for name, value in found.items() if name not in _OF_COMPILER}


_OF_COMPILER = {
    *("TORCHINDUCTOR_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", "TORCH_WARM_POOL", "KMP_DUPLICATE_LIB_OK"),
    *("TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "TRITON_LIBDEVICE_PATH", "DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI"),
}
"""Variables that torch's compiler sets for itself, wherever it compiles."""


class _Variables(Area):
    def read(self) -> Values:
        return {**variables()}

    def write(self, name: str, value: Any) -> None:
        if is_gone(value):
            os.environ.pop(name, None)
            os.unsetenv(name)
        else:
            os.environ[name] = value


class _Signals(Area):
    def read(self) -> Values:
        return {
            signal.Signals(number).name: signal.getsignal(number) for number in signal.valid_signals() if number < signal.SIGRTMIN
        }

    def write(self, name: str, value: Any) -> None:
        signal.signal(signal.Signals[name], value)


PYTHON_SETTINGS = _python_settings()
_FIXED: dict[str, Area] = {
    "torch settings": _Settings(_torch_settings()),
    ENVIRONMENT: _Variables(),
    PYTHON: _Settings(PYTHON_SETTINGS),
    IMPORTS: _Settings({name: _list(getattr(sys, name)) for name in ("path", "meta_path", "path_hooks")}),
    "signal handlers": _Signals(),
    "GPU settings": _GpuSettings(_gpu_settings()),
}


# Settings of torch's compiler.


class _Configuration(Area):
    from_defaults = True

    def __init__(self, module: Any) -> None:
        self._module = module

    def read(self) -> Values:
        """Return what is not as it is without any code; not what `calls.forget_compiled` sets."""
        found = {}
        for name, value in self._module._get_dict(skip_default=True).items():
            entry = self._module._config[name]
            if name != "compile_threads" and value not in (entry.default, entry.env_value_default, entry.env_value_force):
                found[name] = value
        return found

    def write(self, name: str, value: Any) -> None:
        setattr(self._module, name, self._module._config[name].default if is_gone(value) else value)


# Namespaces.


WATCHED = ("torch", "triton", "numpy", "builtins", "gc", "math", "os", "random", "sys", "threading", "time", "warnings")
"""Modules whose public submodules, and functions, an author's code may replace for all."""


def _namespaces(own: Collection[str]) -> dict[str, Area]:
    found: dict[str, Area] = {"sys.modules": _Namespace(sys.modules, is_own=True)}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if isinstance(module, types.ModuleType) and (top in own or (top in WATCHED and _is_public(name))):
            found |= _namespaces_of(name, module)
    return found


@functools.cache  # a host fills it for its workers
def _namespaces_of(name: str, module: types.ModuleType) -> dict[str, Area]:
    top = name.partition(".")[0]
    classes = {
        f"{name}.{each}": value for each, value in list(vars(module).items()) if top == "torch" and _is_class_of(name, value)
    }
    return {name: _Namespace(vars(module), is_own=top not in WATCHED)} | {
        each: _ClassNamespace(value) for each, value in classes.items()
    }


class _ClassNamespace(Area):
    is_code = True

    def __init__(self, owner: type) -> None:
        self._owner, self._names = owner, vars(owner)

    def read(self) -> Values:
        return {**self._names}  # not dict(…), which code may have replaced

    def write(self, name: str, value: Any) -> None:
        if is_gone(value):
            delattr(self._owner, name)
        else:
            setattr(self._owner, name, value)

    def hides(self, name: str) -> bool:
        return any(name in vars(base) for base in self._owner.__mro__[1:-1])


def _is_class_of(module: str, value: object) -> bool:
    """Return whether a value is a class of this module that code can change; never by a question to the value itself."""
    if not issubclass(type(value), type) or module.startswith("torch._C"):
        return False
    ask = type.__getattribute__
    return bool(ask(value, "__flags__") & _HEAP_TYPE) and ask(value, "__module__") == module


_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the attributes of other types cannot be replaced."""


def _is_public(name: str) -> bool:
    return name.startswith("torch._C") or not any(part.startswith("_") for part in name.split("."))


_BUILTINS = vars(builtins)


class _Namespace(Area):
    is_code = True

    def __init__(self, names: dict[str, Any], *, is_own: bool = False) -> None:
        self._names, self.is_own = names, is_own

    def read(self) -> Values:
        return {**self._names}  # not dict(…), which code may have replaced

    def write(self, name: str, value: Any) -> None:
        if is_gone(value):
            del self._names[name]
        else:
            self._names[name] = value

    def hides(self, name: str) -> bool:
        return name in _BUILTINS
