"""From a pull request to its comment and check run: the GPU job's artifact, published by the trusted job."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.workflows.results import Run
from tests.workflows.scene import NUMBER, QUIET, SLOW_ADDS, Scene, git
from tests.workflows.stand_ins import APP, APP_ID, APP_KEY

BRANCH = "$(touch${IFS}pwned)`touch${IFS}pwned`"
TITLE = "`touch pwned` $(touch pwned)\n::set-output name=verdict::passed\n::error::pwned @everyone <img src=x>"
DEFECT = """\
import os
import ratchet.github.artifact
def take_in(*words):
    raise RuntimeError("\\n::error::pwned " + os.environ["GITHUB_TOKEN"])
ratchet.github.artifact.take_in = take_in
"""


Slow = tuple[Scene, Run]


@pytest.mark.slow
def test_the_story_of_a_slow_pull_request(slow: Slow) -> None:
    """Red with one comment; accepted by a maintainer, green; a push later the same comment tells of the new head alone."""
    scene, run = slow
    scene.fake.state.permissions["a-maintainer"] = "write"
    report = scene.report(run)
    job = report.jobs["publish"]
    assert job.result == "success", job.log
    assert "##[error]" not in job.log
    assert job.outputs == {"verdict": "regressed", "regressions": "1"}
    assert "adds/small" in job.summary
    check = scene.check()
    assert (check.name, check.head_sha, check.status, check.conclusion) == ("ratchet", run.sha, "completed", "failure")
    assert "adds/small" in scene.comment()

    answered = scene.command("/ratchet accept adds/small the next stage needs it")
    assert answered.conclusion == "success", answered.log
    assert scene.fake.state.dispatches[-1]["workflow"] == "ratchet_report.yml"
    again = scene.follow()
    assert again.conclusion == "success", again.log
    assert scene.check().conclusion == "success"
    assert "a-maintainer" in scene.comment()

    green = scene.report(scene.measure(scene.open_pull(QUIET)))
    assert green.jobs["publish"].outputs == {"verdict": "passed", "regressions": "0"}
    assert scene.check().conclusion == "success"
    assert "a-maintainer" not in scene.comment()


@pytest.mark.slow
def test_the_base_branch_s_settings_decide_in_every_job(scene: Scene) -> None:
    """Main's gate of 20 % and folder of results are what the GPU job, the report and the baseline go by, not what the pull
    request says; the comment names the commit that both come from.
    """
    own = (scene.repo / "pyproject.toml").read_text()
    theirs = own.replace('"90%"', '"99%"')
    scene.push({"pyproject.toml": own.replace('"90%"', '"20%"') + 'results = "perf"\n'})
    first = scene.pushed("ratchet_baseline.yml", scene.main)
    assert first.conclusion == "success", first.log
    git(scene.repo, "fetch", "--quiet", "origin")
    main = git(scene.origin, "rev-parse", "main")
    assert git(scene.origin, "diff", "--name-only", "main~1", "main") == "perf/baseline.json"
    head = scene.push({"pyproject.toml": theirs, "bench/adds.py": SLOW_ADDS}, "topic")
    run = scene.measure(scene.announce(head))
    assert run.conclusion == "failure", run.log
    record = json.loads((scene.actions.store.names[run.id]["benchmark-ratchet-results"] / "current.json").read_text())
    assert (record["policy"]["regression"], record["policy"]["improvement"]) == (0.2, 0.4)
    assert scene.report(run).conclusion == "success"
    assert scene.check().conclusion == "failure"
    said = f"gate 20 %, improvement 40 % from pyproject.toml of main at {main[:10]}; baseline perf/baseline.json of main at"
    assert f"{said} {main[:10]}" in scene.comment()


def test_a_threshold_that_a_person_wrote_into_the_workflows(slow: Slow) -> None:
    """It wins over the settings, which the comment says; one that the GPU job was not given is said too."""
    scene, run = slow
    scene.actions.edited = {"REGRESSION_THRESHOLD": "-95"}
    scene.report(run)
    at = f"pyproject.toml of main at {scene.main[:10]}"
    assert f"gate 95 % from this workflow, not from {at}; improvement 40 % from {at}" in scene.comment()
    assert "The GPU job measured for gate 90 % and improvement 40 %; this verdict is by gate 95 % and" in scene.comment()


def test_a_trusted_job_installs_nothing_that_is_not_pinned(slow: Slow) -> None:
    """pip is asked for wheels with digests alone, and for ratchet itself without an index; there is no torch to import."""
    scene, run = slow
    job = scene.report(run).jobs["publish"]
    assert job.result == "success", job.log
    assert len(job.pip) == 2
    assert "--require-hashes" in job.pip[0]
    assert "--only-binary :all:" in job.pip[0]
    assert "--no-index" in job.pip[1]


@pytest.mark.slow
def test_an_app_writes_in_its_own_name(slow: Slow) -> None:
    """With an App's secrets, check run and comments are the App's, at each push the same, and its token has the job's rights."""
    scene, run = slow
    scene.actions.secrets = {"RATCHET_APP_ID": APP_ID, "RATCHET_APP_PRIVATE_KEY": APP_KEY}
    scene.fake.state.permissions["a-maintainer"] = "write"
    for _ in range(2):
        report = scene.report(run)
        assert report.conclusion == "success", report.log
    assert scene.comment()
    assert {each.author for each in scene.fake.state.comments_of(NUMBER)} == {APP}
    assert {sent.login for sent in scene.fake.sent("POST", "/check-runs")} == {APP}
    minted = [token.rights for token in scene.fake.state.tokens.values() if token.login == APP]
    assert set(minted) == {frozenset({"checks", "pull_requests"})}
    answered = scene.command("/ratchet accept adds/small the next stage needs it")
    assert answered.conclusion == "success", answered.log
    again = scene.follow()
    assert again.conclusion == "success", again.log
    assert scene.check().conclusion == "success"
    assert "a-maintainer" in scene.comment()


