"""Two cores of the host for both workers of a pair."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ratchet.core.bench.cores import HostCores, keep_to, part_of_cores


def machine(folder: Path, threads: Mapping[int, str], busy: Mapping[int, int]) -> HostCores:
    """A machine of which each core has these threads, and was at work for that many ticks before the first look."""
    folder.mkdir(exist_ok=True)
    for core, siblings in threads.items():
        place = folder / f"cpu{core}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{siblings}\n")
    work(folder, busy)
    return HostCores(busy, folder, folder / "stat")


def work(folder: Path, busy: Mapping[int, int]) -> None:
    lines = [f"cpu{core} {ticks} 0 0 900 0 0 0 0 0 0\n" for core, ticks in busy.items()]
    (folder / "stat").write_text(f"cpu  {sum(busy.values())} 0 0 900 0 0 0 0 0 0\n{''.join(lines)}intr 5 0\n")


@pytest.mark.parametrize(
    ("threads", "twos"),
    [
        ({core: f"{core % 4},{core % 4 + 4}" for core in range(8)}, {(1, 5), (2, 6), (3, 7)}),
        ({core: f"{core // 2 * 2}-{core // 2 * 2 + 1}" for core in range(8)}, {(2, 3), (4, 5), (6, 7)}),
        ({core: str(core) for core in range(8)}, {(2, 3), (4, 5), (6, 7)}),
        ({}, {(2, 3), (4, 5), (6, 7)}),
    ],
)
def test_two_threads_of_one_core_or_neighbours(tmp_path: Path, threads: dict[int, str], twos: set[tuple[int, int]]) -> None:
    """Those that share a physical core belong together, else neighbours; the first two are left to others."""
    busy = dict.fromkeys(range(8), 0)
    cores = machine(tmp_path, threads, busy)
    seen = set()
    for two in twos:
        busy = {core: ticks + (0 if core in two else 50) for core, ticks in busy.items()}
        work(tmp_path, busy)
        seen.add(cores.idlest())
    assert seen == twos


def test_what_was_busy_before_the_last_look_does_not_count(tmp_path: Path) -> None:
    """The two cores are chosen by their work since then, in which one busy thread of a core counts for both."""
    cores = machine(tmp_path, {}, {0: 0, 1: 0, 2: 9000, 3: 0, 4: 0, 5: 0})
    work(tmp_path, {0: 0, 1: 0, 2: 9000, 3: 0, 4: 0, 5: 20})
    assert cores.idlest() == (2, 3)
    work(tmp_path, {0: 0, 1: 0, 2: 9000, 3: 1, 4: 0, 5: 20})
    assert cores.idlest() == (4, 5)


def test_small_machines_have_no_two_to_spare(tmp_path: Path) -> None:
    """With three cores there is no choice; with four, the last two are it."""
    assert machine(tmp_path / "three", {}, dict.fromkeys(range(3), 0)).idlest() == ()
    assert machine(tmp_path / "four", {}, dict.fromkeys(range(4), 0)).idlest() == (2, 3)


def test_unreadable_statistics_leave_a_choice(tmp_path: Path) -> None:
    """Where /proc/stat is missing or says something else, there are two cores all the same."""
    assert HostCores(range(8), tmp_path, tmp_path / "none").idlest() == (2, 3)
    (tmp_path / "stat").write_text("cpu0 a lot\ncpu1\n")
    assert HostCores(range(8), tmp_path, tmp_path / "stat").idlest() == (2, 3)


@pytest.mark.parametrize("of", [1, 2, 3, 500])
def test_parts_of_the_cores(of: int) -> None:
    """Every core is in one part, and no part is empty, however many there are."""
    parts = [part_of_cores(number, of) for number in range(of)]
    assert all(parts)
    assert {core for part in parts for core in part} == os.sched_getaffinity(0)
    if of <= len(os.sched_getaffinity(0)):
        assert sum(map(len, parts)) == len(os.sched_getaffinity(0))


@pytest.fixture
def own_cores() -> Iterator[list[int]]:
    """The cores of this process, which it has again afterwards."""
    cores = os.sched_getaffinity(0)
    yield sorted(cores)
    keep_to(cores, cores)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_main_thread_and_the_others_have_their_own_cores(own_cores: list[int]) -> None:
    """Threads that run already move; those that the main thread starts later stay with it, and all can be freed again."""
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(3)]
    for thread in threads[:2]:
        thread.start()
    try:
        keep_to(own_cores[:1], own_cores[-1:])
        threads[2].start()
        places = [os.sched_getaffinity(thread.native_id or 0) for thread in threads]
        assert (os.sched_getaffinity(os.getpid()), *places) == tuple({own_cores[place]} for place in (0, -1, -1, 0))
        keep_to(own_cores, own_cores)
        assert {frozenset(os.sched_getaffinity(thread.native_id or 0)) for thread in threads} == {frozenset(own_cores)}
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_cores_that_are_taken_away_cost_nothing(own_cores: list[int]) -> None:
    """Where the system refuses, the process stays where it is."""
    keep_to([100_000], [100_000])
    assert os.sched_getaffinity(0) == set(own_cores)
