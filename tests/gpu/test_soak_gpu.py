"""`ratchet doctor soak` on a real GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu.test_check_gpu import SCALE
from tests.integration.playground import Playground, new_repository, wait_until

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


def test_a_planted_slowdown_is_caught_on_the_gpu(tmp_path: Path) -> None:
    """Unchanged code passes, and 5 % of further calls are red with either clock; the figure is that which was planted."""
    new_repository(tmp_path / "repo", {"bench/scale.py": SCALE})
    play = Playground(tmp_path)
    done = play.finish(play.start("soak", "--device", "cuda", "--plant", "5%", "--time", "2m", "--json"), 300)
    found = {round(meter["planted"], 3): meter for meter in json.loads(done.out)}
    assert set(found) == {0, 0.05}, done
    assert found[0]["red"]["count"] == 0
    assert found[0.05]["answers"] == {"REGRESSED": 2}
    assert all(0.045 < case["slower"] < 0.055 for case in found[0.05]["cases"])
    play.assert_clean()


def test_a_soak_gives_the_gpu_to_a_check(tmp_path: Path) -> None:
    """A check that would not wait finds the GPU free and fit, and passes; the soak goes on afterwards."""
    new_repository(tmp_path / "repo", {"bench/scale.py": SCALE})
    play = Playground(tmp_path)

    def lines() -> int:
        return sum(path.read_text(encoding="utf-8").count("\n") for path in play.repo.glob("results/soak/*.jsonl"))

    child = play.start("soak", "--device", "cuda", "--time", "10m")
    wait_until(lambda: lines() >= 1 or child.poll() is not None, "no decision was kept")
    done = play.finish(play.start("check", "--device", "cuda", "--base", "HEAD", "--time-identical"), 300)
    assert done.code == 0, done
    assert not done.run.warnings, done.run.warnings
    before = lines()
    wait_until(lambda: lines() > before or child.poll() is not None, "the soak did not go on")
    child.terminate()
    assert play.finish(child).code == 130
    play.assert_clean()
