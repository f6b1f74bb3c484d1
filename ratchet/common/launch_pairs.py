"""Launches of two profiles in pairs: which kernel of the head is which of the reference. Pure."""

from __future__ import annotations

from collections import defaultdict

from ratchet.core.records.profile import KernelProfile, Profile

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
