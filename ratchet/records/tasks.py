"""What a tuning run asks of the station on one device, and what it is told: these cross processes and perhaps machines."""

from __future__ import annotations

from typing import Literal

from ratchet.records.base import Count, NotNegative, Positive, Record
from ratchet.records.tuning import Configuration, Confirmation, Evaluation


class Task(Record):
    """One piece of work for one station."""

    number: Count
    """Of this task; no two tasks of a run have the same."""
    what: Literal["evaluate", "confirm"]
    """``evaluate``: time one configuration once. ``confirm``: time some against the default, in pairs of fresh processes."""
    case: str
    configurations: tuple[Configuration, ...]
    """One to evaluate, or those to confirm."""
    best: Positive | None = None
    """The best normalised time so far: who is clearly behind it after a few samples is dropped."""
    seconds: NotNegative | None = None
    """A confirmation ends after so long, with the pairs that it has by then."""


class Done(Record):
    """What came of a task."""

    task: Task
    place: str
    """The station that did it: ``NVIDIA H200 [0]``."""
    evaluation: Evaluation | None = None
    confirmations: tuple[Confirmation, ...] = ()
    lost: str = ""
    """Why there is neither: the station is gone."""
