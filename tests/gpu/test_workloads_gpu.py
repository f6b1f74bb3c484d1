"""Workloads as people have them, on a GPU: in place, optimizers, caches, modules, trees, no reference, host functions."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from ratchet import Workload  # noqa: E402  after the skip: importing a clock must not need a GPU
from ratchet.core.bench.child.calls import TimedCall  # noqa: E402  as above
from ratchet.core.bench.child.correctness import WrongResult, check, evidence  # noqa: E402  as above
from ratchet.core.bench.child.outputs import parts, sketch  # noqa: E402  as above
from ratchet.core.bench.child.worker import make_clock  # noqa: E402  as above
from ratchet.core.bench.messages import between_sides  # noqa: E402  as above
from ratchet.core.records.verdict import Outcome  # noqa: E402  as above
from tests.integration.playground import Playground, commit, new_repository  # noqa: E402  as above

SIZE = 1 << 20


def x(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.randn(SIZE, device="cuda")


@dataclasses.dataclass
class Out:
    low: Any
    more: dict[str, Any]


def in_place() -> Workload:
    value = x()
    return Workload(run=lambda: value.mul_(1.5), mutates=(value,), reference=lambda: value.double() * 1.5)


def cache() -> Workload:
    """A KV cache that each call fills from the same place on."""
    keys, new, state = torch.zeros(64, SIZE // 64, device="cuda"), x()[: SIZE // 64], {"at": 0}

    def run() -> None:
        keys[state["at"]].copy_(new)
        state["at"] += 1

    def reference() -> Any:
        return torch.cat(
            [torch.zeros(2, SIZE // 64, device="cuda"), new[None], torch.zeros(61, SIZE // 64, device="cuda")]
        ).double()

    return Workload(run=run, mutates=(keys,), setup=lambda: state.update(at=2), reference=reference)


def training(**options: Any) -> Workload:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 16)).cuda()
    steps = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
    inputs = torch.randn(512, 256, device="cuda")

    def run() -> Any:
        steps.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        steps.step()
        return {"loss": loss, "aux": None}

    return Workload(run=run, mutates=(model, steps))


def module() -> Workload:
    torch.manual_seed(1)
    model = torch.nn.TransformerEncoderLayer(64, 4, dropout=0.0, batch_first=True).cuda().eval()
    inputs = torch.randn(4, 32, 64, device="cuda")

    @torch.inference_mode()
    def run() -> Any:
        return model(inputs)

    return Workload(run=run)


def five_lines() -> Workload:
    value = x()
    return Workload(run=lambda: value + 1)


def tree() -> Workload:
    value = x()

    def of(value: Any) -> Out:
        return Out(value * 2, {"sums": [value.sum(), None]})

    return Workload(run=lambda: of(value), reference=lambda: of(value.double()))


KINDS: dict[str, Callable[[], Workload]] = {
    each.__name__: each for each in (in_place, cache, training, module, five_lines, tree)
} | {"capturable": lambda: training(capturable=True)}
IN_A_GRAPH = ("in_place", "capturable", "module", "tree")


@pytest.mark.parametrize("kind", KINDS)
def test_kind_passes(kind: str) -> None:
    """Each kind passes its check on the GPU, and two workloads that are built alike agree."""
    sides = []
    for _ in range(2):
        call = TimedCall(KINDS[kind]())
        sides.append(evidence(call.workload, check(call).parts))
    assert between_sides(*sides).problem is None


@pytest.mark.parametrize(("name", "kind"), [*(("event", kind) for kind in KINDS), *(("graph", kind) for kind in IN_A_GRAPH)])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_clocks_restore(name: str, kind: str, cache: Any) -> None:
    """After any number of samples by the event and the graph clock, a call still gives the result of the first one."""
    call = TimedCall(KINDS[kind]())
    torch.manual_seed(7)
    first = {place: part.clone() for place, part in call.outputs(call()).items() if isinstance(part, torch.Tensor)}
    clock = make_clock(name, cache, call.run, before=call.before)
    for _ in range(3):
        assert min(clock.take(5).times_ms) > 0
    torch.manual_seed(7)
    for place, part in call.outputs(call()).items():
        if place in first:
            torch.testing.assert_close(part, first[place], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["event", "graph"])
def test_a_restore_is_not_timed(name: str) -> None:
    """Restoring a hundred times as much as a call touches adds nothing to the samples of the call."""
    large, small = torch.randn(100 * SIZE, device="cuda"), x()

    def median_ms(before: Any) -> float:
        clock = make_clock(name, "warm", lambda: small.mul_(1.0), before=before)
        for _ in range(3):  # the lead adapts itself
            clock.take(10)
        return statistics.median(clock.take(20).times_ms)

    copy = large.clone()
    restored = median_ms(lambda: large.copy_(copy))
    assert restored < 0.1  # copying takes longer than that on any GPU of today; the call takes some microseconds


def test_undeclared_change_is_named() -> None:
    """An in-place kernel that does not say so is refused with a sentence that names mutates."""
    value = x()
    with pytest.raises(WrongResult, match="name them in mutates"):
        check(TimedCall(Workload(run=lambda: value.mul_(1.5))))


def test_sketches_of_both_devices_agree() -> None:
    """A tensor has the same sketch on the GPU as on the CPU."""
    value = x()
    on_gpu, on_cpu = sketch(value), sketch(value.cpu())
    assert on_gpu[0] == pytest.approx(on_cpu[0], rel=1e-12)
    assert on_gpu[1] == pytest.approx(on_cpu[1], rel=1e-9, abs=1e-9)
    made, numbers = Workload(run=lambda: None), torch.randint(-9, 9, (SIZE,))
    assert evidence(made, parts(numbers)) == evidence(made, parts(numbers.cuda()))


BENCH = """\
import time
import numpy as np
import torch
from ratchet import Workload, benchmark

