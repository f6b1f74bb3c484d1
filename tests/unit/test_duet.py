"""Rounds of pairs: which are measured, in which order, what a lost worker means, and when hosts are renewed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from scipy import stats

from ratchet.core.bench.duet import KERNEL_PAIRS, Duet, Observer
from ratchet.core.bench.lost import repeats
from ratchet.core.bench.turns import order_of_pair
from ratchet.core.errors import HostError
from ratchet.core.judge.comparison import compare_workers, medians_ms
from ratchet.core.judge.evidence import session_of, thresholds_for
from ratchet.core.judge.rule import Rule
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Peaks
from ratchet.core.records.files import dumps
from ratchet.core.records.run import CaseRun, LostWorker, Policy, Side
from ratchet.core.records.samples import rounded
from ratchet.core.records.verdict import Outcome
from tests import examples
from tests.fake_workers import (
    LOSSES,
    SAID,
    SIDES,
    Fault,
    Machine,
    Quiet,
    case_of,
    duet_of,
    hosts_end,  # noqa: F401  a fixture
    measured,
    pairs,
    plan,
    step_s,
)

CASE, OTHER = "adds/small", "adds/large"
PAIRS = 4

Answer = Callable[[Sequence[CaseRun]], Collection[str]]


class Told(Rule):
    """A rule whose answers are given."""

    def __init__(
        self,
        *looks: int,
        undecided: Collection[str] = (CASE, OTHER),
        urgent: Answer = lambda _: (),
        changed: Answer = lambda _: (),
        kernels_settled: Collection[str] = (),
        processes: tuple[int, ...] = (),
        totals: Sequence[Collection[str]] = (),
    ) -> None:
        super().__init__(looks)
        self.processes = processes
        self._undecided, self._urgent, self._changed = undecided, urgent, changed
        self._settled, self._totals = kernels_settled, totals

    def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return self._undecided

    def urgent(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return self._urgent(cases)

    def changed(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return self._changed(cases)

    def kernels_settled(self, cases: Sequence[CaseRun]) -> Collection[str]:
        return self._settled

    def totals(self, cases: Sequence[CaseRun], look: int) -> Collection[str]:
        return self._totals[look]


def failing(side: Side, pair: int, fault: Fault, most: int = 99) -> Machine:
    """Workers of which that of one side of a pair fails, in so many tries."""
    return Machine(
        lambda at, number, tries: fault if (at, number) == (side, pair) and tries <= most else None, step_s=step_s(fault)
    )


def alone(machine: Machine, sides: tuple[Side, ...] = SIDES, **more: Any) -> CaseRun:
    """One case in a few pairs."""
    case = measured(duet_of(machine, sides=sides, **more), [CASE], Rule((PAIRS,)))[CASE]
    assert machine.alive == 0, "workers are left"
    return case


def test_the_rule_is_asked_about_all_cases() -> None:
    """Cases that are not timed are among those that the rule sees, and come back as they were."""
    seen: list[list[tuple[str, int]]] = []

    class Sees(Rule):
        def undecided(self, cases: Sequence[CaseRun]) -> Collection[str]:
            seen.append([(case.name, len(case.head)) for case in cases])
            return [CASE]

    cases = [case_of(CASE), case_of(OTHER)]
    done = duet_of(Machine()).measure(cases, {CASE: SIDES}, Sees((2, 4, 6)))
    assert seen == [[(CASE, 2), (OTHER, 0)], [(CASE, 4), (OTHER, 0)]]
    assert (pairs(done[0]), done[1]) == (list(range(6)), cases[1])


# Orders


@pytest.mark.parametrize("coin", [0, 1])
def test_every_order_of_pairs_is_as_likely(coin: int) -> None:
    """Of who forks first, and of who times first, each of the 32 ways that five pairs can come out is drawn equally often."""
    drawn = Counter(tuple(order_of_pair(seed, CASE, pair)[coin] for pair in range(5)) for seed in range(6400))
    assert len(drawn) == 32
    assert stats.chisquare(list(drawn.values())).pvalue > 0.001


@pytest.mark.parametrize(
    "neighbour",
    [
        lambda seed: order_of_pair(seed, CASE, 7),
        lambda seed: order_of_pair(seed, CASE, 9),
        lambda seed: order_of_pair(seed, OTHER, 8),
        lambda seed: order_of_pair(seed + 1, CASE, 8),
    ],
    ids=["the pair before", "the pair after", "the same pair of another case", "the same pair of the next run"],
)
def test_no_order_says_anything_of_another(neighbour: Callable[[int], tuple[bool, bool]]) -> None:
    """Both coins of a pair are independent of each other, and of those of a neighbour: all 16 combinations are as likely."""
    drawn = Counter((*order_of_pair(seed, CASE, 8), *neighbour(seed)) for seed in range(0, 12_800, 2))
    assert len(drawn) == 16
    assert stats.chisquare(list(drawn.values())).pvalue > 0.001


def test_pairs_follow_the_order_that_was_drawn() -> None:
    """Who builds first and who is timed first is what was drawn, and the record says who started first."""
    machine = Machine()
    case = alone(machine)
    for pair in range(PAIRS):
        forks, times = order_of_pair(plan().order_seed, CASE, pair)
        of_pair = [event for event in machine.events if event.pair == pair]
        assert [event.side for event in of_pair if event.what == "built"] == list(SIDES[::-1] if forks else SIDES)
        assert next(event.side for event in of_pair if event.what == "timed") == ("head" if times else "reference")
        assert (case.head[pair].started_first, case.reference[pair].started_first) == (forks, not forks)


def test_a_repeat_exchanges_the_sides() -> None:
    """A pair that is repeated has the other side first, so that what always takes the first one is not the code's doing."""
    machine = failing("head", 1, "killed", 2)
    alone(machine)
    head_first = ["head", "reference", "head", "head", "reference"]
    reference_first = ["reference", "head", "head", "reference", "head"]
    built = [event.side for event in machine.happened("built") if event.pair == 1]
    assert built == (head_first if order_of_pair(plan().order_seed, CASE, 1)[0] else reference_first)


