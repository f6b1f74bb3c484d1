"""A benchmark is a function that returns what to time for each config: a callable, or a `Workload` that says more about it.

Authors import it through `ratchet`; the processes that load a tree call what it declares. Pure; it never imports torch,
since records and the judge import it too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from ratchet.core.units import parse_size

if TYPE_CHECKING:
    import torch

Device = Literal["cuda", "cpu"]
Clock = Literal["event", "graph", "cold-graph", "cpu"]
Parameter = int | float | str | bool
Configs = Mapping[str, Mapping[str, Parameter]]
"""Name of a config → its parameters."""

DEVICES: tuple[Device, ...] = ("cuda", "cpu")
DEFAULT = "default"
"""Name of the one config of a benchmark that names none."""
VARIANT = "variant"
"""Argument through which a benchmark with variants gets the name of one."""


KEEPS_FAULTS = ContextVar("KEEPS_FAULTS", default=False)
"""True while a tree is loaded: a config that cannot work is then kept as a fault of its own case, and costs no other one."""


class SpaceError(ValueError):
    """``tune``, ``tuning`` and ``constraints`` of a workload contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The function that is timed for one config, and how to check its result. Only ``run`` is needed.

    ``run`` is called as ``run(**tuning)`` and returns tensors, arrays or numbers in any tree of tuples, lists, dicts and
    dataclasses. It must not change its inputs, nor return one of them, unless ``mutates`` names it: before a check the outputs
    are filled with NaN, so that an element that is never written shows.
    """

    run: Callable[..., Any]
    reference: Callable[[], Any] | None = None
    """Computes the result independently, in higher precision, in the structure that ``run`` returns; where that returns None, in
    the structure of ``mutates``. None: a check compares the results of head and reference side with each other, and says so."""
    dtype: str | None = None
    """The type the kernel computes in, such as ``"bfloat16"``: part of what is compared. None: that of the first output."""
    flops: float | None = None
    """Floating-point operations of one call that the mathematics needs; 0 for a pure copy. None: no FLOP/s and no roofline."""
    bytes: float | None = None
    """Bytes of one call that must cross device memory: each input read once, each output written once. None: as for flops."""
    mutates: Any = ()
    """What ``run`` changes: tensors, modules, optimizers, or trees of tensors. They are copied once, when the workload has been
    built, and get that content back before each call, which is not timed. They are outputs, too."""
    setup: Callable[[], object] | None = None
    """Called before each call of ``run``, after ``mutates`` has its content back; not timed."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """Output dtype → largest ‖out − ref‖ / ‖ref‖ that passes; `ratchet.core.bench.child.correctness` has the defaults."""
    stages: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Named parts of the workload, timed as well for the report."""
    tune: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Compile-time parameters and the values they may take."""
    tuning: Mapping[str, int] = field(default_factory=dict)
    """The values used today, one for each name in ``tune``."""
    constraints: Sequence[Callable[..., bool]] = ()
    """Functions whose arguments are names of parameters; a combination can work if all return True."""
    memory_limit: str | int | None = None
    """Most memory that a call may hold, such as ``"4000MB"``: more fails the check. None: ``memory_limit`` of the settings."""
    clock: Clock | None = None
    """On a GPU: ``"event"`` times each call with a cold L2; ``"graph"`` replays 20 calls in a CUDA graph (warm L2);
    ``"cold-graph"`` does so with a flush of L2 before each of them; ``"cpu"`` times the host until ``run`` returns. None: events;
    the host until the GPU is idle, if nothing in the result is on the GPU."""

    def __post_init__(self) -> None:
        for name, is_fit, what in _ARGUMENTS:
            if not is_fit(getattr(self, name)):
                raise TypeError(f"Workload({name}={getattr(self, name)!r}): {name} is {what}")
        declared = [number for number in (self.flops, self.bytes) if number is not None]
        if not all(0 <= number < math.inf for number in declared) or declared == [0, 0]:
            raise ValueError(f"a workload declares finite FLOPs and bytes, not both 0 (here {self.flops}, {self.bytes})")
        if self.memory_limit is not None:
            try:
                parse_size(self.memory_limit)
            except ValueError as error:
                raise ValueError(f"memory_limit: {error}") from None
        if isinstance(self.mutates, Iterator):  # as model.parameters() is
            object.__setattr__(self, "mutates", tuple(self.mutates))
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
        _refuse_uncallable("run", self.run, self.tuning)

    @property
    def is_restored(self) -> bool:
        """Return whether something has to happen before each call."""
        return self.setup is not None or not (isinstance(self.mutates, tuple | list) and not self.mutates)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


_ARGUMENTS: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("run", callable, "a function"),
    *((name, lambda value: value is None or callable(value), "a function") for name in ("reference", "setup")),
    # As numbers of NumPy have it.
    *((name, lambda value: value is None or hasattr(value, "__float__"), "a number") for name in ("flops", "bytes")),
    ("stages", lambda value: isinstance(value, Mapping) and all(map(callable, value.values())), "a dict of functions"),
    ("tolerance", _is_mapping, 'a dict, such as {"float16": 0.01}'),
    ("tune", _is_mapping, 'a dict of the values of each parameter, such as {"BLOCK": (64, 128)}'),
    ("tuning", _is_mapping, 'a dict, such as {"BLOCK": 64}'),
    ("clock", (None, *get_args(Clock)).__contains__, f"one of {', '.join(get_args(Clock))}"),
)
"""Argument of a Workload → whether a value fits it, and what it should be. A type checker would say the same, if there is one."""


def _refuse_uncallable(name: str, function: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Raise TypeError where a function cannot be called with these arguments alone."""
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        given = f"the parameters of tuning ({', '.join(arguments)})" if arguments else "no arguments"
        raise TypeError(f"{name} is called with {given}: {error}") from None
    except ValueError:  # a function written in C that does not say what it takes
        pass


