"""A stand-in for GitHub with one pull request, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ratchet.github.client import GitHub
    from tests.fake_github import FakeGitHub


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    """With pull request 7; what breaks GitHub's description fails the test."""
    from tests.fake_github import FakeGitHub

    with FakeGitHub() as fake:
        fake.state.add_pull(7)
        yield fake


@pytest.fixture
def github(fake: FakeGitHub) -> GitHub:
    """A client that does not wait."""
    from tests.fake_github.operations import connect

    return connect(fake)
