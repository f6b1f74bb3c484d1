"""Index the functions and classes that a repository defines, and say which of them end in a kernel. Runs nothing.

Calls are followed by name alone: a wrapper, its `torch.autograd.Function` and the function that launches are often three files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
class Definitions:
    """The names of all functions and classes at the top of a repository's files."""

    names: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    """Those of the code of a kernel itself, which nobody can call as it stands."""
    launching: frozenset[str] = frozenset()
    """Those that launch a kernel, or call what does."""


@dataclass(frozen=True)
class Top:
    """A function or class at the top of a file, and what its code says of it."""

    name: str
    used: frozenset[str]
    """The words of its code."""
    is_kernel: bool
    launches: bool


def tops_of(text: str, tree: ast.Module) -> Iterator[Top]:
    """Yield what stands at the top of a file."""
    compiled = set(_compiled(tree.body))
    lines = text.splitlines()
    for node in _tops(tree.body):
        code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        used = frozenset(re.findall(r"[A-Za-z_]\w+", code))
        decorators = [ast.unparse(each) for each in node.decorator_list]
        is_kernel = any(map(_LAUNCHED_BY.search, decorators))
        launches = _LAUNCH.search(code) or compiled & used or _CUSTOM_OP.search(" ".join(decorators))
        yield Top(node.name, used, is_kernel, launches=not is_kernel and bool(launches))


def definitions(tops: Sequence[Top]) -> Definitions:
    """Index what stands at the top of a repository's files."""
    words: dict[str, set[str]] = {}
    for top in tops:
        words.setdefault(top.name, set()).update(top.used)
    launching = {top.name for top in tops if top.launches} - _ANY
    for _ in range(8):
        more = {name for name, used in words.items() if name not in launching and used & launching} - _ANY
        if not more:
            break
        launching |= more
    return Definitions(frozenset(words), frozenset(top.name for top in tops if top.is_kernel), frozenset(launching))


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
