"""The CUDA-event clock: device time of each call, with the L2 cache emptied before it and launch latency hidden."""

from __future__ import annotations

from typing import Literal

import torch

from ratchet.measure.clocks import Call, Samples
from ratchet.measure.clocks.l2 import L2Flush
from ratchet.measure.clocks.queue import Lead, TimedEvent, current_stream, synchronize


class EventClock:
    """Times whatever a call queues on the current stream."""

    name = "event"

    def __init__(self, call: Call, cache: Literal["cold", "warm"]) -> None:
        self.cache: Literal["cold", "warm"] = cache
        self._call = call
        self._flush = L2Flush(torch.device("cuda", torch.cuda.current_device())) if cache == "cold" else None
        self._lead = Lead()
        self._events: list[tuple[TimedEvent, TimedEvent]] = []

    def take(self, count: int) -> Samples:
        while len(self._events) < count:
            self._events.append((TimedEvent(), TimedEvent()))
        events = self._events[:count]
        call, flush = self._call, self._flush
        if flush is not None:
            flush.reset_persisting()
        stream = current_stream()
        self._lead.give()
        call()
        for start, end in events:
            if flush is not None:
                flush()
            start.record(stream)
            call()
            end.record(stream)
        exposed = self._lead.judge(events[max(0, count - 2)][1])
        synchronize()
        return Samples(tuple(start.elapsed_ms(end) for start, end in events), exposed)
