"""Serve a soak, which checks a machine for hours, with hosts that stay for many suites.

`ratchet doctor soak` passes `ResidentSessions` to `suite.measure_suite`: the trees are imported once, and each suite forks
fresh workers from them for its first pairs. Where a case looks changed, later pairs come from hosts that are started anew, as
in a check. The caller ends them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ratchet.core.bench.client import HostClient, Hosts
from ratchet.core.bench.ready.sessions import Sessions
from ratchet.core.bench.survey import Surveyed, UnpreparedCase
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.records.run import SIDES, Side


class ResidentSessions(Sessions):
    """The hosts of many suites. A suite that enters and leaves it does not end those of its first session; `close` does."""

    def __init__(self, trees: Mapping[Side, TreeSpec], environ: Mapping[str, str], cores: int) -> None:
        super().__init__(trees, environ, cores=cores)
        self._resident: Hosts | None = None
        self._surveyed: Surveyed | None = None

    def __exit__(self, *_: object) -> None:
        """End the hosts of later sessions, and keep the first ones for the next suite."""
        super().__exit__()
        self._ready.clear()

    def close(self) -> None:
        """End all hosts and what they have started."""
        self.__exit__()
        if self._resident:
            self._resident.__exit__()

    def open(self) -> dict[Side, HostClient]:
        """Return the hosts of the first pairs, a copy for each suite."""
        if self._resident is None:
            self._resident = self._started(SIDES)
            for host in self._resident.sides.values():
                host.listing()
        return dict(self._resident.sides)

    def surveyed(self, survey: Callable[[], Surveyed]) -> Surveyed:
        """Return what the first survey found; if something failed in it, survey again."""
        if self._surveyed is None or any(
            isinstance(one, UnpreparedCase) for of in self._surveyed.values() for one in of.values()
        ):
            self._surveyed = survey()
        return self._surveyed
