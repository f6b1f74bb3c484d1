"""`ratchet ci push` with real repositories: a bare origin, clones, hooks and writers at the same time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.judge.chain import problems
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import load, loads, save
from ratchet.core.records.run import CaseRun, RunRecord, Tree
from ratchet.github.records import Acceptance
from ratchet.github.state import LABEL, acknowledgement
from ratchet.identical.footprint import Footprint
from ratchet.identical.static.records import Recorded, RecordedCase
from tests import examples
from tests.fake_github import FakeGitHub, State
from tests.history_examples import new, timed
from tests.integration.playground import Finished, Playground, commit, git, new_repository, only_json

NAME = "attention/training_512"
FILE = "results/baseline.json"
SIDE = "ratchet-baseline"
HISTORY = "ratchet-history"


class Origin:
    """A bare repository on this disk, a clone in which main is written, and clones in which jobs run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = folder / "origin.git"
        self.work = folder / "work"
        new_repository(self.work, {"kernel.cu": "first\n"})
        git(folder, "clone", "--quiet", "--bare", str(self.work), str(self.bare))
        git(self.work, "remote", "add", "origin", str(self.bare))
        self.commits = [git(self.work, "rev-parse", "HEAD")]
        self.clones = 0

    def merge(self, text: str) -> str:
        """One more commit on main."""
        self.pull()
        self.commits.append(commit(self.work, text, {"kernel.cu": f"{text}\n"}))
        git(self.work, "push", "--quiet", "origin", "main")
        return self.commits[-1]

    def pull(self) -> None:
        git(self.work, "pull", "--quiet", "--rebase", "origin", "main")

    def job(self, *flags: str) -> Playground:
        """A fresh clone, as a job checks it out."""
        self.clones += 1
        folder = self.folder / f"job{self.clones}"
        folder.mkdir()
        git(self.folder, "clone", "--quiet", *flags, self.bare.as_uri(), str(folder / "repo"))
        return Playground(folder)

    def run(self, *cases: CaseRun, head: str, day: float = 1, reference: str | None = None, **more: object) -> Path:
        """The record of a check of ``head``."""
        tree = Tree(commit=head, content=git(self.work, "rev-parse", f"{head}^{{tree}}"))
        record = examples.run_of(
            *cases,
            head=tree,
            reference=Tree(commit=reference or self.commits[0]),
            started_at=examples.STARTED + timedelta(days=day),
            **more,
        )
        path = self.folder / f"run-{head[:8]}-{day}-{cases[0].name.replace('/', '.')}.json"
        save(path, record)
        return path

    def push(
        self, *words: object, job: Playground | None = None, code: int = 0, env: Mapping[str, str] | None = None
    ) -> Finished:
        """Run ``ratchet ci push words…`` in a fresh clone."""
        job = job or self.job()
        before = (git(job.repo, "status", "--porcelain"), git(job.repo, "rev-parse", "HEAD"))
        done = job.ratchet("baseline", "push", *map(str, words), env=env)
        assert done.code == code, done
        assert (git(job.repo, "status", "--porcelain"), git(job.repo, "rev-parse", "HEAD")) == before
        assert git(job.repo, "for-each-ref", "refs/ratchet") == ""
        return done

    def stored(self, branch: str = "main") -> Baseline:
        stored = loads(git(self.bare, "show", f"{branch}:{FILE}").encode(), FILE, Baseline)
        assert problems(stored) == []
        return stored

    def steps(self, name: str = NAME, branch: str = "main") -> list[tuple[str, str]]:
        entry = self.stored(branch).entries(examples.FINGERPRINT)[name]
        return [(step.kind.value, step.commit) for step in entry.steps]

    def subjects(self, branch: str = "main") -> list[str]:
        return git(self.bare, "log", "--format=%s", branch).splitlines()

    def protect(self, *branches: str) -> None:
        """These branches take no push, as GitHub says it."""
        hook = self.bare / "hooks" / "pre-receive"
        refuse = "|".join(f"refs/heads/{branch}" for branch in branches)
        words = "error: GH006: Protected branch update failed for $ref."
        hook.write_text(
            f'#!/bin/sh\nwhile read -r before after ref; do case "$ref" in {refuse}) echo "{words}" >&2; exit 1;; esac; done\n',
            encoding="utf-8",
        )
        hook.chmod(0o755)


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def test_new_cases_enter_and_two_runs_move_them(origin: Origin) -> None:
    """A first run enters a case; two runs of a faster commit move it, in one command; every commit changes the file alone."""
    done = origin.push(origin.run(new(), head=origin.commits[0], day=0))
    assert "main: pushed " in done.out
    assert origin.subjects()[0] == f"perf: ratchet baseline forward ({NAME}) [skip ci]"
    second = origin.merge("faster")
    origin.push(*(origin.run(timed(0.8), head=second, day=day) for day in (1, 2)))
    assert origin.steps() == [("first", origin.commits[0]), ("improved", second)]
    assert git(origin.bare, "diff", "--name-only", "main~1", "main") == FILE
    body = " ".join(git(origin.bare, "log", "-1", "--format=%b", "main").split())
    assert f"improved {NAME} 1.000 ms → 800.0 µs −20.00 % at {second[:10]}, in two measurements" in body
    assert git(origin.bare, "log", "-1", "--format=%an <%ae>", "main") == "ratchet <ratchet@localhost>"


