"""Compiling ahead and once: with stand-ins for what Triton offers, in the shape of Triton 3.6."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ratchet.gpu_libraries.autotuning import compile_ahead, name_of, once_for_all


class AsyncCompileMode:
    """Hands compilations to an executor, and waits for all at the end."""

    active: AsyncCompileMode | None = None

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor, self.futures = executor, list[Future[Any]]()

    def __enter__(self) -> Self:
        AsyncCompileMode.active = self
        return self

    def __exit__(self, *_: object) -> None:
        wait(self.futures)
        AsyncCompileMode.active = None


class Kernel:
    """A kernel whose compilations wait until two of them run."""

    __name__ = "scan"

    def __init__(self) -> None:
        self.together = threading.Barrier(2, timeout=20)
        self.asked: list[dict[str, Any]] = []

    def run(self, *arguments: Any, **named: Any) -> None:
        self.asked.append(named)
        if named["BLOCK"] == 0:
            raise ValueError("no such block")
        assert AsyncCompileMode.active
        AsyncCompileMode.active.futures.append(AsyncCompileMode.active.executor.submit(self.together.wait))


def configuration(block: int, hook: Callable[[Any], None] | None = None) -> Any:
    return SimpleNamespace(all_kwargs=lambda: {"BLOCK": block}, pre_hook=hook)


def test_all_configurations_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails does not keep the others from it, and each is asked for as a warm-up, which launches nothing."""
    monkeypatch.setitem(sys.modules, "triton.runtime._async_compile", SimpleNamespace(AsyncCompileMode=AsyncCompileMode))
    kernel, said, seen = Kernel(), list[str](), list[int]()
    tuner = SimpleNamespace(fn=kernel, nargs={"x": "tensor"})
    blocks = [configuration(0), configuration(32), configuration(64, lambda values: seen.append(values["BLOCK"]))]
    compile_ahead(tuner, blocks, {"grid": (1,), "warmup": False}, said.append)
    assert not kernel.together.broken
    assert [each["BLOCK"] for each in kernel.asked] == [0, 32, 64]
    assert all(each["warmup"] for each in kernel.asked)
    assert seen == [64], "a hook may set what the kernel is compiled for"
    assert (said, name_of(tuner)) == (["compiling 3 configurations of scan"], "scan")


def test_threads_that_compile_leave_the_filters_of_warnings_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton filters warnings while it compiles, and threads that restore them in another order would leave some behind."""
    monkeypatch.setitem(sys.modules, "triton.runtime._async_compile", SimpleNamespace(AsyncCompileMode=AsyncCompileMode))
    turns = [threading.Event() for _ in range(3)]  # the first one filters, then the second, and the first restores first

    def compile_it(number: int) -> None:
        if number:
            turns[0].wait(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            turns[number].set()
            turns[number + 1].wait(20)
        turns[2].set()

    def run(*_: Any, BLOCK: int, **__: Any) -> None:  # noqa: N803  as kernels name it
        mode = AsyncCompileMode.active
        assert mode
        mode.futures.append(mode.executor.submit(compile_it, BLOCK))

    before = list(warnings.filters)
    compile_ahead(
        SimpleNamespace(fn=SimpleNamespace(run=run), nargs={}), [configuration(0), configuration(1)], {}, lambda _: None
    )
    assert turns[2].is_set()
    assert list(warnings.filters) == before


def test_without_the_mode_the_autotuner_compiles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton before 3.4 has none."""
    monkeypatch.delitem(sys.modules, "triton.runtime._async_compile", raising=False)
    kernel = Kernel()
    compile_ahead(SimpleNamespace(fn=kernel, nargs={}), [configuration(1), configuration(2)], {}, lambda _: None)
    assert kernel.asked == []


def _compile_twice(folder: str, key: str) -> None:
    def compile_it(src: Any, target: Any = None, options: Any = None) -> None:
        made = Path(folder, f"made-{key}")
        if made.exists():
            Path(folder, f"found-{key}").touch()
            return
        time.sleep(0.3)
        made.touch()

    once_for_all(compile_it, lambda _: None)(SimpleNamespace(hash=lambda: key, name="scan"))


def test_of_two_processes_the_second_finds_what_the_first_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides have most kernels in common, and begin to compile them at the same time."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spawn = get_context("spawn")
    processes = [spawn.Process(target=_compile_twice, args=(str(tmp_path), key)) for key in ("a", "a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert sorted(path.name for path in tmp_path.glob("[mf]*-?")) == ["found-a", "made-a", "made-b"]
