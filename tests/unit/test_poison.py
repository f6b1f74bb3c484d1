"""Artifacts by somebody who wants more than a verdict (tests/poison*.py): a file elsewhere, a mention, a tag, a link, a pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import dumps
from ratchet.github import artifact
from ratchet.github.artifact import take_in
from ratchet.github.check_run import check_output, workflow_commands
from ratchet.github.comment import CommentPage, render_comment
from ratchet.github.errors import ArtifactError
from tests.poisoned_files import poisoned_files
from tests.poisons import GREEN, POLICY, RED, Poison, poisoned_records
from tests.readers import Readers
from tests.recorded_runs import LINKS, page_of
from tests.rendered import faults

pytestmark = pytest.mark.no_cover

POISONS = [*poisoned_records(), *poisoned_files()]


def judged(place: Path, workspace: Path) -> CommentPage:
    """What the trusted job makes of an artifact: its page."""
    try:
        taken = take_in(place, workspace)
    except ArtifactError as error:
        return page_of(None, problem=error.message)
    report = judge_run(taken.run, Baseline(), POLICY).model_copy(update={"profiles": taken.profiles})
    return page_of(report, head_sha="3f" * 20, notes=taken.problems, paths={"attention": "bench/attention.py"})


def listing(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Every entry below, with its size and when it changed."""
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        yield str(path), status.st_size, status.st_mtime_ns


def test_there_are_hundreds() -> None:
    """At least two hundred different artifacts are tried."""
    assert len({poison.name for poison in POISONS}) == len(POISONS) >= 200


def test_the_ground_they_stand_on(tmp_path: Path) -> None:
    """Without poison the green run is green, and the red one red."""
    for name, run, end in (("green", GREEN, "success"), ("red", RED, "failure")):
        place = tmp_path / f"{name}.json"
        place.write_text(dumps(run))
        assert check_output(judged(place, tmp_path / "workspace"))[0] == end


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    with Readers() as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.name)
def test_poison(poison: Poison, readers: Readers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None writes outside its folder, becomes live in a comment, a check run or a log, or gives a pass."""
    monkeypatch.setattr(artifact, "run", readers.run)
    monkeypatch.setattr(artifact, "MEMORY_BYTES", 2**29)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    ground = tmp_path / "ground"
    ground.mkdir()
    place = poison.build(ground)
    before = list(listing(ground))
    page = judged(place, workspace)

    assert list(listing(ground)) == before
    assert {path.relative_to(workspace).as_posix() for path in workspace.rglob("*")} <= {
        "current.json",
        "nsight",
        "nsight/profiles.json",
    }
    assert (page.report is None) == poison.refused

    end, output = check_output(page)
    assert end != "success"
    body = render_comment(page)
    assert len(body.encode()) <= 60_000
    assert not body.split("\n")[2].startswith("### ✅")
    for text in (body, output.summary, output.text):
        assert faults(text, LINKS) == []
    for plain in (output.title, *(each.message for each in output.annotations), *(each.title for each in output.annotations)):
        assert not re.search(r"@[a-zA-Z]|#\d|://|##\[|[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", plain)
    for line in workflow_commands(page):
        assert re.fullmatch(r"::(?:error|warning) (?:file=bench/attention\.py,line=1,)?title=[^:,]*::[^\r\n]*", line)
        assert "##[" not in line
        assert len(line.splitlines()) == 1


def test_optional_parts_cost_nothing(tmp_path: Path) -> None:
    """A broken index of profiles leaves the verdict as it is, and the comment says what was left out."""
    [poison] = [poison for poison in POISONS if poison.name == "profiles: empty"]
    page = judged(poison.build(tmp_path), tmp_path / "workspace")
    assert check_output(page)[0] == "failure"
    assert page.report is not None
    assert page.report.verdict == "regression"
    assert "The profiles were left out: nsight/profiles.json" in render_comment(page)