def test_a_run_that_changes_nothing_pushes_nothing(origin: Origin) -> None:
    """The same run again makes no commit and is no error."""
    run = origin.run(new(), head=origin.commits[0], day=0)
    origin.push(run)
    tip = git(origin.bare, "rev-parse", "main")
    assert "main: nothing to push." in origin.push(run).out
    assert git(origin.bare, "rev-parse", "main") == tip


def test_a_candidate_waits_in_the_file(origin: Origin) -> None:
    """One run of a faster commit is noted without a step, and the title says that nothing went forward."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    origin.push(origin.run(timed(0.8), head=origin.merge("faster")))
    assert origin.subjects()[0] == f"perf: ratchet baseline notes ({NAME}) [skip ci]"
    assert origin.stored().entries(examples.FINGERPRINT)[NAME].candidate


def test_runs_are_kept_on_a_branch(origin: Origin) -> None:
    """Each judged run is one file on the branch of the history, the same run again the same file; no checkout is needed."""
    runs = [origin.run(new(), head=origin.commits[0], day=0), origin.run(timed(1.01), head=origin.merge("second"))]
    for run in (*runs, runs[0]):
        origin.push(run)
    assert len(git(origin.bare, "ls-tree", "-r", "--name-only", HISTORY).splitlines()) == 2
    job = origin.job("--single-branch")
    assert job.ratchet("history").sentence.startswith("There is no judged run of main yet.")
    (series,) = only_json(job.ratchet("history", NAME, "--json", "--fetch").out)["series"]
    assert [point["commit"] for point in series["points"]] == origin.commits
    assert [point["index"] for point in series["points"]] == [1, pytest.approx(1.01)]
    assert not (job.repo / "results" / "history").exists()
    assert job.ratchet("history").out.splitlines()[2].split()[:2] == [NAME, "2"]  # as it was fetched


def test_no_history_to_fetch(origin: Origin) -> None:
    """Where origin has no branch of the history, or nothing is kept on one, a sentence says so, and how it gets there."""
    job = origin.job()
    for words in (("history", "--fetch"), ("site", "--fetch")):
        none = job.ratchet(*words)
        assert none.code == 2
        assert none.sentence.startswith(f"origin has no branch {HISTORY}: no run of main was kept there yet.")
    with (job.repo / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write('history_branch = ""\n')
    assert "no run is kept on a branch" in job.ratchet("history", "--fetch").sentence
    git(job.repo, "checkout", "--quiet", ".")
    git(job.repo, "remote", "remove", "origin")
    assert "has no remote origin" in job.ratchet("history", "--fetch").sentence


def test_history_that_takes_no_push(origin: Origin) -> None:
    """Where the history's branch is protected the baseline moves all the same, and the run that was not kept is said."""
    origin.protect(HISTORY)
    out = origin.push(origin.run(new(), head=origin.commits[0], day=0)).out
    assert f"The run of {origin.commits[0][:10]} was not kept on {HISTORY}: " in out
    assert origin.steps() == [("first", origin.commits[0])]


def test_main_moved_on(origin: Origin) -> None:
    """What was measured is recorded though main has gone on, on top of what main is now."""
    run = origin.run(new(), head=origin.commits[0], day=0)
    job = origin.job()
    tip = origin.merge("meanwhile")
    origin.push(run, job=job)
    assert git(origin.bare, "rev-parse", "main~1") == tip
    assert origin.steps() == [("first", origin.commits[0])]


