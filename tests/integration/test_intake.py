"""Every trusted job that reads an artifact, on artifacts of somebody who wants to fill, crash or steer it.

The jobs run as the workflows run them, against a stand-in for GitHub and a bare repository. What one takes is its own largest
memory and that of its largest child together.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.records.files import dumps
from ratchet.core.records.run import Tree
from ratchet.github.state import read_acknowledgement
from ratchet.identical.static.records import StaticReport
from tests import examples, tuning_examples
from tests.fake_github import FakeGitHub
from tests.history_examples import timed
from tests.hostile_artifacts import Attack, EventAttack, Json, attacks, events, packed, text_of
from tests.hostile_states import StateAttack, states
from tests.integration.playground import copy_repository, git, new_repository
from tests.integration.publish_scene import BOT, HEAD, NAME, RED, RUN, SAME, Scene
from tests.trusted_jobs import TrustedJobs, Use

MOST_MB = 1000
EXITS = {"publish": (0,), "queue": (0,), "models": (0,), "static": (0,), "baseline": (2, 3), "notify": (2, 3), "propose": (2, 3)}
"""Of a job that refuses an artifact: what is published then is that there is no verdict. ``queue``: for an entry of one;
``models``: with another model that is green; ``static``: the artifact of the job without a GPU, alone."""
JOBS = (*(job for job in EXITS if job != "static"), "command", "recheck")
PUBLISHES = ("publish", "queue", "models", "static")
ONE_IN = {"baseline": 4, "propose": 3}
"""All jobs read an archive by the same code: ``publish`` tries every attack, these one in so many, and what is for them alone."""
CASES = [
    (job, attack)
    for place, attack in enumerate(attacks())
    for job in attack.jobs
    if len(attack.jobs) == 1 or place % ONE_IN.get(job, 1) == 0
]


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

    def good(self, job: str, ratio: float = 1.0) -> Json:
        if job == "propose":
            record = tuning_examples.record(head=Tree(commit=self.commit))
            return dict(json.loads(dumps(record)))
        if job == "static":
            trees = {"head": Tree(commit=HEAD), "reference": examples.REFERENCE, "recorded": examples.REFERENCE}
            return dict(json.loads(dumps(StaticReport(**trees, machine="x", cases=(), seconds=1.0))))
        head, reference = (Tree(commit=HEAD), examples.REFERENCE) if job in PUBLISHES else (Tree(commit=self.commit),) * 2
        return examples.listed(examples.run_of(timed(ratio), head=head, reference=reference))


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


def record_of(job: str) -> str:
    return {"propose": "tuning/x.json", "static": "static_report.json"}.get(job, "current.json")


@dataclass
class Bench:
    """One job and all that it could change."""

    scene: Scene
    ground: Ground
    jobs: TrustedJobs

    def run(self, job: str, archive: bytes = b"") -> Use:
        """Leave the archive alone in a folder, as the step that fetches it does, and run the job."""
        place, state = self.scene.place, self.scene.state
        place.mkdir()
        (place / "artifact.zip").write_bytes(archive)
        del archive
        environ, words = self.scene.environ, [job]
        if job == "queue":
            state.add_run(
                902, event="merge_group", head_sha=HEAD, head_branch=f"gh-readonly-queue/main/pr-7-{self.scene.pull.base_sha}"
            )
            words = ["publish", str(place), "--run-id", "902"]
        elif job == "models":
            self.scene.set_settings('models = ["h200", "l4"]')
            models, other = self.scene.folder / "models", self.ground.good(job)
            models.mkdir()
            place.rename(models / "benchmark-ratchet-results-h200")
            other["environment"]["fingerprint"]["gpu"] = "another"
            (models / "benchmark-ratchet-results-l4").mkdir()
            (models / "benchmark-ratchet-results-l4" / "artifact.zip").write_bytes(packed((record_of(job), text_of(other))))
            self.scene.measured.artifacts += [each.name for each in models.iterdir()]
            words = ["publish", str(place), "--models", str(models)]
        elif job == "static":
            words = ["publish", str(self.scene.folder / "none"), "--static", str(place)]
        elif job == "publish":
            words = ["publish", str(place)]
        elif job == "command":
            said = state.add_comment(7, "a-maintainer", f"/ratchet accept {NAME} needed")
            comment = {"id": said.id, "user": {"login": said.author}, "body": said.body}
            payload = {"action": "created", "issue": {"number": 7, "pull_request": {}}, "comment": comment}
            self.scene.set_event("issue_comment", payload)
        elif job != "recheck":
            state.origin = self.ground.bare
            state.add_run(901, event="push", head_branch="main", head_sha=self.ground.commit)
            environ = environ | {"GITHUB_RUN_ID": "901", "BASE": "main"}
            usual = {"baseline": ["baseline", "push", str(place)], "notify": ["notify", str(place), str(place), "--issues"]}
            words = usual.get(job, ["propose", str(place)])
        return self.jobs.run(words, environ, self.ground.clone)

    def written(self) -> tuple[object, ...]:
        """All that a job may leave on GitHub but a verdict that was refused."""
        state = self.scene.state
        greens = [check for check in state.checks.values() if check.conclusion in ("success", "neutral")]
        return git(self.ground.bare, "for-each-ref"), dict(state.pulls), dict(state.issues), greens, list(state.dispatches)


@pytest.fixture
def bench(tmp_path: Path, ground: Ground, jobs: TrustedJobs) -> Iterator[Bench]:
    with FakeGitHub() as fake:
        (tmp_path / "scene").mkdir()
        yield Bench(Scene(tmp_path / "scene", fake), ground, jobs)


def test_there_are_forty_for_each_job() -> None:
    """More than forty different artifacts are tried on each job that reads one; over thirty where its reader is shared."""
    for job in EXITS:
        names = [attack.name for each, attack in CASES if each == job]
        assert len(set(names)) == len(names) > (30 if job in ("queue", "models", "notify") else 40)


def assert_orderly(done: Use) -> None:
    """No more memory than there is, no defect of ours, no command to the runner, and nothing that moves a cursor."""
    assert done.megabytes < MOST_MB
    assert "Traceback" not in done.out + done.err
    for line in (done.out + done.err).splitlines():
        assert not line.startswith("::") or re.match(r"::(error|warning) (file=[\w/.]+,line=1,)?title=[^:,]*::", line)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", line)


@pytest.mark.slow
@pytest.mark.parametrize(("job", "attack"), CASES, ids=[f"{job}: {attack.name}" for job, attack in CASES])
def test_an_attack(bench: Bench, job: str, attack: Attack) -> None:
    """It ends in one sentence and the right exit code, with nothing written, in less than a gigabyte; or it is harmless."""
    before = bench.written()
    done = bench.run(job, attack.build(bench.ground.good(job), record_of(job)))
    assert_orderly(done)
    refused = done.code != 0 or "No verdict" in done.out
    sentence = (done.out if job in PUBLISHES else done.err).strip().splitlines()
    if attack.said:
        assert attack.said in sentence[0]
    if refused:
        assert done.code in EXITS[job], done
        assert bench.written() == before
        assert len(sentence[0]) < 500
    else:
        assert not attack.said
    if job in PUBLISHES:
        assert (bench.scene.check.conclusion == "failure") == refused
        assert len(bench.scene.ours()) == (job != "queue")


@pytest.fixture(scope="session")
def red(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A pull request whose red verdict is published: copy its state and its folder, never change them."""
    with FakeGitHub() as fake:
        scene = Scene(tmp_path_factory.mktemp("red"), fake)
        scene.state.permissions["a-maintainer"] = "write"
        scene.state.workflows += ["ratchet_report.yml"]
        scene.artifact(RED)
        assert scene.publish().verdict == "regression"
        shutil.rmtree(scene.place)
        return scene


