"""Guess how functions and modules of a package could be called, where no test of it shows that. Runs nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass

from ratchet.adopt.slices import Slice

_TENSOR = re.compile(r"(?:[\w.]*\.)?(?:Float)?Tensor|(?:[\w.]*\.)?(?:Float|Num|Real|Shaped)\[.*", re.DOTALL)
"""Annotations of an argument that is a tensor of numbers, those of jaxtyping included."""
_TENSOR_NAMES = re.compile(
    "[abckqtuvwxyzABKQVXYZ]|x[12]|src|tgt|inp|inputs?_?|quer(y|ies)|keys?|values?|tensors?|source|target|hidden(_states)?|states|signal"
    "|im(g|age)s?|video|audio|feat(ure)?s?|in_feat|fmap|tokens?|emb(eddings)?|logits?|scores?|probs|pred(iction)?s?|weights?|bias|gamma"
    "|beta|residual|gate|up|data|grad_output|mat(rix)?|idx|(input_|token_)?ids"
)
"""Names that arguments without an annotation have where they are tensors."""
_NUMBERS = {"dim": "-1", "axis": "-1", "eps": "1e-6", "epsilon": "1e-6", "kernel_size": "3", "heads": "8", "num_heads": "8"}
"""Argument of a function that is no tensor → a value that often works."""
WIDTH = 512
_SIZES = {
    **dict.fromkeys(
        ("d", "n", "ndim", "d_model", "hidden_size", "input_size", "output_size", "size", "normalized_shape"), str(WIDTH)
    ),
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
    "bias": "True",
}
"""Argument that a module is made with → a value that often works."""
_CONFIGS = {"config", "cfg", "conf", "args", "params", "model_args", "hparams"}
"""Arguments without an annotation that get the one dataclass of a file whose fields all have values."""
_WIDTHS = ("n_embd", "dim", "d_model", "hidden_size", "hidden_dim", "embed_dim", "width")
"""Fields of such a dataclass that say how wide the module is."""
_VECTORS = {"weight", "w", "bias", "b", "gamma", "beta", "scale", "g"}
"""Arguments that are usually as long as a row."""
_MATRIX, _VECTOR = "4096, 1024", "1024"
_SHAPES = ("1024, 1024", "2, 8, 256, 64", "8, 512, 512", "2, 3, 256, 256")
"""Other guesses for a function: square, attention's heads, tokens, pictures."""
_MODULE_SHAPES = (f"8, 512, {WIDTH}", f"4096, {WIDTH}", f"4, {WIDTH}, 32, 32", f"8, {WIDTH}, 512", "2, 3, 256, 256")
"""Guesses for a module that is `WIDTH` wide: tokens, rows, maps, signals, pictures."""
_TOKENS = "torch.randint(0, 256, (1, 128), device=device)"
"""Another guess for a module that a configuration describes, such as a whole language model."""
_DECLARATIONS = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign),
    *(ast.If, ast.Try, ast.Assert, ast.Delete, ast.Pass),
)


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
    config: str = ""
    """The dataclass, beside it, that the module is made with."""
    width: int = WIDTH
    """The elements of a row that the module takes."""

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


def functions_of(tree: ast.Module, module: str, offered: Set[str] | None) -> Iterator[Function]:
    """Yield what can be timed of a file. ``offered``: of a private file, the names that its package offers; None for others."""
    body = tree.body
    if not all(isinstance(node, _DECLARATIONS) or _is_harmless(node) for node in body):
        return  # a script: importing it does its work
    has_torch = any(re.match(r"(import|from) torch\b", ast.unparse(node)) for node in body)
    widths = _configs(body)
    for node in {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}.values():
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:  # one may make anything of it, as triton.jit does
            arguments = _arguments(node.args, _NUMBERS, by_name=has_torch)
        elif isinstance(node, ast.ClassDef):
            arguments = _module_arguments(node, widths)
        else:
            continue
        if (offered is not None and node.name not in offered) or node.name.startswith("_"):
            continue
        if arguments and arguments[0]:
            config = next((name for name in widths if any(value == f"{name}()" for _, value in arguments[1])), "")
            width = widths.get(config, WIDTH)
            yield Function(module, node.name, *arguments, is_module=isinstance(node, ast.ClassDef), config=config, width=width)


def guesses_of(function: Function) -> Iterator[Slice]:
    """Yield calls of this function, one for each guess at the shapes of its arguments."""
    if function.config:
        guesses = [
            dict.fromkeys(function.tensors, _random(f"2, 256, {function.width}")),
            dict.fromkeys(function.tensors, _TOKENS),
        ]
    elif function.is_module:
        guesses = [dict.fromkeys(function.tensors, _random(shape)) for shape in _MODULE_SHAPES]
    else:
        first, *others = function.tensors
        rows = {first: _MATRIX, **{name: _VECTOR if name in _VECTORS else _MATRIX for name in others}}
        shapes = [rows, *(dict.fromkeys(function.tensors, shape) for shape in _SHAPES)]
        guesses = [{name: _random(shape) for name, shape in each.items()} for each in shapes]
    imports = [f"from {function.module} import {function.name} as timed"]
    imports += [f"from {function.module} import {function.config}"] if function.config else []
    for inputs in guesses:
        body = [f"{each} = {inputs[each]}" for each in function.tensors]
        # A package often has a function by the name of the module that it is in, so `package.module.function` would not find it.
        call = function.called("timed")
        if function.is_module:
            made, _, rest = call.rpartition("(")
            call, body = f"module({rest}", [f"module = {made}.to(device).eval()", *body]
        yield Slice(tuple(imports), (), tuple(body), call, names_device=True)


def _random(shape: str) -> str:
    return f"torch.randn({shape}, device=device)"


def _configs(body: list[ast.stmt]) -> dict[str, int]:
    """Return the dataclasses of a file whose fields all have values, and how wide they say that a module is."""
    found: dict[str, int] = {}
    for node in body:
        if isinstance(node, ast.ClassDef) and any(re.search(r"\bdataclass\b", ast.unparse(one)) for one in node.decorator_list):
            fields = {
                each.target.id: each.value
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
            given = {name: value.value for name, value in fields.items() if isinstance(value, ast.Constant)}
            if fields and None not in fields.values():
                widths = (given.get(name) for name in _WIDTHS)
                found[node.name] = next((width for width in widths if isinstance(width, int)), WIDTH)
    return found


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


def _module_arguments(node: ast.ClassDef, configs: Collection[str]) -> _Arguments | None:
    """Return what ``forward`` of a `torch.nn.Module` gets and what the module is made with; None for other classes.

    ``configs``: the dataclasses of its file that can be made without arguments.
    """
    if not any(ast.unparse(base).rpartition(".")[2] == "Module" for base in node.bases):
        return None
    methods = {each.name: each.args for each in node.body if isinstance(each, ast.FunctionDef)}
    if "forward" not in methods:
        return None
    for each in methods.values():
        del (each.posonlyargs or each.args)[:1]  # self
    called = _arguments(methods["forward"], {}, by_name=True)
    values = {**_SIZES, **(dict.fromkeys(_CONFIGS, f"{next(iter(configs))}()") if len(configs) == 1 else {})}
    for argument in methods["__init__"].args if "__init__" in methods else ():
        if argument.annotation and (kind := ast.unparse(argument.annotation).strip("'\"")) in configs:
            values[argument.arg] = f"{kind}()"
    made = _arguments(methods["__init__"], values, by_name=False) if "__init__" in methods else ((), ())
    if called is None or made is None or made[0]:
        return None
    return called[0], made[1]
