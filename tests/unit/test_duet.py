"""Pairs whose workers are lost or answer what cannot be true; the order in which sides take turns; when hosts are renewed."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from scipy import stats

from ratchet.core.bench.client import CaseTrouble, Crashed, Hung, InvalidAnswer, Lost, OutOfMemory
from ratchet.core.bench.duet import KERNEL_PAIRS, CaseSides, Duet, Measured, Rounds, order_of_pair
from ratchet.core.bench.lost import repeats
from ratchet.core.bench.messages import (
    CaseListed,
    Checked,
    Evidence,
    HostCode,
    Identified,
    KernelTimes,
    Listing,
    Prepared,
    Restored,
    Sampled,
    Traced,
    UsedCores,
)
from ratchet.core.bench.suite import _host_code, _pairs_ahead, _suits_two_cores
from ratchet.core.bench.survey import PreparedCase, UnpreparedCase, survey, trace
from ratchet.core.bench.turns import Planted
from ratchet.core.bench.workers import Workers
from ratchet.core.errors import ForeignModuleError, HostError
from ratchet.core.judge.comparison import compare_workers, medians_ms
from ratchet.core.judge.evidence import session_of, thresholds_for
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.activity import Activity
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Peaks
from ratchet.core.records.files import dumps
from ratchet.core.records.run import CaseRun, LostWorker, Plan, Policy, Side
from ratchet.core.records.verdict import Outcome
from tests import examples

SIDES: tuple[Side, ...] = ("reference", "head")
CASE = "adds/small"
PAIRS = 4
LISTED = CaseListed(name=CASE, benchmark="adds", config="small", file="adds.py", parameters={}, skipped="")
KILLED = "was killed (SIGKILL)"
WORKLOAD = examples.WORKLOAD.model_copy(update={"clock": "cpu"})


class Quiet:
    """Nobody looks on."""

    def start(self, total_cases: int, pairs: int) -> None: ...
    def stage(self, text: str) -> None: ...
    def case(self, name: str, pair: int, done: int, total: int) -> None: ...
    def own(self, pids: Iterable[int]) -> None: ...


class Answers(Rounds):
    """Rounds whose answers are given: by name, as functions of the results."""

    def __init__(
        self,
        looks: tuple[int, ...],
        budget_s: float,
        undecided: Callable[..., object],
        urgent: Callable[..., object] = lambda _: (),
        changed: Callable[..., object] = lambda _: (),
        restart: object = None,
        *,
        ahead: int = 1,
        processes: tuple[int, ...] = (),
        totals: Callable[..., object] = lambda *_: (),
        kernels_settled: Callable[..., object] = lambda _: (),
    ) -> None:
        super().__init__(looks, budget_s, ahead)
        vars(self).update(undecided=undecided, urgent=urgent, changed=changed, restart=restart)
        vars(self).update(processes=processes, totals=totals, kernels_settled=kernels_settled)


def killed(side: Side) -> Lost:
    return Crashed(side, "block", f"crashed: the worker {KILLED}", ("its last words",), KILLED)


def hung(side: Side) -> Lost:
    return Hung(side, "block", "hung: no answer within 4 s", (), "gave no answer within 4 s")


def out_of_memory(side: Side) -> Lost:
    return OutOfMemory(side, "prepare", "ran out of GPU memory", (), "ran out of GPU memory")


def raised(side: Side) -> CaseTrouble:
    return CaseTrouble(side, "prepare", "ValueError: no such layout", ())


def nonsense(side: Side) -> CaseTrouble:
    return InvalidAnswer(side, "block", "sent an invalid answer: not a message", ())


@dataclass
class Script:
    """What goes wrong: the trouble of a side in its n-th try of a pair, pair -1 being the survey; and what was tried."""

    trouble: Callable[[Side, int, int], CaseTrouble | None] = lambda *_: None
    sampled: Callable[[Side, int], Sampled] = lambda _, count: Sampled(samples_ms=(1e-4,) * count)
    tries: Counter[tuple[Side, int]] = field(default_factory=Counter)
    built: list[tuple[Side, int]] = field(default_factory=list)
    """Side and pair, in the order in which workers built the case."""
    timed: list[tuple[Side, int]] = field(default_factory=list)
    traced: Counter[tuple[Side, int]] = field(default_factory=Counter)
    happened: list[str] = field(default_factory=list)
    """built, timed, traced and ended, in order."""
    times_itself: bool = False
    results: dict[Side, float] | None = None
    """The result of each side on fresh inputs, where the workload has no reference."""
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Files outside the trees, as `Prepared` has them."""
    building: int = 0
    most_building: int = 0
    """Most workers that were building at one time."""
    alive: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    looked_at: Callable[[Side], CaseTrouble] | None = None
    """The trouble of a worker that is asked for the identity of a case."""
    left_changed: tuple[str, ...] = ()
    """What each case leaves changed in its process, and whether that is then of no use for another one."""
    is_spent: bool = False
    one_queue: list[bool] = field(default_factory=list)
    """Of each worker that was forked: whether one work queue of the GPU is enough for it."""
    host_code: HostCode = field(default_factory=lambda: HostCode(unknown="nobody asks"))


class Worker:
    """A worker without a process."""

    ready_s, pid, case = 0.1, 1, ""

    def __init__(self, side: Side, script: Script) -> None:
        self._side, self._script, self._pair = side, script, -1
        script.alive += 1

    def ask(self, op: str, expected: type[Any], **words: Any) -> Any:
        script, side = self._script, self._side
        script.asked[op] += 1
        if op == "identify" and script.looked_at:
            raise script.looked_at(side)
        if op == "prepare":
            self._pair = -1 if words["check"] else (words["seed"] - examples.PLAN.seed) // 2
            script.tries[side, self._pair] += 1
            tries = script.tries[side, self._pair]
            script.built.append((side, self._pair))
            script.happened.append("built")
            script.building += 1
            script.most_building = max(script.most_building, script.building)
            time.sleep(0.002)
            script.building -= 1
            trouble = script.trouble(side, self._pair, tries)
            if trouble:
                raise trouble
            return Prepared(
                workload=WORKLOAD,
                tuning={},
                error=0,
                peak_memory_bytes=1,
                stages=(),
                foreign=(),
                times_itself=script.times_itself,
                has_reference=script.results is None,
                **script.files,
            )
        if op == "use_cores":
            script.happened.append(f"cores {words['cores']}")
            return UsedCores(cores=words["cores"] or (0,))
        if op == "restore":
            return Restored(changed=script.left_changed, spent=script.is_spent)
        if op == "trace":
            return Traced(activity=Activity(calls=1, wall_s=1))
        if op == "block":
            script.timed.append((side, self._pair))
            script.happened.append("timed")
            return script.sampled(side, words["samples"])
        if op == "finish" and words["evidence"] and script.results:
            result = script.results[side]
            return Checked(error=0, evidence=(Evidence(place="the output", kind="x", limit=0.1, norm=result, sketch=(result,)),))
        if expected is HostCode:
            return self._script.host_code
        return Checked(error=0) if expected is Checked else Identified(digest="", opaque="nobody asks")

    def end(self) -> None:
        self._script.alive -= 1
        self._script.happened.append("ended")


@dataclass
class Host:
    side: Side
    script: Script
    until: float = math.inf
    folder: Path = Path()
    worker: type[Worker] = Worker
    listed: Listing = field(default_factory=Listing)
    bench: str = "bench"
    threads: int = 1

    def listing(self) -> Listing:
        return self.listed

    def fork(self, *, one_queue: bool = False, **_: object) -> Worker:
        self.script.one_queue.append(one_queue)
        return self.worker(self.side, self.script)


def plan(pairs: int = PAIRS, sessions: bool = False, clock: str = "cpu") -> Plan:
    return examples.PLAN.model_copy(update={"pairs": pairs, "blocks": 2, "block_ms": 0.3, "clock": clock, "sessions": sessions})


def duet_of(script: Script, chosen: Plan | None = None, sides: tuple[Side, ...] = SIDES, **more: Any) -> Duet:
    hosts: Any = {side: Host(side, script) for side in sides}
    return Duet(hosts, chosen or plan(), Quiet(), None, **more)


