"""The answer of a worker that traced a call: see `ratchet.measure.messages`."""

from __future__ import annotations

from ratchet.records import Record
from ratchet.records.profile import Activity


class Traced(Record):
    """The activity that torch.profiler saw of the prepared case."""

    activity: Activity
