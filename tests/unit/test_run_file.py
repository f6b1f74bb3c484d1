"""Runs read case by case: the same record as from the whole text, and no fault overlooked."""

from __future__ import annotations

import base64
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from ratchet.core.errors import RecordError
from ratchet.core.records.files import LARGEST_BYTES, dumps, load, run_of_lines
from ratchet.core.records.run import CaseRun, RunRecord, packed_samples
from tests import examples
from tests.pages import h200_run

RUN = examples.run_record().model_copy(update={"best": examples.run_record().cases[:2]})
TEXT = dumps(RUN)


def read(text: str, most: int = LARGEST_BYTES) -> RunRecord | None:
    """What `run_of_lines` makes of a text."""
    return run_of_lines(BytesIO(text.encode()), "run.json", most)


def test_same_record() -> None:
    """The record is the one that was saved, and its text is the same again."""
    record = read(TEXT)
    assert record == RUN
    assert record is not None
    assert dumps(record) == TEXT


def test_saved_run_takes_the_quick_way() -> None:
    """A run as it is saved is read by case, with and without cases measured against the best commit."""
    assert read(dumps(RUN.model_copy(update={"best": ()}))) == RUN.model_copy(update={"best": ()})
    assert len(RUN.cases) > 2


def test_a_case_is_a_line() -> None:
    """Each case stands on one line, whole."""
    lines = [line.strip().rstrip(",") for line in TEXT.splitlines() if line.startswith('    {"name"')]
    assert [json.loads(line)["name"] for line in lines] == [case.name for case in (*RUN.cases, *RUN.best)]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(TEXT)),
        json.dumps(json.loads(TEXT), indent=2),
        TEXT.replace("\n", "\r\n"),
        json.dumps(examples.listed(RUN)),
    ],
    ids=["one line", "indented", "other line ends", "samples listed, as earlier"],
)
def test_other_layouts(text: str, tmp_path: Path) -> None:
    """A run that somebody laid out in another way, or an earlier ratchet wrote, loads as the same record."""
    (tmp_path / "run.json").write_bytes(text.encode())
    assert load(tmp_path / "run.json", RunRecord) == RUN


CASES = json.loads(TEXT)["cases"]
HEAD = CASES[0]["head"]
BEST = re.compile(r'  "best": \[\n(.*}),?\n')
BROKEN: dict[str, Callable[[str], str]] = {
    "a field twice in a case": lambda text: text.replace('"benchmark": ', '"benchmark": "x", "benchmark": ', 1),
    "a field twice around the cases": lambda text: text.replace('  "kind":', '  "kind": "run",\n  "kind":', 1),
    "the cases twice": lambda text: text.replace('  "cases": [', '  "cases": [],\n  "cases": [', 1),
    "the cases again at the end": lambda text: text.rstrip()[:-1] + ', "cases": []}',
    "a sample too large": lambda text: text.replace(
        HEAD, edited(HEAD, lambda side: side.replace(b"[6,", b"[6,9007199254740991,1,", 1))
    ),
    "more samples than blocks": lambda text: text.replace(HEAD, edited(HEAD, lambda side: side + bytes(8))),
    "half a sample": lambda text: text.replace(HEAD, edited(HEAD, lambda side: side + b"x")),
    "samples cut off": lambda text: text.replace(HEAD, base64.b64encode(base64.b64decode(HEAD)[:-9]).decode()),
    "something after the samples": lambda text: text.replace(HEAD, base64.b64encode(base64.b64decode(HEAD) + b"x").decode()),
    "samples that are no text of ours": lambda text: text.replace(HEAD, "%" + HEAD),
    "samples that are not compressed": lambda text: text.replace(HEAD, "AAAA" + HEAD),
    "a bomb of samples": lambda text: text.replace(HEAD, base64.b64encode(zlib.compress(bytes(40 * 2**20))).decode()),
    "a flag that is a number": lambda text: text.replace(HEAD, edited(HEAD, lambda side: side.replace(b"false", b"0", 1))),
    "a version that is no number": lambda text: text.replace('"schema_version": 1', '"schema_version": true', 1),
    "no version": lambda text: text.replace('  "schema_version": 1,\n', "", 1),
    "a comma too many": lambda text: text.replace("},\n    {", "},,\n    {", 1),
    "a comma too few": lambda text: text.replace("},\n    {", "}\n    {", 1),
    "a comma after the last case": lambda text: text.replace("}\n  ]", "},\n  ]", 1),
    "a case twice": lambda text: text.replace(CASES[1]["name"], CASES[0]["name"], 1),
    "a case twice against the best commit": lambda text: BEST.sub(r"\g<0>\g<1>,\n", text),
    "a figure that no division stands": lambda text: text.replace('"median_time_ms": ', '"median_time_ms": 1e-308, "x": ', 1),
    "an end too early": lambda text: text[: len(text) // 2],
    "something after the end": lambda text: text + "{}",
    "a name that is no UTF-8": lambda text: text.replace(CASES[0]["name"], CASES[0]["name"] + "\\ud800", 1),
}


def edited(side: str, edit: Callable[[bytes], bytes]) -> str:
    """The text of a side whose content was changed."""
    return base64.b64encode(zlib.compress(edit(zlib.decompress(base64.b64decode(side))))).decode()


@pytest.mark.parametrize("fault", BROKEN)
def test_faults(fault: str, tmp_path: Path) -> None:
    """No fault passes because a text was read in parts, and the sentence names the file."""
    text = BROKEN[fault](TEXT)
    assert text != TEXT
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RecordError, match=r"run\.json"):
        load(tmp_path / "run.json", RunRecord)


def test_size() -> None:
    """A text that is longer than allowed is not read."""
    assert read(TEXT, len(TEXT.encode()) - 1) is None
    assert read(TEXT, len(TEXT.encode())) == RUN


def test_cases_elsewhere() -> None:
    """A list of cases within another field is not taken for the run's."""
    inner = '"head": {"commit": "x",\n  "cases": [\n    {}\n  ]}'
    with pytest.raises(RecordError):
        read(TEXT.replace('  "kind":', f'  {inner},\n  "kind":', 1))


def test_samples_are_tuples_of_eight_bytes_each() -> None:
    """Samples read as an ordinary tuple, compare, and survive a copy; in memory they take what doubles take."""
    block = RUN.cases[0].head[0].blocks[0]
    assert isinstance(block.samples_ms, tuple)
    assert block.samples_ms == tuple(examples.listed(RUN)["cases"][0]["head"][0]["blocks"][0]["samples_ms"])
    assert packed_samples(block).itemsize == 8


def shuffled(case: CaseRun) -> CaseRun:
    """The case with the samples of each block in another order: samples that repeat in order would pack to nothing."""
    order = random.Random(1)
    sides = {
        side: tuple(
            replace(one, blocks=tuple(replace(block, samples_ms=order.sample(block.samples_ms, k=30)) for block in one.blocks))
            for one in getattr(case, side)[:20]
        )
        for side in ("head", "reference")
    }
    return case.model_copy(update=sides)


def test_a_case_of_a_gpu_is_small() -> None:
    """A case of 20 pairs that was measured on an H200, 300 samples in each process, takes at most 20 KB, and loses no sample."""
    timed = [case for case in h200_run().cases if case.head]
    assert len(timed) > 3
    for case in (shuffled(examples.longer(each, 3)) for each in timed):
        assert sum(len(block.samples_ms) for worker in case.head for block in worker.blocks) == 6_000
        text = case.model_dump_json()
        assert len(text) < 20_000, case.name
        assert CaseRun.model_validate_json(text, strict=True) == case
