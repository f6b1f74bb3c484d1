"""Recorded pairs, judged as they are."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from ratchet.core.cli import main
from ratchet.core.records.files import save
from ratchet.core.records.run import Config, Failure
from ratchet.trust.replay_rule import pool_of
from tests import examples


def _written(folder: Path, name: str, ratio: float, workers: int) -> str:
    """A recorded run of one case whose head took so many processes."""
    case = examples.compared(*([ratio] * workers))
    path = folder / name
    save(path, examples.run_of(case.model_copy(update={"head": case.head[:workers]})))
    return str(path)


def test_two_runs_that_cannot_decide_end_with_3_unless_that_may_pass(tmp_path: Path) -> None:
    """One process a side shows nothing, not even of +50 %: 3, and 0 only where somebody asks for that."""
    words = [_written(tmp_path, "a.json", 1.0, 1), _written(tmp_path, "b.json", 1.5, 1), "--repo", str(tmp_path)]
    assert main(["compare", *words]) == 3
    assert main(["compare", *words, "--on-inconclusive", "pass"]) == 0


@pytest.mark.parametrize("words", [(), ("--on-inconclusive", "pass")])
def test_two_runs_without_a_common_case_end_with_3(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where not a single case can be compared, nothing was shown, and nobody can ask for that to pass."""
    for name in ("a", "b"):
        save(tmp_path / name, examples.run_of(examples.compared(1.0, name=f"attention/{name}", config=Config(name=name))))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--repo", str(tmp_path), *words]) == 3
    assert "Nothing to compare: 1 new, 1 missing." in capsys.readouterr().out


def test_a_run_is_not_compared_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same file twice, a link to it and a copy of it are refused with 2, and the sentence names them."""
    first, copy, link = _written(tmp_path, "a.json", 1.0, 8), tmp_path / "copy.json", tmp_path / "link.json"
    shutil.copy(first, copy)
    link.symlink_to(first)
    for other in (first, str(copy), str(link)):
        assert main(["compare", first, other, "--repo", str(tmp_path)]) == 2
        assert "a.json" in capsys.readouterr().err


def test_only_sound_pairs_are_pooled() -> None:
    """A case that was unfit, that failed, or whose work differs between its sides has no pairs to draw from."""
    case = examples.compared(1.0, 1.01, 0.99)
    assert [round(math.exp(pair.log_ratio), 6) for pair in pool_of(case)] == [1.0, 1.01, 0.99]
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    failure = Failure(side="head", stage="measure", message="It crashed.")
    for spoilt in ({"unfit": "hot"}, {"failures": (failure,)}, {"reference_workload": other}, {"reference": ()}):
        assert pool_of(case.model_copy(update=spoilt)) == []
