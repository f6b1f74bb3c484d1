"""The GPU clocks: what they time, and what they keep out of it."""

from __future__ import annotations

import statistics
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from ratchet.core.bench.child.worker import make_clock  # noqa: E402  after the skip: importing a clock must not need a GPU


def median_ms(clock, count=20):
    for _ in range(3):  # the lead of the queue adapts itself
        clock.take(count)
    taken = clock.take(count)
    assert len(taken.times_ms) == count
    return statistics.median(taken.times_ms)


def test_event_clock_times_the_device():
    """A device-side sleep of a million cycles takes 0.3 to 2 ms on any GPU of today, and that is what the clock says."""
    assert 0.3 < median_ms(make_clock("event", "warm", lambda: torch.cuda._sleep(1_000_000)), 5) < 2.0


def test_launch_latency_stays_out():
    """Half a millisecond of host time before each launch does not reach the samples of a small kernel."""
    x = torch.randn(1024, device="cuda")

    def late():
        until = time.perf_counter() + 0.5e-3
        while time.perf_counter() < until:
            pass
        x.mul_(1.0)

    assert median_ms(make_clock("event", "warm", late)) < 0.1


def test_exposed_samples_are_marked():
    """Where the host is so slow that the GPU must wait for it, the block says so."""
    x = torch.randn(1024, device="cuda")

    def very_late():
        time.sleep(0.02)
        x.mul_(1.0)

    clock = make_clock("event", "warm", very_late)
    assert clock.take(6).exposed


def test_cold_cache_is_cold():
    """Reading 16 MiB that would fit into L2 takes longer with the cold cache than with the warm one."""
    x = torch.randn(4 << 20, device="cuda")
    out = torch.empty((), device="cuda")
    cold = median_ms(make_clock("event", "cold", lambda: torch.sum(x, dim=0, out=out)))
    warm = median_ms(make_clock("event", "warm", lambda: torch.sum(x, dim=0, out=out)))
    assert cold > warm


def test_graph_clock_divides_by_its_calls():
    """A kernel that takes 0.1 ms and more has the same time by the graph clock as by the event clock, within a fifth."""
    x = torch.randn(4096, 4096, device="cuda")
    graph = median_ms(make_clock("graph", "warm", lambda: torch.mm(x, x)))
    event = median_ms(make_clock("event", "warm", lambda: torch.mm(x, x)))
    assert graph == pytest.approx(event, rel=0.2)


def test_work_that_no_graph_can_hold_is_an_error():
    """A call that waits for the device cannot be captured, and says so instead of giving a time."""
    x = torch.randn(16, device="cuda")
    with pytest.raises(Exception, match=r"(?i)captur"):
        make_clock("graph", "warm", lambda: x.sum().item())
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", ["event", "graph"])
def test_what_a_benchmark_replaces_changes_no_time(name, monkeypatch):
    """Functions of torch that are replaced after the clocks were imported are not asked."""
    x = torch.ones(1 << 24, device="cuda")  # drawn numbers would need the generator that a failed capture spoils
    honest = median_ms(make_clock(name, "warm", lambda: x.mul_(1.0)))
    for owner, function in ((torch.cuda.Event, "elapsed_time"), (torch.cuda.Event, "query"), (torch.cuda, "synchronize")):
        monkeypatch.setattr(owner, function, lambda *_: 1e-6)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda _: None)
    assert median_ms(make_clock(name, "warm", lambda: x.mul_(1.0))) > honest / 2


def test_a_cold_graph_is_as_cold_as_cold_events():
    """Reading 16 MiB in a graph with a flush before each call takes as long as with cold events, longer than in a warm graph."""
    x = torch.randn(4 << 20, device="cuda")
    out = torch.empty((), device="cuda")
    cold, events, warm = (
        median_ms(make_clock(name, "cold", lambda: torch.sum(x, dim=0, out=out))) for name in ("cold-graph", "event", "graph")
    )
    assert cold > 1.1 * warm
    assert cold == pytest.approx(events, rel=0.3)


def test_a_cold_graph_restores_what_a_call_changes():
    """What comes before each call is in the graph and not in its time."""
    x = torch.zeros(1 << 20, device="cuda")
    source = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    with_copy = median_ms(make_clock("cold-graph", "cold", lambda: x.add_(1), before=lambda: target.copy_(source)), 5)
    without = median_ms(make_clock("cold-graph", "cold", lambda: x.add_(1)), 5)
    assert with_copy == pytest.approx(without, rel=0.5)


def test_kernels_are_timed_without_the_host():
    """A call that waits five milliseconds between two sleeps of the device takes the two sleeps, by the time of its kernels."""
    from ratchet.core.bench.child.kernel_times import kernels_ms

    def waits():
        torch.cuda._sleep(1_000_000)
        torch.cuda.synchronize()
        time.sleep(5e-3)
        torch.cuda._sleep(1_000_000)

    samples = kernels_ms(waits, None, 3)
    assert len(samples) == 3
    assert all(0.6 < sample < 4.0 for sample in samples)
    assert kernels_ms(lambda: None, None, 3) == ()
