"""`ratchet tune --jointly`: one set of parameters for several configs, and what each config loses by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.cli import main
from ratchet.core.errors import UsageError
from ratchet.core.records.files import save
from ratchet.tune.joint import joint, joint_lines
from ratchet.tune.records import Evaluation, TuningRecord
from tests import examples, tuning_examples

SETS = [{"A": one, "B": two} for one in (1, 2, 4) for two in (8, 16)]


def record(config: str, costs: dict[int, float | None], **changes: Any) -> TuningRecord:
    """A search of one config in which the set of each number took this share of the default's time; None: it was wrong."""
    evaluations = tuple(_evaluation(number, cost) for number, cost in costs.items())
    fields = {
        "case": f"norm/{config}",
        "benchmark": "norm",
        "config": config,
        "space": {"A": (1, 2, 4), "B": (8, 16)},
        "default": SETS[0],
        "constraints": (),
        "valid": 6,
        "evaluations": evaluations,
        "confirmations": (),
        "others": (),
        "best": None,
    }
    whole = tuning_examples.record()
    return TuningRecord.model_validate(
        {**{name: getattr(whole, name) for name in TuningRecord.model_fields}, **fields, **changes}
    )


def _evaluation(number: int, cost: float | None) -> Evaluation:
    if cost is None:
        return Evaluation(configuration=SETS[number], outcome="wrong", reason="it differs", at=examples.STARTED)
    times = {"samples_ms": (cost,), "median_ms": cost, "normalised": cost}
    return Evaluation(configuration=SETS[number], outcome="correct", at=examples.STARTED, **times)


def test_the_set_with_the_least_loss_over_all_configs_is_chosen() -> None:
    """Neither config's own best is good for the other; the set between them costs each a little."""
    small = record("small", {0: 1.0, 1: 0.5, 2: 0.55, 3: 0.9})
    large = record("large", {0: 1.0, 1: 0.95, 2: 0.66, 3: 0.6})
    choice = joint([small, large])
    assert choice.configuration == SETS[2]
    assert [one.loss for one in choice.configs] == [pytest.approx(0.1), pytest.approx(0.1)]
    assert [one.best for one in choice.configs] == [SETS[1], SETS[3]]
    assert choice.loss == pytest.approx(0.1)
    lines = list(joint_lines(choice))
    assert lines[0].startswith("One set for 2 configs: ")
    assert "loss 10.0 %, 55.0 % of today's time" in lines[2]


COSTS = st.dictionaries(st.integers(0, 5), st.one_of(st.none(), st.floats(0.05, 20)), min_size=1)


@given(st.lists(COSTS, min_size=2, max_size=4))
def test_no_other_set_has_a_smaller_mean_loss(costs: list[dict[int, float | None]]) -> None:
    """Held against every set that has a time on all configs; without one there is a sentence."""
    records = [record(f"c{number}", each) for number, each in enumerate(costs)]
    common = [number for number in range(6) if all(each.get(number) for each in costs)]
    if not common:
        with pytest.raises(UsageError, match="No set of parameters has a time on every config"):
            joint(records)
        return
    products = []
    for number in common:
        product = 1.0
        for each in costs:
            product *= (each[number] or 0) / min(cost for cost in each.values() if cost)
        products.append(product ** (1 / len(costs)))
    assert joint(records).loss == pytest.approx(min(products) - 1, abs=1e-9)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], "two configs or more"),
        ([record("small", {0: 1.0})], "two configs or more"),
        ([record("b", {0: 1.0}, benchmark="other")], "do not have the same parameters"),
    ],
)
def test_records_that_do_not_belong_together(others: list[TuningRecord], said: str) -> None:
    """One sentence says why."""
    with pytest.raises(UsageError, match=said):
        joint([record("small", {0: 1.0}), *others])


def test_the_command_prints_the_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ratchet tune --jointly --record A --record B`, without a device or a checkout."""
    for name in ("small", "large"):
        save(tmp_path / f"{name}.json", record(name, {0: 1.0, 1: 0.5}))
    words = ["tune", "--jointly", "--record", str(tmp_path / "small.json"), "--record", str(tmp_path / "large.json")]
    assert main(words) == 0
    assert "norm/large: loss 0.0 %, 50.0 % of today's time" in capsys.readouterr().out
    assert main(["tune", "norm/small", "--jointly"]) == 2


def test_equal_sets_with_words_and_numbers() -> None:
    """A parameter may have words beside numbers, and between equally fast sets the numbers come first."""
    equal = [_evaluation(0, 1.0).model_copy(update={"configuration": {"A": value}}) for value in ("auto", 1)]
    mixed = {"space": {"A": ("auto", 1)}, "default": {"A": 1}, "evaluations": equal}
    assert joint([record("small", {}, **mixed), record("large", {}, **mixed)]).configuration == {"A": 1}
