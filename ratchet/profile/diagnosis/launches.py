"""The kernels of one call: how many, which are new, and whether they are long enough to be worth a launch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ratchet import units
from ratchet.profile.diagnosis import rule as at
from ratchet.profile.diagnosis.rule import Difference, arrow
from ratchet.profile.diagnosis.times import LONGEST_NAME, NAMES_SHOWN, REPLACED_ADVICE, REPLACED_WHY, Spent, replaced
from ratchet.records.profile import Effect, Finding, KernelProfile, Profile

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


def launches_changed(head: Profile, reference: Profile, moved_s: float) -> list[Difference]:
    """Kernels that one side alone launches, taken together; then common ones that are launched more often, and less often.

    ``moved_s``: seconds by which the whole call changed. What cost no time and saved none is left out.
    """
    if not head.kernels or not reference.kernels:
        return []
    common = {kernel.function for kernel in head.kernels} & {kernel.function for kernel in reference.kernels}
    added, gone = _beyond(head, reference), _beyond(reference, head)
    other = Group(*([each for each in side if each.name not in common] for side in (added, gone)))
    more = Group([each for each in added if each.name in common], [])
    fewer = Group([], [each for each in gone if each.name in common])
    found = []
    for group in (other, more, fewer):
        part = group.part(moved_s)
        if (group.added or group.gone) and (part is None or part >= at.TIMES_SHARE):
            found.append(_difference(group, head, reference, part))
    return found


@dataclass(frozen=True)
class Group:
    """Launches that only one side has."""

    added: Sequence[Spent]
    gone: Sequence[Spent]

    @property
    def launches(self) -> int:
        """By which the head has more."""
        return sum(each.launches for each in self.added) - sum(each.launches for each in self.gone)

    @property
    def seconds(self) -> float | None:
        """By which they make the head slower, launching included; None where that is not known."""
        launching = LAUNCH_S * self.launches
        if any(each.seconds is None for each in (*self.added, *self.gone)):
            return launching or None
        return launching + sum(each.seconds or 0.0 for each in self.added) - sum(each.seconds or 0.0 for each in self.gone)

    def part(self, moved_s: float) -> float | None:
        """Of the change of the call, 0 to 1; None where that is not known."""
        if self.seconds is None:
            return None
        return min(1.0, abs(self.seconds) / moved_s) if moved_s else 0.0


def _difference(group: Group, head: Profile, reference: Profile, part: float | None) -> Difference:
    before, count = len(reference.kernels), len(head.kernels)
    slower = (group.seconds or 0.0) > 0
    storm = max(count, before) >= at.MANY_LAUNCHES and max(count, before) >= at.STORM * min(count, before)
    repeated, sums = _repeated(group, reference, head), _sums(head, reference)
    names = repeated or replaced(group.gone, group.added)
    launched = f"Launches in a call {arrow(before, count)}{sums}: {names}."
    if count == before:
        launched = f"Launches in a call: {names}." if repeated else f"The head {names}{sums}."
    if repeated or (storm and group.launches):
        key, why, advice = "launches", STORM_WHY, STORM_ADVICE
    elif group.added and group.gone and (group.launches == 0 or slower == (group.launches < 0)):
        # More launches that are faster, or fewer that are slower: their number is not the reason.
        key, why, advice = "other kernels", REPLACED_WHY["slower" if slower else "faster"], REPLACED_ADVICE
    else:
        key, why, advice = "extra kernel" if group.launches else "other kernels", EXTRA_WHY, EXTRA_ADVICE
    effect: Effect | None = None if group.seconds is None else "slower" if slower else "faster"
    return Difference(key, launched, why, advice, effect, part or 0.0, RANK if group.launches else 0.5)


def _repeated(group: Group, reference: Profile, head: Profile) -> str:
    """``step 2 → 9 (140.0 µs more)``; empty where the names are of one side alone."""
    before, after = (Counter(kernel.function for kernel in side.kernels) for side in (reference, head))
    spent = [*group.added, *group.gone]
    if not all(before[each.name] and after[each.name] for each in spent):
        return ""
    parts = []
    for each in spent[:NAMES_SHOWN]:
        time = f" ({units.duration(each.seconds)} {'more' if group.added else 'less'})" if each.seconds else ""
        parts.append(f"{each.name[:LONGEST_NAME]} {arrow(before[each.name], after[each.name])}{time}")
    return ", ".join([*parts, "…"] if len(spent) > NAMES_SHOWN else parts)


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
