"""The floors of the house: who may import whom, and what must not load at start."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.cli import COMMANDS

pytestmark = pytest.mark.no_cover

PACKAGE = Path(__file__).parents[2] / "ratchet"
CORE = "ratchet.core."
COMMAND_MODULES = ("check", "run", "recorded", "machine", "request", "trees", "command_result")
FLOORS: dict[str, int] = {
    "cli": 4,
    **dict.fromkeys(COMMAND_MODULES, 3),
    **dict.fromkeys(("bench", "device", "report", "git", "actions"), 2),
    "judge": 1,
    **dict.fromkeys(("records", "config", "units", "errors", "workload", "cache", "untrusted", "processes"), 0),
}
"""Of each module or package of the core; a higher floor may import a lower one. What a tool imports: test_parts.py."""
NEIGHBOURS = (COMMAND_MODULES, ("bench", "device"))
"""Packages of one floor that import each other."""
PURE = re.compile(
    r"ratchet\.(core\.judge\..*|common\.baseline_\w+|\w+\.judge|trust\.replay_rule|github\.(contradictions|event|state|notice)|history\.(bisection|changes))"
)
EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(importing module, imported module) → why; the fewer the better."""
HEAVY = ("torch", "pydantic", "numpy", "scipy", "rich", "jinja2", "github", "requests", "optuna", "ray", "matplotlib")
HEAVIEST = ("torch", "scipy", "ray", "matplotlib", "optuna")
"""What not even the help of one command waits for."""
FILES = ("os", "pathlib", "io", "shutil", "tempfile", "subprocess", "socket", "urllib", "sqlite3")


@dataclass(frozen=True)
class Import:
    """One import statement of a module."""

    module: str
    target: str
    at_start: bool
    """Neither inside a function nor for the type checker alone."""


def imports(path: Path) -> Iterator[Import]:
    """What a file of ratchet imports, with the full name of each target."""
    relative = path.relative_to(PACKAGE.parent).with_suffix("")
    module = ".".join(relative.parts)
    package = relative.parts[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        or (isinstance(outer, ast.If) and ast.unparse(outer.test).endswith("TYPE_CHECKING"))
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join((*package[: len(package) + 1 - node.level], *filter(None, [node.module]))) if node.level else node.module
            )
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(module, name, id(node) not in late) for name in names)


@functools.cache  # not while tests are collected: each process of pytest-xdist does that
def all_imports() -> list[Import]:
    return [each for path in sorted(PACKAGE.rglob("*.py")) for each in imports(path)]


def place(module: str) -> str:
    """The module or package of the core that a dotted name belongs to."""
    return module.removeprefix(CORE).split(".")[0]


def within(each: Import, *names: str) -> bool:
    return each.target.split(".")[0] in names


def test_every_module_has_a_floor() -> None:
    """Nothing stands beside the house."""
    core = PACKAGE / "core"
    present = {path.stem for path in core.glob("*.py")} | {path.parent.name for path in core.glob("*/__init__.py")}
    assert present - {"__init__"} == set(FLOORS)


def test_no_files_import_each_other() -> None:
    """Imports form no circle, those in functions and for the type checker included: a file can be read after what it uses."""
    files = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    names = {name.removesuffix(".__init__"): name for name in files}

    def file_of(target: str) -> str | None:
        return names.get(target) or names.get(target.rpartition(".")[0])

    uses: dict[str, set[str]] = {}
    for each in all_imports():
        if (used := file_of(each.target)) and used != each.module:
            uses.setdefault(each.module, set()).add(used)
    graphlib.TopologicalSorter(uses).prepare()  # raises CycleError, which names the files


def test_imports_point_down() -> None:
    """A module of the core imports its own package, a neighbour or a lower floor."""
    wrong = []
    for each in all_imports():
        if not (each.module.startswith(CORE) and each.target.startswith(CORE)) or (each.module, each.target) in EXCEPTIONS:
            continue
        here, there = place(each.module), place(each.target)
        on_the_ground = FLOORS[here] == FLOORS[there] == 0
        neighbours = any(here in names and there in names for names in NEIGHBOURS)
        if not (here == there or FLOORS[there] < FLOORS[here] or on_the_ground or neighbours):
            wrong.append(f"{each.module} imports {each.target}")
    assert wrong == []


def test_exceptions_are_needed() -> None:
    """No exception outlives its import."""
    assert set(EXCEPTIONS) <= {(each.module, each.target) for each in all_imports()}


