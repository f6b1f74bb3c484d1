"""A lost worker is no verdict on the code: how often to try again, and what it means where that fails too. Pure.

A worker is lost to a signal, to a timeout or to a lack of memory. Any of these may come from outside: a neighbour, the
kernel's out-of-memory killer, a driver. What an author's code raises, or computes wrongly, is not of this kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ratchet.records.run import CaseRun, LostWorker, Side

REPEATS = 2
"""Most repeats of one case for each side, and of one pair."""
_ADVICE = {
    "was killed": "Free memory on this machine, or find what kills it, and measure again.",
    "ran out of": "Free memory, or make the workload smaller, and measure again.",
    "gave no answer": "Raise case_timeout, or find what makes it hang, and measure again.",
}


def worth_repeating(lost: Sequence[LostWorker]) -> bool:
    """Whether what was lost last is tried again."""
    last = lost[-1]
    of_side = sum(one.side == last.side for one in lost)
    of_pair = sum(one.pair == last.pair for one in lost)
    return max(of_side, of_pair) <= REPEATS


def always_on_head(lost: Sequence[LostWorker]) -> bool:
    """Whether the head was lost in the first try and in every repeat of one pair."""
    tries = lost[-REPEATS - 1 :]
    return len(tries) == REPEATS + 1 and {(one.side, one.pair) for one in tries} == {("head", tries[-1].pair)}


def in_every_try(message: str, lost: Sequence[LostWorker]) -> str:
    """What went wrong last, and that it did so each time."""
    return f"{message}, in each of {len(lost)} tries" if len(lost) > 1 else message


def could_not_measure(lost: Sequence[LostWorker]) -> str:
    """Why a case has no verdict, and what to do."""
    counts = Counter((one.side, one.how) for one in lost)
    parts = [f"the {side}'s worker {how}{_times(count)}" for (side, how), count in counts.items()]
    what = " and ".join(parts)
    advice = next((text for start, text in _ADVICE.items() if lost[-1].how.startswith(start)), "")
    return f"{what[:1].upper()}{what[1:]}. {advice or 'Find what ends it, and measure again.'}"


def repeats(cases: Sequence[CaseRun]) -> Iterator[str]:
    """A sentence for each case of which something was measured again, for whoever reads its figures."""
    for case in cases:
        sides: tuple[Side, ...] = ("reference", "head")
        for side in sides:
            lost = [one for one in case.lost if one.side == side]
            if not lost or case.unfit or any(failure.side == side for failure in case.failures):
                continue
            pairs = {one.pair for one in lost} - {None}
            what = f"{case.name} was checked again"
            if pairs:
                what = f"1 pair of {case.name} was" if len(pairs) == 1 else f"{len(pairs)} pairs of {case.name} were"
                what = f"{what} measured again"
            yield f"{what}: the {side}'s worker {' and '.join(dict.fromkeys(one.how for one in lost))}."


def _times(count: int) -> str:
    return {1: "", 2: " twice", 3: " three times"}.get(count, f" {count} times")
