"""Say which changes between two commits a check cannot see, since both sides run in one environment."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from ratchet.forge.git import Repository, Snapshot
from ratchet.measure.child.reads import BUILT
from ratchet.units import listed

_DEPENDENCIES = (
    "requirements*.txt",
    "constraints*.txt",
    "environment*.y*ml",
    "Pipfile",
    "*.lock",
    "conda-lock.yml",
    "pylock*.toml",
)
_TABLES = (
    ("project", "dependencies"),
    ("project", "optional-dependencies"),
    ("project", "entry-points"),
    ("project", "scripts"),
    ("dependency-groups",),
    ("tool", "poetry", "dependencies"),
    ("tool", "poetry", "plugins"),
)
"""Tables of ``pyproject.toml`` that act when a package is installed."""


def unmeasured(repository: Repository, head: Snapshot, reference: Snapshot | None, project: str, tree: Path) -> tuple[str, ...]:
    """Return sentences for the warnings of a run.

    They are about dependencies that changed (of the repository, and of the ``project`` in it), submodules with uncommitted
    changes, and what a compiler made in the checkout and not in the ``tree`` of the head.
    """
    notes = [
        f"The submodule {path} has uncommitted changes, which are not in the head: commit them there."
        for path in repository.edited_submodules()
    ]
    built = [path for path in repository.ignored_files() if path.endswith(BUILT) and (tree / path).parent.is_dir()]
    if lacking := [path for path in built if not (tree / path).exists()]:
        why = "so code that does without them did: build in [tool.ratchet] makes them in each tree"
        notes.append(f"{listed(lacking, 3)}: in your checkout alone, since git ignores such files, {why}.")
    folders = {PurePosixPath(), PurePosixPath(project)}
    changed = repository.changed_paths(reference.revision, head.revision) if reference else []
    near = [PurePosixPath(path) for path in changed if PurePosixPath(path).parent in folders]
    files = [str(path) for path in near if any(fnmatch.fnmatchcase(path.name, pattern) for pattern in _DEPENDENCIES)]
    for path in near:
        if path.name == "pyproject.toml" and reference:
            before, after = (_install_tables(repository.file_in(each.revision, str(path))) for each in (reference, head))
            if before != after:
                files.append(f"the dependencies or entry points in {path}")
    if files:
        why = "both sides ran with the packages that are installed here, so what that changes was not measured"
        notes.append(f"{listed(files, 3)} changed: {why}.")
    return tuple(notes)


def _install_tables(text: bytes | None) -> list[Any]:
    """Return the `_TABLES` of a file; the whole of it where it cannot be read."""
    try:
        about: dict[str, Any] = tomllib.loads((text or b"").decode())
    except ValueError:
        return [text]
    return [_at(about, keys) for keys in _TABLES]


def _at(table: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table
