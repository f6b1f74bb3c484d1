"""Decide which top-level statements of a module only bind names: running one more or one less of them changes nothing else.

`statements` asks for each statement of a tree's modules. What only binds is compared where its names are used; everything else
(a registration, a patch, a setting, a loop) is compared always. In doubt a statement is of the second kind. It reads modules as
they are after their import, and runs none of their code.
"""

from __future__ import annotations

import ast
import enum
import os
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType

Missing = enum.Enum("Missing", "MISSING")
MISSING = Missing.MISSING


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CALLS: Mapping[str, frozenset[str] | None] = {
    "abc": None,
    "builtins": _words(
        "abs all any bool bytes classmethod dict divmod enumerate float frozenset int isinstance issubclass len list max min"
        " object pow property range reversed round set slice sorted staticmethod str sum tuple zip"
    ),
    "collections": _words("Counter OrderedDict defaultdict deque namedtuple"),
    "contextlib": _words("asynccontextmanager contextmanager nullcontext suppress"),
    "dataclasses": _words("dataclass field"),
    "enum": _words("auto unique"),
    "functools": _words("cache cached_property lru_cache partial partialmethod total_ordering wraps"),
    "itertools": _words("chain combinations count permutations product repeat"),
    "logging": _words("getLogger"),
    "math": None,
    "numba": _words("guvectorize jit njit vectorize"),
    "os": _words("cpu_count getenv"),
    "packaging": _words("Version parse"),
    "pathlib": _words("Path PurePath"),
    "posixpath": _words("abspath basename dirname join realpath"),
    "ratchet": _words("Workload benchmark"),
    "re": _words("compile"),
    "torch": _words(
        "Size compile custom_bwd custom_fwd device disable enable_grad finfo iinfo inference_mode is_available no_grad"
        " once_differentiable"
    ),
    "triton": _words("Config autotune cdiv constexpr constexpr_function heuristics jit next_power_of_2"),
    "typing": None,
    "typing_extensions": None,
}
"""Functions and classes of the environment, by the first part of their module (None: all), that only return something."""
_BASES = ("abc", "builtins", "collections", "ctypes", "enum", "torch", "triton", "typing", "typing_extensions")
"""Packages whose metaclasses and ``__init_subclass__`` keep no list that anything else looks at."""
_READING = ("builtins", "collections", "math")
"""Modules whose functions iterate over their arguments, or use their operators."""
_METHODS = _words("copy endswith format get items join keys lower split startswith strip upper values")
_FILLING = _words("append extend setdefault update")
_SIMPLE = (bool, int, float, complex, str, bytes, type(None), range)