def constraint_names(constraint: Callable[..., bool]) -> tuple[str, ...]:
    """Return the parameters that a constraint takes: its arguments without a default. SpaceError if none, or any number."""
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


Build = Callable[..., Workload | Callable[[], Any]]


@dataclass(frozen=True)
class Benchmark:
    """A named function and its configs. Calling it allocates on the device; nothing before that does."""

    name: str
    build: Build
    configs: Mapping[Device, Configs]
    requires: tuple[str, ...] = ()
    on_host: bool = False
    """The function takes no device: what it returns is timed on the CPU's clock, on every machine."""
    variants: tuple[str, ...] = ()
    """Ways to do the same work, which the function gets as ``variant``; the first is the benchmark's own."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Configs that cannot work, and why: see `KEEPS_FAULTS`."""

    def __call__(self, *, device: Any = None, **parameters: Any) -> Workload:
        """Build the workload of one config; a callable becomes the ``run`` of a Workload. TypeError for anything else."""
        if self.variants:
            parameters.setdefault(VARIANT, self.variants[0])
        made: object = self.build(**parameters) if self.on_host else self.build(device=device, **parameters)
        if isinstance(made, Workload):
            return made
        hint = "return a function without arguments that is timed (lambda: …), or a Workload"
        if not callable(made):
            raise TypeError(f"benchmark {self.name} returned {type(made).__name__}: {hint}")
        _refuse_uncallable(f"the function that benchmark {self.name} returned", made, {})
        return Workload(run=made)


@overload
def benchmark(function: Build, /) -> Benchmark: ...


@overload
def benchmark(
    *,
    configs: Configs | None = None,
    devices: Sequence[Device] | None = None,
    cpu_configs: Configs | None = None,
    requires: Sequence[str] = (),
    name: str | None = None,
    variants: Sequence[str] = (),
) -> Callable[[Build], Benchmark]: ...