@pytest.mark.slow
def test_a_label_is_accepted_in_an_app_s_name(slow: Slow) -> None:
    """The label's job speaks for whoever set it, though its own token is not the App's."""
    scene, run = slow
    scene.actions.secrets = {"RATCHET_APP_ID": APP_ID, "RATCHET_APP_PRIVATE_KEY": APP_KEY}
    scene.fake.state.permissions["a-maintainer"] = "maintain"
    scene.report(run)
    scene.fake.state.pulls[NUMBER].labels = ["ratchet:accept"]
    labelled = {**run.event} | {"action": "labeled", "label": {"name": "ratchet:accept"}, "sender": {"login": "a-maintainer"}}
    scene.run("ratchet_command.yml", "pull_request_target", labelled, sha=scene.main)
    assert scene.follow().conclusion == "success"
    scene.follow()
    assert scene.check().conclusion == "success"


def test_an_app_with_a_wrong_key_writes_nothing(slow: Slow) -> None:
    """The job fails, and does not fall back to its own name."""
    scene, run = slow
    scene.actions.secrets = {"RATCHET_APP_ID": APP_ID, "RATCHET_APP_PRIVATE_KEY": "x"}
    assert scene.report(run).conclusion == "failure"
    assert not scene.fake.state.checks
    assert not scene.fake.state.comments


@pytest.mark.slow
def test_a_hostile_name_is_a_name(scene: Scene, tmp_path: Path) -> None:
    """Title and branch full of commands run nothing, command nothing, and appear in no comment."""
    run = scene.measure(scene.open_pull(QUIET, branch=BRANCH, title=TITLE))
    report = scene.report(run)
    assert report.conclusion == "success", report.log
    assert not list(tmp_path.rglob("pwned*"))
    told = [text for _, text in (*run.jobs["measure"].commands, *report.jobs["publish"].commands)]
    assert not any("pwned" in text for text in told)
    assert not re.search("pwned|@everyone|<img", scene.comment())


def test_a_gpu_job_that_died_is_told_of(scene: Scene) -> None:
    """No artifact: the check run is completed, red, with a sentence, and the comment has it too."""
    scene.actions.edited = {"BASELINE_PATH": "/nowhere"}
    run = scene.measure(scene.open_pull(QUIET))
    scene.actions.edited = {}
    assert run.conclusion == "failure"
    assert run.id not in scene.actions.store.names
    report = scene.report(run)
    assert report.conclusion == "success", report.log
    assert (scene.check().status, scene.check().conclusion) == ("completed", "failure")
    assert "left no results" in scene.comment()


@pytest.mark.slow
def test_a_merge_queue_gets_a_check_run_on_its_own_commit(scene: Scene) -> None:
    """Each entry is measured against what it would be merged onto, an earlier entry too, and judged for that commit alone."""
    first = scene.enqueue(QUIET)
    second = scene.enqueue(SLOW_ADDS, onto=first["merge_group"]["head_sha"])
    for event, verdict, conclusion in ((first, "passed", "success"), (second, "regressed", "failure")):
        group = event["merge_group"]
        run = scene.queued(event)
        record = json.loads((scene.actions.store.names[run.id]["benchmark-ratchet-results"] / "current.json").read_text())
        assert (record["head"]["commit"], record["reference"]["commit"]) == (group["head_sha"], group["base_sha"]), run.log
        report = scene.report(run)
        assert report.conclusion == "success", report.log
        assert report.jobs["publish"].outputs["verdict"] == verdict
        assert (scene.check().head_sha, scene.check().conclusion) == (group["head_sha"], conclusion)
    assert not scene.fake.state.comments


