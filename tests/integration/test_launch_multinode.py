"""`scripts/launch_multinode.sh`: what it would start, and that it starts it; ssh, srun and torchrun are stand-ins."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.integration.playground import HARNESS, PATIENCE_S

SCRIPT = HARNESS / "scripts" / "launch_multinode.sh"
STAND_INS = {
    "ssh": 'while [[ $1 == -* ]]; do [[ $1 != -o ]] || shift; shift; done; export NODE=$1; shift; exec bash -c "$*"',
    "scontrol": '[[ $* == "show hostnames gpu[1-3]" ]] && printf "gpu1\\ngpu2\\ngpu3\\n"',
    "torchrun": 'echo "$NODE|$MASTER_ADDR|$NCCL_DEBUG|${*: -1}"; case $NODE in bad) exit 5 ;; slow) exec sleep 600 ;; esac',
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a Python program and a binary one, and the stand-ins."""
    for name, line in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{line}\n")
        path.chmod(0o755)
    (tmp_path / "train.py").touch()
    (tmp_path / "ring").touch()
    return tmp_path


def launch(place: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    private = ("SLURM_", "HOST", "MASTER_", "NCCL_", "GLOO_", "TORCH_", "NVSHMEM_", "UCX_", "OMP_", "CUDA_", "DRY_RUN")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    kept["PATH"] = f"{place / 'bin'}:{kept['PATH']}"
    return subprocess.run(
        [SCRIPT, *words], cwd=place, env=kept | environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def would_run(place: Path, *words: str, **environ: str) -> list[list[str]]:
    done = launch(place, "--dry-run", *words, **environ)
    assert done.returncode == 0, done.stderr
    return [shlex.split(line) for line in done.stdout.splitlines()]


def test_one_node_needs_no_host(place: Path) -> None:
    """On one node torchrun is started right here; arguments keep their spaces."""
    assert would_run(place, "1", "8", "train.py", "--name", "a b") == [
        ["torchrun", "--nnodes=1", "--nproc-per-node=8", "--standalone", "train.py", "--name", "a b"]
    ]


def test_ssh_starts_one_torchrun_on_each_host(place: Path) -> None:
    """Each host gets the same rendezvous on the first one, in the same folder, with the variables of NCCL."""
    (place / "hosts").write_text("# the rack\nroot@gpu1:8\n\ngpu2 slots=8\ngpu3\n")
    first, second = would_run(
        place, "2", "4", "train.py", "a b", HOSTFILE="hosts", NCCL_DEBUG="a b", MASTER_PORT="1234", SECRET="x"
    )
    assert [first[:4], second[:4]] == [["ssh", "-tt", "-o", "BatchMode=yes"]] * 2
    assert [first[4], second[4]] == ["root@gpu1", "gpu2"]
    assert first[5] == second[5]
    words = shlex.split(first[5])
    identity = next(word for word in words if word.startswith("--rdzv-id="))
    assert words == [
        *("cd", str(place), "&&", "exec", "env", "MASTER_ADDR=gpu1", "MASTER_PORT=1234", "NCCL_DEBUG=a b", "torchrun"),
        *("--nnodes=2", "--nproc-per-node=4", "--rdzv-backend=c10d", identity, "--rdzv-endpoint=gpu1:1234", "train.py", "a b"),
    ]


def test_within_slurm_srun_starts_them(place: Path) -> None:
    """The nodes are those of the allocation, as many as were asked for, and the first is the place to meet."""
    job = {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "gpu[1-3]"}
    assert would_run(place, "2", "8", "train.py", **job) == [
        [
            *("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--kill-on-bad-exit=1", "torchrun"),
            *(
                "--nnodes=2",
                "--nproc-per-node=8",
                "--rdzv-backend=c10d",
                "--rdzv-id=77",
                "--rdzv-endpoint=gpu1:29500",
                "train.py",
            ),
        ]
    ]


def test_a_binary_is_one_of_nvshmem(place: Path) -> None:
    """What is not Python goes to nvshmemrun with all ranks, those of a node, and the hosts."""
    assert would_run(place, "2", "8", "./ring", "-n", "1", HOSTS="a,b") == [
        ["nvshmemrun", "-np", "16", "-ppn", "8", "-hosts", "a,b", "./ring", "-n", "1"]
    ]


def test_the_commands_really_run(place: Path) -> None:
    """Without --dry-run each host runs torchrun, with the variables; the commands are shown apart from what they print."""
    done = launch(place, "2", "1", "train.py", "a b", HOSTS="one two", NCCL_DEBUG="x y")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["one|one|x y|a b", "two|one|x y|a b"]
    assert done.stderr.count("ssh -tt") == 2


def test_a_node_that_fails_ends_the_others(place: Path) -> None:
    """Its exit code is that of the whole, at once, and nobody waits for those who wait for it."""
    done = launch(place, "2", "1", "train.py", HOSTS="slow bad")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1] == "launch_multinode: a node failed, and the others are ended."


@pytest.mark.parametrize(
    ("words", "environ", "code", "sentence"),
    [
        (["2", "8"], {}, 2, "usage: "),
        (["two", "8", "train.py"], {}, 2, "'two' is not a number of nodes or GPUs"),
        (["1", "0", "train.py"], {}, 2, "'0' is not a number of nodes or GPUs"),
        (["1", "1", "none.py"], {}, 2, "there is no program none.py in "),
        (["2", "1", "train.py"], {}, 2, "which 2 nodes? Set HOSTS"),
        (["2", "1", "train.py"], {"HOSTS": "a"}, 3, "2 nodes were asked for, but there are 1: a."),
        (["1", "1", "train.py"], {"HOSTS": "-oProxyCommand=x"}, 2, "'-oProxyCommand=x' is not the name of a host."),
        (["2", "1", "train.py"], {"HOSTFILE": "nowhere"}, 2, "the file of hosts nowhere cannot be read."),
        (["1", "1", "ring"], {"NVSHMEMRUN": "no-nvshmemrun"}, 3, "no-nvshmemrun is not on the PATH: install NVSHMEM"),
    ],
)
def test_nonsense_is_one_sentence(words: list[str], environ: dict[str, str], code: int, sentence: str, place: Path) -> None:
    """What cannot be started is refused, with what to do."""
    done = launch(place, *words, **environ)
    assert done.returncode == code
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
