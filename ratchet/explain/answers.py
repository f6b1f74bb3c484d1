"""The answer of a worker that traced a call: see `ratchet.core.bench.messages`."""

from __future__ import annotations

from ratchet.core.records import Record
from ratchet.core.records.profile import Activity


class Traced(Record):
    """The activity that torch.profiler saw of the prepared case."""

    activity: Activity
