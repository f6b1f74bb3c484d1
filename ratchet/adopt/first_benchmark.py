"""Write the first benchmark of a repository: of a function of its own that runs with guessed inputs, else an example.

`commands.init` calls `attempts`, runs them with `first_that_runs` in a child program, and writes what `text` returns. Run as a
script, this file is that child: it imports the code of the repository.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.adopt.survey import Function, Survey
from ratchet.subprocesses import run

_MOST_FUNCTIONS, _TIME_LIMIT_S = 12, 120.0
_VECTORS = {"weight", "w", "bias", "b", "gamma", "beta", "scale", "g"}
"""Arguments that are usually as long as a row."""
_MATRIX, _VECTOR, _HEADS, _SQUARE = "4096, 1024", "1024", "2, 8, 256, 64", "1024, 1024"
_SLOWEST_S = 1.0
"""A first benchmark whose call takes longer is no joy; `torch.equal` waits for the GPU."""
_RAN = "ratchet-ran:"


def attempts(function: Function) -> list[str]:
    """Return texts of a benchmark of this function, one for each guess at the shapes of its arguments."""
    first, *others = function.tensors
    guesses = [
        {first: _MATRIX, **{name: _VECTOR if name in _VECTORS else _MATRIX for name in others}},
        dict.fromkeys(function.tensors, _SQUARE),
        dict.fromkeys(function.tensors, _HEADS),
    ]
    return [_of(function, shapes) for shapes in guesses]


def _of(function: Function, shapes: Mapping[str, str]) -> str:
    top = function.module.partition(".")[0]
    name = f"{function.name}_case" if function.name in (top, "torch", "benchmark") else function.name
    inputs = ", ".join(f"torch.randn({shapes[each]}, device=device)" for each in function.tensors)
    imports = "\n".join(sorted([f"import {function.module}", "import torch"]))
    return f"""\
# Written by `ratchet init`. The sizes are a guess: set those that matter to you.
{imports}
from ratchet import benchmark


@benchmark
def {name}(device):
    {", ".join(function.tensors)} = {inputs}
    return lambda: {function.call}
"""


def example(survey: Survey) -> str:
    """Return the text of a benchmark that runs anywhere, and says what to put in its place."""
    lines = ["Written by `ratchet init`: an example that runs. It times a function of torch; change lines 1 and 2 to yours."]
    if survey.functions:
        lines.append("These did not run here with guessed inputs: " + "; ".join(each.call for each in survey.functions[:3]) + ".")
    if files := survey.tools.get("pytest-benchmark"):
        lines.append(f"What pytest-benchmark times in {files[0]} can be called here.")
    if "CUDA" in survey.tools:
        lines.append("How to time CUDA C++ is in ratchet's docs/benchmarks.md, section CUDA C++.")
    comment = "\n".join(f"# {line}" for line in lines)
    return f"""\
{comment}
import torch
from ratchet import benchmark


@benchmark
def example(device):
    x = torch.randn(4096, 1024, device=device)  # 1: inputs, as your kernel gets them
    return lambda: torch.softmax(x, dim=-1)  # 2: one call
"""


def first_that_runs(
    functions: Sequence[Function], root: Path, python_path: Sequence[str], environ: Mapping[str, str]
) -> tuple[Function, str] | None:
    """Import and call the functions in a child program. Return the first that gives the same tensor twice, and its benchmark."""
    tried = [(function, text) for function in functions[:_MOST_FUNCTIONS] for text in attempts(function)]
    task = json.dumps([[text for _, text in tried], [str(root / folder) for folder in python_path]])
    command = [sys.executable, "-P", "-m", "ratchet.adopt.first_benchmark", task]
    try:
        output = run(command, environ=environ, folder=root, time_limit_s=_TIME_LIMIT_S).output
    except OSError:
        return None
    numbers = [line.removeprefix(_RAN) for line in output.splitlines() if line.startswith(_RAN)]
    return tried[int(numbers[-1])] if numbers and numbers[-1].isdecimal() and int(numbers[-1]) < len(tried) else None


def _try(texts: Sequence[str], folders: Sequence[str]) -> None:
    """Run benchmarks until one gives the same tensor twice, and print its number."""
    import torch

    from ratchet.workload import Benchmark

    sys.path[:0] = folders
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    was_used = False
    for number, text in enumerate(texts):
        space: dict[str, Any] = {"__name__": "bench.first"}
        try:
            exec(compile(text, "bench/first.py", "exec"), space)  # noqa: S102  a text of ours, which calls code of the user
            (made,) = (value for value in space.values() if isinstance(value, Benchmark))
            if torch.cuda.is_initialized() and not was_used:  # by the import, after which no worker could be forked
                continue
            was_used = True
            call = made(device=device).run
            first, started = call(), time.monotonic()
            if torch.equal(first, call()) and time.monotonic() - started < _SLOWEST_S:  # no tensor: TypeError
                print(f"\n{_RAN}{number}", flush=True)  # noqa: T201  the answer of a child program
                return
        except (Exception, SystemExit):  # noqa: BLE001, S112  the next guess may run
            continue


if __name__ == "__main__":
    _try(*json.loads(sys.argv[1]))