def measured(script: Script, sides: tuple[Side, ...] = SIDES, **more: Any) -> Measured:
    """One case in a few pairs, without a process."""
    duet = duet_of(script, sides=sides, **more)
    result = duet.measure([CaseSides(CASE, sides)], Rounds((PAIRS,)))[CASE]
    assert script.alive == 0, "workers are left"
    return result


def pairs(result: Measured, side: Side) -> list[int]:
    return [one.pair for one in result.workers[side]]


@pytest.mark.parametrize(
    ("share", "order_seed", "fewest", "most"), [(0.0, 1, 4, 4), (0.25, 1, 5, 10), (0.25, 2, 5, 10), (1.0, 1, 20, 20)]
)
def test_which_pairs_are_checked_after_timing(share: float, order_seed: int, fewest: int, most: int) -> None:
    """The first, those after which a case may be decided, and a share of the others, drawn anew for each run."""
    chosen = plan(20).model_copy(update={"order_seed": order_seed})
    duet = duet_of(Script(), chosen, checked_share=share)
    result = duet.measure([CaseSides(CASE, SIDES)], Answers((6, 8, 20), 0, lambda _: [CASE]))[CASE]
    checked = {side: [one.pair for one in workers if one.samples().error is not None] for side, workers in result.workers.items()}
    assert checked["head"] == checked["reference"]
    assert {0, 5, 7, 19} <= set(checked["head"])
    assert fewest <= len(checked["head"]) <= most


@pytest.mark.parametrize(
    ("clock", "waits", "most", "blocks"),
    [
        ("event", (), 8, 4),
        ("event", ("head",), 8, 8),
        ("event", ("reference",), 8, 8),
        ("event", (), 10, 6),  # half of them, but each order as often as the other
        ("event", (), 4, 4),
        ("event", (), 2, 2),
        ("cpu", (), 8, 8),
    ],
)
def test_half_of_the_blocks_suffice_on_a_gpu(clock: str, waits: tuple[Side, ...], most: int, blocks: int) -> None:
    """Both sides of a pair have as many blocks; one that waits for the host, and the CPU, take all of the plan."""

    class Timed(Worker):
        def ask(self, op: str, expected: type[Any], **words: Any) -> Any:
            answer = super().ask(op, expected, **words)
            if op == "prepare":
                return answer.model_copy(update={"workload": WORKLOAD.model_copy(update={"clock": clock})})
            return answer

    script = Script(sampled=lambda side, count: Sampled(samples_ms=(1e-4,) * count, exposed=side in waits))
    hosts: Any = {side: Host(side, script, worker=Timed) for side in SIDES}
    duet = Duet(hosts, plan().model_copy(update={"blocks": most}), Quiet(), None)
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,)))[CASE]
    assert {len(one.blocks) for side in SIDES for one in result.workers[side]} == {blocks}


class Waits(Worker):
    """A worker whose GPU waits for the host in every block."""

    def ask(self, op: str, expected: type[Any], **words: Any) -> Any:
        if op == "kernels":
            self._script.happened.append("traced")
            self._script.traced[self._side, self._pair] += 1
            trouble = self._script.trouble(self._side, self._pair, -self._script.traced[self._side, self._pair])
            if trouble:
                raise trouble
            return KernelTimes(samples_ms=(5e-5,))
        answer = super().ask(op, expected, **words)
        return answer.model_copy(update={"exposed": True}) if op == "block" else answer


def waiting(script: Script, names: Collection[str], looks: tuple[int, ...], clock: str, settled: str = "") -> dict[str, Measured]:
    """Cases whose kernels are timed alone, those of one of them only until the first look."""
    hosts: Any = {side: Host(side, script, worker=Waits) for side in SIDES}
    rounds = Answers(looks, 0, lambda _: names, kernels_settled=lambda _: [settled], ahead=4 if clock == "auto" else 1)
    return Duet(hosts, plan(looks[-1], clock=clock), Quiet(), None).measure([CaseSides(name, SIDES) for name in names], rounds)


@pytest.mark.parametrize("clock", ["cpu", "auto"])
def test_kernels_are_timed_alone_until_they_are_settled(clock: str) -> None:
    """They are timed after all cases of the pairs that got ready together, in the same processes: their tracer would disturb."""
    script = Script()
    results = waiting(script, ("a/settled", "a/open"), (6, 8, 12), clock, "a/settled")
    timed = {name: [one.pair for one in result.workers["head"] if one.kernels_ms] for name, result in results.items()}
    assert timed == {"a/settled": list(range(6)), "a/open": list(range(12))}
    if clock == "auto":
        assert script.happened.count("ended") == 2 * 12
    pairs_of_processes = [list(group) for is_end, group in groupby(script.happened, lambda what: what == "ended") if not is_end]
    for happened in pairs_of_processes:
        first = happened.index("traced") if "traced" in happened else len(happened)
        assert "timed" not in happened[first:]
    assert script.alive == 0


def test_kernels_can_be_proven_to_be_slower_in_large_runs() -> None:
    """They are timed in as many pairs as a change of one of ten thousand cases takes."""
    assert thresholds_for(Policy(), 10_000, 5).pairs_needed <= KERNEL_PAIRS


@pytest.mark.parametrize(("clock", "is_spent", "processes"), [("cpu", False, 3), ("auto", False, 1), ("auto", True, 3)])
def test_cases_of_a_pair_in_one_process(clock: str, is_spent: bool, processes: int) -> None:
    """On the CPU each case has a process of its own. On a GPU one takes all of a pair, as long as it can be restored."""
    script = Script(is_spent=is_spent)
    hosts: Any = {"head": Host("head", script)}
    cases = [CaseSides(name, ("head",)) for name in ("a/x", "a/y", "b/x")]
    Duet(hosts, plan(clock=clock), Quiet(), None).measure(cases, Rounds((PAIRS,)))
    assert len(script.one_queue) == processes * PAIRS
    assert script.alive == 0


def test_what_cases_and_files_change_is_named() -> None:
    """A sentence names case, file and settings, and the side if it is one alone."""
    script = Script(left_changed=("grad_enabled (torch settings)",))
    files = {"a.py": ("umask (Python)",)}
    listings = {side: Listing(cases=(LISTED,), changed=files if side == "head" else {}) for side in SIDES}
    hosts: Any = {side: Host(side, script, listed=listings[side]) for side in SIDES}
    duet = Duet(hosts, plan(clock="auto"), Quiet(), None)
    survey(duet.workers, dict.fromkeys(SIDES, (CASE,)), identify=False)
    leaving, importing = duet.workers.notes
    assert importing.startswith("Head: Importing bench/a.py changes umask (Python).")
    assert leaving.startswith(f"{CASE} (bench/{LISTED.file}) leaves changed: grad_enabled (torch settings).")


@pytest.mark.parametrize("side", SIDES)
def test_a_worker_that_is_lost_while_kernels_are_timed_costs_these_times_only(side: Side) -> None:
    """The pair was timed before, and is not measured again; the record has the loss."""
    script = Script(lambda at, pair, tries: killed(at) if (at, pair, tries) == (side, 1, -1) else None)
    result = waiting(script, [CASE], (6,), "auto")[CASE]
    assert [pairs(result, at) for at in SIDES] == [list(range(6))] * 2
    assert [one.pair for one in result.workers[side] if not one.kernels_ms] == [1]
    assert [(one.side, one.pair, one.how) for one in result.lost] == [(side, 1, KILLED)]
    assert (result.failures, result.unfit, script.alive) == ([], None, 0)


