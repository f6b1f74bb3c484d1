"""What Triton and inductor choose by timing, with stand-ins for their autotuners, in the shape of Triton 3.6 and torch 2.11."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.core.bench.child.autotuning import AutotuneWatch

KEPT: dict[str, int] = {}
"""The cache on the disk."""


class Autotuner:
    def __init__(self) -> None:
        self.chosen = 0

    def _bench(self, config: int) -> int:
        return config

    def check_disk_cache(self, tuning_key: str, configs: list[int], bench_fn: Callable[[], None]) -> bool:
        if tuning_key in KEPT:
            self.chosen = KEPT[tuning_key]
            return True
        bench_fn()
        KEPT[tuning_key] = self.chosen
        return False

    def run(self, key: str, configs: list[int]) -> bool:
        def benchmark() -> None:
            self.chosen = min(configs, key=self._bench)

        return self.check_disk_cache(key, configs, benchmark)


@pytest.fixture(autouse=True)
def _own_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch adds finders, for what is not loaded yet, which no other test should meet."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tuner of a fresh class, which a watch changes."""
    fresh = type("Autotuner", (), dict(vars(Autotuner)))
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=fresh))
    KEPT.clear()
    return fresh


def test_a_choice_made_beside_others_is_seen_and_not_kept(tuner: Any) -> None:
    """Four workers of each side look at cases at once: a choice of theirs would be in all pairs of this run and the next."""
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    crowded = tuner()
    assert not crowded.run("k", [3, 2])
    assert (crowded.chosen, watch.seen, KEPT) == (2, True, {})

    watch.forget(crowded=False)
    assert not tuner().run("k", [3, 2])
    assert (watch.seen, KEPT) == (True, {"k": 2})

    watch.forget(crowded=True)
    later = tuner()
    assert later.run("k", [3, 2]), "a choice that was made alone serves all"
    assert (later.chosen, watch.seen) == (2, False)


def test_a_release_without_a_cache_of_choices_is_watched_too(tuner: Any) -> None:
    """Triton before 3.4 times in each process."""
    del tuner.check_disk_cache
    watch = AutotuneWatch()
    watch.forget(crowded=True)
    tuner()._bench(1)
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
        "class Autotuner:\n    def _bench(self, config):\n        return config\n"
    )
    own = {name: module for name, module in sys.modules.items() if name.partition(".")[0] != "triton"}
    monkeypatch.setattr(sys, "modules", own)
    monkeypatch.syspath_prepend(tmp_path)
    watch = AutotuneWatch()
    autotuner = importlib.import_module("triton.runtime.autotuner")
    assert not watch.seen
    assert autotuner.Autotuner()._bench(3) == 3
    assert watch.seen
