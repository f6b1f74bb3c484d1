"""Real workers that are killed, that hang, and that cheat; and the hosts of later sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, LENIENT, PAIRS, QUICK, Finished, Playground

LOST = """\
import os, pathlib, signal, time
import torch
from ratchet import Workload, benchmark

SIDE = "{side}"
MARKS = pathlib.Path(os.environ["MARKS"])
FIRST, SECOND = 2025, 2027  # seeds of the survey and the first pair, and of the second pair


def once(name):
    try:
        (MARKS / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def happen(kind, seed):
    side, _, what = kind.partition("_")
    if side != SIDE:
        return
    if what == "survey" and seed == FIRST and once(kind):
        kill()
    if what == "once" and seed == SECOND and once(kind):
        kill()
    if what == "hangs" and seed == SECOND and once(kind):
        time.sleep(600)
    if what == "always" and seed > FIRST:
        kill()


@benchmark(configs={{kind: {{"kind": kind}} for kind in {kinds!r}}}, devices=("cpu",))
def lost(*, device, kind):
    x, seed = torch.ones(2048), torch.initial_seed()

    def run():
        happen(kind, seed)
        out = x + 1
        for _ in range(40):
            out = out + 1
        time.sleep(2e-3)
        return out

    return Workload(run=run, reference=lambda: x.double() + 41, dtype="float32", flops=41, bytes=8)
"""
KINDS = [f"{side}_{what}" for side in ("head", "reference") for what in ("survey", "once", "hangs", "always")]


def both(make: Callable[..., Playground], kinds: list[str]) -> Playground:
    return make(*({"bench/lost.py": LOST.format(side=side, kinds=kinds)} for side in ("reference", "head")))


@pytest.mark.slow
def test_lost_workers(make: Callable[..., Playground]) -> None:
    """A worker lost once is replaced on either side, one lost always is FAILED on the head and UNFIT on the reference."""
    play = both(make, KINDS)
    done = play.ratchet("check", *QUICK, "--case-timeout", "10s", env={"MARKS": str(play.folder)})
    assert done.code == 1, done
    for kind in KINDS:
        verdict, case = done.verdict(f"lost/{kind}"), done.case(f"lost/{kind}")
        side, _, what = kind.partition("_")
        if what == "always":
            assert verdict.outcome is (Outcome.FAILED if side == "head" else Outcome.UNFIT), verdict
            assert "was killed (SIGKILL" in verdict.reason
            assert [one.side for one in case.lost] == [side] * 3
        else:
            assert verdict.outcome not in (Outcome.FAILED, Outcome.UNFIT), verdict
            assert done.pairs(case.name) == list(range(PAIRS))
            assert [(one.side, one.pair) for one in case.lost] == [(side, None if what == "survey" else 1)]
    warnings = " ".join(done.report.warnings)
    assert "1 pair of lost/head_once was measured again: the head's worker was killed (SIGKILL)." in warnings
    assert "1 pair of lost/reference_hangs was measured again: the reference's worker gave no answer within 10 s." in warnings
    assert "lost/head_survey was checked again: the head's worker was killed (SIGKILL)." in warnings
    play.assert_clean()


LEFT = """\
import os, time
import torch
from ratchet import Workload, benchmark


@benchmark
def forks(device):
    def run():
        os.fork()
        return torch.ones(3)

    return run


@benchmark
def forks_late(device):
    def run():
        if os.fork() == 0:
            time.sleep(0.1)
        return torch.ones(3)

    return run


@benchmark
def forks_and_raises(device):
    def run():
        if os.fork() == 0:
            raise RuntimeError
        return torch.ones(3)

    return run


@benchmark
def ends_its_child(device):
    def run():
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return torch.ones(3)

    return run


@benchmark
def too_large(device):
    return Workload(run=lambda: torch.ones(3), memory_limit="1MB")


@benchmark
def slow(device):
    def run():
        time.sleep(5)
        return torch.ones(3)

    return run
"""


@pytest.mark.slow
def test_kinds_of_trouble_are_named(make: Callable[..., Playground]) -> None:
    """A copy of the process that goes on, a limit of memory and a call beyond case_timeout: named, tried once, and not timed."""
    done = make({"bench/left.py": LEFT}).ratchet("run", *QUICK, "--case-timeout", "3s")
    assert done.code == 1, done
    for name in ("forks", "forks_late", "forks_and_raises"):
        assert "made a copy of its process (os.fork) that did not end" in done.verdict(f"{name}/default").reason
    assert done.verdict("ends_its_child/default").outcome is Outcome.MEASURED
    assert "more than its limit of 1.00 MiB" in done.verdict("too_large/default").reason
    assert not done.case("too_large/default").head
    slow = done.verdict("slow/default")
    assert "gave no answer within 3 s: it never ends, or takes longer than case_timeout allows." in slow.reason
    assert len(done.case("slow/default").lost) == 1


def test_a_reference_that_cannot_be_measured_is_no_pass(make: Callable[..., Playground]) -> None:
    """Where the reference's worker is killed again and again the check exits 3 and says what to do."""
    play = both(make, ["reference_always"])
    done = play.check(env={"MARKS": str(play.folder)})
    assert done.code == 3, done
    reason = done.verdict("lost/reference_always").reason
    assert reason.startswith("The reference's worker was killed (SIGKILL) three times. Free memory on this machine")


def test_a_reference_killed_while_it_is_imported_is_no_pass(make: Callable[..., Playground]) -> None:
    """Where the reference's process dies at import nothing is compared: exit 3, with what it printed last."""
    play = make({"bench/adds.py": "import os\nprint('bye')\nos.kill(os.getpid(), 9)\n"}, {"bench/adds.py": ADDS})
    done = play.check()
    assert done.code == 3, done
    assert "The reference's process ended while it imported bench/adds.py: bye" in done.sentence


def test_a_package_that_the_head_renamed_is_red(make: Callable[..., Playground]) -> None:
    """A case that ran on the reference and that the head cannot import is FAILED with the import error, not skipped."""
    using = ADDS.replace("import torch\n", "import torch, mylib\n")
    play = make({"bench/adds.py": using, "mylib.py": "# a package\n"}, {"mylib.py": "", "newlib.py": "# renamed\n"})
    done = play.check()
    assert done.code == 1, done
    assert done.verdict("adds/small").outcome is Outcome.FAILED
    assert "No module named 'mylib'" in done.verdict("adds/small").reason
    alone = play.ratchet("run", *QUICK)
    assert alone.outcomes() == {"adds/small": Outcome.SKIPPED}


CHEATS = """\
import gc, json, statistics, time
import torch
from ratchet import Workload, benchmark

for name in ("perf_counter", "monotonic", "time", "perf_counter_ns", "monotonic_ns"):
    setattr(time, name, lambda: 0)
torch.cuda.Event.elapsed_time = lambda *_: 1e-6
torch.cuda.synchronize = lambda *_: None
gc.disable = gc.collect = lambda *_: None
statistics.median = lambda _: 1e-6
json.dumps = lambda *_, **__: "{}"


@benchmark(configs={"small": {}}, devices=("cpu",))
def sleeps(*, device):
    x = torch.ones(64)

    def run(sleep=time.sleep):
        sleep(0.004)
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1, dtype="float32", flops=64, bytes=512)
"""
LIES = """
from ratchet.core.bench.clocks import CpuClock, Samples

CpuClock.take = lambda self, count, **_: Samples((1e6,) * count)
"""


def run_alone(make: Callable[..., Playground], text: str) -> Finished:
    return make({"bench/adds.py": text}).ratchet("run", "--device", "cpu", "--blocks", "2", "--pairs", "3")


def test_a_benchmark_that_replaces_the_clock_is_timed_all_the_same(make: Callable[..., Playground]) -> None:
    """What a bench file puts in the place of clocks, the collector and statistics at its import changes no time."""
    done = run_alone(make, CHEATS)
    assert done.code == 0, done
    samples = [sample for worker in done.case("sleeps/small").head for block in worker.blocks for sample in block.samples_ms]
    assert min(samples) >= 4.0


def test_answers_that_cannot_be_true_are_no_measurement(make: Callable[..., Playground]) -> None:
    """A worker whose code replaced the clock itself gets no verdict: exit 3, with what cannot be true."""
    done = run_alone(make, ADDS + LIES)
    assert done.code == 3, done
    verdict = done.verdict("adds/small")
    assert verdict.outcome is Outcome.UNFIT
    assert verdict.reason.startswith("The head could not be measured: ")
    assert "its samples add up to" in verdict.reason


SESSIONS = """\
import os, pathlib, random, time
import torch
from ratchet import Workload, benchmark

SIDE = "{side}"
PLANTED = random.SystemRandom().getrandbits(64)  # of this host process, as an offset of its own would be


@benchmark(configs={{"x": {{}}}}, devices=("cpu",))
def adds(*, device):
    x, pair = torch.ones(2048), (torch.initial_seed() - 2025) // 2
    wait_s = 8e-3 if {slower} else 8e-4
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{{pair}} {{SIDE}} {{os.getppid()}} {{PLANTED}}\\n")

    def run():
        time.sleep(wait_s)
        return x + 1

    return Workload(run=run, reference=lambda: x.double() + 1, dtype="float32", flops=2048, bytes=16384)
"""
SLOWER_HEAD = 'SIDE == "head"'
IN_TURNS = 'pair % 2 == (SIDE == "head")'
"""No number of pairs decides, and no side looks slower."""


def sessions(make: Callable[..., Playground], seen: Path, slower: str, *words: str) -> tuple[Finished, dict[int, set[str]]]:
    """A check, and which processes measured each pair."""
    play = make(*({"bench/adds.py": SESSIONS.format(side=side, slower=slower)} for side in ("reference", "head")))
    done = play.check(*words, "--pairs", "12", env={"SEEN": str(seen)})
    found: dict[int, set[str]] = defaultdict(set)
    for line in seen.read_text().splitlines():
        pair, *process = line.split()
        found[int(pair)].add(" ".join(process))
    play.assert_clean()
    return done, found


@pytest.mark.slow
@pytest.mark.parametrize("budget", [(), ("--budget", "1ms")])
def test_a_case_that_looks_slower_is_measured_on_by_fresh_processes(
    make: Callable[..., Playground], tmp_path: Path, budget: tuple[str, ...]
) -> None:
    """From the ninth pair on every three pairs come from other hosts, with whatever each has of its own; the record says so.

    So beyond the budget, which must not hide a slowdown.
    """
    done, found = sessions(make, tmp_path / "seen", SLOWER_HEAD, *budget)
    case = done.case("adds/x")
    assert [worker.pair for worker in case.head] == [worker.pair for worker in case.reference] == list(range(12))
    assert [worker.session for worker in case.head] == [worker.session for worker in case.reference] == [0] * 8 + [1] * 3 + [2]
    by_session = [set().union(*(found[pair] for pair in part)) for part in (range(8), range(8, 11), range(11, 12))]
    assert [len(processes) for processes in by_session] == [2] * 3, "one host for each side"
    for part in (1, 2):
        assert len({process.split()[part] for processes in by_session for process in processes}) == 6
    assert done.run.plan.sessions
    assert "Starting fresh processes for 1 case that looks changed" in done.err
    assert done.outcomes() == {"adds/x": Outcome.SLOWER}
    assert "A regression needs 20 pairs, and this case has 12" in done.verdict("adds/x").reason


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "pairs"), [((), 12), (("--budget", "1ms"), 6)])
def test_a_case_that_looks_unchanged_stays_with_its_processes(
    make: Callable[..., Playground], tmp_path: Path, budget: tuple[str, ...], pairs: int
) -> None:
    """However undecided it is, no host is started anew for it; once the budget is spent, it takes no more pairs."""
    done, found = sessions(make, tmp_path / "seen", IN_TURNS, *LENIENT, *budget)
    assert done.pairs("adds/x") == list(range(pairs))
    assert len(set().union(*found.values())) == 2
    assert "Starting fresh processes" not in done.err
