"""Write the first benchmark of a repository: of a function or module of it that runs with guessed inputs, else an example.

`commands.init` calls `first_that_runs` with what `adopt.survey` found. It tries each in a child program, which is this file as a
script; only that child imports code of the repository.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ratchet.adopt.survey import WIDTH, Function, Survey
from ratchet.core.processes import run
from ratchet.core.untrusted import clean

_MOST_FUNCTIONS, _TIME_LIMIT_S = 60, 120.0
_IMPORT_S = 60
_PATIENCE_S = 10
"""For building and calling one of them."""
_SLOWEST_S = 1.0
"""A first benchmark whose call takes longer is no joy; comparing the results waits for the GPU."""
_VECTORS = {"weight", "w", "bias", "b", "gamma", "beta", "scale", "g"}
"""Arguments that are usually as long as a row."""
_MATRIX, _VECTOR = "4096, 1024", "1024"
_SHAPES = ("1024, 1024", "2, 8, 256, 64", "8, 512, 512", "2, 3, 256, 256")
"""Other guesses for a function: square, attention's heads, tokens, pictures."""
_MODULE_SHAPES = (f"8, 512, {WIDTH}", f"4096, {WIDTH}", f"4, {WIDTH}, 32, 32", f"8, {WIDTH}, 512", "2, 3, 256, 256")
"""Guesses for a module that is `WIDTH` wide: tokens, rows, maps, signals, pictures."""
_RAN, _MISSING, _FAILED = "ratchet-ran:", "ratchet-missing:", "ratchet-failed:"


def attempts(function: Function) -> list[str]:
    """Return texts of a benchmark of this function, one for each guess at the shapes of its arguments."""
    if function.is_module:
        guesses = [dict.fromkeys(function.tensors, shape) for shape in _MODULE_SHAPES]
    else:
        first, *others = function.tensors
        rows = {first: _MATRIX, **{name: _VECTOR if name in _VECTORS else _MATRIX for name in others}}
        guesses = [rows, *(dict.fromkeys(function.tensors, shape) for shape in _SHAPES)]
    return [_benchmark(function, shapes) for shapes in guesses]


def _benchmark(function: Function, shapes: Mapping[str, str]) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function.name).lower()
    name = f"{name}_case" if name in ("torch", "benchmark", "timed") else name
    # A package often has a function by the name of the module that it is in, so `package.module.function` would not find it.
    imported = f"{function.name} as timed" if function.name == name else function.name
    lines = [f"{each} = torch.randn({shapes[each]}, device=device)" for each in function.tensors]
    call = function.called(imported.rpartition(" ")[2])
    if function.is_module:
        made, _, rest = call.partition(")")
        lines.insert(0, f"module = {made}).to(device).eval()")
        call = f"module{rest}"
    imports = "\n".join(sorted([f"from {function.module} import {imported}", "from ratchet import benchmark"]))
    body = "\n    ".join(lines)
    return f"""\
# Written by `ratchet init`. The sizes are a guess: set those that matter to you.
import torch
{imports}


@benchmark
def {name}(device):
    {body}
    return lambda: {call}
"""


def example(survey: Survey, missing: str = "", failure: str = "") -> str:
    """Return the text of a benchmark that runs anywhere, and says what to put in its place, and why no function ran."""
    lines = ["Written by `ratchet init`: an example that runs. It times a function of torch; change lines 1 and 2 to yours."]
    if missing:
        lines.append(f"No function of this repository ran here: there is no {missing}.")
    elif failure:
        lines.append(f"No function of this repository ran here, since it cannot be imported: {failure}")
    elif survey.functions:
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


@dataclass(frozen=True)
class FirstBenchmark:
    """The first function of the repository that could be called and becomes a benchmark, or why there is none."""

    function: Function | None = None
    """The first that suits; None where none does."""
    text: str = ""
    """Its benchmark."""
    missing: str = ""
    """A package without which nothing of the repository can be imported."""
    failure: str = ""
    """The first error, where nothing of the repository can be imported for another reason."""


