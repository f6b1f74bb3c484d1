"""A host and its workers, as several threads use them."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from ratchet.core.bench import client
from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts, Hung, WorkerClient
from ratchet.core.bench.messages import BuiltCase
from ratchet.core.bench.ready.sessions import Sessions
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.config import Settings
from ratchet.core.errors import HostError
from tests.integration.playground import Playground, new_repository, wait_until

TREE = """
import torch
from ratchet import Workload, benchmark


@benchmark(configs={"small": {"size": 8}}, devices=("cpu",))
def adds(*, device, size):
    x = torch.ones(size)
    return Workload(run=lambda: x + 1, reference=lambda: x.double() + 1, dtype="float32", flops=size, bytes=8 * size)
"""


def spec(play: Playground, path: Path | None = None) -> TreeSpec:
    return TreeSpec.of(Settings(python_path=(".",)), path or play.repo, checkout=play.repo, device="cpu", gpu_uuid=None)


def prepared(host: HostClient, seed: int) -> BuiltCase:
    """Return the answer of a fresh worker that prepares the case."""
    worker = host.fork()
    words = {"check": False, "clock": "auto", "cache": "warm", "placements": 1}
    answer = worker.ask("prepare", BuiltCase, case="adds/small", seed=seed, **words)
    worker.end()
    return answer


@pytest.mark.slow
def test_both_sides_have_torch_in_the_same_places(make: Callable[..., Playground]) -> None:
    """Where a library lies changes the time of code bound by the CPU, so both sides' workers have it at the same addresses."""
    play = make({"bench/adds.py": TREE})
    with Hosts({"reference": spec(play), "head": spec(play)}, play.environ()) as hosts:
        places = []
        for host in hosts.sides.values():
            host.listing()
            worker = host.fork()
            maps = Path(f"/proc/{worker.pid}/maps").read_text().splitlines()
            places.append({(line.split()[0], line.split()[-1]) for line in maps if "libtorch" in line})
            worker.end()
    assert places[0] == places[1] != set()


def test_the_workers_of_a_pair_have_one_layout(make: Callable[..., Playground]) -> None:
    """On the CPU, what is built comes after the same objects for the same seed, and after others for the seed of another pair."""
    seen = "sum(len(each) for each in gc.get_objects() if type(each) is list and each and type(each[0]) is int)"
    play = make({"bench/adds.py": "import gc\n" + TREE.replace("flops=size", f"flops={seen}")})
    with Hosts({"head": spec(play)}, play.environ()) as hosts:
        hosts.sides["head"].listing()
        found = [prepared(hosts.sides["head"], seed).workload.flops for seed in (1, 1, 3)]
    assert found[0] == found[1] != found[2]


@pytest.mark.slow
def test_workers_import_no_compiler_for_an_optimizer(make: Callable[..., Playground]) -> None:
    """Torch's optimizers import its compiler when the first is made: a host has done so, in place of each of its workers."""
    flops = "sum(name == 'torch._dynamo' for name in sys.modules)"
    text = "import sys\nfrom torch import optim\n" + TREE.replace("flops=size", f"flops={flops}")
    with Hosts({"head": spec(make({"bench/adds.py": text}))}, dict(os.environ)) as hosts:
        hosts.sides["head"].listing()
        assert prepared(hosts.sides["head"], seed=1).workload.flops == 1