class Plain:
    """Decide for the statements of one module.

    ``definition`` returns the source of a function of the tree, None for others; ``own`` says whether a module is the tree's.
    """

    def __init__(
        self,
        module: ModuleType,
        definition: Callable[[FunctionType], ast.FunctionDef | None],
        own: Callable[[str], bool],
        asked: frozenset[int] = frozenset(),
    ) -> None:
        self._module = module
        self._definition = definition
        self._own = own
        self._asked = asked
        """Functions that are being looked at; one that calls itself is not plain."""
        self._fresh: frozenset[str] = frozenset()
        """Names of lists and dicts that the function which is looked at has made itself."""

    def statement(self, node: ast.stmt, local: frozenset[str] = frozenset()) -> bool:  # noqa: PLR0911  a table of statements
        """Return whether a statement only binds names."""
        match node:
            case ast.Import() | ast.Pass():
                return True
            case ast.ImportFrom():
                return node.module != "__future__" and all(alias.name != "*" for alias in node.names)
            case ast.Expr(ast.Constant()):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node, local)
            case ast.ClassDef():
                return self._class(node, local)
            case ast.Assign():
                return all(map(_is_name, node.targets)) and self.expression(node.value, local)
            case ast.AnnAssign():
                value = node.value is None or self.expression(node.value, local)
                return _is_name(node.target) and value and self._annotation(node.annotation, local)
            case ast.If():
                return self.expression(node.test, local, simple=True) and self._all((*node.body, *node.orelse), local)
            case ast.Try():
                types = [handler.type for handler in node.handlers if handler.type]
                handled = [each for handler in node.handlers for each in handler.body]
                bodies = (*node.body, *handled, *node.orelse, *node.finalbody)
                return all(self.expression(kind, local) for kind in types) and self._all(bodies, local)
            case ast.With():
                held = all(self.expression(item.context_expr, local) and item.optional_vars is None for item in node.items)
                return held and self._all(node.body, local)
        return False

    def expression(  # noqa: PLR0911, PLR0912  a table of expressions
        self, node: ast.expr, local: frozenset[str] = frozenset(), *, simple: bool = False
    ) -> bool:
        """Return whether evaluating it changes nothing; ``simple``: and its value is one whose operators do not either."""
        match node:
            case ast.Constant() | ast.Lambda():
                return isinstance(node, ast.Constant) or self._defaults(node.args, local)
            case ast.Name():
                return not simple or node.id in local or _is_simple(self.value(node))
            case ast.Attribute():
                if _root(node) in local:
                    return True
                found = self.value(node)
                return found is not MISSING and (not simple or _is_simple(found))
            case ast.Tuple() | ast.List() | ast.Set():
                return all(self.expression(part, local, simple=simple) for part in node.elts)
            case ast.Dict():
                keys = all(key is None or self.expression(key, local, simple=True) for key in node.keys)
                return keys and all(self.expression(part, local, simple=simple) for part in node.values)
            case ast.Starred() | ast.FormattedValue():
                return self.expression(node.value, local, simple=True)
            case ast.JoinedStr():
                return all(self.expression(part, local, simple=True) for part in node.values)
            case ast.UnaryOp():
                return self.expression(node.operand, local, simple=True)
            case ast.BinOp():
                return all(self.expression(part, local, simple=True) for part in (node.left, node.right))
            case ast.BoolOp():
                return all(self.expression(part, local, simple=True) for part in node.values)
            case ast.Compare():
                return all(self.expression(part, local, simple=True) for part in (node.left, *node.comparators))
            case ast.IfExp():
                return self.expression(node.test, local, simple=True) and all(
                    self.expression(part, local, simple=simple) for part in (node.body, node.orelse)
                )
            case ast.Subscript():
                return self._subscript(node, local)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, local)
            case ast.Call():
                return self._call(node, local)
        return False

    def value(self, node: ast.expr) -> object:
        """Return what a name, or an attribute of modules and classes, stands for in this module now; MISSING if unknown."""
        if isinstance(node, ast.Name):
            names = vars(self._module)
            builtin = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
            return names[node.id] if node.id in names else builtin.get(node.id, MISSING)
        if not isinstance(node, ast.Attribute):
            return MISSING
        owner = self.value(node.value)
        if owner is os.environ and node.attr == "get":
            return os.getenv
        if isinstance(owner, ModuleType):
            return vars(owner).get(node.attr, MISSING)
        if isinstance(owner, type) and self._is_usual(type(owner)):
            return next((vars(each)[node.attr] for each in owner.__mro__ if node.attr in vars(each)), MISSING)
        return MISSING

    def _all(self, nodes: Iterable[ast.stmt], local: frozenset[str]) -> bool:
        return all(self.statement(node, local) for node in nodes)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, local: frozenset[str]) -> bool:
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        annotations = [one.annotation for one in every if one and one.annotation] + ([node.returns] if node.returns else [])
        return (
            all(self._decorator(each, local) for each in node.decorator_list)
            and self._defaults(node.args, local)
            and all(self._annotation(each, local) for each in annotations)
        )

    def _class(self, node: ast.ClassDef, local: frozenset[str]) -> bool:
        decorated = all(self._decorator(each, local) for each in node.decorator_list)
        if node.keywords or not decorated or local or not all(self._is_usual_base(base) for base in node.bases):
            return False
        bound = frozenset(_names(node.body))
        # A class tells each object among its attributes what it is called there (__set_name__).
        values = [each.value for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        named = [each for each in values if isinstance(each, ast.Name | ast.Attribute) and _root(each) not in bound]
        return all(self._argument(each, bound) for each in named) and all(self.statement(each, bound) for each in node.body)

    def _is_usual_base(self, node: ast.expr) -> bool:
        found = self.value(node.value if isinstance(node, ast.Subscript) else node)
        if not isinstance(found, type):
            return type(found).__module__ == "typing" or found is typing.NamedTuple
        hooks = [each for each in found.__mro__ if "__init_subclass__" in vars(each)]
        return self._is_usual(type(found)) and all(self._is_usual(each) for each in hooks)

    def _decorator(self, node: ast.expr, local: frozenset[str]) -> bool:
        """Return whether decorating with it only wraps what it decorates."""
        if isinstance(node, ast.Attribute) and node.attr in ("setter", "getter", "deleter") and isinstance(node.value, ast.Name):
            return node.value.id in local  # of a property in the same class
        function = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Call) and not self._call(node, local):
            return False
        if _root(function) in local:
            return False
        found = self.value(function)
        if not isinstance(found, FunctionType) or (definition := self._definition(found)) is None:
            return self._is_listed(found)
        if not isinstance(node, ast.Call):
            return self._is_harmless(found, definition)
        inner = [each for each in definition.body if isinstance(each, ast.FunctionDef)]
        names = frozenset({*_arguments(definition), *_names(definition.body)})
        module = sys.modules[found.__module__]  # where `_is_harmless`, of the call, has found it
        there = Plain(module, self._definition, self._own, self._asked)
        return bool(inner) and all(there._is_harmless_body(each, names) for each in inner)

    def _call(self, node: ast.Call, local: frozenset[str]) -> bool:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name | ast.Constant):
            owner, method = _root(node.func), node.func.attr
            known = isinstance(node.func.value, ast.Constant) or (owner in local and method in _METHODS)
            if known or (owner in self._fresh and method in _FILLING):
                return all(self.expression(each, local, simple=known) for each in arguments)
        if _root(node.func) in local or (found := self.value(node.func)) is MISSING:
            return False
        if isinstance(found, FunctionType) and (definition := self._definition(found)) is not None:
            return all(self._argument(each, local) for each in arguments) and self._is_harmless(found, definition)
        simple = getattr(found, "__module__", "") in _READING and found not in (property, staticmethod, classmethod)
        return self._is_listed(found) and all(self.expression(each, local, simple=simple) for each in arguments)

    def _argument(self, node: ast.expr, local: frozenset[str]) -> bool:
        known = isinstance(self.value(node), FunctionType | type | ModuleType) and _root(node) not in local
        return known or self.expression(node, local, simple=True)

    def _is_listed(self, found: object) -> bool:
        """Return whether a function or class of the environment is among `_CALLS`."""
        if not isinstance(found, type | FunctionType | BuiltinFunctionType) or self._own(found.__module__ or ""):
            return False
        names = _CALLS.get((found.__module__ or "").partition(".")[0], frozenset())
        return names is None or found.__name__ in names

    def _is_usual(self, kind: type) -> bool:
        return kind.__module__.partition(".")[0] in _BASES and not self._own(kind.__module__)

    def _is_harmless(self, function: FunctionType, definition: ast.FunctionDef) -> bool:
        """Return whether calling a function of the tree does no more than to compute what it returns."""
        module = sys.modules.get(function.__module__)
        if module is None or vars(module) is not function.__globals__ or definition.decorator_list or id(function) in self._asked:
            return False
        there = Plain(module, self._definition, self._own, self._asked | {id(function)})
        return there._is_harmless_body(definition, frozenset())

    def _is_harmless_body(self, definition: ast.FunctionDef, outer: frozenset[str]) -> bool:
        local = frozenset({*outer, *_arguments(definition), *_names(definition.body)})
        self._fresh = local - frozenset(_arguments(definition)) - frozenset(_not_fresh(definition))
        return all(self._inside(each, local) for each in definition.body)

    def _inside(self, node: ast.stmt, local: frozenset[str]) -> bool:
        """Return whether a statement of a function changes nothing but its local names."""
        match node:
            case ast.Return():
                return node.value is None or self.expression(node.value, local)
            case ast.For():
                parts = all(self._inside(each, local) for each in (*node.body, *node.orelse))
                return _is_name(node.target) and self.expression(node.iter, local, simple=True) and parts
            case ast.If():
                parts = all(self._inside(each, local) for each in (*node.body, *node.orelse))
                return self.expression(node.test, local, simple=True) and parts
            case ast.Expr(ast.Call()):
                return self.expression(node.value, local)
            case ast.FunctionDef() | ast.Assign() | ast.AnnAssign() | ast.Pass() | ast.Expr(ast.Constant()):
                return self.statement(node, local)
        return False

    def _defaults(self, arguments: ast.arguments, local: frozenset[str]) -> bool:
        return all(self.expression(each, local) for each in (*arguments.defaults, *arguments.kw_defaults) if each)

    def _annotation(self, node: ast.expr, local: frozenset[str]) -> bool:
        match node:
            case ast.Subscript():
                return self._annotation(node.value, local) and self._annotation(node.slice, local)
            case ast.BinOp(op=ast.BitOr()):
                return self._annotation(node.left, local) and self._annotation(node.right, local)
            case ast.Tuple() | ast.List():
                return all(self._annotation(each, local) for each in node.elts)
        return self.expression(node, local)

    def _subscript(self, node: ast.Subscript, local: frozenset[str]) -> bool:
        index = node.slice
        parts = [each for each in (index.lower, index.upper, index.step) if each] if isinstance(index, ast.Slice) else [index]
        if not all(self.expression(part, local, simple=True) for part in parts):
            return self._annotation(node, local) if isinstance(self.value(node.value), type) else False
        if isinstance(node.value, ast.Name) and node.value.id in local:
            return True
        found = self.value(node.value)
        if found is MISSING:
            return isinstance(node.value, ast.Dict | ast.Tuple | ast.List) and self.expression(node.value, local)
        generic = isinstance(found, type) or type(found).__module__ == "typing"
        return type(found) in (dict, list, tuple, str) or found is os.environ or generic

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, local: frozenset[str]) -> bool:
        inner = local
        for part in node.generators:
            if not self.expression(part.iter, inner, simple=True):
                return False
            inner |= {each.id for each in ast.walk(part.target) if isinstance(each, ast.Name)}
            if not all(self.expression(each, inner, simple=True) for each in part.ifs):
                return False
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return all(self.expression(each, inner) for each in results)


