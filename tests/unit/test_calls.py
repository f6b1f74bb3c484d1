"""Workloads as people have them: in place, optimizers, modules, any tree of outputs, no reference, on the host."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from ratchet import Workload
from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.calls import TimedCall, seed_all
from ratchet.core.bench.child.correctness import WrongResult, check, evidence
from ratchet.core.bench.messages import between_sides
from ratchet.tune.child import Trials

pytestmark = pytest.mark.no_cover


@dataclasses.dataclass
class Moments:
    mean: torch.Tensor
    squares: list[torch.Tensor | None]


def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(64)


def on(run: Callable[[torch.Tensor], Any], **fields: Any) -> Workload:
    value = x()
    return Workload(run=lambda: run(value), **fields)


def in_place() -> Workload:
    value = x()
    return Workload(run=lambda: value.mul_(1.5), mutates=(value,), reference=lambda: value.double() * 1.5)


def pure_mutation() -> Workload:
    value, kept = x(), x()

    def run() -> None:
        value.add_(1)

    return Workload(run=run, mutates=value, reference=lambda: kept.double() + 1)


def two_mutated() -> Workload:
    low, high = x(), x()

    def run() -> None:
        low.sub_(1)
        high.add_(1)

    return Workload(run=run, mutates=(low, high), reference=lambda: (low.double() - 1, high.double() + 1))


def cache() -> Workload:
    """A cache that grows by one entry in each call, and goes back to where it was."""
    state = {"length": 0}
    keys = torch.zeros(4, 8)
    new = torch.randn(8)

    def run() -> torch.Tensor:
        keys[state["length"]] = new
        state["length"] += 1
        return keys[: state["length"]].sum(0)

    return Workload(run=run, mutates=(keys,), setup=lambda: state.update(length=2), reference=new.double)


def training(optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW, **options: Any) -> Workload:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    steps = optimizer(model.parameters(), lr=1e-2, **options)  # type: ignore[call-arg]  each optimizer takes lr
    inputs, labels = torch.randn(32, 8), torch.randint(0, 4, (32,))

    def run() -> dict[str, torch.Tensor | None]:
        steps.zero_grad()
        loss = cross_entropy(model(inputs), labels)
        loss.backward()
        steps.step()
        return {"loss": loss, "aux": None}

    return Workload(run=run, mutates=(model, steps))


def module() -> Workload:
    torch.manual_seed(1)
    model, inputs = torch.nn.TransformerEncoderLayer(16, 2, dropout=0.0, batch_first=True), torch.randn(2, 5, 16)
    return Workload(run=lambda: model(inputs))


def lazy_module() -> Workload:
    torch.manual_seed(1)
    model, inputs = torch.nn.LazyLinear(4), torch.randn(2, 5)
    return Workload(run=lambda: model(inputs).sum().backward(), mutates=(model,))


def tree() -> Workload:
    value = x()

    def of(value: torch.Tensor) -> dict[str, Any]:
        return {"loss": value.sum(), "moments": Moments(value.mean(), [value.square(), None])}

    return Workload(run=lambda: of(value), reference=lambda: of(value.double()))


def on_host() -> Workload:
    values = np.random.default_rng(1).random(100)
    return Workload(run=lambda: {"sorted": np.sort(values), "largest": max(values), "count": len(values), "name": "numpy"})


def inference() -> Workload:
    value = x()

    @torch.inference_mode()
    def run() -> torch.Tensor:
        return value * 2

    return Workload(run=run, reference=lambda: value.double() * 2)


KINDS: dict[str, Callable[[], Workload]] = {
    each.__name__: each
    for each in (in_place, pure_mutation, two_mutated, cache, training, module, lazy_module, tree, on_host, inference)
} | {
    "momentum": lambda: training(torch.optim.SGD, momentum=0.9),
    "plain_sgd": lambda: training(torch.optim.SGD),
    "rprop": lambda: training(torch.optim.Rprop),
    "expanded": lambda: on(lambda v: v[:1].expand(64)),
    "uneven": lambda: on(lambda v: (v.sum(), v.long(), v > 0, 3, None)),
    "random_on_the_host": lambda: Workload(run=lambda: (np.random.rand(3), random.random())),
    "dropout": lambda: on(lambda v: torch.dropout(v, 0.5, True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_passes(kind: str) -> None:
    """Each kind of workload passes its check, and the results of two workloads that are built alike agree."""
    sides = []
    for _ in range(2):
        call = TimedCall(KINDS[kind]())
        for _ in range(3):  # as before a check in the same process
            call()
        sides.append(evidence(call.workload, check(call).parts))
    assert between_sides(*sides).problem is None


@pytest.mark.parametrize("kind", KINDS)
def test_calls_repeat(kind: str) -> None:
    """However often a workload was called, the next call begins with what the first one began with."""
    call = TimedCall(KINDS[kind]())
    found = []
    for _ in range(3):
        seed_all(3)
        found.append({place: _plain(part) for place, part in call.evidence(call()).items()})
    assert found[0].keys() == found[1].keys() == found[2].keys()
    for place, part in found[0].items():
        np.testing.assert_array_equal(found[1][place], part)
        np.testing.assert_array_equal(found[2][place], part)


def _plain(part: outputs.Part) -> Any:
    return part.clone().numpy() if isinstance(part, torch.Tensor) else part.value


def test_an_optimizer_goes_back_whole() -> None:
    """Parameters, moments, counts of steps, learning rate and buffers are what they were; gradients are gone."""
    made = training()
    model, steps = made.mutates
    call = TimedCall(made)
    call.before()  # type: ignore[misc]  it has something to restore
    before = [each.clone() for each in (*model.parameters(), *model.buffers())]
    state = {key: value.clone() for key, value in steps.state[next(model.parameters())].items()}
    steps.param_groups[0]["lr"] = 1.0
    call.run()
    assert steps.param_groups[0]["lr"] == 1.0
    assert next(model.parameters()).grad is not None
    call.before()  # type: ignore[misc]  as above
    assert all(map(torch.equal, before, (*model.parameters(), *model.buffers())))
    assert all(torch.equal(value, steps.state[next(model.parameters())][key]) for key, value in state.items())
    assert steps.param_groups[0]["lr"] == 1e-2
    assert all(each.grad is None for each in model.parameters())


def test_setup_comes_after_the_restore_and_before_the_call() -> None:
    """What setup sees has its content back, and what it changes is there for the call."""
    value, seen = torch.zeros(1), []

    def setup() -> None:
        seen.append(float(value))
        value.fill_(5)

    call = TimedCall(Workload(run=lambda: value.add_(1).clone(), mutates=[value], setup=setup))
    assert [float(call()), float(call())] == [6.0, 6.0]  # type: ignore[arg-type]  it returns a tensor
    assert seen == [0.0, 0.0]


def test_nothing_to_restore_costs_nothing() -> None:
    """A workload that names nothing has no hook before its calls."""
    call = TimedCall(Workload(run=lambda: torch.ones(1)))
    assert call.before is None
    assert call.kept.device_bytes == 0


def test_iterators_are_kept() -> None:
    """``mutates=model.parameters()`` names the parameters, not an iterator that is empty afterwards."""
    model = torch.nn.Linear(2, 2)
    made = Workload(run=lambda: None, mutates=model.parameters())
    assert len(made.mutates) == 2
    assert dataclasses.replace(made, tuning={}).mutates == made.mutates


def overwrites_logits() -> Workload:
    """As a fused cross entropy does: the gradient takes the place of its input."""
    logits = x().reshape(8, 8)

    def run() -> torch.Tensor:
        loss = logits.logsumexp(1).mean()
        logits.copy_(logits.softmax(1))
        return loss

    return Workload(run=run)


def accumulates() -> Workload:
    total = torch.zeros(8)

    def run() -> torch.Tensor:
        total.add_(1)
        return total.clone()

    return Workload(run=run, reference=lambda: torch.ones(8).double())


def changes_shape() -> Workload:
    calls: list[int] = []

    def run() -> torch.Tensor:
        calls.append(1)
        return torch.ones(len(calls))

    return Workload(run=run)


def softmax_in_place() -> Workload:
    return on(lambda value: value.copy_(value.softmax(0)), reference=lambda: x().double().softmax(0))


UNDECLARED: dict[str, Callable[[], Workload]] = {
    "scale": lambda: on(lambda v: v.mul_(1.5)),
    "scale_with_reference": lambda: on(lambda v: v.mul_(1.5), reference=lambda: x().double() * 1.5),
    "overwrites": overwrites_logits,
    "overwrites_with_reference": lambda: dataclasses.replace(
        overwrites_logits(), reference=lambda: x().double().reshape(8, 8).logsumexp(1).mean()
    ),
    "accumulates": accumulates,
    "changes_shape": changes_shape,
    "softmax": softmax_in_place,
    "input": lambda: on(lambda v: (v, v + 1)),
}


@pytest.mark.parametrize("kind", UNDECLARED)
def test_an_undeclared_change_is_named(kind: str) -> None:
    """A run that changes its inputs without saying so is refused with a sentence that names mutates."""
    with pytest.raises(WrongResult, match=r"If run changes its inputs, name them in mutates=\(…\) of the Workload"):
        check(TimedCall(UNDECLARED[kind]()))


@pytest.mark.parametrize(
    "run",
    [
        lambda v: v * 1.01,
        lambda v: v * math.nan,
        lambda v: torch.cat([v[:-1], v[-1:] * 2]),
        lambda v: v * torch.where(torch.rand(64) < 0.5, 1.0, 2.0),
    ],
)
def test_a_wrong_result_is_not_blamed_on_inputs(run: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A result that is wrong in every call is wrong, without advice about mutates."""
    value = x()
    with pytest.raises(WrongResult) as refused:
        check(TimedCall(Workload(run=lambda: run(value), reference=value.double)))
    assert "mutates" not in str(refused.value)


