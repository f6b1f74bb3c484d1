"""`ratchet ci culprit` in a job of main: what a search has found reaches the issue of its regression."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.errors import UsageError
from ratchet.core.records.run import Tree
from ratchet.core.request import Request
from ratchet.github.client import GitHub
from ratchet.github.notify import tell_culprit
from tests.fake_github import FakeGitHub, State
from tests.history_examples import timed
from tests.integration.test_baseline_push import NAME, Origin, job_of
from tests.integration.test_notify import Main


class Searched:
    """An issue about a commit of main, which came with three others after the last one known to be faster."""

    def __init__(self, main: Main) -> None:
        self.main, self.origin = main, main.origin
        self.inner = [main.origin.merge(f"step {number}") for number in range(3)]
        main.notify(*main.pushed(1.1))
        [(self.number, _, _)] = main.issues
        self.good, self.bad = main.origin.commits[0], main.origin.commits[-1]

    def found(self, ratio: float = 1.1, *, head: str = "", reference: str = "", case: str = NAME) -> Path:
        """The artifact of a search: the check of the commit that it names against the one before."""
        head, reference = head or self.inner[1], reference or self.inner[0]
        return self.origin.run(timed(ratio, case), head=head, reference=reference, day=30)

    def tell(self, artifact: Path, *, case: str = NAME, good: str = "", issue: int = 0) -> str:
        head = self.origin.commits[-1]
        environ = job_of(self.main.fake, event="workflow_dispatch", head_branch="main", head_sha=head)
        request = Request(self.origin.job().repo, ("ratchet", "ci", "culprit"))
        search = {"case": case, "good": good or self.good, "bad": self.bad, "number": issue or self.number}
        return tell_culprit(artifact, GitHub.from_environ(environ), request, environ, **search)

    @property
    def body(self) -> str:
        return self.main.fake.state.issues[self.number].body or ""


@pytest.fixture
def searched(tmp_path: Path) -> Iterator[Searched]:
    origin = Origin(tmp_path)
    with FakeGitHub(State(origin=origin.bare)) as fake:
        yield Searched(Main(tmp_path, fake, origin))


def test_the_issue_gets_the_commit_and_two_lines_to_see_it_again(searched: Searched) -> None:
    """Its message, by how much, against which commit; told again, it stands there once, and stays when the issue is renewed."""
    said = searched.tell(searched.found())
    assert said == f"#{searched.number}: {NAME} became slower at {searched.inner[1][:10]}."
    assert f"**Culprit**: {searched.inner[1]} step 1" in searched.body
    assert f"`{NAME}` +10.00 % [+9.94, +10.06] against {searched.inner[0]}" in searched.body
    again = f"git switch --detach {searched.bad[:10]}\nratchet bisect {NAME} {searched.inner[0][:10]} {searched.inner[1][:10]}\n"
    assert again in searched.body
    searched.tell(searched.found(1.2))
    assert searched.body.count("**Culprit**") == 1
    searched.main.notify(*searched.main.pushed(1.1))
    assert f"**Culprit**: {searched.inner[1]}" in searched.body
    assert f"Seen last at {searched.origin.commits[-1]}" in searched.body


def test_a_regression_that_comes_back_is_searched_anew(searched: Searched) -> None:
    """What was found for its first time is no longer said."""
    searched.tell(searched.found())
    searched.main.notify(*searched.main.pushed(1.0))
    assert "**Culprit**" in searched.body
    searched.main.notify(*searched.main.pushed(1.1))
    assert "**Culprit**" not in searched.body


def test_a_search_without_a_result_is_told(searched: Searched, tmp_path: Path) -> None:
    """No artifact, a commit outside the range, one compared with a later one, another case, or times that do not show it."""
    elsewhere = searched.origin.merge("later")
    for artifact in (
        tmp_path / "nothing",
        searched.found(head=elsewhere),
        searched.found(head=searched.inner[0], reference=searched.inner[1]),
        searched.found(case="copy/a"),
        searched.found(1.0),
    ):
        assert "named no commit" in searched.tell(artifact)
        assert "**Culprit**" not in searched.body
        assert "named no commit" in searched.body


def test_a_case_that_was_compared_with_another_commit_is_no_result(searched: Searched) -> None:
    """What the issue says is of two commits that git has in the range, not of a third one that the artifact names beside them."""
    stranger = Tree(commit="`x` @octocat <img src=//evil>")
    sides: dict[str, Any] = {"head": searched.inner[1], "reference": searched.inner[0], "day": 30}
    for artifact in (
        searched.origin.run(timed(1.1), best=(timed(3.0, reference_tree=stranger),), **sides),
        searched.origin.run(timed(1.1, reference_tree=stranger), **sides),
        searched.origin.run(timed(1.1, reference_tree=Tree(commit=searched.bad)), **sides),
    ):
        assert "named no commit" in searched.tell(artifact)
        assert "octocat" not in searched.body
        assert "**Culprit**" not in searched.body


def test_a_search_of_something_else_is_refused(searched: Searched) -> None:
    """Another case, an issue that is not ours, commits in the wrong order or no commits at all: nothing is written."""
    before = searched.body
    for wrong in ({"case": "copy/a"}, {"case": "a b/`c`"}, {"issue": 99}, {"good": searched.origin.merge("x")}, {"good": "main"}):
        with pytest.raises(UsageError):
            searched.tell(searched.found(), **wrong)  # type: ignore[arg-type]
    assert searched.body == before
