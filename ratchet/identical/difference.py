"""Find what differs between two trees, and which of it a process notices only if it looks: the start of the proof in `identical`.

`child.host` calls `compare` once, before either tree is imported. It reads the files of both trees, and changes nothing.
docs/decisions/0021-host-code.md says why each difference may wait to be noticed; every other one counts for all cases.
"""

from __future__ import annotations

import ast
import inspect
import marshal
import os
import stat
import tomllib
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import MAGIC_NUMBER
from pathlib import Path, PurePath
from types import CodeType

from ratchet.common.byte_code import followed_source
from ratchet.core.records.tuned import TUNED_FILE

MOST_BYTES = 2 << 30
"""A larger tree takes longer to read than its cases to be timed."""
GIT = ".git"
_OF_RATCHET = frozenset({"baseline.json", "current.json", "report.json", "ratchet_report.md", "static.json"})
"""Files of ratchet's own in the folder of results."""
_DOCUMENTATION = (".md", ".rst")
_OF_TOOLS = frozenset(
    {".gitattributes", ".gitignore", ".gitlab-ci.yml", ".pre-commit-config.yaml", "pyproject.toml", "setup.cfg"}
)
_METADATA = (".dist-info", ".egg-info", ".egg")
"""Endings of folders that `importlib.metadata` looks for."""


@dataclass(frozen=True)
class PythonChange:
    """A difference between two Python files. All empty: in comments and format alone."""

    top: str = ""
    """What differs for whoever imports the file."""
    bodies: frozenset[str] = frozenset()
    """Qualified names of functions that are the same but for their bodies."""
    kernels: frozenset[str] = frozenset()
    """Names of functions that are written as Triton's kernels, and have other parameters."""


@dataclass(frozen=True)
class TreeDifference:
    """Everything that differs between two trees. Paths are relative to either."""

    counted: tuple[str, ...] = ()
    """What every case notices: ``data/table.txt changed``."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Path → what happened to it; noticed only by those who look."""
    python: Mapping[str, PythonChange] = field(default_factory=dict)
    """Those among the paths that are Python files on both sides, with another content."""
    unknown: str = ""
    """Why nothing is known."""
    is_whole: bool = False
    """Nobody has seen the other tree: what a process touches is written down for later ones."""

    @property
    def one_sided(self) -> frozenset[str]:
        """Files and folders that one side alone has."""
        return frozenset(path for path, what in self.paths.items() if what in _ONE_SIDED)


_NEW, _GONE, _CHANGED = "is new", "is gone", "changed"
_ONE_SIDED = (_NEW, _GONE)


def compare(reference: Path, head: Path, bench: str, results: str) -> TreeDifference:
    """Compare two trees. ``bench`` and ``results`` are folders in them. Raises OSError for a file that cannot be read."""
    there, here = _entries(reference), _entries(head)
    if sum(entry.st_size for entries in (there, here) for entry in entries.values()) > 2 * MOST_BYTES:
        return TreeDifference(unknown=f"the trees have more than {MOST_BYTES >> 30} GiB of files")
    counted: list[str] = []
    paths: dict[str, str] = {}
    python: dict[str, PythonChange] = {}
    for path in sorted(there.keys() | here.keys()):
        one, other = there.get(path), here.get(path)
        if not (what := _difference(reference, head, path, one, other)):
            continue
        kinds = {stat.S_IFMT(entry.st_mode) for entry in (one, other) if entry}
        if path.endswith("pyproject.toml") and _settings(reference / path) != _settings(head / path):
            counted.append(f"the settings in {path} changed")
        elif not (kinds == {stat.S_IFDIR} or (kinds == {stat.S_IFREG} and _may_be_unread(PurePath(path), bench, results))):
            counted.append(f"{path} {what}")
        else:
            paths[path] = what
            if path.endswith(".py") and what == _CHANGED:
                python[path] = python_change((reference / path).read_bytes(), (head / path).read_bytes())
    if _commit(reference) != _commit(head):
        paths[GIT] = _CHANGED
    return TreeDifference(tuple(counted), paths, python)


def whole(tree: Path) -> TreeDifference:
    """Return the difference of a tree from one that nobody has seen yet: all of it may be another.

    Raises OSError for a folder that cannot be read.
    """
    entries = _entries(tree)
    if sum(entry.st_size for entry in entries.values()) > MOST_BYTES:
        return TreeDifference(unknown=f"the tree has more than {MOST_BYTES >> 30} GiB of files")
    return TreeDifference(paths=dict.fromkeys((*entries, GIT), _CHANGED), is_whole=True)


