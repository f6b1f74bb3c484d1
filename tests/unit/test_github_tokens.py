"""The token goes to GitHub, in one header, and nowhere else."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

from ratchet.core.errors import UsageError
from ratchet.github.client import GitHub
from ratchet.github.errors import ForgeError
from tests.fake_github import Answer, FakeGitHub, Token
from tests.fake_github.operations import ANSWERS, OPERATIONS, Operation, connect, populate

pytestmark = pytest.mark.no_cover

HERE = "octo-org/kernels"
SECRET = "ghs_D1st1nct1v3T0k3nThatMustNotBeSeen"
PIECES = (SECRET, SECRET[4:], SECRET.lower())


def shown(text: str) -> bool:
    return any(piece in text for piece in PIECES)


def faces(thing: object) -> str:
    """All that a log or a traceback would print of an object."""
    return f"{thing} {thing!r} {vars(thing) if hasattr(thing, '__dict__') else ''}"


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["", *ANSWERS])
def test_no_path_shows_the_token(answer: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """With every logger at DEBUG, over every operation and answer: not in a log, an output, an error, its causes or a repr."""
    caplog.set_level(logging.DEBUG)
    for name in ("", "github", "github.Requester", "urllib3", "requests"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    with FakeGitHub() as fake:
        populate(fake.state)
        fake.state.tokens = {SECRET: Token()}
        github = connect(fake, SECRET)
        github.open_check("ratchet", "a" * 40, "https://example.org", "5")
        for operation in OPERATIONS.values():
            if answer:
                fake.script("*", "", [ANSWERS[answer][0]] * 30)
            error = _error_of(operation, github)
            assert error is None or answer
            for each in _chain(error):
                assert not shown(faces(each))
                assert not shown("".join(traceback.format_exception(each)))
            fake.forget_scripts()
        assert all(each.login for each in fake.requests)  # it did arrive
    assert not shown(faces(github))
    assert len(caplog.records) > 10  # PyGithub and urllib3 do log
    assert not shown(caplog.text)
    assert not any(shown(repr(record.args)) for record in caplog.records)
    assert not any(map(shown, capfd.readouterr()))


def _error_of(operation: Operation, github: GitHub) -> ForgeError | None:
    try:
        operation.call(github)
    except ForgeError as error:
        return error
    return None


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def test_a_server_that_repeats_the_token(caplog: pytest.LogCaptureFixture) -> None:
    """Where an answer quotes our token, the error does not."""
    with FakeGitHub() as fake:
        fake.state.add_pull(7)
        fake.state.tokens = {SECRET: Token()}
        github = connect(fake, SECRET)
        for status in (401, 403, 404, 422, 500):
            for filler in range(0, 300, 10):  # also where the message is cut in the middle of it
                quoting = {"message": f"{'x' * filler} {SECRET} is wrong", "errors": [{"message": SECRET}]}
                fake.script("GET", "/pulls/7$", [Answer(status, quoting)] * 5)
                with pytest.raises(ForgeError) as caught:
                    github.pull(7)
                assert "D1st" not in str(caught.value)
                fake.forget_scripts()


NONE = (f"{SECRET}\n", f"{SECRET} ", f"{SECRET}\r\nX-Injected: 1", f"{SECRET}é", f"\t{SECRET}")


@pytest.mark.parametrize(
    ("token", "address"), [*((token, "http://127.0.0.1:9") for token in NONE), ("t", f"https://user:{SECRET}@example.org")]
)
def test_a_token_that_is_none(token: str, address: str) -> None:
    """One with blanks, line breaks or other characters, or in an address, is refused unquoted, and nothing is sent."""
    with pytest.raises(UsageError) as caught:
        GitHub(token, address, HERE)
    assert not shown(faces(caught.value))


def test_a_connection_is_not_written_down() -> None:
    """A connection cannot be pickled, which would store its token."""
    github = GitHub(SECRET, "http://127.0.0.1:9", HERE)
    with pytest.raises(TypeError, match="a connection to GitHub holds a token"):
        pickle.dumps(github)