def _is_simple(found: object) -> bool:
    """Return whether the operators of a value are known to change nothing."""
    if isinstance(found, tuple | list | set | frozenset) and type(found) in (tuple, list, set, frozenset):
        return len(found) < 1000 and all(map(_is_simple, found))
    if type(found) is dict:
        return len(found) < 1000 and all(_is_simple(key) and _is_simple(each) for key, each in found.items())
    module = type(found).__module__.partition(".")[0]
    return type(found) in _SIMPLE or (module == "torch" and type(found).__name__ in ("dtype", "device", "Size", "TorchVersion"))


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Tuple) and all(isinstance(each, ast.Name) for each in node.elts))


def _arguments(definition: ast.FunctionDef) -> list[str]:
    given = definition.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return [one.arg for one in every if one]


def _names(body: Iterable[ast.stmt]) -> Iterable[str]:
    """Yield the names that statements bind, without those of functions within them."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif not isinstance(node, ast.expr):
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def _not_fresh(definition: ast.FunctionDef) -> Iterable[str]:
    """Yield names that a function binds to anything but a new list or dict."""
    new = (ast.List, ast.ListComp, ast.Dict, ast.DictComp)
    made = {id(node.targets[0]) for node in ast.walk(definition) if isinstance(node, ast.Assign) and isinstance(node.value, new)}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in made:
            yield node.id


def _root(node: ast.expr) -> str:
    """Return the name that a chain of attributes begins with, or no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
