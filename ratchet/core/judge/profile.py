"""Profiles beside each other (which launch of the head is which of the reference), and what of a profile is worth keeping.

The diagnosis and the page of a profile match launches with `matched`. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest

from ratchet.core.records.environment import Peaks
from ratchet.core.records.profile import Activity, CaseProfile, KernelProfile, Profile
from ratchet.core.untrusted import clean

Match = tuple[KernelProfile | None, KernelProfile | None]
"""Head and reference; None where the other side has no such launch."""


def matched(head: Profile | None, reference: Profile | None) -> list[Match]:
    """Return the launches of both sides in pairs, by function name and order: the third ``softmax`` with the third ``softmax``.

    A side that is None launches nothing. The order is that of the head; launches that only the reference has come last, in its
    own order.
    """
    heads, references = (side.kernels if side else () for side in (head, reference))
    left: dict[str, list[KernelProfile]] = defaultdict(list)
    for kernel in references:
        left[kernel.function].append(kernel)
    pairs: list[Match] = []
    for kernel in heads:
        waiting = left[kernel.function]
        pairs.append((kernel, waiting.pop(0) if waiting else None))
    alone = {id(kernel) for waiting in left.values() for kernel in waiting}
    return [*pairs, *((None, kernel) for kernel in references if id(kernel) in alone)]


# What of a profile is worth keeping for years.

KEPT, KEPT_TIMES = 3, 5
"""Findings, sentences and kernels, and traced times, that stay of a profile: as many as a report shows."""
_OTHERS = "all others"


def shortened(profile: CaseProfile) -> CaseProfile:
    """Return the first findings, and the counters of the longest kernels or else the longest traced times: a few kilobytes.

    Files, trees, rules of the profiler and other metrics are left out.
    """
    pairs = matched(profile.head, profile.reference)
    longest = nlargest(KEPT, pairs, key=lambda pair: max(kernel.duration_s or 0.0 for kernel in pair if kernel))
    kept = {id(kernel) for pair in longest for kernel in pair}
    changes = {
        "findings": tuple(
            finding.model_copy(update={name: clean(value) for name, value in finding if isinstance(value, str)})
            for finding in profile.findings[:KEPT]
        ),
        "steps_down": _sentences(profile.steps_down),
        "failed": {side: clean(why) for side, why in profile.failed.items()},
        **dict.fromkeys(("head_tree", "reference_tree")),
        "files": {},
    }
    for name, side in (("head", profile.head), ("reference", profile.reference)):
        if side is not None:
            kernels = tuple(_counters(kernel) for kernel in side.kernels if id(kernel) in kept)
            activity = None if kept or side.activity is None else _longest_times(side.activity)
            changes[name] = Profile(tool=side.tool, kernels=kernels, activity=activity, warnings=_sentences(side.warnings))
    return profile.model_copy(update=changes)


def _sentences(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean(text) for text in texts[:KEPT])


def _counters(kernel: KernelProfile) -> KernelProfile:
    function = clean(kernel.function)
    limiter = kernel.occupancy_limiter and clean(kernel.occupancy_limiter)
    texts = {"name": function, "function": function, "occupancy_limiter": limiter}
    return kernel.model_copy(update={**texts, "stalls": {}, "flops": {}, "metrics": {}, "peaks": Peaks(), "rules": ()})


def _longest_times(activity: Activity) -> Activity:
    """Return the activity with its longest kernels and copies."""
    kernels, copies = _longest(activity.kernels), _longest(activity.copies)
    return activity.model_copy(update={"kernels": kernels, "copies": copies, "ran": {}, "cpu_s": {}})


def _longest(times: Mapping[str, float]) -> dict[str, float]:
    """Return the longest of some times by name; the time of the others is together, so that the sum stays."""
    longest = nlargest(KEPT_TIMES, times, key=lambda name: times[name])
    rest = sum(seconds for name, seconds in times.items() if name not in longest)
    return {clean(name): times[name] for name in longest} | ({_OTHERS: rest} if rest else {})