def test_an_unwritten_element_is_not_blamed_on_inputs() -> None:
    """An element that nobody writes is told as what it is."""
    kept, ref = x(), x()

    def run() -> torch.Tensor:
        kept[:3] = ref[:3]
        return kept

    with pytest.raises(WrongResult) as refused:
        check(TimedCall(Workload(run=run, reference=ref.double)))
    assert "mutates" not in str(refused.value)


@pytest.mark.parametrize(
    ("result", "reference", "said"),
    [
        ({"loss": 1.5}, {"loss": 2.5}, r"output \['loss'\] is off by"),
        (
            {"loss": 1.5},
            {"lost": 1.5},
            r"run returns output \['loss'\], the expected result does not: it returns output \['lost'\]",
        ),
        ((((),), 1), {"loss": 1.5}, r"run returns output \[0\]\[0\], the expected result does not"),
        ((1.5, None), (1.5, 2.5), r"output \[1\] is None, the expected result float64 \(\)"),
        ((1.5, 2), (1.5, 3), r"output \[1\] is 2, the expected result 3"),
        ((1.5, "a"), (1.5, "b"), r"output \[1\] is 'a', the expected result 'b'"),
        (np.ones(3), np.ones(4), r"the output has shape \(3,\), the expected result \(4,\)"),
        (np.array([1.0, math.nan]), np.array([1.0, math.nan]), "holds NaN"),
        (math.nan, math.nan, "holds NaN"),
    ],
)
def test_a_mismatch_names_its_place(result: Any, reference: Any, said: str) -> None:
    """A result that differs from its reference in structure or value is refused with the place."""
    with pytest.raises(WrongResult, match=said):
        check(TimedCall(Workload(run=lambda: result, reference=lambda: reference)))


