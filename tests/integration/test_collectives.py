"""`bench/collectives.py` under torchrun, with gloo on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.commands.collectives import CollectivesRequest, group_of, wanted_of
from ratchet.errors import UsageError
from ratchet.measure.collectives import OPERATIONS, Collective, elements
from ratchet.records.files import load
from ratchet.records.run import RunRecord
from tests.integration.playground import HARNESS, Finished, Playground

SCRIPT = HARNESS / "bench" / "collectives.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT), "--device", "cpu")
USUAL = {"cuda": "1MiB", "cpu": "64KiB"}


def torchrun(play: Playground, *words: str) -> Finished:
    child = play.start_python(*TORCHRUN, *words, env={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    return play.finish(child, 180)


def test_a_run_gives_a_record_and_a_summary(play: Playground) -> None:
    """Every operation and size is timed on both ranks in fresh processes; what is recorded is compared like any other run."""
    done = torchrun(play, "--sizes", "64KiB,256KiB", "--repeats", "3")
    assert done.code == 0, done
    record = play.repo / "results" / "collectives.json"
    run = load(record, RunRecord)
    assert {case.name for case in run.cases} == {
        f"collectives/{operation}_{size}" for operation in OPERATIONS for size in ("64KiB", "256KiB")
    }
    for case in run.cases:
        assert len(case.head) == 3
        assert case.workload
        assert case.workload.parameters["ranks"] == 2
        assert case.performance
        assert case.performance.bandwidth_gb_s == pytest.approx(case.workload.bytes / case.performance.median_time_ms * 1e-6)
    summary = json.loads((play.repo / "profiles" / "collectives_gloo_2.json").read_text())
    rows = {(row["operation"], row["size_bytes"]): row for row in summary["results"]}
    assert len(rows) == 6
    half = rows["all_gather", 65536]["algbw_gb_s"] / 2
    assert rows["all_gather", 65536]["busbw_gb_s"] == pytest.approx(half, abs=0.001), "both are rounded to 0.001"
    assert sum("GB/s" in line for line in done.out.splitlines()) == 6, "each rank but the first is silent"
    again = play.ratchet("compare", str(record), str(record), "--json")
    assert again.code == 0
    assert {case["outcome"] for case in json.loads(again.out)["cases"]} <= {"UNCHANGED", "INCONCLUSIVE"}


def test_nonsense_is_one_sentence_and_no_file(play: Playground) -> None:
    """An unknown operation ends every rank with exit code 2 and says what there is."""
    done = torchrun(play, "--operations", "broadcast")
    assert "There is no collective 'broadcast'. Choose from all_reduce, all_gather, reduce_scatter." in done.err
    assert not (play.repo / "results").exists()


def test_without_torchrun_it_says_how_to_run_it(tmp_path: Path) -> None:
    """A plain call ends with a sentence that says how to run it."""
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
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


@pytest.mark.parametrize(("operation", "factor"), [("all_reduce", 2 * 7 / 8), ("all_gather", 7 / 8), ("reduce_scatter", 7 / 8)])
def test_bus_bytes_are_those_of_nccl_tests(operation: str, factor: float) -> None:
    """2 (n − 1) / n of the buffer for an all-reduce, (n − 1) / n for the others."""
    assert Collective(operation, 1 << 20).bus_bytes(8) == factor * (1 << 20)


def test_every_rank_has_a_part() -> None:
    """A buffer smaller than the ranks still gives each of them an element, and all parts are equally long."""
    assert elements(1, 8) == 8
    assert elements(100, 8) % 8 == 0
