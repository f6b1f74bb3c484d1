"""`ratchet advise` beside torch's own pattern matcher (torch.profiler._pattern_matcher), on the CPU patterns that both know."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, profile  # noqa: E402  after the skip
from torch.profiler._pattern_matcher import ForLoopIndexingPattern, SynchronizedDataLoaderPattern  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from ratchet.explain.advice import advise  # noqa: E402
from ratchet.explain.advice.trace import read_trace  # noqa: E402


class Waiting(Dataset[float]):
    """Samples that take a while."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        time.sleep(0.01)
        return float(index)


def loader() -> None:
    for batch in DataLoader(Waiting(), batch_size=1):
        batch.sum()


def rows() -> None:
    table = torch.zeros(400, 4)
    for index in range(400):
        table[index] = index


def whole() -> None:
    for _ in range(4):
        torch.arange(400.0).mul(2)


def matches(pattern: Any) -> bool:
    """Whether any event matches. torch names a few events by bytes that are not UTF-8; none of those is an operator's."""
    for event in pattern.eventTreeTraversal():
        with contextlib.suppress(UnicodeDecodeError):
            if pattern.match(event):
                return True
    return False


@pytest.fixture
def both(tmp_path: Path) -> Callable[[Callable[[], None]], tuple[set[str], set[str]]]:
    """Profiles a function, and gives the names that torch and ratchet find in it."""

    def look(function: Callable[[], None]) -> tuple[set[str], set[str]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.disable()  # callbacks of other tests' tools would stand among the calls that torch's matcher counts
            try:
                with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as taken:
                    function()
            finally:
                gc.enable()
        path = tmp_path / "trace.json"
        taken.export_chrome_trace(str(path))
        ours = {finding.pattern for finding in advise(read_trace(path), "x").findings}
        patterns = {"indexing-loop": ForLoopIndexingPattern(taken), "loader-stall": SynchronizedDataLoaderPattern(taken)}
        return {name for name, pattern in patterns.items() if matches(pattern)}, ours & set(patterns)

    return look


@pytest.mark.parametrize(("function", "name"), [(loader, "loader-stall"), (rows, "indexing-loop"), (whole, "")])
def test_both_find_the_same(
    both: Callable[[Callable[[], None]], tuple[set[str], set[str]]], function: Callable[[], None], name: str
) -> None:
    """What torch's matcher knows of these, ratchet finds too, and nothing of it elsewhere.

    On a busy machine most of a trace may be time of other processes, beside which nothing is worth a word. Then another counts.
    """
    expected = ({name} - {""}, {name} - {""})
    found = next((one for one in (both(function) for _ in range(20)) if one == expected), None)
    assert found == expected, both(function)
