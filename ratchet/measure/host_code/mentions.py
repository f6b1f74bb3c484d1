"""Find what a statement of a tree may read: names of its module, members of other modules, whole namespaces, files.

`statements` asks for each statement that counts. Names are looked up in the modules as they are in this process, without running
any code of the tree. What reads in a way that no name shows makes everything in the tree count (`Mentions.wide`).
"""

from __future__ import annotations

import ast
import builtins
import importlib
import operator
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

from ratchet.measure.host_code.acts import LISTING, PICKLE, PROGRAM, SOURCE, TEXT

_WIDE_MODULES = {
    PROGRAM: ("subprocess", "pty"),
    PICKLE: ("pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"),
    "it loads code by file": ("imp", "importlib", "pkgutil", "runpy", "zipimport", "code", "codeop"),
    LISTING: ("fileinput", "glob", "shutil"),
    SOURCE: ("inspect", "linecache", "tokenize", "pydoc"),
    "it finds code by settings": ("hydra", "unittest"),
}
_WIDE_MEMBERS = {
    ("torch", "load"): PICKLE,
    **dict.fromkeys((("yaml", each) for each in ("Loader", "UnsafeLoader", "unsafe_load")), "it finds code by settings"),
}
_WIDE_REASONS = {module: reason for reason, modules in _WIDE_MODULES.items() for module in modules}
_HARMLESS = {
    "inspect": frozenset({"Parameter", "Signature", "isclass", "isfunction", "ismethod", "signature", "unwrap", "_empty"}),
    "importlib": frozenset(
        {
            *("EXTENSION_SUFFIXES", "ExtensionFileLoader", "FileFinder", "ModuleSpec", "PackageNotFoundError"),
            *("distribution", "entry_points", "files", "find_spec", "machinery", "metadata", "requires", "util", "version"),
            *("__import__", "import_module"),  # noted as the objects that they are
        }
    ),
    "pkgutil": frozenset({"extend_path", "get_data"}),  # the modules that are found then are among the loaded ones
    "shutil": frozenset({"copy", "copy2", "copyfile", "copyfileobj", "disk_usage", "get_terminal_size", "which"}),
    "unittest": frozenset({"mock"}),
}
"""Members of modules that are otherwise wide."""
_WIDE_OBJECTS: tuple[tuple[object, str], ...] = (
    *((each, TEXT) for each in (eval, exec, compile)),
    *((each, LISTING) for each in (os.listdir, os.scandir, os.walk, os.fwalk)),
    *((each, PROGRAM) for each in (os.system, os.popen, os.execv, os.execve, os.posix_spawn)),
    (sys._getframe, "it reads the call stack"),
)
_WIDE_ATTRIBUTES = {
    **dict.fromkeys(("get_referents", "get_referrers", "get_objects"), "it looks objects up at run time"),
    **dict.fromkeys(("co_filename", "co_firstlineno", "f_lineno", "tb_lineno", "get_source"), "it reads source positions"),
    **dict.fromkeys(("glob", "iglob", "iterdir", "listdir", "rglob", "scandir", "walk"), LISTING),
    **dict.fromkeys(
        ("__globals__", "f_back", "f_globals", "f_locals", "gi_frame", "tb_frame"), "it reads namespaces of functions"
    ),
    **dict.fromkeys(("__loader__", "__path__", "__spec__", "exec_module", "load_module"), "it loads code by file"),
    **dict.fromkeys(("Popen", "check_call", "check_output", "popen", "system"), PROGRAM),
}
_LISTING_MODULES = (pkgutil.iter_modules, pkgutil.walk_packages)
"""Functions that find the modules of a package by the names of files; what is imported then is among the loaded modules."""
_IMPORTS = (builtins.__import__, importlib.__import__)
_LOOK_UPS = (getattr, hasattr, setattr, delattr)
_ENUMERATING = (*_LOOK_UPS, vars, dir, operator.attrgetter, operator.methodcaller)
_BESIDE_FILE = re.compile(
    r"dirname\((?:[\w.]+\()?__file__\)|Path\(__file__\)(?:\.resolve\(\)|\.absolute\(\))?\.(?:parents?|with_name|with_suffix)\b"
)
"""Uses of ``__file__`` that lead to the files beside it, which all count unless they are Python."""
_FIELD = re.compile(r"\{[^{}]*\}")
"""A field of a text for ``str.format``, which may name an attribute: ``{config.BLOCK}``."""
_PYTHON_FILE = re.compile(r"(?:(?<![^\s/'\"`(:,])([\w-][\w.-]*))?\.py\b")
"""The name of a Python file in a text, if the text has the whole of it."""
_WORD = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


