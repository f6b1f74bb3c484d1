"""Did the code that ran come from the tree it was said to come from?

An editable install, or a copy in site-packages, makes Python load a package from somewhere else without a word; both
sides would then time the same code. The harness itself is the one package that is meant to come from the environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

HARNESS = "ratchet"
_HARNESS_FOLDER = Path(__file__).resolve().parents[1]


def own_names(tree: Path, roots: Iterable[str]) -> frozenset[str]:
    """Top-level names that a tree offers for import from its ``roots`` (``.``, ``src``)."""
    names: set[str] = set()
    for root in roots:
        place = tree / root
        if not place.is_dir():
            continue
        names |= {path.stem for path in place.glob("*.py")}
        names |= {path.name.partition(".")[0] for path in place.glob("*.so")}  # extensions built in place
        folders = {path.parent for path in place.glob("*/*.py")} | {path.parent.parent for path in place.glob("*/*/__init__.py")}
        names |= {folder.name for folder in folders if _can_be_imported(folder)}
    return frozenset(names - {HARNESS, "setup", "conftest"} - sys.stdlib_module_names)


def _can_be_imported(folder: Path) -> bool:
    """A folder without ``__init__.py`` never wins over an installed package: ``triton/`` may hold somebody's kernels."""
    if (folder / "__init__.py").is_file():
        return True
    found = PathFinder.find_spec(folder.name)
    return found is None or found.origin is None or Path(found.origin).is_relative_to(folder)


class Provenance:
    """Asks each loaded module once. A worker inherits what its host has asked, and looks only at what it loads itself."""

    def __init__(self, tree: Path, checkout: Path, names: frozenset[str]) -> None:
        self._tree = tree
        self._checkout = checkout
        self._names = names
        self._asked: set[str] = set()

    @property
    def tree(self) -> Path:
        """The tree whose code is meant to run."""
        return self._tree

    def foreign(self) -> list[str]:
        """The foreign modules among those loaded since the last call."""
        fresh = {name: module for name, module in list(sys.modules.items()) if name not in self._asked}
        self._asked |= set(fresh)
        return foreign_modules(self._tree, self._checkout, self._names, fresh)


def foreign_modules(tree: Path, checkout: Path, names: frozenset[str], modules: Mapping[str, ModuleType | None]) -> list[str]:
    """``name (file)`` of each loaded module that belongs to the repository but lies outside ``tree``.

    A module belongs to the repository if ``tree`` has its top-level name, or if its file lies in the user's own
    ``checkout`` (installed packages of a virtual environment inside it excepted).
    """
    found = []
    for name, module in sorted(modules.items()):
        top = name.partition(".")[0]
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(tree) or path.is_relative_to(_HARNESS_FOLDER):
            continue
        in_checkout = path.is_relative_to(checkout) and not _is_installed(path.relative_to(checkout))
        if top in names or in_checkout:
            found.append(f"{name} ({path})")
    return found


def _is_installed(path: Path) -> bool:
    return any(part in {"site-packages", "dist-packages"} for part in path.parts)
