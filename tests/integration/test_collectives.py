"""`bench/collectives.py` under torchrun, with gloo on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ratchet.commands.collectives import CollectivesRequest, group_of, measure_collectives, wanted_of
from ratchet.errors import UnfitError, UsageError
from ratchet.measure import collectives
from ratchet.measure.collectives import OPERATIONS, SYMMETRIC, Collective, Group, elements, missing_for_symmetric_memory
from ratchet.records.files import load
from ratchet.records.run import RunRecord
from ratchet.records.verdict import Outcome
from tests.integration.playground import HARNESS, Finished, Playground

SCRIPT = HARNESS / "bench" / "collectives.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT), "--device", "cpu")
USUAL = {"cuda": "1MiB", "cpu": "64KiB"}
NETWORK = {"GLOO_SOCKET_IFNAME": "lo"}
ON_CPU = "Symmetric memory was not measured: it is memory of GPUs, and this run uses the CPU."
RANKS = """
import os, runpy, sys
import ratchet.commands.collectives, torch.distributed
store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
group = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port)}
group["TORCHELASTIC_USE_AGENT_STORE"] = "True"
ranks = []
for rank in range(2):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ |= group | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
sys.exit(max(os.waitpid(rank, 0)[1] for rank in ranks) >> 8)
"""
"""Starts a program as torchrun does, with a store of its own, which would take 2 s more to import torch."""
SLOWER = """
import time
import torch.distributed as dist
quick = dist.all_reduce
dist.all_reduce = lambda *words: (time.sleep(0.02), quick(*words))[1]


