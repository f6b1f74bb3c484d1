"""The declaration of benchmarks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ratchet import Benchmark, Workload, benchmark
from ratchet.workload import SpaceError, constraint_names, constraint_text, dtype_name

MADE = {"run": lambda: None, "reference": lambda: None, "dtype": "float32", "flops": 2.0, "bytes": 8.0}
SPACE: dict[str, Any] = {"tune": {"block": (16, 32)}, "tuning": {"block": 32}}
CONFIGS = {"small": {"rows": 2}, "large": {"rows": 2000}}


def declare(function: Any = None, **changes: Any) -> Benchmark:
    def softmax(device: torch.device, rows: int) -> Workload:
        return Workload(**MADE)

    return benchmark(**({"configs": CONFIGS} | changes))(function or softmax)


def test_benchmark() -> None:
    """A decorated function is a benchmark of its name, and calling it builds its workload."""
    made = declare()
    assert (made.name, made.configs, made.requires) == ("softmax", {"cuda": CONFIGS}, ())
    assert made(device=torch.device("cpu"), rows=2).flops == 2.0
    assert declare(name="row-softmax.v2+").name == "row-softmax.v2+"
    assert declare(requires=["triton"]).requires == ("triton",)


def test_devices() -> None:
    """Each device has the configs, the CPU its own where they are given."""
    small = {"tiny": {"rows": 1}}
    assert declare(devices=("cuda", "cpu"), cpu_configs=small).configs == {"cuda": CONFIGS, "cpu": small}
    assert declare(devices=("cpu",)).configs == {"cpu": CONFIGS}


def test_configs_are_copied() -> None:
    """A dictionary changed after the declaration changes no benchmark."""
    configs = {"small": {"rows": 2}}
    made = declare(configs=configs)
    configs["small"]["rows"] = 3
    assert made.configs["cuda"] == {"small": {"rows": 2}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": ()}, "devices are some of"),
        ({"devices": ("tpu",)}, "devices are some of"),
        ({"devices": "cuda"}, "devices are some of"),
        ({"cpu_configs": CONFIGS}, 'cpu_configs needs "cpu" among devices'),
        ({"configs": {}}, "benchmark softmax has no configs"),
        ({"devices": ("cuda", "cpu"), "cpu_configs": {}}, "benchmark softmax has no configs"),
        ({"name": "soft max"}, "'soft max' cannot name"),
        ({"name": "a/b"}, "'a/b' cannot name"),
        ({"configs": {"": {"rows": 1}}}, "'' cannot name"),
        ({"configs": {"a*": {"rows": 1}}}, "'a[*]' cannot name"),
        ({"configs": {"a": {"columns": 1}}}, "softmax/a: the function does not take these parameters and device: "),
        ({"configs": {"a": {}}}, "missing a required argument: 'rows'"),
        ({"configs": {"a": {"rows": 1, "device": "cpu"}}}, "softmax/a: the function does not take"),
        ({"configs": {"a": {"rows": [1]}}}, r"softmax/a: rows is \[1\]; a parameter is a number, a string or a bool"),
        ({"configs": {"a": {"rows": None}}}, "rows is None"),
        ({"configs": {"a": {"rows": math.nan}}}, "rows is nan"),
        ({"configs": {"a": {"rows": torch.float16}}}, "rows is torch.float16"),
        ({"requires": "triton"}, r"requires is a list of names: write \['triton'\]"),
    ],
)
def test_a_declaration_that_cannot_work(changes: dict[str, Any], said: str) -> None:
    """What could only fail later is refused at once, with a sentence."""
    with pytest.raises(ValueError, match=said):
        declare(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flops": 0, "bytes": 0}, "not both 0"),
        ({"flops": -1.0}, "finite FLOPs and bytes"),
        ({"bytes": math.nan}, "finite FLOPs and bytes"),
        ({"bytes": math.inf}, "finite FLOPs and bytes"),
        ({"tune": {"BLOCK": (16, 32)}}, r"tune names \['BLOCK'\], tuning \[\]"),
        ({"tuning": {"BLOCK": 16}}, r"tune names \[\], tuning \['BLOCK'\]"),
        ({"constraints": (lambda block: block > 16,)}, "a constraint takes block, which is not in tune: .*lambda block"),
        (SPACE | {"constraints": (lambda: True,)}, "a constraint's arguments are names of parameters in tune: .*lambda: True"),
        (SPACE | {"constraints": (lambda **every: True,)}, "a constraint's arguments are names"),
        (SPACE | {"constraints": (lambda block, warps: True,)}, "a constraint takes warps, which is not in tune"),
        (SPACE | {"constraints": (lambda block: block > 32,)}, "tuning {'block': 32} does not hold the constraint: .*block > 32"),
        ({"tune": {"BLOCK": (16, 32)}, "tuning": {"BLOCK": 64}}, r"BLOCK=64 is not among the values of tune: \[16, 32\]"),
    ],
)
def test_an_impossible_workload(changes: dict[str, Any], said: str) -> None:
    """Work without size, or a tuning outside its space, is refused; the latter is told apart for `ratchet tune`."""
    with pytest.raises(ValueError, match=said) as refused:
        Workload(**(MADE | changes))
    assert isinstance(refused.value, SpaceError) == changes.keys().isdisjoint({"flops", "bytes"})


def test_workload() -> None:
    """A pure copy has no FLOPs, and a tuning lies in its space."""
    made = Workload(**(MADE | {"flops": 0, "tune": {"BLOCK": (16, 32)}, "tuning": {"BLOCK": 32}}))
    assert (made.clock, made.tolerance, made.stages) == ("event", {}, {})


def test_constraints() -> None:
    """A constraint is about the parameters that its arguments name; an argument with a default is its own affair."""

    def fits(block: int, limit: int = 64) -> bool:
        return limit >= block

    assert Workload(**(MADE | SPACE | {"constraints": (fits,)})).constraints == (fits,)
    assert constraint_names(fits) == ("block",)
    assert constraint_text(fits) == "def fits(block: int, limit: int = 64) -> bool: return limit >= block"
    assert constraint_text(max) == "max"


def test_dtype_name() -> None:
    """A dtype's name is torch's without the module."""
    assert dtype_name(torch.bfloat16) == dtype_name("bfloat16") == "bfloat16"
