"""The CUDA-graph clock: calls replayed back to back with no host in between, for kernels shorter than a launch."""

from __future__ import annotations

from typing import Literal

import torch

from ratchet.measure.clocks import Call, Samples
from ratchet.measure.clocks.queue import Lead

CALLS = 20


class GraphClock:
    """One sample is the time of one replay divided by its 20 calls; the L2 cache stays warm between them."""

    name = "graph"
    cache: Literal["cold", "warm"] = "warm"

    def __init__(self, call: Call) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for _ in range(CALLS):
                call()
        self._lead = Lead()

    def take(self, count: int) -> Samples:
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        self._lead.give()
        self._graph.replay()
        for start, end in pairs:
            start.record()
            self._graph.replay()
            end.record()
        exposed = self._lead.judge(pairs[max(0, count - 2)][1])
        torch.cuda.synchronize()
        return Samples(tuple(start.elapsed_time(end) / CALLS for start, end in pairs), exposed)
