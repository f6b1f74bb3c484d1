"""The hosts of a suite: when they are started anew, how many at the same time, and when they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ratchet.core.bench.messages import ImportedLate
from ratchet.core.bench.ready import ALL, Tricks
from ratchet.core.bench.ready import sessions as module
from ratchet.core.bench.ready.sessions import Sessions
from ratchet.core.bench.survey import PreparedCase, UnpreparedCase
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.errors import HostError
from ratchet.core.records.run import Failure
from ratchet.trust.measure import ResidentSessions


class Started:
    """Hosts without a process, which write down what becomes of them."""

    happened: ClassVar[list[str]] = []
    broken = ""

    def __init__(self, trees: Mapping[Any, TreeSpec], *_: object) -> None:
        self.number = sum(line.startswith("started") for line in self.happened)
        self.happened.append(f"started {self.number}")
        self.sides = {side: SimpleNamespace(number=self.number, listing=partial(self._listed, side)) for side in trees}

    def _listed(self, side: str) -> None:
        if side == self.broken:
            raise HostError("The head no longer offers a case.")
        self.happened.append(f"imported {self.number}")

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.happened.append(f"ended {self.number}")


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(module, "Hosts", Started)
    monkeypatch.setattr(Started, "happened", happened := [])
    return happened


@pytest.fixture
def trees(tmp_path: Any) -> Mapping[Any, TreeSpec]:
    spec = TreeSpec.of(Settings(), tmp_path, checkout=tmp_path, device="cpu", gpu_uuid=None)
    return {"reference": spec, "head": spec}


def numbers(hosts: Mapping[Any, Any]) -> list[int]:
    return [host.number for host in hosts.values()]


def test_few_cores_start_one_session_at_a_time(happened: list[str], trees: Mapping[Any, TreeSpec]) -> None:
    """Each new pair of hosts is started when the last one has ended, and both have imported their trees before a pair."""
    with Sessions(trees, {}, cores=2) as sessions:
        assert numbers(sessions.open()) == [0, 0]
        assert [numbers(sessions.renew(["reference", "head"])) for _ in range(2)] == [[1, 1], [2, 2]]
    each = [["ended 0", "started 1", *["imported 1"] * 2], ["ended 1", "started 2", *["imported 2"] * 2]]
    assert happened == ["started 0", *each[0], *each[1], "ended 2"]


@pytest.mark.parametrize(("cores", "at_once"), [(1, 1), (4, 1), (5, 2), (8, 3), (15, 6), (192, 6)])
def test_many_cores_start_several_sessions_at_once(
    cores: int, at_once: int, happened: list[str], trees: Mapping[Any, TreeSpec]
) -> None:
    """They import at the same time, so that nothing imports while the pairs of one of them are timed; each is used once."""
    with Sessions(trees, {}, cores=cores) as sessions:
        sessions.open()
        for number in range(1, at_once + 1):
            assert set(numbers(sessions.renew(["reference", "head"]))) == {number}
            assert sum(line.startswith("started") for line in happened) == 1 + at_once
        first_wave = [line for line in happened if not line.startswith("ended")]
        assert first_wave[1 : 1 + at_once] == [f"started {number}" for number in range(1, at_once + 1)]
        assert set(numbers(sessions.renew(["reference", "head"]))) == {at_once + 1}
    assert sorted(line for line in happened if line.startswith("ended")) == sorted(
        f"ended {number}" for number in range(1 + 2 * at_once)
    )


def test_only_sides_that_are_measured_are_started_anew(happened: list[str], trees: Mapping[Any, TreeSpec]) -> None:
    """Of a reference that failed no host is started."""
    with Sessions(trees, {}) as sessions:
        assert set(sessions.open()) == {"reference", "head"}
        assert set(sessions.renew(["head"])) == {"head"}
    assert happened.count("imported 1") == 1


def test_hosts_that_cannot_import_end_with_the_rest(
    happened: list[str], trees: Mapping[Any, TreeSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a tree cannot be imported again, the caller is told, and what was started is ended with the suite."""
    with Sessions(trees, {}, cores=5) as sessions:
        sessions.open()
        monkeypatch.setattr(Started, "broken", "head")
        with pytest.raises(HostError, match="no longer offers"):
            sessions.renew(["reference", "head"])
    assert {line for line in happened if line.startswith("ended")} == {"ended 0", "ended 1", "ended 2"}


