"""What may import what: the core imports no tool, and no tool imports another (docs/architecture.md, "Core and tools").

Imports that break this are listed in ``tests/data/imports_to_remove.txt``. The list may only become shorter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = ROOT / "tests" / "data" / "imports_to_remove.txt"
TOOLS = {
    "explain": (
        "profile*",
        "commands.profile*",
        "commands.roofline",
        "commands.advise",
        "cli.profile",
        "records.profile",
        "judge.profile",
        "report.profile",
        "report.figures.roofline",
        "measure.child.profile_target",
        "measure.child.advise_target",
        "measure.child.trace",
        "measure.explain_answers",
        "report.advice",
    ),
    "github": (
        "forge.artifact",
        "forge.connection",
        "forge.github",
        "forge.push",
        "forge.reading_child",
        "judge.github*",
        "judge.notice",
        "commands.github*",
        "cli.github",
        "records.forge",
        "records.archive",
        "report.comment",
        "report.check_run",
        "report.notice",
        "commands.baseline_push",
    ),
    "tune": (
        "tune*",
        "measure.tuning*",
        "measure.child.trials",
        "commands.tune*",
        "cli.tune",
        "records.tuning",
        "judge.tuning",
        "report.suggestions",
        "report.figures.page",
    ),
    "lab": (
        "measure.evaluation",
        "measure.lab_answers",
        "measure.experiment",
        "measure.child.evaluation",
        "measure.child.experiment",
        "commands.evaluate",
        "commands.experiment*",
        "commands.variants",
        "cli.experiment",
        "cli.variants",
        "records.evaluation",
        "records.experiment",
        "records.variants",
        "judge.experiment",
        "report.experiment",
        "report.variants",
        "report.figures.variants",
        "report.evaluation",
    ),
    "trust": (
        "commands.soak",
        "cli.soak",
        "measure.soak",
        "records.soak",
        "judge.soak",
        "judge.replay",
        "report.soak",
        "report.calibration",
        "cli.replay",
        "commands.replay",
        "commands.calibrate",
    ),
    "history": (
        "history",
        "commands.history",
        "commands.site",
        "commands.bisect",
        "judge.history",
        "judge.bisection",
        "records.history",
        "records.bisection",
        "report.history",
        "report.site",
        "stats.changes",
        "cli.history",
        "report.bisection",
        "cli.bisect",
    ),
    "harness": ("measure.harness*", "commands.import_results", "cli.import_results"),
    "adopt": ("adopt*", "commands.init", "cli.init"),
}
"""Tool → its modules, as patterns below ``ratchet``. All others are the core."""


def part_of(module: str) -> str:
    """Return the tool that a module belongs to, or ``core``."""
    name = module.removeprefix("ratchet.")
    return next((tool for tool, patterns in TOOLS.items() if any(fnmatch(name, pattern) for pattern in patterns)), "core")


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
    """Return the imports of a tool by the core, and of one tool by another."""
    files = {module_of(path): path for path in (ROOT / "ratchet").rglob("*.py")}
    return {
        f"{part_of(module)}: {module} imports {target} of {part_of(target)}"
        for module, path in files.items()
        for target in imported(path, set(files))
        if part_of(target) not in ("core", part_of(module))
    }


def test_the_core_imports_no_tool_and_no_tool_another() -> None:
    """All imports across these borders are listed, and what is listed is still there: take a line out once it is not."""
    listed = set(LISTED.read_text(encoding="utf-8").splitlines())
    assert breaches() - listed == set(), "new imports across a border"
    assert listed - breaches() == set(), "no longer there: take these lines out"


def test_every_pattern_names_a_module() -> None:
    """Each pattern of a tool fits a module that exists."""
    names = {module_of(path).removeprefix("ratchet.") for path in (ROOT / "ratchet").rglob("*.py")}
    unused = [pattern for patterns in TOOLS.values() for pattern in patterns if not any(fnmatch(name, pattern) for name in names)]
    assert unused == []
