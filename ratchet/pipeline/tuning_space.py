"""The space of a workload: enumerated in a worker, which has the author's constraints, and taken up here without them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.measure.messages import SpaceFound
from ratchet.workload import Workload

if TYPE_CHECKING:
    from ratchet.tune.configurations import Candidates

ENUMERATOR = f"{__name__}:enumerate_space"
"""What a worker is told to call."""


def enumerate_space(workload: Workload, codes: Path) -> Mapping[str, Any]:
    """Write the valid configurations to ``codes``, as the places of their values in ``tune``, and say how many they are.

    Raises UsageError where the constraints leave nothing.
    """
    import numpy as np

    from ratchet.tune.configurations import Space
    from ratchet.tune.space import candidates

    space = Space({name: tuple(values) for name, values in workload.tune.items()}, tuple(workload.constraints), workload.tuning)
    found = candidates(space)
    with codes.open("wb") as file:
        np.save(file, found.codes, allow_pickle=False)
    return {"count": found.count, "exact": found.exact}


def restored(found: SpaceFound, codes: Path) -> Candidates:
    """The same candidates, in this process."""
    import numpy as np

    from ratchet.tune.configurations import Candidates, Space

    return Candidates(Space(found.space, (), found.default), np.load(codes, allow_pickle=False), exact=found.exact)