@pytest.mark.parametrize(
    ("call_ms", "samples", "blocks"),
    [(0.01, 30, 8), (40.0, 3, 8), (70.0, 2, 8), (200.0, 1, 4)],
)
def test_long_calls_on_the_cpu_take_fewer_samples(call_ms: float, samples: int, blocks: int) -> None:
    """One call that takes longer than a block should is a block, with no untimed one before it; half of the blocks suffice then.

    Shorter calls come in blocks of these samples or one more, as it is drawn, on both sides alike.
    """
    cpu = WORKLOAD.model_copy(update={"clock": "cpu"})
    asked = []

    class Slow(Worker):
        def ask(self, op: str, expected: type[Any], **words: Any) -> Any:
            if op == "block":
                asked.append((words["samples"], words["untimed"]))
            answer = super().ask(op, expected, **words)
            return answer.model_copy(update={"workload": cpu}) if op == "prepare" else answer

    script = Script(sampled=lambda _, count: Sampled(samples_ms=(call_ms,) * count))
    hosts: Any = {side: Host(side, script, worker=Slow) for side in SIDES}
    duet = Duet(hosts, plan().model_copy(update={"blocks": 8, "block_ms": 0.3, "clock": "cpu"}), Quiet(), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ratchet.core.bench.turns.problem_of", lambda *_: None)  # nobody waits for these calls
        result = duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,)))[CASE]
    lengths = {side: [[len(taken.block.samples_ms) for taken in one.blocks] for one in result.workers[side]] for side in SIDES}
    assert lengths["head"] == lengths["reference"]
    assert {len(one) for one in lengths["head"]} == {blocks}
    assert {length for one in lengths["head"] for length in one} == ({samples, samples + 1} if samples > 1 else {samples})
    assert {untimed for count, untimed in asked if count >= samples} == {samples > 1}


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize(("calls", "every"), [(3, 4), (3, 2), (7, 4), (30, 31)])
def test_a_call_that_is_slow_now_and_then_is_seen(calls: int, every: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share among the timed calls is about what it is among all, however long blocks are and whichever call comes first."""
    monkeypatch.setattr("ratchet.core.bench.turns.WARM_S", -1)
    monkeypatch.setattr("ratchet.core.bench.turns.BLOCK_WALL", 1e9)
    monkeypatch.setattr("ratchet.core.bench.turns.problem_of", lambda *_: None)

    class Now(Worker):
        def __init__(self, side: Side, script: Script) -> None:
            super().__init__(side, script)
            self.made = first

        def ask(self, op: str, expected: type[Any], **words: Any) -> Any:
            answer = super().ask(op, expected, **words)
            if op != "block":
                return answer
            numbers = range(self.made, self.made + words["untimed"] + words["samples"])
            self.made = numbers.stop
            times = tuple(0.5 if number % every == 0 else 0.1 for number in numbers[words["untimed"] :])
            return answer.model_copy(update={"samples_ms": times})

    hosts: Any = {side: Host(side, Script(), worker=Now) for side in SIDES}
    chosen = plan(20).model_copy(update={"blocks": 8, "block_ms": 0.1 * calls})
    result = Duet(hosts, chosen, Quiet(), None).measure([CaseSides(CASE, SIDES)], Rounds((20,)))[CASE]
    timed = [sample for one in result.workers["head"] for taken in one.blocks for sample in taken.block.samples_ms]
    assert timed.count(0.5) / len(timed) == pytest.approx(1 / every, rel=0.25)


class OneTwo:
    """A host with as many cores as pairs need."""

    def __init__(self) -> None:
        self.chosen = 0

    def idlest(self) -> tuple[int, int]:
        self.chosen += 2
        return self.chosen, self.chosen + 1


def test_both_sides_are_timed_on_the_same_two_cores() -> None:
    """They move to two cores between building and timing, and back before the check; cases that are not named move nowhere."""
    for names in ({CASE}, {"another/case"}):
        script = Script()
        host_cores: Any = OneTwo()
        duet = duet_of(script, host_cores=host_cores)
        duet.on_two_cores = names
        duet.measure([CaseSides(CASE, SIDES)], Rounds((2,)))
        happened = [what for what, _ in groupby(script.happened) if what != "ended"]
        moved = CASE in names
        there, back = (["cores (2, 3)"], ["cores (4, 5)"]) if moved else ([], []), ["cores ()"] if moved else []
        assert happened == [what for cores in there for what in ["built", *cores, "timed", *back]]


@pytest.mark.parametrize("trees", [1, 2])
def test_files_that_one_side_made_for_both(trees: int) -> None:
    """A library that both sides loaded is refused, and another file said; not where both sides are one tree."""
    for name in ("fresh", "built"):
        script = Script(files={name: ("/cache/ours.so",)})
        hosts: Any = {side: Host(side, script, folder=Path(side if trees == 2 else "one")) for side in SIDES}
        workers = Duet(hosts, plan(), Quiet(), None).workers
        refused = pytest.raises(ForeignModuleError, match=r"Both sides loaded /cache/ours\.so")
        workers.prepare("reference", hosts["reference"].fork(), CASE, 1, check=True)
        with refused if (trees, name) == (2, "built") else contextlib.nullcontext():
            workers.prepare("head", hosts["head"].fork(), CASE, 1, check=True)
        assert len(workers.notes) == (1 if (trees, name) == (2, "fresh") else 0)


def test_results_without_a_reference_are_compared_in_each_pair() -> None:
    """Sides that agree on fresh inputs are measured, with the error between them; sides that do not are a failure of the head."""
    result = measured(Script(results={"head": 1.05, "reference": 1.0}))
    assert not result.failures
    errors = {side: [one.checked.error for one in result.workers[side] if one.checked] for side in SIDES}
    assert errors == {"head": [pytest.approx(0.05)] * PAIRS, "reference": [0.0] * PAIRS}
    (failure,) = measured(Script(results={"head": 1.5, "reference": 1.0})).failures
    assert (failure.side, failure.stage) == ("head", "check")
    assert failure.message.startswith("wrong result: the output is off by 5.00e-01")
    assert not measured(Script(results={"head": 1.5}), sides=("head",)).failures


@pytest.mark.parametrize("trouble", [killed, hung, out_of_memory])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("losses", [1, 2])
def test_a_lost_pair_is_measured_again(side: Side, losses: int, trouble: Callable[[Side], Lost]) -> None:
    """Whichever side was lost, and how: the pair is repeated with fresh workers, nothing fails, and the record says so."""
    script = Script(lambda at, pair, tries: trouble(at) if (at, pair) == (side, 1) and tries <= losses else None)
    result = measured(script)
    assert (result.failures, result.unfit) == ([], None)
    assert pairs(result, "head") == pairs(result, "reference") == list(range(PAIRS))
    assert [(one.side, one.pair, one.how) for one in result.lost] == [(side, 1, trouble(side).how)] * losses


@pytest.mark.parametrize("trouble", [killed, hung, out_of_memory])
def test_a_head_that_is_always_lost_fails(trouble: Callable[[Side], Lost]) -> None:
    """Lost in the first try and both repeats, while the reference gets through the same pair: a failure of the head."""
    script = Script(lambda at, pair, _: trouble(at) if (at, pair) == ("head", 1) else None)
    result = measured(script)
    (failure,) = result.failures
    assert (failure.side, result.unfit) == ("head", None)
    assert failure.message == f"{trouble('head').message}, in each of 3 tries"
    assert (script.tries["head", 1], script.tries["head", 2]) == (3, 0)
    assert pairs(result, "reference") == [0]


@pytest.mark.parametrize("trouble", [killed, hung, out_of_memory])
def test_a_reference_that_is_always_lost_is_no_verdict(trouble: Callable[[Side], Lost]) -> None:
    """Where the reference is lost three times the case could not be measured: it says so, and what to do."""
    script = Script(lambda at, pair, _: trouble(at) if (at, pair) == ("reference", 1) else None)
    result = measured(script)
    assert result.failures == []
    assert result.unfit is not None
    assert result.unfit.startswith(f"The reference's worker {trouble('head').how} three times. ")
    assert result.unfit.endswith("measure again.")
    assert script.tries["reference", 2] == 0


def test_a_side_that_changes_is_no_verdict() -> None:
    """Head, reference and head again lost in one pair: something else than the code is at work."""
    lost = iter(["head", "reference", "head"])
    waiting: list[str] = [next(lost)]

    def trouble(side: Side, pair: int, _: int) -> CaseTrouble | None:
        if pair != 1 or not waiting or side != waiting[0]:
            return None
        waiting[:] = [following] if (following := next(lost, "")) else []
        return killed(side)

    result = measured(Script(trouble))
    assert result.failures == []
    assert result.unfit is not None
    assert result.unfit.startswith(f"The head's worker {KILLED} twice and the reference's worker {KILLED}. Free memory")


def test_a_machine_that_kills_both_is_no_verdict() -> None:
    """Where the head is always lost, and the reference too once it runs by itself, the machine is at fault."""

    def trouble(side: Side, pair: int, _: int) -> CaseTrouble | None:
        alone = sum(number for (at, of), number in script.tries.items() if (at, of) == ("head", pair)) == 3
        return killed(side) if pair == 1 and (side == "head" or alone) else None

    script = Script(trouble)
    result = measured(script)
    assert result.failures == []
    assert result.unfit == (
        f"The head's worker {KILLED} three times and the reference's worker {KILLED}. "
        "Free memory on this machine, or find what kills it, and measure again."
    )


def test_losses_here_and_there_are_no_verdict() -> None:
    """A head that is lost once in each of three pairs is not reproducibly broken, and not to be trusted either."""
    result = measured(Script(lambda at, _, tries: killed(at) if at == "head" and tries == 1 else None))
    assert (result.failures, len(result.lost)) == ([], 3)
    assert result.unfit is not None
    assert pairs(result, "head") == [0, 1]


@pytest.mark.parametrize("side", SIDES)
def test_what_code_raises_is_not_tried_again(side: Side) -> None:
    """An exception fails its side at once; the head is measured alone where it was the reference's."""
    script = Script(lambda at, _, __: raised(at) if at == side else None)
    result = measured(script)
    assert [(failure.side, failure.message) for failure in result.failures] == [(side, "ValueError: no such layout")]
    assert (result.lost, result.unfit, script.tries[side, 0]) == ([], None, 1)
    assert pairs(result, "head") == ([] if side == "head" else list(range(PAIRS)))


def test_what_is_measured_is_what_files_keep() -> None:
    """Samples are kept to the last digit: a run judged again from its file has the same figures."""
    taken_ms = (3 * 1e-4, 0.000_123_456_7)
    result = measured(Script(sampled=lambda _, count: Sampled(samples_ms=(taken_ms * count)[:count])))
    case = examples.compared(head=tuple(one.samples() for one in result.workers["head"]))
    assert case.head
    assert CaseRun.model_validate_json(dumps(case)).head == case.head


def test_a_planted_slowdown_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn gives one sample; the head's holds four calls more in twenty, each of the length that the worker reports."""
    monkeypatch.setattr(
        "ratchet.core.bench.turns.BLOCK_WALL", 1e9
    )  # so that warm-up asks for 30, however long a turn really takes
    asked: Counter[tuple[Side, int]] = Counter()

    def sampled(side: Side, count: int) -> Sampled:
        asked[side, count] += 1
        return Sampled(samples_ms=(1e-4,) * count)

    result = measured(Script(sampled=sampled), planted={CASE: Planted.nearest(0.2), "another": Planted.nearest(1)})
    turns = PAIRS * plan().blocks
    assert (asked["head", 24], asked["reference", 20], asked["head", 20], asked["reference", 24]) == (turns, turns, 0, 0)
    blocks = {side: [taken.block for one in result.workers[side] for taken in one.blocks] for side in SIDES}
    assert {block.samples_ms for block in blocks["reference"]} == {(1e-4,)}
    assert {block.samples_ms for block in blocks["head"]} == {(math.fsum([1e-4] * 24) / 20,)}


@pytest.mark.parametrize(("share", "calls", "more"), [(0.035, 29, 1), (0.2, 20, 4), (1.0, 20, 20), (0.005, 200, 1)])
def test_planted_slowdowns(share: float, calls: int, more: int) -> None:
    """The nearest slowdown of the form 1/n, over twenty calls at least."""
    planted = Planted.nearest(share)
    assert (planted.calls, planted.more) == (calls, more)
    assert planted.share == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(("side", "fails"), [("head", True), ("reference", False)])
def test_nonsense(side: Side, fails: bool) -> None:
    """A head that speaks nonsense fails; of a reference that does, nothing is known, which is no pass either."""
    result = measured(Script(lambda at, _, __: nonsense(at) if at == side else None))
    assert [failure.side for failure in result.failures] == (["head"] if fails else [])
    assert result.unfit == (None if fails else "The reference could not be measured: sent an invalid answer: not a message")


def test_alone_a_lost_worker_is_tried_again_and_then_fails() -> None:
    """Timed alone, a head that is lost once is measured again, and one that is always lost fails."""
    once = measured(Script(lambda _, pair, tries: killed("head") if (pair, tries) == (0, 1) else None), ("head",))
    assert (once.failures, once.unfit, pairs(once, "head")) == ([], None, list(range(PAIRS)))
    always = measured(Script(lambda *_: killed("head")), ("head",))
    assert ([failure.side for failure in always.failures], always.unfit) == (["head"], None)


def test_nothing_is_tried_again_once_the_time_is_over() -> None:
    """Who is cut off by the end of the time was not lost."""
    script = Script(lambda at, _, __: hung(at) if at == "head" else None)
    hosts: Any = {side: Host(side, script, until=time.monotonic()) for side in SIDES}
    duet = Duet(hosts, plan(), Quiet(), None)
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,)))[CASE]
    assert ([failure.message for failure in result.failures], result.lost) == (["hung: no answer within 4 s"], [])