def test_pure_modules() -> None:
    """What judges imports neither torch nor anything that reaches a file, and opens nothing."""
    pure = [each for each in all_imports() if PURE.fullmatch(each.module)]
    assert len({each.module for each in pure}) > 20
    assert [f"{each.module} imports {each.target}" for each in pure if within(each, "torch", *FILES)] == []
    assert not any(each.target.startswith("ratchet.core.records.files") for each in pure)
    for path in PACKAGE.rglob("*.py"):
        if PURE.fullmatch(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)):
            calls = [node.func for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
            names = {call.id for call in calls if isinstance(call, ast.Name)}
            assert not names & {"open", "exec", "eval", "__import__"}, path


def test_torch_loads_where_something_is_timed() -> None:
    """Only hosts, clocks, workers, the referee, and what these alone use, import torch when they are imported."""
    modules = {each.module for each in all_imports() if within(each, "torch", "triton") and each.at_start}
    names = ("host", "worker", "calls", "outputs", "correctness")
    allowed = {
        "ratchet.core.bench.clocks",
        "ratchet.tune.child",
        "ratchet.lab.child.memory",
        "ratchet.lab.child.once",
        "ratchet.lab.child.runner",
        "ratchet.lab.child.selections",
        "ratchet.lab.child.experiment",
        "ratchet.lab.contents",
        "ratchet.lab.numerics",
        "ratchet.lab.referee",
        "ratchet.identical.launches.__init__",
        "ratchet.identical.launches.capture",
        *(f"ratchet.core.bench.child.{name}" for name in names),
        *(f"ratchet.process_state.{name}" for name in ("areas", "state", "imports", "boundary")),
    }
    shipped = {module for module in modules if ".shipped." in module}  # benchmarks, which are only loaded as an author's are
    assert modules - allowed - shipped == set()


def test_help_is_light() -> None:
    """Asking for help loads none of the heavy packages; that of one command loads what the command's module needs."""
    code = (
        "import json, sys; from ratchet.core.cli import main; loaded = {}\n"
        f"for words in [['--help'], ['--version'], *([*name.split(), '--help'] for name in {list(COMMANDS)})]:\n"
        "    code = main(words)\n"
        "    loaded[' '.join(words)] = [code, *(name for name in sorted(sys.modules) if name in sys.argv)]\n"
        "print('\\n' + json.dumps(loaded))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, *HEAVY], check=True, capture_output=True, text=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded["--help"] == loaded["--version"] == [0]
    assert {words: each for words, each in loaded.items() if each[0] != 0 or {*each} & {*HEAVIEST}} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "needless"),
    [
        ("doctor settings", ("numpy", "jinja2", "rich", "ratchet.core.bench", "ratchet.core.judge.verdict")),
        ("check --open", ("numpy", "jinja2", "rich", "ratchet.core.bench", "ratchet.core.judge.verdict")),
        ("history --badge", ("numpy", "jinja2", "rich", "ratchet.core.bench", "ratchet.core.judge.verdict")),
        ("history", ("numpy", "jinja2", "rich", "ratchet.core.bench")),
        ("compare", ("rich", "ratchet.core.bench.suite", "ratchet.core.device")),
    ],
)
def test_commands_that_measure_nothing_load_nothing_that_does(command: str, needless: tuple[str, ...]) -> None:
    """A command that only reads loads neither what measures nor packages that it has no use for."""
    code = (
        "import sys; from ratchet.core.cli import main; main([*sys.argv[1].split(), '--help']); "
        "sys.exit(', '.join({*sys.modules} & {*sys.argv[2:]}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, command, *needless], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_the_history_is_read_without_what_measures() -> None:
    """The table of `ratchet history` takes neither NumPy nor what measures, which its help alone would not show."""
    code = "import sys, ratchet.history.command, ratchet.history.report; sys.exit(', '.join({*sys.modules} & {*sys.argv[1:]}))"
    needless = ("numpy", "jinja2", "rich", "ratchet.core.bench")
    done = subprocess.run([sys.executable, "-P", "-c", code, *needless], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""  # a traceback would stand there, too


def test_importing_the_author_s_names_is_light() -> None:
    """`from ratchet import benchmark, Workload` loads none of the heavy packages."""
    code = f"import sys; from ratchet import benchmark, Workload; sys.exit(any(name in sys.modules for name in {HEAVY}))"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
