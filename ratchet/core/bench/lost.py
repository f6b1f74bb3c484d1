"""Judge a worker's troubles: how often a lost worker is replaced, what that says of the case, and whether samples can be true.

A worker is lost to a signal, to a timeout or to a lack of memory. That is no verdict on the code, since any of these may come
from outside: a neighbour, the kernel's out-of-memory killer, a driver. An error or a wrong result of the code is one. Pure.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from ratchet.core import units
from ratchet.core.records.environment import Peaks
from ratchet.core.records.run import SIDES, CaseRun, LostWorker, WorkloadIdentity

REPEATS, _REPEATS_OF_SILENCE = 2, 1
"""Most repeats of one case for each side, and of one pair; fewer where each try holds up all others for ``case_timeout``."""
SILENCE = "gave no answer"
_ADVICE = {
    "was killed": "Free memory on this machine, or find what kills it, and measure again.",
    "ran out of": "Free memory, or make the workload smaller, and measure again.",
    SILENCE: "If a step of it may take so long, raise case_timeout (--case-timeout 5m) or make the workload smaller; "
    "if not, find what makes it hang, and measure again.",
}


def worth_repeating(lost: Sequence[LostWorker]) -> bool:
    """Return whether the case or pair of the last lost worker is tried again."""
    last = lost[-1]
    of_side = sum(one.side == last.side for one in lost)
    of_pair = sum(one.pair == last.pair for one in lost)
    return max(of_side, of_pair) <= _repeats(last)


def always_on_head(lost: Sequence[LostWorker]) -> bool:
    """Return whether the head was lost in the first try and in every repeat of one pair."""
    wanted = _repeats(lost[-1]) + 1
    tries = lost[-wanted:]
    return len(tries) == wanted and {(one.side, one.pair) for one in tries} == {("head", tries[-1].pair)}


def _repeats(lost: LostWorker) -> int:
    return _REPEATS_OF_SILENCE if lost.how.startswith(SILENCE) else REPEATS


def in_every_try(message: str, lost: Sequence[LostWorker]) -> str:
    return f"{message}, in each of {len(lost)} tries" if len(lost) > 1 else message


def could_not_measure(lost: Sequence[LostWorker]) -> str:
    """Say why a case has no verdict, and what to do."""
    counts = Counter((one.side, one.how) for one in lost)
    often = {1: "", 2: " twice", 3: " three times"}
    parts = [f"the {side}'s worker {how}{often.get(count, f' {count} times')}" for (side, how), count in counts.items()]
    what = " and ".join(parts)
    advice = next((text for start, text in _ADVICE.items() if lost[-1].how.startswith(start)), "")
    return f"{what[:1].upper()}{what[1:]}. {advice or 'Find what ends it, and measure again.'}"


def repeats(cases: Sequence[CaseRun]) -> Iterator[str]:
    """Yield a sentence for readers about each case of which something was measured again."""
    for case in cases:
        for side in SIDES:
            lost = [one for one in case.lost if one.side == side]
            if not lost or case.unfit or any(failure.side == side for failure in case.failures):
                continue
            pairs = {one.pair for one in lost} - {None}
            what = f"{case.name} was checked again"
            if pairs:
                what = f"{units.plural(len(pairs), 'pair')} of {case.name} {'was' if len(pairs) == 1 else 'were'} measured again"
            yield f"{what}: the {side}'s worker {' and '.join(dict.fromkeys(one.how for one in lost))}."


# Whether samples can be true. A benchmark's code runs in the process that times it, so its answers are compared with what the
# controller knows by itself: how many samples it asked for, how long it waited for them, and what the hardware can do.


LEAST_MS = {"cpu": 1e-5, "event": 1e-4, "graph": 1e-5, "cold-graph": 1e-4}
"""No call takes less: two readings of the CPU's clock lie 20 ns apart, and two events on an empty stream about 1 µs; a graph's
sample is a twentieth of that."""
ABOVE_PEAK = 3.0
"""Times the datasheet's rate that a call may seem to reach: declared bytes and FLOPs are the authors' own count."""
ABOVE_PEAK_WARM = 10.0
"""Likewise for bytes that stay in the L2 cache, which is up to five times as fast as the memory behind it."""
SLACK, SLACK_S = 1.05, 1e-3
"""Factor and seconds by which samples may add up to more than the time of the request: the GPU's clock is not the host's."""


def problem_of(samples_ms: Sequence[float], asked: int, waited_s: float, clock: str) -> str | None:
    """Return why a block's samples cannot be what was asked for, as a clause, or None.

    ``asked`` is the number of samples of the request, ``waited_s`` the seconds between request and answer.
    """
    if len(samples_ms) != asked:
        return f"{len(samples_ms)} samples came back where {asked} were asked for"
    total_s = sum(samples_ms) * 1e-3
    if total_s > waited_s * SLACK + SLACK_S:
        return f"its samples add up to {units.duration(total_s)}, but all of them came within {units.duration(waited_s)}"
    least = LEAST_MS.get(clock, 0.0)
    if min(samples_ms) < least:
        return f"a call of {units.duration(min(samples_ms) * 1e-3)} is shorter than any that this clock can see"
    return None


def beyond_hardware(samples_ms: Sequence[float], workload: WorkloadIdentity, peaks: Peaks | None) -> tuple[str, bool] | None:
    """Return why no GPU could do the declared work in the median of these times, as a clause, and whether that is certain.

    None where one could. It is certain where no cache can explain it either: what is written may stay in the L2 cache, cold as it
    was. ``peaks`` is None on a CPU, where nothing is known.
    """
    if peaks is None or workload.device != "cuda":
        return None
    moved, flops = workload.bytes or 0.0, workload.flops or 0.0
    seconds = statistics.median(samples_ms) * 1e-3
    peak_bytes, peak_flops = peaks.dram_bytes_per_s or 0.0, max(peaks.flops_per_s.values(), default=0.0)
    within = ABOVE_PEAK if workload.cache == "cold" else ABOVE_PEAK_WARM
    if peak_bytes and moved / seconds > within * peak_bytes:
        what, times, certain = "move its declared bytes", moved / seconds / peak_bytes, ABOVE_PEAK_WARM
    elif peak_flops and flops / seconds > ABOVE_PEAK * peak_flops:
        what, times, certain = "do its declared FLOPs", flops / seconds / peak_flops, ABOVE_PEAK
    else:
        return None
    return f"a call of {units.duration(seconds)} would {what} {times:.3g} times as fast as this GPU can", times > certain


CHECK_WORK = "check what the workload declares, and that run() queues its work on the current stream"