@pytest.mark.parametrize(
    ("share", "order_seed", "fewest", "most"), [(0.0, 1, 4, 4), (0.25, 1, 5, 10), (0.25, 2, 5, 10), (1.0, 1, 20, 20)]
)
def test_which_pairs_are_checked_after_timing(share: float, order_seed: int, fewest: int, most: int) -> None:
    """The first, those after which a case may be decided, and a share of the others, drawn anew for each run."""
    duet = duet_of(Machine(), plan(20, order_seed=order_seed), checked_share=share)
    case = measured(duet, [CASE], Told(6, 8, 20))[CASE]
    checked, of_reference = ([one.pair for one in workers if one.error is not None] for workers in (case.head, case.reference))
    assert checked == of_reference
    assert {0, 5, 7, 19} <= set(checked)
    assert fewest <= len(checked) <= most


# Trouble: what is repeated, what fails, and what is no verdict


@pytest.mark.parametrize(("side", "losses", "fault"), [*(("head", 1, each) for each in LOSSES), ("reference", 2, "killed")])
def test_a_lost_pair_is_measured_again(side: Side, losses: int, fault: Fault) -> None:
    """Whichever side was lost, and how: the pair is repeated with fresh workers, nothing fails, and the record says so."""
    case = alone(failing(side, 1, fault, losses))
    assert (case.failures, case.unfit) == ((), None)
    assert pairs(case) == pairs(case, "reference") == list(range(PAIRS))
    assert [(one.side, one.pair, one.how) for one in case.lost] == [(side, 1, SAID[fault])] * losses


