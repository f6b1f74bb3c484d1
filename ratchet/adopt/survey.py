"""See what a repository has: tools, Python projects, and the functions that could be timed, best first.

`adopt.init` calls `survey` with the files that git knows. It reads files and runs none of them; `adopt.trial` does.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ratchet.adopt.candidates import BenchmarkIdea, candidates, problems
from ratchet.adopt.definitions import Top, definitions, tops_of
from ratchet.adopt.guesses import Function, functions_of
from ratchet.adopt.slices import Source, parsed
from ratchet.adopt.usages import order_of, sources_of, usages

_MOST_BYTES = 500_000
"""A larger source was generated."""
_MARKS = (
    ("Triton", (".py",), r"^\s*(import triton\b|from triton\b)"),
    ("CUDA", (".cu",), ""),
    ("CMake", ("/CMakeLists.txt",), ""),
    ("setup.py", ("/setup.py",), ""),
)
"""A tool, endings of the paths of files that show it, and the text that they hold then."""
_READ = (".py", ".md", ".txt", ".toml", ".cfg", ".ini", ".yml", ".yaml", ".json", ".jsonc", ".cu", ".cpp", ".cc", ".cxx")
_ASIDE = {
    "test",
    "tests",
    "testing",
    "bench",
    "benchmark",
    "benchmarks",
    "doc",
    "docs",
    "example",
    "examples",
    "scripts",
    "tools",
}
"""Folders whose functions are not what a package offers."""
_COMPUTES = re.compile(r"\b(torch|triton)\b")
"""Words of a file that may define a function to time."""
_SCRIPTS = {"setup", "conftest", "noxfile"}
_IN_PROJECT = (".", "src", "python", "lib")
"""Folders of a project in which its packages lie."""
PYTHON_PATH = (".", "src")
"""Where imports look unless the settings say otherwise."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class Survey:
    """The contents of a folder of a repository, as far as `ratchet init` cares."""

    tools: dict[str, tuple[str, ...]]
    """Name → the files that show it."""
    projects: tuple[str, ...]
    """Folders with a Python project of their own; "." is the folder itself."""
    homes: Mapping[str, str]
    """Package → the folder that it is imported from."""
    candidates: tuple[BenchmarkIdea, ...]
    texts: Mapping[str, str]
    """Path → text of the files that were read."""
    built: str
    """What the files say that build compiled modules, which name them."""

    def python_path(self, modules: Sequence[str]) -> tuple[str, ...]:
        """Return the folders from which these modules are imported, behind those that are looked into anyway."""
        homes = {self.homes[package] for each in modules if (package := each.partition(".")[0]) in self.homes}
        return (*PYTHON_PATH, *sorted(homes - {*PYTHON_PATH}))


def survey(root: Path, files: Sequence[str]) -> Survey:
    """Look at the files of a folder, whose paths are relative to it."""
    texts = {file: _text(root / file) for file in files if file.endswith(_READ)}
    tools: dict[str, list[str]] = {}
    for file in files:
        for tool, endings, pattern in _MARKS:
            if f"/{file}".endswith(endings) and (not pattern or re.search(pattern, texts[file], re.MULTILINE)):
                tools.setdefault(tool, []).append(file)
    projects = sorted({str(PurePosixPath(file).parent) for file in files if PurePosixPath(file).name in PROJECT_FILES})
    homes = _homes(files, projects)
    found = _candidates(texts, homes)
    built = "\n".join(text for file, text in texts.items() if PurePosixPath(file).name in (*PROJECT_FILES, "CMakeLists.txt"))
    return Survey({tool: tuple(shown) for tool, shown in tools.items()}, tuple(projects), homes, found, texts, built)


def _homes(files: Sequence[str], projects: Sequence[str]) -> dict[str, str]:
    """Return package, or module at the top of a project, → the folder that it is imported from."""
    packages = {PurePosixPath(file).parent for file in files if PurePosixPath(file).name == "__init__.py"}
    folders = {PurePosixPath(project, inner) for project in {".", *projects} for inner in _IN_PROJECT}
    homes: dict[str, str] = {}
    tops = [each for each in packages if each.parent in folders and each.parent not in packages and not _ASIDE & {*each.parts}]
    for package in sorted(tops, key=lambda each: (len(each.parts), each)):
        homes.setdefault(package.name, str(package.parent))
    namespaces = {PurePosixPath(file).parts[0] for file in files if file.endswith(".py") and "/" in file} - {
        *_ASIDE,
        *_IN_PROJECT,
    }
    for name in sorted(namespaces):
        if name.isidentifier() and any(package.parts[:1] == (name,) for package in packages):
            homes.setdefault(name, ".")
    for file in files:
        path = PurePosixPath(file)
        if path.suffix == ".py" and str(path.parent) in PYTHON_PATH and path.stem not in _SCRIPTS and order_of(file) is None:
            homes.setdefault(path.stem, str(path.parent))
    return homes


def _candidates(texts: Mapping[str, str], homes: Mapping[str, str]) -> tuple[BenchmarkIdea, ...]:
    own = {
        file: text for file, text in texts.items() if file.endswith(".py") and order_of(file) is None and _COMPUTES.search(text)
    }
    tops: list[Top] = []
    functions: list[Function] = []
    for file, text in own.items():  # keeps no tree: of thousands, Python would look through all of them again and again
        if tree := parsed(text):
            tops += tops_of(text, tree)
            functions += _functions(file, tree, texts, homes)
    defined = definitions(tops)
    offered: set[str] = set()
    for package, home in homes.items():
        offered |= set(re.findall(r"\w+", texts.get(str(PurePosixPath(home, package, "__init__.py")), "")))
    names = "|".join(map(re.escape, homes))
    sources: list[Source] = []
    for file in sorted((file for file in texts if order_of(file) is not None), key=lambda each: (order_of(each), each)):
        if (
            names
            and re.search(rf"^[ \t]*(?:from|import)[ \t]+(?:{names})\b", texts[file], re.MULTILINE)
            and "torch" in texts[file]
        ):
            sources += sources_of(file, texts[file])
    mentions = Counter(word for text in texts.values() for word in set(re.findall(r"\w+", text)))
    return candidates(usages(sources, defined, set(homes)), functions, list(problems(own)), defined, offered, mentions)


def _functions(file: str, tree: ast.Module, texts: Mapping[str, str], homes: Mapping[str, str]) -> Iterator[Function]:
    """Yield the functions of a file that its package offers."""
    if not _ASIDE & set(PurePosixPath(file).parts[:-1]) and (place := _module_of(file, homes)):
        module, is_private = place
        inner = set(re.findall(r"\w+", texts.get(str(PurePosixPath(file).parent / "__init__.py"), ""))) if is_private else None
        yield from functions_of(tree, module, inner)


def _module_of(file: str, homes: Mapping[str, str]) -> tuple[str, bool] | None:
    """Return the module to import what a file defines from, and whether that is its package, since the file is private."""
    for home in sorted(set(homes.values()), key=len, reverse=True):
        if home != "." and not file.startswith(f"{home}/"):
            continue
        relative = PurePosixPath(file).relative_to(home).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        if not parts or homes.get(parts[0]) != home or relative.name in _SCRIPTS:
            continue
        is_private = len(parts) > 1 and parts[-1].startswith("_")
        parts = parts[:-1] if is_private else parts
        if all(part.isidentifier() and part[0] != "_" for part in parts):
            return ".".join(parts), is_private
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, UnicodeDecodeError):  # a broken link, another encoding: it shows nothing
        return ""
