"""What Triton and inductor choose by timing, with stand-ins for their autotuners, in the shape of Triton 3.6 and torch 2.11."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.gpu_libraries.autotuning import AutotuneWatch

KEPT: dict[str, int] = {}
"""The cache on the disk."""


class Autotuner:
    """The parts of Triton's that choose: ``times`` has the time of each configuration."""

    __name__ = "kernel"

    def __init__(self, times: dict[int, float] | None = None) -> None:
        self.times = times or {3: 3.0, 2: 2.0}
        self.cache: dict[str, int] = {}
        self.timed: list[int] = []

    def prune_configs(self, named: dict[str, Any]) -> list[int]:
        return list(self.times)

    _do_bench: Any = None
    """The author's own."""

    def do_bench(self, config: int, warmup: float = 25, rep: float = 100) -> float:
        if (warmup, rep) == (25, 100):
            self.timed.append(config)
        return self.times[config]

    def _bench(self, config: int) -> list[float]:
        return [self.do_bench(config)] * 3

    def check_disk_cache(self, tuning_key: str, configs: list[int], bench_fn: Callable[[], None]) -> bool:
        if tuning_key in KEPT:
            self.cache[tuning_key] = KEPT[tuning_key]
            return True
        bench_fn()
        KEPT[tuning_key] = self.cache[tuning_key]
        return False

    def run(self, key: str) -> int:
        if key not in self.cache:
            configs = self.prune_configs({})

            def benchmark() -> None:
                times = {config: self._bench(config=config) for config in configs}
                self.cache[key] = min(times, key=times.__getitem__)

            self.check_disk_cache(key, configs, benchmark)
        return self.cache[key]


@pytest.fixture(autouse=True)
def _own_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch adds finders, for what is not loaded yet, which no other test should meet."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tuner of a fresh class, which a watch changes."""
    fresh = type("Autotuner", (), dict(vars(Autotuner)))
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=fresh))
    monkeypatch.setitem(sys.modules, "triton.runtime._async_compile", SimpleNamespace())  # not that of a Triton that is here
    KEPT.clear()
    return fresh


def test_beside_others_the_first_configuration_that_runs_serves_and_is_not_kept(tuner: Any) -> None:
    """Eight workers look at cases at once: a choice of theirs would be chance, and in all pairs of this run and the next."""
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    crowded = tuner({5: float("inf"), 3: 3.0, 2: 2.0})
    assert crowded.run("k") == 3
    assert (crowded.timed, watch.seen, KEPT) == ([5, 3], True, {})


def test_a_choice_made_alone_serves_all_processes(tuner: Any) -> None:
    """The worker that chooses may have looked at the case beside others before."""
    watch, first, later = AutotuneWatch(), tuner(), tuner()
    watch.forget(crowded=True)
    assert first.run("k") == 3
    watch.forget(crowded=False)
    assert first.run("k") == 2
    assert (watch.seen, watch.choices, KEPT) == (False, {"kernel": "2"}, {"k": 2}), "the next process times nothing"

    watch.forget(crowded=True)
    assert later.run("k") == 2
    assert (watch.seen, watch.choices, later.timed) == (False, {"kernel": "2"}, [])


def test_each_process_chooses_anew_where_that_is_asked_for(tuner: Any) -> None:
    """Users without a cache get what their process happens to choose."""
    KEPT["k"] = 3
    watch = AutotuneWatch()
    watch.forget(crowded=False, each_process=True)
    assert tuner().run("k") == 2
    assert (watch.seen, KEPT) == (True, {"k": 3})


def test_what_is_timed_is_said(tuner: Any) -> None:
    """A choice among forty configurations takes seconds, of which nothing is seen otherwise."""
    said: list[str] = []
    watch = AutotuneWatch(said.append)
    watch.forget(crowded=False)
    tuner().run("k")
    assert said == ["timing configuration 1 of 2 of kernel", "timing configuration 2 of 2 of kernel"]


