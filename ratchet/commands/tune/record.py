"""Begin the record of a tuning session, with the digests of the code that its times belong to.

`tune` calls `begun`. The code of a case is its benchmark's file, the modules that this imports from the tree, and the kernels
that these name (`sources_of`). It reads the tree's files, git and earlier records; it writes nothing.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ratchet.commands.request import checked_out
from ratchet.commands.tune.subject import TuneRequest, TuningSite
from ratchet.errors import FingerprintError, UsageError
from ratchet.measure.child.loader import HARNESS
from ratchet.measure.device.environment import describe
from ratchet.measure.messages import Listing, SpaceFound
from ratchet.nvcc import read_sources
from ratchet.records.files import load
from ratchet.records.run import CaseRun
from ratchet.records.tuning import EARLIER, Session, TuningRecord, tuning_path

NATIVE = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hip", ".cl", ".ptx")
"""Endings of sources that no import names, but a string in the Python file that has them compiled."""


def sources_of(root: Path, bench: str, python_path: Sequence[str], file: str) -> dict[str, str]:
    """Return path within the tree → SHA-256 of each file, sorted; ``file`` is a benchmark's, in the folder ``bench``.

    Read from the text: an import or a name that is put together at run time is not seen. Installed packages and ratchet itself
    belong to the environment and not to the case.
    """
    modules = _Modules(root, bench, python_path)
    kernels = _files_by_name(root)
    waiting = [*modules.files(f"{Path(bench).name}.{Path(file).stem}"), root / bench / file]
    sources: set[Path] = set()
    while waiting:
        path = Path(os.path.normpath(waiting.pop()))
        if path in sources or not path.is_relative_to(root) or not path.is_file():
            continue
        sources.add(path)
        if path.suffix == ".py":
            tree = _parsed(path)
            waiting += [source for name in _imported(tree, modules.name_of(path)) for source in modules.files(name)]
            waiting += [source for name in _native(tree) for source in kernels.get(name, ())]
        elif path.suffix in NATIVE:
            waiting += read_sources(path)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(sources)}


class _Modules:
    """A finder of a tree's own modules, which finds them as a worker would."""

    def __init__(self, root: Path, bench: str, python_path: Sequence[str]) -> None:
        folder = root / bench
        self._bench, self._roots = folder, (*(root / place for place in python_path), folder.parent)

    def files(self, dotted: str) -> list[Path]:
        """Return the files that importing a module runs, its packages' first; none where it is not the tree's own."""
        parts = dotted.split(".")
        if parts[0] == HARNESS:
            return []
        places = (self._bench.parent,) if parts[0] == self._bench.name else self._roots
        return next((files for place in places if (files := list(_along(place, parts)))), [])

    def name_of(self, path: Path) -> list[str]:
        """Return the package that a file's relative imports start from, as parts of its name."""
        roots = [root for root in self._roots if path.is_relative_to(root)]
        return list(path.parent.relative_to(max(roots, key=lambda root: len(root.parts))).parts) if roots else []


def _along(place: Path, parts: Sequence[str]) -> Iterator[Path]:
    for part in parts:
        folder, package = place / part, place / part / "__init__.py"
        modules = [module for module in (place / f"{part}.py", *sorted(place.glob(f"{part}.*so"))) if module.is_file()]
        if package.is_file():
            yield package
        elif modules or not folder.is_dir():
            yield from modules
            return
        place = folder


def _imported(tree: ast.Module, package: Sequence[str]) -> Iterator[str]:
    """Yield the dotted names that a file imports, at any depth; for ``from a import b`` both, since ``b`` may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            whole = ".".join([*above, *([node.module] if node.module else [])])
            if whole:
                yield whole
                yield from (f"{whole}.{alias.name}" for alias in node.names if alias.name != "*")


def _native(tree: ast.Module) -> Iterator[str]:
    """Yield the names of kernel sources that appear as strings in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(NATIVE):
            yield Path(node.value).name


def _files_by_name(root: Path) -> Mapping[str, list[Path]]:
    """Return every kernel source of a tree; hidden folders and virtual environments are left out."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for parent, folders, files in os.walk(root):
        folders[:] = [
            folder for folder in folders if not folder.startswith(".") and not Path(parent, folder, "pyvenv.cfg").exists()
        ]
        for name in files:
            if name.endswith(NATIVE):
                by_name[name].append(Path(parent, name))
    return by_name


def _parsed(path: Path) -> ast.Module:
    """Parse a file; one that cannot be parsed is empty here, since the worker reports what is wrong with it."""
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module([], [])


# The record with which a tuning session begins.


def begun(
    request: TuneRequest, site: TuningSite, folder: Path, listing: Listing, case: CaseRun, space: SpaceFound
) -> TuningRecord:
    """Return the record with which this session begins: a new one, or with --resume that of earlier sessions.

    Raises RecordError where the earlier one cannot be read, UsageError where there is none, FingerprintError where it is of
    another space, machine or code.
    """
    machine = site.machines[0]
    environment = describe(
        machine.gpu,
        machine.device,
        torch_version=listing.torch,
        cuda_version=listing.cuda,
        triton_version=listing.triton,
        cpu_threads=site.settings.cpu_threads,
    )
    path = tuning_path(folder, case.name, environment.fingerprint)
    file = next(listed.file for listed in listing.cases if listed.name == case.name)
    before = _earlier(path, folder, case.name) if request.resume else None
    session = Session(
        started_at=datetime.now(UTC),
        command=request.request.command,
        strategy=request.strategy,
        seed=request.seed,
        budget_s=request.budget_s,
        max_evaluations=request.max_evaluations,
        executor=request.executor,
        gpus=tuple(place.name for place in site.places),
        first=len(before.evaluations) if before else 0,
    )
    record = TuningRecord(
        case=case.name,
        benchmark=case.benchmark,
        config=case.config.name,
        workload=space.workload,
        environment=environment,
        head=checked_out(site.root, site.root / site.settings.results, folder),
        sources=sources_of(site.root, site.settings.bench, site.settings.python_path, file),
        space=space.space,
        constraints=space.constraints,
        valid=space.count if space.exact else None,
        default=space.default,
        sessions=(*(before.sessions if before else ()), session),
        evaluations=before.evaluations if before else (),
    )
    differences = before.differences(record) if before else []
    if differences:
        raise FingerprintError(
            f"{path} is about something else ({'; '.join(differences[:3])}), so it cannot be gone on with.",
            f"Leave --resume out to begin anew; the record is kept in {folder / EARLIER}.",
        )
    return record


def _earlier(path: Path, folder: Path, case: str) -> TuningRecord:
    if path.exists():
        return load(path, TuningRecord)
    stem = f"{case.replace('/', '.')}."
    elsewhere = sorted(file.name for file in folder.glob(f"{stem}*.json"))
    if elsewhere:
        raise FingerprintError(
            f"There is nothing of this machine and software to go on with: {', '.join(elsewhere[:3])} is of another.",
            "Leave --resume out to begin anew.",
        )
    raise UsageError(f"There is nothing to go on with: {path} does not exist.", "Leave --resume out to begin anew.")