@dataclass
class Mentions:
    """The names, modules, attributes and words that a statement may read."""

    names: set[str] = field(default_factory=set)
    """Global names of its module."""
    members: set[tuple[str, str]] = field(default_factory=set)
    """Module of the tree, and a name in it."""
    imports: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Name that it binds at the top of its module → where that comes from, as ``members``."""
    attributes: set[str] = field(default_factory=set)
    """Attributes of objects that could be a module of the tree, if one is used as a value anywhere."""
    escapes: set[str] = field(default_factory=set)
    """Modules of the tree that are used as values."""
    handed: set[str] = field(default_factory=set)
    """Those that are used as values: a library that gets one (a template's values) may read any of its names."""
    named: set[str] = field(default_factory=set)
    """Modules of the tree that a text names, with the packages that they are in."""
    every_module: bool = False
    """Any module may be used as a value."""
    computed_imports: bool = False
    """It imports modules whose names are computed (`importlib.import_module`)."""
    enumerates: bool = False
    """It reads attributes whose names are computed."""
    docstrings: bool = False
    """It reads docstrings."""
    source: bool = False
    """It reads source as text."""
    listed: set[str] = field(default_factory=set)
    """Folders in which it looks which Python files there are; an empty name stands for any."""
    python_files: set[str] = field(default_factory=set)
    """Names, or ends of names, of Python files in its texts."""
    words: set[str] = field(default_factory=set)
    """Words in its texts, which may name files."""
    wide: list[str] = field(default_factory=list)
    """Why everything in the tree counts; acts of `acts.WATCHED` only once they were seen."""


class Syntax:
    """The names and imports of a statement that its text alone shows: a host looks once, for all its workers."""

    def __init__(self, node: ast.stmt) -> None:
        self.imports: list[ast.Import | ast.ImportFrom] = []
        """All in it, in functions too."""
        self.inner_imports: list[ast.Import | ast.ImportFrom] = []
        """Those within functions and classes."""
        self.top_imports = list(_at_top(node))
        """Those that run where the statement does."""
        self.local: set[str] = set()
        """Names that functions within it may bind for themselves."""
        left: list[tuple[ast.AST, bool, bool]] = [(node, False, False)]
        while left:  # half a million nodes in a large package: no recursion, and nothing is asked of the smallest ones
            each, in_function, is_inner = left.pop()
            if isinstance(each, ast.Import | ast.ImportFrom):
                self.imports.append(each)
                if is_inner:
                    self.inner_imports.append(each)
                continue
            if in_function and (name := _bound_here(each)):
                self.local.add(name)
            if isinstance(each, _FUNCTIONS):
                in_function = is_inner = True
            elif isinstance(each, ast.ClassDef):
                is_inner = True
            left += [(child, in_function, is_inner) for child in ast.iter_child_nodes(each) if child._fields]


class MentionReader(ast.NodeVisitor):
    """A visitor of one statement of a module. ``own`` returns the name of a module of the tree, or no name."""

    def __init__(
        self, module: ModuleType, bound: Collection[str], own: Callable[[object], str], node: ast.stmt, syntax: Syntax
    ) -> None:
        self.found = Mentions()
        self._module = module
        self._bound = bound
        self._own = own
        self._local = set(syntax.local)
        self._imported: dict[str, object] = {}
        self._import_within(syntax.inner_imports)
        self.visit(node)
        if "__file__" in self.found.names and "__file__" in _BESIDE_FILE.sub("", ast.unparse(node)):
            self._widen("it reads its own file")

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._chain(node.id, [])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes = [node.attr]
        base = node.value
        while isinstance(base, ast.Attribute):
            attributes.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            self._chain(base.id, attributes[::-1])
        else:
            for each in attributes:
                self._attribute(each)
            self.visit(base)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A module that is imported, and then not used as a value, is among the loaded ones: what its top does counts anyway."""
        call = node.value
        if isinstance(call, ast.Call) and _is_among(self._value(call.func), (importlib.import_module, *_IMPORTS)):
            for each in (*call.args, *call.keywords):
                self.visit(each)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._value(node.func)
        first = node.args[0] if node.args else None
        if any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            self._widen(PICKLE)
        if _is_among(called, _LOOK_UPS) and len(node.args) > 1 and (name := _text(node.args[1])):
            self.visit(ast.Attribute(node.args[0], name, ast.Load()))
            arguments = node.args[2:]
        elif called is importlib.import_module and len(node.args) == 1 and (name := _text(first)):
            self._import(name)
            arguments = []
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "get" and self._takes_module(node.func.value, first):
            arguments = node.args[1:]
        elif _is_among(called, _LISTING_MODULES):
            places = [each for each in node.args[:1] if isinstance(each, ast.Name) and each.id == "__path__"]
            self.found.listed.add(str(Path(self._module.__file__ or "").resolve().parent) if places else "")
            arguments = node.args[len(places) :]
        elif _is_among(called, _ENUMERATING) and node.args and self._is_library(self._value(node.args[0])):
            arguments = node.args  # `getattr(torch, device)` finds what a library has
        elif called is pkgutil.extend_path:
            arguments = [each for each in node.args if not (isinstance(each, ast.Name) and each.id == "__path__")]
        else:
            self.visit(node.func)
            arguments = node.args
        for each in (*arguments, *node.keywords):
            self.visit(each)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.ctx, ast.Load) and self._takes_module(node.value, node.slice)):
            self.generic_visit(node)

    def _takes_module(self, mapping: ast.expr, key: ast.expr | None) -> bool:
        """Note the module that is taken from `sys.modules` by its name. Return whether this is such a look-up."""
        name = self._module.__name__ if isinstance(key, ast.Name) and key.id == "__name__" else _text(key)
        if not name or self._value(mapping) is not sys.modules:
            return False
        self._import(name)
        self._hand(sys.modules.get(name))
        return True

    def visit_Assign(self, node: ast.Assign) -> None:
        """``globals()[name] = value`` reads no global name."""
        for target in node.targets:
            into = target.value if isinstance(target, ast.Subscript) else None
            writes = isinstance(into, ast.Call) and self._value(into.func) is globals
            self.visit(target.slice if isinstance(target, ast.Subscript) and writes else target)
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        if not isinstance(text, str):
            return
        for name in _PYTHON_FILE.findall(text):
            if name:
                self.found.python_files.add(f"{name}.py")
            else:
                self._widen("it names a Python file")
        words = set(_WORD.findall(text))
        self.found.words |= words
        self.found.attributes |= {word for each in _FIELD.findall(text) for word in _WORD.findall(each)}
        self.found.names |= words & set(self._bound)  # an annotation in quotes, an attribute by name
        self._import(text)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self.found.attributes |= set(node.kwd_attrs)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note names that are imported at the top; `_import_within` has noted what functions import."""
        if own := self._own(sys.modules.get(absolute(self._module, node))):
            for alias in node.names:
                self.found.imports.setdefault(alias.asname or alias.name, set()).add((own, alias.name))

    def _import_within(self, imports: Iterable[ast.Import | ast.ImportFrom]) -> None:
        """Note what functions within the statement import, by the name that it gets there."""
        bound: dict[str, list[object]] = {}
        for inner in imports:
            if isinstance(inner, ast.Import):
                for alias in inner.names:
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    bound.setdefault(alias.asname or name, []).append(sys.modules.get(name))
            else:
                module = sys.modules.get(absolute(self._module, inner))
                for alias in inner.names:
                    found = self._member(module, alias.name) if isinstance(module, ModuleType) else None
                    bound.setdefault(alias.asname or alias.name, []).append(found)
        for name, values in bound.items():
            if name not in self._local and all(each is values[0] for each in values):
                self._imported[name] = values[0]
            else:  # one name for several things
                self._local.add(name)
                for each in values:
                    self._object(each)
                    self._escape(each)

    def _chain(self, root: str, attributes: list[str]) -> None:
        """Note a name and the attributes after it, as far as they are those of modules."""
        self.found.names.add(root)
        self.found.docstrings |= root == "__doc__"
        if root.startswith("__") and root in _WIDE_ATTRIBUTES:
            self._widen(_WIDE_ATTRIBUTES[root])
        if root in self._local:
            for each in attributes:
                self._attribute(each)
            return
        current = self._global(root)
        self._object(current)
        for each in attributes:
            if isinstance(current, ModuleType):
                current = self._member(current, each)
            else:
                self._attribute(each)
                current = None
        self._hand(current)

    def _is_library(self, found: object) -> bool:
        """Return whether this is a module of an installed package; those of Python itself lead anywhere (`importlib`, `sys`)."""
        if not isinstance(found, ModuleType) or self._own(found):
            return False
        return found.__name__.partition(".")[0] not in sys.stdlib_module_names

    def _escape(self, found: object) -> None:
        if own := self._own(found):
            self.found.escapes.add(own)

    def _hand(self, found: object) -> None:
        """Note a module of the tree that is used as a value."""
        self._escape(found)
        if own := self._own(found):
            self.found.handed.add(own)

    def _member(self, module: ModuleType, name: str) -> object:
        if own := self._own(module):
            self.found.members.add((own, name))
        else:
            self._environment(module.__name__, name)
        found = vars(module).get(name)
        self._object(found)
        return found

    def _environment(self, module: str, name: str) -> None:
        top = module.partition(".")[0]
        if module == "unittest.mock" or top == "mock":  # it replaces attributes of modules, by texts
            self._note_any_module()
        elif top in _WIDE_REASONS and name not in _HARMLESS.get(top, ()):
            self._widen(_WIDE_REASONS[top])
        elif reason := _WIDE_MEMBERS.get((top, name)):
            self._widen(reason)
        elif top == "gc" and name in _WIDE_ATTRIBUTES:
            self._widen(_WIDE_ATTRIBUTES[name])

    def _object(self, found: object) -> None:
        """Note what an object of the environment can do."""
        if found is sys.modules:
            self._note_any_module()
        elif found is importlib.import_module:
            self.found.computed_imports = True
        elif _is_among(found, _IMPORTS):
            self.found.every_module = True
        elif _is_among(found, _ENUMERATING):
            self.found.enumerates = True
        elif found is globals or found is locals:
            self.found.names |= set(self._bound)
        elif isinstance(found, FunctionType | BuiltinFunctionType | type) and not isinstance(found, ModuleType):
            for each, reason in _WIDE_OBJECTS:
                if found is each:
                    self._widen(reason)
            module = sys.modules.get(found.__module__ or "")
            if module is not None and not self._own(module):
                self._environment(module.__name__, found.__name__)

    def _attribute(self, name: str) -> None:
        self.found.attributes.add(name)
        self.found.docstrings |= name == "__doc__"
        if name == "__subclasses__":  # which may stand in any module
            self._note_any_module()
        if name in _WIDE_ATTRIBUTES:
            self._widen(_WIDE_ATTRIBUTES[name])
        elif name in ("__dict__", "__getattribute__"):
            self.found.enumerates = True

    def _note_any_module(self) -> None:
        """Note that any name of any loaded module may be read."""
        self.found.every_module = self.found.enumerates = True

    def _import(self, name: str) -> None:
        """Note a module of the tree that code may get by a dotted name, and the packages on the way to it."""
        parts = re.split(r"[.:]", name)
        modules = [sys.modules.get(".".join(parts[:count])) for count in range(1, len(parts) + 1)]
        if any(map(self._own, modules)):
            self.found.attributes |= set(parts)
        for module, part in zip(modules, [*parts[1:], ""], strict=True):
            if own := self._own(module):
                self.found.named.add(own)
                self.found.members.add((own, part))

    def _widen(self, reason: str) -> None:
        if reason == SOURCE:  # of files that are known; `inspect` looks things up as well
            self._note_any_module()
            self.found.docstrings = self.found.source = True
        else:
            self.found.wide.append(reason)

    def _global(self, name: str) -> object:
        if name in self._imported:
            return self._imported[name]
        names = vars(self._module)
        return names[name] if name in names else vars(builtins).get(name)

    def _value(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return None if node.id in self._local else self._global(node.id)
        owner = self._value(node.value) if isinstance(node, ast.Attribute) else None
        return vars(owner).get(node.attr) if isinstance(node, ast.Attribute) and isinstance(owner, ModuleType) else None


def absolute(module: ModuleType, node: ast.ImportFrom) -> str:
    """Return the full name of the module that ``from … import`` names, in a module."""
    if not node.level:
        return node.module or ""
    package = (vars(module).get("__package__") or "").split(".")
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _is_among(found: object, objects: Iterable[object]) -> bool:
    return any(found is each for each in objects)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _at_top(node: ast.AST) -> Iterable[ast.Import | ast.ImportFrom]:
    """Yield the imports in a statement at the top of a module that run where it does."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (
            found
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.ExceptHandler)
            for found in _at_top(child)
        )


def _bound_here(node: ast.AST) -> str | None:
    """Return the name that this node itself binds, if it does."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, _NAMED) else None
