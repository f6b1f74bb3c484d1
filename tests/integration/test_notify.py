"""`ratchet ci notify` in a job of main: two runs, a baseline, issues on a stand-in for GitHub, and a webhook that takes notes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import RatchetError
from ratchet.core.records.files import load, save
from ratchet.core.records.run import RunRecord, Tree
from ratchet.core.request import Request
from ratchet.github.client import GitHub
from ratchet.github.errors import UnreachableError
from ratchet.github.notify import BISECT, LABEL, Notified, notify
from tests.fake_github import Answer, FakeGitHub, State
from tests.history_examples import new, timed
from tests.integration.playground import commit, git
from tests.integration.test_baseline_push import FILE, NAME, SIDE, Origin, accepted_pull, api, job_of

ADDRESS = "https://hooks.example/services/SECRET"


class Main:
    """A baseline of two cases, and jobs of later commits."""

    def __init__(self, folder: Path, fake: FakeGitHub, origin: Origin) -> None:
        self.fake, self.origin = fake, origin
        self.sent: list[tuple[str, Any]] = []
        self.day = 1.0
        origin.push(origin.run(new(), new("copy/a"), head=origin.commits[0], day=0))

    def pushed(
        self, ratio: float, other: float = 1.0, *, again: float | None = None, name: str = "next"
    ) -> tuple[list[Path], str]:
        """Two runs of a new commit, whose cases take so many times as long as in the baseline."""
        head = self.origin.merge(name)
        ratios = (ratio, ratio if again is None else again)
        self.day += 2
        runs = [
            self.origin.run(timed(one), timed(other, "copy/a"), head=head, day=self.day + number)
            for number, one in enumerate(ratios)
        ]
        return runs, head

    def notify(self, runs: list[Path], head: str, webhook: Any = "slack", *, bisect: bool = False, **env: str) -> Notified:
        environ = job_of(self.fake, event="push", head_branch="main", head_sha=head) | {"RATCHET_WEBHOOK_URL": ADDRESS} | env
        request = Request(self.origin.job().repo, ("ratchet", "notify"))
        how: dict[str, Any] = {"issues": True, "webhook": webhook, "bisect": bisect}
        return notify(runs, GitHub.from_environ(environ), self.send, request, environ, **how)

    def send(self, address: str, document: Any) -> str:
        self.sent.append((address, document))
        return "hooks.example"

    @property
    def issues(self) -> list[tuple[int, str, str]]:
        return [(one.number, one.state, one.title) for one in self.fake.state.issues.values()]


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Main]:
    origin = Origin(tmp_path)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        yield Main(tmp_path, fake, origin)


@pytest.mark.slow
def test_a_regression_has_one_issue_from_its_first_commit_to_its_end(main: Main) -> None:
    """Opened when two runs show it, renewed without news while it lasts, closed when it is gone, opened again when it returns."""
    told = main.notify(*main.pushed(1.1))
    [(number, state, title)] = main.issues
    assert (state, title) == ("open", f"main is slower: {NAME} +10.0 %")
    assert told.done == (f"Opened #{number}: {title}", "Told the webhook at hooks.example.")
    issue = main.fake.state.issues[number]
    assert issue.labels == [LABEL]
    assert issue.body
    assert f"{main.origin.commits[0]} … {main.origin.commits[1]}" in issue.body
    assert [address for address, _ in main.sent] == [ADDRESS]
    assert f"1 case of main became slower: {NAME.replace('_', '')}" in main.sent[0][1]["text"].replace("\u200b", "").replace(
        "_", ""
    )

    told = main.notify(*main.pushed(1.12))
    assert (told.notice, [number for number, _, _ in main.issues]) == (None, [number])
    assert main.fake.state.issues[number].title == f"main is slower: {NAME} +12.0 %"
    assert f"{main.origin.commits[0]} … {main.origin.commits[1]}" in (main.fake.state.issues[number].body or "")
    assert f"Seen last at {main.origin.commits[2]}" in (main.fake.state.issues[number].body or "")
    assert len(main.sent) == 1

    told = main.notify(*main.pushed(1.0), webhook="json")
    assert (issue.state, issue.state_reason) == ("closed", "completed")
    assert told.notice
    assert (main.sent[1][1]["event"], main.sent[1][1]["fixed"]) == ("fixed", [NAME])

    main.notify(*main.pushed(1.1))
    assert (issue.state, len(main.issues), len(main.sent)) == ("open", 1, 3)


@pytest.mark.slow
def test_a_search_is_started_once_for_each_issue(main: Main) -> None:
    """When it is opened, and when it is opened again; not while it is renewed, and not unless it is asked for."""
    main.fake.state.workflows.append(BISECT)
    told = main.notify(*main.pushed(1.1), bisect=True)
    [(number, _, _)] = main.issues
    good, bad = main.origin.commits[:2]
    order = {"case": NAME, "good": good, "bad": bad, "issue": str(number)}
    assert [(one["workflow"], one["ref"], one["inputs"]) for one in main.fake.state.dispatches] == [(BISECT, "main", order)]
    assert f"Started {BISECT} for #{number}." in told.done
    main.notify(*main.pushed(1.12), bisect=True)
    main.notify(*main.pushed(1.0), bisect=True)
    assert len(main.fake.state.dispatches) == 1
    main.notify(*main.pushed(1.1), bisect=True)
    assert main.fake.state.dispatches[-1]["inputs"] == order | {"bad": main.origin.commits[4]}


def test_a_search_begins_at_the_commit_that_its_case_was_compared_with(main: Main) -> None:
    """The baseline names a commit for each case, and the issue that of its own case, not that of another one of the run."""
    main.fake.state.workflows.append(BISECT)
    faster, head = main.origin.merge("faster"), main.origin.merge("slower again")
    case = timed(1.1, reference_tree=Tree(commit=faster))
    runs = [main.origin.run(timed(1.0, "copy/a"), case, head=head, day=3 + number) for number in range(2)]
    main.notify(runs, head, bisect=True)
    [issue] = main.fake.state.issues.values()
    assert f"{faster} … {head}" in (issue.body or "")
    assert main.fake.state.dispatches[-1]["inputs"] == {"case": NAME, "good": faster, "bad": head, "issue": str(issue.number)}


def test_an_issue_closes_when_it_is_over_on_every_model(main: Main) -> None:
    """Each GPU model has a job of its own: one on which nothing is slower does not close the issue of another."""
    models = {"RATCHET_MODELS": "h200 l4"}

    def told(ratio: float, gpu: str) -> str:
        runs, head = main.pushed(ratio)
        for path in runs:
            run = load(path, RunRecord)
            fingerprint = run.environment.fingerprint.model_copy(update={"gpu": gpu})
            save(path, run.model_copy(update={"environment": run.environment.model_copy(update={"fingerprint": fingerprint})}))
        main.notify(runs, head, **models)
        return ",".join(state for _, state, _ in main.issues)

    steps = [(1.1, "H200", "open"), (1.0, "L4", "open"), (1.1, "L4", "open"), (1.0, "H200", "open"), (1.0, "L4", "closed")]
    for ratio, gpu, state in steps:
        assert (gpu, told(ratio, gpu)) == (gpu, state)
    assert len(main.sent) == 2


def test_a_search_that_cannot_be_started_keeps_the_issue(main: Main) -> None:
    """The issue and the message are there, and the job fails with what GitHub said."""
    told = main.notify(*main.pushed(1.1), bisect=True)
    assert (len(main.issues), len(main.sent)) == (1, 1)
    assert told.failed
    assert BISECT in str(told.failed)
    main.notify(*main.pushed(1.1))
    assert main.fake.state.dispatches == []


def test_what_a_second_run_does_not_confirm_is_not_told(main: Main) -> None:
    """Nor what one run alone shows."""
    runs, head = main.pushed(1.1, again=1.0)
    assert main.notify(runs, head) == Notified(None)
    assert main.notify(runs[:1], head) == Notified(None)
    assert (main.issues, main.sent) == ([], [])


def test_the_same_job_again_tells_nothing_twice(main: Main) -> None:
    """A job that is run again finds its issue, and an answer that was lost on the way makes no second one."""
    runs, head = main.pushed(1.1)
    main.fake.script("POST", r"/issues$", [Answer(502, done=True)])
    main.notify(runs, head)
    main.notify(runs, head)
    assert (len(main.issues), len(main.sent)) == (1, 1)


def test_a_person_who_closes_it_as_not_planned_hears_no_more(main: Main) -> None:
    """It stays closed while the same regression lasts."""
    main.notify(*main.pushed(1.1))
    [issue] = main.fake.state.issues.values()
    issue.state, issue.state_reason = "closed", "not_planned"
    told = main.notify(*main.pushed(1.1))
    assert (told.notice, issue.state, len(main.issues)) == (None, "closed", 1)
    assert told.done == (f"#{issue.number} was closed as not planned: it stays closed.",)


def test_an_issue_that_a_person_closes_meanwhile_stays_closed(main: Main) -> None:
    """A job that found it open renews its text, and does not open it again."""
    main.notify(*main.pushed(1.1))
    [issue] = main.fake.state.issues.values()

    def closes(_: object) -> None:
        issue.state, issue.state_reason = "closed", "not_planned"

    for method in ("GET", "PATCH"):  # between the list of issues and what the job does to one
        main.fake.script(method, rf"/issues/{issue.number}$", [Answer(usual=True, meanwhile=closes)])
    main.notify(*main.pushed(1.1))
    assert (issue.state, issue.state_reason) == ("closed", "not_planned")


def test_an_issue_of_somebody_else_is_left_alone(main: Main) -> None:
    """Whatever it begins with, and whatever its label is."""
    main.notify(*main.pushed(1.1))
    [ours] = main.fake.state.issues.values()
    ours.author = "a-stranger"
    before = ours.body
    main.notify(*main.pushed(1.1))
    assert (len(main.issues), ours.body) == (2, before)


def test_what_a_pull_request_accepted_is_not_told(main: Main) -> None:
    """The baseline moves to it in the same job; a later slowdown is told, though a job may look back to what was accepted."""
    runs, head = main.pushed(1.1)
    accepted_pull(main.fake, head, git(main.origin.work, "rev-parse", "HEAD"))
    assert main.notify(runs, head).notice is None
    assert main.issues == []
    main.origin.push(*runs, env=api(main.fake))
    main.fake.state.add_run(800, event="push", head_branch="main", head_sha=main.origin.commits[0])  # the last that succeeded
    assert main.notify(*main.pushed(1.1)).notice


def test_what_is_muted_is_not_told(main: Main) -> None:
    """A muted case opens no issue, and one that is open for it stays open: it is still slower."""
    mutes = '[{"case": "attention/*", "owner": "@jo", "reason": "driver 590", "until": "9999-12-31"}]'
    assert main.notify(*main.pushed(1.1), RATCHET_MUTE=mutes).notice is None
    assert main.issues == []
    main.notify(*main.pushed(1.1))
    main.notify(*main.pushed(1.1), RATCHET_MUTE=mutes)
    assert [state for _, state, _ in main.issues] == ["open"]


def test_gates_that_follow_the_history_are_those_of_the_baselines_branch(main: Main) -> None:
    """In the mode `branch` main has no such file: what a check calls unchanged by them opens no issue."""
    stored = json.loads(git(main.origin.bare, "show", f"main:{FILE}"))
    [machine] = stored["fingerprints"].values()
    machine["configs"][NAME]["gate"] = 0.2
    main.origin.pull()
    git(main.origin.work, "branch", SIDE)
    for branch, content in ((SIDE, json.dumps(stored)), ("main", "")):
        git(main.origin.work, "switch", "--quiet", branch)
        commit(main.origin.work, f"The baseline of {branch}", {FILE: content})
        git(main.origin.work, "push", "--quiet", "origin", branch)
    auto = {"RATCHET_REGRESSION_THRESHOLD": "auto"}
    assert main.notify(*main.pushed(1.1), **auto, RATCHET_BASELINE_MODE="branch").notice is None
    assert main.notify(*main.pushed(1.1), **auto).notice


@pytest.mark.slow
def test_what_could_not_be_told_is_an_error_of_the_job(main: Main) -> None:
    """A webhook that fails costs no issue, and a token without the right costs no webhook."""
    runs, head = main.pushed(1.1)

    def fail(*_: object) -> str:
        raise UnreachableError("The webhook at hooks.example answered 500.")

    main.send = fail  # type: ignore[method-assign]
    told = main.notify(runs, head)
    assert (len(main.issues), str(told.failed)) == (1, "The webhook at hooks.example answered 500.")
    told = main.notify(*main.pushed(1.1, 1.2), RATCHET_WEBHOOK_URL="")
    assert isinstance(told.failed, RatchetError)
    assert "RATCHET_WEBHOOK_URL is not set" in str(told.failed)
    main.fake.state.tokens[main.fake.token].rights = frozenset()
    told = main.notify(*main.pushed(1.1, 1.2))
    assert "permissions:" in str(told.failed)


def test_the_command_in_a_job_of_main(main: Main) -> None:
    """As the workflow calls it; outside the default branch it refuses."""
    runs, head = main.pushed(1.1)
    job = main.origin.job()
    env = job_of(main.fake, event="push", head_branch="main", head_sha=head)
    done = job.ratchet("notify", *map(str, runs), "--issues", env=env)
    assert done.code == 0, done
    assert done.out.splitlines()[0] == f"1 case of main became slower: {NAME}."
    assert main.fake.token not in done.out + done.err
    env = job_of(main.fake, event="push", head_branch="topic", head_sha=head)
    assert job.ratchet("notify", *map(str, runs), "--issues", env=env).code == 2
