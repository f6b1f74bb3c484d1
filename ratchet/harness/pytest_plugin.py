"""Give tests the fixture `ratchet_benchmark`, which times a call as pytest-benchmark's `benchmark` does.

`pytest --ratchet-json={out}` writes every sample in ratchet's own format; without that option a call runs once and is not timed.
pytest imports this file at each start (entry point ``pytest11``), so it imports the standard library and pytest alone.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_SECONDS, _ROUNDS = 0.5, (5, 200)
"""Time that one benchmark's rounds take together, and the fewest and most rounds."""
_ROUND_S = 0.001
"""A shorter call is repeated within a round, since the clock and the loop cost something too."""
_RESULTS = pytest.StashKey[dict[str, list[float]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ratchet").addoption("--ratchet-json", metavar="FILE", help="Time ratchet_benchmark; write samples to FILE.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = {}
    if config.getoption("--ratchet-json") and config.getoption("numprocesses", None):  # of pytest-xdist
        raise pytest.UsageError("Tests that run beside each other cannot be timed: add -n 0 to the command.")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if file := session.config.getoption("--ratchet-json"):
        found = {"unit": "s", "benchmarks": session.config.stash[_RESULTS]}
        Path(file).write_text(json.dumps(found), encoding="utf-8")


@pytest.fixture
def ratchet_benchmark(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a function with its arguments, time it if ``--ratchet-json`` is given, and return its result.

    A test may call it several times; the second call's name ends in ``-2``.
    """
    calls = itertools.count(1)

    def timed(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)  # the first call compiles, and is never timed
        if request.config.getoption("--ratchet-json"):
            name, _, parameters = request.node.nodeid.partition("[")
            place = name.replace(".py::", ".").replace("::", ".").replace("/", ".")
            samples = _samples(lambda: function(*arguments, **named))
            number = next(calls)
            config = f"{parameters.removesuffix(']') or 'default'}{f'-{number}' if number > 1 else ''}"
            request.config.stash[_RESULTS][f"{place}/{config}"] = samples
        return result

    return timed


def _samples(call: Callable[[], object]) -> list[float]:
    """Return the seconds of one call in each round. Where torch has used a GPU, a round ends when the GPU is idle."""
    torch = sys.modules.get("torch")
    wait = torch.cuda.synchronize if torch and torch.cuda.is_available() and torch.cuda.is_initialized() else lambda: None

    def seconds(repeats: int) -> float:
        wait()
        started = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        return (time.perf_counter() - started) / repeats

    repeats = max(1, round(_ROUND_S / max(seconds(1), 1e-9)))
    samples: list[float] = []
    deadline = time.perf_counter() + _SECONDS
    while len(samples) < _ROUNDS[0] or (len(samples) < _ROUNDS[1] and time.perf_counter() < deadline):
        samples.append(seconds(repeats))
    return samples
