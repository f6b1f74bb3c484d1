"""Stations on a real Ray cluster, started by the test: its nodes say that they have GPUs, and the stations are toys."""

from __future__ import annotations

import json
import re
import tempfile
import textwrap
from collections.abc import Callable

import pytest

from ratchet.tune.records import TuningRecord
from tests.integration.playground import Finished, Playground

pytest.importorskip("ray", reason="Ray is not installed.")

TOY = '''
import contextlib, json, os, queue, signal, sys, threading, time
from datetime import UTC, datetime

import ray
from ray.cluster_utils import Cluster

from ratchet.core.errors import RatchetError
from ratchet.tune.records import TaskResult, Task
from ratchet.tune.records import Evaluation
from ratchet.tune.ray_stations import ray_actors


class Toy:
    """Takes two tasks at a time and needs a moment for each."""

    def __init__(self):
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    places = property(lambda self: (f"{os.getpid()}",))
    room = 2

    def report_to(self, report):
        self.report = report

    def submit(self, task):
        self.waiting.put(task)

    def work(self):
        while True:
            task = self.waiting.get()
            time.sleep(0.02)
            evaluation = Evaluation(
                configuration=dict(task.configurations[0]), outcome="correct", samples_ms=(1.0,), median_ms=1.0, normalised=1.0,
                at=datetime.now(UTC),
            )
            self.report(TaskResult(task=task, place=self.places[0], evaluation=evaluation))

    def withdraw(self): ...

    def close(self): ...


def prepare(held):
    return lambda aim: Toy()


@contextlib.contextmanager
def stations_on_ray():
    with ray_actors(prepare, os.environ) as begin, begin("toy/toy") as executor:
        yield executor


def await_all(executor, count):
    while len(executor.places) < count:
        executor.results(1)


def give_out(executor, disturb, left):
    """Disturb the stations once ten tasks are done; go on until only so many are left, and all tasks are done. What was told."""
    told, given, disturbed, deadline = [], 0, False, time.monotonic() + 240
    while time.monotonic() < deadline and executor.places and (len(executor.places) > left or len(told) < given):
        while len(executor.places) > left and executor.room > 0:
            executor.submit(Task(number=given, what="evaluate", case="toy/toy", configurations=({"x": given},)))
            given += 1
        told += executor.results(0.2)
        if not disturbed and len(told) >= 10:
            disturb()
            disturbed = True
    return told, given


def on(gpus):
    ray.init(address="local", num_gpus=gpus, num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)


def say(executor, told, given):
    numbers = sorted(each.task.number for each in told)
    lost = sum(1 for each in told if each.lost)
    print(json.dumps({"each once": numbers == list(range(given)), "lost": lost, "left": len(executor.places)}))
'''


def run_on_ray(play: Playground, body: str, *words: str, **env: str) -> Finished:
    return run_script(play, TOY + body, *words, **env)


def run_script(play: Playground, text: str, *words: str, **env: str) -> Finished:
    script = play.folder / "toy.py"
    script.write_text(text, encoding="utf-8")
    # A folder of its own, as /tmp/ray may be somebody else's; a short one, as Ray has sockets in it.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        env |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
        return play.finish(play.start_python(str(script), *words, env=env))


def toy(play: Playground, body: str) -> Finished:
    return run_on_ray(play, textwrap.dedent(body), RAY_AUTH_MODE="disabled")


def told_by(done: Finished) -> dict[str, object]:
    assert done.code == 0, done
    found: dict[str, object] = json.loads(next(line for line in reversed(done.out.splitlines()) if line.startswith("{")))
    return found


@pytest.mark.slow
def test_a_lost_node_costs_no_task(play: Playground) -> None:
    """A whole node of the cluster goes: what its stations had in hand is done by those of the others, each task once."""
    done = toy(
        play,
        """
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1})
        other = cluster.add_node(num_cpus=1, num_gpus=2)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        with stations_on_ray() as executor:
            await_all(executor, 3)
            say(executor, *give_out(executor, lambda: cluster.remove_node(other, allow_graceful=False), left=1))
        ray.shutdown()
        cluster.shutdown()
        """,
    )
    assert told_by(done) == {"each once": True, "lost": 0, "left": 1}


