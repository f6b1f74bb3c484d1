"""The kernels of one call: how many, which are new, and whether they are long enough to be worth a launch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

from ratchet import units
from ratchet.profile.diagnosis import thresholds as at
from ratchet.profile.diagnosis.figures import arrow
from ratchet.profile.diagnosis.rule import ADVICE_WHEN_FASTER, confidence
from ratchet.records.profile import Finding, KernelProfile, Profile

RANK = 0.97
LAUNCH_S = 2e-6
"""What one more launch costs besides its kernel, at least; profilers do not see it."""
NAMES_SHOWN = 3
STORM_WHY = (
    "Every launch costs microseconds on the host and a start and an end on the GPU, in which it is partly empty; short kernels"
    " are waited for."
)
STORM_ADVICE = "Do the work in one launch (batch, fuse), or capture the calls in a CUDA graph."
EXTRA_WHY = "Another kernel reads its input from memory and writes its result there, and costs a launch."
EXTRA_ADVICE = "Fuse it with its neighbour, so that what is between them stays in registers; in PyTorch, see torch.compile."


def launches_changed(head: Profile, reference: Profile) -> Finding | None:
    """More launches in a call, or fewer, or other kernels."""
    if not head.kernels or not reference.kernels:
        return None
    more = Counter(kernel.function for kernel in head.kernels)
    less = Counter(kernel.function for kernel in reference.kernels)
    if more == less:
        return None
    times = seconds(head), seconds(reference)
    change = times[0] - times[1] if times[0] is not None and times[1] is not None else 0.0
    count, before = len(head.kernels), len(reference.kernels)
    change += LAUNCH_S * (count - before)
    storm = max(count, before) >= at.MANY_LAUNCHES and max(count, before) >= at.STORM * min(count, before)
    text = f"Launches in a call {arrow(before, count)}{_sums(head, reference)}{_named(more, less)}."
    return Finding(
        key="launches" if storm else "extra kernel" if count != before else "other kernels",
        what=text,
        why=STORM_WHY if storm else EXTRA_WHY,
        advice=ADVICE_WHEN_FASTER if change < 0 else STORM_ADVICE if storm else EXTRA_ADVICE,
        confidence=confidence(RANK if count != before else 0.5),
        weight=1 + (RANK if count != before else 0.5) * _part(head, reference, change),
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
    times = [kernel.duration_s for kernel in profile.kernels]
    return None if None in times or not times else sum(each for each in times if each is not None)


def _part(head: Profile, reference: Profile, change: float) -> float:
    """How much of the change lies in launches that only one side has, 0 to 1."""
    if abs(change) < 1e-9:
        return 0.0
    counts = Counter(kernel.function for kernel in head.kernels) & Counter(kernel.function for kernel in reference.kernels)
    launches = len(head.kernels) - len(reference.kernels)
    alone = _beyond(head.kernels, counts) - _beyond(reference.kernels, counts) + LAUNCH_S * launches
    return min(1.0, max(0.0, alone / change))


def _beyond(kernels: Iterable[KernelProfile], common: Counter[str]) -> float:
    """Seconds of the launches that the other side does not have; the first of each name are common."""
    left = Counter(common)
    total = 0.0
    for kernel in kernels:
        if left[kernel.function] > 0:
            left[kernel.function] -= 1
        else:
            total += kernel.duration_s or 0.0
    return total


def _sums(head: Profile, reference: Profile) -> str:
    moved = [[kernel.dram_bytes for kernel in side.kernels] for side in (reference, head)]
    if any(None in side for side in moved):
        return ""
    return f", device memory {arrow(*(units.size(sum(each or 0 for each in side)) for side in moved))}"


def _named(head: Counter[str], reference: Counter[str]) -> str:
    beyond, before = head - reference, reference - head
    groups = {
        "new": Counter({name: count for name, count in beyond.items() if name not in reference}),
        "more": Counter({name: count for name, count in beyond.items() if name in reference}),
        "gone": Counter({name: count for name, count in before.items() if name not in head}),
        "fewer": Counter({name: count for name, count in before.items() if name in head}),
    }
    parts = [f"{word}: {_list(names)}" for word, names in groups.items() if names]
    return f" ({'; '.join(parts)})" if parts else ""


def _list(names: Counter[str]) -> str:
    shown = [f"{name[:60]}{f' ×{count}' if count > 1 else ''}" for name, count in names.most_common(NAMES_SHOWN)]
    return ", ".join([*shown, "…"] if len(names) > NAMES_SHOWN else shown)