def test_a_shallow_clone_fetches_what_it_needs(origin: Origin) -> None:
    """The clone of actions/checkout holds one commit; whether main still has the measured one is found out all the same."""
    run = origin.run(new(), head=origin.commits[0], day=0)
    origin.merge("second")
    origin.merge("third")
    origin.push(run, job=origin.job("--depth=1"))
    assert origin.steps() == [("first", origin.commits[0])]


def test_history_without_the_measured_commit(origin: Origin) -> None:
    """After a force-push nothing is recorded of what main no longer has: one sentence, exit code 3, main as it was."""
    lost = origin.merge("lost")
    run = origin.run(new(), head=lost)
    job = origin.job()
    git(origin.work, "reset", "--quiet", "--hard", "HEAD~1")
    git(origin.work, "commit", "--quiet", "--amend", "-m", "rewritten")
    git(origin.work, "push", "--quiet", "--force", "origin", "main")
    tip = git(origin.bare, "rev-parse", "main")
    assert f"{lost[:10]} is no longer on main: nothing was recorded." in origin.push(run, job=job, code=3).sentence
    assert git(origin.bare, "rev-parse", "main") == tip


@pytest.mark.parametrize("is_known", [True, False])
def test_rewritten_history_with_the_same_content(origin: Origin, is_known: bool) -> None:
    """Where main holds the same content under another commit, that commit is recorded, also if nobody knows the measured one."""
    first = origin.merge("content")
    run = origin.run(new(), head=first)
    job = origin.job() if is_known else None
    git(origin.work, "commit", "--quiet", "--amend", "-m", "another message")
    git(origin.work, "push", "--quiet", "--force", "origin", "main")
    again = git(origin.work, "rev-parse", "HEAD")
    assert again != first
    origin.push(run, job=job)
    assert origin.steps() == [("first", again)]


@pytest.mark.slow
def test_ten_writers_at_once(origin: Origin) -> None:
    """Of ten processes that push at the same time each gets its step and its run in, and none is lost."""
    runs = [origin.run(new(f"kernel/case_{number:02}"), head=origin.commits[0], day=number) for number in range(10)]
    jobs = [origin.job() for _ in runs]
    code = (
        "import os, sys, json\n"
        "from ratchet.core.cli import main\n"
        "import ratchet.baseline.local\n"
        "children = []\n"
        "for repo, run in json.loads(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        code = main(['baseline', 'push', run, '--repo', repo])\n"
        "        sys.stdout.flush()\n"
        "        os._exit(code)\n"
        "    children.append(child)\n"
        "print(*sorted({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}), file=sys.stderr)\n"
    )
    pairs = [(str(job.repo), str(run)) for job, run in zip(jobs, runs, strict=True)]
    done = jobs[0].finish(jobs[0].start_python("-c", code, json.dumps(pairs)), timeout_s=300)
    assert done.err.splitlines()[-1] == "0", done
    assert set(origin.stored().entries(examples.FINGERPRINT)) == {f"kernel/case_{number:02}" for number in range(10)}
    assert len(origin.subjects()) == 11
    assert all(subject.endswith("[skip ci]") for subject in origin.subjects()[:-1])
    kept = only_json(origin.job().ratchet("history", "--json").out)["series"]
    assert [one["case"] for one in kept] == [f"kernel/case_{number:02}" for number in range(10)]
    assert len(origin.subjects(HISTORY)) == 10


