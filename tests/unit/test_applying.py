"""A recommendation becomes what is used, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import RecordError, UsageError
from ratchet.core.records.files import load, save
from ratchet.core.records.run import Policy
from ratchet.core.records.tuned import TUNED_FILE, Tuned
from ratchet.core.request import Request
from ratchet.tune.command import apply_recorded, apply_tuning
from tests import tuning_examples as sample
from tests.examples import ENVIRONMENT, FINGERPRINT

POLICY = Policy()
L4 = ENVIRONMENT.model_copy(update={"fingerprint": FINGERPRINT.model_copy(update={"gpu": "NVIDIA L4"})})


def test_what_is_applied(tmp_path: Path) -> None:
    """The file has the parameters, how much faster they are with the interval, on what, and since when."""
    done = apply_tuning([sample.record()], tmp_path, POLICY)
    assert done.path == tmp_path / TUNED_FILE
    assert done.lines == (
        "attention/training_512 on NVIDIA H200: BLOCK_M=128, BLOCK_N=64, NUM_STAGES=4, NUM_WARPS=8, 18.5 % less time.",
    )
    found = load(done.path, Tuned).cases[sample.CASE]["NVIDIA H200"]
    assert (found.parameters, found.default) == (sample.WINNER, sample.DEFAULT)
    assert found.speedup == pytest.approx(1 / 0.815)
    assert found.speedup_low < found.speedup < found.speedup_high
    assert (found.commit, found.date) == (sample.record().head.commit, sample.SESSION.started_at)


def test_nothing_else_is_lost(tmp_path: Path) -> None:
    """Entries of other cases and GPUs stay, in order; an entry of the same case and GPU is replaced."""
    copy = sample.record(case="copy/a")
    apply_tuning([sample.record(), copy], tmp_path, POLICY)
    apply_tuning([sample.record(environment=L4)], tmp_path, POLICY)
    again = sample.record(best=sample.SECOND, confirmations=(sample.confirmation(sample.SECOND, 0.7),))
    text = apply_tuning([again], tmp_path, POLICY).path.read_text()
    cases = load(tmp_path / TUNED_FILE, Tuned).cases
    assert [(case, list(devices)) for case, devices in cases.items()] == [
        (sample.CASE, ["NVIDIA H200", "NVIDIA L4"]),
        ("copy/a", ["NVIDIA H200"]),
    ]
    assert cases[sample.CASE]["NVIDIA H200"].parameters == sample.SECOND
    assert apply_tuning([again], tmp_path, POLICY).path.read_text() == text


SLOW: dict[str, Any] = {"confirmations": (sample.confirmation(sample.WINNER, 0.97),)}
LUCKY: dict[str, Any] = {"confirmations": (sample.confirmation(sample.WINNER, 0.8, p_value=0.2),)}
SECOND: dict[str, Any] = {"best": sample.SECOND}


@pytest.mark.parametrize(
    "changes",
    [{"best": None, "verdict": "No change recommended: too slow."}, {"best": None, "verdict": ""}, SLOW, LUCKY, SECOND],
    ids=["none", "unfinished", "slow", "lucky", "second"],
)
def test_only_what_was_confirmed(changes: dict[str, Any], tmp_path: Path) -> None:
    """A record is judged again from its comparisons: whatever it says itself, without evidence nothing is written."""
    with pytest.raises(UsageError, match="attention/training_512 on NVIDIA H200: nothing to apply") as error:
        apply_tuning([sample.record(**changes)], tmp_path, POLICY)
    assert "5 %" in error.value.hint
    assert not (tmp_path / TUNED_FILE).exists()


def test_one_of_two(tmp_path: Path) -> None:
    """What wins is applied although another record recommends nothing, and both are told."""
    other = sample.record(case="copy/a", best=None, verdict="No change recommended: too slow.")
    done = apply_tuning([other, sample.record()], tmp_path, POLICY)
    assert done.lines[0] == "copy/a on NVIDIA H200: nothing to apply. No change recommended: too slow."
    assert set(load(done.path, Tuned).cases) == {sample.CASE}


@pytest.mark.parametrize("text", ['{"schema_version": 1, "cas', "{}", '{"schema_version": 1, "cases": {"a": {"b": {}}}}'])
def test_a_damaged_file_is_left_alone(text: str, tmp_path: Path) -> None:
    """A present file that cannot be read is not overwritten."""
    (tmp_path / TUNED_FILE).write_text(text)
    with pytest.raises(RecordError, match=r"tuned\.json"):
        apply_tuning([sample.record()], tmp_path, POLICY)
    assert (tmp_path / TUNED_FILE).read_text() == text


def test_records_of_another_machine(tmp_path: Path) -> None:
    """Records on disk are applied to a checkout without measuring anything; its settings say where and from how much on."""
    save(tmp_path / "x.json", sample.record())
    (tmp_path / "pyproject.toml").write_text('[tool.ratchet]\nbench = "kernels"\n')
    request = Request(folder=tmp_path, command=("ratchet",))
    assert apply_recorded([tmp_path / "x.json"], request, {}).path == tmp_path / "kernels" / TUNED_FILE
    with pytest.raises(UsageError, match="nothing to apply"):
        apply_recorded([tmp_path / "x.json"], request, {"RATCHET_IMPROVEMENT_THRESHOLD": "30%"})
    (tmp_path / "y.json").write_text("{")
    with pytest.raises(RecordError, match=r"y\.json is not JSON"):
        apply_recorded([tmp_path / "y.json"], request, {})
