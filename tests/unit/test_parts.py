"""What may import what: the core imports no tool, and no tool imports another (docs/architecture.md, "Core and tools")."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ratchet.tools import TOOLS

ROOT = Path(__file__).parents[2]
COMMON = "common"
"""The folder that tools share."""
MOST_FIELDS = 12


def part_of(module: str) -> str:
    """Return the tool that a module belongs to, or ``common``, or ``core``."""
    folder = module.removeprefix("ratchet.").split(".")[0]
    return folder if folder in (*TOOLS, COMMON) else "core"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a file imports anywhere, also within functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ratchet":
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in modules else node.module


def breaches() -> set[str]:
    """Return the imports of a tool by another one, by the core or by what tools share, and of that by the core."""
    files = {module_of(path): path for path in (ROOT / "ratchet").rglob("*.py")}
    return {
        f"{part_of(module)}: {module} imports {target} of {part_of(target)}"
        for module, path in files.items()
        for target in imported(path, set(files))
        if part_of(target) not in ("core", part_of(module)) and (part_of(target) != COMMON or part_of(module) == "core")
    }


def test_the_core_imports_no_tool_and_no_tool_another() -> None:
    """No import crosses these borders, also within functions and for types alone."""
    assert breaches() == set()


def test_each_folder_is_the_core_or_a_tool() -> None:
    """Beside the core and the tools there are names that authors import, the list of tools, and what several tools need."""
    folders = {path.parent.name for path in (ROOT / "ratchet").glob("*/__init__.py")}
    files = {path.name for path in (ROOT / "ratchet").glob("*.py")}
    assert folders == {"core", COMMON, *TOOLS}
    assert files == {"__init__.py", "__main__.py", "figure_style.py", "nvcc.py", "tools.py"}


def test_a_plugin_imports_nothing() -> None:
    """What a tool adds is known without loading the tool."""
    plugins = [ROOT / "ratchet" / tool / "plugin.py" for tool in TOOLS]
    assert [path for path in plugins for node in ast.parse(path.read_bytes()).body if "Import" in type(node).__name__] == []


def test_dataclasses_are_small_and_hold_no_functions() -> None:
    """None has more than twelve fields, or one that is called; what authors of benchmarks fill in is theirs."""
    large = set()
    for path in (ROOT / "ratchet").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in node.decorator_list):
                fields = [ast.unparse(line.annotation) for line in node.body if isinstance(line, ast.AnnAssign)]
                if len(fields) > MOST_FIELDS or any("Callable" in field for field in fields):
                    large.add(f"{module_of(path)}.{node.name}")
    assert large == {"ratchet.core.workload.Workload"}