def test_what_a_pair_waits_for_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a worker builds its case, whoever asks gets that and the seconds so far; afterwards nothing is at work."""
    monkeypatch.setattr("ratchet.core.bench.wire.TICK_S", 0.05)
    duet = duet_of(failing("head", 1, "silent"))
    seen: list[str] = []
    duet.hosts["head"].waiting = lambda: seen.append(duet.workers.in_work.longest())
    measured(duet, [CASE], Rule((PAIRS,)))
    assert len(seen) > 1
    assert {line.partition(" at ")[2] for line in seen} == {f"{CASE} (head)"}
    assert duet.workers.in_work.longest() == ""


@pytest.mark.parametrize("fault", LOSSES)
def test_a_head_that_is_always_lost_fails(fault: Fault) -> None:
    """Lost in the first try and each repeat, while the reference gets through the same pair: a failure of the head.

    Silence is repeated once, since each try takes the time limit of a case; other losses are repeated twice.
    """
    machine = failing("head", 1, fault)
    case = alone(machine)
    (failure,) = case.failures
    assert (failure.side, case.unfit) == ("head", None)
    tries = 2 if fault == "silent" else 3
    assert failure.message.endswith(f", in each of {tries} tries")
    assert (machine.tries["head", 1, CASE], machine.tries["head", 2, CASE]) == (tries, 0)
    assert pairs(case, "reference") == [0]


@pytest.mark.parametrize("fault", LOSSES)
def test_a_reference_that_is_always_lost_is_no_verdict(fault: Fault) -> None:
    """Where the reference is lost each time the case could not be measured: it says so, and what to do."""
    machine = failing("reference", 1, fault)
    case = alone(machine)
    assert case.failures == ()
    assert case.unfit
    times = "twice" if fault == "silent" else "three times"
    assert case.unfit.startswith(f"The reference's worker {SAID[fault]} {times}. ")
    assert case.unfit.endswith("measure again.")
    assert machine.tries["reference", 2, CASE] == 0


def test_a_machine_that_kills_both_is_no_verdict() -> None:
    """Where the head is always lost, and the reference too once it runs by itself, the machine is at fault."""
    machine = Machine()

    def fault(side: Side, pair: int, _: int) -> Fault | None:
        by_itself = machine.tries["head", pair, CASE] == 3
        return "killed" if pair == 1 and (side == "head" or by_itself) else None

    machine.fault = fault
    case = alone(machine)
    assert (case.failures, case.unfit) == (
        (),
        f"The head's worker {SAID['killed']} three times and the reference's worker {SAID['killed']}. "
        "Free memory on this machine, or find what kills it, and measure again.",
    )


def test_losses_here_and_there_are_no_verdict() -> None:
    """A head that is lost once in each of three pairs is not reproducibly broken, and not to be trusted either."""
    case = alone(Machine(lambda at, _, tries: "killed" if at == "head" and tries == 1 else None))
    assert (case.failures, len(case.lost), pairs(case)) == ((), 3, [0, 1])
    assert case.unfit


@pytest.mark.parametrize("side", SIDES)
def test_what_code_raises_is_not_tried_again(side: Side) -> None:
    """An exception fails its side at once; the head is measured alone where it was the reference's."""
    machine = Machine(lambda at, *_: "raises" if at == side else None)
    case = alone(machine)
    assert [(failure.side, failure.message) for failure in case.failures] == [(side, "ValueError: no such layout")]
    assert (case.lost, case.unfit, machine.tries[side, 0, CASE]) == ((), None, 1)
    assert pairs(case) == ([] if side == "head" else list(range(PAIRS)))


def test_an_answer_that_breaks_the_protocol() -> None:
    """A head that gives one fails; of a reference that does, nothing is known, which is no pass either."""
    head, reference = (
        alone(Machine(lambda at, *_, side=side: "nonsense" if at == side else None)) for side in ("head", "reference")
    )
    assert ([failure.side for failure in head.failures], head.unfit) == (["head"], None)
    assert reference.failures == ()
    assert reference.unfit
    assert reference.unfit.startswith("The reference could not be measured: sent an invalid answer: ")


def test_timed_alone_a_lost_worker_is_tried_again_and_then_fails() -> None:
    """A head that is lost once is measured again, and one that is always lost fails."""
    once = alone(Machine(lambda _, pair, tries: "killed" if (pair, tries) == (0, 1) else None), ("head",))
    assert (once.failures, once.unfit, pairs(once)) == ((), None, list(range(PAIRS)))
    always = alone(Machine(lambda *_: "killed"), ("head",))
    assert ([failure.side for failure in always.failures], always.unfit) == (["head"], None)


def test_nothing_is_tried_again_once_the_time_is_over() -> None:
    """A worker that is cut off by the end of the time was not lost."""
    duet = duet_of(Machine(lambda at, *_: "silent" if at == "head" else None))
    for host in duet.hosts.values():
        host.until = time.monotonic() + 1
    case = measured(duet, [CASE], Rule((PAIRS,)))[CASE]
    assert ([failure.side for failure in case.failures], case.lost) == (["head"], ())


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (lambda times: times[:2] if len(times) > 2 else [*times, 1e-4], "samples came back where "),
        (lambda times: [1e-6 for _ in times], "a call of 1.000 ns is shorter than any that this clock can see"),
        (lambda times: [1e7 for _ in times], "its samples add up to 10000 s, but all of them came within"),
    ],
)
@pytest.mark.parametrize("side", SIDES)
def test_what_cannot_be_true_is_refused(side: Side, said: Callable[[Sequence[float]], Sequence[float]], sentence: str) -> None:
    """Too few or too many samples, a time that no clock sees, and more than has passed: no verdict, whichever side says it."""
    case = alone(Machine(samples=lambda at, times: said(times) if at == side else times))
    assert (case.failures, pairs(case)) == ((), [])
    assert case.unfit
    assert case.unfit.startswith(f"The {side} could not be measured: ")
    assert sentence in case.unfit