def test_a_soak_keeps_the_first_hosts(happened: list[str], trees: Mapping[Any, TreeSpec]) -> None:
    """Suite after suite begins with the same hosts; those that were started for cases that look changed end with their suite."""
    sessions = ResidentSessions(trees, {}, cores=5)
    for later in (1, 3):
        with sessions as same:
            assert numbers(same.open()) == [0, 0]
            assert numbers(same.renew(["reference", "head"])) == [later, later]
        assert set(happened[-2:]) == {f"ended {later}", f"ended {later + 1}"}
        assert "ended 0" not in happened
    with sessions as same:
        assert numbers(same.open()) == [0, 0]
    sessions.close()
    assert happened[-1] == "ended 0"
    assert happened.count("imported 0") == 2


def test_a_soak_surveys_once(trees: Mapping[Any, TreeSpec]) -> None:
    """What the first survey found serves all suites, unless something failed in it."""
    failed = UnpreparedCase(Failure(side="head", stage="prepare", message="It crashed."))
    found: Sequence[Any] = ({"a": {"head": failed}}, {"a": {"head": PreparedCase(prepared=SimpleNamespace())}}, {})  # type: ignore[arg-type]  nobody looks
    taken = iter(found)
    sessions = ResidentSessions(trees, {}, cores=1)
    assert [sessions.surveyed(lambda: next(taken)) for _ in range(3)] == [found[0], found[1], found[1]]


@pytest.mark.parametrize(
    ("reference", "head", "imported"), [(("a", "b", "c"), ("a", "c", "b", "d"), ("a", "b", "c")), (("a",), (), ()), ((), (), ())]
)
def test_only_what_both_sides_import_late_is_imported_ahead(
    reference: tuple[str, ...], head: tuple[str, ...], imported: tuple[str, ...], trees: Mapping[Any, TreeSpec]
) -> None:
    """In the order of the reference's."""
    asked: list[tuple[str, ...]] = []

    def import_late(modules: Sequence[str]) -> ImportedLate:
        asked.append(tuple(modules))
        return ImportedLate(seconds=2)

    hosts: Any = {side: SimpleNamespace(import_late=import_late) for side in trees}
    sessions = Sessions(trees, {})
    assert sessions.import_late(hosts, (reference, head)) == (hosts, ImportedLate(seconds=2 if imported else 0))
    assert sessions.import_late(hosts, (reference, head)) == (hosts, ImportedLate(seconds=0))  # what is done stays so
    assert asked == ([imported] * 2 if imported else [])


@pytest.mark.parametrize(("tricks", "asked", "kept"), [(ALL, [("a",), ("b",)], ("a", "b")), (Tricks(late_imports=False), [], ())])
def test_later_sessions_import_all_that_was_found_late(
    tricks: Tricks,
    asked: list[tuple[str, ...]],
    kept: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    trees: Mapping[Any, TreeSpec],
) -> None:
    """What the survey finds comes to what was known before it; each module is asked for once."""
    found: list[tuple[str, ...]] = []
    late: list[Mapping[Any, TreeSpec]] = []

    def import_late(modules: Sequence[str]) -> ImportedLate:
        found.append(tuple(modules))
        return ImportedLate(seconds=2)

    class Kept(Started):
        def __init__(self, trees: Mapping[Any, TreeSpec], *rest: object) -> None:
            late.append(trees)
            super().__init__(trees, *rest)

    monkeypatch.setattr(module, "Hosts", Kept)
    hosts: Any = {"head": SimpleNamespace(import_late=import_late)}
    with Sessions(trees, {}, tricks=tricks) as sessions:
        sessions.import_late(hosts, [("a",)])
        sessions.import_late(hosts, [("a", "b")])
        sessions.renew(["head"])
    assert found == asked
    assert [tree.late for tree in late[-1].values()] == [kept]


@pytest.mark.parametrize(
    ("answers", "changed"),
    [
        ([{"changed": ("TF32 (torch)",)}, {}], ("TF32 (torch)",)),
        ([{"settings": ("X (environment)",)}, {"settings": ("X (environment)",)}], ()),
        ([{"settings": ("X (environment)",)}, {}], ("X (environment)",)),
    ],
)
def test_what_differs_after_late_imports_leaves_neither_side_with_them(
    answers: list[dict[str, Any]], changed: tuple[str, ...], happened: list[str], trees: Mapping[Any, TreeSpec]
) -> None:
    """A setting of packages that both sides have is theirs; one that a single side has would touch its other cases."""
    given = [ImportedLate(seconds=2, **answer) for answer in answers]
    hosts: Any = {
        side: SimpleNamespace(import_late=lambda _, answer=answer: answer) for side, answer in zip(trees, given, strict=True)
    }
    with Sessions(trees, {}) as sessions:
        goes_on, done = sessions.import_late(hosts, (("a",), ("a",)))
    assert done == ImportedLate(seconds=2, changed=changed)
    assert (goes_on is hosts) == (not changed)
    assert bool(happened) == bool(changed)
