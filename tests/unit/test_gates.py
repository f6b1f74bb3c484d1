"""Gates on what a case takes besides time."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from ratchet.common.baseline_update import record
from ratchet.core import units
from ratchet.core.config import load_settings
from ratchet.core.errors import UsageError
from ratchet.core.judge.gates import FEWEST_PAIRS, LEVEL_SHARE, OVERHEAD_PAIRS, gated_overheads, growths
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import OVERHEADS, CaseRun, OverheadName, OverheadPair, Policy, Resources
from ratchet.core.records.verdict import Outcome
from ratchet.history.judge import history_run, series_of
from ratchet.history.site_pages import plot_data, summary_of
from tests import examples

USUAL = Resources(spills=0, registers=64, code_size=4096, launches=2)


def case(**changes: int) -> CaseRun:
    """A case whose time did not change, and whose head takes something else."""
    unchanged = examples.compared(*[1.0] * 20)
    return unchanged.model_copy(update={"resources": {"head": USUAL.model_copy(update=changes), "reference": USUAL}})


@pytest.mark.parametrize(
    ("gates", "changes", "sentence", "fails"),
    [
        ({}, {"spills": 348}, "A thread spills up to 348 bytes of registers to memory; in the reference 0 bytes.", False),
        ({}, {"registers": 255, "code_size": 9000, "launches": 9}, None, False),
        ({"spills": "off"}, {"spills": 348}, None, False),
        (
            {"spills": 0},
            {"spills": 8},
            "A thread spills up to 8 bytes of registers to memory; in the reference 0 bytes, where any",
            True,
        ),
        ({"registers": 0.1}, {"registers": 70}, None, False),
        (
            {"registers": 0.1},
            {"registers": 72},
            "uses up to 72 registers; in the reference 64, past the gate of 10 % more.",
            True,
        ),
        ({"registers": "warn"}, {"registers": 65}, "A thread uses up to 65 registers; in the reference 64.", False),
        (
            {"code_size": 1.0},
            {"code_size": 8193},
            "have 8.00 KiB of machine code; in the reference 4.00 KiB, past the gate",
            True,
        ),
        ({"launches": 0}, {"launches": 3}, "A call launches 3 kernels; in the reference 2, where any growth fails.", True),
        ({"launches": 0}, {"launches": 1}, None, False),
    ],
)
def test_what_grows_past_its_gate_is_said_or_fails(
    gates: dict[str, Any], changes: dict[str, int], sentence: str | None, fails: bool
) -> None:
    """A gate fails the case, a warning says both figures, and what is off or shrinks says nothing."""
    policy = Policy(gates=gates)
    run = examples.run_of(case(**changes)).model_copy(update={"policy": policy})
    verdict = judge_run(run, Baseline()).cases[0]
    assert (verdict.outcome is Outcome.FAILED) == fails
    said = verdict.reason if fails else verdict.memory
    assert sentence in said if sentence and said else said is sentence


def test_what_nobody_could_look_at_is_not_gated() -> None:
    """On a CPU no kernel has registers, and of a side whose launches cannot be captured nothing is known."""
    every = Policy(gates={"spills": 0, "registers": 0, "code_size": 0, "launches": 0})
    known = case(spills=8, registers=255)
    alone = known.model_copy(update={"resources": {"head": known.resources["head"]}})
    assert list(growths(alone, every)) == []


def test_other_work_is_no_growth() -> None:
    """A case whose workload changed does not compare, so what its kernels take fails nothing and is not said."""
    other = examples.WORKLOAD.model_copy(update={"flops": 1.0})
    changed = case(launches=3, spills=8).model_copy(update={"workload": other, "reference": (), "reference_performance": None})
    verdict = judge_run(examples.run_of(changed, policy=Policy(gates={"launches": 0})), Baseline()).cases[0]
    assert (verdict.outcome, verdict.memory) == (Outcome.CHANGED, None)


def timed(name: OverheadName, *ratios: float) -> CaseRun:
    """A case whose pairs took 100 ms in the reference, and so many times as long in the head."""
    pairs = tuple(OverheadPair(head_ms=100 * ratio, reference_ms=100) for ratio in ratios)
    return examples.compared(*[1.0] * 20).model_copy(update={"overheads": {name: pairs}})


@pytest.mark.parametrize("name", OVERHEADS)
@pytest.mark.parametrize(
    ("ratios", "fails"),
    [
        ([1.5, 1.52, 1.49, 1.51, 1.5, 1.48, 1.5, 1.53, 1.5, 1.5], True),
        ([1.12, 1.1, 1.14, 1.11, 1.13, 1.12, 1.1, 1.12, 1.12, 1.13], False),  # past the gate, but its interval is not
        ([1.5, 1.0, 1.6, 0.9, 1.5, 1.2, 2.0, 1.5, 0.8, 1.5], False),
        ([1.5, 1.5, 1.5], False),
        ([1.5, 1.5, 1.5, 1.5, 1.5, 9.0, 1.5, 1.5, 1.5, 1.5], False),  # an outlier is evidence of noise, and never left out
        ([1.01] * 10, False),
    ],
)
def test_what_is_timed_besides_calls_fails_by_its_whole_interval(name: OverheadName, ratios: list[float], fails: bool) -> None:
    """A gate on compile time or host time takes an interval that lies past it, of enough pairs, however high the median is."""
    assert [failed for _, failed in growths(timed(name, *ratios), Policy(gates={name: 0.1}))] == ([True] if fails else [])


def test_the_interval_is_that_of_student() -> None:
    """Of all pairs, at the level that the policy leaves to one figure; its lower end is past a gate or not, and it is shown."""
    ratios = [1.25, 1.252, 1.254, 1.251, 1.255, 1.253]
    logs, level = [math.log(ratio) for ratio in ratios], Policy().false_alarm * LEVEL_SHARE
    half = stats.t.ppf(1 - level, len(logs) - 1) * stats.sem(logs)
    ratio, low, high = (math.exp(statistics.fmean(logs) + way * half) for way in (0, -1, 1))
    for gate, fails in ((low - 1 - 1e-6, True), (low - 1 + 1e-6, False)):
        said = list(growths(timed("host_time", *ratios), Policy(gates={"host_time": gate})))
        assert [failed for _, failed in said] == [True] * fails
        assert all(f"in the reference 100.0 ms ({' '.join(units.estimate(ratio, low, high))}), past" in text for text, _ in said)


@pytest.mark.parametrize(("count", "fails"), [(FEWEST_PAIRS - 1, False), (FEWEST_PAIRS, True)])
def test_few_pairs_are_no_evidence(count: int, fails: bool) -> None:
    """However much longer the head took in each."""
    pairs = timed("compile_time", *[2.0, 2.01, 1.99] * 3, 2.0).overheads["compile_time"][:count]
    few = examples.compared(*[1.0] * 20).model_copy(update={"overheads": {"compile_time": pairs}})
    assert bool(list(growths(few, Policy(gates={"compile_time": 0.1})))) == fails


@pytest.mark.parametrize(("ratio", "sentence"), [(1.04, None), (1.07, "past the gate of 5 % more")])
def test_no_gate_on_what_is_timed_is_smaller_than_what_processes_draw(ratio: float, sentence: str | None) -> None:
    """A gate of one per cent on the host's time is one of five; a warning has that floor too."""
    same = timed("host_time", *[ratio, ratio + 1e-4] * 5)
    said = [text for text, _ in growths(same, Policy(gates={"host_time": 0.01}))]
    assert len(said) == (1 if sentence else 0)
    assert all(sentence in text for text in said if sentence)
    assert bool(list(growths(same, Policy(gates={"host_time": "warn"})))) == bool(sentence)