def test_results_without_a_reference_are_compared_in_each_pair() -> None:
    """Sides that agree on fresh inputs are measured, with the error between them; sides that do not are a failure of the head."""
    case = alone(Machine(results={"head": 1.05, "reference": 1.0}))
    assert not case.failures
    assert [worker.error for worker in case.head] == [pytest.approx(0.05)] * PAIRS
    assert [worker.error for worker in case.reference] == [0.0] * PAIRS
    (failure,) = alone(Machine(results={"head": 1.5, "reference": 1.0})).failures
    assert (failure.side, failure.stage) == ("head", "check")
    assert failure.message.startswith("wrong result: the output is off by 5.00e-01")
    assert not alone(Machine(results={"head": 1.5}), ("head",)).failures


def test_what_is_measured_is_what_files_keep() -> None:
    """Samples are rounded once, by less than the 200,000th part, and kept so: a run judged again has the same figures."""
    case = alone(Machine(samples=lambda _, times: ([3 * 1e-4, 0.000_123_456_7] * len(times))[: len(times)]))
    measured_head = rounded(case.head)
    kept = examples.compared(head=measured_head)
    assert CaseRun.model_validate_json(dumps(kept)).head == measured_head
    for before, after in zip(case.head, measured_head, strict=True):
        assert after.blocks[0].samples_ms == pytest.approx(before.blocks[0].samples_ms, rel=5e-6)


def test_what_was_measured_again_is_said() -> None:
    """A case that lost workers and was measured all the same says so; one that has no verdict says it in its place."""

    def lost(side: Side, *of_pairs: int | None) -> tuple[LostWorker, ...]:
        return tuple(LostWorker(side=side, pair=pair, stage="measure", how=SAID["killed"]) for pair in of_pairs)

    case = examples.compared(1.0, 1.0)
    said = {
        lost("head", 3): f"1 pair of {case.name} was measured again: the head's worker {SAID['killed']}.",
        lost("reference", 3, 3): f"1 pair of {case.name} was measured again: the reference's worker {SAID['killed']}.",
        lost("reference", 3, 5): f"2 pairs of {case.name} were measured again: the reference's worker {SAID['killed']}.",
        lost("head", None): f"{case.name} was checked again: the head's worker {SAID['killed']}.",
    }
    for workers, sentence in said.items():
        assert list(repeats([case.model_copy(update={"lost": workers})])) == [sentence]
        assert list(repeats([case.model_copy(update={"lost": workers, "unfit": "Killed."})])) == []


# Times that no GPU can reach

WORKLOAD = examples.WORKLOAD
PEAKS = Peaks(dram_bytes_per_s=WORKLOAD.bytes / 1e-6, flops_per_s={"fp32": WORKLOAD.flops / 1e-6})
"""Of a GPU that takes 1 µs for the workload."""
IMPOSSIBLE = "a call of 50.00 ns would move its declared bytes 20 times as fast as this GPU can"


def faster(**times: float) -> Machine:
    """Workers that take 1 µs; those of these sides are so many times as fast."""
    return Machine(call_ms=lambda side, _: 1e-3 / times.get(side, 1.0))


@pytest.mark.parametrize("seed", range(4))
def test_an_impossible_head_fails(seed: int) -> None:
    """A head whose time no GPU can reach fails with the figure, beside a reference whose time is possible; whoever is first."""
    case = alone(faster(head=20), peaks=PEAKS, chosen=plan(order_seed=seed))
    assert case.unfit is None
    assert [(failure.side, failure.stage) for failure in case.failures] == [("head", "measure")]
    assert case.failures[0].message.startswith(f"impossible: {IMPOSSIBLE}; the reference's time is possible: check what the ")
    verdict = judge_run(examples.run_of(examples.compared(name=CASE, failures=case.failures, head=(), reference=())), Baseline())
    assert (verdict.cases[0].outcome, verdict.exit_code) == (Outcome.FAILED, 1)
    assert IMPOSSIBLE in verdict.headline


