"""See what a repository has: tools, packages, functions and modules that could be timed.

`commands.init` calls `survey` with the files that git knows. It reads files and runs none of them; `adopt.first_benchmark` does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
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
_HELPERS = re.compile(r"(?:^|[._])(?:utils?|helpers?|misc|common|compat|types|init|metrics|datasets?|visuali[sz]ation)(?=$|[._])")
"""Words in the names of what few packages are made for."""
_TENSOR = re.compile(r"(?:[\w.]*\.)?(?:Float)?Tensor|(?:[\w.]*\.)?(?:Float|Num|Real|Shaped)\[.*", re.DOTALL)
"""Annotations of an argument that is a tensor of numbers, those of jaxtyping included."""
_TENSOR_NAMES = re.compile(
    "[abckqtuvwxyzABKQVXYZ]|x[12]|src|tgt|inp|inputs?_?|quer(y|ies)|keys?|values?|tensors?|source|target|hidden(_states)?|states|signal"
    "|im(g|age)s?|video|audio|feat(ure)?s?|in_feat|fmap|tokens?|emb(eddings)?|logits?|scores?|probs|pred(iction)?s?|weights?|bias|gamma"
    "|beta|residual|gate|up|data|grad_output|mat(rix)?"
)
"""Names that arguments without an annotation have where they are tensors."""
_NUMBERS = {"dim": "-1", "axis": "-1", "eps": "1e-6", "epsilon": "1e-6", "kernel_size": "3", "heads": "8", "num_heads": "8"}
"""Argument of a function that is no tensor → a value that often works."""
WIDTH = 512
_SIZES = {
    **dict.fromkeys(("d", "n", "d_model", "hidden_size", "input_size", "output_size", "size", "normalized_shape"), str(WIDTH)),
    **dict.fromkeys(
        ("dim", "dims", "dim_in", "dim_out", "model_dim", "hidden_dim", "embed_dim", "embedding_dim", "n_embd"), str(WIDTH)
    ),
    **dict.fromkeys(("in_dim", "out_dim", "input_dim", "output_dim", "in_features", "out_features", "num_features"), str(WIDTH)),
    **dict.fromkeys(("features", "channels", "in_channels", "out_channels", "num_channels", "planes", "seq_len"), str(WIDTH)),
    **dict.fromkeys(("heads", "num_heads", "n_heads", "nhead", "n_head"), "8"),
    **dict.fromkeys(("dim_head", "head_dim", "d_head"), "64"),
    **dict.fromkeys(("depth", "layers", "num_layers", "n_layers", "mult"), "2"),
    **dict.fromkeys(("kernel_size", "window_size"), "3"),
    "eps": "1e-6",
}
"""Argument that a module is made with → a value that often works."""
_SCRIPTS = {"setup", "conftest", "noxfile"}
_DECLARATIONS = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign),
    *(ast.If, ast.Try, ast.Assert, ast.Delete, ast.Pass),
)
PYTHON_PATH = (".", "src")
"""Where imports look unless the settings say otherwise."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class Function:
    """A public function whose required arguments are tensors or numbers that can be guessed; or a `torch.nn.Module`."""

    module: str
    name: str
    tensors: tuple[str, ...]
    """The arguments that get tensors, of a module's ``forward`` if it is one."""
    numbers: tuple[tuple[str, str], ...] = ()
    """Other required arguments and their values."""
    is_module: bool = False

    @property
    def call(self) -> str:
        """The function as it is called: ``package.norm(x, weight)``, ``package.Norm(dim=512)(x)``."""
        return self.called(f"{self.module}.{self.name}")

    def called(self, name: str) -> str:
        """Return a call of it by this name."""
        tensors, numbers = ", ".join(self.tensors), ", ".join(f"{name}={value}" for name, value in self.numbers)
        if self.is_module:
            return f"{name}({numbers})({tensors})"
        return f"{name}({', '.join(filter(None, (tensors, numbers)))})"


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
    packages_text = {str(package): _text(root / package / "__init__.py") for package in packages}
    offered = {package: set(re.findall(r"\w+", text)) for package, text in packages_text.items()}
    functions = [
        (file, function)
        for file in files
        if file.endswith(".py") and not _ASIDE & set(PurePosixPath(file).parts[:-1])
        for function in _functions(root / file, file, python_path, offered.get(str(PurePosixPath(file).parent), set()))
    ]
    names = set().union(*(words for folder, words in offered.items() if PurePosixPath(folder).parent not in packages))
    kernels = {function for file, function in functions if file in tools.get("Triton", ())}

    def order(function: Function) -> tuple[bool, ...]:
        """Put kernels and what a package offers at its top first, references and helpers last."""
        path = f"{function.module}.{function.name}"
        return bool(_PLAIN.search(path)), bool(_HELPERS.search(path)), function not in kernels, function.name not in names

    ordered = sorted((function for _, function in functions), key=order)  # stable
    return Survey({tool: tuple(shown) for tool, shown in tools.items()}, tuple(projects), python_path, tuple(ordered))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, UnicodeDecodeError):  # a broken link, another encoding: it shows nothing
        return ""


