"""The CUDA-graph clock: calls replayed back to back with no host in between, for kernels shorter than a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from ratchet.measure.clocks import Call, Samples
from ratchet.measure.clocks.queue import Lead, TimedEvent, current_stream, synchronize

CALLS = 20

# Bound before an author's code is imported, as in `queue`.
_capture, _replay = torch.cuda.graph, torch.cuda.CUDAGraph.replay
_new_graph: Callable[[], torch.cuda.CUDAGraph] = torch.cuda.CUDAGraph
_new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream
_on_stream = torch.cuda.stream


class GraphClock:
    """One sample is the time of one replay divided by its 20 calls; the L2 cache stays warm between them."""

    name = "graph"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call) -> None:
        stream = _new_stream()
        stream.wait_stream(current_stream())
        with _on_stream(stream):
            for _ in range(3):
                call()
        current_stream().wait_stream(stream)
        synchronize()
        self._graph = _new_graph()
        with _capture(self._graph):
            for _ in range(CALLS):
                call()
        self._lead = Lead()

    def take(self, count: int) -> Samples:
        pairs = [(TimedEvent(), TimedEvent()) for _ in range(count)]
        stream = current_stream()
        self._lead.give()
        _replay(self._graph)
        for start, end in pairs:
            start.record(stream)
            _replay(self._graph)
            end.record(stream)
        exposed = self._lead.judge(pairs[max(0, count - 2)][1])
        synchronize()
        return Samples(tuple(start.elapsed_ms(end) / CALLS for start, end in pairs), exposed)