@pytest.mark.parametrize(
    ("sampled", "said"),
    [
        (lambda count: (1e-4,) * min(count, 2), "2 samples came back where "),
        (lambda count: (1e-4,) * (count + 1), "2 samples came back where 1 were asked for"),
        (lambda count: (1e-6,) * count, "a call of 1.000 ns is shorter than any that this clock can see"),
        (lambda count: (1e7,) * count, "its samples add up to 10000 s, but all of them came within"),
    ],
)
@pytest.mark.parametrize("side", SIDES)
def test_what_cannot_be_true_is_refused(side: Side, sampled: Callable[[int], tuple[float, ...]], said: str) -> None:
    """Too few or too many samples, a time that no clock sees, and more than has passed: no verdict, whichever side says it."""
    honest = Script().sampled
    script = Script(sampled=lambda at, count: Sampled(samples_ms=sampled(count)) if at == side else honest(at, count))
    result = measured(script)
    assert (result.failures, pairs(result, "head")) == ([], [])
    assert result.unfit is not None
    assert result.unfit.startswith(f"The {side} could not be measured: {said}")


PEAKS = Peaks(dram_bytes_per_s=WORKLOAD.bytes / 1e-6, flops_per_s={"fp32": WORKLOAD.flops / 1e-6})
"""Of a GPU that takes 1 µs for the workload."""


def faster(**times: float) -> Script:
    """Workers that take 1 µs; those of these sides are so many times as fast."""
    return Script(sampled=lambda side, count: Sampled(samples_ms=(1e-3 / times.get(side, 1.0),) * count))


IMPOSSIBLE = "a call of 50.00 ns would move its declared bytes 20 times as fast as this GPU can"


@pytest.mark.parametrize("seed", range(4))
def test_an_impossible_head_fails(seed: int) -> None:
    """A head whose time no GPU can reach fails with the figure, beside a reference whose time is possible; whoever is first."""
    result = measured(faster(head=20), peaks=PEAKS, chosen=plan().model_copy(update={"order_seed": seed}))
    assert result.unfit is None
    assert [(failure.side, failure.stage) for failure in result.failures] == [("head", "measure")]
    assert result.failures[0].message.startswith(f"impossible: {IMPOSSIBLE}; the reference's time is possible: check what the ")
    case = examples.compared(name=CASE, failures=tuple(result.failures), head=(), reference=())
    verdict = judge_run(examples.run_of(case), Baseline())
    assert (verdict.cases[0].outcome, verdict.exit_code) == (Outcome.FAILED, 1)
    assert IMPOSSIBLE in verdict.headline


@pytest.mark.parametrize("seed", range(4))
def test_an_impossible_workload_fails_nobody(seed: int) -> None:
    """Where both sides are impossible the workload declares too much; a reference alone could not be measured."""
    both = measured(faster(head=20, reference=20), peaks=PEAKS, chosen=plan().model_copy(update={"order_seed": seed}))
    assert both.failures == []
    assert both.unfit is not None
    assert both.unfit.startswith(f"Impossible on both sides, since {IMPOSSIBLE}: the workload declares wrong bytes or FLOPs, or ")
    reference = measured(faster(reference=20), peaks=PEAKS, chosen=plan().model_copy(update={"order_seed": seed}))
    assert reference.failures == []
    assert reference.unfit is not None
    assert reference.unfit.startswith(f"The reference could not be measured: {IMPOSSIBLE}: check what the workload declares")