def test_only_what_is_gated_or_warned_of_is_timed_besides_calls() -> None:
    """Nothing without a setting, and nothing that is off."""
    assert gated_overheads(Policy()) == ()
    assert gated_overheads(Policy(gates={"spills": 0, "host_time": "off", "compile_time": "warn"})) == ("compile_time",)
    assert set(gated_overheads(Policy(gates={"host_time": 0.1, "compile_time": 0.1}))) == set(OVERHEADS)


@pytest.mark.slow
def test_unchanged_code_does_not_fail_what_is_timed_besides_calls() -> None:
    """Pairs that scatter by 1 to 20 %, with slow ones among them, fail in none of 4,000 tries at the smallest gate."""
    draw, failed = random.Random(7), 0
    for number in range(4000):
        spread = (0.01, 0.03, 0.08, 0.2)[number % 4]
        ratios = [math.exp(draw.gauss(0, spread) + (draw.random() < 0.1) * draw.choice((-1, 1))) for _ in range(OVERHEAD_PAIRS)]
        failed += any(fails for _, fails in growths(timed("host_time", *ratios), Policy(gates={"host_time": 0})))
    assert failed == 0


def test_small_differences_of_time_are_no_growth() -> None:
    """The difference of two first uses that compile nothing is noise, however many times as long it takes."""
    pairs = tuple(OverheadPair(head_ms=12 + place / 10, reference_ms=1) for place in range(10))
    case = examples.compared(*[1.0] * 20).model_copy(update={"overheads": {"compile_time": pairs}})
    assert list(growths(case, Policy(gates={"compile_time": 0.1}))) == []


