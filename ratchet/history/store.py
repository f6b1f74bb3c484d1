"""The files of the history: one for each judged run, with a name that no other run has, so that writers never meet.

`append` adds a run to a folder. An index reads from `RunFiles`: a folder (`FolderFiles`), or a branch of a git repository, which
`ratchet.commands.history` puts in. A file is never changed, and the same run kept twice is one file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Protocol

from ratchet.errors import OutputError, RecordError
from ratchet.records.files import save_text
from ratchet.records.history import HistoryRun

LARGEST_RUN_BYTES = 16 * 2**20
"""Of one file; 5,000 cases, the most that a run may have, take 2 MiB."""
SUFFIX = ".json"


def text_of(run: HistoryRun) -> str:
    """Return the text of a run's file: one line, without fields that are not known."""
    return f"{run.model_dump_json(exclude_none=True)}\n"


def name_of(run: HistoryRun) -> str:
    """Return the path of a run's file within the history: ``2026-11/20261122T143005Z-0123456789-0123456789ab.json``.

    The digest is of machine, commit and start, to the microsecond: no two runs share them, and a run that is kept again, perhaps
    judged by a later baseline, has the name that it had.
    """
    at = run.started_at.astimezone(UTC)
    digest = hashlib.sha256(f"{run.fingerprint.key} {run.commit} {at.isoformat()}".encode()).hexdigest()[:12]
    return f"{at:%Y-%m}/{at:%Y%m%dT%H%M%SZ}-{run.commit[:10]}-{digest}{SUFFIX}"


def append(folder: Path, run: HistoryRun) -> Path:
    """Add a run to a folder; return its file, which may have been there before. Raises OutputError."""
    path = folder / name_of(run)
    if not path.exists():
        save_text(path, text_of(run))
    return path


class RunFiles(Protocol):
    """A place that holds the files of a history."""

    def listed(self) -> Mapping[str, str]:
        """Return the path of each file within the history → what changes if its content does."""

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | RecordError]]:
        """Yield the path and the content of these files; the error of one that cannot be read."""


class FolderFiles:
    """The files of a folder. A folder that is not there holds none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def listed(self) -> dict[str, str]:
        """Return path → size and time of change. Raises OutputError for a folder that cannot be listed."""
        found: dict[str, str] = {}
        try:
            months = [entry for entry in os.scandir(self.folder) if entry.is_dir()] if self.folder.is_dir() else []
            for month in months:
                for entry in os.scandir(month):
                    if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                        status = entry.stat()
                        found[f"{month.name}/{entry.name}"] = f"{status.st_size}-{status.st_mtime_ns}"
        except OSError as error:
            raise OutputError(f"The history {self.folder} cannot be read: {error.strerror}.", "Check its permissions.") from error
        return found

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | RecordError]]:
        """Yield what each file holds; larger ones than `LARGEST_RUN_BYTES` are not read."""
        for name in names:
            path = self.folder / name
            try:
                with path.open("rb") as stream:
                    content = stream.read(LARGEST_RUN_BYTES + 1)
            except OSError as error:
                yield name, RecordError(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.")
                continue
            too_large = RecordError(f"{path} is larger than 16 MiB, so ratchet did not write it.", "Check the path.")
            yield name, too_large if len(content) > LARGEST_RUN_BYTES else content