def test_alone_an_impossible_head_fails() -> None:
    """Timed alone, there is no reference to blame or to clear."""
    (failure,) = measured(faster(head=20), ("head",), peaks=PEAKS).failures
    assert failure.message.startswith(f"impossible: {IMPOSSIBLE}: check what the workload declares")


def test_nothing_is_impossible_beside_a_reference_that_is_lost() -> None:
    """If the reference is lost when it is asked, nobody knows whether its time is possible, so the head does not fail."""
    script = replace(faster(head=20), trouble=lambda side, _, tries: killed(side) if side == "reference" and tries > 1 else None)
    result = measured(script, peaks=PEAKS)
    assert result.failures == []
    assert result.unfit is not None
    assert result.unfit.startswith(f"The head could not be measured: {IMPOSSIBLE}: ")


def test_what_a_cache_may_explain_is_no_failure() -> None:
    """A few times the memory's rate may be the L2 cache's, so it is no verdict; the same for FLOPs is impossible."""
    result = measured(faster(head=5), peaks=PEAKS.model_copy(update={"flops_per_s": {}}))
    assert (result.failures, result.unfit and result.unfit.split(":")[0]) == ([], "The head could not be measured")
    result = measured(faster(head=5), peaks=PEAKS.model_copy(update={"dram_bytes_per_s": None}))
    assert "do its declared FLOPs 5 times as fast" in result.failures[0].message


@pytest.mark.parametrize("coin", [0, 1])
def test_every_order_of_pairs_is_as_likely(coin: int) -> None:
    """Of who forks first, and of who times first, each of the 32 ways that five pairs can come out is drawn equally often."""
    runs = 6400
    drawn = Counter(tuple(order_of_pair(seed, CASE, pair)[coin] for pair in range(5)) for seed in range(runs))
    assert len(drawn) == 32
    assert stats.chisquare(list(drawn.values())).pvalue > 0.001


@pytest.mark.parametrize(
    "neighbour",
    [
        lambda seed: order_of_pair(seed, CASE, 7),
        lambda seed: order_of_pair(seed, CASE, 9),
        lambda seed: order_of_pair(seed, "adds/large", 8),
        lambda seed: order_of_pair(seed + 1, CASE, 8),
    ],
    ids=["the pair before", "the pair after", "the same pair of another case", "the same pair of the next run"],
)
def test_no_order_says_anything_of_another(neighbour: Callable[[int], tuple[bool, bool]]) -> None:
    """Both coins of a pair are independent of each other, and of those of a neighbour: all 16 combinations are as likely."""
    drawn = Counter((*order_of_pair(seed, CASE, 8), *neighbour(seed)) for seed in range(0, 12_800, 2))
    assert len(drawn) == 16
    assert stats.chisquare(list(drawn.values())).pvalue > 0.001


def test_an_order_can_be_drawn_again() -> None:
    """The same seed, case and pair have the same order every time."""
    assert [order_of_pair(5, CASE, pair) for pair in range(40)] == [order_of_pair(5, CASE, pair) for pair in range(40)]


def test_pairs_follow_the_order_that_was_drawn() -> None:
    """Who builds first and who is timed first is what was drawn, and the record says who started first."""
    script = Script()
    result = measured(script)
    for pair in range(PAIRS):
        forks, times = order_of_pair(plan().order_seed, CASE, pair)
        assert [side for side, of in script.built if of == pair] == list(SIDES[::-1] if forks else SIDES)
        assert next(side for side, of in script.timed if of == pair) == ("head" if times else "reference")
        assert {side: result.workers[side][pair].started_first for side in SIDES} == {"reference": not forks, "head": forks}


def test_a_repeat_exchanges_the_sides() -> None:
    """A pair that is repeated has the other side first, so that what always takes the first one is not the code's doing."""
    script = Script(lambda at, pair, tries: killed(at) if (at, pair) == ("head", 1) and tries <= 2 else None)
    measured(script)
    forks, _ = order_of_pair(plan().order_seed, CASE, 1)
    head_first = ["head", "reference", "head", "head", "reference"]
    reference_first = ["reference", "head", "head", "reference", "head"]
    assert [at for at, of in script.built if of == 1] == (head_first if forks else reference_first)


def test_the_survey_tries_again() -> None:
    """A worker lost while a case is built is replaced, after the other cases; three times, and nothing is known of the case."""
    script = Script(lambda at, _, tries: killed(at) if tries <= 1 else None)
    surveyed = survey(duet_of(script).workers, {"head": ["a/x"]}, identify=False)["head"]["a/x"]
    assert isinstance(surveyed, PreparedCase)
    assert [(one.side, one.pair, one.how) for one in surveyed.lost] == [("head", None, KILLED)]
    unsurveyed = survey(duet_of(Script(lambda at, *_: killed(at))).workers, {"head": ["a/x"]}, identify=False)["head"]["a/x"]
    assert isinstance(unsurveyed, UnpreparedCase)
    assert unsurveyed.failure.message == f"crashed: the worker {KILLED}, in each of 3 tries"
    assert unsurveyed.unfit is not None
    assert unsurveyed.unfit.startswith(f"The head's worker {KILLED} three times.")
    broken = survey(duet_of(Script(lambda at, *_: raised(at))).workers, {"head": ["a/x"]}, identify=False)["head"]["a/x"]
    assert isinstance(broken, UnpreparedCase)
    assert (broken.unfit, broken.lost) == (None, ())


def test_what_was_measured_again_is_said() -> None:
    """A case that lost workers and was measured all the same says so; one that has no verdict says it in its place."""

    def lost(side: Side, *pairs: int | None) -> tuple[LostWorker, ...]:
        return tuple(LostWorker(side=side, pair=pair, stage="measure", how=KILLED) for pair in pairs)

    case = examples.compared(1.0, 1.0)
    said = {
        lost("head", 3): f"1 pair of {case.name} was measured again: the head's worker {KILLED}.",
        lost("reference", 3, 3): f"1 pair of {case.name} was measured again: the reference's worker {KILLED}.",
        lost("reference", 3, 5): f"2 pairs of {case.name} were measured again: the reference's worker {KILLED}.",
        lost("head", None): f"{case.name} was checked again: the head's worker {KILLED}.",
    }
    for workers, sentence in said.items():
        assert list(repeats([case.model_copy(update={"lost": workers})])) == [sentence]
        assert list(repeats([case.model_copy(update={"lost": workers, "unfit": "Killed."})])) == []


def renewed(
    undecided: Collection[str],
    looks: tuple[int, ...],
    budget_s: float = 0,
    urgent: Mapping[str, int] | None = None,
    changed: Mapping[int, Collection[str]] | None = None,
    **more: Any,
) -> tuple[Mapping[str, Measured], list[Any]]:
    """Two cases in a plan of several sessions; what was measured, and for which cases hosts were renewed before which pair.

    ``urgent`` has the cases that are worth going beyond the budget, and until how many pairs each is; ``changed`` those that look
    changed with so many pairs (default: "b/x" always does).
    """
    script, calls = Script(), []

    def restart(names: Collection[str], _: Mapping[str, Measured]) -> Any:
        assert script.alive == 0
        calls.append((max((of for _, of in script.built), default=-1) + 1, sorted(names)))
        return {side: Host(side, script) for side in SIDES}

    duet = duet_of(script, plan(looks[-1], sessions=True, **more))
    cases = [CaseSides(name, SIDES) for name in ("a/x", "b/x")]

    def still_urgent(results: Mapping[str, Measured]) -> list[str]:
        return [name for name, most in (urgent or {}).items() if len(pairs(results[name], "head")) < most]

    def look_changed(results: Mapping[str, Measured]) -> Collection[str]:
        most = max(len(pairs(result, "head")) for result in results.values())
        return ["b/x"] if changed is None else changed.get(most, ())

    ahead = 4 if more else 1
    rounds = Answers(looks, budget_s, lambda _: undecided, still_urgent, look_changed, restart, ahead=ahead)
    results = duet.measure(cases, rounds)
    assert script.alive == 0
    return results, calls


