"""The stand-in's HTTP server: tokens, scripts, pages, and the check against the description around every call."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.fake_github.contract import broken_request, broken_response
from tests.fake_github.routes import MISSING, Call, Reply, Routes, decoded
from tests.fake_github.script import Answer, Script, error
from tests.fake_github.state import TOKEN, State, Token

_LIMITS = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "999", "X-RateLimit-Reset": "1900000000"}

GRAPHQL = ("/graphql", "/api/graphql")
"""Where GitHub answers queries: they are not described with its REST API, and not among the requests here."""
VIEWER = "query { viewer { login } }"


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    login: str
    """Whose token it carried; empty without a good one."""
    status: int
    """What was answered; 0 where the connection was cut."""


class FakeGitHub:
    """GitHub on loopback, from ``with`` to its end; then no request may have broken the contract."""

    token = TOKEN
    """Of the state's bot, with every right."""

    def __init__(self, state: State | None = None, prefix: str = "") -> None:
        self.state = state or State()
        self.prefix = prefix
        """Of every path: ``/api/v3`` on a server of one's own."""
        self.requests: list[Request] = []
        self.violations: list[str] = []
        self._scripts: list[Script] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def __enter__(self) -> FakeGitHub:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{self.prefix}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if kind is None:
            assert self.violations == [], "\n".join(self.violations)

    def script(self, method: str, path: str, answers: Iterable[Answer]) -> None:
        """The next requests of a method (``*``: any) whose path and query match the pattern get these answers, one each."""
        with self._lock:
            self._scripts.append(Script(method, re.compile(path), list(answers)))

    def forget_scripts(self) -> None:
        """Answer as usual from now on."""
        with self._lock:
            self._scripts.clear()

    def sent(self, method: str, path: str = "") -> list[Request]:
        """The requests so far of a method whose path matches the pattern."""
        return [each for each in self.requests if each.method == method and re.search(path, each.path)]

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[Answer | None, int, dict[str, str], bytes]:
        """The trick to play, if any, and what to send."""
        split = urlsplit(target.removeprefix(self.prefix))
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        with self._lock:
            trick = next((each.answers.pop(0) for each in self._scripts if each.matches(method, target)), None)
            if trick is not None and trick.meanwhile is not None:
                trick.meanwhile(self.state)
            trick = None if trick is not None and trick.usual else trick
            who = self.state.tokens.get(headers.get("Authorization", "").partition(" ")[2])
            if trick is not None and not trick.done:
                reply = Reply(trick.status, error(trick.status) if trick.body is None else trick.body, dict(trick.headers))
            else:
                reply = self._usual(method, split.path, query, headers, body, who)
            if trick is not None and trick.done and trick.status != 200:
                reply = Reply(trick.status, error(trick.status) if trick.body is None else trick.body, dict(trick.headers))
            reply = self._paged(split.path, query, reply)
            content = _bytes(reply.body)
            sent = {"Content-Type": "application/json; charset=utf-8", **_LIMITS, **reply.headers}
            if split.path in GRAPHQL:
                return trick, reply.status, sent, content
            self.requests.append(
                Request(
                    method, split.path, query, _json(body), who.login if who else "", 0 if trick and trick.cut else reply.status
                )
            )
            found = broken_request(method, split.path, query, body)
            if trick is None or trick.from_github:
                found += broken_response(method, split.path, reply.status, content, sent["Content-Type"])
            self.violations += [f"{method} {split.path}: {each}" for each in found]
        return trick, reply.status, sent, content

    def wait(self, seconds: float) -> None:
        """Be slow, though not slower than the end of the test."""
        self._ended.wait(seconds)

    def _usual(self, method: str, path: str, query: dict[str, str], headers: Any, body: bytes, who: Token | None) -> Reply:
        if who is None:
            return Reply(401, error(401))
        if path in GRAPHQL:
            asked = " ".join((_json(body) or {}).get("query", "").split())
            if (method, asked) != ("POST", VIEWER):
                return Reply(200, {"errors": [{"message": f"the stand-in knows no such query: {asked}"}]})
            return Reply(200, {"data": {"viewer": {"login": who.login}}})
        below = decoded(path, self.state.repository)
        if below is None:
            return MISSING
        call = Call(method, below, query, _json(body) or {}, headers.get("Accept", ""), who)
        return Routes(self.state, self.url).answer(call)

    def _paged(self, path: str, query: dict[str, str], reply: Reply) -> Reply:
        if reply.status != 200 or not reply.pages:
            return reply
        rows = reply.body if reply.pages == "list" else reply.body[reply.pages]
        size, page = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        last = max(1, -(-len(rows) // size))
        wanted = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        here = {name: number for name, number in wanted.items() if 1 <= number <= last and number != page}
        link = ", ".join(
            f'<{self.url}{path}?{urlencode({**query, "page": number})}>; rel="{name}"' for name, number in here.items()
        )
        cut = rows[(page - 1) * size : page * size]
        body = cut if reply.pages == "list" else reply.body | {reply.pages: cut}
        return Reply(200, body, {"Link": link} if link else {})

    def as_json(self) -> dict[str, Any]:
        """The state as plain JSON."""
        plain = {name: getattr(self.state, name) for name in ("branches", "dispatches", "statuses", "permissions")}
        kept = {
            name: [dataclasses.asdict(each) for each in getattr(self.state, name).values()]
            for name in ("pulls", "comments", "checks", "runs")
        }
        files = {
            ref: {path: content.decode(errors="replace") for path, content in each.items()}
            for ref, each in self.state.files.items()
        }
        asked = [dataclasses.asdict(each) for each in self.requests]
        whole = {**plain, **kept, "files": files, "requests": asked, "violations": self.violations}
        return json.loads(json.dumps(whole, default=str))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    fake: FakeGitHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news; anything else is a fault of the stand-in, and must fail the test."""
        import sys

        problem = sys.exc_info()[1]
        if not isinstance(problem, ConnectionError):
            self.fake.violations.append(f"the stand-in failed: {problem!r}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for head and body: two wait for each other's receipt
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        trick, status, headers, content = self.server.fake.answer(self.command, self.path, self.headers, body)
        if trick is not None and trick.delay_s:
            self.server.fake.wait(trick.delay_s)
        if trick is not None and trick.cut:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's word
        """Nothing on standard error."""


def _bytes(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None