def test_many_configurations_are_looked_at_before_the_best_are_timed(tuner: Any) -> None:
    """Triton's way takes forty seconds for 250; what is a third slower at the first look is not the fastest."""
    times = {number: 1 + number / 20 for number in range(40)}
    watch = AutotuneWatch()
    watch.forget(crowded=False)
    many = tuner({**times, 40: float("inf")})
    assert many.run("k") == 0
    assert many.timed == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("each_process", [False, True])
def test_all_are_timed_where_that_is_what_users_get(tuner: Any, each_process: bool) -> None:
    """An author's own way of timing may take other arguments; each process times all where users have no cache."""
    watch = AutotuneWatch()
    watch.forget(crowded=False, each_process=each_process)
    many = tuner({number: 1.0 + number for number in range(40)})
    if not each_process:
        many._do_bench = many.do_bench
    assert many.run("k") == 0
    assert len(many.timed) == 40


def test_a_kept_choice_costs_nothing(tuner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker of a pair would compile, or look up, forty configurations that nobody uses."""
    monkeypatch.setattr("ratchet.gpu_libraries.autotuning.compile_ahead", lambda *_: pytest.fail("compiled"))
    KEPT["k"] = 3
    watch = AutotuneWatch()
    watch.forget(crowded=False)
    assert tuner().run("k") == 3


def test_a_release_without_a_cache_of_choices_is_watched_too(tuner: Any) -> None:
    """Triton before 3.4 times in each process."""
    del tuner.check_disk_cache
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    tuner()._bench(config=3)
    assert watch.seen


class CachingAutotuner:
    def __init__(self, *, keeps: bool = True) -> None:
        self.save_cache_hook = (lambda config: KEPT.update(k=config)) if keeps else None

    def autotune_to_one_config(self, *configs: int) -> None:
        if self.save_cache_hook:
            self.save_cache_hook(min(configs))


def test_what_torch_compile_chooses_beside_others_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor times two configurations of any pointwise kernel, and keeps the choice: the one that it makes alone."""
    fresh = type("CachingAutotuner", (), dict(vars(CachingAutotuner)))
    monkeypatch.setitem(sys.modules, "torch._inductor.runtime.triton_heuristics", SimpleNamespace(CachingAutotuner=fresh))
    KEPT.clear()
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    kernel = fresh()
    kernel.autotune_to_one_config(3, 2)
    assert (watch.seen, KEPT) == (True, {})

    watch.forget(crowded=False)
    kernel.autotune_to_one_config(3, 2)
    assert (watch.seen, KEPT) == (False, {"k": 2}), "later processes read it, and time nothing"

    fresh(keeps=False).autotune_to_one_config(3, 2)
    assert watch.seen, "without its cache each process chooses anew"


def test_torch_compile_chooses_no_algorithm_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its choice would be in the code that it keeps, so the case fails there, and is done again alone."""
    fresh = type("AlgorithmSelectorCache", (), {"benchmark": lambda _, choices: min(choices)})
    monkeypatch.setitem(sys.modules, "torch._inductor.select_algorithm", SimpleNamespace(AlgorithmSelectorCache=fresh))
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    with pytest.raises(SystemExit, match="by timing them"):
        fresh().benchmark([3, 2])
    watch.forget(crowded=False)
    assert (fresh().benchmark([3, 2]), watch.seen) == (2, False)


def test_what_is_imported_after_the_watch_began_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may import an autotuner in the first call of a case."""
    (tmp_path / "triton" / "runtime").mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "runtime" / "__init__.py").touch()
    (tmp_path / "triton" / "runtime" / "autotuner.py").write_text(
        "class Autotuner:\n    cache = {}\n    def _bench(self, config):\n        return [config]\n"
    )
    own = {name: module for name, module in sys.modules.items() if name.partition(".")[0] != "triton"}
    monkeypatch.setattr(sys, "modules", own)
    monkeypatch.syspath_prepend(tmp_path)
    watch = AutotuneWatch()
    autotuner = importlib.import_module("triton.runtime.autotuner")
    assert not watch.seen
    assert autotuner.Autotuner()._bench(config=3) == [3]
    assert watch.seen
