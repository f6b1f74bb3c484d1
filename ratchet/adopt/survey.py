"""See what a repository has: its tools, its packages, and functions that a first benchmark could time.

`commands.init` calls `survey` with the files that git knows. Reads files and runs none of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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

    @property
    def is_monorepo(self) -> bool:
        """Return whether projects lie below the folder."""
        return any(project != "." for project in self.projects)


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
