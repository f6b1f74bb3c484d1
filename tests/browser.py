"""Headless Chromium for tests of pages, driven by its own protocol over two pipes: no driver and no package is needed.

The protocol: https://chromedevtools.github.io/devtools-protocol/. Messages are JSON, each followed by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WITHOUT = "There is no Chromium here: apt-get install chromium."
"""Why a test of a page is skipped."""
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")
_CODES = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
_ANSWER_S = 60.0
_LEFT = -32000
"""What the browser answers where the page of a command gave way to another one in the middle of it."""


class PageLeftError(Exception):
    """The page was left before the command was answered."""


@dataclass
class Tab:
    """One page of the browser."""

    _read: int
    _write: int
    _session: str = ""
    _number: int = 0
    _rest: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What the browser reported by itself, oldest first."""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The browser's answer to one command. Raises PageLeftError where the page was left in the middle of it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        if answer.get("error", {}).get("code") == _LEFT:
            raise PageLeftError(answer["error"]["message"])
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Load a page, until its scripts have run."""
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while not any(
            event["params"].get("loaderId") == loader and event["params"].get("name") == "load" for event in self.events
        ):
            self.events.append(self._next())

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, after a promise of it is kept."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, such as ``ArrowLeft`` or ``/``."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=_CODES.get(key, 0), **text)

    def choose(self, element: str, value: str) -> None:
        """Choose an option of a list, as a person does."""
        listed = f"document.getElementById({element!r})"
        self.evaluate(f"{listed}.value = {value!r}; {listed}.dispatchEvent(new Event('input'))")

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page is true, while it may be loading another one."""
        end = time.monotonic() + _ANSWER_S
        while not self._holds(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.evaluate(f"Boolean({condition})"))
        except PageLeftError:
            return False

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Make the window so large; one of at most 500 pixels is a phone's."""
        phone = width <= 500
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def photograph(self, *, whole: bool = False) -> bytes:
        """A PNG picture of what is in sight, or of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the browser refused to load or to run, so far."""
        self.evaluate("0")  # what happened before this has been reported now
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
        ]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _ANSWER_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            content = os.read(self._read, 1 << 20) if ready else b""
            assert content, f"Chromium ended or gave no answer within {_ANSWER_S:.0f} s."
            self._rest += content
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browser() -> Iterator[Tab]:
    """A browser with one empty page; it ends with the block, with all its processes."""
    assert CHROMIUM, WITHOUT
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        pipes = [*os.pipe(), *os.pipe()]
        theirs, ours, read, write = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in pipes)
        for each in pipes:
            os.close(each)
        pid = os.posix_spawn(
            CHROMIUM,
            [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 3),
                (os.POSIX_SPAWN_DUP2, write, 4),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
        os.close(theirs)
        os.close(write)
        try:
            tab = Tab(read, ours)
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            tab._session = tab.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                tab.call(f"{domain}.enable")
            tab.call("Page.setLifecycleEventsEnabled", enabled=True)
            yield tab
        finally:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(read)
            os.close(ours)
