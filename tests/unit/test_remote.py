"""What the output of a push means; the pushes themselves are in tests/integration/test_baseline_push.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.common import git_push
from ratchet.common.git_push import FileChange, PushAnswer, PushTarget, Remote, RemoteFile, answer_of, push_file
from ratchet.core.errors import GitError


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("!\tabc:refs/heads/main\t[rejected] (fetch first)\nerror: failed to push some refs to 'x'", PushAnswer.RACE),
        ("!\tabc:refs/heads/main\t[rejected] (non-fast-forward)", PushAnswer.RACE),
        ("!\tabc:refs/heads/main\t[remote rejected] (failed to update ref)", PushAnswer.RACE),
        (
            "!\tabc:refs/heads/main\t[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)",
            PushAnswer.RACE,
        ),
        ("!\tabc:refs/heads/main\t[remote rejected] (incorrect old value provided)", PushAnswer.RACE),
        (
            "remote: error: GH006: Protected branch update failed for refs/heads/main.\n"
            "!\tabc:refs/heads/main\t[remote rejected] (protected branch hook declined)",
            PushAnswer.PROTECTED,
        ),
        (
            "remote: error: GH013: Repository rule violations found for refs/heads/main.\n"
            "!\tabc:refs/heads/main\t[remote rejected] (push declined due to repository rule violations)",
            PushAnswer.PROTECTED,
        ),
        ("!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)", PushAnswer.PROTECTED),
        ("remote: Permission to o/r.git denied to github-actions[bot].\nfatal: unable to access: error: 403", PushAnswer.DENIED),
        ("fatal: could not read Username for 'https://github.com': terminal prompts disabled", PushAnswer.DENIED),
        ("fatal: Authentication failed for 'https://github.com/o/r.git/'", PushAnswer.DENIED),
        ("error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403", PushAnswer.DENIED),
        ("fatal: the remote end hung up unexpectedly", PushAnswer.UNCLEAR),
        (" \tabc:refs/heads/main\t04401ef..c403e1f\nsend-pack: unexpected disconnect while reading", PushAnswer.UNCLEAR),
        ("fatal: unable to access 'https://github.com/': Could not resolve host: github.com", PushAnswer.UNCLEAR),
        ("", PushAnswer.UNCLEAR),
    ],
)
def test_answers(said: str, answer: PushAnswer) -> None:
    """A race is tried again, a rule is gone around, a missing right ends it, and all else is unclear."""
    assert answer_of(said) is answer


class Stubborn(Remote):
    """A remote that always gives the same answer."""

    def __init__(self, answer: PushAnswer) -> None:
        self.name, self.answer, self.root = "origin", answer, Path()
        self.pushes = 0

    def fetched(self, branches: object) -> object:  # type: ignore[override]
        return _Open()

    def file_in(self, commit: str, path: str) -> bytes | None:
        return None

    def commit_file(self, *_: object) -> str:
        return "c" * 40

    def is_ancestor(self, commit: str, tip: str) -> bool:
        return False

    def push(self, commit: str, branch: str) -> tuple[PushAnswer, str]:
        self.pushes += 1
        return self.answer, "words"


class _Open:
    def __enter__(self) -> dict[str, str]:
        return {"main": "a" * 40}

    def __exit__(self, *_: object) -> None: ...


def _same(_: RemoteFile) -> FileChange:
    return FileChange(b"{}", "message")


@pytest.mark.parametrize(
    ("answer", "pushes", "said"),
    [
        (PushAnswer.UNCLEAR, 4, "could not be pushed: words."),
        (PushAnswer.DENIED, 1, "does not let this token write: words."),
        (PushAnswer.PROTECTED, 1, "main does not accept a push: words."),
        (PushAnswer.RACE, 200, "moved 200 times"),
    ],
)
def test_every_push_comes_to_an_end(answer: PushAnswer, pushes: int, said: str) -> None:
    """Whatever a remote goes on answering, the tries end in one sentence, and the waits between them are short."""
    remote = Stubborn(answer)
    waits: list[float] = []
    wait: Callable[[float], None] = waits.append
    with pytest.raises(GitError, match=said):
        push_file(remote, PushTarget("push", "main", "side"), "x", _same, wait)
    assert (remote.pushes, len(waits)) == (pushes, pushes if answer is PushAnswer.RACE else pushes - 1)
    assert all(0 <= each <= 2 for each in waits)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", "token"),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "network"),
        ("fatal: write error: No space left on device", "disk"),
    ],
)
def test_a_failure_points_to_its_place(said: str, place: str) -> None:
    """The hint is about the token, the network or this machine, as git's words are."""
    assert place in git_push._hint(said)
    assert not any(other in git_push._hint(said) for other in {"token", "network", "disk"} - {place})
