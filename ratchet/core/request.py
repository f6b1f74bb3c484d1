"""Define a command's request and its outcome, and look after the repository that it works in.

Reads the baseline, creates the results folder, and puts the baseline back where measured code changed it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import DamageError, GitError, OutputError, RatchetError, UsageError
from ratchet.core.git import Repository, Snapshot
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.files import load, save_bytes
from ratchet.core.records.run import RunRecord, Shard, Side, Tree
from ratchet.core.records.tuned import TUNING_FOLDER, WRITTEN
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report.progress import Progress

BASELINE, CURRENT, REPORT, MARKDOWN = "baseline.json", "current.json", "report.json", "ratchet_report.md"
PAGE = "report.html"


@dataclass(frozen=True)
class DeviceChoice:
    """The GPUs that a command may have, by index, and how long it waits while others hold them."""

    gpu: int | None = None
    gpus: tuple[int, ...] | Literal["all"] | None = None
    """Spread the cases over these GPUs; None: one GPU."""
    wait_s: float = 0.0


@dataclass(frozen=True)
class Request:
    """The arguments of a command. ``options`` are settings given on the command line; None means not given."""

    folder: Path
    command: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    base: str | None = None
    merge_base: str | None = None
    against_baseline: bool = False
    """Compare every case with the commit that the baseline names for it."""
    bench_from: Literal["head"] | None = None
    """Measure every reference with the benchmarks of the head; None: with its own."""
    devices: DeviceChoice = DeviceChoice()
    shard: Shard | None = None
    """Measure only this part of the cases."""
    environments: Mapping[Side, str] = field(default_factory=dict)
    """Side → the Python environment that it gets, as a user names one; none: both sides have ours."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandResult:
    """A run, its verdict, and where its files belong."""

    run: RunRecord
    report: ReportRecord
    results: Path
    damage: str = ""
    """A sentence about changes in the user's repository meanwhile that are not undone."""

    def with_changes(self, notes: Sequence[str], damage: str) -> CommandResult:
        """Return this with the changes of the checkout among the warnings."""
        more = [*notes, damage] if damage else notes
        run = self.run.model_copy(update={"warnings": (*self.run.warnings, *more)})
        report = self.report.model_copy(update={"warnings": (*self.report.warnings, *more)})
        return CommandResult(run, report, self.results, damage)


def load_baseline(results: Path) -> Baseline:
    """Return the stored baseline; an empty one where there is no file yet. Raises RecordError for an unreadable file."""
    path = results / BASELINE
    return load(path, Baseline) if path.exists() else Baseline()


def root_of(folder: Path) -> Path:
    """Return the root of a checkout; outside git, the folder itself."""
    try:
        return Repository(folder).root
    except (GitError, UsageError):
        return folder.resolve()


def settings_of(request: Request, environ: Mapping[str, str], most_pairs: int | None = None) -> tuple[Path, Settings]:
    """Return the root and the settings; ``most_pairs`` hold unless the command line names pairs. Raises UsageError."""
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options, request.folder)
    if most_pairs is not None and request.options.get("pairs") is None:
        settings = settings.model_copy(update={"pairs": min(settings.pairs, most_pairs)})
    return root, settings


def results_folder(request: Request, environ: Mapping[str, str]) -> Path:
    root, settings = settings_of(request, environ)
    return root / settings.results


def reference_of(request: Request, repository: Repository, head: Snapshot) -> str:
    """Return the commit to compare with: the one named, else HEAD for uncommitted changes, else the commit before."""
    if request.base:
        return repository.resolve(request.base)
    if request.merge_base:
        return repository.merge_base(request.merge_base)
    return head.tree.commit if head.tree.dirty else repository.previous()


def checked_out(root: Path, results: Path) -> Tree:
    """Return the commit that is checked out, and whether files were changed since; outside git, no commit."""
    try:
        repository = Repository(root)
        tree = repository.commit_snapshot("HEAD").tree
        return tree.model_copy(update={"dirty": repository.is_dirty(own_output_globs(repository, results))})
    except (GitError, UsageError):
        return Tree(commit="")


def own_output_globs(repository: Repository, results: Path, tuning: Path | None = None) -> tuple[str, ...]:
    """Globs of the files that earlier runs wrote into the repository; they do not count as changes of the code.

    The whole folder ``results``, and the byte code that Python leaves beside a module. In ``tuning`` (None: the usual folder)
    only the files that a search writes, since a repository may keep code of its own in a folder of that name.
    """
    root = repository.root  # without links and .., which the names of folders may lead through; the folder itself may be a link
    asked, found = (folder.parent.resolve() / folder.name for folder in (results, tuning or root / TUNING_FOLDER))
    reports = () if asked == root else _within(root, asked, ("", "/**"))
    searches = _within(root, found, [f"/{pattern}" for pattern in WRITTEN])
    # Without a .gitignore a checkout in which anything ran would never count as clean, and HEAD would be compared with itself.
    return (*reports, *searches, "**/__pycache__/**")


