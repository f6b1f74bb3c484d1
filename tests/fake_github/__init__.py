"""A stand-in for GitHub on loopback: it keeps state, and holds every request and response against GitHub's own description.

Used so::

    from tests.fake_github import Answer, FakeGitHub

    with FakeGitHub() as fake:                      # ends with an AssertionError if anything broke the contract
        fake.state.add_pull(7, head_sha="a" * 40)
        client = GitHub(fake.token, fake.url, fake.state.repository, patience_s=0)
        fake.script("POST", r"/issues/7/comments", [Answer(502, done=True)])   # created, but answered 502
"""

from tests.fake_github.script import Answer
from tests.fake_github.server import FakeGitHub
from tests.fake_github.state import Check, Comment, Pull, Run, State, Token

__all__ = ["Answer", "Check", "Comment", "FakeGitHub", "Pull", "Run", "State", "Token"]