@pytest.mark.parametrize("seed", range(4))
def test_an_impossible_workload_fails_nobody(seed: int) -> None:
    """Where both sides are impossible the workload declares too much; a reference alone could not be measured."""
    both = alone(faster(head=20, reference=20), peaks=PEAKS, chosen=plan(order_seed=seed))
    assert both.failures == ()
    assert both.unfit
    assert both.unfit.startswith(f"Impossible on both sides, since {IMPOSSIBLE}: the workload declares wrong bytes or FLOPs, or ")
    reference = alone(faster(reference=20), peaks=PEAKS, chosen=plan(order_seed=seed))
    assert reference.failures == ()
    assert reference.unfit
    assert reference.unfit.startswith(f"The reference could not be measured: {IMPOSSIBLE}: check what the workload declares")


def test_what_a_cache_or_a_lost_reference_leaves_open_is_no_failure() -> None:
    """A few times the memory's rate may be the L2 cache's; FLOPs beyond the peak are impossible; alone, nobody is to blame."""
    machine = faster(head=20)
    machine.fault = lambda side, _, tries: "killed" if side == "reference" and tries > 1 else None
    cases = [alone(faster(head=5), peaks=PEAKS.model_copy(update={"flops_per_s": {}})), alone(machine, peaks=PEAKS)]
    assert [(case.failures, case.unfit and case.unfit.split(":")[0]) for case in cases] == [
        ((), "The head could not be measured")
    ] * 2
    flops = alone(faster(head=5), peaks=PEAKS.model_copy(update={"dram_bytes_per_s": None}))
    assert "do its declared FLOPs 5 times as fast" in flops.failures[0].message
    (failure,) = alone(faster(head=20), ("head",), peaks=PEAKS).failures
    assert failure.message.startswith(f"impossible: {IMPOSSIBLE}: check what the workload declares")


# Kernels alone


@pytest.mark.parametrize("gpu", [False, True])
def test_kernels_are_timed_alone_until_they_are_settled(gpu: bool) -> None:
    """They are timed after all cases of the pairs that got ready together, in the same processes: their tracer would disturb."""
    machine = Machine(waits_for_host=lambda _: True)
    duet = duet_of(machine, plan(12, gpu=gpu), together=4 if gpu else 1)
    cases = measured(duet, [CASE, OTHER], Told(6, 8, 12, kernels_settled=[OTHER]))
    timed = {name: [worker.pair for worker in case.head if worker.kernels_ms] for name, case in cases.items()}
    assert timed == {OTHER: list(range(6)), CASE: list(range(12))}
    for pair in range(12):
        of_pair = [event.what for event in machine.happened("timed", "traced") if event.pair == pair]
        if gpu:  # on the CPU each case has a process of its own
            assert "timed" not in of_pair[of_pair.index("traced") :]
    assert machine.alive == 0


def test_kernels_can_be_proven_to_be_slower_in_large_runs() -> None:
    """They are timed in as many pairs as a change of one of ten thousand cases takes."""
    assert thresholds_for(Policy(), 10_000, 5).pairs_needed <= KERNEL_PAIRS


@pytest.mark.parametrize("side", SIDES)
def test_a_worker_that_is_lost_while_kernels_are_timed_costs_these_times_only(side: Side) -> None:
    """The pair was timed before, and is not measured again; the record has the loss."""
    machine = Machine(
        waits_for_host=lambda _: True, fault_in_kernels=lambda at, pair: "killed" if (at, pair) == (side, 1) else None
    )
    case = measured(duet_of(machine, plan(6, gpu=True), together=4), [CASE], Rule((6,)))[CASE]
    assert pairs(case) == pairs(case, "reference") == list(range(6))
    workers = case.head if side == "head" else case.reference
    assert [one.pair for one in workers if not one.kernels_ms] == [1]
    assert [(one.side, one.pair, one.how) for one in case.lost] == [(side, 1, SAID["killed"])]
    assert (case.failures, case.unfit, machine.alive) == ((), None, 0)


# Sessions and the budget