def test_the_same_launches_may_take_longer_to_compile() -> None:
    """A case whose kernels are identical, and which was not timed, still fails the gate on its first use."""
    work = examples.compared(*[1.0] * 20)
    same = {"head": "a" * 64, "reference": "a" * 64}
    case = timed("compile_time", *[2.0, 2.01, 1.99] * 3).model_copy(update={"identity": same, "head": (), "reference": ()})
    assert case.workload == work.workload
    run = examples.run_of(case).model_copy(update={"policy": Policy(gates={"compile_time": 0.5})})
    assert judge_run(run, Baseline()).cases[0].outcome is Outcome.FAILED
    assert judge_run(run, Baseline(), Policy()).cases[0].outcome is Outcome.IDENTICAL


def test_gates_are_settings(tmp_path: Path) -> None:
    """They are read as percentages, and a wrong name or value is refused with both."""
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.ratchet.gates]\nspills = "0%"\nregisters = "12.5%"\nmemory = "off"\n')
    assert load_settings(tmp_path, {}, {}).policy.gates == {"spills": 0.0, "registers": 0.125, "memory": "off"}
    for wrong in ("spils = 'warn'", "spills = 'perhaps'", "spills = '-3%'"):
        file.write_text(f"[tool.ratchet.gates]\n{wrong}\n")
        with pytest.raises(UsageError, match="gates"):
            load_settings(tmp_path, {}, {})


def test_history_and_baseline_keep_the_figures() -> None:
    """Each run's figures of the head stand in both, in bytes, seconds and counts, and a site can draw them."""
    known = case(spills=8).model_copy(update={"overheads": timed("host_time", *[1.0] * 10).overheads})
    run = examples.run_of(known)
    report = judge_run(run, Baseline())
    kept = {"spills": 8, "registers": 64, "code_size": 4096, "launches": 2, "host_time": 0.1}
    history = history_run(run, report, Baseline())
    assert history.cases[0].takes == kept
    series = series_of(known.name, [("2026-03/run.json", history, history.cases[0])])
    names = [one["name"] for one in plot_data(summary_of(series, series.hardware), series.points)["series"]]
    assert {"spills", "registers", "code size", "launches", "host time"} <= set(names)
    entry = record(Baseline(), [(run, report)]).baseline.entries(run.environment.fingerprint)[known.name]
    assert {name: figure for name, figure in entry.takes.items() if name != "memory"} == kept
    assert entry.takes["memory"] == report.cases[0].head.peak_memory_bytes  # type: ignore[union-attr]
