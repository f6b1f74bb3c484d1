"""What a stranger can make GitHub itself say before a trusted job runs: names, comments, check runs, runs, files, labels.

Each changes the stand-in for GitHub after an honest red report of the head. Whatever they say, no job may be led by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ratchet.github.records import Acceptance
from ratchet.github.state import LABEL, acknowledgement
from tests.fake_github import Check
from tests.integration.publish_scene import BOT, FIRST, HEAD, LATER, NAME, RUN, Scene

EVIL = "x\n::error::x ##[error]x @octocat fixes #1 <img src=x> https://evil.example `$(id)`"
"""Mentions, closes, loads, commands and links, wherever it is printed raw."""
MEASURES = ".github/workflows/cuda_benchmark_ratchet.yml"
STRANGER = "a-stranger"


@dataclass(frozen=True)
class StateAttack:
    name: str
    change: Callable[[Scene], object]


def states() -> Iterator[StateAttack]:
    """Every change that is tried before every job."""
    for name, change in (*_names(), *_comments(), *_checks(), *_runs(), *_files(), *_later()):
        yield StateAttack(name, change)


Changes = Iterator[tuple[str, Callable[[Scene], object]]]


def _names() -> Changes:
    yield "a title that commands", lambda scene: setattr(scene.pull, "title", EVIL)
    yield "a branch that commands", _branch
    yield "a base called like an entry of a queue", _queue_for_base
    yield "a second pull request of the head with a lenient base", _lenient_twin
    yield "the label without anybody who set it", lambda scene: scene.pull.labels.append(LABEL)
    yield "labels that command", lambda scene: scene.pull.labels.extend([EVIL, "ratchet:accept "])


def _branch(scene: Scene) -> None:
    scene.pull.head_ref = scene.measured.head_branch = "$(id)`id`;::error::x"


def _queue_for_base(scene: Scene) -> None:
    scene.pull.base_ref = f"gh-readonly-queue/main/pr-7-{LATER}"
    scene.state.branches[scene.pull.base_ref] = scene.pull.base_sha


def _lenient_twin(scene: Scene) -> None:
    scene.state.branches["lenient"] = scene.pull.base_sha
    scene.set_settings("regression_threshold = '90%'", "lenient")
    scene.state.add_pull(6, head_sha=HEAD, head_ref="topic", head_repository="octocat/kernels", base_ref="lenient")


def _acknowledged(by: str, sha: str = HEAD, case: str = NAME, comment: int | None = None) -> str:
    accepted = Acceptance(case=case, reason="x", by=by, sha=sha, comment=comment, at=datetime(2026, 11, 21, tzinfo=UTC))
    return f"{acknowledgement([accepted])}\nAccepted."


def _echo(run: int, body: str = "### ✅ all good") -> str:
    return f"{FIRST}\n<!-- ratchet:run:{run}:{HEAD} -->\n{body}\n`x/y` {EVIL}"


def _comments() -> Changes:
    def says(author: str, body: str) -> Callable[[Scene], object]:
        return lambda scene: scene.state.add_comment(7, author, body)

    yield "a stranger's copy of our report", says(STRANGER, _echo(RUN))
    yield "an echo of our report with a run that nobody knows", says(BOT, _echo(10**12))
    yield "an echo of our report with a run of another workflow", _echo_of_other_workflow
    yield "an echo of our report without a run", says(BOT, f"{FIRST}\n### ✅ all good {EVIL}")
    yield "a stranger's acknowledgement", says(STRANGER, _acknowledged(STRANGER))
    yield "an acknowledgement of a stranger's acceptance", says(BOT, _acknowledged(STRANGER))
    yield "an acknowledgement for another head", says(BOT, _acknowledged("a-maintainer", LATER))
    yield "an acknowledgement of a comment that is not there", says(BOT, _acknowledged("a-maintainer", comment=999_999))
    yield "400 comments of 60 KB", _flood


def _echo_of_other_workflow(scene: Scene) -> None:
    scene.state.add_run(RUN + 1, head_sha=HEAD, path=".github/workflows/x.yml", artifacts=["benchmark-ratchet-results"])
    scene.state.add_comment(7, BOT, _echo(RUN + 1))


def _flood(scene: Scene) -> None:
    for _ in range(400):
        scene.state.add_comment(7, STRANGER, f"{FIRST}\n{'x' * 60_000}")


def _check(external_id: str, status: str = "completed", login: str = BOT) -> Callable[[Scene], object]:
    def change(scene: Scene) -> None:
        done = "success" if status == "completed" else None
        made = Check(scene.state.fresh_id(), "ratchet", HEAD, None, external_id, status, done, login=login)
        scene.state.checks[made.id] = made

    return change


def _checks() -> Changes:
    yield "a check that names a run in other digits", _check("９００.1")
    yield "a check that names a run and a line more", _check(f"{RUN}.1\n{RUN}.9")
    yield "a check that names a number of 5,000 digits", _check("9" * 5_000 + ".1")
    yield "a check of another App that names our run", _check(f"{RUN}.1", login="another-app[bot]")
    yield "a check that never ends", _check(f"{RUN}.1", "in_progress")


def _runs() -> Changes:
    def runs(path: str) -> Callable[[Scene], object]:
        more = {"head_sha": HEAD, "path": path, "artifacts": ["benchmark-ratchet-results"], "name": EVIL}
        return lambda scene: (scene.state.add_run(RUN + 1, **more), _check(f"{RUN + 1}.1")(scene))

    yield "a run of a file of that name elsewhere", runs(f"evil/{MEASURES}")
    yield "a run of a file of that name in capitals", runs(MEASURES.replace("cuda", "CUDA"))
    yield "300 artifacts of that name", lambda scene: scene.measured.artifacts.extend(["benchmark-ratchet-results"] * 300)


def _files() -> Changes:
    def has(path: str, content: bytes) -> Callable[[Scene], object]:
        return lambda scene: scene.state.set_file(path, content, HEAD)

    yield "settings in each other", has("pyproject.toml", b"x = " + b"[" * 100_000)
    yield "a workflow folder that is a file", has(".github", b"x")
    yield "a baseline that is a folder", has("results/baseline.json/x", b"{}")


def _later() -> Changes:
    """Written when the code was finished."""

    def says(author: str, body: str) -> Callable[[Scene], object]:
        return lambda scene: scene.state.add_comment(7, author, body)

    def has(path: str, content: bytes) -> Callable[[Scene], object]:
        return lambda scene: scene.state.set_file(path, content, HEAD)

    acknowledged = _acknowledged("a-maintainer").partition("\n")[0]
    yield "an author called like our bot", lambda scene: setattr(scene.pull, "author", "github-actions")
    yield "a branch called like that of the baseline", _branch_of_the_baseline
    yield "a thousand labels", lambda scene: scene.pull.labels.extend(f"{EVIL}{number}" for number in range(1_000))
    yield "a copy of our report of this very run", says(BOT, _echo(RUN))
    yield "an acknowledgement behind a line of its own", says(BOT, f"\n{acknowledged}")
    yield "an acknowledgement within a quotation", says(BOT, f"> {acknowledged}")
    yield "an acknowledgement with a second one in its line", says(BOT, f"{acknowledged}{acknowledged}")
    yield "an acknowledgement in each other", says(BOT, "<!-- ratchet:accept " + '{"acceptances":' * 5_000 + " -->")
    yield "an acknowledgement that is edited", _edited
    yield "a command of a stranger that names a maintainer", says(STRANGER, f"/ratchet accept {NAME} by a-maintainer")
    yield "a check with a base of odd characters", _check(f"{RUN}.1:{'a' * 40}:main\u2028::error::x")
    yield "a check of attempt 0", _check(f"{RUN}.0")
    yield "200 checks that name nothing", lambda scene: [_check(f"{EVIL}{number}")(scene) for number in range(200)]
    yield "a run without a branch or a repository", _bare_run
    yield "a workflow folder of 3,000 files", _many_files
    yield "settings that are no text", has("pyproject.toml", b"\xff\xfe" * 100)
    yield "a benchmark folder that is a file", has("bench", b"x")


def _branch_of_the_baseline(scene: Scene) -> None:
    scene.pull.head_ref = scene.measured.head_branch = "ratchet-baseline"


def _edited(scene: Scene) -> None:
    said = scene.state.add_comment(7, BOT, _acknowledged("a-maintainer"))
    said.updated_at = scene.state.tick()


def _bare_run(scene: Scene) -> None:
    scene.state.add_run(RUN + 1, head_sha=HEAD, head_branch=None, head_repository=None, path=".github/workflows/x.yml", name=EVIL)


def _many_files(scene: Scene) -> None:
    for number in range(3_000):
        scene.state.set_file(f".github/workflows/{number}.yml", b"x", HEAD)