def test_two_writers_of_one_case(origin: Origin) -> None:
    """A writer that is overtaken applies its steps to what it finds then: a second proof moves what the first left waiting."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    second = origin.merge("faster")
    first, other = (origin.run(timed(0.8), head=second, day=day) for day in (1, 2))
    late = origin.job()
    origin.push(first)
    origin.push(other, job=late)
    assert origin.steps() == [("first", origin.commits[0]), ("improved", second)]


@pytest.mark.slow
def test_a_protected_branch_gets_a_pull_request(origin: Origin) -> None:
    """Where main takes no push, the steps go to a branch and a pull request, whose checks must run; the next ones join them."""
    origin.protect("main")
    with FakeGitHub(State(origin=origin.bare)) as fake:
        env = api(fake)
        done = origin.push(origin.run(new(), head=origin.commits[0], day=0), env=env)
        assert "main does not accept a push: error: GH006: Protected branch update failed for refs/heads/main." in done.out
        assert origin.subjects(SIDE)[0] == f"perf: ratchet baseline forward ({NAME})"
        [pull] = fake.state.pulls.values()
        assert (pull.head_ref, pull.base_ref, pull.title) == (SIDE, "main", f"perf: ratchet baseline forward ({NAME})")
        origin.push(origin.run(new("copy/a"), head=origin.commits[0], day=1), env=env)
        assert list(fake.state.pulls) == [pull.number]
        assert (origin.steps(branch=SIDE), origin.steps("copy/a", SIDE)) == ([("first", origin.commits[0])],) * 2
        assert FILE not in git(origin.bare, "ls-tree", "-r", "--name-only", "main")


def test_a_squashed_pull_request_is_gone_on_from(origin: Origin) -> None:
    """After its pull request was squashed the branch goes on from main, without force, and keeps the step that came too late."""
    mode = ("--mode", "pull-request")
    origin.push(origin.run(new(), head=origin.commits[0], day=0), *mode)
    git(origin.work, "fetch", "--quiet", "origin")
    git(origin.work, "merge", "--quiet", "--squash", f"origin/{SIDE}")
    origin.commits.append(commit(origin.work, "squashed", {}))
    origin.push(origin.run(new("copy/late"), head=origin.commits[0], day=1), *mode)
    git(origin.work, "push", "--quiet", "origin", "main")
    second = origin.merge("on it goes")
    side = git(origin.bare, "rev-parse", SIDE)
    origin.push(origin.run(new("copy/b"), head=second, day=2), *mode)
    assert set(origin.stored(SIDE).entries(examples.FINGERPRINT)) == {NAME, "copy/late", "copy/b"}
    assert git(origin.bare, "merge-base", SIDE, side) == side
    assert git(origin.bare, "diff", "--name-only", "main", SIDE) == FILE


def test_without_a_token_the_branch_waits(origin: Origin) -> None:
    """A pull request that nobody can open is said; the branch is there."""
    done = origin.push(origin.run(new(), head=origin.commits[0]), "--mode", "pull-request")
    assert f"open the pull request of {SIDE} by hand" in done.out
    assert origin.steps(branch=SIDE)


def test_a_branch_of_its_own(origin: Origin) -> None:
    """In the mode `branch` the file has a history of its own, begun with what main has; main is never written."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    tip = git(origin.bare, "rev-parse", "main")
    origin.push(origin.run(new("copy/a"), head=origin.commits[0]), "--mode", "branch")
    second = origin.merge("faster")
    origin.push(*(origin.run(timed(0.8), head=second, day=day) for day in (2, 3)), "--mode", "branch")
    assert git(origin.bare, "rev-parse", "main~1") == tip
    assert git(origin.bare, "ls-tree", "-r", "--name-only", SIDE) == FILE
    assert origin.steps(branch=SIDE) == [("first", origin.commits[0]), ("improved", second)]
    assert origin.steps("copy/a", SIDE)


def test_every_way_is_barred(origin: Origin) -> None:
    """Where the other branch takes no push either, the command says so and exits with 3."""
    origin.protect("main", SIDE)
    assert f"{SIDE} does not accept a push" in origin.push(origin.run(new(), head=origin.commits[0]), code=3).sentence