def _entries(tree: Path) -> dict[str, os.stat_result]:
    """Return everything in a tree but git's own folder and byte code that Python compares with its source."""
    found: dict[str, os.stat_result] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        in_cache = folder.endswith("__pycache__/")
        with os.scandir(tree / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.name == GIT or (in_cache and (source := followed_source(tree / path)) and _follows(tree / path, source)):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
                    if entry.name == "__pycache__":
                        continue
                found[path] = entry.stat(follow_symlinks=False)
    return found


def _follows(byte_code: Path, source: Path) -> bool:
    """Return whether byte code is what Python compiles of its source, or of another release. Builds may give both any time."""
    if not source.is_file():
        return False
    data = byte_code.read_bytes()
    if data[:4] != MAGIC_NUMBER:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = compile(source.read_bytes(), source, "exec", dont_inherit=True)
        return bool(marshal.loads(data[16:]) == compiled)  # noqa: S302  as its import does
    except (SyntaxError, ValueError, EOFError, TypeError):
        return False


def _difference(reference: Path, head: Path, path: str, one: os.stat_result | None, other: os.stat_result | None) -> str:
    """Return what happened to a path, as a predicate; no text where it is the same on both sides."""
    if one is None or other is None:
        return _NEW if one is None else _GONE
    if stat.S_IFMT(one.st_mode) != stat.S_IFMT(other.st_mode):
        return "is something else"
    if stat.S_ISLNK(one.st_mode):
        target, there = (str((tree / path).readlink()) for tree in (head, reference))
        return "" if there in (target, target.replace(str(head), str(reference))) else "leads elsewhere"
    if stat.S_ISREG(one.st_mode) and not _same_content(reference, head, path):
        return _CHANGED
    return "" if one.st_mode == other.st_mode else "has another mode"


def _same_content(reference: Path, head: Path, path: str) -> bool:
    """Return whether a file is the same. The tree's own path in it counts as the same, but not in source: builds write it."""
    one, other = (reference / path).read_bytes(), (head / path).read_bytes()
    return one == other or (not path.endswith(".py") and one == other.replace(os.fsencode(head), os.fsencode(reference)))


def _may_be_unread(path: PurePath, bench: str, results: str) -> bool:
    """Return whether this is Python, or on the list of files that few programs read: only those wait to be noticed."""
    if any(part.endswith(_METADATA) for part in path.parts):
        return False
    in_results = path.is_relative_to(results) and (path.name in _OF_RATCHET or "history" in path.relative_to(results).parts[:1])
    return (
        path.suffix in (".py", *_DOCUMENTATION)
        or path.name.startswith("LICENSE")
        or path.name in _OF_TOOLS
        or path.parts[0] == ".github"
        or path == PurePath(bench, TUNED_FILE)
        or in_results
    )


def _settings(path: Path) -> object:
    """Return ``[tool.ratchet]``; something that equals nothing else where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("ratchet") if path.exists() else None
    except (OSError, ValueError):
        return path


def _commit(tree: Path) -> str:
    head = tree / GIT / "HEAD"
    return head.read_text(encoding="utf-8") if head.is_file() else ""


# Two Python files.


def python_change(reference: bytes, head: bytes) -> PythonChange:
    """Return the difference between two Python files, by what Python compiles of them. Positions do not count."""
    try:
        if _compiler_warnings(reference) != _compiler_warnings(head):
            return PythonChange(top="what the compiler warns of")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, other = ast.parse(reference), ast.parse(head)
            return PythonChange() if ast.dump(one) == ast.dump(other) else _module_change(one, other)
    except (SyntaxError, ValueError, RecursionError):
        return PythonChange(top="what is no Python")


def _compiler_warnings(source: bytes) -> list[tuple[type[Warning], str]]:
    """Return what an import of this file shows while it compiles: a filter may make an error of it, or a hook hear it.

    Raises what the import would raise, for a file that is no Python.
    """
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        compile(source, "", "exec", dont_inherit=True)
    return [(each.category, str(each.message)) for each in heard]


def _module_change(one: ast.Module, other: ast.Module) -> PythonChange:
    for module in (one, other):
        if _keeps_its_name(module):  # the first statement stays: a text is a docstring there
            module.body[1:] = [node for node in module.body[1:] if not _is_main(node)]
    kernels = _without_changed_kernels(one, other)
    described = _first_difference(one, other)
    bodies = _bodies(_compiled(one), _compiled(other))
    return PythonChange(top=described) if bodies is None else PythonChange(bodies=bodies, kernels=kernels)


def _keeps_its_name(module: ast.Module) -> bool:
    """Return whether a module does no more with ``__name__`` than to read it: nothing then makes a program of an import."""
    text = ast.dump(module)
    return text.count("__name__") == sum(text.count(f"{read}='__name__', ctx=Load()") for read in ("id", "attr"))


def _is_main(node: ast.stmt) -> bool:
    """Return whether a statement runs only where its file is the program, and so in no import.

    An annotation gives the whole module an ``__annotations__``, wherever it stands.
    """
    is_main = isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"
    return is_main and not any(isinstance(each, ast.AnnAssign) for each in ast.walk(node))


def _without_changed_kernels(one: ast.Module, other: ast.Module) -> frozenset[str]:
    """Return the names of kernels whose parameters differ, and take parameters and bodies of these out of both modules.

    Defining one does the same on both sides: the parameters have the same annotations, and constants for defaults. A `Watch` has
    to confirm that Triton alone is given the function, since a name may mean anything.
    """
    changed = [
        (here, there[name])
        for there in [_kernels_of(other)]
        for name, here in _kernels_of(one).items()
        if name in there and ast.dump(here.args) != ast.dump(there[name].args) and _means_the_same(here, there[name])
    ]
    for node in (node for pair in changed for node in pair):
        node.args, node.body = ast.arguments([], [], None, [], [], None, []), [ast.Pass()]
        ast.fix_missing_locations(node)
    return frozenset(here.name for here, _ in changed)


def _kernels_of(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions at the top of a module that ``triton.jit`` alone decorates, and that have names of their own."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = Counter(node.name for node in ast.walk(module) if isinstance(node, definitions))
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef) and names[node.name] == 1)
    return {node.name: node for node in functions if [ast.unparse(each) for each in node.decorator_list] == ["triton.jit"]}


def _means_the_same(one: ast.FunctionDef, other: ast.FunctionDef) -> bool:
    """Return whether defining either function evaluates the same annotations, and no defaults but constants."""
    notes = []
    for node in (one, other):
        given = node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        notes.append({ast.dump(each.annotation) for each in every if each and each.annotation})
        if not all(isinstance(each, ast.Constant) for each in (*given.defaults, *filter(None, given.kw_defaults))):
            return False
        if getattr(node, "type_params", ()):
            return False
    outside = [(node.returns and ast.dump(node.returns), ast.get_docstring(node)) for node in (one, other)]
    return notes[0] == notes[1] and outside[0] == outside[1]


def _compiled(module: ast.Module) -> CodeType:
    """Compile a module as if all of it stood in one place."""
    for node in ast.walk(module):
        if hasattr(node, "lineno"):
            vars(node).update(lineno=1, end_lineno=1, col_offset=0, end_col_offset=0)
    return compile(module, "", "exec", dont_inherit=True)


def _bodies(one: CodeType, other: CodeType) -> frozenset[str] | None:
    """Return the innermost functions in which two codes differ, by qualified name; None where they differ elsewhere too."""
    if one == other:
        return frozenset()
    if _without_inner(one) == _without_inner(other):
        pairs = [pair for pair in zip(one.co_consts, other.co_consts, strict=True) if isinstance(pair[0], CodeType)]
        found = [_bodies(*pair) for pair in pairs]
        if None not in found:
            return frozenset().union(*filter(None, found))
    return frozenset({one.co_qualname}) if _header(one) == _header(other) and one.co_flags & inspect.CO_OPTIMIZED else None


def _docstring(code: CodeType) -> str | None:
    return next((each for each in code.co_consts[:1] if isinstance(each, str) and code.co_flags & inspect.CO_OPTIMIZED), None)


def _without_inner(code: CodeType) -> CodeType:
    return code.replace(co_consts=tuple("" if isinstance(each, CodeType) else each for each in code.co_consts))


def _header(code: CodeType) -> tuple[object, ...]:
    """Return what others see of a function without running it or looking at its code."""
    flags, counts = code.co_flags, (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    arguments = counts[0] + counts[2] + bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    return code.co_qualname, flags, counts, code.co_varnames[:arguments], code.co_freevars, _docstring(code)


def _first_difference(one: ast.Module, other: ast.Module) -> str:
    """Return the first line of a statement that one of two modules alone has."""
    texts = [[ast.dump(node) for node in module.body] for module in (one, other)]
    alone = [node for node, text in zip(other.body, texts[1], strict=True) if text not in texts[0]]
    alone += [node for node, text in zip(one.body, texts[0], strict=True) if text not in texts[1]]
    return ast.unparse(alone[0]).partition("\n")[0][:60] if alone else "the order of its statements"