def first_that_runs(
    functions: Sequence[Function], root: Path, python_path: Sequence[str], environ: Mapping[str, str]
) -> FirstBenchmark:
    """Import and call the functions in a child program, until one suits."""
    tried = [(function, text) for function in functions[:_MOST_FUNCTIONS] for text in attempts(function)]
    folders = [str(root / folder) for folder in python_path]
    # Their texts would be longer than an argument of a program may be.
    task = json.dumps([[asdict(function) for function in functions[:_MOST_FUNCTIONS]], folders])
    command = [sys.executable, "-P", "-m", "ratchet.adopt.first_benchmark", task]
    try:
        output = run(command, environ=environ, folder=root, time_limit_s=_TIME_LIMIT_S).output
    except OSError:
        return FirstBenchmark()
    said = dict(line.split(":", 1) for line in output.splitlines() if line.startswith((_RAN, _MISSING, _FAILED)))
    number = said.get(_RAN.rstrip(":"), "")
    if number.isdecimal() and int(number) < len(tried):
        return FirstBenchmark(*tried[int(number)])
    missing = said.get(_MISSING.rstrip(":"), "")
    return FirstBenchmark(missing=missing if missing.isidentifier() else "", failure=clean(said.get(_FAILED.rstrip(":"), "")))


def _try(functions: Sequence[Function], folders: Sequence[str]) -> None:
    """Run benchmarks until one suits, and print its number; or why nothing could be imported, where that is so."""
    import torch

    sys.path[:0] = folders
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    signal.signal(signal.SIGALRM, _give_up)
    broken: set[str] = set()
    was_imported, was_used, missing, failure = False, False, "", ""
    number = -1
    for function in functions:
        package = function.module.partition(".")[0]
        try:
            signal.alarm(_IMPORT_S)
            usable = not broken & {package, function.module} and importlib.import_module(function.module) is not None
            was_imported |= usable
        except (Exception, SystemExit) as error:  # noqa: BLE001  code of anybody
            usable = False
            # Modules of a package that failed later stay, and would be found by another import here, as in no other process.
            broken.add(function.module if package in sys.modules else package)
            if isinstance(error, ModuleNotFoundError) and not _is_in(folders, error.name or "."):
                missing = missing or (error.name or "").partition(".")[0]
            without_path = re.sub(r" \((/[^()]*|unknown location)\)$", "", str(error))
            failure = failure or f"{type(error).__name__}: {without_path}"
        for text in attempts(function):
            number += 1
            if not usable or (
                torch.cuda.is_initialized() and not was_used
            ):  # by the import, after which no worker could be forked
                continue
            was_used = True
            signal.alarm(_PATIENCE_S)
            space: dict[str, Any] = {"__name__": "bench.first"}
            try:
                exec(compile(text, "bench/first.py", "exec"), space)  # noqa: S102  a text of ours, which calls code of the user
                if _suits(space, device):
                    print(f"\n{_RAN}{number}", flush=True)  # noqa: T201  the answer of a child program
                    return
            except (Exception, SystemExit):  # noqa: BLE001, S112  the next guess may run
                continue
            finally:
                signal.alarm(0)
    if missing and not was_used:
        print(f"\n{_MISSING}{missing}", flush=True)  # noqa: T201  likewise
    elif failure and not was_imported:
        print(f"\n{_FAILED}{clean(failure)}", flush=True)  # noqa: T201  likewise


def _is_in(folders: Sequence[str], module: str) -> bool:
    path = module.replace(".", "/")
    return any((Path(folder) / place).exists() for folder in folders for place in (path, f"{path}.py"))


def _give_up(*_: object) -> None:
    raise TimeoutError


def _suits(space: Mapping[str, Any], device: Any) -> bool:
    """Return whether a benchmark's call is quick, gives the same tensors twice, and leaves its inputs alone, as it has to."""
    import torch

    from ratchet.core.workload import Benchmark

    (made,) = (value for value in space.values() if isinstance(value, Benchmark))
    call = made(device=device).run
    inputs = list(_tensors(list(inspect.getclosurevars(call).nonlocals.values())))
    before = [each.clone() for each in inputs]
    first, started = call(), time.monotonic()
    torch.testing.assert_close(call(), first, rtol=0, atol=0)  # for no tensor at all it raises as well
    took_s = time.monotonic() - started
    known = {each.untyped_storage().data_ptr() for each in inputs}
    outputs = list(_tensors(first))
    is_new = bool(outputs) and all(each.untyped_storage().data_ptr() not in known for each in outputs)  # a view takes no time
    return took_s < _SLOWEST_S and is_new and all(map(torch.equal, before, inputs))


def _tensors(tree: object) -> Iterator[Any]:
    """Yield the tensors in lists and tuples."""
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _tensors(each)


if __name__ == "__main__":
    _functions, _folders = json.loads(sys.argv[1])
    _try([Function(**function) for function in _functions], _folders)
