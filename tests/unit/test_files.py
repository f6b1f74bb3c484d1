"""Records on disk."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.common.schema import SCHEMAS, schema
from ratchet.core.errors import OutputError, RecordError
from ratchet.core.records import files
from ratchet.core.records.baseline import Baseline, PlainFigures
from ratchet.core.records.files import dumps, load, save, save_over, save_together
from ratchet.core.records.run import Block, CaseRun, Config, RunRecord
from ratchet.core.records.verdict import ReportRecord
from tests import examples
from tests.recorded_runs import NAMES, recorded

KEPT_SCHEMAS = Path(__file__).parents[2] / "results" / "schema"
FIELD = "fingerprints.h200.affef97004.configs.attention/training_512"
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A saved baseline."""
    saved = tmp_path / "baseline.json"
    save(saved, examples.baseline())
    return saved


def refusal(path: Path, text: str | bytes) -> str:
    """What `load` says about a file with this content."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RecordError) as caught:
        load(path, Baseline)
    assert caught.value.hint
    assert str(path) in caught.value.message
    assert len(caught.value.message) < len(str(path)) + 400
    return caught.value.message.replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("record", "kind"), [(examples.run_record(), RunRecord), (examples.baseline(), Baseline), (Baseline(), Baseline)]
)
def test_round_trip(record: Any, kind: type[Any], tmp_path: Path) -> None:
    """What was saved loads as the same record."""
    save(tmp_path / "x.json", record)
    assert load(tmp_path / "x.json", kind) == record


def test_round_trip_of_reports(tmp_path: Path) -> None:
    """The report on each recorded run loads as the same record."""
    for report in (report for name in NAMES for report in recorded(name).reports.values()):
        save(tmp_path / "x.json", report)
        assert load(tmp_path / "x.json", ReportRecord) == report


@given(
    name=TEXT,
    parameters=st.dictionaries(TEXT, NUMBER | TEXT),
    skipped=st.none() | TEXT,
    tuning=st.dictionaries(TEXT, st.integers()),
)
@settings(deadline=None)  # a busy machine takes its time
def test_round_trip_of_anything(
    tmp_path_factory: pytest.TempPathFactory, name: str, parameters: dict[str, Any], skipped: str | None, tuning: dict[str, int]
) -> None:
    """Any text and any finite number, as key or value, comes back as it was and of the same type."""
    case = CaseRun(name=name, benchmark=name, config=Config(name=name, parameters=parameters), skipped=skipped, tuning=tuning)
    path = tmp_path_factory.mktemp("any") / "x.json"
    save(path, case)
    again = load(path, CaseRun)
    assert again == case
    assert [type(value) for value in again.config.parameters.values()] == [type(value) for value in parameters.values()]


@given(st.lists(st.floats(min_value=1e-9, max_value=1e8), min_size=1))
def test_samples_are_rounded_and_never_to_zero(samples: list[float]) -> None:
    """A sample keeps six decimals of a millisecond; one too short for them keeps three digits; saving again changes nothing."""
    block = Block(index=0, position=0, samples_ms=tuple(samples))
    worker = examples.compared(head=(replace(examples.blocks(0, 1.0), blocks=(block,)),))
    again = CaseRun.model_validate_json(dumps(worker))
    for before, after in zip(samples, again.head[0].blocks[0].samples_ms, strict=True):
        assert after > 0
        assert abs(after - before) <= max(0.51e-6, before * 1e-15)
    assert dumps(again) == dumps(worker)


def test_a_file_is_readable(path: Path) -> None:
    """Fields stand on their own lines in their order, plain numbers on one, text is not escaped, the last line ends."""
    text = path.read_text(encoding="utf-8")
    assert '          "pair_medians_ms": [0.0529, 0.053, 0.0531],\n' in text
    assert text.startswith('{\n  "schema_version": 1,\n  "fingerprints": {\n')
    assert text.endswith("}\n")
    assert "µ" in dumps(Config(name="µ"))
    assert json.loads(text) == examples.baseline().model_dump(mode="json")


def test_a_file_has_ordinary_permissions(path: Path) -> None:
    """Who may read a new file is up to the umask."""
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_what_is_no_file(tmp_path: Path) -> None:
    """A file that is not there is said to be not there, and a folder in its place is refused with the system's words."""
    with pytest.raises(RecordError, match=r"none\.json does not exist"):
        load(tmp_path / "none.json", Baseline)
    with pytest.raises(RecordError, match="cannot be read: Is a directory"):
        load(tmp_path, Baseline)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"median_ms": 0.053', '"median_ms": "0.053"', f"{FIELD}.median_ms: Input should be a valid number: found"),
        ('"median_ms": 0.053', '"median_ms": -1', f"{FIELD}.median_ms: Input should be greater than 0: found -1"),
        ('"median_ms": 0.053', '"median_ms": 1e999', f"{FIELD}.median_ms: Input should be a finite number"),
        ('"median_ms": 0.053', '"median_ms": true', f"{FIELD}.median_ms: Input should be a valid number: found true"),
        ('"median_ms": 0.053', '"median_ms": 0.9', f"{FIELD}: the median 0.9 lies outside its interval 0.0512 to 0.0548"),
        ('"median_ms": 0.053', '"median_ms": NaN', "contains NaN, which is not a JSON number"),
        ('"median_ms": 0.053', '"median_ms": -Infinity', "contains -Infinity, which is not a JSON number"),
        ('"median_ms": 0.053,', "", f"{FIELD}.median_ms: the field is missing"),
        ('"median_ms": 0.053,', '"median_ms": 0.053, "extra": 1,', f"{FIELD}.extra: unknown field"),
        ('"median_ms": 0.053,', '"median_ms": 1, "median_ms": 0.053,', 'the field "median_ms" stands twice'),
        ('"median_ms": 0.053,', '"median_ms" 0.053,', "is not JSON: Expecting ':' delimiter at line 20, column 23"),
        ("[0.0529, 0.053, 0.0531]", "[0.0529, 0]", f"{FIELD}.pair_medians_ms[1]: Input should be greater than 0: found 0"),
        ("[0.0529, 0.053, 0.0531]", "[]", f"{FIELD}.pair_medians_ms: Tuple should have at least 1 item"),
        ('"scale": 0.125', '"scale": null', f"{FIELD}.workload.parameters.scale: a value of an unexpected kind: found null"),
        ('"scale": 0.125', '"scale": 1e999', f"{FIELD}.workload.parameters.scale: a value of an unexpected kind"),
        ("2026-03-14T15:09:26Z", "2026-03-14T15:09:26", f"{FIELD}.timestamp: Input should have timezone info"),
        ("9e8d7c6b5a", "--upload-pack", f"{FIELD}.git_commit: String should match pattern"),
        ("580.95.05", "1.2", "FILE: fingerprints.h200.affef97004: its fingerprint's own key is"),
        ('"schema_version": 1', '"schema_version": 3', "was written by a newer ratchet (schema 3, this one reads 1)"),
        ('"schema_version": 1', '"schema_version": 0', "schema_version: Input should be 1: found 0"),
        ('"schema_version": 1', '"schema_version": true', "schema_version is true, not a whole number"),
        ('"schema_version": 1,', "", "schema_version is missing, so this file is not from ratchet"),
    ],
)
def test_an_impossible_value_is_refused(before: str, after: str, said: str, path: Path) -> None:
    """A refusal names the file, the field and what is wrong with it."""
    text = path.read_text(encoding="utf-8")
    assert before in text
    assert said in refusal(path, text.replace(before, after, 1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON: Expecting value at line 1, column 1. The file seems to be cut off there"),
        ("[]", "does not hold a JSON object"),
        ("null", "does not hold a JSON object"),
        ("[" * 100_000, "cannot be read: it has a number of thousands of digits, or is nested too deeply"),
        (
            f'{{"schema_version": {"9" * 5000}}}',
            "cannot be read: it has a number of thousands of digits, or is nested too deeply",
        ),
        (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
        ('{"schema_version": 1, "fingerprints": "\\ud800"}', "FILE: Invalid JSON: "),
        ('{"configs": {"training_512": {"median_ms": 0.053}}}', "schema_version is missing"),
    ],
)
def test_what_is_no_record_is_refused(content: str | bytes, said: str, path: Path) -> None:
    """A file of another kind is refused in one sentence, whatever it holds."""
    assert said in refusal(path, content)


def test_every_truncation_is_refused(path: Path) -> None:
    """A file cut off anywhere before its last bracket never loads."""
    text = path.read_text(encoding="utf-8").rstrip()
    for end in range(0, len(text), 7):
        assert "line" in refusal(path, text[:end])
    assert "cut off" in refusal(path, text[:300])


def test_a_huge_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file over the limit is not read to its end."""
    monkeypatch.setattr(files, "LARGEST_BYTES", 100)
    with pytest.raises(RecordError, match="larger than 256 MiB"):
        load(path, Baseline)


def fail_with(number: int) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt("interrupted")


REAL_OPEN = os.open
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@pytest.mark.parametrize(
    ("call", "fails", "error", "said"),
    [
        *(
            (call, fail_with(number), OutputError, f"cannot be written: {os.strerror(number)}")
            for call in ("open", "fsync", "replace")
            for number in (errno.ENOSPC, errno.EROFS, errno.EACCES)
        ),
        pytest.param(  # a real disk without space, which refuses what is written
            "open", lambda *_, **__: REAL_OPEN("/dev/full", os.O_WRONLY), OutputError, "No space left on device", marks=FULL
        ),
        ("fsync", interrupted, KeyboardInterrupt, "interrupted"),
    ],
)
def test_a_save_that_fails_changes_nothing(
    call: str, fails: Any, error: type[BaseException], said: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file is whole, nothing else lies beside it, and the error of a disk says what to do."""
    before = path.read_bytes()
    monkeypatch.setattr(os, call, fails)
    with pytest.raises(error, match=said) as caught:
        save(path, Baseline())
    monkeypatch.undo()
    assert getattr(caught.value, "hint", True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_files_that_belong_together_are_all_new_or_all_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two of them comes after both; a disk that refuses one leaves both as they were."""
    first, second = tmp_path / "current.json", tmp_path / "report.json"
    real_replace = os.replace

    def interrupted(*paths: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        real_replace(*paths)

    monkeypatch.setattr(os, "replace", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with pytest.raises(KeyboardInterrupt):
        save_together({first: "1", second: "1"})
    signal.signal(signal.SIGINT, before)
    assert (first.read_text(), second.read_text()) == ("1", "1")
    monkeypatch.undo()
    real_open = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: real_open("/dev/full" if "report" in str(path) else path, *rest))
    with pytest.raises(OutputError, match=re.escape(str(second))):
        save_together({first: "2", second: "2"})
    monkeypatch.undo()
    assert (first.read_text(), second.read_text()) == ("1", "1")
    assert set(tmp_path.iterdir()) == {first, second}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_killed_save_leaves_the_old_file(call: str, path: Path) -> None:
    """A process killed in the middle of a save leaves the old file whole."""
    before = path.read_bytes()
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from ratchet.core.records.baseline import Baseline; from ratchet.core.records.files import save\n"
        f"os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "save(Path(sys.argv[1]), Baseline())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert load(path, Baseline) == examples.baseline()


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    """Something in the file's place that is not a regular file stays."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="is not a regular file"):
        save(pipe, Baseline())
    assert pipe.is_fifo()


def test_save_over_keeps_what_it_cannot_read(path: Path) -> None:
    """An unreadable baseline is never overwritten."""
    path.write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="It was left as it is"):
        save_over(path, examples.baseline())
    assert path.read_text(encoding="utf-8") == "{"


def test_schemas_are_up_to_date(tmp_path: Path) -> None:
    """The schema of each kind of record in the repository is what ``python -m ratchet.common.schema results/schema`` writes."""
    subprocess.run([sys.executable, "-m", "ratchet.common.schema", str(tmp_path)], check=True)
    kept, written = ({path.stem: path.read_text(encoding="utf-8") for path in at.iterdir()} for at in (KEPT_SCHEMAS, tmp_path))
    assert kept == written
    known = ["baseline", "calibration", "history", "profiles", "report", "roofline", "run"]
    known += ["static", "static_report", "tuned", "tuning"]
    assert sorted(written) == sorted(SCHEMAS) == known
    for name in SCHEMAS:
        assert schema(name)["additionalProperties"] is False
        assert "schema_version" in schema(name)["required"]


def test_a_baseline_of_one_machine_has_its_figures_where_scripts_look(tmp_path: Path) -> None:
    """The figures of `baseline["configs"][case]` are the entry's; of two machines there are none, and an edit is refused."""
    one = examples.baseline()
    path = tmp_path / "baseline.json"
    save(path, one)
    document = json.loads(path.read_text(encoding="utf-8"))
    (part,) = one.fingerprints.values()
    assert document["configs"].keys() == part.configs.keys()
    for name, figures in document["configs"].items():
        assert set(figures) == set(PlainFigures.model_fields)
        assert figures["median_ms"] == part.configs[name].median_ms
    assert load(path, Baseline) == one
    name = next(iter(document["configs"]))
    document["configs"][name]["median_ms"] *= 2
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RecordError, match="configs: it does not say the same as fingerprints"):
        load(path, Baseline)
    del document["configs"]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert load(path, Baseline) == one
    other = examples.FINGERPRINT.model_copy(update={"gpu": "another"})
    assert one.with_entries(other, {}).configs == {}
