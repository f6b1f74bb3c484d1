"""What `ratchet ci publish` does with an artifact that gives no verdict, or that somebody made up."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.files import dumps, save
from ratchet.core.records.profile import Profiles
from ratchet.core.records.run import Tree
from tests import examples
from tests.history_examples import timed
from tests.integration.playground import Finished
from tests.integration.publish_scene import HEAD, LATER, NAME, RED, SAME, Scene

# ---- references that are none of the base branch's


@pytest.mark.parametrize("commit", ["", "main"], ids=["none", "no hash"])
def test_a_reference_that_is_none(scene: Scene, commit: str) -> None:
    """Nor does one against what is no commit."""
    scene.artifact(SAME, reference=Tree(commit=commit))
    done = scene.publish()
    assert (done.verdict, scene.check.conclusion) == ("none", "failure")
    assert done.page
    assert "which is not on main" in done.page.problem


@pytest.mark.parametrize("where", ["cases", "best"])
def test_a_reference_of_one_case_alone(scene: Scene, where: str) -> None:
    """Each case that names a commit of its own is looked at too."""
    scene.state.parents |= {HEAD: [LATER], LATER: [examples.REFERENCE.commit]}
    foreign = timed(1.0, reference_tree=Tree(commit=LATER))
    scene.artifact(SAME if where == "best" else foreign, best=(foreign,) if where == "best" else ())
    done = scene.publish()
    assert done.page
    assert f"compares with {LATER[:10]}" in done.page.problem


def test_references_that_are_known_cost_no_question(scene: Scene) -> None:
    """The tip of the base branch is taken as GitHub names it, and commits of its baseline as that names them."""
    entry = examples.first_entry()
    scene.state.set_file("results/baseline.json", dumps(examples.stored({NAME: entry})).encode())
    case = timed(1.0, reference_tree=Tree(commit=entry.git_commit))
    scene.artifact(case, reference=Tree(commit=scene.pull.base_sha))
    assert scene.publish().verdict == "pass"
    assert len(scene.fake.sent("GET", "/compare/")) == 1  # where the head left its base


def test_a_run_with_more_references_than_anybody_asks_for(scene: Scene) -> None:
    """Hundreds of commits are refused before GitHub is asked about one."""
    cases = [timed(1.0, f"copy/{number}", reference_tree=Tree(commit=f"{number:040x}")) for number in range(60)]
    scene.artifact(*cases)
    done = scene.publish()
    assert done.page
    assert done.page.problem == "The run compares with 61 commits, more than the limit of 50."
    assert len(scene.fake.sent("GET", "/compare/")) == 1  # where the head left its base


def test_a_push_to_main_may_compare_with_any_earlier_commit(scene: Scene) -> None:
    """What is on main already left it nowhere: the commit before the push is a reference, one that came later is none."""
    scene.pull.state = "closed"
    scene.state.branches["main"] = HEAD
    scene.state.parents |= {HEAD: [LATER], LATER: [examples.REFERENCE.commit]}
    scene.measured.event, scene.measured.head_repository, scene.measured.head_branch = "push", scene.state.repository, "main"
    for commit in (LATER, examples.REFERENCE.commit):
        scene.artifact(SAME, reference=Tree(commit=commit))
        assert scene.publish().verdict == "pass"
    scene.state.parents["5" * 40] = [HEAD]
    scene.artifact(SAME, reference=Tree(commit="5" * 40))
    assert scene.publish().verdict == "none"


def test_an_entry_of_a_queue_compares_with_the_one_before_it(scene: Scene) -> None:
    """The name of its branch has the commit that it is made on; main's tip will do as well, an earlier commit will not."""
    scene.state.parents |= {HEAD: [LATER], LATER: [scene.pull.base_sha]}
    scene.measured.event, scene.measured.head_repository = "merge_group", scene.state.repository
    scene.measured.head_branch = f"gh-readonly-queue/main/pr-7-{LATER}"
    for commit, verdict in ((LATER, "pass"), (scene.pull.base_sha, "pass"), (examples.REFERENCE.commit, "not measured")):
        scene.artifact(SAME, reference=Tree(commit=commit))
        assert scene.publish().verdict == verdict


