"""Parameters → the ways to put them into a build or a launch, as text to paste. Only plain names and values get that far."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ratchet.report.escape import Markdown, fenced
from ratchet.report.pieces import is_plain
from ratchet.workload import Parameter

_OF_A_LAUNCH = {"NUM_WARPS": "num_warps", "NUM_STAGES": "num_stages", "NUM_CTAS": "num_ctas", "MAXNREG": "maxnreg"}
"""Parameters that Triton takes beside a kernel's own, by the names that benchmarks give them."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Way:
    """One way to apply a configuration."""

    title: str
    code: Markdown


def ways(configuration: Mapping[str, Parameter], record: str) -> tuple[Way, ...]:
    """By CMake, by nvcc, in Triton, and by ratchet, which reads the file ``record``.

    None where a shell could read a name or value as more than a word.
    """
    words = [(name, _in_c(value)) for name, value in configuration.items()]
    if not is_plain(record) or not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in words):
        return ()
    defines = [f"{name}={value}" for name, value in words]
    flags = " ".join(f"-D{each}" for each in defines)
    return (
        Way("Compile-time flags (CMake)", fenced([f"target_compile_definitions(kernel PRIVATE {' '.join(defines)})"], "cmake")),
        Way("nvcc flags (CUDA C++)", fenced([f"nvcc {flags} kernel.cu"], "bash")),
        Way("A launch in Triton", fenced([_for_triton(configuration)], "python")),
        Way("The tuned parameters of this repository", fenced([f"ratchet tune --record {record} --apply"], "bash")),
    )


def _in_c(value: Parameter) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _for_triton(configuration: Mapping[str, Parameter]) -> str:
    own = {name: value for name, value in configuration.items() if name not in _OF_A_LAUNCH}
    launch = [f"{_OF_A_LAUNCH[name]}={value!r}" for name, value in configuration.items() if name in _OF_A_LAUNCH]
    table = ", ".join(f"{json.dumps(name)}: {value!r}" for name, value in own.items())
    return f"triton.Config({', '.join([f'{{{table}}}', *launch])})"
