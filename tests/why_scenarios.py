"""Profiles of changed cases that invite a wrong explanation: what each side launches, and what the first sentence may say.

A side is written as ``name:microseconds`` for each kernel, with ``x2`` where it is launched twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.core.records.profile import Activity, KernelProfile, Profile
from ratchet.explain.metrics import bare

CALLS = 10


@dataclass(frozen=True)
class Scenario:
    """One changed case."""

    name: str
    reference: str
    head: str
    ratio: float
    """Head time / reference time, as the benchmark measured it."""
    named: tuple[str, ...]
    """Kernels that the first sentence must name; none where the profile explains nothing."""
    not_the_cause: tuple[str, ...] = ()
    """Kernels that the first sentence must not name, unless it says that they were replaced."""


SCENARIOS = (
    Scenario("replaced by a slower one", "aten::_softmax:349.8", "my_kernel:1200", 3.22, ("my_kernel",), ("aten::_softmax",)),
    Scenario("replaced by a faster one", "aten::_softmax:1200", "my_kernel:349.8", 0.29, ("my_kernel",), ()),
    Scenario("split in three, slower", "fused:100", "one:50 two:60 three:40", 1.5, ("one", "two", "three"), ("fused",)),
    Scenario("merged, faster", "one:50 two:60 three:40", "fused:100", 0.66, ("fused",), ()),
    Scenario("merged, slower", "one:50 two:60 three:40", "fused:400", 2.66, ("fused",), ("one", "two", "three")),
    Scenario("renamed, and another slower", "old_name:500 gemm:100", "new_name:501 gemm:220", 1.2, ("gemm",), ("old_name",)),
    Scenario("renamed alone", "old_name:500", "new_name:501", 1.2, (), ("old_name", "new_name")),
    Scenario("one added", "gemm:100", "gemm:100 check_finite:60", 1.6, ("check_finite",), ("gemm",)),
    Scenario("one removed", "gemm:100 check_finite:60", "gemm:100", 0.63, ("check_finite",), ("gemm",)),
    Scenario("launched more often", "step:20x2 gemm:100", "step:20x9 gemm:100", 1.95, ("step",), ("gemm",)),
    Scenario("launched less often", "step:20x9 gemm:100", "step:20x2 gemm:100", 0.51, ("step",), ("gemm",)),
    Scenario("one slower, one faster", "one:100 two:400", "one:500 two:150", 1.3, ("one",), ("two",)),
    Scenario("one faster, one slower", "one:500 two:150", "one:100 two:400", 0.77, ("one",), ("two",)),
    Scenario("the largest move is the other way",
             "one:900 two:400 three:300", "one:300 two:900 three:800", 1.25, ("two", "three"), ("one",)),
    Scenario("vanished, and another slower", "gone:300 one:100", "one:700", 1.75, ("one",), ("gone",)),
    Scenario("added, and another faster", "one:700 two:10", "one:100 two:10 extra:200", 0.44, ("one",), ("extra",)),
    Scenario("replaced by a faster one, and another slower",
             "old:300 one:100", "new:100 one:600", 1.75, ("one",), ("old", "new")),
    Scenario("the profile went the other way", "one:300 two:100", "one:200 two:100", 1.5, (), ("one", "two")),
    Scenario("the profile went the other way, improved", "one:200 two:100", "one:300 two:100", 0.7, (), ("one", "two")),
    Scenario("something vanished and nothing else moved", "one:300 two:100", "one:301", 1.4, (), ("two",)),
    Scenario("equal profiles", "one:300 two:100", "one:300 two:100", 1.4, (), ("one", "two")),
    Scenario("one kernel, slower", "one:100", "one:300", 3.0, ("one",), ()),
    Scenario("one kernel, faster", "one:300", "one:100", 0.33, ("one",), ()),
    Scenario("many slower by a little",
             "one:100 two:100 three:100", "one:110 two:111 three:112", 1.11, ("one", "two", "three"), ()),
    # The following six were written apart, and tried only after the rules were written.
    Scenario("split in three, while another is faster", "fused_norm:300 gemm:200",
             "norm_mean:220 norm_var:210 norm_apply:180 gemm:120", 1.46, ("norm_mean", "norm_var", "norm_apply"), ("gemm",)),
    Scenario("other template arguments, one gone, one more often", "void ns::reduce<float, 4>(float*):80 Memset:30 scale:20x2",
             "void ns::reduce<double, 2>(double*):260 scale:20x3", 1.97, ("reduce",), ("Memset",)),
    Scenario("merged, but a common one is slower and launched more often", "mul:120 add:130 relu:110 gather:40",
             "mul_add_relu:125 gather:55x2", 0.59, ("mul_add_relu",), ("gather",)),
    Scenario("more launches of one, another gone", "pack:50 gemm:100x2 unpack:20", "gemm:100x4 unpack:20", 1.55,
             ("gemm",), ("pack", "unpack")),
    Scenario("two renamed, one of them slower", "ln_v1:200 act_v1:100", "ln_v2:205 act_v2:260", 1.55,
             ("ln_v2", "act_v2"), ("ln_v1", "act_v1")),
    Scenario("fewer launches, though a new kernel came", "tiny:30x12 gemm:90", "tiny:30x3 gemm:90 prefetch:40", 0.49,
             ("tiny",), ("prefetch", "gemm")),
)  # fmt: skip


def launches(text: str) -> list[tuple[str, float]]:
    """Name and seconds of each launch."""
    found: list[tuple[str, float]] = []
    for part in _parts(text):
        name, _, times = part.rpartition(":")
        microseconds, _, count = times.partition("x")
        found += [(name, float(microseconds) * 1e-6)] * int(count or 1)
    return found


def traced(text: str, *, on_cpu: bool = False) -> Profile:
    """As torch.profiler sees the side: times by name, and no counters."""
    times: dict[str, float] = {}
    for name, seconds in launches(text):
        times[name] = times.get(name, 0.0) + CALLS * seconds
    count = 0 if on_cpu else CALLS * len(launches(text))
    busy = sum(times.values())
    each = {name: (seconds / CALLS, seconds / CALLS) for name, seconds in times.items()}
    return Profile(tool="torch", activity=Activity(calls=CALLS, wall_s=busy, kernels=times, per_call=each, launches=count))


def counted(text: str, *, counters: bool = True) -> Profile:
    """As ncu sees the side: a record for each launch, with a few counters that do not differ."""
    figures = {"sm_percent": 70.0, "memory_percent": 60.0, "registers": 32} if counters else {}
    kernels = tuple(
        KernelProfile(name=name, function=bare(name) if "(" in name else name, index=index, duration_s=seconds, **figures)
        for index, (name, seconds) in enumerate(launches(text))
    )
    return Profile(tool="ncu", kernels=kernels)


def _parts(text: str) -> list[str]:
    """Split at spaces outside of brackets, as names of kernels hold spaces."""
    parts: list[str] = [""]
    depth = 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == " " and not depth and ":" in parts[-1] and parts[-1][-1].isdigit():
            parts.append("")
        else:
            parts[-1] += letter
    return parts