def test_a_file_that_does_not_verify_is_left_alone(origin: Origin) -> None:
    """Nothing is pushed over a baseline that was edited by hand."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    origin.pull()
    path = origin.work / FILE
    edited = path.read_text(encoding="utf-8").replace('"throughput_gflops": ', '"throughput_gflops": 1')
    origin.commits.append(commit(origin.work, "by hand", {FILE: edited}))
    git(origin.work, "push", "--quiet", "origin", "main")
    said = origin.push(origin.run(timed(0.8), head=origin.commits[-1]), code=2).sentence
    assert said.startswith(f"{FILE} of main does not verify, and was left as it is")
    assert git(origin.bare, "rev-parse", "main") == origin.commits[-1]


@pytest.mark.slow
@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_a_run_of_another_push(origin: Origin, event: str) -> None:
    """In a job of main, a run of another commit is refused: it is not what this job was to record."""
    run, tip = origin.run(new(), head=origin.commits[0]), origin.merge("second")
    with FakeGitHub(State(origin=origin.bare)) as fake:
        done = origin.push(run, env=job_of(fake, event=event, head_branch="main", head_sha=tip), code=2)
        assert f"The run is of {origin.commits[0][:10]}, and this job is for {tip[:10]}." in done.sentence
        origin.push(run, env=job_of(fake, event=event, head_branch="main", head_sha=origin.commits[0]))
    assert origin.steps() == [("first", origin.commits[0])]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["push", "branch", "pull-request"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"event": "workflow_dispatch", "head_branch": "topic"}, "of the event workflow_dispatch on topic: only pushes to main"),
        ({"head_branch": "topic"}, "of the event push on topic"),
        ({"head_branch": None}, "of the event push on no branch"),
        ({"event": "pull_request"}, "of the event pull_request on main"),
        ({"event": "repository_dispatch"}, "of the event repository_dispatch on main"),
        ({"event": "pull_request_target"}, "of the event pull_request_target on main"),
        ({"head_repository": "a-stranger/kernels"}, "of the event push on main of a fork"),
        ({"head_repository": None}, "of the event push on main of a fork"),
    ],
)
def test_a_run_that_is_not_of_main(origin: Origin, mode: str, changes: dict[str, object], said: str) -> None:
    """GitHub says which event and branch started the run; whatever the environment says, no other run moves the baseline."""
    topic = origin.merge("the work of somebody")
    git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/topic", f"+{origin.commits[0]}:refs/heads/main")
    before = git(origin.bare, "for-each-ref")
    with FakeGitHub(State(origin=origin.bare)) as fake:
        env = job_of(fake, **({"event": "push", "head_branch": "main", "head_sha": topic} | changes))
        done = origin.push(origin.run(new(), head=topic), "--mode", mode, env=env, code=2)
        assert said in done.sentence
        assert "start the workflow on main" in done.sentence
        assert not fake.state.pulls
    assert git(origin.bare, "for-each-ref") == before


def test_a_job_that_names_another_branch(origin: Origin) -> None:
    """In a workflow, --onto cannot lead elsewhere; and without a token nobody can say what the run is of."""
    run = origin.run(new(), head=origin.commits[0])
    with FakeGitHub(State(origin=origin.bare)) as fake:
        env = job_of(fake, event="push", head_branch="main", head_sha=origin.commits[0])
        assert "of the event push on topic" in origin.push(run, "--onto", "topic", env=env, code=2).sentence
        assert "GITHUB_TOKEN is not set" in origin.push(run, env=env | {"GITHUB_TOKEN": ""}, code=2).sentence
        origin.push(run, "--onto", "main", env=env)


def test_the_answer_to_a_push_is_lost(origin: Origin) -> None:
    """A connection that is cut after the push was taken makes no second commit, and the step counts as pushed."""
    hook = origin.bare / "hooks" / "post-receive"
    hook.write_text("#!/bin/sh\nrm hooks/post-receive\nkill -9 $PPID\n", encoding="utf-8")
    hook.chmod(0o755)
    done = origin.push(origin.run(new(), head=origin.commits[0]))
    assert "main: pushed " in done.out
    assert len(origin.subjects()) == 2


def test_the_remote_is_gone(origin: Origin) -> None:
    """A remote that does not answer is one sentence without its password, and exit code 3."""
    job = origin.job()
    git(job.repo, "remote", "set-url", "origin", "http://user:s3cret@127.0.0.1:9/x.git")
    done = origin.push(origin.run(new(), head=origin.commits[0]), job=job, code=3)
    assert done.sentence.startswith("git ls-remote from origin failed: ")
    assert "s3cret" not in done.out + done.err


def test_outputs_and_summary(origin: Origin, tmp_path: Path) -> None:
    """The steps that follow learn what moved; the summary shows it; --json gives it to machines."""
    env = {"GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = origin.push(origin.run(new(), head=origin.commits[0]), "--json", env=env)
    answer = only_json(done.out)
    assert (answer["mode"], answer["branch"], [move["kind"] for move in answer["moves"]]) == ("push", "main", ["first"])
    assert f'\n["{NAME}"]\n' in (tmp_path / "out").read_text(encoding="utf-8")
    assert f"main: pushed {answer['commit'][:10]}." in (tmp_path / "summary").read_text(encoding="utf-8")


# ---- acceptances


def job_of(fake: FakeGitHub, **run: Any) -> dict[str, str]:
    """The environment of a job of a workflow run; but for the run's number, it says what a job of main would have."""
    fake.state.add_run(900, **run)
    says_main = {
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_REF_NAME": "main",
        "GITHUB_REF_TYPE": "branch",
    }
    return api(fake) | says_main | {"GITHUB_RUN_ID": "900", "GITHUB_SHA": str(run["head_sha"])}