@pytest.mark.slow
def test_a_defect_of_ours_is_told_of(slow: Slow, tmp_path: Path) -> None:
    """The job fails with exit code 3, comment and check run say that there is no verdict and link to its log; and whatever the
    error quotes commands nothing there, nor shows the token.
    """
    scene, run = slow
    scene.report(run)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(DEFECT)
    scene.actions.environ["PYTHONPATH"] = f"{tmp_path / 'broken'}:{scene.actions.environ['PYTHONPATH']}"
    report = scene.report(run)
    job = report.jobs["publish"]
    assert job.result == "failure"
    assert "this is a defect in ratchet itself" in job.log
    assert "::error::pwned ***" in job.log
    assert "ghs_job" not in job.log
    assert not [words for _, words in job.commands if "pwned" in words]
    assert (scene.check().status, scene.check().conclusion) == ("completed", "failure")
    assert "Publishing ended before there was a verdict" in scene.comment()
    assert f"https://github.com/octo-org/kernels/actions/runs/{report.id}" in scene.comment()
    assert "pwned" not in scene.comment()


@pytest.mark.slow
def test_a_stranger_commands_nothing(slow: Slow) -> None:
    """Without write access nothing is accepted and nothing starts; a comment without a command starts no job at all."""
    scene, run = slow
    scene.report(run)
    before = len(scene.fake.state.comments)
    for count in range(1, 4):
        answered = scene.command("/ratchet accept adds/small because", author="octocat")
        assert answered.conclusion == "success", answered.log
        assert len(scene.fake.state.comments) == before + count  # theirs
    assert not scene.fake.state.dispatches
    assert scene.command("nice work").conclusion == "skipped"
    comment = {"id": 1, "body": "/ratchet accept", "user": {"login": "an-app[bot]", "type": "Bot"}}
    event = {"action": "created", "issue": {"number": NUMBER, "pull_request": {"url": "x"}}, "comment": comment}
    assert scene.run("ratchet_command.yml", "issue_comment", event, sha=scene.main).conclusion == "skipped"


@pytest.mark.slow
def test_a_label_is_handed_over_and_accepted(slow: Slow) -> None:
    """The label's job starts the command's with three values, and that one acknowledges for the head that was labelled."""
    scene, run = slow
    scene.fake.state.permissions["a-maintainer"] = "maintain"
    scene.report(run)
    scene.fake.state.pulls[NUMBER].labels = ["ratchet:accept"]
    labelled = {**run.event} | {"action": "labeled", "label": {"name": "ratchet:accept"}, "sender": {"login": "a-maintainer"}}
    handed = scene.run("ratchet_command.yml", "pull_request_target", labelled, sha=scene.main)
    assert {name: job.result for name, job in handed.jobs.items()} == {"command": "skipped", "label": "success"}, handed.log
    order = scene.fake.state.dispatches[-1]
    assert order["workflow"] == "ratchet_command.yml"
    assert order["inputs"] == {"pr": str(NUMBER), "sha": run.sha, "actor": "a-maintainer"}
    scene.follow()
    assert scene.fake.state.dispatches[-1]["workflow"] == "ratchet_report.yml"
    scene.follow()
    assert scene.check().conclusion == "success"


def test_another_label_starts_nothing(scene: Scene) -> None:
    """Only ratchet:accept means anything."""
    labelled = scene.open_pull(QUIET) | {"action": "labeled", "label": {"name": "$(touch pwned)"}}
    handed = scene.run("ratchet_command.yml", "pull_request_target", labelled, sha=scene.main)
    assert handed.conclusion == "skipped"


def test_a_pull_request_with_another_base_is_judged_again(slow: Slow) -> None:
    """Its check is taken back, and published again by the rules of the new base, which calls it no regression; a new title starts
    nothing; and the schedule finds what GitHub retargets without an event.
    """
    scene, run = slow
    scene.report(run)
    assert scene.check().conclusion == "failure"
    own = (scene.repo / "pyproject.toml").read_text()
    tip = scene.push({"pyproject.toml": own.replace('"90%"', '"99.9%"')}, "release")
    edited = {**run.event} | {"action": "edited", "changes": {"title": {"from": "x"}}}
    assert scene.run("ratchet_report.yml", "pull_request_target", edited, sha=scene.main).conclusion == "skipped"

    pull = scene.fake.state.pulls[NUMBER]
    pull.base_ref, pull.base_sha = "release", tip
    changed = edited | {"changes": {"base": {"ref": {"from": "main"}}}}
    looked = scene.run("ratchet_report.yml", "pull_request_target", changed, sha=scene.main)
    assert {name: job.result for name, job in looked.jobs.items()} == {"publish": "skipped", "recheck": "success"}, looked.log
    assert scene.check().conclusion == "action_required"
    again = scene.follow()
    assert again.conclusion == "success", again.log
    assert "**Base** `release`" in scene.comment()
    newest = scene.check()
    assert newest.conclusion != "action_required"

    pull.base_ref, pull.base_sha = "main", scene.main
    looked = scene.run("ratchet_report.yml", "schedule", {"schedule": "17 * * * *"}, sha=scene.main)
    assert looked.conclusion == "success", looked.log
    assert scene.check().id != newest.id
    assert scene.check().conclusion == "action_required"
