"""What is said of a workload's identity, and why nothing can be said."""

from __future__ import annotations

from dataclasses import dataclass

MOST_LAUNCHES = 50
"""Launches that are shown to people; all of them are in the digest."""


@dataclass(frozen=True)
class Identity:
    """Two workloads with one ``digest`` do the same on one GPU; of an ``opaque`` one nobody knows, so it is timed."""

    digest: str
    opaque: str
    launches: tuple[str, ...] = ()
    spent: bool = False
    """The process may be damaged, since a capture failed in it: end it, and prepare the next case in a fresh one."""

    def __post_init__(self) -> None:
        if bool(self.digest) == bool(self.opaque):
            raise ValueError("an identity has a digest, or a reason why it has none")


class Opaque(Exception):
    """Part of what decides the time of a workload cannot be seen; the message says which."""

    def __init__(self, reason: str, *, spent: bool = False) -> None:
        super().__init__(reason)
        self.spent = spent
