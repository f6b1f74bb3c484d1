"""Recorded pairs, judged as they are."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from ratchet.core.cli import main
from ratchet.core.judge.comparison import Pair, pairs_of, pairs_of_medians
from ratchet.core.judge.evidence import session_of
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import save
from ratchet.core.records.run import Block, Failure, Policy, WorkerSamples
from ratchet.core.records.verdict import Outcome, SideSummary
from ratchet.trust.archive import load_archive
from ratchet.trust.replay_rule import ReplayVerdict, judge_pairs, pool_of, worst_code
from tests import examples

RECORDED = Path(__file__).parents[1] / "data" / "h200_paired.npz"
NOISE = (0.999, 1.0, 1.001, 1.0005, 0.9995, 1.0, 1.0, 0.9998) * 3


def pool(ratio: float, count: int = 24) -> list[Pair]:
    noises = enumerate(NOISE[:count])
    return [Pair(math.log(ratio * noise), 2 * ratio * noise, 2.0, session_of(pair)) for pair, noise in noises]


def workers(samples: np.ndarray) -> list[WorkerSamples]:
    """Samples of one side, (pairs, blocks, samples), as records."""
    return [
        WorkerSamples(
            pair=pair,
            started_first=True,
            blocks=tuple(Block(index=i, position=i, samples_ms=tuple(block)) for i, block in enumerate(blocks)),
            ready_s=0.1,
            peak_memory_bytes=0,
            error=0.0,
        )
        for pair, blocks in enumerate(samples.tolist())
    ]


def test_pairs_of_an_archive_are_those_of_records() -> None:
    """Samples give the same pairs, to the last digit, whether they stand in an archive or in a run."""
    sides = load_archive(RECORDED)["attn_2k_slow"]
    medians = (np.median(side, axis=2).tolist() for side in (sides.head, sides.reference))
    assert pairs_of_medians(*medians) == pairs_of(workers(sides.head), workers(sides.reference))


def test_each_case_is_judged_by_the_rule_of_a_check() -> None:
    """Slower is red, the same unchanged, faster improved, slower in few pairs unproven; the exit code is that of a check."""
    pools = {"slow": pool(1.05), "same": pool(1.0), "fast": pool(0.9), "few": pool(1.05, 2), "perhaps": pool(1.05, 8)}
    judged = judge_pairs(pools, Policy())
    assert {case.name: case.outcome for case in judged.cases} == {
        "slow": Outcome.REGRESSED,
        "same": Outcome.UNCHANGED,
        "fast": Outcome.IMPROVED,
        "few": Outcome.INCONCLUSIVE,
        "perhaps": Outcome.SLOWER,
    }
    assert judged.exit_code == 1
    assert judged.headline == "1 of 5 cases slower, 1 also slower but not proven; worst: slow +5.0 %."
    slow, _, _, few, _ = judged.cases
    assert (slow.head.median_ms, slow.reference.median_ms) == (pytest.approx(2.1), 2.0)  # type: ignore[union-attr]
    assert slow.head == SideSummary(median_ms=slow.head.median_ms, gflops=0, gb_s=0, peak_memory_bytes=0)  # type: ignore[union-attr]
    assert few.comparison is None
    assert few.reason == "Fewer than 3 pairs were recorded, too few for an interval."


def test_the_verdict_is_that_of_a_check_with_so_many_pairs() -> None:
    """The same pairs in a run whose plan they fill are judged alike, but for the mean of calls, which medians do not know."""
    case = examples.compared(*(1.05 * noise for noise in NOISE))
    report = judge_run(examples.run_of(case, plan=examples.PLAN.model_copy(update={"pairs": 24})), Baseline())
    judged = judge_pairs({case.name: pool_of(case)}, Policy())
    shown = [each.comparison.model_copy(update={"total": None}) for each in report.cases if each.comparison]
    assert [each.comparison for each in judged.cases] == shown
    assert [each.reason for each in judged.cases] == [each.reason for each in report.cases]
    assert (judged.exit_code, judged.headline) == (report.exit_code, report.headline)


def test_nothing_recorded_is_not_measured() -> None:
    """No case is no pass, and neither is a slowdown without proof."""
    assert judge_pairs({}, Policy()).exit_code == 3
    assert judge_pairs({"perhaps": pool(1.05, 8)}, Policy()).exit_code == 3
    assert judge_pairs({"few": pool(1.0, 2)}, Policy(on_inconclusive="fail")).exit_code == 3


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


@pytest.mark.parametrize(("codes", "worst"), [((0, 3, 1), 1), ((0, 3), 3), ((0, 0), 0), ((), 0)])
def test_of_several_files_red_wins(codes: tuple[int, ...], worst: int) -> None:
    """One red file makes all red; without one, what was not measured counts."""
    assert worst_code(ReplayVerdict((), "", code) for code in codes) == worst
