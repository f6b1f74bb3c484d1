"""Building, checking and identifying every case before anything is timed; and tracing some of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.core.bench.child.worker import _OPERATIONS
from ratchet.core.bench.client import CaseTrouble
from ratchet.core.bench.duet import Duet
from ratchet.core.bench.messages import HostCode
from ratchet.core.bench.suite import _host_code, _suits_two_cores, choices_that_differ
from ratchet.core.bench.survey import PreparedCase, UnpreparedCase, survey
from ratchet.core.errors import ForeignModuleError, HostError
from ratchet.core.records.profile import Activity
from ratchet.core.records.run import Side
from ratchet.explain.traces import trace
from tests.fake_workers import (
    SAID,
    SIDES,
    Fault,
    Machine,
    Quiet,
    duet_of,
    hosts_end,  # noqa: F401  a fixture
    plan,
    step_s,
)

CASE = "adds/small"
Found = PreparedCase | UnpreparedCase


def surveyed(
    machine: Machine, names: Sequence[str] = (CASE,), *, gpu: bool = False, identify: bool = False, **more: Any
) -> list[Found]:
    """What a survey finds of cases, of all of the head and then of the reference."""
    workers = duet_of(machine, plan(gpu=gpu)).workers
    found = survey(workers, dict.fromkeys(SIDES, names), identify=identify, **more)
    assert [(name, set(sides)) for name, sides in found.items()] == [(name, set(SIDES)) for name in names]
    assert machine.alive == 0
    return [found[name][side] for side in ("head", "reference") for name in names]


def prepared(machine: Machine) -> PreparedCase:
    found = surveyed(machine)[0]
    assert isinstance(found, PreparedCase)
    return found


def test_a_worker_that_is_lost_is_replaced() -> None:
    """After the other cases; three times, and nothing is known of the case. What its code raises is said at once."""
    once = surveyed(Machine(lambda _, __, tries: "killed" if tries <= 1 else None))[0]
    assert isinstance(once, PreparedCase)
    assert [(one.side, one.pair, one.how) for one in once.lost] == [("head", None, SAID["killed"])]
    always = surveyed(Machine(lambda *_: "killed"))[0]
    assert isinstance(always, UnpreparedCase)
    assert always.failure.message.endswith(", in each of 3 tries")
    assert always.unfit
    assert always.unfit.startswith(f"The head's worker {SAID['killed']} three times.")
    broken = surveyed(Machine(lambda *_: "raises"))[0]
    assert isinstance(broken, UnpreparedCase)
    assert (broken.unfit, broken.lost) == (None, ())


def at_work(names: Sequence[str], fault: Fault | None = None, *, gpu: bool = False, **more: Any) -> list[str]:
    """What a survey says is at work, at each moment in which a worker has just begun to prepare a case."""
    work: list[Callable[[], str]] = []
    said: list[str] = []

    @contextlib.contextmanager
    def during(asked: Callable[[], str]) -> Iterator[None]:
        work.append(asked)
        yield
        assert asked() == "", "nothing is at work when the survey is over"

    def asking(*_: object) -> Fault | None:
        said.append(work[0]())
        return fault

    surveyed(Machine(asking, step_s=step_s(fault) if fault else 60, **more), names, gpu=gpu, during=during)
    return said


def test_what_takes_long_is_known() -> None:
    """While a case is prepared, whoever asks gets its name, its side and the seconds so far."""
    said = at_work([CASE], "silent")
    assert re.fullmatch(r"0 of 2 ready; [\d.]+ s at adds/small \((head|reference)\)", said[0])
    assert re.fullmatch(r"1 of 2 ready; [\d.]+ s at adds/small \((head|reference)\)", said[1])
    assert len(said) == 2


def test_no_case_is_called_ready_too_early() -> None:
    """Cases that time their own code are prepared beside each other and then once more, alone: only then are they ready."""
    said = at_work(["a/b", "c/d"], gpu=True, times_itself=True)
    assert [line.partition(";")[0] for line in said] == ["0 of 4 ready"] * 5 + [f"{n} of 4 ready" for n in (1, 2, 3)]


def test_on_a_gpu_a_case_that_fails_beside_others_is_tried_again_alone() -> None:
    """Running out of memory because others are built at once is no failure, and is said; a case that always fails does fail."""
    names = [f"case/{n}" for n in range(6)]
    found = surveyed(Machine(lambda _, __, tries: "no memory" if tries == 1 else None), names, gpu=True, identify=True, lanes=3)
    assert {type(case) for case in found} == {PreparedCase}
    assert {len(case.lost) for case in found} == {1}
    broken = surveyed(Machine(lambda *_: "raises"), names, gpu=True, identify=True, lanes=3)
    assert {type(case) for case in broken} == {UnpreparedCase}


@pytest.mark.parametrize(("identify", "times"), [(False, 0), (True, 2)])
def test_on_a_gpu_launches_can_be_looked_at_without_the_host_code(identify: bool, times: int) -> None:
    """Where every case is timed anyhow, nobody asks for its host code; launches say whether the GPU waits for the host."""
    machine = Machine()
    found = surveyed(machine, gpu=True, identify=identify, look=True, lanes=2)
    assert [isinstance(one, PreparedCase) and (one.identified.waits_for_host, bool(one.identified.opaque)) for one in found] == [
        (False, identify)
    ] * 2
    assert (machine.asked["identify"], machine.asked["host_code"]) == (2, times)
    assert set(machine.forks) == {True}, "nothing is timed in a survey, so one work queue is enough"


@pytest.mark.parametrize(("always", "times"), [(True, 2), (False, 8)])
def test_on_a_gpu_what_every_case_notices_is_asked_once(always: bool, times: int) -> None:
    """What the imports noticed of the difference holds for all cases of a side; else each is asked in a worker of its own."""
    noticed = {"noticed": ["a.py changed, and it was imported"], "always": always}
    machine = Machine(host_code=noticed)
    found = surveyed(machine, [f"case/{n}" for n in range(4)], gpu=True, identify=True)
    assert {isinstance(one, PreparedCase) and one.host.noticed for one in found} == {tuple(noticed["noticed"])}
    assert machine.asked["host_code"] == times


def test_on_a_gpu_a_case_whose_worker_is_lost_while_it_is_looked_at_is_timed() -> None:
    """Where code is not compared, that costs no case: the GPU may wait for the host, and a call may need several work queues."""
    for found in surveyed(Machine(fault_in_identify="killed"), gpu=True, look=True, lanes=2):
        assert isinstance(found, PreparedCase)
        assert (found.identified.waits_for_host, found.identified.one_by_one, found.lost) == (True, False, ())


@pytest.mark.parametrize(
    ("head", "reference", "suits"),
    [
        ((True, 1.0), (True, 1.1), True),
        ((True, 1.0), (True, 1.6), False),
        ((True, 1.0), (True, None), False),
        ((True, 1.0), (False, None), True),
        ((False, None), (False, None), False),
    ],
)
def test_which_cases_are_timed_on_two_cores(
    head: tuple[bool, float | None], reference: tuple[bool, float | None], suits: bool
) -> None:
    """Those for which the GPU waits on a side, if that side is known to work with one thread at a time."""
    one = prepared(Machine())
    found = [
        replace(one, identified=one.identified.model_copy(update={"waits_for_host": waits, "busy_cores": busy}))
        for waits, busy in (head, reference)
    ]
    assert _suits_two_cores(found) == suits


@pytest.mark.parametrize(
    ("head", "reference", "difference"),
    [
        ({}, {}, None),
        ({"host": HostCode(noticed=("a changed",))}, {}, "a changed"),
        ({"digest": "a", "waits_for_host": False}, {"digest": "b", "waits_for_host": False}, None),
        ({"digest": "a"}, {"digest": "b"}, "its launches, machine code or data differ"),
        ({"digest": "a"}, {"opaque": "a stream of its own"}, None),
    ],
)
def test_where_the_gpu_waits_launches_may_not_contradict_host_code(
    head: dict[str, Any], reference: dict[str, Any], difference: str | None
) -> None:
    """Host code that is the same is enough, unless the GPU waits for it and launches are known to differ."""
    found = prepared(Machine())
    one, other = (
        replace(found, host=known.pop("host", HostCode()), identified=found.identified.model_copy(update=known))
        for known in ({**head}, {**reference})
    )
    assert _host_code(one, other) == (difference is None, difference)
    tuned = replace(other, prepared=found.prepared.model_copy(update={"tuning": {"BLOCK": 64}}))
    assert _host_code(one, tuned)[0] is False


def test_what_cases_and_files_change_is_named() -> None:
    """A sentence names case, file and settings, and the side if it is one alone."""
    machine = Machine(left_changed=("grad_enabled (torch settings)",))
    hosts = machine.hosts(["reference"], cases=[CASE]) | machine.hosts(["head"], cases=[CASE], files={"a.py": ["umask (Python)"]})
    workers = Duet(hosts, plan(gpu=True), Quiet(), None).workers
    survey(workers, dict.fromkeys(SIDES, (CASE,)), identify=False)
    leaving, importing = workers.notes
    assert importing.startswith("Head: Importing bench/a.py changes umask (Python).")
    assert leaving.startswith(f"{CASE} (bench/adds.py) leaves changed: grad_enabled (torch settings).")


@pytest.mark.parametrize(
    ("field", "trees", "refused", "notes"), [("built", 2, True, 0), ("built", 1, False, 0), ("fresh", 2, False, 1)]
)
def test_files_that_one_side_made_for_both(field: str, trees: int, refused: bool, notes: int) -> None:
    """A library that both sides loaded is refused, and another file said; not where both sides are one tree."""
    machine = Machine(prepared={field: ["/cache/ours.so"]})
    hosts = {}
    for side in SIDES:
        hosts |= machine.hosts([side], folder=Path(f"/{side}" if trees == 2 else "/one"))
    workers = Duet(hosts, plan(), Quiet(), None).workers
    refusal = pytest.raises(ForeignModuleError, match=r"Both sides loaded /cache/ours\.so")
    for side in SIDES:
        worker = workers.fork(side)
        with refusal if refused and side == "head" else contextlib.nullcontext():
            workers.prepare(side, worker, CASE, 1, check=True)
        workers.end(worker)
    assert len(workers.notes) == notes


FAULTS: tuple[Fault, ...] = ("raises", "killed", "silent", "nonsense")


@pytest.mark.parametrize("fault", FAULTS)
def test_trouble_with_a_trace_costs_that_trace(fault: Fault) -> None:
    """A case that cannot be traced says why, the next one is traced by a fresh worker, and none is left."""
    faults = [fault]
    machine = Machine(lambda *_: faults.pop() if faults else None, step_s=step_s(fault))
    traces = trace(duet_of(machine).workers, "head", ["a/x", "b/x"])
    assert traces["a/x"].activity is None
    assert traces["a/x"].trouble.startswith("Under torch.profiler ")
    assert traces["b/x"].activity == Activity(calls=1, wall_s=1)
    assert machine.alive == 0


def test_trouble_with_a_host_costs_the_traces_of_its_side() -> None:
    """Where no worker can be forked any more, each trace of that side says so, and nothing is raised."""
    duet = duet_of(Machine())
    duet.hosts["head"].close()
    with pytest.raises(HostError):
        duet.hosts["head"].fork()
    troubles = {one.trouble for one in trace(duet.workers, "head", ["a/x", "b/x"]).values()}
    assert {trouble.partition(":")[0] for trouble in troubles} == {"Under torch.profiler The head's process died"}
    assert trace(duet.workers, "reference", ["a/x"])["a/x"].activity is not None


def test_stages_are_words_for_people() -> None:
    """Whatever a worker was asked, a failure names one of five stages, and no name of a request."""
    for request in _OPERATIONS:
        failure = CaseTrouble("head", request, "no", ()).failure()
        assert failure.stage in ("prepare", "check", "measure"), request
    for stage in ("import", "build", "prepare", "check", "measure"):
        assert CaseTrouble("head", stage, "no", ()).failure().stage == stage


@pytest.mark.parametrize(
    ("head", "reference", "said"),
    [
        (
            "BLOCK: 64, num_warps: 4, n: None",
            "BLOCK: 64, num_warps: 8, n: None",
            "num_warps: 4 in the head and num_warps: 8 in the",
        ),
        ("num_warps: 4, fast: True", "num_warps: 4", "fast: True in the head and num_warps: 4"),
        (
            "B: 1, num_warps: 4; B: 2, num_warps: 4",
            "B: 1, num_warps: 4",
            "B: 1, num_warps: 4; B: 2, num_warps: 4 in the head and B: 1",
        ),
        ("BLOCK: 1", "BLOCK: 1", None),
    ],
)
def test_what_the_autotuner_chose_otherwise(head: str, reference: str, said: str | None) -> None:
    """A sentence names the kernel and what its two configurations do not have in common; there is none for the same."""
    sides: dict[Side, Any] = {"head": {"scale": head}, "reference": {"scale": reference, "other": "BLOCK: 3"}}
    surveyed: dict[str, Any] = {
        CASE: {side: PreparedCase(prepared=SimpleNamespace(choices=choices)) for side, choices in sides.items()}  # type: ignore[arg-type]  nobody looks
    }
    sentences = list(choices_that_differ(surveyed, [CASE]))
    assert len(sentences) == (said is not None)
    assert all("kernel scale, Triton's autotuner chose " + str(said) in sentence for sentence in sentences), sentences
