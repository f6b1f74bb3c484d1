"""Real workers that are killed, that hang, and that cheat; and the second set of processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.records.verdict import Outcome
from tests.integration.playground import ADDS, PAIRS, QUICK, Finished, Playground

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


def test_lost_workers(make: Callable[..., Playground]) -> None:
    """A worker lost once is replaced on either side, one lost always is FAILED on the head and UNFIT on the reference."""
    play = both(make, KINDS)
    done = play.ratchet("check", *QUICK, "--case-timeout", "2s", env={"MARKS": str(play.folder)})
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
            assert [len(case.head), len(case.reference)] == [PAIRS, PAIRS]
            assert [(one.side, one.pair) for one in case.lost] == [(side, None if what == "survey" else 1)]
    warnings = " ".join(done.report.warnings)
    assert "1 pair of lost/head_once was measured again: the head's worker was killed (SIGKILL)." in warnings
    assert "1 pair of lost/reference_hangs was measured again: the reference's worker gave no answer within 2 s." in warnings
    assert "lost/head_survey was checked again: the head's worker was killed (SIGKILL)." in warnings
    play.assert_clean()


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
from ratchet.measure.clocks import CpuClock, Samples

CpuClock.take = lambda self, count, **_: Samples({times})
"""


def run_alone(make: Callable[..., Playground], text: str) -> Finished:
    return make({"bench/adds.py": text}).ratchet("run", "--device", "cpu", "--blocks", "2", "--pairs", "3")


def test_a_benchmark_that_replaces_the_clock_is_timed_all_the_same(make: Callable[..., Playground]) -> None:
    """What a bench file puts in the place of clocks, the collector and statistics at its import changes no time."""
    done = run_alone(make, CHEATS)
    assert done.code == 0, done
    samples = [sample for worker in done.case("sleeps/small").head for block in worker.blocks for sample in block.samples_ms]
    assert min(samples) >= 4.0


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ("(1e-6,) * count", "shorter than any that this clock can see"),
        ("(1.0,) * (count + 1)", "samples came back where"),
        ("(1e6,) * count", "its samples add up to"),
    ],
)
def test_answers_that_cannot_be_true_are_no_measurement(make: Callable[..., Playground], times: str, said: str) -> None:
    """A worker whose code replaced the clock itself gets no verdict: exit 3, with what cannot be true."""
    done = run_alone(make, ADDS + LIES.format(times=times))
    assert done.code == 3, done
    verdict = done.verdict("adds/small")
    assert verdict.outcome is Outcome.UNFIT
    assert verdict.reason.startswith("The head could not be measured: ")
    assert said in verdict.reason


SESSIONS = """\
import os, pathlib, random
import torch
from ratchet import Workload, benchmark

SIDE = "{side}"
PLANTED = random.SystemRandom().getrandbits(64)  # of this host process, as an offset of its own would be


@benchmark(configs={{"noisy": {{}}}}, devices=("cpu",))
def adds(*, device):
    x, seed = torch.ones(2048), torch.initial_seed()
    slower = (seed - 2025) // 2 % 2 == (SIDE == "head")  # in turns: no number of pairs decides, no side looks slower
    calls = 160 if slower else 40
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{{seed}} {{SIDE}} {{os.getppid()}} {{PLANTED}}\\n")

    def run():
        for _ in range(calls):
            out = x + 1
        return out

    return Workload(run=run, reference=lambda: x.double() + 1, dtype="float32", flops=2048, bytes=16384)
"""


def sessions(make: Callable[..., Playground], seen: Path, *words: str) -> tuple[Finished, dict[int, set[str]]]:
    """A check, and which processes measured each pair."""
    play = make(*({"bench/adds.py": SESSIONS.format(side=side)} for side in ("reference", "head")))
    done = play.check(*words, env={"SEEN": str(seen)})
    found: dict[int, set[str]] = defaultdict(set)
    for line in seen.read_text().splitlines():
        seed, *process = line.split()
        found[(int(seed) - 2025) // 2].add(" ".join(process))
    play.assert_clean()
    return done, found


@pytest.mark.slow
def test_undecided_cases_are_measured_on_by_fresh_processes(make: Callable[..., Playground], tmp_path: Path) -> None:
    """From the ninth pair on both sides' hosts are others, with whatever each process has of its own; the record says so."""
    done, found = sessions(make, tmp_path / "seen", "--pairs", "12", "--gate", "1%", "--improvement", "1%", "--blocks", "2")
    noisy = done.case("adds/noisy")
    assert [worker.pair for worker in noisy.head] == [worker.pair for worker in noisy.reference] == list(range(12))
    first, second = (set().union(*(found[pair] for pair in part)) for part in (range(8), range(8, 12)))
    assert len(first) == len(second) == 2, "one host for each side"
    pids, planted = ({process.split()[part] for process in first} for part in (1, 2))
    assert not pids & {process.split()[1] for process in second}
    assert not planted & {process.split()[2] for process in second}
    assert done.run.plan.restart_after == 8
    assert "Starting fresh processes for" in done.err


def test_a_spent_budget_starts_no_fresh_processes(make: Callable[..., Playground], tmp_path: Path) -> None:
    """The budget counts over both sessions: once it is spent, no process is started anew."""
    done, found = sessions(make, tmp_path / "seen", "--pairs", "12", "--budget", "1ms", "--gate", "1%")
    assert len(done.case("adds/noisy").head) == 6
    assert len(set().union(*found.values())) == 2
    assert "Starting fresh processes" not in done.err