def api(fake: FakeGitHub) -> dict[str, str]:
    return {"GITHUB_TOKEN": fake.token, "GITHUB_API_URL": fake.url, "GITHUB_REPOSITORY": fake.state.repository}


def accepted_pull(
    fake: FakeGitHub,
    merged_as: str,
    head: str,
    case: str = NAME,
    number: int = 7,
    writer: str = "a-maintainer",
    **changes: object,
) -> None:
    """A merged pull request in which a writer accepted a case at its head."""
    fake.state.add_pull(number, head_sha=head, merge_commit_sha=merged_as, state="closed", merged=True)
    fake.state.permissions[writer] = "write"
    said = fake.state.add_comment(number, writer, f"/ratchet accept {case} masked rows were wrong")
    told = {"case": case, "reason": "masked rows were wrong", "by": writer, "sha": head, "comment": said.id}
    acceptance = Acceptance(**(told | {"at": examples.STARTED} | changes))
    fake.state.add_comment(number, "github-actions[bot]", acknowledgement([acceptance]) + "\nAccepted.")


def slower(origin: Origin) -> tuple[str, Path]:
    """A baseline of one case, and a merge that is a tenth slower."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    merged = origin.merge("slower on purpose")
    return merged, origin.run(timed(1.1), head=merged)


def test_an_acceptance_is_recorded_after_the_merge(origin: Origin) -> None:
    """The case moves to the merged commit, with who and why in its chain; the same job again moves nothing."""
    merged, run = slower(origin)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40)
        out = origin.push(run, env=api(fake)).out
        assert f"{NAME}: 1.000 ms → 1.100 ms (+10.00 % [+9.94, +10.06]), accepted by a-maintainer: masked rows were wrong" in out
        assert "nothing to push" in origin.push(run, env=api(fake)).out
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", merged)]
    entry = origin.stored().entries(examples.FINGERPRINT)[NAME]
    assert (entry.steps[-1].by, entry.steps[-1].reason) == ("a-maintainer", "masked rows were wrong")


def two_merges_in_one_push(origin: Origin, folder: Path) -> tuple[str, str, dict[str, str]]:
    """Merge two slower commits after a recorded one; return both, and the variables of a job for the push of both."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    first, last = origin.merge("slower on purpose"), origin.merge("slower still")
    event = {"ref": "refs/heads/main", "before": origin.commits[0], "after": last}
    (folder / "event.json").write_text(json.dumps(event), encoding="utf-8")
    return first, last, {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(folder / "event.json"), "GITHUB_SHA": last}


def test_several_pull_requests_in_one_push(origin: Origin, tmp_path: Path) -> None:
    """What was accepted in the earlier one of two pull requests that a merge queue pushed together is recorded too."""
    first, last, env = two_merges_in_one_push(origin, tmp_path)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, first, "8" * 40)
        origin.push(origin.run(timed(1.1), head=last), env=api(fake) | env)
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", last)]


def test_the_latest_of_two_acceptances_is_recorded(origin: Origin, tmp_path: Path) -> None:
    """Where two pull requests of one push accepted a case, the chain names who accepted the merged commit, and why."""
    first, last, env = two_merges_in_one_push(origin, tmp_path)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, first, "8" * 40)
        accepted_pull(fake, last, "9" * 40, number=8, writer="another-maintainer")
        origin.push(origin.run(timed(1.1), head=last), env=api(fake) | env)
    assert origin.stored().entries(examples.FINGERPRINT)[NAME].steps[-1].by == "another-maintainer"


def test_an_acceptance_of_a_push_that_no_run_recorded(origin: Origin) -> None:
    """After `[skip ci]` or without a runner, the next push looks back to the last commit that a run recorded, and no further."""
    origin.push(origin.run(new(), head=origin.commits[0], day=0))
    skipped = origin.merge("slower on purpose [skip ci]")
    origin.merge("nobody measured this either")
    last = origin.merge("something else")
    file = ".github/workflows/ratchet_baseline.yml"
    main = {"event": "push", "head_branch": "main", "path": file}
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, skipped, "8" * 40)
        fake.state.add_run(800, head_sha=origin.commits[0], **main)
        fake.state.add_run(801, head_sha=skipped, **main | {"conclusion": "failure"})  # it recorded nothing
        fake.state.add_run(802, head_sha=skipped, **main | {"path": ".github/workflows/x.yml"})
        origin.push(origin.run(timed(1.1), head=last), env=job_of(fake, head_sha=last, **main))
        asked = fake.sent("GET", r"/commits/[0-9a-f]{40}/pulls")
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", last)]
    assert len(asked) == 4  # the three merges, and the commit of the baseline


