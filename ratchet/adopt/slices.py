"""Cut out of a test, benchmark or example what one call needs: the statements that make its arguments, as text of a benchmark.

`adopt.usages` says which calls. Reads syntax trees and runs nothing. A statement is taken where it binds or changes a name that
is needed further down, as in program slicing (Weiser 1981); a block around the call counts as entered, a loop as in its first
round.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

DEVICE = re.compile(r"(torch_)?(dev|device)(_?(type|name|str))?", re.IGNORECASE)
"""Names that hold the device."""
_MOST_LINES = 40
_UNFIT = re.compile(
    r"\b(pytest|self|cls|request|unittest|subprocess|argparse|sys|os|mp|multiprocessing|dist|distributed|monkeypatch|tmp_path"
    r"|open|load|load_dataset|from_pretrained|exec|do_bench)\b(?!\s*=)"
)
"""Words of tests that need more than this process and its device, or do something beside computing."""
_MODULES, _ON_THE_WAY = {"torch", "np", "numpy", "triton", "pytest", "self"}, {"backward", "zero_grad", "assertTrue", "step"}
"""Names whose functions change no object; methods that a test calls behind what is timed."""
_IN_PLACE = {"eval", "cuda", "to", "half", "bfloat16", "float", "double", "requires_grad_", "train"}
_MAKES = re.compile(r"\b(rand\w*|zeros\w*|ones\w*|empty\w*|full\w*|arange|tensor|linspace|normal)\(")
"""Functions that make tensors."""
MODULE = "module"
"""The name of a module that is made within its call."""


@dataclass(frozen=True)
class Slice:
    """The parts of a benchmark: what stands at its top, what makes the inputs, and the call."""

    imports: tuple[str, ...]
    helpers: tuple[str, ...]
    """Definitions of functions and classes."""
    body: tuple[str, ...]
    call: str
    names_device: bool


class CannotCut(Exception):
    """A call that needs something that a benchmark cannot have."""


@dataclass(frozen=True)
class Source:
    """A file that calls functions, as it was parsed."""

    path: str
    tree: ast.Module

    @cached_property
    def scope(self) -> Mapping[str, Sequence[ast.stmt]]:
        """Name → the statements at the top of the file that bind it."""
        scope: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            for name in _bound(node):
                scope.setdefault(name, []).append(node)
        return scope


def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of somebody's file, whatever Python would warn of in it; None where it is no Python of today."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def straightened(body: Sequence[ast.stmt], call: ast.Call) -> list[ast.stmt] | None:
    """Return the statements before a call as a straight line, and the one that holds it last; None where it is not in them."""
    for number, node in enumerate(body):
        if not any(each is call for each in ast.walk(node)):
            continue
        before = list(body[:number])
        blocks = [getattr(node, field, []) for field in ("body", "orelse", "finalbody")]
        inside = next((line for block in blocks if isinstance(block, list) and (line := straightened(block, call))), None)
        if inside is None:
            return [*before, node]
        if isinstance(node, ast.FunctionDef) and (node.args.args or node.args.kwonlyargs or node.decorator_list):
            return None
        if isinstance(node, ast.For):
            first = ast.parse(f"next(iter({ast.unparse(node.iter)}))", mode="eval").body
            bind = ast.Assign([node.target], first)
            before.append(ast.copy_location(ast.fix_missing_locations(bind), node))
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    return None
        elif isinstance(node, ast.AsyncFunctionDef | ast.ClassDef | ast.While):
            return None
        return before + inside
    return None


def cut(
    source: Source, line: Sequence[ast.stmt], call: ast.expr, function: ast.FunctionDef | None, given: Mapping[str, str]
) -> Slice:
    """Return what a call needs of the statements before it, of the arguments of its function, and of its file.

    ``given`` has the values of these arguments, as text of Python.

    Raises CannotCut.
    """
    if function is None:  # the file's own statements: its imports are looked up as those of any other
        line = [node for node in line if not isinstance(node, ast.Import | ast.ImportFrom)]
    line, call = _with_inputs_before(source, line, call)
    kept, needed = _backwards(line, _loads(call))
    arguments = {name: given[name] for name in needed if name in given}
    unknown = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} if function else set()
    if missing := sorted(name for name in (needed & unknown) - set(given) if not DEVICE.fullmatch(name)):
        raise CannotCut(f"nothing says what {missing[0]} is")
    outer = set(needed) - set(arguments)
    for value in arguments.values():
        outer |= _loads(ast.parse(value, mode="eval"))
    imports, helpers, constants = _of_file(source, outer)
    body = [f"{name} = {value}" for name, value in sorted(arguments.items(), key=lambda one: list(given).index(one[0]))]
    statements = [*constants, *(ast.parse(each).body[0] for each in body), *kept]
    cleaned = [ast.unparse(ast.fix_missing_locations(_Cleaner().visit(copy.deepcopy(node)))) for node in statements]
    texts = [text for text in cleaned if not re.fullmatch(r"(\w+) = \1", text)]
    called = ast.unparse(ast.fix_missing_locations(_Cleaner().visit(copy.deepcopy(call))))
    whole = "\n".join((*helpers, *texts, called))
    if found := _UNFIT.search(whole):
        raise CannotCut(f"it uses {found[0]}")
    if not _MAKES.search(whole):
        raise CannotCut("it makes no tensor")
    lines = tuple(each for text in texts for each in text.splitlines())
    if len(lines) + sum(len(each.splitlines()) for each in helpers) > _MOST_LINES:
        raise CannotCut(f"it needs more than {_MOST_LINES} lines")
    return Slice(tuple(sorted(set(imports))), tuple(helpers), lines, called, bool(re.search(r"\bdevice\b", whole)))


def _with_inputs_before(source: Source, line: Sequence[ast.stmt], call: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
    """Return the statements with one more for each tensor or module that is made within the call, which would be timed too."""
    line, call = list(line), copy.deepcopy(call)
    taken = {each.id for node in (*line, call) for each in ast.walk(node) if isinstance(each, ast.Name)}
    made_by = "|".join(name for name, nodes in source.scope.items() if isinstance(nodes[-1], ast.FunctionDef))
    makes = re.compile(rf"{_MAKES.pattern}|\b({made_by})\(" if made_by else _MAKES.pattern)

    def before(value: ast.expr, names: Iterable[str]) -> ast.expr:
        name = next((name for name in names if name not in taken), None)
        if name is None:
            raise CannotCut("a variable has the name that its module would get")
        taken.add(name)
        line.append(ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], value, lineno=call.lineno)))
        return ast.Name(name, ast.Load())

    def argument(value: ast.expr) -> ast.expr:
        if not makes.search(ast.unparse(value)):
            return value
        names = (f"input_{number}" for number in itertools.count(1))
        if not isinstance(value, ast.Starred):
            return before(value, names)
        several = value.value  # of a generator, the first call would take all
        several = ast.ListComp(several.elt, several.generators) if isinstance(several, ast.GeneratorExp) else several
        return ast.Starred(before(several, names))

    if isinstance(call, ast.Call):
        if isinstance(call.func, ast.Call):
            call.func = before(call.func, (MODULE,))
        call.args = [argument(each) for each in call.args]
        for keyword in call.keywords:
            keyword.value = argument(keyword.value) if keyword.arg else keyword.value
    return line, call


def _backwards(line: Sequence[ast.stmt], needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements that bind or change what is needed, and the names that nothing in the line binds."""
    kept: list[ast.stmt] = []
    needed = set(needed)
    for node in reversed(line):
        bound = _bound(node)
        if bound & needed:
            if isinstance(node, ast.Assign | ast.AnnAssign) and not any(DEVICE.fullmatch(name) for name in bound):
                needed -= bound  # bound anew: what it was before does not matter
            elif any(DEVICE.fullmatch(name) for name in bound):
                continue
            needed |= _loads(node)
            kept.append(node)
        elif _changed(node) & needed:
            needed |= _loads(node)
            kept.append(node)
    return kept[::-1], needed


