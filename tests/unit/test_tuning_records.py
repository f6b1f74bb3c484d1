"""What a search leaves on disk, and what is applied of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ratchet.core.errors import OutputError
from ratchet.core.records.files import dumps, load, save
from ratchet.core.records.run import Tree
from ratchet.core.records.tuned import Tuned, TunedCase
from ratchet.tune.records import Confirmation, Evaluation, TuningFile, TuningRecord, kept_earlier
from tests import tuning_examples as sample
from tests.examples import ENVIRONMENT, FINGERPRINT, STARTED

OTHER = {"BLOCK_M": 32, "BLOCK_N": 64, "NUM_STAGES": 3, "NUM_WARPS": 4}


def test_values_keep_their_types(tmp_path: Path) -> None:
    """A parameter may be a whole number, another number, a word or yes and no, and comes back as what it was."""
    space: Any = {"A": (1, 2), "B": (0.5, 1.0), "C": ("fast", "slow"), "D": (False, True)}
    default: Any = {"A": 1, "B": 1.0, "C": "slow", "D": True}
    record = sample.record(space=space, default=default, evaluations=(), confirmations=(), others=(), best=None)
    save(tmp_path / "x.json", record)
    found = load(tmp_path / "x.json", TuningRecord)
    assert [type(value) for value in found.default.values()] == [int, float, str, bool]
    assert found == record


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"default": OTHER}, "BLOCK_M=32, which is not in the space"),
        ({"default": {"BLOCK_M": 64}}, r"a configuration names \['BLOCK_M'\], the space"),
        ({"evaluations": (sample.evaluation(OTHER),)}, "BLOCK_M=32"),
        ({"others": (sample.confirmation(OTHER, 1.0, "inference_4k"),)}, "BLOCK_M=32"),
        ({"best": sample.DEFAULT}, "best is a configuration that was never confirmed"),
        ({"confirmations": (sample.confirmation(sample.WINNER, 0.8, "inference_4k"),)}, "a confirmation is of inference_4k"),
        ({"sessions": ()}, "at least 1 item"),
        ({"space": {**sample.SPACE, "NONE": ()}}, "at least 1 item"),
    ],
)
def test_an_impossible_record(changes: dict[str, Any], said: str) -> None:
    """What lies outside the space, or recommends what nobody confirmed, is no record."""
    with pytest.raises(ValidationError, match=said):
        sample.record(**changes)


@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        ("correct", {"samples_ms": ()}),
        ("correct", {"median_ms": None}),
        ("dropped", {"samples_ms": ()}),
        ("crash", {"samples_ms": (1.0,)}),
        ("wrong", {"median_ms": 1.0}),
        ("wrong", {"normalised": 1.0}),
        ("compile", {"reason": ""}),
    ],
)
def test_an_impossible_evaluation(outcome: Any, changes: dict[str, Any]) -> None:
    """What was timed has samples; what failed has a reason and no time."""
    with pytest.raises(ValidationError, match="an evaluation"):
        sample.evaluation(sample.DEFAULT, 0, outcome, **changes)


def test_a_confirmation_is_one_or_the_other() -> None:
    """A confirmation has a comparison, or says why not."""
    for changes in ({}, {"reason": "crashed", "comparison": sample.comparison(0.9)}):
        with pytest.raises(ValidationError, match="a comparison, or a reason"):
            Confirmation(configuration=sample.WINNER, config="training_512", **changes)


def test_differences() -> None:
    """Records of one space, workload and machine may be continued; what differs otherwise is named."""
    here = sample.record()
    assert here.differences(sample.record(evaluations=(), verdict="")) == []
    newer = ENVIRONMENT.model_copy(update={"fingerprint": FINGERPRINT.model_copy(update={"driver": "581.1"})})
    other = sample.record(
        environment=newer,
        space={**sample.SPACE, "BLOCK_M": (64, 128, 256), "NUM_WARPS": (4, 8)},
        default=sample.WINNER,
        constraints=(),
        workload=here.workload.model_copy(update={"flops": 2.0}),
    )
    assert [line.partition(":")[0] for line in here.differences(other)] == [
        "workload flops", "driver", "space", "default", "the constraints differ",
    ]  # fmt: skip
    wider = sample.record(space={**sample.SPACE, "X": (1,)}, default={**sample.DEFAULT, "X": 1}, evaluations=(),
                          confirmations=(), others=(), best=None)  # fmt: skip
    assert "space: X is absent → [1]" in here.differences(wider)


def test_a_growing_file(tmp_path: Path) -> None:
    """After each evaluation the file is what `save` writes, and loads."""
    every, file = sample.record(), TuningFile(tmp_path / "x.json")
    hostile = sample.evaluation(sample.DEFAULT, 0, "crash", reason='\n  "evaluations": [],\n')
    grown: tuple[Evaluation, ...] = ()
    for each in (None, hostile, *every.evaluations[:7]):
        grown += (each,) if each else ()
        record = every.model_copy(update={"evaluations": grown})
        file.save(record)
        assert file.path.read_text() == dumps(record)
        assert load(file.path, TuningRecord) == record
    file.save(record.model_copy(update={"verdict": "Done."}))
    assert load(file.path, TuningRecord).verdict == "Done."


def resumed(record: TuningRecord) -> TuningRecord:
    return record.model_copy(update={"sessions": (*record.sessions, sample.SESSION)})


def test_what_is_replaced_is_kept(tmp_path: Path) -> None:
    """A record that was begun anew takes the place of another with its first evaluation, and each earlier one stays whole."""
    path = tmp_path / "a.b.json"
    path.write_text("not even a record")
    assert kept_earlier(path) is None
    for number in (1, 2):
        before = path.read_bytes()
        file, record = TuningFile(path), sample.record(verdict=f"{number}.")
        file.save(record.model_copy(update={"evaluations": (), "confirmations": (), "others": (), "best": None}))
        assert path.read_bytes() == before, "nothing was tried yet"
        for _ in range(2):
            file.save(record)
        kept = tmp_path / "earlier" / f"a.b.{number}.json"
        assert kept_earlier(path) == kept
        assert kept.read_bytes() == before
        assert load(path, TuningRecord) == record
    TuningFile(path).save(resumed(record))
    assert kept_earlier(path) == kept
    assert load(path, TuningRecord) == resumed(record)


def test_what_cannot_be_kept_is_not_replaced(tmp_path: Path) -> None:
    """Where the earlier record cannot be moved away, a sentence says so and it stays."""
    path = tmp_path / "a.b.json"
    save(path, sample.record())
    (tmp_path / "earlier").write_text("in the way")
    with pytest.raises(OutputError, match=r"cannot be moved to .*earlier/a\.b\.1\.json"):
        TuningFile(path).save(sample.record(verdict="Another."))
    assert load(path, TuningRecord) == sample.record()


def test_other_code_is_a_difference() -> None:
    """Evaluations of other code do not stand beside each other, nor those of code that is unknown."""
    first, second = (sample.record(head=Tree(commit=one * 40, content=one * 40)) for one in "ab")
    assert first.differences(sample.record(head=Tree(commit="c" * 40, content="a" * 40))) == []
    assert first.differences(second) == ["code: aaaaaaaaaa → bbbbbbbbbb"]
    unknown = sample.record(head=Tree(commit=""))
    assert unknown.differences(unknown) == ["code: unknown → unknown"]


TUNED = TunedCase(
    parameters=sample.WINNER, speedup=1.2, speedup_low=1.1, speedup_high=1.3, confidence=0.95, pairs=12,
    default=sample.DEFAULT, commit="3" * 40, date=STARTED, torch="2.9.1",
)  # fmt: skip


def test_tuned() -> None:
    """What was applied is found by its case and device, and nothing else is."""
    tuned = Tuned(cases={sample.CASE: {"NVIDIA H200": TUNED}})
    assert tuned.parameters(sample.CASE, "NVIDIA H200") == sample.WINNER
    assert tuned.parameters(sample.CASE, "NVIDIA L4") == tuned.parameters("copy/a", "NVIDIA H200") == {}
    assert FINGERPRINT.processor == "NVIDIA H200"
    assert FINGERPRINT.model_copy(update={"gpu": None}).processor == FINGERPRINT.cpu


@pytest.mark.parametrize("changes", [{"speedup_low": 0.99}, {"speedup": 1.31}, {"speedup": 1.05}, {"speedup_low": 1.0}])
def test_only_improvements_are_tuned(changes: dict[str, float]) -> None:
    """An entry whose interval reaches down to no change is refused."""
    with pytest.raises(ValidationError, match="the interval above 1"):
        TunedCase.model_validate_json(json.dumps(TUNED.model_dump(mode="json") | changes))