def test_an_acceptance_is_recorded_once(origin: Origin) -> None:
    """A run that recorded it may have failed in another job, so that the next one looks back to it: what came since stays red."""
    merged, run = slower(origin)
    main = {"event": "push", "head_branch": "main", "path": ".github/workflows/ratchet_baseline.yml"}
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40)
        fake.state.add_run(800, head_sha=origin.commits[0], **main)
        environ = job_of(fake, head_sha=merged, **main)
        origin.push(run, env=environ)
        fake.state.add_run(900, head_sha=merged, **main | {"conclusion": "failure"})
        last = origin.merge("slower by mistake")
        fake.state.add_run(901, head_sha=last, **main)
        again = origin.run(timed(1.1), head=last, reference=merged, day=2)
        origin.push(again, env=environ | {"GITHUB_RUN_ID": "901", "GITHUB_SHA": last})
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", merged)]


def test_a_branch_that_somebody_else_wrote_is_not_carried_along(origin: Origin) -> None:
    """What a writer put on the branch of the baseline's pull request would be merged under our name: nothing is pushed."""
    mode = ("--mode", "pull-request")
    origin.push(origin.run(new(), head=origin.commits[0], day=0), *mode)
    git(origin.work, "fetch", "--quiet", "origin")
    git(origin.work, "checkout", "--quiet", "-B", "theirs", f"origin/{SIDE}")
    commit(origin.work, "perf: ratchet baseline forward", {"kernel.cu": "evil\n"})
    git(origin.work, "push", "--quiet", "origin", f"theirs:{SIDE}")
    before = git(origin.bare, "rev-parse", SIDE)
    done = origin.push(origin.run(new("copy/a"), head=origin.commits[0], day=1), *mode, code=3)
    assert f"The branch {SIDE} also changes 'kernel.cu', which no commit of ours does" in done.err
    assert git(origin.bare, "rev-parse", SIDE) == before


@pytest.mark.slow
def test_an_acceptance_survives_a_race(origin: Origin) -> None:
    """A writer that is overtaken applies the acceptance again on top."""
    merged, run = slower(origin)
    hook = origin.bare / "hooks" / "pre-receive"  # lets another push in before the first one
    hook.write_text("#!/bin/sh\nrm -f hooks/pre-receive\nunset GIT_QUARANTINE_PATH\nexec sh hooks/overtake\n", encoding="utf-8")
    hook.chmod(0o755)
    other = origin.run(new("copy/a"), head=merged)
    (origin.bare / "hooks" / "overtake").write_text(
        f"cd '{origin.job().repo}' && env -u GIT_DIR -u GIT_OBJECT_DIRECTORY -u GIT_ALTERNATE_OBJECT_DIRECTORIES "
        f"'{origin.job().python}' -m ratchet ci push '{other}' >&2\n",
        encoding="utf-8",
    )
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40)
        origin.push(run, env=api(fake))
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", merged)]
    assert origin.steps("copy/a") == [("first", merged)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"sha": "9" * 40}, {"by": "a-stranger"}, {"reason": "another reason"}, {"comment": 999}, {"comment": None}],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_no_acceptance(origin: Origin, changes: dict[str, object]) -> None:
    """One for an earlier head, by somebody without rights, or backed by no comment or label moves nothing."""
    merged, run = slower(origin)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40, **changes)
        assert "accepted" not in origin.push(run, env=api(fake)).out
    assert origin.steps() == [("first", origin.commits[0])]


def test_a_label_accepts_what_is_red(origin: Origin) -> None:
    """The label on a merged pull request accepts each case that is red in main's run."""
    merged, _ = slower(origin)
    run = origin.run(timed(1.1), timed(1.0, "copy/a"), head=merged)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40, "*/*", comment=None, reason="Labelled.")
        fake.state.pulls[7].labels.append(LABEL)
        origin.push(run, env=api(fake))
    assert origin.steps() == [("first", origin.commits[0]), ("accepted", merged)]
    assert origin.steps("copy/a") == [("first", merged)]


