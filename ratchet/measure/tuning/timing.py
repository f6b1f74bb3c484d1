"""Time the configurations of one case on one device: each takes turns with the default, in two processes that stay.

So a time is known in terms of the default's time at the same moment, and devices, clocks and heat do not matter
(docs/decisions/0013-tuning-beside-the-default.md). `station.LocalStation` runs a `Timer` in its thread; the timer forks and ends
the two workers through the station's host.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ratchet.errors import WorkerError
from ratchet.measure.client import CaseTrouble, HostClient, Hung, WorkerClient
from ratchet.measure.messages import Compiled, Ready, Sampled, Tried
from ratchet.records.run import Plan
from ratchet.records.tuning import Configuration, Ending, Evaluation

FEWEST = 2
"""Turns before a configuration may be dropped."""
SLACK = 0.05
"""Fraction by which even the fastest turn must be behind: processes that run the same code differ by a percent or two."""


def behind(ratios: Sequence[float], best: float | None) -> bool:
    """Return whether turns, as ratios to the default's neighbouring turns, are clearly slower than the best configuration.

    Only the fastest turn counts, so that one slow turn drops no configuration.
    """
    return best is not None and len(ratios) >= FEWEST and min(ratios) > best * (1 + SLACK)


def normalised(times_ms: Sequence[float], default_ms: Sequence[float]) -> float:
    """Return the time over the default's: the median over neighbouring turns, whose clocks and temperature are alike.

    Both sequences are medians of turns in milliseconds, of the same length.
    """
    return math.exp(statistics.median(math.log(a / b) for a, b in zip(times_ms, default_ms, strict=True)))


TURNS = 5
"""Turns of each of the two, for a configuration that is not dropped."""
MOST = 10
"""Samples in one turn."""
_PATIENCE = 2
"""Losses of the default's process after which the default counts as one that gives no time."""

Role = Literal["default", "candidate"]


class OutOfTime(WorkerError):
    """An evaluation that the end of the time cut off; it has no result."""


@dataclass(frozen=True)
class Aim:
    """The case that is tuned, and the plan for timing it."""

    case: str
    default: Configuration
    plan: Plan
    bytes: float = 0.0
    """Memory that a process of the case allocates, about."""


@dataclass(frozen=True)
class Turns:
    """The blocks of a candidate, and those of the default between them."""

    candidate: list[tuple[float, ...]]
    default: list[tuple[float, ...]]
    dropped: bool
    """The candidate was clearly behind the best, so the last turns are missing."""


