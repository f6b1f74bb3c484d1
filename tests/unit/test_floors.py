"""The floors of the house: who may import whom, and what must not load at start."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from ratchet.cli import COMMANDS, cli

pytestmark = pytest.mark.no_cover

PACKAGE = Path(__file__).parents[2] / "ratchet"
EDGES = ("adopt", "measure", "profile", "forge", "tune", "lab", "history", "report")
FLOORS: dict[str, int] = {
    "__main__": 5,
    "cli": 4,
    "commands": 3,
    **dict.fromkeys(EDGES, 2),
    **dict.fromkeys(("stats", "judge"), 1),
    **dict.fromkeys(("__init__", "config", "records", "units", "errors", "error_lines", "workload"), 0),
    **dict.fromkeys(("cache", "datasheets", "nvcc", "tools", "untrusted", "subprocesses"), 0),
}
"""Of each module or package of ratchet; a higher floor may import a lower one."""
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
    """The module or package of ratchet that a dotted name belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__"


def within(each: Import, *names: str) -> bool:
    return each.target.split(".")[0] in names


def test_every_module_has_a_floor() -> None:
    """Nothing stands beside the house."""
    present = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert present <= set(FLOORS)
    assert {"stats", "judge", "measure", "records"} <= present


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
    """A module imports its own package or a lower floor; edges do not import each other, nor any package its neighbour."""
    wrong = []
    for each in all_imports():
        if not within(each, "ratchet") or (each.module, each.target) in EXCEPTIONS:
            continue
        here, there = place(each.module), place(each.target)
        on_the_ground = FLOORS[here] == FLOORS[there] == 0
        judged_from_samples = (here, there) == ("judge", "stats")  # both pure; stats never looks up
        if not (here == there or FLOORS[there] < FLOORS[here] or on_the_ground or judged_from_samples):
            wrong.append(f"{each.module} imports {each.target}")
    assert wrong == []


def test_exceptions_are_needed() -> None:
    """No exception outlives its import."""
    assert set(EXCEPTIONS) <= {(each.module, each.target) for each in all_imports()}


def test_pure_floors() -> None:
    """stats and judge import neither torch nor anything that reaches a file, and open nothing."""
    pure = [each for each in all_imports() if place(each.module) in ("stats", "judge")]
    assert [f"{each.module} imports {each.target}" for each in pure if within(each, "torch", *FILES)] == []
    assert not any(each.target.startswith("ratchet.records.files") for each in pure)
    for path in (*PACKAGE.glob("stats/*.py"), *PACKAGE.glob("judge/*.py")):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        assert not any(isinstance(call, ast.Name) and call.id in ("open", "exec", "eval", "__import__") for call in calls), path


def test_torch_loads_where_something_is_timed() -> None:
    """Only hosts, clocks, workers, and what these alone use, import torch when they are imported."""
    modules = {each.module for each in all_imports() if within(each, "torch", "triton") and each.at_start}
    names = (
        "host",
        "worker",
        "calls",
        "outputs",
        "correctness",
        "evaluation",
        "experiment",
        "guard",
        "areas",
        "state",
        "imports",
        "boundary",
        "trials",
    )
    allowed = {
        "ratchet.measure.clocks",
        "ratchet.measure.identity.__init__",
        "ratchet.measure.identity.capture",
        *(f"ratchet.measure.child.{name}" for name in names),
    }
    assert modules - allowed == set()


def test_help_is_light() -> None:
    """Asking for help loads none of the heavy packages; that of one command loads what the command's module needs."""
    code = (
        "import json, sys; from ratchet.cli import main; loaded = {}\n"
        f"for words in [['--help'], ['--version'], *([name, '--help'] for name in {list(COMMANDS)})]:\n"
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
        ("settings", ("numpy", "jinja2", "rich", "ratchet.measure", "ratchet.judge.verdict")),
        ("open", ("numpy", "jinja2", "rich", "ratchet.measure", "ratchet.judge.verdict")),
        ("badge", ("numpy", "jinja2", "rich", "ratchet.measure", "ratchet.judge.verdict")),
        ("history", ("numpy", "jinja2", "rich", "ratchet.measure")),
        ("report", ("rich", "ratchet.measure.suite", "ratchet.measure.device")),
        ("compare", ("rich", "ratchet.measure.suite", "ratchet.measure.device")),
    ],
)
def test_commands_that_measure_nothing_load_nothing_that_does(command: str, needless: tuple[str, ...]) -> None:
    """A command that only reads loads neither what measures nor packages that it has no use for."""
    code = (
        "import sys; from ratchet.cli import main; main([sys.argv[1], '--help']); "
        "sys.exit(', '.join({*sys.modules} & {*sys.argv[2:]}))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, command, *needless], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_the_history_is_read_without_what_measures() -> None:
    """The table of `ratchet history` takes neither NumPy nor what measures, which its help alone would not show."""
    code = "import sys, ratchet.commands.history, ratchet.report.history; sys.exit(', '.join({*sys.modules} & {*sys.argv[1:]}))"
    needless = ("numpy", "jinja2", "rich", "ratchet.measure")
    done = subprocess.run([sys.executable, "-P", "-c", code, *needless], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""  # a traceback would stand there, too


def test_table_of_commands() -> None:
    """Each command that `ratchet --help` lists is there, by the name that it is called by."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name


def test_importing_the_author_s_names_is_light() -> None:
    """`from ratchet import benchmark, Workload` loads none of the heavy packages."""
    code = f"import sys; from ratchet import benchmark, Workload; sys.exit(any(name in sys.modules for name in {HEAVY}))"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