STATES = [
    (job, attack)
    for place, attack in enumerate(states())
    for number, job in enumerate(JOBS)
    if job == "publish" or (place + number) % 3 == 0
]
"""Each state is there for ``publish`` and for at least two other jobs, and each job meets a third of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("job", "attack"), STATES, ids=[f"{job}: {attack.name}" for job, attack in STATES])
def test_a_state(bench: Bench, red: Scene, job: str, attack: StateAttack) -> None:
    """What was red stays red, nobody else's acceptance counts, and no raw text of a stranger leaves."""
    scene, state = bench.scene, bench.scene.state
    scene.begin_as(red)
    attack.change(scene)
    known, texts = {*state.checks}, {one.id: one.body for one in state.comments.values()}
    done = bench.run(job, packed((record_of(job), text_of(bench.ground.good(job, 1.1)))))
    assert_orderly(done)
    assert done.code in (0, 2, 3), done
    made = [check for number, check in state.checks.items() if number not in known and check.login == BOT]
    assert not [check for check in made if check.conclusion in ("success", "neutral")]
    assert job not in PUBLISHES or done.code or made[-1].conclusion == "failure"
    for order in state.dispatches:
        assert (order["workflow"], order["ref"], order["inputs"]) == ("ratchet_report.yml", "main", {"run_id": str(RUN)})
    written = [one.body for one in state.comments.values() if one.author == BOT and texts.get(one.id) != one.body]
    assert {one.by for body in written for one in read_acknowledgement(body)} <= {"a-maintainer"}
    pulls = [pull.title + pull.body for pull in state.pulls.values() if pull.author == BOT]
    issues = [issue.title + str(issue.body) for issue in state.issues.values()]
    checks = [f"{check.title}{check.summary}{check.text}" for check in made]
    for text in (*written, *pulls, *issues, *checks, done.out, git(bench.ground.bare, "log", "--all", "--format=%B")):
        assert not re.search("@octocat|<img src|https://evil|fixes #1", text)


EVENTS = [(job, attack) for attack in events() for job in ("command", "publish")[: 1 + (attack.event != "issue_comment")]]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "attack"), EVENTS, ids=[f"{job}: {attack.name}" for job, attack in EVENTS])
def test_an_event(bench: Bench, job: str, attack: EventAttack) -> None:
    """The jobs that answer and publish read an event: one that GitHub does not write is one sentence, and changes nothing."""
    (bench.scene.folder / "event.json").write_bytes(attack.payload())
    state = bench.scene.state
    bench.scene.artifact(SAME)
    before = (dict(state.comments), list(state.dispatches), dict(state.checks))
    words = [job, str(bench.scene.place)] if job == "publish" else [job]
    done = bench.jobs.run(words, bench.scene.environ | {"GITHUB_EVENT_NAME": attack.event}, bench.ground.clone)
    assert done.code == 2, done
    assert done.megabytes < MOST_MB
    [sentence] = done.err.splitlines()
    assert sentence.startswith("ratchet: ")
    assert len(sentence) < 500
    assert not done.out
    assert (dict(state.comments), list(state.dispatches), dict(state.checks)) == before
