"""Index the functions and classes that a repository defines, and say which of them end in a kernel. Runs nothing.

Calls are followed by name alone: a wrapper, its `torch.autograd.Function` and the function that launches are often three files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_ANY = {"forward", "backward", "apply", "setup_context", "main", "kernel", "run", "call", "wrapper", "inner", "fn", "f", "grid"}
"""Names that too many functions have to follow a call by."""
_EXTENSION = re.compile(r"(^|\.)(_C|_ext|_cuda|\w+_cuda|\w+_ext|cuda_\w+|_kernels?_?C)$")
"""Names under which compiled code is imported."""
_CUSTOM_OP = re.compile(r"\b(custom_op|triton_op|register_kernel|register_custom_op)\b")
_LAUNCH = re.compile(
    r"\w*(?:kernel|_fwd|_bwd|_triton)\w*\)?\[[^\]\n]*\]\(|[\w)]\[[^\]\n]*grid[^\]\n]*\]\(|\btorch\.ops\.(?!aten)\w+\.\w+\(|\bcute\.compile\("
)
"""How Triton launches, ``kernel[grid](…)``, and calls of operators that compiled code registers."""
_LAUNCHED_BY = re.compile(r"\b(triton\.)?jit\b|\bcute\.(jit|kernel)\b|\bautotune\b|\bheuristics\b")


@dataclass(frozen=True)
class Definition:
    """A function or class at the top of a file."""

    name: str
    file: str
    node: ast.FunctionDef | ast.ClassDef

    @property
    def is_kernel(self) -> bool:
        """Return whether it is the code of a kernel itself, which nobody can call as it stands."""
        return any(_LAUNCHED_BY.search(ast.unparse(each)) for each in self.node.decorator_list)


@dataclass(frozen=True)
class Definitions:
    """All definitions of a repository, by name."""

    by_name: Mapping[str, tuple[Definition, ...]] = field(default_factory=dict)
    launching: frozenset[str] = frozenset()
    """Names of those that launch a kernel, or call what does."""


def definitions(files: Mapping[str, tuple[str, ast.Module]]) -> Definitions:
    """Index the files of a repository: path → its text and syntax tree."""
    by_name: dict[str, list[Definition]] = {}
    words: dict[str, set[str]] = {}
    launching: set[str] = set()
    for file, (text, tree) in files.items():
        compiled = set(_compiled(tree.body))
        lines = text.splitlines()
        for node in _tops(tree.body):
            found = Definition(node.name, file, node)
            by_name.setdefault(node.name, []).append(found)
            code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            used = set(re.findall(r"[A-Za-z_]\w+", code))
            words.setdefault(node.name, set()).update(used)
            decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
            if not found.is_kernel and (_LAUNCH.search(code) or compiled & used or _CUSTOM_OP.search(decorators)):
                launching.add(node.name)
    launching -= _ANY
    for _ in range(8):
        more = {name for name, used in words.items() if name not in launching and used & launching} - _ANY
        if not more:
            break
        launching |= more
    return Definitions({name: tuple(each) for name, each in by_name.items()}, frozenset(launching))


def _tops(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Yield definitions at the top of a file, and those in its ``if`` and ``try``."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from _tops([*node.body, *node.orelse])


def _compiled(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names under which compiled code is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if _EXTENSION.search(alias.name):
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.If | ast.Try):
            yield from _compiled([*node.body, *node.orelse])
