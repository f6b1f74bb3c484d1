"""The declaration of benchmarks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ratchet import Benchmark, Workload, benchmark
from ratchet.core.workload import SpaceError, constraint_names, constraint_text, dtype_name

MADE = {"run": lambda **_: None, "reference": lambda: None, "dtype": "float32", "flops": 2.0, "bytes": 8.0}
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


def test_five_lines() -> None:
    """A bare decorator makes a benchmark with one config for every device, and a returned callable is what is timed."""

    @benchmark
    def add(device: torch.device) -> Any:
        x = torch.ones(3, device=device)
        return lambda: x + 1

    assert (add.name, add.configs, add.on_host) == ("add", {"cuda": {"default": {}}, "cpu": {"default": {}}}, False)
    made = add(device=torch.device("cpu"))
    assert made.run().tolist() == [2.0] * 3
    assert (made.reference, made.dtype, made.flops, made.bytes, made.is_restored) == (None, None, None, None, False)


def test_forms() -> None:
    """Parentheses without configs mean the same as none; configs and devices are what is written; keyword-only is fine."""

    def keyword(*, device: torch.device) -> Any: ...

    def anything(**words: Any) -> Any: ...

    assert benchmark()(keyword).configs == benchmark(keyword).configs
    assert benchmark(name="other")(keyword).name == "other"
    assert benchmark(devices=("cuda",))(keyword).configs == {"cuda": {"default": {}}}
    assert benchmark(configs={"a": {}})(keyword).configs == {"cuda": {"a": {}}}
    assert not benchmark(anything).on_host


def test_host_functions() -> None:
    """A function without a device is timed on the host of any machine, and gets no device."""

    def parse(size: int = 3) -> Any:
        return lambda: sum(range(size))

    made = benchmark(configs={"small": {"size": 4}})(parse)
    assert made.on_host
    assert set(made.configs) == {"cuda", "cpu"}
    assert made(device=torch.device("cpu"), size=5).run() == 10


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (torch.ones(1), "benchmark add returned Tensor: return a function without arguments that is timed"),
        (None, "benchmark add returned NoneType: return a function"),
        (lambda x: x, "the function that benchmark add returned is called with no arguments: missing a required argument: 'x'"),
        (torch.nn.Linear(1, 1).forward, "is called with no arguments"),
    ],
)
def test_what_a_benchmark_cannot_return(returned: Any, said: str) -> None:
    """A benchmark that returns neither a callable nor a Workload is told what to return."""
    with pytest.raises(TypeError, match=said):
        _returning(returned)(device=None)


def _returning(returned: Any) -> Benchmark:
    def add(device: torch.device) -> Any:
        return returned

    return benchmark(add)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda device, n: None,
            r"the function does not take these parameters and device: missing a required argument: 'n'. Its",
        ),
        (
            lambda where: None,
            "the function does not take these parameters: missing a required argument: 'where'. Its arguments are",
        ),
    ],
)
def test_a_function_that_needs_configs(function: Any, said: str) -> None:
    """A function with arguments that nothing gives is refused with what its arguments may be."""
    function.__name__ = "add"
    with pytest.raises(ValueError, match=said):
        benchmark(function)
    with pytest.raises(ValueError, match="write @benchmark or @benchmark"):
        benchmark("add")  # type: ignore[call-overload]  as somebody might write it


def test_devices() -> None:
    """Each device has the configs, the CPU its own where they are given."""
    small = {"tiny": {"rows": 1}}
    assert declare(devices=("cuda", "cpu"), cpu_configs=small).configs == {"cuda": CONFIGS, "cpu": small}
    assert declare(devices=("cpu",)).configs == {"cpu": CONFIGS}


def test_a_function_gets_its_variant() -> None:
    """The first variant is the benchmark's own; another one is asked for by name. It is no parameter of a config."""

    @benchmark(configs={"a": {"rows": 2}}, variants=("ours", "torch"))
    def named(device: object, rows: int, variant: str) -> Any:
        return lambda: (rows, variant)

    assert named(device=None, rows=2).run() == (2, "ours")
    assert named(device=None, rows=2, variant="torch").run() == (2, "torch")
    assert named.configs["cuda"] == {"a": {"rows": 2}}


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
        ({"configs": ["a"]}, r"configs names configs and their parameters, such as .* not \['a'\]"),
        ({"configs": {"a": 3}}, "configs names configs and their parameters"),
        ({"devices": ("cpu",), "cpu_configs": {"a": 3}}, "cpu_configs names configs"),
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
        ({"variants": "ours"}, r"variants is a list of names: write \['ours'\]"),
        ({"variants": ("ours", "torch")}, "these parameters and device and variant: got an unexpected keyword"),
    ],
)
def test_a_declaration_that_cannot_work(changes: dict[str, Any], said: str) -> None:
    """What could only fail later is refused at once, with a sentence."""
    with pytest.raises(ValueError, match=said):
        declare(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flops": 0, "bytes": 0}, "a workload declares finite FLOPs and bytes, not both 0"),
        ({"flops": -1.0}, "a workload declares finite FLOPs and bytes"),
        ({"bytes": math.nan}, "a workload declares finite FLOPs and bytes"),
        ({"bytes": math.inf}, "a workload declares finite FLOPs and bytes"),
        ({"tune": {"BLOCK": (16, 32)}}, r"tune names \['BLOCK'\], tuning \[\]"),
        ({"tuning": {"BLOCK": 16}}, r"tune names \[\], tuning \['BLOCK'\]"),
        ({"constraints": (lambda block: block > 16,)}, "a constraint takes block, which is not in tune: .*lambda block"),
        (SPACE | {"constraints": (lambda: True,)}, "a constraint's arguments are names of parameters in tune: .*lambda: True"),
        (SPACE | {"constraints": (lambda **every: True,)}, "a constraint's arguments are names"),
        (SPACE | {"constraints": (lambda block, warps: True,)}, "a constraint takes warps, which is not in tune"),
        (
            SPACE | {"constraints": (lambda block: block > 32,)},
            r"tuning \{'block': 32\} does not hold the constraint: .*block > 32",
        ),
        ({"tune": {"BLOCK": (16, 32)}, "tuning": {"BLOCK": 64}}, r"tuning BLOCK=64 is not among the values of tune: \[16, 32\]"),
    ],
)
def test_an_impossible_workload(changes: dict[str, Any], said: str) -> None:
    """Work without size, or a tuning outside its space, is refused; the latter is told apart for `ratchet tune`."""
    # From its beginning: a sentence quotes the line of a constraint, which has the words that are looked for, too.
    with pytest.raises(ValueError, match=f"^{said}") as refused:
        Workload(**(MADE | changes))
    assert isinstance(refused.value, SpaceError) == changes.keys().isdisjoint({"flops", "bytes"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run": 3}, r"Workload\(run=3\): run is a function"),
        ({"run": lambda x: x}, "run is called with no arguments: missing a required argument: 'x'"),
        (SPACE | {"run": lambda: None}, r"run is called with the parameters of tuning \(block\): got an unexpected"),
        ({"reference": torch.ones(1)}, "reference is a function"),
        ({"setup": 3}, "setup is a function"),
        ({"flops": "3"}, r"Workload\(flops='3'\): flops is a number"),
        ({"bytes": [8]}, "bytes is a number"),
        ({"stages": {"a": 3}}, "stages is a dict of functions"),
        ({"tolerance": 0.1}, 'tolerance is a dict, such as {"float16": 0.01}'),
        ({"tune": ["BLOCK"]}, "tune is a dict of the values"),
        ({"tuning": 64}, "tuning is a dict"),
        ({"clock": "evnt"}, "clock is one of event, graph, cold-graph, cpu"),
    ],
)
def test_a_wrong_argument_of_a_workload(changes: dict[str, Any], said: str) -> None:
    """What would fail in the middle of a measurement, or change nothing, is refused with the argument's name and what it is."""
    with pytest.raises(TypeError, match=said):
        Workload(**(MADE | changes))


@pytest.mark.parametrize("declared", [{"flops": 2.0}, {"bytes": 0}, {"flops": 0}, {"dtype": "int8"}, {"clock": "cpu"}])
def test_parts_of_a_declaration(declared: dict[str, Any]) -> None:
    """A workload may declare any part of its work, or none."""
    made = Workload(run=lambda: None, **declared)
    assert {name: getattr(made, name) for name in declared} == declared


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