class Timer:
    """A timer of one configuration after another on one device. For use in one thread."""

    def __init__(self, host: HostClient, aim: Aim, place: str, alone: threading.RLock) -> None:
        """``alone`` is held while anything is timed, built or checked on the device."""
        self._host, self._aim, self._place, self._alone = host, aim, place, alone
        self._workers: dict[Role, WorkerClient] = {}
        self._default: Tried | None = None
        self._broken_off = 0
        self.default_failure = ""
        """Why the default gives no time; then configurations are timed alone."""

    def evaluate(self, configuration: Configuration, best: float | None, compiled: Compiled | None = None) -> Evaluation:
        """Check and time a configuration; ``compiled`` is the outcome of compiling it, if known.

        Raises OutOfTime at the host's `until`, and HostError where no worker can be forked.
        """
        began = time.monotonic()
        if compiled is not None and compiled.ending != "correct":
            return self._failed(configuration, compiled.ending, compiled.reason, compiled.compile_s, began)
        with self._alone:
            self._prepare_default()
            try:
                tried = self._try("candidate", configuration)
                if tried.call_ms is None:
                    self._end("candidate")  # it may have damaged its process and its context
                    return self._failed(configuration, tried.ending, tried.reason, tried.first_s, began)
                turns = self._turns(tried.call_ms, best)
            except CaseTrouble as error:
                if self._lost_default(error):
                    return self.evaluate(configuration, best, compiled)
                return self._broke(configuration, error, began)
        times = [statistics.median(block) for block in turns.candidate]
        beside = [statistics.median(block) for block in turns.default]
        return Evaluation(
            configuration=configuration,
            outcome="dropped" if turns.dropped else "correct",
            reason=f"clearly behind the best after {len(turns.candidate)} turns" if turns.dropped else "",
            samples_ms=tuple(sample for block in turns.candidate for sample in block),
            median_ms=statistics.median(times),
            normalised=normalised(times, beside) if beside else None,
            compile_s=compiled.compile_s if compiled else tried.first_s,
            wall_s=time.monotonic() - began,
            gpu=self._place,
            worker=str(self._workers["candidate"].pid),
            at=datetime.now(UTC),
        )

    def end(self) -> None:
        """End both workers; the next evaluation starts new ones."""
        for role in list(self._workers):
            self._end(role)
        self._default = None

    def _turns(self, call_ms: float, best: float | None) -> Turns:
        """Take turns, after one each that does not count."""
        slower = max(call_ms, self._default.call_ms or 0.0 if self._default else 0.0)
        count = min(MOST, max(1, round(self._aim.plan.block_ms / slower)))
        roles: tuple[Role, ...] = ("default", "candidate") if self._default else ("candidate",)
        taken: dict[Role, list[tuple[float, ...]]] = {"default": [], "candidate": []}
        for index in range(-1, TURNS):
            for role in roles if index % 2 else roles[::-1]:
                sampled = self._workers[role].ask("block", Sampled, samples=count, place=index + 1)
                if index >= 0:
                    taken[role].append(sampled.samples_ms)
            pairs = zip(taken["candidate"], taken["default"], strict=False)
            if behind([statistics.median(mine) / statistics.median(other) for mine, other in pairs], best):
                return Turns(taken["candidate"], taken["default"], dropped=True)
        return Turns(taken["candidate"], taken["default"], dropped=False)

    def _prepare_default(self) -> None:
        """Prepare the default in a process of its own, or note why it gives no time."""
        if self._default or self.default_failure:
            return
        try:
            tried = self._try("default", self._aim.default)
        except CaseTrouble as error:
            self._end("default")
            self._refuse_late(error)
            self.default_failure = error.message
            return
        if tried.call_ms is None:
            self._end("default")
            self.default_failure = tried.reason
        else:
            self._default = tried

    def _try(self, role: Role, configuration: Configuration) -> Tried:
        plan = self._aim.plan
        if role not in self._workers:
            self._workers[role] = self._host.fork()
            self._workers[role].ask("open", Ready, case=self._aim.case, seed=plan.seed, placements=plan.placements)
        return self._workers[role].ask("try", Tried, tuning=configuration, clock=plan.clock, cache=plan.cache)

    def _lost_default(self, error: CaseTrouble) -> bool:
        """Return whether the default's process was lost: then another takes its place, until `_PATIENCE` were lost."""
        self._refuse_late(error)
        if "default" not in self._workers or self._workers["default"].alive:
            return False
        self.end()
        self._broken_off += 1
        if self._broken_off >= _PATIENCE:
            self.default_failure = error.message
        return True

    def _broke(self, configuration: Configuration, error: CaseTrouble, began: float) -> Evaluation:
        """Return the record of a configuration whose process was lost, or cannot be trusted any more."""
        self._end("candidate")
        ending: Ending = "timeout" if isinstance(error, Hung) else "crash"
        if "out of GPU memory" in error.message:
            ending = "resources"
        return self._failed(configuration, ending, " ".join([error.message, *error.last_lines[-1:]]), 0.0, began)

    def _refuse_late(self, error: CaseTrouble) -> None:
        if time.monotonic() >= self._host.until:
            self.end()
            raise OutOfTime("the time is over") from error

    def _failed(self, configuration: Configuration, ending: Ending, reason: str, compile_s: float, began: float) -> Evaluation:
        return Evaluation(
            configuration=configuration,
            outcome=ending,
            reason=reason or "no reason given",
            compile_s=compile_s,
            wall_s=time.monotonic() - began,
            gpu=self._place,
            at=datetime.now(UTC),
        )

    def _end(self, role: Role) -> None:
        worker = self._workers.pop(role, None)
        if worker is not None:
            worker.end(kill=True)