def main("""


def torchrun(play: Playground, *words: str) -> Finished:
    child = play.start_python(*TORCHRUN, *words, env=NETWORK)
    return play.finish(child)


@pytest.mark.slow
def test_a_run_gives_a_record_and_a_summary(play: Playground) -> None:
    """Every operation and size is timed on both ranks in fresh processes; what is recorded is compared like any other run."""
    done = torchrun(play, "--sizes", "64KiB,1MiB", "--repeats", "3")
    assert done.code == 0, done
    record = play.repo / "results" / "collectives.json"
    run = load(record, RunRecord)
    assert {case.name for case in run.cases} == {
        f"collectives/{operation}_{size}"
        for operation in ("all_reduce", "all_gather", "reduce_scatter")
        for size in ("64KiB", "1MiB")
    }
    assert ON_CPU in run.warnings
    for case in run.cases:
        assert len(case.head) == 3
        assert case.workload
        assert case.workload.parameters["ranks"] == 2
        assert case.performance
        assert case.performance.bandwidth_gb_s == pytest.approx(case.workload.bytes / case.performance.median_time_ms * 1e-6)
    summary = json.loads((play.repo / "profiles" / "collectives_gloo_2.json").read_text())
    rows = {(row["operation"], row["size_bytes"]): row for row in summary["results"]}
    assert len(rows) == 6
    assert {row["backend"] for row in rows.values()} == {"gloo"}
    assert ON_CPU in summary["warnings"]
    assert ON_CPU in done.out
    half = rows["all_gather", 65536]["algbw_gb_s"] / 2
    assert rows["all_gather", 65536]["busbw_gb_s"] == pytest.approx(half, abs=0.001), "both are rounded to 0.001"
    assert sum("GB/s" in line for line in done.out.splitlines()) == 6, "each rank but the first is silent"
    again = play.ratchet("compare", str(record), str(record), "--json")
    assert again.code == 0
    assert {case["outcome"] for case in json.loads(again.out)["cases"]} <= {"UNCHANGED", "INCONCLUSIVE"}


@pytest.mark.slow
def test_two_commits_are_compared_in_fresh_groups_that_take_turns(make: Callable[..., Playground]) -> None:
    """`check --command` starts a group in each tree, and a head that waits 20 ms in each all-reduce takes that much longer."""
    script = SCRIPT.read_text(encoding="utf-8")
    slower = script.replace("def main(", SLOWER.lstrip(), 1)
    play = make({"bench/collectives.py": script, "ranks.py": RANKS}, {"bench/collectives.py": slower})
    command = f"{sys.executable} -X warm ranks.py bench/collectives.py --operations all_reduce --sizes 4KiB --json {{out}}"
    done = play.ratchet("check", "--device", "cpu", "--pairs", "3", "--command", command, "--format", "json", env=NETWORK)
    outcome = done.verdict("collectives/all_reduce_4KiB").outcome
    # Three pairs are no proof, and if another process stalls one reference group for as long, not even a doubt.
    assert (outcome, done.code) in ((Outcome.SLOWER, 3), (Outcome.INCONCLUSIVE, 0)), done
    case = done.case("collectives/all_reduce_4KiB")
    assert len(case.head) == len(case.reference) == 3
    assert case.performance
    assert case.reference_performance
    head, reference = (
        min(sample for worker in side for block in worker.blocks for sample in block.samples_ms)
        for side in (case.head, case.reference)
    )
    assert head > 20 > reference, "every call of the head waits, the quickest of the reference is not stalled"
    play.assert_clean()


@pytest.mark.slow
def test_nonsense_is_one_sentence_and_no_file(play: Playground) -> None:
    """An unknown operation ends every rank with exit code 2 and says what there is, also in the last lines of torchrun."""
    done = torchrun(play, "--operations", "broadcast")
    sentence = f"There is no collective 'broadcast'. Choose from {', '.join(OPERATIONS)}."
    assert f"collectives: {sentence}" in done.err
    assert sentence in "".join(done.err.splitlines()[-3:])
    assert not (play.repo / "results").exists()


def test_without_torchrun_it_says_how_to_run_it(tmp_path: Path) -> None:
    """A plain call ends with a sentence that says how to run it."""
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("collectives: This process was not started by torchrun. Start it with torchrun")


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (CollectivesRequest(None, "0", USUAL, 5, "cpu"), "is not a size"),
        (CollectivesRequest(None, "a lot", USUAL, 5, "cpu"), "is not a size"),
        (CollectivesRequest(None, None, USUAL, 2, "cpu"), "too few"),
        (CollectivesRequest("gossip", None, USUAL, 5, "cpu"), "no collective"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(wish: CollectivesRequest, sentence: str) -> None:
    """Before any process is forked."""
    with pytest.raises(UsageError, match=sentence):
        wanted_of(wish, "cpu", 2)


def test_one_rank_is_no_group() -> None:
    """With nobody to talk to there is nothing to measure."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "1", "MASTER_ADDR": "x"}
    with pytest.raises(UsageError, match="two ranks or more"):
        group_of(alone)


def test_a_gpu_for_each_rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two ranks on a machine with one GPU end with a sentence, before anything is measured."""
    monkeypatch.setattr("ratchet.measure.device.nvml.Nvidia.visible_gpus", lambda *_: [object()])
    environ = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "1", "MASTER_ADDR": "x"}
    with pytest.raises(UnfitError, match="started 2 ranks on this machine, which has 1 GPU for them") as caught:
        measure_collectives(CollectivesRequest(None, None, USUAL, 5, "auto"), tmp_path, tmp_path, (), environ)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("device", "ranks", "peers", "memory", "reason"),
    [
        ("cpu", 2, True, "cuda", "this run uses the CPU"),
        ("cuda", 4, True, "cuda", "several machines"),
        ("cuda", 2, False, "cuda", "GPU 0 cannot read the memory of GPU 1"),
        ("cuda", 2, True, "nvshmem", "NVSHMEM is not installed: pip install"),
        ("cuda", 2, True, "cuda", ""),
    ],
)
def test_what_is_missing_for_symmetric_memory(
    device: str, ranks: int, peers: bool, memory: collectives.Memory, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing that it needs is named where it is missing."""
    monkeypatch.setattr("torch.cuda.can_device_access_peer", lambda *_: peers)
    monkeypatch.setattr("torch.distributed._symmetric_memory.is_nvshmem_available", lambda: False)
    missing = missing_for_symmetric_memory(Group(0, ranks, 0, 2, "x", 1, True), SimpleNamespace(type=device), memory)
    assert reason in missing
    assert bool(reason) == bool(missing)


@pytest.mark.parametrize("error", [RuntimeError("Not implemented for world_size=3\nmore"), NotImplementedError()])
def test_a_failure_of_symmetric_memory_is_a_reason(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever torch raises, also without a word, is the reason that all ranks hear of: none of them waits for another."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("ratchet.measure.collectives._prepared", fails)
    reason = collectives._failure_of_symmetric_memory(Group(0, 2, 0, 2, "x", 1, True), SimpleNamespace(type="cuda"), "cuda")
    assert f"cannot make it here ({type(error).__name__}: {str(error).partition(chr(10))[0]})" in reason


def test_torch_has_what_symmetric_memory_takes() -> None:
    """The operators and functions exist by the names, and take the arguments, that only a machine with two GPUs can try."""
    import torch
    from torch.distributed import _symmetric_memory

    one, two = (
        str(getattr(torch.ops.symm_mem, name).default._schema) for name in ("one_shot_all_reduce_out", "two_shot_all_reduce_")
    )
    assert one.endswith("one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)")
    assert two.endswith("two_shot_all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)")
    for name in ("empty", "rendezvous", "is_nvshmem_available", "set_backend"):
        assert hasattr(_symmetric_memory, name)


FACTORS = {"all_gather": 7 / 8, "reduce_scatter": 7 / 8} | dict.fromkeys(("all_reduce", *SYMMETRIC), 2 * 7 / 8)


@pytest.mark.parametrize(("operation", "factor"), FACTORS.items())
def test_bus_bytes_are_those_of_nccl_tests(operation: str, factor: float) -> None:
    """2 (n − 1) / n of the buffer for an all-reduce, however it is done, (n − 1) / n for the others."""
    assert Collective(operation, 1 << 20).bus_bytes(8) == factor * (1 << 20)


def test_every_rank_has_a_part() -> None:
    """A buffer smaller than the ranks still gives each of them an element, and all parts are equally long."""
    assert elements(1, 8) == 8
    assert elements(100, 8) % 8 == 0
