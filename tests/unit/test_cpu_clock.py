"""The CPU clock."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from ratchet.core.bench import clocks
from ratchet.core.bench.child.worker import make_clock
from ratchet.core.bench.clocks import CpuClock


def test_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample is the time around one call, in milliseconds, after one call that is not timed."""
    ticks = iter([1_000_000, 3_500_000, 10_000_000, 10_250_000])
    calls: list[int] = []
    clock = CpuClock(lambda: calls.append(1))
    monkeypatch.setattr(clocks, "perf_counter_ns", lambda: next(ticks))
    assert clock.take(2).times_ms == pytest.approx((2.5, 0.25))
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("untimed", "order"),
    [(True, "restore call restore settle now call settle now"), (False, "restore settle now call settle now")],
)
def test_what_comes_before_a_call_is_not_timed(untimed: bool, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore comes before each call, outside of the sample; what waits for it is inside. A long call needs no untimed one."""
    happened: list[str] = []
    clock = CpuClock(*(partial(happened.append, what) for what in ("call", "restore", "settle")))
    monkeypatch.setattr(clocks, "perf_counter_ns", lambda: happened.append("now") or 5)
    clock.take(1, untimed=untimed)
    assert " ".join(happened) == order


def test_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call too short for the clock takes a nanosecond, since a time of 0 has no logarithm."""
    monkeypatch.setattr(clocks, "perf_counter_ns", itertools.repeat(5).__next__)
    found = CpuClock(lambda: None).take(3)
    assert found.times_ms == (1e-6, 1e-6, 1e-6)
    assert not found.exposed


def test_made_by_name() -> None:
    """On the CPU there is one clock, whose caches are as the previous call left them."""
    clock = make_clock("cpu", "cold", lambda: None)
    assert (clock.name, clock.cache) == ("cpu", "warm")
    assert len(clock.take(4).times_ms) == 4