def _within(root: Path, folder: Path, globs: Sequence[str]) -> tuple[str, ...]:
    if not folder.is_relative_to(root):
        return ()
    inside = "" if folder == root else glob.escape(folder.relative_to(root).as_posix())
    return tuple(f"{inside}{pattern}".removeprefix("/") for pattern in globs)


def writable(results: Path, option: str = "--results") -> Path:
    """Create the folder that ``option`` names, if needed. Raises OutputError now, not after a minute of measuring."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        raise OutputError(
            f"The results folder {results} cannot be written: {error.strerror}.", f"Choose another with {option}."
        ) from None
    return results


class RepositoryWatch:
    """The baseline of a checkout and the state of its git repository, remembered before code that is not ours runs."""

    def __init__(self, root: Path, results: Path) -> None:
        self._root = root
        self._baseline = (results / BASELINE).resolve()
        self._content = _content(self._baseline)
        try:
            self._repository: Repository | None = Repository(root)
            self._state = self._repository.state()
        except (GitError, UsageError):
            self._repository = None
        self.was_asked = False

    def changes(self) -> tuple[list[str], str]:
        """Restore the baseline if it was changed. Return sentences about that, and about what looks like somebody's own work.

        And one about changes that are not undone, since somebody may have made them on purpose: empty where there are none.
        """
        self.was_asked = True
        notes, damages = [], []
        shown = os.path.relpath(self._baseline, self._root)
        try:
            if (kept := self._put_back()) is not None:
                more = f"; the changed file is kept as {kept}" if kept else ""
                notes.append(f"{shown} was changed while this ran, and was put back{more}.")
        except (OSError, OutputError) as error:
            damages.append(f"{shown} was changed while this ran, and cannot be put back: {error}")
        if self._repository:
            work, harm = _moves(self._repository, self._state, self._repository.state())
            where = f"In the git repository {self._root}, while this ran,"
            notes += [f"{where} {', '.join(work)}."] if work else []
            damages += [f"{where} {', '.join(harm)}. If that was not you, measured code did it."] if harm else []
        return notes, " ".join(damages)

    def _put_back(self) -> str | None:
        """Restore the baseline. Returns the name of the kept changed file, empty if it was deleted, None if unchanged."""
        path, aside = self._baseline, self._baseline.with_name(f"{BASELINE}.changed")
        if not path.is_symlink() and _content(path) == self._content and path.exists() == (self._content is not None):
            return None
        if os.path.lexists(path):
            path.replace(aside)
        if self._content is not None:
            save_bytes(path, self._content)
        return aside.name if os.path.lexists(aside) else ""


@contextlib.contextmanager
def watched(root: Path, results: Path, progress: Progress) -> Iterator[RepositoryWatch]:
    """Watch a checkout while the body runs. Raises DamageError at its end where something changed that cannot be undone.

    A body that calls `RepositoryWatch.changes` reports the changes itself; otherwise ``progress`` shows what was put back.
    """
    watch = RepositoryWatch(root, results)
    try:
        yield watch
    except RatchetError as error:
        notes, damage = watch.changes()
        error.hint = " ".join(filter(None, (error.hint, *notes, damage)))
        raise
    except BaseException:
        watch.changes()
        raise
    if not watch.was_asked:
        notes, damage = watch.changes()
        for note in notes:
            progress.stage(note)
        if damage:
            raise DamageError(damage)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _moves(repository: Repository, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Split the changes into ordinary work during a check, and harm that somebody has to undo."""
    work, harm = [], []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name in ("config", "hooks"):
            harm.append("its settings (.git/config) changed" if name == "config" else "its hooks (.git/hooks) changed")
        elif name == "index":
            work.append("what is staged changed")
        elif name == "HEAD":
            back = f"git symbolic-ref HEAD {old}" if str(old).startswith("refs/") else f"git update-ref --no-deref HEAD {old}"
            harm.append(f"HEAD moved from {old} to {new} (`{back}` takes it back)")
        elif old is None:
            work.append(f"{name} appeared")
        elif new is not None and repository.is_ancestor(old, new):
            work.append(f"{name} moved forward from {old[:10]} to {new[:10]}")
        else:
            what = f"moved to {new[:10]}, which does not hold {old[:10]}" if new else "vanished"
            harm.append(f"{name} {what} (`git update-ref {name} {old}` takes it back)")
    return work, harm