def benchmark(
    function: Build | None = None,
    /,
    *,
    configs: Configs | None = None,
    devices: Sequence[Device] | None = None,
    cpu_configs: Configs | None = None,
    requires: Sequence[str] = (),
    name: str | None = None,
    variants: Sequence[str] = (),
) -> Benchmark | Callable[[Build], Benchmark]:
    """Register a function as a benchmark: ``@benchmark``, or ``@benchmark(configs=…)``.

    It is called as ``function(device=torch.device, **parameters)`` and returns a callable to time or a `Workload`. A function
    without an argument ``device`` is timed on the host.

    ``configs`` maps a config's name to its parameters; without it there is one config, ``default``. ``devices`` says what the
    benchmark can run on: without it the GPU, and the CPU too where there is one config or no device. ``cpu_configs`` gives other
    (smaller) parameters for the CPU. ``requires`` names what a GPU run needs, Python modules (``"triton"``) or ``"nvcc"``: where
    one is missing, the cases are listed as skipped instead of failing.

    ``variants`` names ways to do the same work, such as ``("ours", "torch")``: the function gets one of them as ``variant``. The
    first is the one that `ratchet check` times; `ratchet variants` compares it with the others.

    Raises ValueError where the declaration itself cannot work.
    """
    if function is not None and not callable(function):
        raise ValueError(f"write @benchmark or @benchmark(configs=…): {function!r} is not a function")
    for what, names in (("requires", requires), ("variants", variants)):
        if isinstance(names, str):
            raise ValueError(f"{what} is a list of names: write [{names!r}]")

    def register(function: Build) -> Benchmark:
        title = name or function.__name__
        arguments = inspect.signature(function).parameters.values()
        on_host = not any(argument.name == "device" or argument.kind is argument.VAR_KEYWORD for argument in arguments)
        served = devices if devices is not None else DEVICES if configs is None or on_host else ("cuda",)
        table = _table(served, {DEFAULT: {}} if configs is None else configs, cpu_configs)
        given: dict[str, str | None] = {} if on_host else {"device": None}
        given |= dict.fromkeys([VARIANT] if variants else [], "")
        faults = _faults(function, title, table, given)
        if faults and not KEEPS_FAULTS.get():
            raise ValueError(next(iter(faults.values())))
        working = {
            device: {config: each for config, each in configs.items() if config not in faults}
            for device, configs in table.items()
        }
        return Benchmark(title, function, working, tuple(requires), on_host, tuple(variants), faults)

    return register if function is None else register(function)


def _table(devices: Sequence[Device], configs: Configs, cpu_configs: Configs | None) -> dict[Device, Configs]:
    """Return a copy of the configs for each device. Raises ValueError."""
    if isinstance(devices, str) or set(devices) - set(DEVICES) or not devices:
        raise ValueError(f'devices are some of {DEVICES}, such as ("cpu",), not {devices!r}')
    for name, given in (("configs", configs), ("cpu_configs", cpu_configs or {})):
        if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
            raise ValueError(f'{name} names configs and their parameters, such as {{"small": {{"n": 1024}}}}, not {given!r}')
    if cpu_configs is not None and "cpu" not in devices:
        raise ValueError('cpu_configs needs "cpu" among devices')
    table: dict[Device, Configs] = {}
    for device in devices:
        chosen = cpu_configs if device == "cpu" and cpu_configs is not None else configs
        table[device] = {config: dict(parameters) for config, parameters in chosen.items()}
    return table


def _faults(function: Build, title: str, table: Mapping[Device, Configs], given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs that cannot work, and why. Raises ValueError for a benchmark of which none could."""
    signature = inspect.signature(function)
    if not _is_name(title):
        raise ValueError(_NO_NAME.format(title))
    if any(not configs for configs in table.values()):
        raise ValueError(f"benchmark {title} has no configs")
    found: dict[str, str] = {}
    for config, parameters in ((config, each) for configs in table.values() for config, each in configs.items()):
        if not _is_name(config):
            found[config] = _NO_NAME.format(config)
            continue
        for name, value in parameters.items():
            # They are written to JSON, and a record of them must load again.
            if not isinstance(value, Parameter) or (isinstance(value, float) and not math.isfinite(value)):
                found[config] = f"{title}/{config}: {name} is {value!r}; a parameter is a number, a string or a bool"
        try:
            signature.bind(**given, **parameters)
        except TypeError as error:
            found[config] = (
                f"{title}/{config}: the function does not take these parameters{''.join(f' and {name}' for name in given)}: "
                f"{error}. Its arguments are {' and '.join([*given, 'what configs={…} gives'])}"
            )
    return found


_NO_NAME = "{!r} cannot name a benchmark or config: use letters, digits, _ - . +"


def _is_name(word: str) -> bool:
    return bool(word) and all(c.isalnum() or c in "_-.+" for c in word)


def dtype_name(dtype: torch.dtype | str) -> str:
    """Name a dtype: ``torch.bfloat16`` → ``"bfloat16"``."""
    return str(dtype).removeprefix("torch.")