class Renewed:
    """Sessions that write down for which cases, and before which pair, hosts are renewed."""

    def __init__(self, machine: Machine, offered: Sequence[str] = (CASE, OTHER)) -> None:
        self.machine, self.offered, self.pairs = machine, offered, list[int]()

    def renew(self, sides: Collection[Side]) -> Mapping[Side, Any]:
        assert self.machine.alive == 0
        self.pairs.append(max((event.pair for event in self.machine.happened("built")), default=-1) + 1)
        return self.machine.hosts(sides, cases=self.offered)


def renewed(rule: Rule, *, gpu: bool = False, **more: Any) -> tuple[dict[str, CaseRun], list[int]]:
    """Two cases in a plan of several sessions; what was measured, and before which pairs hosts were renewed."""
    machine = Machine()
    sessions: Any = Renewed(machine)
    chosen = plan(rule.looks[-1], gpu=gpu, **{"sessions": True, **more})
    cases = measured(duet_of(machine, chosen, sessions=sessions, together=4 if gpu else 1), [CASE, OTHER], rule)
    assert machine.alive == 0
    return cases, sessions.pairs


def sessions_of(case: CaseRun) -> list[int]:
    return [worker.session for worker in case.head]


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("looks", [(6, 8, 12, 20), (6, 20)])
def test_hosts_are_renewed_every_three_pairs_while_a_case_looks_changed(looks: tuple[int, ...], gpu: bool) -> None:
    """From the ninth pair on, with no worker alive, hosts are started anew for the cases that go on; no pair is lost or doubled.

    On a GPU, where several pairs get ready at once, those of one session do.
    """
    cases, before = renewed(Told(*looks, undecided=[CASE], changed=lambda _: [CASE]), gpu=gpu)
    assert before == [8, 11, 14, 17]
    assert (pairs(cases[OTHER]), pairs(cases[CASE])) == (list(range(6)), list(range(20)))
    assert sessions_of(cases[CASE]) == [session_of(pair) for pair in range(20)]


@pytest.mark.parametrize(
    ("changed", "before", "sessions"),
    [
        ({6: [CASE], 8: [CASE], 12: [CASE]}, [8, 11, 14, 17], [*[0] * 8, *[1] * 3, *[2] * 3, *[3] * 3, *[4] * 3]),
        ({12: [CASE]}, [12, 15, 18], [*[0] * 12, *[1] * 3, *[2] * 3, *[3] * 2]),
        ({6: [CASE], 8: [CASE], 12: ["another/case"]}, [8, 11], [*[0] * 8, *[1] * 3, *[2] * 9]),
        ({}, [], [0] * 20),
    ],
)
def test_hosts_stay_while_nothing_that_goes_on_looks_changed(
    changed: Mapping[int, Collection[str]], before: list[int], sessions: list[int]
) -> None:
    """Where one case looks changed, all that go on come from new hosts; once none does, from the last ones."""
    rule = Told(6, 8, 12, 20, changed=lambda cases: changed.get(len(cases[0].head), ()))
    cases, renewals = renewed(rule)
    assert (renewals, sessions_of(cases[CASE]), sessions_of(cases[OTHER])) == (before, sessions, sessions)


@pytest.mark.parametrize(
    ("undecided", "looks", "more"),
    [
        ((), (6, 8, 12), {}),
        ((CASE,), (6, 8), {}),
        ((CASE,), (6, 8, 12), {"budget_s": 1e-9}),
        ((CASE,), (6, 12), {"sessions": False}),
    ],
)
def test_hosts_are_not_renewed_in_vain(undecided: tuple[str, ...], looks: tuple[int, ...], more: dict[str, Any]) -> None:
    """Not where nothing is left, no more than eight pairs are planned, the budget is spent, or the plan has one session."""
    assert renewed(Told(*looks, undecided=undecided, changed=lambda _: [CASE]), **more)[1] == []


def test_hosts_that_cannot_be_renewed_cost_the_open_cases_only() -> None:
    """What was decided before stays; what was not says that its processes could not be started anew."""
    machine = Machine()
    sessions: Any = Renewed(machine, [OTHER])
    rule = Told(6, 8, 12, undecided=[CASE], changed=lambda _: [CASE])
    cases = measured(duet_of(machine, plan(12, sessions=True), sessions=sessions), [CASE, OTHER], rule)
    assert cases[OTHER].unfit is None
    why = f"The head no longer offers {CASE}. Its benchmarks must be the same at every import."
    assert cases[CASE].unfit in {
        f"After 8 pairs its processes could not be started anew: {why.replace('head', side)}" for side in SIDES
    }
    assert pairs(cases[CASE]) == list(range(8))