def _of_file(source: Source, names: set[str]) -> tuple[list[str], list[str], list[ast.stmt]]:
    """Return imports, definitions and constants at the top of a file that bind these names, and all that those need."""
    imports: list[str] = []
    definitions: dict[int, str] = {}
    constants: dict[int, ast.stmt] = {}
    waiting, seen = sorted(names), set()
    while waiting:
        name = waiting.pop()
        if name in seen or DEVICE.fullmatch(name):
            continue
        seen.add(name)
        if name not in source.scope:
            if hasattr(builtins, name):
                continue
            raise CannotCut(f"nothing binds {name}")
        for node in source.scope[name]:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(_import_of(node, name))
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                if node.decorator_list:
                    raise CannotCut(f"{name} has a decorator")
                definitions[node.lineno] = ast.unparse(ast.fix_missing_locations(_Cleaner().visit(copy.deepcopy(node))))
                waiting += sorted(_loads(node))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Try | ast.If):
                constants[node.lineno] = node
                waiting += sorted(_loads(node))
            else:
                raise CannotCut(f"{name} is bound by more than an assignment")
    ordered = [constants[number] for number in sorted(constants)]
    return imports, [definitions[number] for number in sorted(definitions)], ordered


def _import_of(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """Return an import of this name alone. Raises CannotCut for one relative to the file."""
    if isinstance(node, ast.ImportFrom) and node.level:
        raise CannotCut(f"{name} comes from beside the file")
    alias = next(each for each in node.names if name in (each.asname, each.name.partition(".")[0], each.name))
    alone = ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
    return ast.unparse(alone)


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {
            alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name) for alias in node.names
        }
    if isinstance(node, ast.Expr):
        return set()
    nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    inner = [_bound(each) for each in ast.walk(node) if isinstance(each, nested)]
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}.union(*inner)


