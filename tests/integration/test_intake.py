"""Every trusted job that reads an artifact, on artifacts of somebody who wants to fill, crash or steer it.

The jobs run as the workflows run them, against a stand-in for GitHub and a bare repository. What one takes is its own largest
memory and that of its largest child together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.records.files import dumps
from ratchet.core.records.run import Tree
from tests import examples, tuning_examples
from tests.fake_github import FakeGitHub
from tests.history_examples import timed
from tests.hostile_artifacts import Attack, EventAttack, Json, attacks, events
from tests.integration.playground import copy_repository, git, new_repository
from tests.integration.publish_scene import HEAD, Scene
from tests.trusted_jobs import TrustedJobs, Use

MOST_MB = 1000
EXITS = {"publish": (0,), "baseline": (2, 3), "propose": (2, 3)}
"""Of a job that refuses an artifact: what is published then is that there is no verdict."""
RECORDS = {"publish": "current.json", "baseline": "current.json", "propose": "tuning/x.json"}
CASES = [(job, attack) for attack in attacks() for job in attack.jobs]


@pytest.fixture(scope="session")
def jobs() -> Iterator[TrustedJobs]:
    """A process that has imported what the jobs import, and forks one for each."""
    with TrustedJobs() as started:
        yield started


@dataclass
class Ground:
    """A bare repository, a clone of it as a job has it, and the good records that the attacks are made from."""

    bare: Path
    clone: Path
    commit: str

    def good(self, job: str) -> Json:
        if job == "propose":
            record = tuning_examples.record(head=Tree(commit=self.commit))
            return dict(json.loads(dumps(record)))
        head, reference = (Tree(commit=HEAD), examples.REFERENCE) if job == "publish" else (Tree(commit=self.commit),) * 2
        return examples.listed(examples.run_of(timed(1.0), head=head, reference=reference))


@pytest.fixture(scope="session")
def untouched_ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """Copy it, never change it: nine calls of git take longer than most attacks."""
    folder = tmp_path_factory.mktemp("ground")
    new_repository(folder / "work", {"kernel.cu": "first\n"})
    git(folder, "clone", "--quiet", "--bare", "--template=", str(folder / "work"), str(folder / "origin.git"))
    git(folder, "clone", "--quiet", "--template=", (folder / "origin.git").as_uri(), str(folder / "clone"))
    return Ground(folder / "origin.git", folder / "clone", git(folder / "work", "rev-parse", "HEAD"))


@pytest.fixture
def ground(untouched_ground: Ground, tmp_path: Path) -> Ground:
    bare, clone = tmp_path / "origin.git", tmp_path / "clone"
    copy_repository(untouched_ground.bare, bare)
    copy_repository(untouched_ground.clone, clone)
    config = clone / ".git" / "config"
    config.write_text(config.read_text(encoding="utf-8").replace(untouched_ground.bare.as_uri(), bare.as_uri()), encoding="utf-8")
    return Ground(bare, clone, untouched_ground.commit)


@dataclass
class Bench:
    """One job and all that it could change."""

    scene: Scene
    ground: Ground
    jobs: TrustedJobs

    def run(self, job: str, archive: bytes) -> Use:
        """Leave the archive alone in a folder, as the step that fetches it does, and run the job."""
        place = self.scene.place
        place.mkdir()
        (place / "artifact.zip").write_bytes(archive)
        del archive
        if job == "publish":
            return self.jobs.run(["publish", str(place)], self.scene.environ, self.ground.clone)
        self.scene.state.origin = self.ground.bare
        run = {"event": "push", "head_branch": "main", "head_sha": self.ground.commit}
        self.scene.state.add_run(901, **run)
        environ = self.scene.environ | {"GITHUB_RUN_ID": "901", "BASE": "main"}
        words = ["baseline", "push", str(place)] if job == "baseline" else ["propose", str(place)]
        return self.jobs.run(words, environ, self.ground.clone)

    def written(self) -> tuple[object, ...]:
        """All that a job may leave on GitHub but a verdict that was refused."""
        state = self.scene.state
        greens = [check for check in state.checks.values() if check.conclusion in ("success", "neutral")]
        return git(self.ground.bare, "for-each-ref"), dict(state.pulls), greens, list(state.dispatches)


@pytest.fixture
def bench(tmp_path: Path, ground: Ground, jobs: TrustedJobs) -> Iterator[Bench]:
    with FakeGitHub() as fake:
        (tmp_path / "scene").mkdir()
        yield Bench(Scene(tmp_path / "scene", fake), ground, jobs)


def test_there_are_forty_for_each_job() -> None:
    """More than forty different artifacts are tried on each job that reads one."""
    for job in EXITS:
        names = [attack.name for each, attack in CASES if each == job]
        assert len(set(names)) == len(names) > 40


@pytest.mark.slow
@pytest.mark.parametrize(("job", "attack"), CASES, ids=[f"{job}: {attack.name}" for job, attack in CASES])
def test_an_attack(bench: Bench, job: str, attack: Attack) -> None:
    """It ends in one sentence and the right exit code, with nothing written, in less than a gigabyte; or it is harmless."""
    before = bench.written()
    done = bench.run(job, attack.build(bench.ground.good(job), RECORDS[job]))
    assert done.megabytes < MOST_MB
    assert "Traceback" not in done.out + done.err
    for line in (done.out + done.err).splitlines():
        assert not line.startswith("::") or re.match(r"::(error|warning) (file=[\w/.]+,line=1,)?title=[^:,]*::", line)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", line)
    refused = done.code != 0 or "No verdict" in done.out
    sentence = (done.err if job != "publish" else done.out).strip().splitlines()
    if attack.said:
        assert attack.said in sentence[0]
    if refused:
        assert done.code in EXITS[job], done
        assert bench.written() == before
        assert len(sentence[0]) < 500
    else:
        assert not attack.said
    if job == "publish":
        assert (bench.scene.check.conclusion == "failure") == refused
        assert len(bench.scene.ours()) == 1


@pytest.mark.parametrize("attack", [*events()], ids=lambda attack: attack.name)
def test_an_event(bench: Bench, attack: EventAttack) -> None:
    """The job that answers commands reads an event alone: one that GitHub does not write is one sentence, and changes nothing."""
    (bench.scene.folder / "event.json").write_bytes(attack.payload())
    state = bench.scene.state
    before = (dict(state.comments), list(state.dispatches))
    done = bench.jobs.run(["command"], bench.scene.environ | {"GITHUB_EVENT_NAME": attack.event}, bench.ground.clone)
    assert done.code == 2, done
    assert done.megabytes < MOST_MB
    [sentence] = done.err.splitlines()
    assert sentence.startswith("ratchet: ")
    assert len(sentence) < 500
    assert not done.out
    assert (dict(state.comments), list(state.dispatches)) == before