def test_a_host_that_is_lost_costs_the_open_cases_only() -> None:
    """What was decided before stays, and no worker; without hosts that can be renewed, and in the first round, it is an error."""
    for looks, sessions, pair in (((6, 12), True, 7), ((6, 12), False, 7), ((12,), True, 3)):
        machine = Machine()
        more: dict[str, Any] = {"sessions": Renewed(machine)} if sessions else {}
        duet = duet_of(machine, plan(12), **more)

        def fork(*, of: Duet = duet, real: Any = duet.hosts["reference"].fork, after: int = pair, **words: bool) -> Any:
            if len(of.so_far()[0].head) == after:
                raise HostError("The reference's process died.")
            return real(**words)

        duet.hosts["reference"].fork = fork  # type: ignore[method-assign]  # a host that ends in the middle
        rule = Told(*looks, undecided=[CASE])
        if pair < looks[0] or not sessions:
            with pytest.raises(HostError):
                measured(duet, [CASE, OTHER], rule)
            continue
        cases = measured(duet, [CASE, OTHER], rule)
        assert (cases[OTHER].unfit, pairs(cases[OTHER]), pairs(cases[CASE])) == (None, list(range(6)), list(range(7)))
        assert cases[CASE].unfit == "After 7 pairs its processes could not be started anew: The reference's process died."
        assert machine.alive == 0


def test_an_observer_looks_before_hosts_are_renewed() -> None:
    """It is given the cases as measured so far, and the names of those that go on."""
    seen: list[tuple[list[int], Collection[str]]] = []

    class Sees(Observer):
        def between_sessions(self, duet: Any, cases: Sequence[CaseRun], going: Collection[str]) -> None:
            seen.append(([len(case.head) for case in cases], going))

    machine = Machine()
    sessions: Any = Renewed(machine)
    duet = duet_of(machine, plan(12, sessions=True), sessions=sessions)
    rule = Told(6, 12, undecided=[CASE], changed=lambda _: [CASE])
    duet.measure([case_of(CASE), case_of(OTHER)], dict.fromkeys((CASE, OTHER), SIDES), rule, Sees())
    assert seen == [([8, 6], [CASE]), ([11, 6], [CASE])]


@pytest.mark.parametrize(("most", "taken"), [(0, 6), (6, 6), (7, 8), (12, 12), (99, 28)])
def test_the_budget_ends_what_is_not_urgent(most: int, taken: int) -> None:
    """Once the time is over only urgent cases go on, up to the look after which they are not, with hosts renewed for them."""
    rule = Told(6, 8, 12, 20, 28, urgent=lambda cases: [CASE] if len(cases[0].head) < most else (), changed=lambda _: [CASE])
    cases, before = renewed(rule, budget_s=1e-9)
    assert (pairs(cases[CASE]), pairs(cases[OTHER])) == (list(range(taken)), list(range(6)))
    assert before == list(range(8, taken, 3))


def test_within_the_budget_all_that_is_undecided_goes_on() -> None:
    """While there is time nobody asks what is urgent; an urgent case that needs no more pairs gets none."""
    cases, _ = renewed(Told(6, 12, urgent=lambda _: [CASE]), budget_s=600)
    assert [pairs(case) for case in cases.values()] == [list(range(12))] * 2
    cases, _ = renewed(Told(6, 12, undecided=[OTHER], urgent=lambda _: [CASE]), budget_s=1e-9)
    assert [pairs(case) for case in cases.values()] == [list(range(6))] * 2


# Light pairs