@pytest.mark.slow
def test_when_all_are_lost_it_is_told(play: Playground) -> None:
    """With no station left, every task in hand is told of as lost, and nobody waits for ever."""
    done = toy(
        play,
        """
        on(gpus=1)
        with stations_on_ray() as executor:
            victim = int(executor.places[0])
            told, _ = give_out(executor, lambda: os.kill(victim, signal.SIGKILL), left=0)
            told += executor.results(5)
            reasons = {each.lost.split(": ")[0] for each in told if each.lost}
            print(json.dumps({"lost": reasons == {f"{victim} was lost"}, "left": len(executor.places)}))
        """,
    )
    assert told_by(done) == {"lost": True, "left": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("on(gpus=0)", "The Ray cluster offers no GPU."),
        ("on(gpus=1)\n    def prepare(held): raise ValueError('no repository here')", "No station started on the Ray cluster: "),
        ("os.environ['RAY_ADDRESS'] = '127.0.0.1:1'", "The Ray cluster at 127.0.0.1:1 cannot be joined"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_said(play: Playground, body: str, sentence: str) -> None:
    """No GPU in it, no station that starts, or nobody at the address: one sentence."""
    done = toy(
        play,
        f"""
try:
    {body}
    with stations_on_ray():
        print("started")
except RatchetError as error:
    print(json.dumps({{"sentence": str(error)}}))
""",
    )
    assert str(told_by(done)["sentence"]).startswith(sentence)


SILENT = """
import os, socket, sys

from ratchet.core.errors import RatchetError
from ratchet.tune.ray_stations import ray_actors

with socket.create_server(("127.0.0.1", 0)) as silent:
    os.environ["RAY_ADDRESS"] = f"127.0.0.1:{silent.getsockname()[1]}"
    try:
        with ray_actors(lambda held: None, os.environ):
            print("joined")
    except RatchetError as error:
        print(error, file=sys.stderr)
"""


@pytest.mark.slow
def test_an_address_that_answers_nothing_is_given_up(play: Playground) -> None:
    """Something listens there and is no Ray, or one that died: one sentence, after Ray's first try of 40 s."""
    done = run_script(play, SILENT)
    assert done.out == ""
    assert re.fullmatch(r"The Ray cluster at 127\.0\.0\.1:\d+ cannot be joined: .*", done.err.splitlines()[-1]), done.err


KNOBS = """
import time

import torch
from ratchet import Workload, benchmark


@benchmark(configs={"small": {"size": 256}}, devices=("cpu",))
def knobs(*, device, size):
    x = torch.randn(size, device=device)

    def run(REPEAT):
        for _ in range(REPEAT):
            x + 1
        time.sleep(REPEAT * 5e-5)
        return x + 1

    return Workload(
        run=run, reference=lambda: x.double() + 1, dtype="float32", flops=size, bytes=8 * size,
        tune={"REPEAT": (0, 10, 20, 40, 80, 160)}, tuning={"REPEAT": 40},
    )
"""


COMMAND = """
import subprocess
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 2})
environ = os.environ | {"RAY_ADDRESS": cluster.address}
sys.exit(subprocess.run([sys.executable, "-m", "ratchet", *sys.argv[1:]], env=environ).returncode)
"""


@pytest.mark.slow
def test_the_command_tunes_on_a_cluster(make: Callable[..., Playground]) -> None:
    """`ratchet tune --executor ray` measures in processes of the cluster that RAY_ADDRESS names, and shows no notice of Ray's."""
    play = make({"bench/knobs.py": KNOBS}, settings="blocks = 2\n")
    words = ("tune", "--device", "cpu", "knobs/small", "--executor", "ray", "--time-budget", "4m", "--json")
    done = run_on_ray(play, COMMAND, *words)
    assert done.code == 0, done
    assert "RAY_" not in done.err
    record = TuningRecord.model_validate_json(done.out)
    assert record.sessions[-1].executor == "ray"
    assert len(record.evaluations) == 6
    assert record.best == {"REPEAT": 0}
