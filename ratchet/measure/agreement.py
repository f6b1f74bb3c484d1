"""Compare the results of two processes by their evidence: how far apart are they, and is that within the tolerance?

`child.correctness` compares two calls of one process, `suite` and `duet` the two sides of a case without a reference. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ratchet.measure.messages import Evidence


@dataclass(frozen=True)
class Disagreement:
    """The largest relative error between two results, and the largest limit among their parts."""

    error: float = 0.0
    limit: float = 0.0
    problem: str | None = None
    """Where and by how much they are too far apart, as a clause; None where they agree."""


def between_sides(head: Sequence[Evidence], reference: Sequence[Evidence]) -> Disagreement:
    """Compare the results of the two sides of a case whose head has no reference of its own."""
    apart = difference(head, reference, ("the head", "the reference"))
    if apart.problem is None:
        return apart
    why = "the case has no reference, so one of the two is wrong, or their inputs differ"
    return replace(apart, problem=f"wrong result: {apart.problem}; {why}")


def difference(one: Sequence[Evidence], other: Sequence[Evidence], names: tuple[str, str]) -> Disagreement:
    """Compare two results by the limits of the first; errors are relative to the second. ``names``: whose results they are."""
    first, second = names
    there = {part.place: part for part in other}
    error = limit = 0.0
    for part in one:
        if part.place not in there:
            return Disagreement(problem=f"{first} returns {part.place}, {second} does not")
        twin = there.pop(part.place)
        if part.kind != twin.kind:
            return Disagreement(problem=f"{part.place} is {part.kind} in {first} and {twin.kind} in {second}")
        if part.digest != twin.digest:
            return Disagreement(problem=f"{part.place} is not the same in {first} and {second}")
        apart = relative_difference(part, twin)
        if not apart <= part.limit:
            allowed = f"(relative; {part.limit:.1e} allowed)"
            return Disagreement(apart, part.limit, f"{part.place} is off by {apart:.2e} {allowed} between {first} and {second}")
        error, limit = max(error, apart), max(limit, part.limit)
    missing = next(iter(there), None)
    return Disagreement(error, limit, f"{second} returns {missing}, {first} does not" if missing else None)


def relative_difference(part: Evidence, other: Evidence) -> float:
    """Estimate ‖part − other‖ / ‖other‖ from sketches; ‖part − other‖ where the other one is all zeros."""
    apart = math.dist(part.sketch, other.sketch) if len(part.sketch) == len(other.sketch) else math.inf
    return apart / other.norm if other.norm > 0 else apart
