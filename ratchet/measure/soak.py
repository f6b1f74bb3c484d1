"""Serve a soak, which checks a machine for hours, with hosts that stay for many suites.

`ratchet soak` passes `ResidentSessions` to `suite.measure_suite`: the trees are imported once, and each suite forks fresh workers
from them for its pairs. A suite measures its first pairs with one set of hosts and its later pairs with another, as in a check.
The caller ends them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ratchet.measure.client import HostClient, Hosts
from ratchet.measure.suite import Sessions, Surveyed
from ratchet.measure.survey import UnpreparedCase
from ratchet.measure.tree_spec import TreeSpec
from ratchet.records.run import SIDES, Side


class ResidentSessions(Sessions):
    """The hosts of many suites. A suite that enters and leaves it does not end them; `close` does."""

    def __init__(self, trees: Mapping[Side, TreeSpec], environ: Mapping[str, str]) -> None:
        super().__init__(trees, environ)
        self._sets: list[Hosts] = []
        self._surveyed: Surveyed | None = None

    def __exit__(self, *_: object) -> None:
        """Keep the hosts for the next suite."""

    def close(self) -> None:
        """End all hosts and what they have started."""
        super().__exit__()
        self._sets.clear()

    def open(self) -> dict[Side, HostClient]:
        """Return the hosts of the first pairs, a copy for each suite. Both sets import before anything is timed."""
        for sides in (SIDES, tuple(reversed(SIDES)))[len(self._sets) :]:
            started = self._held.enter_context(self._started(sides))
            for host in started.sides.values():
                host.listing()
            self._sets.append(started)
        return dict(self._sets[0].sides)

    def surveyed(self, survey: Callable[[], Surveyed]) -> Surveyed:
        """Return what the first survey found; if something failed in it, survey again."""
        if self._surveyed is None or any(
            isinstance(one, UnpreparedCase) for of in self._surveyed.values() for one in of.values()
        ):
            self._surveyed = survey()
        return self._surveyed

    def keep_twins(self, hosts: Mapping[Side, HostClient], *, spare: bool = False) -> None:
        """Do nothing: the other set is there."""

    def replace_twins(self, *, waits_for_host: bool, at_once: bool) -> None:
        """Do nothing: the other set has imported its trees."""

    def renew(self, sides: Collection[Side]) -> dict[Side, HostClient]:
        """Return the hosts of the later pairs."""
        return {side: host for side, host in self._sets[1].sides.items() if side in sides}
