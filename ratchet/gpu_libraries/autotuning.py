"""Notice whether Triton or torch.compile chose among configurations by timing them: the next time, nothing may run beside it.

`child.worker` uses it in its own process. A choice made while another process uses the GPU may be another one, so it is not kept.

Kernels are compiled on all cores before an autotuner times its configurations, and each of them once for all workers of both
sides. What is compiled is in Triton's cache on the disk from then on, also if the check is interrupted.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import struct
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ratchet.gpu_libraries.libraries import WhenImported

MOST_THREADS = 16
"""Threads that compile. A sixth of the work needs Python's lock, so that more would wait for each other."""


def name_of(tuner: Any) -> str:
    """Return the name of the kernel of one of Triton's autotuners."""
    function = tuner
    while not hasattr(function, "__name__") and hasattr(function, "fn"):
        function = function.fn
    return str(getattr(function, "__name__", "a kernel"))


def compile_ahead(tuner: Any, configurations: Sequence[Any], named: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Compile a kernel for all configurations of an autotuner, which is about to call it with these arguments.

    Needs Triton 3.4, whose `AsyncCompileMode` hands compilations to threads. What fails here fails again there.
    """
    mode = getattr(sys.modules.get("triton.runtime._async_compile"), "AsyncCompileMode", None)
    if mode is None or len(configurations) < 2:
        return
    say(f"compiling {len(configurations)} configurations of {name_of(tuner)}")
    arguments = tuple(tuner.nargs.values())
    # Whatever goes wrong here costs time only: the autotuner compiles what is missing. Triton filters warnings while it compiles,
    # and its threads restore them in any order, so the filters from before are restored once all have ended.
    with (
        contextlib.suppress(Exception),
        warnings.catch_warnings(),
        ThreadPoolExecutor(MOST_THREADS) as pool,
        mode(pool, ignore_errors=True),
    ):
        for each in configurations:
            with contextlib.suppress(Exception):
                values = each.all_kwargs()
                if each.pre_hook:  # it may set what the kernel is compiled for, such as the shape of a block
                    each.pre_hook({**tuner.nargs, **named, **values})
                tuner.fn.run(*arguments, **{**named, "warmup": True}, **values)


def once_for_all(compile_it: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    """Return Triton's compiler so that no two processes compile the same kernel at the same time: the second finds it made."""

    @functools.wraps(compile_it)
    def compiled(src: Any, target: Any = None, options: Any = None, **named: Any) -> Any:
        say(f"compiling {getattr(src, 'name', 'a kernel')}")
        of_source = src.hash() if hasattr(src, "hash") else (os.getpid(), threading.get_ident())
        with _held(f"{of_source} {target} {options}"):
            return compile_it(src, target=target, options=options, **named)

    return compiled


@contextlib.contextmanager
def _held(key: str) -> Iterator[None]:
    """Hold one byte of a file that this user's processes share; without such a file, hold nothing."""
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
    try:
        path = Path(tempfile.gettempdir(), f"ratchet-compiling-{os.getuid()}.lock")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            # A lock of the open file (fcntl(2)), which excludes threads too, and ends with whoever holds it.
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        yield
    finally:
        os.close(file)


_Method = Callable[..., Any]
_NEVER = [float("inf")] * 3
"""Triton's times of a configuration that does not run."""


_MANY = 24
"""More configurations than this are first timed quickly."""
_FINALISTS, _NEAR = 16, 1.3
"""Configurations that are timed as Triton does: the fastest of the quick ones, up to so many times as slow as the best of them.

Triton spends 0.13 s or more on each, which is half a minute for the 250 of flash-linear-attention's `gla`."""
_QUICK_MS = {"warmup": 1, "rep": 5}
"""Milliseconds of a quick look, in the words of `triton.testing.do_bench`."""


class _Chosen(BaseException):
    """The end of a choice that is not to be kept; no Exception, so that nobody takes it for an error."""


@dataclass
class _Choosing:
    """An autotuner, and the configurations among which it chooses."""

    tuner: Any
    configurations: Sequence[Any] = ()
    done: int = 0
    """Those that it has timed."""
    has_one: bool = False
    """One of them runs."""
    finalists: Sequence[Any] = ()


class AutotuneWatch:
    """Notes what is timed in this process to choose among configurations, and has Triton compile these first.

    All configurations among which Triton is about to choose are compiled first, on all cores. While other workers use the GPU
    (``crowded``), a choice would be chance: there, the first configuration that runs serves, and the choice is not kept.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Begin to watch what is loaded, and the rest once it is. In a release with other names nothing is seen.

        ``say`` gets what this process is busy with; threads that compile call it too.
        """
        self._say = say
        self._timed = 0
        self._crowded = self._each_process = False
        self._choosing: dict[int, _Choosing] = {}
        """Number of an autotuner → how far it is."""
        _wrap("torch._inductor.select_algorithm", "AlgorithmSelectorCache", benchmark=self._refused_if_crowded)
        heuristics = "torch._inductor.runtime.triton_heuristics"
        _wrap(heuristics, "CachingAutotuner", autotune_to_one_config=self._inductor_if_crowded)
        # The last method is there from Triton 3.4 on: with TRITON_CACHE_AUTOTUNING.
        tuner = {"prune_configs": self._noted, "_bench": self._counted, "check_disk_cache": self._not_kept_if_crowded}
        _wrap("triton.runtime.autotuner", "Autotuner", **tuner)
        _wrap("triton.compiler", "", compile=partial(once_for_all, say=say))

    def _noted(self, prune: _Method) -> _Method:
        """Return the method that leaves an autotuner the configurations among which it chooses, unless its choice is kept."""

        def pruned(tuner: Any, *arguments: Any, **named: Any) -> Any:
            found = prune(tuner, *arguments, **named)
            self._choosing[id(tuner)] = _Choosing(tuner, found)
            return found

        return pruned

    def _counted(self, bench: _Method) -> _Method:
        """Return the method that times one configuration: before the first, all are compiled, and many are timed quickly."""

        def counted(tuner: Any, *arguments: Any, config: Any, **named: Any) -> Any:
            self._timed += 1
            state = self._choosing.setdefault(id(tuner), _Choosing(tuner))
            if self._crowded and state.has_one:
                return _NEVER
            look = partial(bench, tuner, *arguments, **named)
            if not state.done:
                compile_ahead(tuner, state.configurations, named, self._say)
                state.finalists = state.configurations if self._crowded else self._finalists(state, look)
            state.done += 1
            if state.finalists and config not in state.finalists:
                return _NEVER
            self._say(f"timing configuration {state.done} of {len(state.configurations)} of {name_of(tuner)}")
            times = look(config=config)
            state.has_one = state.has_one or bool(times and times[0] != float("inf"))
            return times

        return counted

    def _finalists(self, state: _Choosing, look: _Method) -> Sequence[Any]:
        """Return the configurations that are worth timing as long as Triton does.

        All where these are few, where its author has a way of timing of his own, or where each process chooses as users' do.
        """
        tuner, configurations = state.tuner, state.configurations
        if len(configurations) <= _MANY or self._each_process or getattr(tuner, "_do_bench", True) is not None:
            return configurations
        full = tuner.do_bench
        tuner.do_bench = partial(full, **_QUICK_MS)
        try:
            times = []
            for number, config in enumerate(configurations, start=1):
                self._say(f"looking at configuration {number} of {len(configurations)} of {name_of(tuner)}")
                times.append(look(config=config)[0])
        finally:
            tuner.do_bench = full
        ranked = sorted(zip(times, configurations, strict=True), key=lambda pair: pair[0])
        return [config for time, config in ranked[:_FINALISTS] if time <= ranked[0][0] * _NEAR]

    def _not_kept_if_crowded(self, keep: _Method) -> _Method:
        def guarded(tuner: Any, key: Any, configs: Any, choose: Callable[[], object]) -> Any:
            def choose_only() -> None:
                choose()
                raise _Chosen

            if self._each_process:
                choose()
                return False
            before = self._timed
            try:
                found = keep(tuner, key, configs, choose_only if self._crowded else choose)
            except _Chosen:
                return False
            if key and not any(getattr(each, "pre_hook", None) for each in configs):  # else Triton keeps nothing
                self._timed = before
            return found

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

    def forget(self, *, crowded: bool, each_process: bool = False) -> None:
        """Begin to count anew. While others use the GPU too (``crowded``), what is chosen does not enter a cache.

        ``each_process``: no choice is taken from one.
        """
        self._timed, self._crowded, self._each_process = 0, crowded, each_process
        for state in self._choosing.values():  # another case may have other shapes, of which the author's key says nothing
            state.tuner.cache.clear()
        self._choosing.clear()

    @property
    def choices(self) -> dict[str, str]:
        """Kernel → the configurations that were chosen since `forget`, as Triton writes them."""
        found: dict[str, dict[str, None]] = {}
        for state in self._choosing.values():
            found.setdefault(name_of(state.tuner), {}).update(dict.fromkeys(map(str, state.tuner.cache.values())))
        return {name: "; ".join(configurations) for name, configurations in found.items()}

    @property
    def seen(self) -> bool:
        """Return whether a configuration was timed since `forget`."""
        return self._timed > 0


def _wrap(name: str, owner: str, **wrappers: Callable[[_Method], _Method]) -> None:
    """Put wrappers around methods of a class, or functions of a module, as far as it has them, now or once it is imported."""

    def wrap(module: ModuleType) -> None:
        kind = getattr(module, owner, None) if owner else module
        for each, wrapper in wrappers.items():
            if method := getattr(kind, each, None):
                setattr(kind, each, functools.wraps(method)(wrapper(method)))

    if name in sys.modules:
        wrap(sys.modules[name])
    else:
        sys.meta_path.insert(0, WhenImported(name, wrap))
