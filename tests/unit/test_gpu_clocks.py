"""The GPU clocks without a GPU: what they ask of torch, and that they ask what was there when they were imported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ratchet.core.bench import clocks


class Stream:
    """A stream on which things take their time, which writes down what they were."""

    now = 0.0

    def __init__(self) -> None:
        self.order: list[str] = []

    def note(self, name: str, ms: float) -> None:
        self.order.append(name)
        self.now += ms


class Event:
    """An event of such a stream."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing


def record(one: Any, stream: Any) -> None:
    one.at = stream.now


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Takes the place of what the clocks bound at their import; what torch offers now raises."""
    stream = Stream()
    monkeypatch.setattr(clocks, "current_stream", lambda: stream)
    monkeypatch.setattr(clocks, "synchronize", lambda: None)
    monkeypatch.setattr(clocks, "_Event", Event)
    monkeypatch.setattr(clocks, "_sleep", lambda _: None)
    monkeypatch.setattr(clocks, "_record", record)
    monkeypatch.setattr(clocks, "_query", lambda _: False)
    monkeypatch.setattr(clocks, "_elapsed_ms", lambda start, end: end.at - start.at)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked of torch while timing")

    for name in ("Event", "synchronize", "current_stream", "_sleep", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    return stream


def test_event_clock(stream: Stream) -> None:
    """Each sample is the time from one event to the next on the stream, after one call that is not timed."""
    calls: list[float] = []

    def call() -> None:
        calls.append(stream.now)
        stream.now += 1.0

    clock = clocks.EventClock(call, "warm")
    assert clock.take(3).times_ms == (1.0, 1.0, 1.0)
    assert clock.take(2).times_ms == (1.0, 1.0)
    assert len(calls) == 4 + 3


def test_graph_clock(stream: Stream) -> None:
    """Each sample is a twentieth of one replay."""

    def replay() -> None:
        stream.now += 5.0

    clock = object.__new__(clocks.GraphClock)  # nothing is captured here
    clock._calls = clocks.CALLS
    clocks.EventClock.__init__(clock, replay, "warm")
    assert clock.take(2).times_ms == (5.0 / clocks.CALLS,) * 2


def test_what_comes_before_a_call_is_not_timed(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call comes after a restore of its inputs and then the flush, and neither is between the events."""
    note = stream.note
    monkeypatch.setattr(clocks, "new_flush", lambda: lambda: note("flush", 50.0))
    clock = clocks.EventClock(lambda: note("call", 1.0), "cold", before=lambda: note("restore", 100.0))
    assert clock.take(2).times_ms == (1.0, 1.0)
    assert stream.order == ["restore", "call", *["restore", "flush", "call"] * 2]


def test_graph_with_a_restore_holds_one_call(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something to restore, a sample is one replay of one call; the restore comes before it on the stream, untimed."""
    order, note = stream.order, stream.note

    class Context:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> None:
            order.append("enter")

        def __exit__(self, *_: object) -> None:
            order.append("exit")

    stream.wait_stream = lambda _: None  # type: ignore[attr-defined]  as a real one has
    monkeypatch.setattr(clocks, "_new_stream", lambda: stream)
    monkeypatch.setattr(clocks, "_on_stream", Context)
    monkeypatch.setattr(clocks, "_capture", Context)
    monkeypatch.setattr(clocks, "_new_graph", object)
    monkeypatch.setattr(clocks, "_replay", lambda _: note("replay", 5.0))
    clock = clocks.GraphClock(lambda: note("call", 1.0), before=lambda: note("restore", 100.0))
    assert order == ["enter", *["restore", "call"] * 3, "restore", "exit", "enter", "call", "exit"]
    order.clear()
    assert clock.take(2).times_ms == (5.0, 5.0)
    assert order == ["restore", "replay"] * 3


def test_clocks_hold_what_torch_offered_at_their_import() -> None:
    """Each function that a clock uses is torch's own."""
    assert clocks._record is torch.cuda.Event.record
    assert clocks._query is torch.cuda.Event.query
    assert clocks._elapsed_ms is torch.cuda.Event.elapsed_time
    assert clocks.synchronize is torch.cuda.synchronize
    assert clocks._replay is torch.cuda.CUDAGraph.replay
    assert clocks._fill_with_zeros is torch.Tensor.zero_


def test_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sleep covers what queueing took and a half more, is short again after a slow call, and is given up where none helps."""
    asleep: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(clocks, "_sleep", lambda cycles: asleep.append(cycles / clocks._CYCLES_PER_SECOND))
    monkeypatch.setattr(clocks, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(clocks, "_query", bool)  # an event is here whether the stream has passed it

    def block(lead: clocks.LaunchDelay, calls: int, took_s: float, passed: bool | None = None) -> bool:
        lead.give(calls)
        clock[0] += took_s
        return lead.judge(took_s > asleep[-1] if passed is None else passed)  # type: ignore[arg-type]  as above

    lead = clocks.LaunchDelay()
    assert [block(lead, 10, 0.001) for _ in range(3)] == [True, False, False]
    assert asleep[-1] == pytest.approx(0.0015)
    assert block(lead, 20, 0.002) is False, "a longer block has a longer lead"
    assert block(lead, 20, 0.02) is True
    assert [block(lead, 20, 0.002) for _ in range(3)] == [False, False, False]
    assert asleep[-2:] == pytest.approx([0.003, 0.003])
    for _ in range(5):
        assert block(lead, 10, asleep[-1] + 0.001, passed=True)
    assert asleep[-1] == pytest.approx(20e-6)
