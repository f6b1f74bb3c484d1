"""`docs/examples/collectives.py` under torchrun, with gloo on the CPU."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import HARNESS, Finished, Playground

SCRIPT = HARNESS / "docs" / "examples" / "collectives.py"
NETWORK = {"GLOO_SOCKET_IFNAME": "lo"}
ON_CPU = "Symmetric memory was not measured: it is memory of GPUs, and this run uses the CPU."
RANKS = """
import os, runpy, sys
import torch.distributed
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
        os._exit(0)
sys.exit(max(os.waitpid(rank, 0)[1] for rank in ranks) >> 8)
"""
"""Starts a program as torchrun does, with a store of its own, which would take 2 s more to import torch."""
ENVIRON = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}


def altered(all_reduce: str) -> str:
    """The script with another all-reduce, of which ``quick`` is the real one."""
    lines = f"quick = dist.all_reduce\ndist.all_reduce = lambda *words: {all_reduce}\n\n\n"
    return SCRIPT.read_text(encoding="utf-8").replace("def main(", f"{lines}def main(", 1)


def torchrun(play: Playground, *words: str) -> Finished:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT), "--device", "cpu")
    return play.finish(play.start_python(*torchrun, *words, env=NETWORK))


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_collectives", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_run_gives_a_summary(play: Playground) -> None:
    """Every operation and size is timed and checked on both ranks; one rank writes the summary."""
    done = torchrun(play, "--sizes", "64KiB,1MiB")
    assert done.code == 0, done
    summary = json.loads((play.repo / "profiles" / "collectives_gloo_2.json").read_text())
    rows = {(row["operation"], row["size_bytes"]): row for row in summary["results"]}
    assert rows.keys() == {(name, size) for name in ("all_reduce", "all_gather", "reduce_scatter") for size in (1 << 16, 1 << 20)}
    assert {row["backend"] for row in rows.values()} == {"gloo"}
    assert (summary["backend"], summary["world_size"], summary["warnings"]) == ("gloo", 2, [ON_CPU])
    row = rows["all_gather", 65536]
    assert row["algbw_gb_s"] == pytest.approx(65536 / row["time_us"] * 1e-3, abs=0.001)
    assert row["busbw_gb_s"] == pytest.approx(row["algbw_gb_s"] / 2, abs=0.001), "both are rounded to 0.001"
    assert ON_CPU in done.out
    assert sum("GB/s" in line for line in done.out.splitlines()) == 6, "each rank but the first is silent"


@pytest.mark.slow
def test_two_commits_are_compared_in_fresh_groups_that_take_turns(make: Callable[..., Playground]) -> None:
    """`check --command` starts a group in each tree, and a head that waits 20 ms in each all-reduce takes that much longer."""
    slower = altered("(time.sleep(0.02), quick(*words))[1]")
    play = make({"collectives.py": SCRIPT.read_text(encoding="utf-8"), "ranks.py": RANKS}, {"collectives.py": slower})
    command = f"{sys.executable} -X warm ranks.py collectives.py --operations all_reduce --sizes 4KiB --json {{out}}"
    done = play.ratchet("check", "--device", "cpu", "--pairs", "3", "--command", command, "--format", "json", env=NETWORK)
    outcome = done.verdict("collectives/all_reduce_4KiB").outcome
    # Three pairs are no proof, and if another process stalls one reference group for as long, not even a doubt.
    assert (outcome, done.code) in ((Outcome.SLOWER, 3), (Outcome.INCONCLUSIVE, 0)), done
    case = done.case("collectives/all_reduce_4KiB")
    assert len(case.head) == len(case.reference) == 3
    head, reference = (
        min(sample for worker in side for block in worker.blocks for sample in block.samples_ms)
        for side in (case.head, case.reference)
    )
    assert head > 20 > reference, "every call of the head waits, the quickest of the reference is not stalled"
    play.assert_clean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("all_reduce", "wrong"),
    [("quick(*words)", False), ("(quick(*words), words[0].mul_(2))", True), ("None", True)],
    ids=["right", "twice the sum", "nothing done"],
)
def test_a_wrong_result_is_refused(play: Playground, all_reduce: str, wrong: bool) -> None:
    """The result is compared with the known sum: a wrong one ends both ranks with a sentence, and no times are written."""
    (play.repo / "ranks.py").write_text(RANKS)
    (play.repo / "altered.py").write_text(altered(all_reduce))
    words = ("altered.py", "--device", "cpu", "--operations", "all_reduce", "--sizes", "4KiB", "--json", "times.json")
    done = play.finish(play.start_warm("-X", "warm", "ranks.py", *words, env=NETWORK))
    assert done.code == (1 if wrong else 0), done
    for rank in range(2):
        assert (f"collectives: all_reduce of 4096 bytes on rank {rank} gave a wrong result." in done.err) == wrong
    assert (play.repo / "times.json").exists() != wrong


@pytest.mark.slow
def test_nonsense_is_one_sentence_and_no_file(play: Playground) -> None:
    """An unknown operation ends every rank with a sentence that says what there is, also in the last lines of torchrun."""
    done = torchrun(play, "--operations", "broadcast")
    sentence = "There is no collective 'broadcast'. Choose from all_reduce, all_reduce_one_shot, "
    assert f"collectives: {sentence}" in done.err
    assert sentence in "".join(done.err.splitlines()[-3:])
    assert not (play.repo / "profiles").exists()


@pytest.mark.slow
def test_without_torchrun_it_says_how_to_run_it(play: Playground) -> None:
    """A plain call ends with a sentence that says how to run it."""
    done = play.finish(play.start_warm("-X", "warm", str(SCRIPT)))
    assert done.code == 2
    assert done.err.startswith("collectives: This process was not started by torchrun. Start it with torchrun")


@pytest.mark.parametrize(
    ("operations", "sizes", "sentence"),
    [("all_reduce", "0", "is not a size"), ("all_reduce", "a lot", "is not a size"), ("gossip", "1MiB", "no collective")],
)
def test_a_wish_that_cannot_be_is_refused(example: ModuleType, operations: str, sizes: str, sentence: str) -> None:
    """Wrong words end with the exit code of wrong usage."""
    with pytest.raises(example.Refusal, match=sentence) as caught:
        example.wanted_of(operations, sizes, 2)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("more", "device", "gpus", "sentence", "code"),
    [
        ({"WORLD_SIZE": "1"}, "cpu", 0, "two ranks or more", 2),
        ({}, "cuda", 0, "There is no GPU here", 3),
        ({}, "auto", 1, "started 2 ranks, and there are GPUs for 1", 3),
    ],
)
def test_a_group_that_cannot_be(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], device: str, gpus: int, sentence: str, code: int
) -> None:
    """One rank is no group, and each rank needs a GPU of its own."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    with pytest.raises(example.Refusal, match=sentence) as caught:
        example.group_of(ENVIRON | more, device)
    assert caught.value.code == code


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
    example: ModuleType, device: str, ranks: int, peers: bool, memory: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing that it needs is named where it is missing."""
    monkeypatch.setattr("torch.cuda.can_device_access_peer", lambda *_: peers)
    monkeypatch.setattr("torch.distributed._symmetric_memory.is_nvshmem_available", lambda: False)
    missing = example.missing_for_symmetric_memory(example.Group(0, ranks, 0, 2, torch.device(device)), memory)
    assert reason in missing
    assert bool(reason) == bool(missing)


@pytest.mark.parametrize("error", [RuntimeError("Not implemented for world_size=3\nmore"), NotImplementedError()])
def test_a_failure_of_symmetric_memory_is_a_reason(
    example: ModuleType, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever torch raises, also without a word, is the reason that all ranks hear of: none of them waits for another."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(example, "prepared", fails)
    reason = example.failure_of_symmetric_memory(example.Group(0, 2, 0, 2, torch.device("cuda", 0)), "cuda")
    assert f"cannot make it here ({type(error).__name__}: {str(error).partition(chr(10))[0]})" in reason


def test_torch_has_what_symmetric_memory_takes() -> None:
    """The operators and functions exist by the names, and take the arguments, that only a machine with two GPUs can try."""
    from torch.distributed import _symmetric_memory

    one, two = (
        str(getattr(torch.ops.symm_mem, name).default._schema) for name in ("one_shot_all_reduce_out", "two_shot_all_reduce_")
    )
    assert one.endswith("one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)")
    assert two.endswith("two_shot_all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)")
    for name in ("empty", "rendezvous", "is_nvshmem_available", "set_backend"):
        assert hasattr(_symmetric_memory, name)


def test_bus_bytes_are_those_of_nccl_tests(example: ModuleType) -> None:
    """2 (n − 1) / n of the buffer for an all-reduce, however it is done, (n − 1) / n for the others."""
    for operation in example.OPERATIONS:
        factor = 2 * 7 / 8 if operation.startswith("all_reduce") else 7 / 8
        assert example.Collective(operation, 1 << 20).bus_bytes(8) == factor * (1 << 20)


@pytest.mark.parametrize(
    ("size", "ranks", "expected", "name"),
    [
        ("1", 8, 32, "32B"),
        ("100", 8, 96, "96B"),
        ("4k", 2, 4096, "4KiB"),
        ("1024KiB", 8, 1 << 20, "1MiB"),
        ("2GB", 2, 1 << 31, "2GiB"),
    ],
)
def test_every_rank_has_a_part(example: ModuleType, size: str, ranks: int, expected: int, name: str) -> None:
    """A buffer smaller than the ranks still gives each of them an element, and all parts are equally long."""
    (one,) = example.wanted_of("all_gather", size, ranks)
    assert (one.size, one.name) == (expected, f"collectives/all_gather_{name}")
