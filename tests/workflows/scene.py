"""A repository with one tiny benchmark, its bare origin, and the events that GitHub would send about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fake_github import Check, FakeGitHub
from tests.integration.playground import ADDS, HARNESS, SLOW_ADDS, commit, git, new_repository
from tests.workflows.bridge import Bridge
from tests.workflows.reading import ROOT
from tests.workflows.results import Run
from tests.workflows.runner import Actions

WORKFLOWS = ROOT / ".github" / "workflows"
SETTINGS = """\
pairs = 40
blocks = 2
device = "cpu"
budget = "30s"
regression_threshold = "90%"
improvement_threshold = "40%"
"""
"""A machine that runs tests is busy: what is planted is slower by far more, what is not must not look slower."""
QUIET = ADDS.replace("REPEAT = 40", "REPEAT = 40  # as before")
FAST = ADDS.replace("REPEAT = 40", "REPEAT = 4")
NUMBER = 7


class Scene:
    """``repo`` is a developer's clone, ``origin`` what GitHub has of it; ``main`` is the commit that main stands at;
    ``workflows`` the folder of the files that run: ours, unless a test says otherwise."""

    def __init__(self, folder: Path, fake: FakeGitHub, bridge: Bridge) -> None:
        """In an empty folder, or in a copy of one that another scene has filled."""
        self.repo, self.origin, self.fake, self.workflows = folder / "repo", folder / "origin.git", fake, WORKFLOWS
        if not self.repo.exists():
            new_repository(self.repo, {"bench/adds.py": ADDS}, SETTINGS)
            git(folder, "clone", "--quiet", "--bare", str(self.repo), str(self.origin))
            git(self.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
            git(self.repo, "remote", "add", "origin", str(self.origin))
        git(self.repo, "remote", "set-url", "origin", str(self.origin))
        git(self.repo, "fetch", "--quiet", "origin")
        self.main = git(self.repo, "rev-parse", "main")
        fake.state.origin = self.origin
        fake.state.workflows += [path.name for path in WORKFLOWS.glob("*.yml")]
        self.actions = Actions(folder / "actions", self.origin, fake, bridge, _environ(folder))

    def push(self, files: Mapping[str, str], branch: str = "main", message: str = "change") -> str:
        """Commit to a branch of the origin; returns the commit."""
        start = "origin/main" if branch != "main" else "main"
        git(self.repo, "checkout", "--quiet", "-B", "work", start)
        sha = commit(self.repo, message, files)
        git(self.repo, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        git(self.repo, "fetch", "--quiet", "origin")
        if branch == "main":
            git(self.repo, "branch", "--force", "main", sha)
            self.main = sha
        return sha

    def open_pull(self, source: str, branch: str = "topic", title: str = "A change", *, fork: bool = False) -> dict[str, Any]:
        """Push a version of the benchmark and open a pull request with it; returns the event's payload."""
        git(self.repo, "checkout", "--quiet", "-B", "work", "main")
        sha = commit(self.repo, "a change", {"bench/adds.py": source})
        git(self.repo, "push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{NUMBER}/head")
        if not fork:
            git(self.repo, "push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return self.announce(sha, branch, title, fork=fork)

    def enqueue(self, source: str, onto: str = "") -> dict[str, Any]:
        """Push what a merge queue would merge, onto main or an earlier entry; returns the event's payload."""
        base = onto or self.main
        git(self.repo, "checkout", "--quiet", "-B", "work", base)
        sha = commit(self.repo, f"Merge pull request #{NUMBER}", {"bench/adds.py": source})
        branch = f"gh-readonly-queue/main/pr-{NUMBER}-{base}"
        git(self.repo, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        group = {"head_sha": sha, "head_ref": f"refs/heads/{branch}", "base_sha": base, "base_ref": "refs/heads/main"}
        return {"action": "checks_requested", "merge_group": group}

    def announce(self, sha: str, branch: str = "topic", title: str = "A change", *, fork: bool = False) -> dict[str, Any]:
        """Let GitHub know of a pull request; returns the event's payload."""
        owner = "a-contributor/kernels" if fork else self.fake.state.repository
        self.fake.state.add_pull(NUMBER, head_sha=sha, head_ref=branch, head_repository=owner, base_sha=self.main, title=title)
        head = {"sha": sha, "ref": branch, "repo": {"full_name": owner, "fork": fork}}
        base = {"sha": self.main, "ref": "main", "repo": {"full_name": self.fake.state.repository, "fork": False}}
        return {
            "action": "opened",
            "number": NUMBER,
            "pull_request": {"number": NUMBER, "title": title, "head": head, "base": base, "draft": False},
        }

    def measure(self, event: Mapping[str, Any]) -> Run:
        """Run cuda_benchmark_ratchet.yml for a pull request."""
        return self.run("cuda_benchmark_ratchet.yml", "pull_request", event, sha=event["pull_request"]["head"]["sha"])

    def queued(self, event: Mapping[str, Any]) -> Run:
        """Run cuda_benchmark_ratchet.yml for an entry of a merge queue."""
        group = event["merge_group"]
        return self.run("cuda_benchmark_ratchet.yml", "merge_group", event, sha=group["head_sha"], ref=group["head_ref"])

    def run(self, name: str, event_name: str, event: Mapping[str, Any], **more: Any) -> Run:
        return self.actions.run(self.workflows / name, event_name, event, **more)

    def report(self, run: Run, **changes: Any) -> Run:
        """Run ratchet_report.yml when another run has completed."""
        pull = run.event.get("pull_request")
        here = {"sha": run.sha, "ref": run.ref.removeprefix("refs/heads/"), "repo": {"full_name": self.fake.state.repository}}
        head = pull["head"] if pull else here
        owner = head["repo"]["full_name"]
        artifacts = list(self.actions.store.names.get(run.id, {}))
        fields = {"event": run.event_name, "head_sha": head["sha"], "head_branch": head["ref"], "conclusion": run.conclusion}
        self.fake.state.add_run(run.id, name=run.name, path=run.path, head_repository=owner, artifacts=artifacts, **fields)
        done = {"id": run.id, "name": run.name, "path": run.path, "head_repository": {"full_name": owner}}
        done |= {"run_attempt": 1}
        done |= fields | {"pull_requests": [], "html_url": f"https://github.com/octo-org/kernels/actions/runs/{run.id}"} | changes
        event = {"action": "completed", "workflow_run": done, "workflow": {"name": run.name, "path": run.path}}
        return self.run("ratchet_report.yml", "workflow_run", event, sha=self.main)

    def pushed(self, name: str, sha: str, before: str = "") -> Run:
        """Run a workflow for a push to main."""
        event = {"ref": "refs/heads/main", "before": before or self.main, "after": sha, "forced": False, "deleted": False}
        return self.run(name, "push", event, sha=sha)

    def dispatch(self, name: str, inputs: Mapping[str, Any], by: str = "octocat") -> Run:
        """Start a workflow on the default branch, as a person does."""
        event = {"ref": "refs/heads/main", "inputs": dict(inputs), "sender": {"login": by}}
        return self.run(name, "workflow_dispatch", event, sha=self.main, inputs=inputs)

    def follow(self) -> Run:
        """Run the workflow that was started last through the API."""
        order = self.fake.state.dispatches[-1]
        assert order["ref"] == "main"
        return self.dispatch(order["workflow"], order["inputs"], order["by"])

    def command(self, body: str, author: str = "a-maintainer") -> Run:
        """Somebody comments; ratchet_command.yml runs."""
        said = self.fake.state.add_comment(NUMBER, author, body)
        event = {
            "action": "created",
            "issue": {"number": NUMBER, "pull_request": {"url": "x"}},
            "comment": {"id": said.id, "body": body, "user": {"login": author}},
            "sender": {"login": author},
        }
        return self.run("ratchet_command.yml", "issue_comment", event, sha=self.main)

    def check(self) -> Check:
        """The newest check run."""
        return list(self.fake.state.checks.values())[-1]

    def comment(self) -> str:
        """The one comment of our bot in the pull request."""
        first = "<!-- ratchet:report:"
        bodies = [each.body for each in self.fake.state.comments_of(NUMBER) if each.body.startswith(first)]
        assert len(bodies) == 1, bodies
        return bodies[0]


def _environ(folder: Path) -> dict[str, str]:
    """What a machine's own environment holds. Nothing of the one that runs the tests leaks in."""
    home = folder / "home"
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    path = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "RATCHET_LOCK_DIR": str(home / "tmp"),  # tests do not wait for each other
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(HARNESS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "RATCHET_PROFILE": "never",
        "LANG": "C.UTF-8",
    }


__all__ = ["ADDS", "FAST", "NUMBER", "QUIET", "SLOW_ADDS", "WORKFLOWS", "Scene", "git"]
