"""The kernels of one call: how many, which are new, and whether they are long enough to be worth a launch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from ratchet import units
from ratchet.profile.diagnosis import thresholds as at
from ratchet.profile.diagnosis.figures import arrow
from ratchet.profile.diagnosis.rule import Difference
from ratchet.profile.diagnosis.times import REPLACED_ADVICE, REPLACED_WHY, Spent, replaced
from ratchet.records.profile import Finding, KernelProfile, Profile

RANK = 0.97
LAUNCH_S = 2e-6
"""What one more launch costs besides its kernel, at least; profilers do not see it."""
STORM_WHY = (
    "Every launch costs microseconds on the host and a start and an end on the GPU, in which it is partly empty; short kernels"
    " are waited for."
)
STORM_ADVICE = "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph."
EXTRA_WHY = "Another kernel reads its input from memory and writes its result there, and costs a launch."
EXTRA_ADVICE = "Fuse it with its neighbour, so that what is between them stays in registers; in PyTorch, see torch.compile."


def launches_changed(head: Profile, reference: Profile, moved_s: float) -> Difference | None:
    """More launches in a call, or fewer, or other kernels. None where that cost no time and saved none.

    ``moved_s``: seconds by which the whole call changed.
    """
    if not head.kernels or not reference.kernels:
        return None
    added, gone = _beyond(head, reference), _beyond(reference, head)
    if not (added or gone):
        return None
    count, before = len(head.kernels), len(reference.kernels)
    alone = LAUNCH_S * (count - before)
    timed = all(each.seconds is not None for each in (*added, *gone))
    if timed:
        alone += sum(each.seconds or 0.0 for each in added) - sum(each.seconds or 0.0 for each in gone)
    known = timed or alone != 0
    part = min(1.0, abs(alone) / moved_s) if moved_s and known else 0.0
    if known and part < at.TIMES_SHARE:
        return None
    storm = max(count, before) >= at.MANY_LAUNCHES and max(count, before) >= at.STORM * min(count, before)
    sums, names = _sums(head, reference), replaced(gone, added)
    same_or_fewer = alone > 0 and count <= before
    return Difference(
        key="launches" if storm else "extra kernel" if count != before else "other kernels",
        what=f"Launches in a call {arrow(before, count)}{sums}: {names}." if count != before else f"The head {names}{sums}.",
        why=STORM_WHY if storm else REPLACED_WHY if same_or_fewer else EXTRA_WHY,
        advice=STORM_ADVICE if storm else REPLACED_ADVICE if same_or_fewer else EXTRA_ADVICE,
        effect=None if not known else "slower" if alone > 0 else "faster",
        part=part,
        rank=RANK if count != before else 0.5,
    )


def short_kernels(profile: Profile) -> Finding | None:
    """Kernels that take less time than their launch."""
    times = [kernel.duration_s for kernel in profile.kernels if kernel.duration_s is not None]
    if not times or statistics.median(times) >= at.SHORT_KERNEL_S:
        return None
    many = len(times) >= at.MANY_LAUNCHES
    count = f"{len(times)} launches in a call take" if len(times) > 1 else "The kernel takes"
    return Finding(
        key="launches" if many else "launch-bound",
        what=f"{count} {units.duration(statistics.median(times))}{' each (median)' if len(times) > 1 else ''}:"
        " about what the launch itself takes.",
        why=STORM_WHY,
        advice=STORM_ADVICE,
        confidence="high" if many else "medium",
        weight=0.9 if many else 0.5,
    )


def seconds(profile: Profile) -> float | None:
    """Of all launches together; None where one has no duration."""
    return _seconds(profile.kernels)


def call_seconds(profile: Profile) -> float | None:
    """Of all launches with what launching them costs; None where a launch has no duration."""
    kernels = seconds(profile)
    return None if kernels is None else kernels + LAUNCH_S * len(profile.kernels)


def _seconds(kernels: Sequence[KernelProfile]) -> float | None:
    times = [kernel.duration_s for kernel in kernels]
    return None if None in times or not times else sum(each for each in times if each is not None)


def _beyond(side: Profile, other: Profile) -> list[Spent]:
    """By name, the launches that the other side does not have; the first of each name are common."""
    left = Counter(kernel.function for kernel in other.kernels)
    beyond: dict[str, list[KernelProfile]] = {}
    for kernel in side.kernels:
        if left[kernel.function] > 0:
            left[kernel.function] -= 1
        else:
            beyond.setdefault(kernel.function, []).append(kernel)
    return [Spent(name, _seconds(launched), len(launched)) for name, launched in beyond.items()]


def _sums(head: Profile, reference: Profile) -> str:
    moved = [[kernel.dram_bytes for kernel in side.kernels] for side in (reference, head)]
    if any(None in side for side in moved):
        return ""
    return f", device memory {arrow(*(units.size(sum(each or 0 for each in side)) for side in moved))}"
