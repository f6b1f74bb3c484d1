"""Build the trees that a command measures or profiles, describe them for child programs, and measure them."""

from __future__ import annotations

import contextlib
import fnmatch
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any

from ratchet import tools
from ratchet.core.bench.build import build_tree
from ratchet.core.bench.child.reads import BUILT
from ratchet.core.bench.suite import CaseTask, Suite, list_cases, measure_suite
from ratchet.core.bench.tree_spec import OURS, TreeSpec
from ratchet.core.config import OF_BOTH_SIDES, OF_EACH_TREE, Settings
from ratchet.core.errors import BuildError, UsageError
from ratchet.core.git import Repository, Snapshot, Trees
from ratchet.core.machine import Machine
from ratchet.core.records.run import CaseRun, Side
from ratchet.core.report.progress import Progress
from ratchet.core.units import listed, size
from ratchet.core.untrusted import clean


def build(
    settings: Settings, side: Side, tree: Path, snapshot: Snapshot, progress: Progress, environ: Mapping[str, str]
) -> BuildError | None:
    """Build a tree, if the settings have a build command. Return the error of a build that fails."""
    settings = settings_of_tree(settings, tree)
    if not settings.build:
        return None
    progress.stage(f"Building the {side}")
    try:
        build_tree(
            tree,
            settings.build,
            settings.build_outputs,
            snapshot.tree.content,
            settings.build_timeout,
            environ,
            cache=settings.build_cache,
            folder=settings.project,
        )
    except BuildError as error:
        return error
    return None


def build_twice(settings: Settings, trees: Trees, snapshot: Snapshot, progress: Progress, environ: Mapping[str, str]) -> None:
    """Build the two checkouts of one snapshot. Raises BuildError."""
    sides: dict[Side, Path | None] = {"head": trees.head, "reference": trees.reference}
    for side, tree in sides.items():
        if tree and (broken := build(settings, side, tree, snapshot, progress, environ)):
            raise broken


def settings_of_tree(settings: Settings, tree: Path) -> Settings:
    """Return the settings for one side: those of its own file say how its code is built and imported."""
    path = tree / settings.project / "pyproject.toml"
    with contextlib.suppress(UsageError, OSError, UnicodeDecodeError):  # one of another ratchet: `differing_settings` says it
        return settings.as_in(path.read_text(encoding="utf-8"), str(path), OF_EACH_TREE)
    return settings


def differing_settings(settings: Settings, repository: Repository, head: Snapshot, reference: Snapshot) -> tuple[str, ...]:
    """Return a sentence for each setting that differs between the sides and that counts for what is measured."""
    path = str(PurePosixPath(settings.project, "pyproject.toml"))
    keys = (*OF_EACH_TREE, *OF_BOTH_SIDES)
    try:
        ours, theirs = (
            settings.as_in((repository.file_in(each.revision, path) or b"").decode(), path, keys) for each in (head, reference)
        )
    except (UsageError, UnicodeDecodeError) as error:
        return (f"The settings of the reference cannot be read, so both sides were built with the head's: {error}",)
    notes = []
    for key in keys:
        one, other = getattr(ours, key), getattr(theirs, key)
        if one == other:
            continue
        used = (
            "Each side was made with its own."
            if key in OF_EACH_TREE
            else "Both sides were measured with the head's, so no ratio shows what this changes: make it a commit of its own."
        )
        notes.append(f"The setting {key} differs: {_shown(one)} in the head, {_shown(other)} in the reference. {used}")
    return tuple(notes)


