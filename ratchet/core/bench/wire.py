"""Exchange messages over a socket, one JSON object per line, with deadlines. The sender may be code that went wrong.

It touches the sockets that it is given, and nothing else (docs/decisions/0015-child-protocol.md).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from json import dumps, loads  # by name, as below: a benchmark may replace them in their modules, and runs in the same process
from time import monotonic
from typing import Any

from ratchet.core.errors import WorkerError

LONGEST_LINE = 32 * 2**20
"""Most bytes of one message; a longer one is a ProtocolError."""
TICK_S = 1.0
"""Seconds between two looks at whether whoever waits has to end."""


class Disconnected(WorkerError):
    """The other end is gone."""


class Timeout(WorkerError):
    """The other end did not answer in time."""


class ProtocolError(WorkerError):
    """The other end broke the protocol."""


class Channel:
    """One end of a conversation; both ends use this class."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises Disconnected or Timeout; TypeError or ValueError for what JSON cannot hold."""
        try:
            self._socket.settimeout(60)
            self._socket.sendall(dumps(message, allow_nan=False).encode() + b"\n")
        except (BrokenPipeError, ConnectionError):
            raise Disconnected("the connection is closed") from None
        except TimeoutError:
            raise Timeout("nobody reads the connection") from None

    def receive(self, timeout_s: float | None, waiting: Callable[[], None] | None = None) -> dict[str, Any]:
        """Return the next message; a timeout of None waits for ever. Raises Disconnected, Timeout or ProtocolError.

        ``waiting`` is called each `TICK_S` seconds until the message comes, and may raise what ends the wait.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while b"\n" not in self._rest:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise Timeout(f"no answer within {timeout_s:g} s")
            self._socket.settimeout(min(left or TICK_S, TICK_S) if waiting else left)
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError:
                if waiting:
                    waiting()
                continue
            except ConnectionError:
                part = b""
            if not part:
                raise Disconnected("the connection is closed")
            self._rest += part
            if len(self._rest) > LONGEST_LINE:
                raise ProtocolError("a message of more than 32 MiB")
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            message = loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ProtocolError(f"not a message: {line[:80]!r}")
        return message

    def send_with_files(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send a message and open files, which the host hands to the worker that it forks. Raises OSError."""
        self._socket.settimeout(60)
        socket.send_fds(self._socket, [dumps(message).encode() + b"\n"], list(descriptors))

    def receive_with_files(self) -> tuple[dict[str, Any], list[int]] | None:
        """Return the next message and its files; None where the other end is gone. Waits for ever."""
        self._socket.settimeout(None)
        try:
            self._rest, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 16, 2)
            return self.receive(None), descriptors
        except (ConnectionError, Disconnected):
            return None

    def close(self) -> None:
        self._socket.close()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no measurement")