def test_an_acceptance_that_cannot_be_recorded_is_said(origin: Origin) -> None:
    """A case that main's run does not have is named; the others are recorded."""
    merged, run = slower(origin)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40, "attention/gone")
        out = origin.push(run, env=api(fake)).out
    assert "attention/gone was accepted by a-maintainer, but does not move: The run has no case attention/gone." in out


def test_a_token_that_is_not_valid(origin: Origin) -> None:
    """With a token that GitHub refuses nothing is pushed: an acceptance could be lost. The token is never shown."""
    merged, run = slower(origin)
    tip = git(origin.bare, "rev-parse", "main")
    with FakeGitHub(State(origin=origin.bare)) as fake:
        accepted_pull(fake, merged, "8" * 40)
        done = origin.push(run, env=api(fake) | {"GITHUB_TOKEN": "ghs_expired0000"}, code=2)
    assert "ghs_expired0000" not in done.out + done.err
    assert git(origin.bare, "rev-parse", "main") == tip


RECORD = "results/static.json"


def with_static(origin: Origin, run: Path, head: str, *, content: str | None = None) -> Path:
    """An artifact of a run, and of the static record that its job wrote at ``head``."""
    folder = origin.folder / f"artifact-{head[:8]}-{len(list(origin.folder.iterdir()))}"
    folder.mkdir()
    (folder / "current.json").write_bytes(run.read_bytes())
    measured = load(run, RunRecord)
    tree = Tree(commit=head, content=git(origin.work, "rev-parse", f"{head}^{{tree}}"))
    recorded = Recorded(
        tree=tree,
        environment=measured.environment,
        plan=measured.plan,
        imported=Footprint(),
        kernels=(),
        cases={NAME: RecordedCase()},
    )
    save(folder / "static.json", recorded)
    if content is not None:
        (folder / "static.json").write_text(content)
    return folder


def test_a_new_static_record_comes_with_the_baseline(origin: Origin) -> None:
    """It is committed beside the baseline, for its commit, in a commit of its own that starts nothing; the same again is none."""
    first = origin.commits[0]
    artifact = with_static(origin, origin.run(new(), head=first, day=0), first)
    origin.push(artifact)
    assert origin.subjects()[0] == f"perf: ratchet static record of {first[:10]} [skip ci]"
    assert git(origin.bare, "diff", "--name-only", "main~1", "main") == RECORD
    assert loads(git(origin.bare, "show", f"main:{RECORD}").encode(), RECORD, Recorded).tree.commit == first
    assert "main: nothing to push." in origin.push(artifact).out
    assert len(origin.subjects()) == 3


def test_an_earlier_static_record_changes_nothing(origin: Origin) -> None:
    """That of an earlier commit, which a job left as it was, is not entered, nor one that comes after that of a later commit."""
    first, second = origin.commits[0], origin.merge("second")
    origin.push(with_static(origin, origin.run(new(), head=second, day=1), second))
    before = git(origin.bare, "show", f"main:{RECORD}")
    origin.push(with_static(origin, origin.run(new(), head=first, day=0), first))
    origin.push(with_static(origin, origin.run(new(), head=second, day=2), first))
    assert git(origin.bare, "show", f"main:{RECORD}") == before


@pytest.mark.parametrize("content", ["{}", "[" * 100_000, "x" * (2**23 + 1)], ids=["no record", "deep", "large"])
def test_a_damaged_static_record_is_left_out(origin: Origin, content: str) -> None:
    """The baseline moves all the same, and a sentence says what was left out."""
    first = origin.commits[0]
    done = origin.push(with_static(origin, origin.run(new(), head=first, day=0), first, content=content))
    assert "The static record was left out: static.json" in done.out
    assert origin.steps() == [("first", first)]
    assert "results/static.json" not in git(origin.bare, "ls-tree", "-r", "--name-only", "main")


def test_a_static_record_goes_the_way_of_the_baseline(origin: Origin) -> None:
    """Where main takes no push, both wait on one branch; in the mode branch, which never reaches main, there is no record."""
    origin.protect("main")
    first = origin.commits[0]
    artifact = with_static(origin, origin.run(new(), head=first, day=0), first)
    origin.push(artifact)
    assert git(origin.bare, "diff", "--name-only", "main", SIDE).splitlines() == [FILE, RECORD]
    assert origin.subjects(SIDE)[0] == f"perf: ratchet static record of {first[:10]}"
    second = origin.run(timed(0.8), head=first, day=1)
    origin.push(second)
    assert "it belongs on main" in origin.push(artifact, "--mode", "branch", "--onto", "main").out