@pytest.mark.slow
def test_imports_that_take_long_are_shown(make: Callable[..., Playground], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose they are and for how long, again and again: those of the benchmarks, and those of what they call."""
    monkeypatch.setattr("ratchet.core.bench.wire.TICK_S", 0.3)
    play = make({"bench/adds.py": f"import time\ntime.sleep(1)\n{TREE}", "late.py": "import time\ntime.sleep(1)\n"})
    shown: list[str] = []
    with Sessions({"head": spec(play)}, play.environ(), waiting=lambda: shown.append(sessions.importing())) as sessions:
        host = sessions.open()["head"]
        host.listing()
        assert re.fullmatch(r"Importing for [\d.]+ s: bench/ of the head", shown[-1])
        assert sessions.importing() == ""
        sessions.import_late({"head": host}, [["late"]])
        assert re.fullmatch(r"Importing for [\d.]+ s: what the cases import when they are called", shown[-1])
    assert len(shown) > 2


def test_a_module_may_remove_its_file(make: Callable[..., Playground]) -> None:
    """A host looks through the sources of its tree for what they use; one that is gone by then does not end it."""
    made = "import importlib, pathlib\nmade = pathlib.Path('made.py')\nmade.touch()\nimportlib.invalidate_caches()\n"
    text = made + "import made as _\nmade.unlink()\n" + TREE
    with Hosts({"head": spec(make({"bench/adds.py": text}))}, dict(os.environ)) as hosts:
        hosts.sides["head"].listing()
        assert prepared(hosts.sides["head"], seed=1).places == 1


@pytest.mark.slow
def test_a_host_that_ends_takes_no_other_along(make: Callable[..., Playground]) -> None:
    """Who asks a side that ended while it was imported is told so at once, with what it printed; the other side works on."""
    play = make({"bench/adds.py": TREE})
    broken = play.folder / "broken"
    new_repository(broken, {"bench/adds.py": "import os\nprint('no such thing', flush=True)\nos._exit(3)\n"})
    with Hosts({"reference": spec(play, broken), "head": spec(play)}, play.environ()) as hosts:
        with pytest.raises(HostError, match=r"^The reference's process ended while it imported bench/adds\.py: no such thing$"):
            hosts.sides["reference"].listing()
        assert len(hosts.sides["head"].listing().cases) == 1
        assert hosts.sides["head"].fork().end() == 0


def status_of(pid: int) -> list[str]:
    """The fields of proc(5) from the state on: Z is a process that has ended and was not waited for."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def parent_of_worker(host: HostClient) -> int:
    worker = host.fork()
    parent = int(status_of(worker.pid)[1])
    worker.end()
    return parent


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2, 8])
def test_each_session_has_hosts_of_its_own(make: Callable[..., Playground], cores: int) -> None:
    """Hosts of a later session are other processes, which import the tree again, one by one or several at once; none stays."""
    text = "import os\nimported_by = os.getpid()\n" + TREE.replace("flops=size", "flops=imported_by")
    play = make({"bench/adds.py": text})
    imported_by, parents = [], []
    with Sessions({"head": spec(play)}, play.environ(), cores=cores) as sessions:
        host = sessions.open()["head"]
        for _ in range(4):
            host.listing()
            imported_by.append(prepared(host, seed=1).workload.flops)
            parents.append(parent_of_worker(host))
            host = sessions.renew(["head"])["head"]
    assert len(set(parents)) == 4
    assert imported_by == parents
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in parents), "a host is still there")


def test_who_waits_for_a_worker_to_end_keeps_no_other_from_being_forked(
    make: Callable[..., Playground], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one thread waits for a worker that takes long to end, another thread is given a fresh one."""
    play = make({"bench/adds.py": TREE})
    monkeypatch.setattr(client, "REAP_S", 300.0)
    ended: list[int | None] = []
    with Hosts({"head": spec(play)}, play.environ()) as hosts:
        host = hosts.sides["head"]
        assert [len(host.listing().cases), len(host.listing().cases)] == [1, 1], "it may be asked more than once"
        slow = host.fork()
        waiting = threading.Thread(target=lambda: ended.append(host.reap(slow.pid)))
        waiting.start()
        other = host.fork()
        assert (waiting.is_alive(), ended) == (True, [])
        os.kill(slow.pid, signal.SIGKILL)
        waiting.join(60)
        assert ended == [-signal.SIGKILL]
        slow.end()
        assert other.end() == 0


def test_a_worker_that_comes_too_late_is_nobodys_failure(
    make: Callable[..., Playground], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the time is over before a worker is there, one case has no time; without an end of time, the device is at fault."""

    def hung(*_: object, **__: object) -> NoReturn:
        raise Hung("head", "start", "gave no answer within 0.1 s", (), "gave no answer within 0.1 s")

    play = make({"bench/adds.py": TREE})
    with Hosts({"head": spec(play)}, play.environ()) as hosts:
        host = hosts.sides["head"]
        host.listing()
        monkeypatch.setattr(WorkerClient, "ask", hung)
        with pytest.raises(HostError, match="could not use the device"):
            host.fork()
        host.until = time.monotonic()
        with pytest.raises(CaseTrouble, match=r"^gave no answer within 0\.1 s$"):
            host.fork()
        monkeypatch.undo()
        host.until = math.inf
        assert host.fork().end() == 0
