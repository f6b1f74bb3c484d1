"""Where the seconds of a check go: ``python research/timeline.py check --base v1.2 --device cuda`` takes what `ratchet` takes.

It runs that command in this process, with a watch around what its hosts, workers and profilers are asked for, and prints a table
after its output. Where several things happen at once, a second counts for the first of them in the order of `ORDER`.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ratchet.core.bench import client
from ratchet.core.cli import main as ratchet
from ratchet.explain import cases, ncu, readers

TIMED, ON_DEVICE = ("block", "stage", "kernels"), ("context", "prepare", "finish", "identify", "host_code", "trace")
ORDER = (*TIMED, *ON_DEVICE, "import", "ncu", "read", "page")

Span = tuple[str, float, float]
"""An activity, when it began and when it ended."""


def watch(spans: list[Span], holder: Any, function: str, activity: Callable[..., str]) -> None:
    """Put a function in the place of ``holder.function`` that notes when it was called; ``activity`` gets the arguments."""
    original = getattr(holder, function)

    @functools.wraps(original)
    def watched(*arguments: Any, **named: Any) -> Any:
        began = time.monotonic()
        try:
            return original(*arguments, **named)
        finally:
            spans.append((activity(*arguments), began, time.monotonic()))

    setattr(holder, function, watched)


def shares(spans: list[Span], began: float, ended: float) -> Iterator[tuple[str, float]]:
    """Yield each stretch of time between two events: what it counts for, and its seconds."""
    moments = sorted({began, ended, *(moment for _, start, end in spans for moment in (start, end))})
    for start, end in itertools.pairwise(moments):
        going_on = {activity for activity, first, last in spans if first <= start and last >= end}
        yield next((activity for activity in ORDER if activity in going_on), "other"), end - start


def main() -> int:
    spans: list[Span] = []
    watch(spans, client.HostClient, "_received_listing", lambda *_: "import")
    watch(spans, client.HostClient, "fork", lambda *_: "context")
    watch(spans, client.WorkerClient, "ask", lambda _, question, *__: question)
    watch(spans, ncu, "take", lambda *_: "ncu")
    watch(spans, readers, "read", lambda *_: "read")
    watch(spans, cases, "save_case", lambda *_: "page")
    began = time.monotonic()
    code = ratchet()
    ended = time.monotonic()
    seconds: defaultdict[str, float] = defaultdict(float)
    lengths: defaultdict[str, list[float]] = defaultdict(list)
    for activity, share in shares(spans, began, ended):
        seconds[activity] += share
    for activity, start, end in spans:
        lengths[activity].append(end - start)
    print(f"\n{ended - began:.1f} s, exit {code}\n\n| what | seconds | times | seconds each |\n|:--|--:|--:|--:|")
    for activity, total in sorted(seconds.items(), key=lambda row: -row[1]):
        own = lengths[activity]
        each = f"{sum(own) / len(own):.3f}" if own else ""
        print(f"| {activity} | {total:.1f} | {len(own) or ''} | {each} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
