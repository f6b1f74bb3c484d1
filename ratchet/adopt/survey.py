"""See what a repository has (tools, packages, functions that could be timed), and write its first benchmark.

`commands.init` calls `survey` with the files that git knows, which reads files and runs none of them. `first_that_runs` calls the
functions in a child program, which is this file as a script: it imports the code of the repository.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ratchet.subprocesses import run

_MOST_BYTES = 500_000
"""A larger source was generated."""
_MARKS = (
    ("Triton", (".py",), r"^\s*(import triton\b|from triton\b)"),
    ("CUDA", (".cu",), ""),
    ("CMake", ("CMakeLists.txt",), ""),
    ("setup.py", ("setup.py",), ""),
    ("NVBench", (".cu", ".cpp", ".cc", "CMakeLists.txt"), r"\bNVBENCH_BENCH|\bnvbench\b"),
    ("Google Benchmark", (".cu", ".cpp", ".cc", "CMakeLists.txt"), r"benchmark/benchmark\.h|benchmark::benchmark"),
    ("pytest-benchmark", (".py", ".toml", ".txt", ".cfg"), r"pytest[-_]benchmark|def test_\w+\([^)]*\bbenchmark\b"),
)
"""A tool, endings of the files that show it, and the text that they hold then."""
_ASIDE = {
    "test",
    "tests",
    "testing",
    "bench",
    "benchmark",
    "benchmarks",
    "doc",
    "docs",
    "example",
    "examples",
    "scripts",
    "tools",
}
"""Folders whose functions are not what a package offers."""
_PLAIN = re.compile(r"(?:^|[._])(?:ref|reference|naive|eager|baseline|slow)(?=$|[._])")
"""Words in the names of what a kernel is compared with; the kernel itself is the better first benchmark."""
_SCRIPTS = {"setup", "conftest", "noxfile"}
_DECLARATIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.If, ast.Try)
PYTHON_PATH = (".", "src")
"""Where imports look unless the settings say otherwise."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class Function:
    """A public function whose required arguments all say that they are tensors."""

    module: str
    name: str
    tensors: tuple[str, ...]

    @property
    def call(self) -> str:
        """The function as it is called: ``package.module.name(x, weight)``."""
        return f"{self.module}.{self.name}({', '.join(self.tensors)})"


@dataclass(frozen=True)
class Survey:
    """The contents of a folder of a repository, as far as `ratchet init` cares."""

    tools: dict[str, tuple[str, ...]]
    """Name → the files that show it."""
    projects: tuple[str, ...]
    """Folders with a Python project of their own; "." is the folder itself."""
    python_path: tuple[str, ...]
    """Folders from which packages are imported."""
    functions: tuple[Function, ...]


def survey(root: Path, files: Sequence[str]) -> Survey:
    """Look at the files of a folder, whose paths are relative to it."""
    tools: dict[str, list[str]] = {}
    for file in files:
        for tool, endings, pattern in _MARKS:
            if file.endswith(endings) and (not pattern or re.search(pattern, _text(root / file), re.MULTILINE)):
                tools.setdefault(tool, []).append(file)
    projects = sorted({str(PurePosixPath(file).parent) for file in files if PurePosixPath(file).name in PROJECT_FILES})
    packages = {PurePosixPath(file).parent for file in files if PurePosixPath(file).name == "__init__.py"}
    homes = {str(package.parent) for package in packages if package.parent not in packages and not _ASIDE & set(package.parts)}
    python_path = (*PYTHON_PATH, *sorted(homes - {*PYTHON_PATH}))
    functions = [
        function
        for file in files
        if file.endswith(".py") and not _ASIDE & set(PurePosixPath(file).parts[:-1])
        for function in _functions(root / file, file, python_path)
    ]
    functions.sort(key=lambda function: bool(_PLAIN.search(f"{function.module}.{function.name}")))  # stable
    return Survey({tool: tuple(shown) for tool, shown in tools.items()}, tuple(projects), python_path, tuple(functions))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, UnicodeDecodeError):  # a broken link, another encoding: it shows nothing
        return ""


def _functions(path: Path, file: str, python_path: Sequence[str]) -> Iterator[Function]:
    home = max((folder for folder in python_path if folder == "." or file.startswith(f"{folder}/")), key=len)
    relative = PurePosixPath(file).relative_to(home).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    if relative.name in _SCRIPTS or not parts or not all(part.isidentifier() and part[0] != "_" for part in parts):
        return
    try:
        body = ast.parse(_text(path)).body
    except (SyntaxError, ValueError):
        return
    if not all(isinstance(node, _DECLARATIONS) or _is_text(node) for node in body):
        return  # a script: importing it does its work
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and (tensors := _tensors(node)):
            yield Function(".".join(parts), node.name, tensors)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _tensors(node: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of the required arguments, if all are annotated as tensors and nothing else is required."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    if any(default is None for default in arguments.kw_defaults) or node.decorator_list:
        return ()  # a decorator may make anything of it, as triton.jit does
    is_tensor = [each.annotation is not None and ast.unparse(each.annotation) in ("torch.Tensor", "Tensor") for each in required]
    return tuple(each.arg for each in required) if all(is_tensor) else ()


# The first benchmark: of a function of the repository that runs with guessed inputs, else an example.


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
    command = [sys.executable, "-P", "-m", "ratchet.adopt.survey", task]
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