def sessions(result: Measured, side: Side = "head") -> list[int]:
    return [one.samples().session for one in result.workers[side]]


@pytest.mark.parametrize("more", [{}, {"clock": "auto"}])
@pytest.mark.parametrize("looks", [(6, 8, 12, 20), (6, 20)])
def test_hosts_are_renewed_every_three_pairs_while_a_case_looks_changed(looks: tuple[int, ...], more: dict[str, str]) -> None:
    """From the ninth pair on, with no worker alive, hosts are started anew for the cases that go on; no pair is lost or doubled.

    On a GPU, where several pairs get ready at once, those of one session do.
    """
    results, calls = renewed(["b/x"], looks, **more)
    assert calls == [(pair, ["b/x"]) for pair in (8, 11, 14, 17)]
    assert [pairs(results[name], "head") for name in ("a/x", "b/x")] == [list(range(6)), list(range(20))]
    assert sessions(results["b/x"]) == sessions(results["b/x"], "reference") == [session_of(pair) for pair in range(20)]
    assert sessions(results["a/x"]) == [0] * 6


def test_all_that_goes_on_comes_from_the_new_hosts() -> None:
    """If one case looks changed, the pairs of another that is undecided come from the hosts that were started for it, too."""
    results, calls = renewed(["a/x", "b/x"], (6, 12))
    assert calls == [(8, ["a/x", "b/x"]), (11, ["a/x", "b/x"])]
    assert sessions(results["a/x"]) == sessions(results["b/x"]) == [0] * 8 + [1] * 3 + [2]


def test_hosts_stay_while_nothing_looks_changed() -> None:
    """Cases that are undecided and look unchanged take their pairs from the first hosts, until one looks changed."""
    results, calls = renewed(["a/x", "b/x"], (6, 8, 12, 20), changed={12: ["a/x"], 20: ["a/x"]})
    assert calls == [(pair, ["a/x", "b/x"]) for pair in (12, 15, 18)]
    assert sessions(results["a/x"]) == [0] * 12 + [1] * 3 + [2] * 3 + [3] * 2


def test_hosts_stay_once_nothing_looks_changed_any_more() -> None:
    """The later pairs come from the last hosts that were started; a case that changed and is decided starts none."""
    results, calls = renewed(["b/x"], (6, 12, 20), changed={6: ["b/x"], 12: ["a/x"]})
    assert calls == [(8, ["b/x"]), (11, ["b/x"])]
    assert sessions(results["b/x"]) == [0] * 8 + [1] * 3 + [2] * 9


def test_a_plan_of_one_session_renews_no_host() -> None:
    """Timed alone, or for a finalist of a search, whatever looks changed: the plan says so."""
    script = Script()

    def restart(*_: object) -> NoReturn:
        raise AssertionError

    rounds = Answers((6, 12), 0, lambda _: [CASE], changed=lambda _: [CASE], restart=restart)
    result = duet_of(script, plan(12)).measure([CaseSides(CASE, SIDES)], rounds)[CASE]
    assert sessions(result) == [0] * 12


@pytest.mark.parametrize(
    ("undecided", "looks", "budget_s"), [((), (6, 8, 12), 0), (("b/x",), (6, 8), 0), (("b/x",), (6, 8, 12), 1e-9)]
)
def test_hosts_are_not_renewed_in_vain(undecided: tuple[str, ...], looks: tuple[int, ...], budget_s: float) -> None:
    """Where nothing is left, no more than eight pairs are planned, or the budget is spent, no host is started."""
    assert renewed(undecided, looks, budget_s)[1] == []


@pytest.mark.parametrize(("most", "taken"), [(0, 6), (6, 6), (7, 8), (12, 12), (20, 20), (99, 28)])
def test_the_budget_ends_what_is_not_urgent(most: int, taken: int) -> None:
    """Once the time is over only urgent cases go on, up to the look after which they are not, with hosts renewed for them."""
    results, calls = renewed(["a/x", "b/x"], (6, 8, 12, 20, 28), 1e-9, {"b/x": most})
    assert [pairs(results[name], "head") for name in ("a/x", "b/x")] == [list(range(6)), list(range(taken))]
    assert calls == [(pair, ["b/x"]) for pair in range(8, taken, 3)]


def test_what_is_decided_is_not_urgent() -> None:
    """An urgent case that needs no more pairs gets none."""
    results, _ = renewed(["a/x"], (6, 8, 12), 1e-9, {"b/x": 12})
    assert [pairs(results[name], "head") for name in ("a/x", "b/x")] == [list(range(6))] * 2


def test_within_the_budget_all_that_is_undecided_goes_on() -> None:
    """While there is time nobody asks what is urgent."""
    results, _ = renewed(["a/x", "b/x"], (6, 8, 12), 600, {"b/x": 12})
    assert [pairs(results[name], "head") for name in ("a/x", "b/x")] == [list(range(12))] * 2


def test_hosts_that_cannot_be_renewed_cost_the_open_cases_only() -> None:
    """What was decided before stays; what was not says that its processes could not be started anew."""

    def restart(_: Collection[str], __: object) -> Any:
        raise HostError("The head no longer offers b/x.")

    duet = duet_of(Script(), plan(12, sessions=True))
    cases = [CaseSides(name, SIDES) for name in ("a/x", "b/x")]
    rounds = Answers((6, 8, 12), 0, lambda _: ["b/x"], changed=lambda _: ["b/x"], restart=restart)
    results = duet.measure(cases, rounds)
    assert results["a/x"].unfit is None
    assert results["b/x"].unfit == "After 8 pairs its processes could not be started anew: The head no longer offers b/x."
    assert pairs(results["b/x"], "head") == list(range(8))


# Light pairs


def light(
    script: Script, totals: Callable[[Mapping[str, Measured], int], Collection[str]], **more: Any
) -> Mapping[str, Measured]:
    """Two cases, decided after six of at most twelve pairs, of which some are looked at in 10, then in 20 processes."""
    duet = duet_of(script, plan(12, **more))
    cases = [CaseSides(name, SIDES) for name in ("a/x", "b/x")]
    rounds = Answers((6, 12), 0, lambda _: (), processes=(10, 20), totals=totals, ahead=4 if more else 1)
    return duet.measure(cases, rounds)


@pytest.mark.parametrize("more", [{}, {"clock": "auto"}])
def test_more_processes_are_looked_at_in_light_pairs(more: dict[str, str]) -> None:
    """In the end cases that may be slow in few processes are looked at in so many of them, each side in a fresh one for each."""
    asked: list[int] = []

    def totals(results: Mapping[str, Measured], look: int) -> Collection[str]:
        asked.append(look)
        assert len(pairs(results["a/x"], "head")) == (6, 10)[look] or more
        return (["a/x", "b/x"], ["a/x"])[look]

    script = Script()
    results = light(script, totals, **more)
    assert asked == [0, 1]
    for name, count in (("a/x", 20), ("b/x", 10)):
        workers = {side: [one.samples() for one in results[name].workers[side]] for side in SIDES}
        for taken in workers.values():
            assert count <= len(taken) < count + (4 if more else 1)
            assert [one.is_light for one in taken] == [False] * 6 + [True] * (len(taken) - 6)
            assert len({one.pair for one in taken}) == len(taken)
            assert min(one.pair for one in taken if one.is_light) == 12
        assert [one.pair for one in workers["head"]] == [one.pair for one in workers["reference"]]
        assert [one.started_first for one in workers["head"]] == [not one.started_first for one in workers["reference"]]
    assert script.alive == 0