def _functions(path: Path, file: str, python_path: Sequence[str], offered: Set[str]) -> Iterator[Function]:
    """Yield what can be timed in a file. Of a private module these are the names that its package offers: ``offered`` there."""
    home = max((folder for folder in python_path if folder == "." or file.startswith(f"{folder}/")), key=len)
    relative = PurePosixPath(file).relative_to(home).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    is_private = len(parts) > 1 and parts[-1].startswith("_")
    if is_private:
        parts = parts[:-1]
    if relative.name in _SCRIPTS or not parts or not all(part.isidentifier() and part[0] != "_" for part in parts):
        return
    try:
        body = ast.parse(_text(path)).body
    except (SyntaxError, ValueError):
        return
    if not all(isinstance(node, _DECLARATIONS) or _is_harmless(node) for node in body):
        return  # a script: importing it does its work
    module = ".".join(parts)
    has_torch = any(re.match(r"(import|from) torch\b", ast.unparse(node)) for node in body)
    for node in {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}.values():
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:  # one may make anything of it, as triton.jit does
            arguments = _arguments(node.args, _NUMBERS, by_name=has_torch)
        elif isinstance(node, ast.ClassDef):
            arguments = _module_arguments(node)
        else:
            continue
        if (is_private and node.name not in offered) or node.name.startswith("_"):
            continue
        if arguments and arguments[0]:
            yield Function(module, node.name, *arguments, is_module=isinstance(node, ast.ClassDef))


def _is_harmless(node: ast.stmt) -> bool:
    """Return whether a statement is a text, or a call like ``warnings.filterwarnings(…)`` that modules make at their top."""
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or (
        isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    )


_Arguments = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""Names of tensors; other arguments and their values."""


def _arguments(arguments: ast.arguments, values: Mapping[str, str], *, by_name: bool) -> _Arguments | None:
    """Sort the required arguments; None where one of them is neither a tensor nor has a value that can be guessed.

    ``by_name``: an argument without an annotation may be a tensor too.
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [each for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    tensors, numbers = [], []
    for each in required:
        annotation = each.annotation and ast.unparse(each.annotation).strip("'\"")
        if _TENSOR.fullmatch(annotation) if annotation else by_name and _TENSOR_NAMES.fullmatch(each.arg):
            if each in arguments.kwonlyargs:
                return None
            tensors.append(each.arg)
        elif each.arg in values:
            numbers.append((each.arg, values[each.arg]))
        else:
            return None
    return tuple(tensors), tuple(numbers)


def _module_arguments(node: ast.ClassDef) -> _Arguments | None:
    """Return what ``forward`` of a `torch.nn.Module` gets and what the module is made with; None for other classes."""
    if not any(ast.unparse(base).rpartition(".")[2] == "Module" for base in node.bases):
        return None
    methods = {each.name: each.args for each in node.body if isinstance(each, ast.FunctionDef)}
    if "forward" not in methods:
        return None
    for each in methods.values():
        del (each.posonlyargs or each.args)[:1]  # self
    called = _arguments(methods["forward"], {}, by_name=True)
    made = _arguments(methods["__init__"], _SIZES, by_name=False) if "__init__" in methods else ((), ())
    if called is None or made is None or made[0]:
        return None
    return called[0], made[1]