# ---- artifacts that give no verdict


def test_a_poisoned_artifact(scene: Scene, command: Callable[..., Finished]) -> None:
    """What is no record fails the check run with a sentence; nothing of it reaches the log as a command to the runner."""
    scene.artifact(SAME)
    path = scene.place / "current.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"kind": "check"', '"kind": "\\n::error::x @octocat"'), encoding="utf-8")
    done = command()
    assert done.code == 0
    assert not any(line.startswith("::error::x") for line in done.out.splitlines())
    assert (scene.check.conclusion, "@octocat" in scene.ours()[0]) == ("failure", False)


class Wire:
    """What can only be written on, as a response is: an archive on it has its sizes behind its entries."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, piece: bytes) -> int:
        self.content += piece
        return len(piece)

    def flush(self) -> None:
        """It is sent."""


def served(place: Path, more: dict[str, bytes] | None = None) -> None:
    """Pack the artifact in a folder as GitHub serves it, and leave the archive alone there, as the step that fetches it does."""
    wire = Wire()
    with zipfile.ZipFile(wire, "w", zipfile.ZIP_DEFLATED) as packed:  # type: ignore[call-overload]
        for path in sorted(path for path in place.rglob("*") if path.is_file()):
            packed.writestr(path.relative_to(place).as_posix(), path.read_bytes())
        for name, content in (more or {}).items():
            packed.writestr(name, content)
    assert all(entry.flag_bits & 8 for entry in packed.infolist())
    shutil.rmtree(place)
    place.mkdir()
    (place / "benchmark-ratchet-results.zip").write_bytes(wire.content)


def test_an_archive_as_github_serves_it(scene: Scene, command: Callable[..., Finished]) -> None:
    """It is judged like the folder that went into it, profiles included, and nothing is unpacked beside it."""
    scene.artifact(RED)
    save(scene.place / "nsight" / "profiles.json", Profiles(profiles=(examples.case_profile(NAME),)))
    (scene.place / "nsight" / "attention.training_512.png").write_bytes(b"no picture")
    served(scene.place)
    assert command().code == 0
    assert scene.check.conclusion == "failure"
    assert "+10.0" in scene.ours()[0]
    assert [path.name for path in scene.place.iterdir()] == ["benchmark-ratchet-results.zip"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"../../evil.txt": b"x"}, "a name that no file of ours has"),
        ({"nsight/bomb": bytes(20 * 2**20)}, "unpacks to far more than it is packed to"),
        ({"results/current.json": b"{"}, ""),
        ({f"{number}": b"" for number in range(2_001)}, "more than 2000 entries"),
    ],
    ids=["a name that leads out", "a bomb", "a second run", "too many entries"],
)
def test_a_poisoned_archive(scene: Scene, command: Callable[..., Finished], more: dict[str, bytes], said: str) -> None:
    """An archive with something unsafe in it is refused whole, with a sentence; a second run beside the first is not read."""
    scene.artifact(SAME)
    served(scene.place, more)
    before = sorted(scene.folder.parent.rglob("evil*"))
    assert command().code == 0
    assert scene.check.conclusion == ("failure" if said else "success")
    assert said in scene.ours()[0]
    assert sorted(scene.folder.parent.rglob("evil*")) == before == []


def test_a_dirty_tree_is_said(scene: Scene) -> None:
    """A head with uncommitted changes is not quite the commit: the report says so."""
    scene.artifact(SAME, head=Tree(commit=HEAD, dirty=True))
    report = scene.publish().report
    assert report
    assert any("uncommitted changes" in warning for warning in report.warnings)