def test_a_light_pair_is_one_block_without_a_check() -> None:
    """Each side times one block, after one that is not kept; it is not checked, and its kernels are not timed alone."""
    script = Script()
    hosts: Any = {side: Host(side, script, worker=Waits) for side in SIDES}
    rounds = Answers((6,), 0, lambda _: (), processes=(10,), totals=lambda *_: [CASE])
    result = Duet(hosts, plan(6), Quiet(), None).measure([CaseSides(CASE, SIDES)], rounds)[CASE]
    full, of_light = ([one for one in result.workers["head"] if one.is_light is which] for which in (False, True))
    assert {len(one.blocks) for one in full} == {plan().blocks}
    assert {len(one.blocks) for one in of_light} == {1}
    assert [one.checked for one in of_light] == [None] * len(of_light)
    assert len({len(one.blocks[0].block.samples_ms) for one in of_light}) == 1
    timed = Counter(of for _, of in script.timed)
    assert {timed[one.pair] for one in of_light} == {4}  # of two sides
    assert {pair for _, pair in script.traced} == set(range(6))


def test_light_pairs_count_for_no_median() -> None:
    """Processes that take twice as long in light pairs leave the medians and the typical ratio as they were."""
    script = Script()
    script.sampled = lambda side, count: Sampled(
        samples_ms=((2e-4 if side == "head" and script.timed[-1][1] >= 12 else 1e-4),) * count
    )
    result = light(script, lambda *_: ["a/x"])["a/x"]
    case = examples.compared(**{side: tuple(one.samples() for one in result.workers[side]) for side in SIDES})
    found = compare_workers(case.head, case.reference, 0.95)
    assert found is not None
    assert found.total is not None
    assert medians_ms(case.head) == [1e-4] * 6
    assert (found.pairs, found.ratio, found.total.processes) == (6, 1.0, 20)
    assert found.total.ratio == pytest.approx((6 + 2 * 14) / 20)


def test_light_pairs_end_with_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take eight seconds, and for cases in which a process was slow thirty more; a pair that has begun is finished."""
    now = [0.0]

    def sampled(_: Side, count: int) -> Sampled:
        now[0] += 0.5
        return Sampled(samples_ms=(1e-4,) * count)

    script = Script(sampled=sampled)
    monkeypatch.setattr("ratchet.core.bench.duet.time", SimpleNamespace(monotonic=lambda: now[0]))
    began: list[float] = []

    def totals(_: Mapping[str, Measured], look: int) -> Collection[str]:
        began.append(now[0])
        return ["a/x"]

    duet = duet_of(script, plan(6))
    rounds = Answers((6,), 0, lambda _: (), processes=(1000, 2000), totals=totals)
    duet.measure([CaseSides("a/x", SIDES)], rounds)
    assert began[1] - began[0] == 8.0  # four turns of half a second are a pair
    assert now[0] - began[1] == 30.0


def test_light_pairs_need_both_sides() -> None:
    """Nobody looks at more processes of a case that is timed alone, or of which a side failed."""
    script = Script(lambda at, pair, _: raised(at) if (at, pair) == ("reference", 5) else None)
    result = light(script, lambda *_: ["a/x"])["a/x"]
    assert not any(one.is_light for one in result.workers["head"])
    alone = duet_of(Script(), sides=("head",)).measure(
        [CaseSides(CASE, ("head",))], Answers((PAIRS,), 0, lambda _: (), processes=(10,), totals=lambda *_: [CASE])
    )[CASE]
    assert pairs(alone, "head") == list(range(PAIRS))


def test_a_head_that_fails_in_a_light_pair_fails() -> None:
    """A light pair is as good as any for what goes wrong in it; a host that is lost there costs the rest of them only."""
    result = light(Script(lambda at, pair, _: raised(at) if (at, pair) == ("head", 13) else None), lambda *_: ["a/x"])["a/x"]
    assert [(failure.side, failure.message) for failure in result.failures] == [("head", "ValueError: no such layout")]

    def lost(at: Side, pair: int, _: int) -> CaseTrouble | None:
        if (at, pair) == ("head", 13):
            raise HostError("The head's process died.")
        return None

    result = light(Script(lost), lambda *_: ["a/x"])["a/x"]
    assert (result.failures, result.unfit) == ([], None)
    assert pairs(result, "reference") == [*range(6), 12]


GPU_PLAN = plan(clock="auto")
"""Of a GPU, where whatever is not timed is done at once."""


def test_on_a_gpu_a_case_that_fails_beside_others_is_tried_again_alone() -> None:
    """Running out of memory because others are built at once is no failure, and is said; a case that always fails does fail."""
    names = [f"case/{n}" for n in range(6)]
    script = Script(lambda at, _, tries: out_of_memory(at) if tries <= 2 else None)
    surveyed = survey(duet_of(script, GPU_PLAN).workers, {"head": names, "reference": names}, identify=True, lanes=3)
    cases = [surveyed[side][name] for side in SIDES for name in names]
    assert all(isinstance(case, PreparedCase) for case in cases)
    assert sum(len(case.lost) for case in cases) == 4
    assert list(surveyed["head"]) == names
    broken = survey(duet_of(Script(lambda at, *_: raised(at)), GPU_PLAN).workers, {"head": names}, identify=True, lanes=3)["head"]
    assert [type(case) for case in broken.values()] == [UnpreparedCase] * 6
    assert script.alive == 0


def test_on_a_gpu_a_case_that_times_its_own_code_is_built_with_nothing_beside_it() -> None:
    """A kernel that chose its configuration beside other work chooses again alone, and both sides never build it at once."""
    script = Script(times_itself=True)
    duet = duet_of(script, GPU_PLAN)
    survey(duet.workers, {side: [CASE] for side in SIDES}, identify=False, lanes=2)
    script.most_building = 0
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,), ahead=4))[CASE]
    assert pairs(result, "head") == list(range(PAIRS))
    assert script.most_building == 1


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
    found = {}
    for side, (waits, busy) in {"head": head, "reference": reference}.items():
        prepared = duet_of(Script()).workers.prepare(side, Host(side, Script()).fork(), CASE, 1, check=True)
        found[side] = PreparedCase(prepared, waits_for_host=waits, busy_cores=busy)
    assert _suits_two_cores(found) == suits


@pytest.mark.parametrize(("identify", "times"), [(False, 0), (True, 2)])
def test_on_a_gpu_launches_can_be_looked_at_without_the_host_code(identify: bool, times: int) -> None:
    """Where every case is timed anyhow, nobody asks for its host code; launches say whether the GPU waits for the host."""
    script = Script()
    names = {side: [CASE] for side in SIDES}
    surveyed = survey(duet_of(script, GPU_PLAN).workers, names, identify=identify, look=True, lanes=2)
    found = [surveyed[side][CASE] for side in SIDES]
    assert [isinstance(one, PreparedCase) and one.waits_for_host for one in found] == [False, False]
    assert [isinstance(one, PreparedCase) and bool(one.opaque) for one in found] == [identify, identify]
    assert (script.asked["identify"], script.asked["host_code"]) == (2, times)


@pytest.mark.parametrize(("always", "times"), [(True, 2), (False, 8)])
def test_on_a_gpu_what_every_case_notices_is_asked_once(always: bool, times: int) -> None:
    """What the imports noticed of the difference holds for all cases of a side; else each is asked in a worker of its own."""
    script = Script(host_code=HostCode(noticed=("a.py changed, and it was imported",), always=always))
    names = {side: [f"case/{n}" for n in range(4)] for side in SIDES}
    surveyed = survey(duet_of(script, GPU_PLAN).workers, names, identify=True)
    assert {
        isinstance(one, PreparedCase) and one.host == script.host_code for side in SIDES for one in surveyed[side].values()
    } == {True}
    assert script.asked["host_code"] == times


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
    prepared = duet_of(Script()).workers.prepare("head", Host("head", Script()).fork(), CASE, 1, check=True)
    one, other = (PreparedCase(prepared, **{"host": HostCode(), **known}) for known in (head, reference))
    assert _host_code(one, other) == (difference is None, difference)
    tuned = replace(other, prepared=prepared.model_copy(update={"tuning": {"BLOCK": 64}}))
    assert _host_code(one, tuned)[0] is False


def test_on_a_gpu_a_case_whose_worker_is_lost_while_it_is_looked_at_is_timed() -> None:
    """Where code is not compared, that costs no case: the GPU may wait for the host, and a call may need several work queues."""
    script = Script(looked_at=killed)
    names = {side: [CASE] for side in SIDES}
    surveyed = survey(duet_of(script, GPU_PLAN).workers, names, identify=False, look=True, lanes=2)
    for found in (surveyed[side][CASE] for side in SIDES):
        assert isinstance(found, PreparedCase)
        assert (found.waits_for_host, found.one_by_one, found.lost) == (True, False, ())
    assert script.alive == 0


def test_on_a_gpu_only_calls_that_are_known_to_use_one_stream_are_timed_with_one_work_queue() -> None:
    """The lanes of a survey, which time nothing, have one; so have pairs of which all cases are known to need no more."""
    script = Script()
    duet = duet_of(script, GPU_PLAN)
    survey(duet.workers, {side: [CASE] for side in SIDES}, identify=True, lanes=2)
    assert set(script.one_queue) == {True}
    for known in (False, True):
        script.one_queue.clear()
        duet.workers.one_queue = known
        duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,), ahead=4))
        assert set(script.one_queue) == {known}


def test_on_a_gpu_the_workers_of_several_pairs_get_ready_at_once_and_wait_for_their_turn() -> None:
    """Timing never overlaps: all blocks of a pair come before those of the next, whoever was ready first; no worker stays."""
    script = Script()
    duet = duet_of(script, plan(8, clock="auto"))
    result = duet.measure([CaseSides(CASE, SIDES)], Answers((6, 8), 0, lambda _: [CASE], ahead=4))[CASE]
    assert [pairs(result, side) for side in SIDES] == [list(range(8))] * 2
    assert [of for _, of in script.timed] == sorted(of for _, of in script.timed)
    first_timed = script.happened.index("timed")
    assert script.happened[:first_timed].count("built") == 8
    assert script.alive == 0
    for pair in range(8):
        forks, _ = order_of_pair(plan().order_seed, CASE, pair)
        assert {side: result.workers[side][pair].started_first for side in SIDES} == {"reference": not forks, "head": forks}


def test_on_a_gpu_no_process_ends_while_a_pair_is_timed_whose_workers_got_ready_with_it() -> None:
    """The workers of four pairs end together, after the last of these was timed."""
    script = Script()
    duet_of(script, plan(8, clock="auto")).measure([CaseSides(CASE, SIDES)], Rounds((8,), ahead=4))
    first_end = script.happened.index("ended")
    assert script.happened[:first_end].count("timed") == script.happened.count("timed") // 2


def test_on_a_gpu_the_side_that_was_drawn_builds_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who allocates first is drawn for pairs that get ready together, too."""
    monkeypatch.setattr(Workers, "at_once", lambda _, calls, *, really=True: [call() for call in calls])
    script = Script()
    duet_of(script, plan(8, clock="auto")).measure([CaseSides(CASE, SIDES)], Rounds((8,), ahead=4))
    first = {pair: side for side, pair in reversed(script.built)}
    assert first == {pair: "head" if order_of_pair(plan().order_seed, CASE, pair)[0] else "reference" for pair in range(8)}


