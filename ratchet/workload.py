"""A benchmark is a function that builds one `Workload` per config.

Authors import it through `ratchet`; the processes that load a tree call what it declares. Pure; it never imports torch,
since records and the judge import it too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Device = Literal["cuda", "cpu"]
Clock = Literal["event", "graph"]
Parameter = int | float | str | bool

DEVICES: tuple[Device, ...] = ("cuda", "cpu")


class SpaceError(ValueError):
    """``tune``, ``tuning`` and ``constraints`` of a workload contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The function that is timed for one config, and how to check its result.

    ``run`` is called as ``run(**tuning)`` and returns a tensor or a tuple of tensors. It must not change its inputs, nor return
    one of them: before a check the outputs are filled with NaN, so that an element that is never written shows.
    """

    run: Callable[..., Any]
    reference: Callable[[], Any]
    """Computes the result independently, in higher precision, in the structure that ``run`` returns."""
    dtype: str
    """The type the kernel computes in, such as ``"bfloat16"``: part of what is compared."""
    flops: float
    """Floating-point operations of one call that the mathematics needs; 0 for a pure copy."""
    bytes: float
    """Bytes of one call that must cross device memory: each input read once, each output written once."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """Output dtype → largest ‖out − ref‖ / ‖ref‖ that passes; `ratchet.measure.child.correctness` has the defaults."""
    stages: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Named parts of the workload, timed as well for the report."""
    tune: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Compile-time parameters and the values they may take."""
    tuning: Mapping[str, int] = field(default_factory=dict)
    """The values used today, one for each name in ``tune``."""
    constraints: Sequence[Callable[..., bool]] = ()
    """Functions whose arguments are names of parameters; a combination can work if all return True."""
    clock: Clock = "event"
    """On a GPU: ``"event"`` times each call with a cold L2; ``"graph"`` replays 20 calls in a CUDA graph (warm L2)."""

    def __post_init__(self) -> None:
        if not (self.flops >= 0 and self.bytes >= 0 and 0 < self.flops + self.bytes < math.inf):
            raise ValueError(f"a workload declares finite FLOPs and bytes, not both 0 (here {self.flops}, {self.bytes})")
        if set(self.tune) != set(self.tuning):
            raise SpaceError(f"tune names {sorted(self.tune)}, tuning {sorted(self.tuning)}: both name the same parameters")
        for name, value in self.tuning.items():
            if value not in self.tune[name]:
                raise SpaceError(f"tuning {name}={value} is not among the values of tune: {list(self.tune[name])}")
        for constraint in self.constraints:
            names = constraint_names(constraint)
            if strangers := [name for name in names if name not in self.tune]:
                raise SpaceError(f"a constraint takes {strangers[0]}, which is not in tune: {constraint_text(constraint)}")
            if not constraint(**{name: self.tuning[name] for name in names}):
                raise SpaceError(f"tuning {dict(self.tuning)} does not hold the constraint: {constraint_text(constraint)}")


def constraint_names(constraint: Callable[..., bool]) -> tuple[str, ...]:
    """Return the parameters that a constraint takes: its arguments without a default.

    Raises SpaceError if it takes none, or any number of them.
    """
    arguments = [a for a in inspect.signature(constraint).parameters.values() if a.default is a.empty]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not arguments or any(argument.kind not in named for argument in arguments):
        raise SpaceError(f"a constraint's arguments are names of parameters in tune: {constraint_text(constraint)}")
    return tuple(argument.name for argument in arguments)


def constraint_text(constraint: Callable[..., bool]) -> str:
    """Return the constraint's source on one line; its name if there is no source."""
    try:
        lines = inspect.getsource(constraint).strip().splitlines()
    except (OSError, TypeError):
        return getattr(constraint, "__qualname__", repr(constraint))
    return " ".join(line.strip() for line in lines)


Build = Callable[..., Workload]


@dataclass(frozen=True)
class Benchmark:
    """A named function and its configs. Calling ``build`` allocates on the device; nothing before that does."""

    name: str
    build: Build
    configs: Mapping[Device, Mapping[str, Mapping[str, Parameter]]]
    requires: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Workload:
        return self.build(*args, **kwargs)


def benchmark(
    *,
    configs: Mapping[str, Mapping[str, Parameter]],
    devices: Sequence[Device] = ("cuda",),
    cpu_configs: Mapping[str, Mapping[str, Parameter]] | None = None,
    requires: Sequence[str] = (),
    name: str | None = None,
) -> Callable[[Callable[..., Workload]], Benchmark]:
    """Register a function as a benchmark. It is called as ``function(device=torch.device, **parameters)``.

    ``configs`` maps a config's name to its parameters. ``devices`` says what the benchmark can run on, and
    ``cpu_configs`` gives other (smaller) parameters for the CPU. ``requires`` names what a GPU run needs, Python
    modules (``"triton"``) or ``"nvcc"``: where one is missing, the cases are listed as skipped instead of failing.

    Raises ValueError where the declaration itself cannot work.
    """
    unknown = set(devices) - set(DEVICES)
    if unknown or not devices:
        raise ValueError(f"devices are some of {DEVICES}, not {tuple(devices)}")
    if isinstance(requires, str):
        raise ValueError(f"requires is a list of names: write [{requires!r}]")
    if cpu_configs is not None and "cpu" not in devices:
        raise ValueError('cpu_configs needs "cpu" among devices')
    table: dict[Device, Mapping[str, Mapping[str, Parameter]]] = {}
    for device in devices:
        chosen = cpu_configs if device == "cpu" and cpu_configs is not None else configs
        table[device] = {config: dict(parameters) for config, parameters in chosen.items()}

    def register(function: Callable[..., Workload]) -> Benchmark:
        title = name or function.__name__
        _check_declaration(function, title, table)
        return Benchmark(title, function, table, tuple(requires))

    return register


def _check_declaration(
    function: Callable[..., Workload], title: str, table: Mapping[Device, Mapping[str, Mapping[str, Parameter]]]
) -> None:
    signature = inspect.signature(function)
    for configs in table.values():
        if not configs:
            raise ValueError(f"benchmark {title} has no configs")
        for word in (title, *configs):
            if not word or not all(c.isalnum() or c in "_-.+" for c in word):
                raise ValueError(f"{word!r} cannot name a benchmark or config: use letters, digits, _ - . +")
        for config, parameters in configs.items():
            for name, value in parameters.items():
                # They are written to JSON, and a record of them must load again.
                if not isinstance(value, Parameter) or (isinstance(value, float) and not math.isfinite(value)):
                    raise ValueError(f"{title}/{config}: {name} is {value!r}; a parameter is a number, a string or a bool")
            try:
                signature.bind(device=None, **parameters)
            except TypeError as error:
                raise ValueError(f"{title}/{config}: the function does not take these parameters and device: {error}") from None


def dtype_name(dtype: torch.dtype | str) -> str:
    """Name a dtype: ``torch.bfloat16`` → ``"bfloat16"``."""
    return str(dtype).removeprefix("torch.")