@benchmark
def add(device):
    x = torch.randn(1 << 22, device=device)
    return lambda: x + 1

@benchmark
def in_place(device):
    x = torch.randn(1 << 22, device=device)
    return Workload(run=lambda: x.mul_(1.5), mutates=(x,), reference=lambda: x.double() * 1.5, clock="graph")

@benchmark
def training(device):
    model = torch.nn.Linear(512, 512).to(device)
    steps, x = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.randn(512, 512, device=device)
    def run():
        steps.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        steps.step()
        return {"loss": loss}
    return Workload(run=run, mutates=(model, steps))

@benchmark
def on_host():
    values = np.random.rand(10000)
    return lambda: np.sort(values)

@benchmark
def reads_back(device):
    x = torch.randn(1 << 20, device=device)
    return lambda: x.sum().item()

@benchmark
def differs(device):
    x = torch.randn(1 << 20, device=device)
    return lambda: x + WRONG

WRONG = 0.0
"""


def test_check(tmp_path: Path) -> None:
    """A check on the GPU times every kind by the right clock, and a result that differs between the sides is FAILED."""
    new_repository(tmp_path / "repo", {"bench/kinds.py": BENCH})
    commit(tmp_path / "repo", "one result is another", {"bench/kinds.py": BENCH.replace("WRONG = 0.0", "WRONG = 0.5")})
    done = Playground(tmp_path).ratchet(
        "check", "--device", "cuda", "--pairs", "6", "--gate", "50%", "--time-identical", env={"RATCHET_BUDGET": "0"}
    )
    failed = {name for name, outcome in done.outcomes().items() if outcome in (Outcome.FAILED, Outcome.UNFIT)}
    assert failed == {"differs/default"}, done
    workloads = {case.name.partition("/")[0]: case.workload for case in done.run.cases if case.workload}
    clocks = {name: (one.device, one.clock, one.cache) for name, one in workloads.items() if name != "differs"}
    assert clocks == {
        "add": ("cuda", "event", "cold"),
        "in_place": ("cuda", "graph", "warm"),
        "training": ("cuda", "event", "cold"),
        "on_host": ("cpu", "cpu", "warm"),
        "reads_back": ("cpu", "cpu", "warm"),
    }
    assert (
        done.verdict("add/default").unchecked
        == "No expected result is given: both sides agree within 1e-4, and nothing else was checked."
    )
