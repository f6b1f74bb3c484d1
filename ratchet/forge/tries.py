"""How often, and how long, one operation on GitHub is tried again.

PyGithub's own retry is off: by default it repeats a POST that GitHub answered with an error after doing it (a comment twice),
it sleeps as long as ``Retry-After`` says, and it has no limit for one operation that makes several calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import SecretStr

from ratchet.errors import ForgeError, UnreachableError
from ratchet.forge.api_errors import KNOWN, Effect, trouble_of

TRIES = 5
T = TypeVar("T")


class Tries:
    """At most five tries in a row, and ``patience_s`` seconds of waiting, for all calls of one operation together."""

    def __init__(self, patience_s: float, sleep: Callable[[float], object], secret: SecretStr) -> None:
        self._left_s = patience_s
        self._sleep = sleep
        self._secret = secret
        self._failures = 0

    def call(self, doing: str, call: Callable[[], T]) -> T:
        """A call that may be made twice: it only reads, or the second time changes nothing more."""
        return self._call(doing, call, (Effect.NOT_YET, Effect.UNKNOWN))

    def call_once(self, doing: str, call: Callable[[], T]) -> T:
        """A call that must not have its effect twice.

        Raises UnreachableError where it is unknown whether it had it: look before you call again.
        """
        try:
            return self._call(doing, call, (Effect.NOT_YET,))
        except UnreachableError as error:
            raise UnreachableError(f"{error.message} It may have been done all the same.", error.hint) from None

    def wait(self, error: ForgeError, asked_s: float | None = None) -> None:
        """Wait until the next try: as long as GitHub asks, else 1, 2, 4, 8 s. Raises ``error`` where there is none."""
        self._failures += 1
        wait_s = min(2.0 ** (self._failures - 1), self._left_s) if asked_s is None else asked_s
        if self._failures >= TRIES or wait_s > self._left_s:
            raise error from None
        self._left_s -= wait_s
        self._sleep(wait_s)

    def _call(self, doing: str, call: Callable[[], T], again: tuple[Effect, ...]) -> T:
        while True:
            try:
                return call()
            except KNOWN as problem:
                trouble = trouble_of(problem, doing, self._secret.get_secret_value())
            if trouble.effect not in again:
                raise trouble.error
            self.wait(trouble.error, trouble.wait_s)
