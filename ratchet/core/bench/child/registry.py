"""Find the benchmarks of a tree. A file that cannot be imported costs its own cases, never the others."""

from __future__ import annotations

import ast
import contextlib
import dis
import importlib
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import FunctionType
from typing import Any

from ratchet.core.bench.messages import CaseListed, FileBroken
from ratchet.core.errors import CudaBuildError, HostError, described
from ratchet.core.workload import DEFAULT, KEEPS_FAULTS, Benchmark, Device
from ratchet.nvcc import find_nvcc


@dataclass(frozen=True)
class Catalogue:
    """Everything that a tree's bench folder offers on one device."""

    cases: tuple[CaseListed, ...]
    broken: tuple[FileBroken, ...]
    benchmarks: dict[str, Benchmark]
    undeclared: dict[str, str] = field(default_factory=dict)
    """Public function of a bench file that is no benchmark → its file."""


def discover(
    tree: Path,
    bench: str,
    device: Device,
    importing: Callable[[str], AbstractContextManager[None]] = lambda _: contextlib.nullcontext(),
    only: str = "",
) -> Catalogue:
    """Import every ``bench/*.py`` of a tree, or ``only`` one of them, and list the cases that serve ``device``.

    Each file is imported within ``importing`` of its name.
    Raises HostError where there is no bench folder, its ``__init__.py`` cannot be imported, or two files claim one benchmark.
    """
    folder = tree / bench
    if not folder.is_dir():
        raise HostError(
            f"There is no folder {bench}/ in {tree}.", "`ratchet init` writes a first benchmark; or set bench in [tool.ratchet]."
        )
    package = _package(folder, tree)
    cases: list[CaseListed] = []
    broken: list[FileBroken] = []
    benchmarks: dict[str, Benchmark] = {}
    undeclared: dict[str, str] = {}
    paths = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
    listing = {f"{package}.{path.stem}" for path in paths}
    for path in [folder / only] if only else paths:
        kept_faults = KEEPS_FAULTS.set(True)
        try:
            with importing(path.name):
                module = importlib.import_module(f"{package}.{path.stem}")
        except (Exception, SystemExit) as error:  # noqa: BLE001  an author's file may raise anything; it costs its cases only
            raised, last_lines = described(error, str(tree))
            declared = list(_declared_cases(path, device))
            missing = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
            in_tree = any((place / f"{missing}.py").exists() or (place / missing).is_dir() for place in (tree, tree / "src"))
            if missing and missing != package and declared and not in_tree:
                why = _needs(missing)
                cases += [CaseListed(f"{b}/{c}", b, c, path.name, skipped=why, import_error=raised) for b, c in declared]
            else:
                broken.append(FileBroken(path.name, raised, last_lines, tuple(f"{b}/{c}" for b, c in declared)))
            continue
        finally:
            KEEPS_FAULTS.reset(kept_faults)
        own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        undeclared |= {name: path.name for name, value in own.items() if isinstance(value, FunctionType) and name[:1] != "_"}
        for made in (value for value in vars(module).values() if isinstance(value, Benchmark)):
            home = made.build.__module__
            if benchmarks.get(made.name) is made or (home != module.__name__ and home in listing):
                continue  # a second name for it, or imported from a sibling, which lists it itself
            if made.name in benchmarks:
                first = benchmarks[made.name].build.__module__.rpartition(".")[2]
                raise HostError(f"{bench}/{first}.py and {bench}/{path.name} both have a benchmark {made.name}.", "Rename one.")
            benchmarks[made.name] = made
            cases += _cases_of(made, path.name, device)
    return Catalogue(tuple(cases), tuple(broken), benchmarks, undeclared)


def select(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match any pattern: a case, a benchmark, a config, or a glob of one of them; without a pattern all."""
    return [name for name in names if not patterns or any(_matches(name, pattern) for pattern in patterns)]


def unmatched(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [pattern for pattern in patterns if not any(_matches(name, pattern) for name in names)]


def _matches(name: str, pattern: str) -> bool:
    benchmark, _, config = name.partition("/")
    return any(fnmatchcase(each, pattern) for each in (name, benchmark, config))


def _package(folder: Path, tree: Path) -> str:
    """Make the bench folder importable under its own name, ahead of any installed package of that name."""
    name = folder.name
    init = folder / "__init__.py"
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    if init.is_file():
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)]) or spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.loader:
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            said, _ = described(error, str(tree))
            raise HostError(f"{init.name} of {folder.name}/ cannot be imported: {said}.", "Fix it and try again.") from error
    return name


def _cases_of(made: Benchmark, file: str, device: Device) -> Iterator[CaseListed]:
    for number, (config, fault) in enumerate(made.faults.items(), 1):
        shown = re.sub(r"[^\w.+-]+", "-", config)
        shown = config if shown == config and config else f"{shown or 'config'}-{number}"  # which no other config is called
        yield CaseListed(f"{made.name}/{shown}", made.name, shown, file, fault=fault)
    lacking = [name for name in made.requires if _lacks(name)] if device == "cuda" else []
    if device not in made.configs:
        served = next(iter(made.configs))
        for config, parameters in made.configs[served].items():
            yield CaseListed(f"{made.name}/{config}", made.name, config, file, dict(parameters), f"runs on {served} only")
        return
    skipped, first = _needs(lacking[0]) if lacking else "", imports_first(made.build)
    for config, parameters in made.configs[device].items():
        name = f"{made.name}/{config}"
        yield CaseListed(name, made.name, config, file, dict(parameters), skipped, variants=made.variants, imports_first=first)


_CHANGES_NOTHING = ("RESUME", "NOP", "MAKE_CELL", "COPY_FREE_VARS", "POP_TOP", "SWAP", "IMPORT_FROM", "STORE_FAST", "STORE_DEREF")
"""Instructions that stand between the imports at the top of a function."""


def imports_first(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the modules that a function imports before it does anything else, without those that are there."""
    found: list[str] = []
    values: list[object] = []
    for step in dis.get_instructions(function.__code__) if isinstance(function, FunctionType) else ():
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            values.append(step.argval)
        elif step.opname == "IMPORT_NAME" and values[-2:-1] == [0]:  # the level: from . import needs the package
            found += [] if step.argval in sys.modules else [step.argval]
        elif step.opname not in _CHANGES_NOTHING:
            break
    return tuple(dict.fromkeys(found))


def _lacks(name: str) -> bool:
    try:
        return (find_nvcc() if name == "nvcc" else importlib.util.find_spec(name)) is None
    except (CudaBuildError, ModuleNotFoundError, ValueError):  # also a dotted name a.b, where there is no a
        return True


def _needs(name: str) -> str:
    return f"needs {name}, which is not installed"


def _declared_cases(path: Path, device: Device) -> Iterator[tuple[str, str]]:
    """Yield the (benchmark, config) pairs that a file declares in its text, found without running it."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError):
        return
    constants = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in module.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if _last_name(decorator) == "benchmark":
                yield node.name, DEFAULT
            elif isinstance(decorator, ast.Call) and _last_name(decorator.func) == "benchmark":
                values = {k.arg: k.value for k in decorator.keywords if k.arg}
                keywords = {k: constants.get(v.id, v) if isinstance(v, ast.Name) else v for k, v in values.items()}
                configs = keywords.get("configs")
                if device == "cpu":
                    configs = keywords.get("cpu_configs", configs)
                name = keywords.get("name")
                title = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else node.name
                for config in _config_names(configs) if configs else [DEFAULT]:
                    yield title, config


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _config_names(node: ast.expr) -> list[str]:
    keys = node.keys if isinstance(node, ast.Dict) else []
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
