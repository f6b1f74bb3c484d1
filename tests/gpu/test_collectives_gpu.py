"""`docs/examples/collectives.py` on two real GPUs: NCCL and symmetric memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.playground import HARNESS, Playground, new_repository

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")]

OPERATIONS = ("all_reduce", "all_reduce_one_shot", "all_reduce_two_shot", "all_gather", "reduce_scatter")
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node=2 collectives.py --sizes 4KiB,1MiB"


@pytest.fixture
def play(tmp_path: Path) -> Playground:
    script = (HARNESS / "docs" / "examples" / "collectives.py").read_text(encoding="utf-8")
    new_repository(tmp_path / "repo", {"collectives.py": script})
    return Playground(tmp_path)


def test_symmetric_memory_is_measured_beside_nccl(play: Playground) -> None:
    """Every operation gives the right result and a bandwidth, also on symmetric memory."""
    done = play.finish(play.start_python(*TORCHRUN.split()), 300)
    assert done.code == 0, done
    summary = json.loads((play.repo / "profiles" / "collectives_nccl_2.json").read_text())
    rows = {(row["operation"], row["size_bytes"]): row for row in summary["results"]}
    assert set(rows) == {(operation, size) for operation in OPERATIONS for size in (4096, 1 << 20)}, summary["warnings"]
    assert all(row["busbw_gb_s"] > 0 for row in rows.values())
    assert rows["all_reduce_one_shot", 4096]["backend"] == "symmetric memory (cuda)"


def test_a_check_gives_its_command_both_gpus(play: Playground) -> None:
    """`check --gpus 0,1 --command` holds both, and each process of the command uses both."""
    command = f"{play.python} {TORCHRUN} --json {{out}}"
    words = ("--base", "HEAD", "--time-identical", "--gpus", "0,1", "--pairs", "6", "--command", command, "--format", "json")
    done = play.finish(play.start("check", *words, "--gate", "90%"), 600)
    assert done.code == 0, done
    assert {case.name for case in done.run.cases} == {
        f"collectives/{operation}_{size}" for operation in OPERATIONS for size in ("4KiB", "1MiB")
    }
    assert len(done.run.environment.cards) == 2
    assert not play.processes()  # but folders: torchrun leaves its logs in the temporary one
