"""Carry out `ratchet history`: read the judged runs of main; and keep them, on a branch of the remote.

`ratchet.history.cli` calls `case_histories`; the pages and the search for change points call `open_history`; `ratchet
baseline push` calls `push_runs`. Reads a folder and a branch, and keeps an index of them below the cache folder; `push_runs`
pushes.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet.common.git_push import FileChange, PushTarget, Remote, RemoteFile, push_file
from ratchet.core.cache import cache_root
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import GitError, RecordError, UsageError
from ratchet.core.git import Blob, Repository
from ratchet.core.judge.mutes import warnings
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, root_of
from ratchet.core.units import did_you_mean, first_of
from ratchet.history.judge import history_run
from ratchet.history.records import Series
from ratchet.history.store import LARGEST_RUN_BYTES, FolderFiles, History, IndexedCase, RunFiles, append, name_of, text_of

HISTORY = "history"
"""The folder of runs within the results folder."""
_RUN_FILE = re.compile(r"\d{4}-\d{2}/[^/]+\.json")
_BATCH_BYTES = 32 << 20
"""Content of a branch that is held in memory at once."""


class BranchFiles:
    """The files of a history on a branch of a repository, read without a checkout."""

    def __init__(self, repository: Repository, commit: str, project: str) -> None:
        self._repository = repository
        self._project = f"{project}/" if project else ""
        files = repository.listing(commit).items()
        below = {path.removeprefix(self._project): blob for path, blob in files if path.startswith(self._project)}
        self._blobs: dict[str, Blob] = {path: blob for path, blob in below.items() if _RUN_FILE.fullmatch(path)}

    def listed(self) -> dict[str, str]:
        """Return path → hash of the content."""
        return {path: blob.hash for path, blob in self._blobs.items()}

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | RecordError]]:
        """Yield what each file holds; larger ones than `LARGEST_RUN_BYTES` are not read."""
        batch: list[str] = []
        for name in names:
            if self._blobs[name].bytes > LARGEST_RUN_BYTES:
                yield name, RecordError(f"{name} is larger than 16 MiB, so ratchet did not write it.", "Check the branch.")
                continue
            batch.append(name)
            if sum(self._blobs[one].bytes for one in batch) > _BATCH_BYTES:
                yield from self._read(batch)
                batch = []
        yield from self._read(batch)

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return zip(names, self._repository.contents([self._blobs[name].hash for name in names]), strict=True)


@dataclass(frozen=True)
class OpenedHistory:
    """The history of a checkout, and its settings."""

    history: History
    root: Path
    settings: Settings

    @property
    def ended_mutes(self) -> list[str]:
        """A sentence for each mute of the settings that is over."""
        return list(warnings((), self.settings.mute, datetime.now(UTC).date()))


def open_history(request: Request, progress: Progress, environ: Mapping[str, str], *, fetch: bool) -> OpenedHistory:
    """Open the history of a checkout: what `ratchet baseline record` kept in the results folder, and the branch of origin.

    ``fetch`` brings that branch first; else it is as last fetched. Raises UsageError for wrong settings, and where origin has no
    history to fetch; GitError and OutputError where it cannot be read.
    """
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options, request.folder)
    if fetch:
        branch, remote = settings.history_branch, Remote(request.folder)
        progress.stage(f"Fetching {branch} from origin")
        if not branch:
            raise UsageError(
                'history_branch is "", so no run is kept on a branch.', "Without --fetch, the results folder is read."
            )
        if not remote.follow(branch):
            raise UsageError(
                f"{remote.name} has no branch {branch}: no run of main was kept there yet.",
                f"`ratchet ci push` keeps them. From another remote: `git fetch NAME {branch}:{branch}`, then without --fetch.",
            )
    folder = root / settings.results / HISTORY
    places: list[RunFiles] = [FolderFiles(folder)]
    try:
        repository = Repository(request.folder)
    except (GitError, UsageError):  # outside git
        if not folder.is_dir():
            raise
    else:
        refs = [f"refs/remotes/origin/{settings.history_branch}", f"refs/heads/{settings.history_branch}"]
        commits = [commit for ref in refs if settings.history_branch and (commit := repository.hash_of(f"{ref}^{{commit}}"))]
        places += [BranchFiles(repository, commit, settings.project) for commit in commits]
    key = hashlib.sha256(f"{root}\n{folder}\n{settings.history_branch}\n{settings.project}".encode()).hexdigest()[:16]
    history = History(places, cache_root() / HISTORY / f"{key}.sqlite", progress.stage)
    return OpenedHistory(history, root, settings)


def kept_cases(history: History) -> list[IndexedCase]:
    """Return every case of a history. Raises UsageError for one without runs, RecordError where none can be read."""
    cases = history.cases()
    if not cases and history.problems:
        raise RecordError(f"No file of the history can be read. {first_of(history.problems)}", "They were left as they are.")
    if not cases:
        raise UsageError(
            "There is no judged run of main yet.",
            "`--fetch` brings those that CI kept on a branch; `ratchet baseline record` keeps them in a folder.",
        )
    return cases


def case_histories(history: History, pattern: str | None, last: int | None = None) -> list[Series]:
    """Return the series of the cases that a pattern names (None: all), or their latest points.

    Raises UsageError where there is none.
    """
    cases = kept_cases(history)
    names = list(dict.fromkeys(case.name for case in cases))
    wanted = [case for case in cases if pattern is None or fnmatch.fnmatchcase(case.name, pattern)]
    if not wanted:
        raise UsageError(f"The history has no case {pattern}.", did_you_mean(pattern or "", names) or "See `ratchet history`.")
    return [history.series(case.name, case.hardware, last) for case in wanted]


# Keeping runs on a branch of the remote.


def keep_runs(results: Path, judged: Iterable[tuple[RunRecord, ReportRecord]], baseline: Baseline) -> None:
    """Add judged runs to the history in the folder of results. Raises OutputError."""
    for run, report in judged:
        append(results / HISTORY, history_run(run, report, baseline))


def push_runs(
    clone: Remote,
    settings: Settings,
    main: str,
    measured: Sequence[tuple[RunRecord, ReportRecord]],
    baseline: Baseline,
    url: str | None,
) -> list[str]:
    """Keep each run as a file of its own on the history's branch; return a sentence for each that could not be kept.

    A baseline that has moved stays moved: what fails here is said, and can be done again.
    """
    target = PushTarget("branch", main, settings.history_branch)
    if not target.side:
        return []
    if target.side in (main, settings.baseline_branch):
        return [f"The runs were not kept: history_branch is {target.side}, which holds something else. Set another one."]
    notes = []
    for run, report in measured:
        record = history_run(run, report, baseline, url)
        path = f"{settings.project}/{name_of(record)}".removeprefix("/")
        message = f"ratchet history: {record.commit[:10]} [skip ci]"
        change = FileChange(text_of(record).encode(), message)

        def once(file: RemoteFile, change: FileChange = change) -> FileChange | None:
            return None if file.waiting is not None else change

        try:
            push_file(clone, target, path, once)
        except GitError as error:
            notes.append(f"The run of {record.commit[:10]} was not kept on {target.side}: {error} Push the artifact again.")
    return notes
