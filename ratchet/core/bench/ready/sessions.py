"""Keep the hosts of a suite: those of the first pairs, and fresh ones for later sessions, several of which import together.

They are renewed since only processes of other hosts can prove that a case changed.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ratchet.core.bench.client import HostClient, Hosts
from ratchet.core.bench.messages import ImportedLate
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.survey import Surveyed
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.records.run import SIDES, Side
from ratchet.core.units import wall


class Sessions:
    """The hosts of a suite, which can be ended and replaced by fresh ones. Use it as a context manager, as `Hosts`."""

    def __init__(
        self,
        trees: Mapping[Side, TreeSpec],
        environ: Mapping[str, str],
        *,
        identify: bool = False,
        cores: int = 1,
        tricks: Tricks = ALL,
        waiting: Callable[[], None] | None = None,
    ) -> None:
        """``cores``: those that may be kept busy while nothing is timed."""
        self._trees = trees
        self._environ = environ
        self._identify = identify
        self._waiting = waiting
        self._hosts: Collection[HostClient] = ()
        """Those that were started last."""
        self._late_since: float | None = None
        self._together = tricks.sessions_together(cores)
        self._imports_late = tricks.late_imports
        self._held = contextlib.ExitStack()
        self._ready: deque[Hosts] = deque()
        self._tried: set[str] = set()
        """Modules that hosts have imported late, or could not."""

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._held.close)
            for hosts in self._ready:
                stack.push(hosts)

    def open(self) -> dict[Side, HostClient]:
        """Start a host for each side that has a tree."""
        return dict(self._held.enter_context(self._started(SIDES, identify=self._identify)).sides)

    def importing(self) -> str:
        """Return what is imported and for how long, while that is so."""
        if self._late_since is not None:
            return f"Importing for {wall(time.monotonic() - self._late_since)}: what the cases import when they are called"
        return next((text for host in self._hosts if (text := host.importing)), "")

    def surveyed(self, survey: Callable[[], Surveyed]) -> Surveyed:
        """Return what a survey with these hosts finds."""
        return survey()

    def renew(self, sides: Collection[Side]) -> dict[Side, HostClient]:
        """End the current hosts, and return others, of a process of their own, which have imported the trees.

        Several are started at the same time, for later calls too: what imports would disturb what is timed.
        """
        self._held.close()
        if not self._ready:
            ordered = [side for side in reversed(SIDES) if side in sides]
            self._ready.extend(self._started(ordered) for _ in range(self._together))
            for hosts in self._ready:
                for host in hosts.sides.values():
                    host.listing()
        return {side: host for side, host in self._held.enter_context(self._ready.popleft()).sides.items() if side in sides}

    def import_late(
        self, hosts: Mapping[Side, HostClient], modules: Sequence[Iterable[str]]
    ) -> tuple[Mapping[Side, HostClient], ImportedLate]:
        """Import in the hosts, and in those of later sessions, what cases of all sides import when they are called.

        ``modules`` are those of each side, in their order. Return the hosts to go on with, and how it went: where anything else
        would change, none has imported it. No worker may live. Raises HostLost.
        """
        of_all = (name for name in dict.fromkeys(modules[0]) if all(name in each for each in modules[1:]))
        late = tuple(name for name in of_all if name not in self._tried)
        if not late or not self._imports_late:
            return hosts, ImportedLate(seconds=0)
        self._tried.update(late)
        self._late_since = time.monotonic()
        with ThreadPoolExecutor(len(hosts)) as pool:
            answers = list(pool.map(lambda host: host.import_late(late), hosts.values()))
        self._late_since = None
        # One side's cases would have it, and not the other's.
        apart = {*answers[0].settings}.symmetric_difference(answers[-1].settings)
        changed = tuple(dict.fromkeys([*itertools.chain.from_iterable(answer.changed for answer in answers), *sorted(apart)]))
        if not changed:
            self._trees = {side: replace(tree, late=(*tree.late, *late)) for side, tree in self._trees.items()}
        elif not all(answer.changed for answer in answers):
            hosts = self.renew(hosts)
        return hosts, ImportedLate(seconds=max(answer.seconds for answer in answers), changed=changed)

    def _started(self, sides: Sequence[Side], *, identify: bool = False) -> Hosts:
        trees = {side: replace(self._trees[side], identified=identify) for side in sides if side in self._trees}
        hosts = Hosts(trees, self._environ, self._waiting)
        self._hosts = hosts.sides.values()
        return hosts