@pytest.mark.parametrize("gpu", [False, True])
def test_more_processes_are_looked_at_in_light_pairs(gpu: bool) -> None:
    """In the end cases that may be slow in few processes are looked at in so many of them, each side in a fresh one for each.

    Each side times one block, after one that is not kept; it is not checked, and its kernels are not timed alone.
    """
    machine = Machine(waits_for_host=lambda _: True)
    rule = Told(6, 12, undecided=(), processes=(10, 20), totals=[[CASE, OTHER], [CASE]])
    cases = measured(duet_of(machine, plan(12, gpu=gpu), together=4 if gpu else 1), [CASE, OTHER], rule)
    for name, count in ((CASE, 20), (OTHER, 10)):
        case = cases[name]
        assert pairs(case) == pairs(case, "reference")
        assert len(set(pairs(case))) == len(case.head)
        assert count <= len(case.head) < count + (4 if gpu else 1)
        assert (
            [one.is_light for one in case.head]
            == [pair >= 12 for pair in pairs(case)]
            == [False] * 6 + [True] * (len(case.head) - 6)
        )
        light = case.head[6:]
        assert {(len(one.blocks), one.error) for one in light} == {(1, None)}
        timed = Counter(event.pair for event in machine.happened("timed") if event.case == name)
        assert {timed[one.pair] for one in light} == {4}  # of two sides
    assert {event.pair for event in machine.happened("traced")} == set(range(6))
    assert machine.alive == 0


def test_light_pairs_count_for_no_median() -> None:
    """Processes that take twice as long in light pairs leave the medians and the typical ratio as they were."""
    machine = Machine(call_ms=lambda side, pair: 2e-4 if side == "head" and pair >= 12 else 1e-4)
    rule = Told(6, 12, undecided=(), processes=(20,), totals=[[CASE]])
    case = measured(duet_of(machine, plan(12)), [CASE], rule)[CASE]
    found = compare_workers(case.head, case.reference, 0.95)
    assert found is not None
    assert found.total is not None
    assert medians_ms(case.head) == [1e-4] * 6
    assert (found.pairs, found.ratio, found.total.processes) == (6, 1.0, 20)
    assert found.total.ratio == pytest.approx((6 + 2 * 14) / 20)


def test_light_pairs_end_with_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take eight seconds, and for cases in which a process was slow thirty more; a pair that has begun is finished."""
    now = [0.0]

    def call_ms(*_: object) -> float:
        now[0] += 0.5
        return 1e-4

    began: list[float] = []

    class Watches(Told):
        def totals(self, cases: Sequence[CaseRun], look: int) -> Collection[str]:
            began.append(now[0])
            return [CASE]

    monkeypatch.setattr("ratchet.core.bench.duet.time", SimpleNamespace(monotonic=lambda: now[0]))
    measured(duet_of(Machine(call_ms=call_ms), plan(6)), [CASE], Watches(6, undecided=(), processes=(1000, 2000)))
    assert began[1] - began[0] == 8.0  # four turns of half a second are a pair
    assert now[0] - began[1] == 30.0


def test_light_pairs_need_both_sides() -> None:
    """Nobody looks at more processes of a case that is timed alone, or of which a side failed."""
    rule = Told(6, undecided=(), processes=(10,), totals=[[CASE]])
    broken = measured(duet_of(failing("reference", 5, "raises"), plan(6)), [CASE], rule)[CASE]
    assert not any(worker.is_light for worker in broken.head)
    assert pairs(measured(duet_of(Machine(), plan(6), sides=("head",)), [CASE], rule)[CASE]) == list(range(6))


def test_trouble_in_a_light_pair() -> None:
    """A light pair is as good as any for what goes wrong in it; a host that is lost there costs the rest of them only."""
    rule = Told(6, undecided=(), processes=(10,), totals=[[CASE]])
    case = measured(duet_of(failing("head", 7, "raises"), plan(6)), [CASE], rule)[CASE]
    assert [(failure.side, failure.message) for failure in case.failures] == [("head", "ValueError: no such layout")]
    duet = duet_of(Machine(), plan(6))
    real = duet.hosts["head"].fork

    def fork(**words: bool) -> Any:
        if len(duet.so_far()[0].head) == 7:
            raise HostError("The head's process died.")
        return real(**words)

    duet.hosts["head"].fork = fork  # type: ignore[method-assign]  # a host that ends in the middle
    case = measured(duet, [CASE], rule)[CASE]
    assert (case.failures, case.unfit, pairs(case)) == ((), None, list(range(7)))


def test_progress_is_shown_after_each_case_of_a_pair() -> None:
    """It counts what was done."""
    shown: list[tuple[int, int]] = []

    class Shown(Quiet):
        def case(self, name: str, pair: int, done: int) -> None:
            shown.append((pair, done))

    duet = duet_of(Machine(), plan(3))
    duet.progress = Shown()
    measured(duet, [CASE, OTHER], Told(2, 3, undecided=[CASE]))
    assert shown == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]
