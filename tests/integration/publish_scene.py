"""A pull request that was measured, the stand-in for GitHub that knows of it, and the job that publishes."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

from ratchet.core.records.files import save
from ratchet.core.records.run import CaseRun, Tree
from ratchet.github.client import GitHub
from ratchet.github.comment import MARKER
from ratchet.github.publish import Publication, PublishRequest, publish
from ratchet.github.records import Acceptance
from ratchet.github.state import acknowledgement
from tests import examples
from tests.fake_github import Check, FakeGitHub
from tests.history_examples import timed

NAME = "attention/training_512"
HEAD, LATER = "3f2a1bc98d" + "0" * 30, "4e" * 20
RUN = 900
BOT = "github-actions[bot]"
FIRST = MARKER.format(id="default")
RED, SAME = timed(1.1), timed(1.0)


class Scene:
    """A pull request from a fork, the run that measured its head, and the job that publishes."""

    def __init__(self, folder: Path, fake: FakeGitHub) -> None:
        self.fake, self.state, self.folder = fake, fake.state, folder
        self.place = folder / "artifact"
        self.pull = fake.state.add_pull(7, head_sha=HEAD, head_ref="topic", head_repository="octocat/kernels")
        self.measured = fake.state.add_run(RUN, head_sha=HEAD, head_branch="topic", head_repository="octocat/kernels")
        self.measured.artifacts.append("benchmark-ratchet-results")
        fake.state.parents = {each: [examples.REFERENCE.commit] for each in (self.pull.base_sha, HEAD)}
        self.set_settings("")
        self.environ = {
            "GITHUB_TOKEN": fake.token,
            "GITHUB_API_URL": fake.url,
            "GITHUB_REPOSITORY": fake.state.repository,
            "GITHUB_EVENT_NAME": "workflow_run",
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "RUNNER_TEMP": str(folder),
        }
        run: dict[str, Any] = {"id": RUN, "name": "CUDA benchmark ratchet", "event": "pull_request", "head_sha": HEAD}
        run |= {"path": ".github/workflows/cuda_benchmark_ratchet.yml", "head_branch": "topic", "conclusion": "success"}
        run |= {"head_repository": {"full_name": "octocat/kernels"}, "run_attempt": 1, "html_url": "https://example.org"}
        self.set_event("workflow_run", {"action": "completed", "workflow_run": run | {"pull_requests": []}})

    def begin_as(self, other: Scene) -> None:
        """Have what happened in another scene behind it, and the files that were written there."""
        vars(self.state).update(copy.deepcopy(vars(other.state)))
        self.pull, self.measured = self.state.pulls[7], self.state.runs[RUN]
        shutil.copytree(other.folder, self.folder, dirs_exist_ok=True)

    def set_event(self, name: str, payload: dict[str, Any]) -> None:
        self.environ["GITHUB_EVENT_NAME"] = name
        (self.folder / "event.json").write_text(json.dumps(payload), encoding="utf-8")

    def set_settings(self, text: str, ref: str = "main") -> None:
        self.state.set_file("pyproject.toml", f"[tool.ratchet]\n{text}".encode(), ref)

    def artifact(self, *cases: CaseRun, **changes: Any) -> None:
        """What the GPU job handed over."""
        self.place.mkdir(exist_ok=True)
        usual: dict[str, Any] = {"head": Tree(commit=HEAD), "reference": examples.REFERENCE}
        save(self.place / "current.json", examples.run_of(*cases, **(usual | changes)))

    def client(self, **changes: Any) -> GitHub:
        """One that does not wait."""
        return GitHub(self.fake.token, self.fake.url, self.state.repository, patience_s=0, sleep=lambda _: None, **changes)

    def publish(self, **changes: Any) -> Publication:
        return publish(PublishRequest(self.place, **changes), self.client(), self.environ)

    def ours(self) -> list[str]:
        return [each.body for each in self.state.comments.values() if each.author == BOT and each.body.startswith(FIRST)]

    @property
    def check(self) -> Check:
        """The one check run, which is complete."""
        [check] = self.state.checks.values()
        assert (check.status, check.head_sha) == ("completed", self.measured.head_sha)
        return check

    def accept(self, case: str = NAME, **changes: Any) -> None:
        """A maintainer accepted a case, and our bot acknowledged it."""
        self.state.permissions["a-maintainer"] = "write"
        said = self.state.add_comment(7, "a-maintainer", f"/ratchet accept {case} masked rows were wrong")
        told = {"case": case, "reason": "masked rows were wrong", "by": "a-maintainer", "sha": HEAD, "comment": said.id}
        acceptance = Acceptance(**(told | {"at": said.created_at} | changes))
        self.state.add_comment(7, BOT, f"{acknowledgement([acceptance])}\nAccepted.")