def _shown(value: object) -> str:
    return clean(" ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "nothing"


def tree_spec(settings: Settings, machine: Machine, checkout: Path, path: Path, side: Side = "head") -> TreeSpec:
    """Return the description of a tree of ``checkout`` as this machine loads it, in the environment of a side."""
    addresses = ",".join(gpu.address for gpu in machine.gpus) or None
    settings = settings if path == checkout else settings_of_tree(settings, path)
    spec = TreeSpec.of(settings, path, checkout=checkout, device=machine.device, gpu_uuid=addresses)
    return replace(spec, python=machine.pythons.sides.get(side, OURS))


def tree_specs(
    settings: Settings, machine: Machine, checkout: Path, head: Path, reference: Path | None = None
) -> dict[Side, TreeSpec]:
    """Return the descriptions of both trees; a reference without benchmarks is left out, a head without is a UsageError."""
    specs: dict[Side, TreeSpec] = {"head": tree_spec(settings, machine, checkout, head)}
    if settings.command:
        return specs | ({"reference": tree_spec(settings, machine, checkout, reference, "reference")} if reference else {})
    need_benchmarks(settings, checkout, head)
    if reference and (reference / settings.bench).is_dir():
        specs["reference"] = tree_spec(settings, machine, checkout, reference, "reference")
    return specs


def need_benchmarks(settings: Settings, checkout: Path, head: Path) -> None:
    """Raise UsageError where a tree of ``checkout`` has no folder of benchmarks."""
    if (head / settings.bench).is_dir():
        return
    if any(file.is_file() for file in (checkout / settings.bench).glob("**/*")):
        raise UsageError(
            f"git ignores the folder {settings.bench}/ in {checkout}, and a check measures what git holds.",
            "Take it out of .gitignore; `git check-ignore --verbose` with one of its files shows the line.",
        )
    missing = "file in the folder" if (checkout / settings.bench).is_dir() else "folder"
    raise UsageError(
        f"There is no {missing} {settings.bench}/ in {checkout}.",
        "`ratchet init` writes a first benchmark; or set bench in [tool.ratchet]; or time another harness with --command.",
    )


def measure(
    settings: Settings, trees: Mapping[Side, TreeSpec], task: CaseTask, progress: Progress, environ: Mapping[str, str]
) -> Suite:
    """Measure the benchmarks of these trees, or what the command of the settings reports. Raises as either does."""
    if settings.command:
        harness = tools.part("harness")
        suite: Suite = harness.measure_harness(trees, harness.harness_of(settings), task, progress, environ)
        return suite
    return measure_suite(trees, task, progress, environ)


def cases_of(settings: Settings, tree: TreeSpec, patterns: Sequence[str], environ: Mapping[str, str]) -> list[CaseRun]:
    """List the cases of a tree; a command of the settings has to run once for that. Raises as `measure` does."""
    if settings.command:
        harness = tools.part("harness")
        cases: list[CaseRun] = harness.list_harness(tree, harness.harness_of(settings), patterns, environ)
        return cases
    return list_cases(tree, patterns, environ)


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
    """Return warnings about what a check cannot see, since both sides run in one environment, and about uncommitted files.

    Dependencies are those of the repository and of the ``project`` in it; ``tree`` is that of the head, as it was measured.
    """
    notes = [
        f"The submodule {path} has uncommitted changes, which are not in the head: commit them there."
        for path in repository.edited_submodules()
    ]
    built = [path for path in repository.ignored_files() if path.endswith(BUILT) and (tree / path).parent.is_dir()]
    if lacking := [path for path in built if not (tree / path).exists()]:
        cure = "If your code needs them, let build in [tool.ratchet] make them in each tree."
        notes.append(f"{listed(lacking, 3)}: git ignores such files, so the trees that were measured do not have them. {cure}")
    folders = {PurePosixPath(), PurePosixPath(project)}
    changed = repository.changed_paths(reference.revision, head.revision) if reference else []
    uncommitted = repository.changed_paths(head.tree.commit, head.revision) if head.tree.dirty else []
    against_head = reference is not None and reference.revision == head.tree.commit
    if uncommitted and against_head and not repository.changed_paths(head.tree.commit, head.revision, new=False):
        cure = "To compare HEAD with the commit before it, commit them, let git ignore them, or add --base HEAD~1."
        notes.append(f"All uncommitted changes are new files: {listed(uncommitted, 3)}. {cure}")
    near = [PurePosixPath(path) for path in changed if PurePosixPath(path).parent in folders]
    sizes = {path: (repository.root / path).lstat().st_size for path in uncommitted if (repository.root / path).is_file()}
    if sum(sizes.values()) >= HEAVY_BYTES:
        cure = "Let git ignore what your code does not read: each check copies them."
        largest = sorted(sizes, key=lambda path: -sizes[path])
        notes.append(f"Uncommitted files hold {size(sum(sizes.values()))}: {listed(largest, 3)}. {cure}")
    files = [str(path) for path in near if any(fnmatch.fnmatchcase(path.name, pattern) for pattern in _DEPENDENCIES)]
    for path in (path for path in near if path.name == "pyproject.toml"):
        texts = [repository.file_in(each.revision, str(path)) for each in (reference, head) if each]
        before, after = map(_install_tables, texts)
        if before != after:
            files.append(f"the dependencies or entry points in {path}")
    if files:
        why = "both sides ran with the packages that are installed here, so the effect of this was not measured"
        notes.append(f"{listed(files, 3)} changed: {why}.")
    return tuple(notes)


HEAVY_BYTES = 256 << 20
"""Copying so much takes longer than starting a check."""


def _install_tables(text: bytes | None) -> list[Any]:
    """Return the `_TABLES` of a file; the whole of it where it cannot be read."""
    try:
        about: Any = tomllib.loads((text or b"").decode())
    except ValueError:
        return [text]
    return [reduce(lambda table, key: table.get(key) if isinstance(table, dict) else None, keys, about) for keys in _TABLES]
