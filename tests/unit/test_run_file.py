"""Runs read case by case: the same record as from the whole text, and no fault overlooked."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import RecordError
from ratchet.core.records import files
from ratchet.core.records.files import LARGEST_BYTES, dumps, load, read_by_case
from ratchet.core.records.run import RunRecord, packed_samples
from tests import examples

RUN = examples.run_record().model_copy(update={"best": examples.run_record().cases[:2]})
TEXT = dumps(RUN)


def parse(text: bytes) -> dict[str, Any]:
    """An object in which no field stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise RecordError("twice", "")
        return dict(pairs)

    try:
        fields: dict[str, Any] = json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise RecordError(str(error), "") from None
    return fields


def read(text: str, most: int = LARGEST_BYTES) -> RunRecord | None:
    """What `read_by_case` makes of a text."""
    return read_by_case(BytesIO(text.encode()), parse, most)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 4096, 2**20])
def test_same_record(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the text is cut into chunks, the record is the one that was saved, and its text is the same again."""
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk_bytes)
    record = read(TEXT)
    assert record == RUN
    assert record is not None
    assert dumps(record) == TEXT


def test_saved_run_takes_the_quick_way() -> None:
    """A run as it is saved is read by case, with and without cases measured against the best commit."""
    assert read(dumps(RUN.model_copy(update={"best": ()}))) == RUN.model_copy(update={"best": ()})
    assert len(RUN.cases) > 2


@pytest.mark.parametrize(
    "text", [json.dumps(json.loads(TEXT)), json.dumps(json.loads(TEXT), indent=2), TEXT.replace("\n", "\r\n")]
)
def test_other_layouts(text: str, tmp_path: Path) -> None:
    """A run that somebody laid out in another way loads as the same record."""
    (tmp_path / "run.json").write_bytes(text.encode())
    assert load(tmp_path / "run.json", RunRecord) == RUN


CASES = json.loads(TEXT)["cases"]
BROKEN: dict[str, Callable[[str], str]] = {
    "a field twice in a block": lambda text: text.replace('"index": 0,', '"index": 0,\n "index": 0,', 1),
    "a flag twice in one block and not in the next": lambda text: text.replace(
        '"exposed": false', '"exposed": false, "exposed": false', 1
    ),
    "a field twice in a case": lambda text: text.replace('      "benchmark":', '      "benchmark": "x",\n      "benchmark":', 1),
    "a field twice around the cases": lambda text: text.replace('  "kind":', '  "kind": "run",\n  "kind":', 1),
    "the cases twice": lambda text: text.replace('  "cases": [', '  "cases": [],\n  "cases": [', 1),
    "the cases again at the end": lambda text: text.rstrip()[:-1] + ', "cases": []}',
    "a sample too large": lambda text: text.replace('"samples_ms": [', '"samples_ms": [1e9, ', 1),
    "a sample that is no number": lambda text: text.replace('"samples_ms": [', '"samples_ms": [NaN, ', 1),
    "a sample with two points": lambda text: text.replace('"samples_ms": [', '"samples_ms": [1.2.3, ', 1),
    "samples without a comma": lambda text: text.replace('"samples_ms": [', '"samples_ms": [1 2, ', 1),
    "no sample": lambda text: text.replace('"throttled": false', '"throttled": 0', 1),
    "a version that is no number": lambda text: text.replace('"schema_version": 1', '"schema_version": true', 1),
    "no version": lambda text: text.replace('  "schema_version": 1,\n', "", 1),
    "a comma too many": lambda text: text.replace("\n    },\n", "\n    },,\n", 1),
    "a comma too few": lambda text: text.replace("\n    },\n", "\n    }\n", 1),
    "an end too early": lambda text: text[: len(text) // 2],
    "something after the end": lambda text: text + "{}",
    "a name that is no UTF-8": lambda text: text.replace(CASES[0]["name"], CASES[0]["name"] + "\\ud800", 1),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_faults(fault: str, tmp_path: Path) -> None:
    """No fault passes because a text was read in parts."""
    text = BROKEN[fault](TEXT)
    assert text != TEXT
    assert read(text) is None
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RecordError):
        load(tmp_path / "run.json", RunRecord)


def test_size() -> None:
    """A text that is longer than allowed is not read."""
    assert read(TEXT, len(TEXT.encode()) - 1) is None
    assert read(TEXT, len(TEXT.encode())) == RUN


def test_cases_elsewhere() -> None:
    """A list of cases within another field is not taken for the run's."""
    inner = '"head": {"commit": "x",\n  "cases": [\n    {}\n  ]}'
    assert read(TEXT.replace('  "kind":', f'  {inner},\n  "kind":', 1)) is None


def test_samples_are_tuples_of_eight_bytes_each() -> None:
    """Samples read as an ordinary tuple, compare, and survive a copy; in memory they take what doubles take."""
    block = RUN.cases[0].head[0].blocks[0]
    assert isinstance(block.samples_ms, tuple)
    assert block.samples_ms == tuple(json.loads(TEXT)["cases"][0]["head"][0]["blocks"][0]["samples_ms"])
    assert packed_samples(block).itemsize == 8
