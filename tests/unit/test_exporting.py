"""A tuning record as a recorded space."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from recorded_spaces import read

from ratchet.core.errors import RecordError, UsageError
from ratchet.core.records.files import load, save
from ratchet.core.records.tuned import TUNED_FILE, Tuned
from ratchet.tune.cli import tune_command
from ratchet.tune.t4 import entries_of, export_tuning
from tests import tuning_examples as sample

KINDS = {"correct", "compile", "runtime", "timeout", "correctness"}
DATA = Path(__file__).parents[1] / "data"


def test_every_evaluation_is_exported(tmp_path: Path) -> None:
    """Each stands with its configuration, its samples and time, or the kind of its failure, in the same bytes every time."""
    record, out = sample.record(), tmp_path / "t4.json.gz"
    save(tmp_path / "x.json", record)
    first = export_tuning(tmp_path / "x.json", out).read_bytes()
    assert export_tuning(tmp_path / "x.json", out).read_bytes() == first
    table = json.loads(gzip.decompress(first))
    assert table["metadata"]["case"] == sample.CASE
    assert [entry["times"]["runtimes"] for entry in table["results"]] == [list(each.samples_ms) for each in record.evaluations]
    found = read(out)
    times = {str(found.candidates.configuration(place)): ms for place, ms in enumerate(found.times)}
    assert times == {str(each.configuration): each.median_ms for each in record.evaluations}
    assert {entry["invalidity"] for entry in table["results"]} == KINDS


@pytest.mark.parametrize("target", ["results", "metadata"])
def test_kernel_tuners_schema(target: str, tmp_path: Path) -> None:
    """What is exported, failures of every kind among it, is what Kernel Tuner's own schema of the format asks for."""
    save(tmp_path / "x.json", sample.record())
    table = json.loads(export_tuning(tmp_path / "x.json", tmp_path / "t4.json").read_text())
    schema = json.loads((DATA / "t4" / f"{target}-schema.json").read_text())
    jsonschema.validate(table, schema)
    if target == "results":
        table["results"][0]["invalidity"] = "resources"
        with pytest.raises(jsonschema.ValidationError, match="'resources' is not one of"):
            jsonschema.validate(table, schema)


def test_kernel_tuners_names(tmp_path: Path) -> None:
    """The fields, and what stands in place of a time, are called as in the files that Kernel Tuner recorded."""
    save(tmp_path / "x.json", sample.record())
    ours = json.loads(export_tuning(tmp_path / "x.json", tmp_path / "t4.json").read_text())["results"]
    theirs = json.loads(gzip.decompress((DATA / "tuning" / "convolution_rtx3090.json.gz").read_bytes()))["results"]
    for entry, recorded in (
        (ours[0], theirs[0]),
        *((_failed(ours, how), _failed(theirs, how)) for how in ("compile", "runtime")),
    ):
        assert entry.keys() == recorded.keys()
        assert entry["times"].keys() == {*recorded["times"], "runtimes"}
        assert entry["correctness"] == recorded["correctness"]
        assert entry["measurements"][0].keys() == recorded["measurements"][0].keys()
        if recorded["invalidity"] != "correct":
            assert entry["measurements"][0]["value"] == recorded["measurements"][0]["value"]


def _failed(results: list[dict[str, Any]], how: str) -> dict[str, Any]:
    return next(each for each in results if each["invalidity"] == how)


def test_several_gpus_are_one() -> None:
    """A configuration that a slow GPU timed is as fast in the export as the same one on a fast GPU."""
    fast = sample.evaluation(sample.WINNER, 1)
    slow = sample.evaluation(sample.WINNER, 2, gpu="NVIDIA H200 [1]", median_ms=2 * (fast.median_ms or 0))
    default = sample.evaluation(sample.DEFAULT)
    _, *both = entries_of(sample.record(evaluations=(default, fast, slow)))
    assert [each["measurements"][0]["value"] for each in both] == [pytest.approx(fast.median_ms)] * 2
    assert both[1]["times"]["runtimes"] == pytest.approx([sample_ms / 2 for sample_ms in slow.samples_ms])


def test_nothing_to_export(tmp_path: Path) -> None:
    """A record without evaluations, or none at all, ends with a sentence."""
    unconfirmed = sample.record(evaluations=(), confirmations=(), others=(), best=None)
    save(tmp_path / "x.json", unconfirmed)
    with pytest.raises(UsageError, match="has no evaluations to export"):
        export_tuning(tmp_path / "x.json", tmp_path / "t4.json")
    with pytest.raises(RecordError, match="does not exist"):
        export_tuning(tmp_path / "y.json", tmp_path / "t4.json")
    assert not (tmp_path / "t4.json").exists()


def tuned(*words: str) -> Result:
    return CliRunner().invoke(tune_command, words, obj=("ratchet", "tune", *words))


def test_from_a_shell(tmp_path: Path) -> None:
    """One command exports what a record holds and applies what it recommends, and says which files it wrote."""
    record, out = tmp_path / "x.json", tmp_path / "t4.json"
    save(record, sample.record())
    done = tuned("--record", str(record), "--apply", "--export", str(out), "--repo", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert read(out).candidates.count == len(sample.record().evaluations)
    assert load(tmp_path / "bench" / TUNED_FILE, Tuned).parameters(sample.CASE, "NVIDIA H200") == sample.WINNER
    said = done.output.splitlines()
    assert [line.partition(":")[0] for line in said] == ["Written", "attention/training_512 on NVIDIA H200", "Written"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--record", "x.json"), "say --apply, --jointly or --export FILE"),
        (("--record", "x.json", "--record", "y.json", "--export", "z.json"), "--export takes one record at a time"),
        (("--record", "x.json", "attention/training_512", "--apply"), "Name one case to tune"),
        (("attention/training_512", "--export", "z.json"), "--export writes what a --record tried"),
    ],
)
def test_wrong_words(words: tuple[str, ...], said: str) -> None:
    """Words that do not go together are refused before any file is read."""
    done = tuned(*words)
    assert done.exit_code == 2
    assert said in done.output