def test_on_a_gpu_what_is_lost_beside_other_pairs_counts_for_no_try() -> None:
    """Where there is no memory to get several pairs ready, a case gets ready alone from then on, and has all its repeats."""
    script = Script(lambda at, pair, tries: out_of_memory(at) if (at, tries) == ("head", 1) and pair < 4 else None)
    duet = duet_of(script, plan(8, clock="auto"))
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((8,), ahead=4))[CASE]
    assert [(one.side, one.how) for one in result.lost_ahead] == [("head", "ran out of GPU memory")] * 4
    assert result.lost == []
    assert [pairs(result, side) for side in SIDES] == [list(range(8))] * 2


def test_on_a_gpu_a_side_that_failed_gets_ready_no_more() -> None:
    """A reference that raises in its first pair is built in no pair of the next ones, and the head goes on alone."""
    script = Script(lambda at, *_: raised(at) if at == "reference" else None)
    duet = duet_of(script, plan(8, clock="auto"))
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((8,), ahead=4))[CASE]
    assert pairs(result, "head") == list(range(8))
    assert {pair for side, pair in script.built if side == "reference"} <= {0, 1, 2, 3}


def test_on_a_gpu_several_cases_share_the_pairs_that_get_ready_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair has its own order of cases, which are all measured, and the time of getting ready counts as theirs."""
    script = Script()
    for module in ("duet", "turns"):
        monkeypatch.setattr(f"ratchet.core.bench.{module}.time", SimpleNamespace(monotonic=lambda: float(len(script.happened))))
    cases = [CaseSides(name, SIDES) for name in ("a/x", "b/x", "c/x")]
    results = duet_of(script, plan(8, clock="auto")).measure(cases, Rounds((8,), ahead=4))
    assert [pairs(results[case.name], side) for case in cases for side in SIDES] == [list(range(8))] * 6
    steps = len(script.happened) - script.happened.count("ended")
    assert steps <= round(sum(result.seconds for result in results.values())) <= len(script.happened)
    assert script.alive == 0


def test_on_a_gpu_all_workers_build_their_next_case_before_one_of_them_times_it() -> None:
    """Processes of four pairs do so side by side, for the second case as for the first."""
    script = Script()
    cases = [CaseSides(name, SIDES) for name in ("a/x", "b/x")]
    duet_of(script, plan(4, clock="auto")).measure(cases, Rounds((4,), ahead=4))
    steps = [what for what, _ in groupby(script.happened)]
    assert steps == ["built", "timed", "built", "timed", "ended"]
    assert script.happened.count("built") == 16
    assert script.most_building > 2


@pytest.mark.parametrize("side", SIDES)
def test_on_a_gpu_a_worker_that_is_lost_before_its_turn_is_replaced(side: Side) -> None:
    """The pair is measured all the same, with both sides, and the loss is recorded."""
    script = Script(lambda at, pair, tries: killed(at) if (at, pair, tries) == (side, 2, 1) else None)
    duet = duet_of(script, GPU_PLAN)
    result = duet.measure([CaseSides(CASE, SIDES)], Rounds((PAIRS,), ahead=4))[CASE]
    assert [pairs(result, at) for at in SIDES] == [list(range(PAIRS))] * 2
    assert [(one.side, one.pair) for one in result.lost_ahead] == [(side, 2)]
    assert script.alive == 0


@pytest.mark.parametrize("trouble", [raised, killed, hung, nonsense])
def test_trouble_with_a_trace_costs_that_trace(trouble: Callable[[Side], CaseTrouble]) -> None:
    """A case that cannot be traced says why, the next one is traced by a fresh worker, and none is left."""
    script = Script(lambda at, _, tries: trouble(at) if tries == 1 else None)
    traces = trace(duet_of(script).workers, "head", ["a", "b"])
    assert traces["a"].activity is None
    assert traces["a"].trouble == f"Under torch.profiler {trouble('head')}"
    assert traces["b"].activity == Activity(calls=1, wall_s=1)
    assert script.alive == 0


def test_trouble_with_a_host_costs_the_traces_of_its_side() -> None:
    """Where no worker can be forked any more, each trace of that side says so, and nothing is raised."""

    def dead(**_: object) -> NoReturn:
        raise HostError("The head's process died.")

    duet = duet_of(Script())
    duet.workers.hosts["head"].fork = dead  # type: ignore[method-assign]  # a host that has ended
    assert {trace.trouble for trace in trace(duet.workers, "head", ["a", "b"]).values()} == {
        "Under torch.profiler The head's process died."
    }
    assert trace(duet.workers, "reference", ["a"])["a"].activity is not None


@pytest.mark.parametrize(
    ("need_gib", "free_gib", "cores", "pairs_ahead"),
    [
        ((5, 9), 140, 16, 4),
        ((5, 9), 140, 8, 2),
        ((5, 9), 140, 2, 1),
        ((5, 30), 140, 64, 2),
        ((5, 100), 140, 64, 1),
        ((), 140, 64, 1),
        ((5,), None, 64, 1),
    ],
)
def test_pairs_get_ready_ahead_as_far_as_memory_and_cores_allow(
    need_gib: tuple[int, ...], free_gib: int | None, cores: int, pairs_ahead: int
) -> None:
    """Half of the free memory holds the largest case of every pair that is ahead; four cores a pair; on a CPU none is ahead."""
    free = None if free_gib is None else free_gib << 30
    assert _pairs_ahead([gib << 30 for gib in need_gib], free, cores) == pairs_ahead
