"""When a measurement is over: what the one loop asks after each look, about all cases as they were measured so far. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ratchet.core.records.run import CaseRun


class Rule:
    """Take ``looks[0]`` pairs of every case and no more. Subclasses go on while they have a reason."""

    processes: tuple[int, ...] = ()
    """Numbers of processes of each side at which the totals of unchanged cases are looked at."""

    def __init__(self, looks: tuple[int, ...]) -> None:
        """``looks``: numbers of pairs after which the rule is asked; the last one is the most that are measured."""
        self.looks = looks

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the names of the cases that more pairs could still decide."""
        return ()

    def urgent(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the undecided cases that go on although the budget is spent."""
        return ()

    def changed(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the cases that look changed: only processes of other hosts can prove it."""
        return ()

    def kernels_settled(self, cases: Sequence[CaseRun]) -> Collection[str]:
        """Return the host-bound cases whose kernels need not be timed alone any more."""
        return ()

    def totals(self, cases: Sequence[CaseRun], look: int) -> Collection[str]:
        """Return the cases that need ``processes[look]`` processes."""
        return ()

    def is_known(self, case: CaseRun) -> bool:
        """Return whether a case need not be timed, because its code is known."""
        return False


class EveryPair(Rule):
    """Take every pair of every case that has a reference, until the time is over."""

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return [case.name for case in cases if case.reference]
