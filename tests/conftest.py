"""Golden files, easy to write again; how many tests run at once; and what of their surroundings counts."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

# On a busy machine any example may take long; each run tries the same ones. Others: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ratchet", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("ratchet")

# Several tests run at once, so each gets one thread: with more, small products of matrices took twice the time.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Nothing that a person set for git counts here, and nothing that git gives to a hook.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]
os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

RUNS = {"zoo", "searched", "filled", "checked", "moved", "measured"}
"""Fixtures that take half a minute, for many tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="write tests/golden again instead of comparing with it")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of workers of ``-n auto``: more than there are cores, since many tests wait half of their time.

    Those that are run with coverage hardly wait, and a worker needs 20 s of a core to import what the tests do.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist reads it
    cores = len(os.sched_getaffinity(0))
    return cores if config.getoption("cov_source", None) else cores + min(cores, 4)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections, which would go through all of it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask for coverage of the unit tests alone: they reach what it looks at, and it makes a test a quarter longer.

    Tests that look at one long run come first, so that one worker makes that run while the others have tests of their own; the
    tests that pytest-xdist hands on from one worker to another are the last ones. All of them are slow.
    """
    items.sort(key=lambda item: RUNS.isdisjoint(getattr(item, "fixturenames", ())))
    for item in items:
        if not RUNS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if item.path.parent != TESTS / "unit":
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with ``tests/golden/NAME``. To write the files again: ``pytest --golden-update``, then read the diff."""
    update = request.config.getoption("--golden-update") or os.environ.get("RATCHET_UPDATE_GOLDEN") == "1"

    def check(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        if update:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"tests/golden/{name} is missing: run pytest --golden-update and read what it wrote"
        assert text == path.read_text(encoding="utf-8"), "if this is meant, run pytest --golden-update and read the diff"

    return check