def _changed(node: ast.stmt) -> set[str]:
    """Return the names whose objects a statement changes: ``m.weight.data = …``, ``x.normal_()``, ``m.set(x)``."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {root for each in targets if isinstance(each, ast.Attribute | ast.Subscript) and (root := _root(each))}
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return set()
    function = node.value.func
    if not isinstance(function, ast.Attribute):
        return set()
    if re.search(r"\binit\b", ast.unparse(function.value)):  # torch.nn.init.normal_(weight)
        return {root for each in node.value.args[:1] if (root := _root(each))}
    if isinstance(function.value, ast.Name) and function.value.id not in _MODULES and function.attr not in _ON_THE_WAY:
        return {function.value.id}  # its result is dropped, so it was called for what it changes: loss.set_model_output(model)
    is_change = function.attr in _IN_PLACE or (function.attr.endswith("_") and not function.attr.endswith("__"))
    return {root} if is_change and (root := _root(function)) else set()


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _loads(node: ast.AST) -> set[str]:
    """Return the names that code takes from around it."""
    inner = {
        each.id
        for part in ast.walk(node)
        if isinstance(part, ast.comprehension)
        for each in ast.walk(part.target)
        if isinstance(each, ast.Name)
    }
    inner |= {
        each.arg
        for part in ast.walk(node)
        if isinstance(part, ast.Lambda | ast.FunctionDef)
        for each in ast.walk(part.args)
        if isinstance(each, ast.arg)
    }
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inner |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)} | {
            node.name
        }
    loaded = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    loaded |= {each.target.id for each in ast.walk(node) if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)}
    return loaded - inner


class _Cleaner(ast.NodeTransformer):
    """Puts the benchmark's device in the place of a GPU that code names, and leaves gradients out."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and re.fullmatch(r"cuda(:0)?|cpu", node.value):
            return ast.Name("device", ast.Load())
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("device", node.ctx) if DEVICE.fullmatch(node.id) else node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword | None:
        if node.arg == "requires_grad":
            return None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        if ast.get_docstring(node) is not None and len(node.body) > 1:
            del node.body[0]
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("manual_seed"):
            return None  # ratchet sets the seed
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "requires_grad_":
                return node.func.value
            if node.func.attr == "cuda":
                return ast.Call(ast.Attribute(node.func.value, "to", ast.Load()), [ast.Name("device", ast.Load())], [])
            if ast.unparse(node.func) == "torch.device" and len(node.args) == 1:
                return node.args[0]
        return node


# The values of a test's arguments.


def values_of_arguments(function: ast.FunctionDef, source: Source) -> Iterator[dict[str, str]]:
    """Yield values for the arguments of a test or benchmark, as text of Python: the largest that it names, then the first."""
    positional = [*function.args.posonlyargs, *function.args.args]
    named = {each.arg: fixture for each in positional if (fixture := _fixture(each.arg, source))}
    for each, default in zip(positional[::-1], function.args.defaults[::-1], strict=False):
        named[each.arg] = ast.unparse(default)
    for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if value is not None:
            named[each.arg] = ast.unparse(value)
    largest, first = dict(named), dict(named)
    for decorator in function.decorator_list:
        for names, values in _parameters(decorator, source):
            choice = max(values, key=_size)
            largest |= _bind(names, choice)
            first |= _bind(names, values[0])
    if "dtype" not in largest and any(each.arg == "dtype" for each in positional):
        largest["dtype"] = first["dtype"] = "torch.float32"
    order = [each.arg for each in (*positional, *function.args.kwonlyargs)]
    yield {name: largest[name] for name in order if name in largest}
    if first != largest:
        yield {name: first[name] for name in order if name in first}


