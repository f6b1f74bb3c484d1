"""Everything that gets a pair ready sooner than building its case when its turn comes.

`pairs.ReadyPairs.next_pair` gives a pair that is ready. `Tricks` says what is done for that, and how far this machine has room
for each; it is pure. All tricks are on. Research and tests switch one off, to see what it saves and that results do not depend on
it; no user setting does. Figures: docs/decisions/0019-at-once.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.core.records.run import SIDES

MOST_LANES, CORES_PER_LANE = 4, 2
"""Workers of each side that compile and check cases at once, and the cores that each of them needs."""
MOST_AHEAD = 4
"""Pairs whose workers get ready at the same time. With eight, contexts queue in the driver."""
CORES_PER_SESSION, MOST_SESSIONS_AT_ONCE = 2.5, 6
"""Cores that the imports of a session keep busy, and sessions that import at the same time."""


@dataclass(frozen=True)
class Tricks:
    """Each trick, on or off. On the CPU, where both sides share cores, only `sessions_at_once` and `compiler_first` act."""

    side_by_side: bool = True
    """Workers fork, build and check their case in threads: both sides at once, and several cases at once in a survey."""
    pairs_ahead: bool = True
    """Workers of several pairs build their next case side by side. A worker that is lost there counts for no try."""
    keep_workers: bool = True
    """A worker takes all cases of its pair, as long as it can be restored (docs/decisions/0026-state.md)."""
    end_behind: bool = True
    """Nobody waits for the end of a worker, until something is built or timed."""
    one_queue: bool = True
    """A context has one work queue where calls need no more, which makes it in a third of the time."""
    compiler_first: bool = True
    """A host loads torch's compiler before it forks, once a case has used it."""
    late_imports: bool = True
    """A host imports what cases import when they are called, so that their workers need not."""
    sessions_at_once: bool = True
    """Hosts of several later sessions import together, before the pairs of the first of them."""
    early_observer: bool = True
    """An observer looks at cases before the last pair, so that what it starts, such as profilers, imports meanwhile."""

    def lanes(self, cores: int, sides: int) -> int:
        """Return how many workers of each side a survey has at once."""
        return max(1, min(MOST_LANES, cores // CORES_PER_LANE // sides)) if self.side_by_side else 1

    def pairs_together(self, bytes_of_pairs: Sequence[int], free_bytes: int | None, cores: int) -> int:
        """Return for how many pairs the GPU has memory, half of it at most, and the machine has cores; one pair on a CPU."""
        if free_bytes is None or not bytes_of_pairs or not self.pairs_ahead:
            return 1
        return max(1, min(MOST_AHEAD, cores // CORES_PER_LANE // len(SIDES), free_bytes // 2 // max(1, *bytes_of_pairs)))

    def sessions_together(self, cores: int) -> int:
        """Return how many later sessions import at once."""
        return max(1, min(MOST_SESSIONS_AT_ONCE, int(cores / CORES_PER_SESSION))) if self.sessions_at_once else 1


ALL = Tricks()
