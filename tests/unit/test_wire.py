"""Messages over a socket."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.core.bench import wire
from ratchet.core.bench.wire import Channel, Disconnected, ProtocolError, Timeout

pytestmark = pytest.mark.no_cover

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@contextlib.contextmanager
def connected() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel and the bare other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def receive(content: bytes) -> dict[str, Any]:
    """What a channel makes of these bytes, after which the other end closes."""
    with connected() as (channel, other):
        other.sendall(content)
        other.close()
        return channel.receive(1)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_round_trip(message: dict[str, Any]) -> None:
    """Any JSON object arrives as it was sent."""
    with connected() as (channel, other):
        Channel(other).send(message)
        assert channel.receive(1) == message


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Whatever arrives is a message, or Rubbish, Late or Closed, and nothing else."""
    with connected() as (channel, other):
        other.sendall(content)
        other.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ProtocolError, Timeout, Disconnected):
            while True:
                assert isinstance(channel.receive(1), dict)


def test_several_at_once() -> None:
    """Messages that arrive together, or in pieces, are told apart."""
    with connected() as (channel, other):
        other.sendall(b'{"a": 1}\n{"b": 2}\n{"c"')
        assert channel.receive(1) == {"a": 1}
        assert channel.receive(0.01) == {"b": 2}
        with pytest.raises(Timeout):
            channel.receive(0.01)
        other.sendall(b": 3}\n")
        assert channel.receive(1) == {"c": 3}


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"\n",
        b"[1]\n",
        b"3\n",
        b"null\n",
        b'{"a": NaN}\n',
        b'{"a": -Infinity}\n',
        b'{"a": 1\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"a": ' + b"9" * 5000 + b"}\n",
    ],
)
def test_rubbish(content: bytes) -> None:
    """What is no JSON object of real numbers is Rubbish, and is shown at most in part."""
    with pytest.raises(ProtocolError, match="not a message") as caught:
        receive(content)
    assert len(caught.value.message) < 400


def test_a_huge_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not end is given up, not kept."""
    monkeypatch.setattr(wire, "LONGEST_LINE", 1000)
    with pytest.raises(ProtocolError, match="more than 32 MiB"):
        receive(b"x" * 1100)


@pytest.mark.parametrize("content", [b"", b'{"a": 1}'])
def test_closed(content: bytes) -> None:
    """An end that closes, also in the middle of a message, is Closed."""
    with pytest.raises(Disconnected):
        receive(content)


def test_late() -> None:
    """An end that says nothing, or not enough, is Late, and the limit is named."""
    with connected() as (channel, other):
        with pytest.raises(Timeout, match="no answer within 0 s"):
            channel.receive(0)
        other.sendall(b'{"a"')
        with pytest.raises(Timeout, match=r"no answer within 0\.02 s"):
            channel.receive(0.02)


def test_without_a_limit() -> None:
    """Without a limit a message that is there is read, and an end that closes is Closed."""
    with connected() as (channel, other):
        other.sendall(b'{"a": 1}\n')
        other.close()
        assert channel.receive(None) == {"a": 1}
        with pytest.raises(Disconnected):
            channel.receive(None)


def test_sending_to_nobody() -> None:
    """Sending to an end that is gone is Closed."""
    with connected() as (channel, other):
        other.close()
        with pytest.raises(Disconnected):
            channel.send({"a": 1})


def test_nan_is_never_sent() -> None:
    """A number that is none is a mistake of the sender's."""
    with connected() as (channel, _), pytest.raises(ValueError, match="not JSON compliant"):
        channel.send({"a": math.nan})


def test_open_files_travel() -> None:
    """Files sent beside a message arrive open; a plain message arrives without; an end that is gone is None."""
    reading, writing = os.pipe()
    with connected() as (channel, other):
        Channel(other).send_with_files({"op": "fork"}, [writing, writing])
        os.close(writing)
        received = channel.receive_with_files()
        assert received is not None
        message, descriptors = received
        assert message == {"op": "fork"}
        assert len(descriptors) == 2
        for descriptor in descriptors:
            os.write(descriptor, b"through")
            os.close(descriptor)
        assert os.read(reading, 100) == b"throughthrough"
        os.close(reading)
        other.sendall(json.dumps({"op": "reap"}).encode() + b"\n")
        assert channel.receive_with_files() == ({"op": "reap"}, [])
        long = {"modules": ["package.module"] * 10_000}
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(Channel(other).send, long)
            assert channel.receive_with_files() == (long, [])
            sent.result()
        other.close()
        assert channel.receive_with_files() is None


def test_close() -> None:
    """A closed channel tells the other end."""
    with connected() as (channel, other):
        channel.close()
        assert other.recv(1) == b""