def _fixture(name: str, source: Source) -> str:
    """Return what a fixture of pytest in the same file returns, if that is all it does and it needs no other."""
    node = source.scope.get(name, (None,))[-1]
    if not isinstance(node, ast.FunctionDef) or ast.unparse(node.args):
        return ""
    is_one = any(re.match(r"(pytest\.)?fixture\b", ast.unparse(each)) for each in node.decorator_list)
    done = node.body[-1]
    made = done.value if isinstance(done, ast.Return) else getattr(getattr(done, "value", None), "value", None)
    is_all = len(node.body) == (1 if ast.get_docstring(node) is None else 2)
    return ast.unparse(made) if is_one and is_all and isinstance(made, ast.expr) else ""


def _parameters(decorator: ast.expr, source: Source) -> Iterator[tuple[list[str], list[ast.expr]]]:
    """Yield names and values that `pytest.mark.parametrize`, or a `triton.testing.Benchmark`, gives."""
    if not isinstance(decorator, ast.Call):
        return
    kind = ast.unparse(decorator.func)
    if kind.endswith("parametrize") and len(decorator.args) >= 2:
        names = [name.strip() for one in _listed(decorator.args[0], source) for name in str(_constant(one)).split(",")]
        values = [_unwrapped(each) for each in _listed(decorator.args[1], source)]
        if values:
            yield names, values
    for benchmark in (each for each in ast.walk(decorator) if isinstance(each, ast.Call)):
        if not ast.unparse(benchmark.func).endswith("testing.Benchmark"):
            continue
        fields = {each.arg: each.value for each in benchmark.keywords}
        names = [str(_constant(one)) for one in _listed(fields.get("x_names"), source)]
        values = _listed(fields.get("x_vals"), source)
        if names and values:
            for name in names:
                yield [name], values[len(values) // 2 :][:1]
        elif names and "x_vals" in fields:
            yield names[:1], [ast.parse(f"list({ast.unparse(fields['x_vals'])})[2]", mode="eval").body]
        if "line_arg" in fields and (lines := _listed(fields.get("line_vals"), source)):
            yield [str(_constant(fields["line_arg"]))], lines[:1]
        if isinstance(args := fields.get("args"), ast.Dict):
            for key, value in zip(args.keys, args.values, strict=True):
                if key is not None:
                    yield [str(_constant(key))], [value]
        return


def _listed(node: ast.AST | None, source: Source, depth: int = 0) -> list[ast.expr]:
    """Return the elements of a list as it is written; of a text, itself; none where they cannot be read."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [each for each in node.elts if not isinstance(each, ast.Starred)]
    if isinstance(node, ast.Constant):
        return [node]
    if isinstance(node, ast.ListComp) and len(node.generators) == 1 and ast.unparse(node.elt).startswith("pytest.param(*"):
        return _listed(node.generators[0].iter, source, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_listed(node.left, source, depth), *_listed(node.right, source, depth)]
    if isinstance(node, ast.Name) and depth < 3:
        bound = [each for each in source.scope.get(node.id, ()) if isinstance(each, ast.Assign | ast.AnnAssign)]
        return _listed(bound[-1].value, source, depth + 1) if bound else []
    return []


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return ``(a, b)`` for ``pytest.param(a, b, id=…)``."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("param"):
        return node.args[0] if len(node.args) == 1 else ast.Tuple(list(node.args), ast.Load())
    return node


def _bind(names: Sequence[str], value: ast.expr) -> dict[str, str]:
    if len(names) == 1:
        return {names[0]: ast.unparse(value)}
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    return {name: ast.unparse(part) for name, part in zip(names, parts, strict=False)}


def _size(value: ast.expr) -> float:
    """Return the product of the numbers in a value, by which sizes are ordered; 0 for one that nobody would wait for."""
    numbers = [
        each.value for each in ast.walk(value) if isinstance(each, ast.Constant) and type(each.value) is int and each.value > 0
    ]
    product = math.prod(numbers) if numbers else 0
    return product if product < 2**38 else 0


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