def test_a_number_may_stand_beside_a_tensor() -> None:
    """A count that the reference has as a tensor, or a float as an array, is the same number."""
    made = Workload(run=lambda: (3, 2.5), reference=lambda: (torch.tensor(3), np.float64(2.5)))
    assert check(TimedCall(made)).error == 0.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Workload(run=lambda: None), r"run returns nothing that can be checked: return its result, or name in mutates=…"),
        (lambda: Workload(run=lambda: (None, {})), "run returns nothing that can be checked"),
        (lambda: Workload(run=lambda: iter([1])), "whose work is not done yet"),
        (lambda: Workload(run=lambda: None, mutates=(3,)), "the mutated tensor is a int: mutates names tensors, modules, optim"),
        (lambda: Workload(run=lambda: None, mutates={"a": torch.ones(1), "b": object()}), r"mutated tensor \['b'\] is a object"),
        (lambda: Workload(run=lambda: None, mutates=(torch.ones(1).expand(4),)), "the mutated tensor is an expanded view"),
        (lambda: Workload(run=lambda: None, mutates=(torch.ones(4, device="meta"),)), "not stored element by element"),
        (lambda: Workload(run=lambda: None, mutates=(torch.nn.Identity(),)), "run returns nothing that can be checked"),
    ],
)
def test_what_cannot_work(make: Callable[[], Workload], said: str) -> None:
    """A workload that cannot be checked or restored is refused with what to write instead."""
    with pytest.raises((TypeError, ValueError), match=said):
        check(TimedCall(make()))


def test_a_run_that_raises_on_its_second_call() -> None:
    """The author's own error comes through, whatever the check is about to do."""
    calls: list[int] = []

    def run() -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("once only")
        return torch.ones(3)

    with pytest.raises(RuntimeError, match="once only"):
        check(TimedCall(Workload(run=run)))


def test_sides_that_differ() -> None:
    """Without a reference, two sides whose results differ are wrong, with the place and a hint."""
    sides = [evidence(made, check(TimedCall(made)).parts) for made in (_scaled(1.0), _scaled(1.01))]
    said = between_sides(*sides).problem
    assert said.startswith("wrong result: output ['y'] is off by 9.80e-03")
    assert "the case has no expected result, so one of the two is wrong, or their inputs differ" in said
    near = [evidence(made, check(TimedCall(made)).parts) for made in (_scaled(1.0), _scaled(1 + 1e-6))]
    assert between_sides(*near).problem is None
    assert 0 < between_sides(*near).error < between_sides(*near).limit == 1e-4


def _scaled(by: float) -> Workload:
    return on(lambda v: {"y": v * by})


def test_tuning_without_a_reference() -> None:
    """A configuration has to give the result that today's values give; what it changes is restored for each of them."""
    value = x()
    made = Workload(
        run=lambda BLOCK: value.mul_(2.0 if BLOCK < 64 else 3.0),  # noqa: N803
        mutates=(value,),
        tune={"BLOCK": (16, 32, 64)},
        tuning={"BLOCK": 16},
    )
    trials = Trials((made,))
    for block in (16, 32, 16):
        (call,) = trials.tuned({"BLOCK": block})
        assert trials.check(call)[0] == 0.0
    with pytest.raises(WrongResult, match=r"the output is off by 5.00e-01"):
        trials.check(trials.tuned({"BLOCK": 64})[0])
