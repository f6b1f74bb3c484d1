"""Find calls of a repository's own functions in its tests, benchmarks, examples and README, each as the text of a benchmark.

The shapes are therefore those that its authors chose. `adopt.slices` cuts, `adopt.trial` tries what comes out. Runs nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import PurePosixPath

from ratchet.adopt.definitions import Definitions
from ratchet.adopt.slices import MODULE, CannotCut, Slice, Source, cut, parsed, straightened, values_of_arguments

_HELPING = re.compile(
    r"^(_|assert|check|get_|set_|is_|has_|infer_|make_|create_|build_|init_|load_|save_|print|log|seed|compare|verify|supports"
    r"|generate_|prepare_|register|patch|apply_liger|convert|to_|from_|num_|cdiv|next_power)|(_config|_mask|_info|_reference)$",
    re.IGNORECASE,
)
"""Names of functions that tests call on the way, not to test them."""
_PLAIN = re.compile(r"(?:^|[._])(?:ref|reference|naive|eager|baseline|slow|torch|pytorch|hf|vanilla)(?=$|[._])", re.IGNORECASE)
"""Words in the names of what a kernel is compared with."""
_MOST_OF_ONE = 6
"""Calls of one function that are cut out."""


@dataclass(frozen=True)
class Usage:
    """A call of a function of the repository, cut out of a file of it."""

    target: str
    """As it is imported: ``package.ops.norm``."""
    name: str
    """Its last part."""
    origin: str
    """File and line of the call."""
    slice: Slice
    instance: str = ""
    """The variable that holds the `torch.nn.Module` which is called."""


def usages(sources: Sequence[Source], defined: Definitions, packages: Set[str]) -> list[Usage]:
    """Return all calls that could be cut out. ``packages`` are the names that the repository's own code is imported by."""
    found: list[Usage] = []
    counts: dict[str, int] = {}
    for source in sources:
        for usage in _of_source(source, defined, packages):
            counts[usage.target] = counts.get(usage.target, 0) + 1
            if counts[usage.target] <= _MOST_OF_ONE:
                found.append(usage)
    return found


def _of_source(source: Source, defined: Definitions, packages: Set[str]) -> Iterator[Usage]:
    imported = _imported(source.tree, packages)
    if not imported:
        return
    for body, function in _bodies(source.tree):
        instances = _instances(body, imported)
        for call in _calls(body):
            found = _target(call, imported, instances)
            if not found:
                continue
            target, instance = found
            name = target.rpartition(".")[2]
            if name not in defined.names or _HELPING.search(name) or _PLAIN.search(name):
                continue
            if name in defined.kernels or (name[:1].isupper() and not instance and not _is_apply(call)):
                continue
            line = straightened(body, call)
            if line is None:
                continue
            for given in values_of_arguments(function, source) if function else iter([{}]):
                try:
                    piece = cut(source, line[:-1], call, function, given)
                except (CannotCut, SyntaxError, RecursionError):
                    continue
                used = "\n".join((*piece.imports, *piece.helpers, *piece.body, piece.call))
                if not re.search(rf"\b{name}\b", used):  # the variable held an instance of another class at this place
                    continue
                yield Usage(target, name, f"{source.path}:{call.lineno}", piece, instance)


def _bodies(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.FunctionDef | None]]:
    """Yield the statements in which calls are looked for: of functions, of the file itself, then of methods of tests."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.body, node
    yield [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)], None
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                yield inner.body, inner


def _calls(body: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """Yield calls in the order of the text, the inner ones of one expression last."""
    for node in body:
        yield from (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _imported(tree: ast.Module, packages: Set[str]) -> dict[str, str]:
    """Return name → where it comes from, for what a file imports of the repository's own code."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] in packages:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in packages:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
    return found


def _dotted(node: ast.expr, imported: Mapping[str, str]) -> str | None:
    """Return where a name comes from, such as ``package.ops.norm`` for ``ops.norm``."""
    text = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    root, _, rest = text.partition(".")
    if root not in imported or not re.fullmatch(r"[\w.]+", text):
        return None
    return f"{imported[root]}.{rest}" if rest else imported[root]


def _is_apply(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "apply"


def _target(call: ast.Call, imported: Mapping[str, str], instances: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what a call calls, and the variable of the module that it calls, if any."""
    if isinstance(call.func, ast.Name) and call.func.id in instances:
        return instances[call.func.id], call.func.id
    if made := _class_made(call.func, imported):  # Norm(64)(x)
        return made, MODULE
    found = _dotted(call.func.value if _is_apply(call) else call.func, imported)  # type: ignore[attr-defined]
    return (found, "") if found else None


def _instances(body: Sequence[ast.stmt], imported: Mapping[str, str]) -> dict[str, str]:
    """Return variable → class, for what is made as ``m = Norm(…)``, with or without ``.to(…)`` behind it."""
    found = {}
    for node in (each for statement in body for each in ast.walk(statement)):
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            continue
        if name := _class_made(node.value, imported):
            found[node.targets[0].id] = name
    return found


def _class_made(made: ast.expr, imported: Mapping[str, str]) -> str | None:
    """Return the class that an expression makes an object of, with or without ``.to(…)`` behind it."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and isinstance(made.func.value, ast.Call):
        made = made.func.value
    name = _dotted(made.func, imported) if isinstance(made, ast.Call) else None
    return name if name and name.rpartition(".")[2][:1].isupper() else None


# Where usages are looked for.

_BLOCK = re.compile(r"^```(?:python|py)\s*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ORDER = (
    (
        re.compile(
            r"(^|/)(benchmarks?|bench|perf|performance)(/|_)|(^|/)bench(mark)?_[^/]*\.py$|_bench(mark)?\.py$|(^|/)bench(marks?)?\.py$"
        ),
        0,
    ),
    (re.compile(r"(^|/)tests?/|(^|/)testing/|(^|/)test_[^/]*\.py$|_test\.py$"), 1),
    (re.compile(r"(^|/)(examples?|demos?|tutorials?)/"), 2),
    (re.compile(r"^README\.(md|MD|markdown)$"), 3),
)


_APART = re.compile(r"parallel|distributed|multi_?gpu|multi_?node|megatron|nccl|fuzz|gradcheck", re.IGNORECASE)
"""Words in the names of files whose calls need several processes, or are no usual ones."""


def order_of(file: str) -> int | None:
    """Return where a file stands among those that show how functions are called: benchmarks, tests, examples, README."""
    if not file.endswith(".py") and PurePosixPath(file).suffix.lower() not in (".md", ".markdown"):
        return None
    return next((order for pattern, order in _ORDER if pattern.search(file)), None)


def sources_of(file: str, text: str) -> Iterator[Source]:
    """Yield a file's syntax tree; of a README one for each block of Python, with the line numbers of the file."""
    if _APART.search(file):
        return
    blocks = (
        [(text, 0)]
        if file.endswith(".py")
        else [(found[1], text.count("\n", 0, found.start(1))) for found in _BLOCK.finditer(text)]
    )
    for block, before in blocks:
        if tree := parsed(block):
            yield Source(file, ast.increment_lineno(tree, before) if before else tree)
