"""Artifacts as our own jobs upload them. What strangers write is in `test_poison.py`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.github import artifact, reading_child
from ratchet.github.artifact import take_in
from ratchet.github.errors import ArtifactError
from tests import pages
from tests.pages import h200_bytes

pytestmark = pytest.mark.no_cover

FILES = {"current.json": "current.json", "nsight/profiles.json": "profiles.json"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The artifact of a red run on an H200, with a picture."""
    place = tmp_path / "artifact"
    for name, stored in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(h200_bytes(stored))
    (place / "nsight" / "normalize.rows_16k.png").write_bytes(b"\x89PNG")
    return place


def packed(folder: Path, base: str = "") -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.rglob("*")):
            archive.write(each, base + each.relative_to(folder).as_posix())
    return path


def test_a_folder_and_an_archive_say_the_same(folder: Path, tmp_path: Path) -> None:
    """Unpacked or not, an artifact gives the run and its profiles, whatever lies beside them; and the run its verdict."""
    unpacked = take_in(folder, tmp_path / "one")
    assert take_in(packed(folder), tmp_path / "two") == unpacked
    assert [each.case for each in unpacked.profiles] == ["normalize/rows_16k", "normalize/rows_8k", "attention/training_1k"]
    assert unpacked.problems == ()
    before, after = (judge_run(run, Baseline()) for run in (pages.h200_run(), unpacked.run))
    assert (after.headline, after.counts) == (before.headline, before.counts)


def test_a_results_folder_is_found(folder: Path, tmp_path: Path) -> None:
    """The files may stand in `results/`, as they do in a checkout."""
    taken = take_in(packed(folder, "results/"), tmp_path / "workspace")
    assert len(taken.profiles) == 3


def test_the_run_alone_is_enough(folder: Path, tmp_path: Path) -> None:
    """A run's file by itself, whatever it is called, is an artifact."""
    alone = (folder / "current.json").rename(tmp_path / "run.json")
    assert take_in(alone, tmp_path / "workspace").profiles == ()


def test_the_workspace_gets_the_two_files(folder: Path, tmp_path: Path) -> None:
    """What was read is kept in the workspace, byte by byte, and nothing else."""
    workspace = tmp_path / "workspace"
    take_in(packed(folder), workspace)
    assert {path.relative_to(workspace).as_posix(): path.read_bytes() for path in workspace.rglob("*") if path.is_file()} == {
        name: h200_bytes(stored) for name, stored in FILES.items()
    }


def refusal(place: Path, workspace: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        take_in(place, workspace)
    assert caught.value.hint
    return caught.value.message


def test_sentences_name_the_file_of_the_artifact(folder: Path, tmp_path: Path) -> None:
    """A refusal says which file of the artifact is meant, and no path of the machine that reads it."""
    document = json.loads((folder / "current.json").read_bytes()) | {"verdict": "pass"}
    (folder / "current.json").write_text(json.dumps(document))
    assert refusal(folder, tmp_path / "w") == "current.json: verdict: unknown field."
    small = {"schema_version": 1}
    (folder / "current.json").write_text(json.dumps(small))
    assert refusal(folder, tmp_path / "w").startswith("current.json: kind: the field is missing (and ")
    (folder / "current.json").unlink()
    assert refusal(folder, tmp_path / "w") == "The artifact has no current.json: the job ended before it wrote one."
    assert refusal(tmp_path / "gone", tmp_path / "w") == "There is no artifact: the job that measures left none."


def test_too_much_for_a_child_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes more memory than a run may is refused with a sentence, and so is one that takes more time."""
    monkeypatch.setattr(artifact, "MEMORY_BYTES", 2**25)
    assert refusal(folder, tmp_path / "w") == "current.json cannot be read in 32 MiB of memory and 60 s of time."
    monkeypatch.setattr(artifact, "MEMORY_BYTES", 2**31)
    monkeypatch.setattr(artifact, "SECONDS", 0)
    assert refusal(folder, tmp_path / "w") == "current.json cannot be read in 2048 MiB of memory and 0 s of time."


def test_a_larger_file_is_no_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run beyond its bound is refused, packed or not; an index of profiles beyond its own is left out."""
    monkeypatch.setattr(reading_child, "LARGEST_RUN", 2**14)
    for place in (folder, packed(folder)):
        assert refusal(place, tmp_path / "w") == "current.json has more than 0 MiB."
    monkeypatch.setattr(reading_child, "LARGEST_RUN", 2**26)
    monkeypatch.setattr(artifact, "LARGEST_PROFILES", 2**10)
    taken = take_in(folder, tmp_path / "w")
    assert taken.profiles == ()
    assert taken.problems[0].startswith("The profiles were left out: nsight/profiles.json has more than")
