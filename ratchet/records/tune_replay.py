"""What `ratchet tune --replay` found."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ratchet.records.base import Count, Positive, Record
from ratchet.records.tuning import Configuration


class ReplayResult(Record):
    """One search of a recorded space."""

    path: str
    strategy: str
    """As it was asked for."""
    searched_by: str
    """What `auto` came down to."""
    seed: int
    evaluations: Count
    """Used: failed ones too."""
    failed: Count
    """Of these."""
    configurations: Count
    """In the recorded space."""
    best_ms: Positive | None
    """The best that was found; None where every one that was tried failed."""
    optimum_ms: Positive
    """The best that was recorded."""
    fraction: Annotated[float, Field(ge=0, le=1)]
    """The optimum's time over the best's; 0 where nothing was found."""
    configuration: Configuration | None
    """The best that was found."""
