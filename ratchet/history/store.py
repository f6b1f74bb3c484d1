"""The history of main: a file for each judged run, which never changes, and an index of them in SQLite.

`append` adds a run to a folder, under a name that no other run has, so that writers never meet. `ratchet history`, `ratchet
history --html` and the search for change points open a `History`, which reads from `RunFiles`: a folder (`FolderFiles`), or a
branch of a git repository, which `ratchet.history.command` puts in. The index is one file below the cache folder; where that
cannot be written, it is in memory. Opened again it reads only new files, and deleted it is made again from the files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from ratchet import __version__
from ratchet.core.errors import OutputError, RecordError
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.files import loads, save_text
from ratchet.history.judge import Link, placed_series, places_of
from ratchet.history.records import HistoryCase, HistoryRun, Series

LARGEST_RUN_BYTES = 16 * 2**20
"""Of one file; 5,000 cases, the most that a run may have, take 2 MiB."""
SUFFIX = ".json"
LAYOUT = f"3 {__version__}"
"""The layout of the tables, and the version that read the files: a newer one may read what this one refused."""
_TABLES = """
CREATE TABLE about (layout TEXT);
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT UNIQUE, state TEXT, problem TEXT, placed_at TEXT, run TEXT);
CREATE TABLE cases (
    name TEXT, hardware TEXT, file INTEGER, place INTEGER,
    workload TEXT, anchor TEXT, anchor_ratio REAL, reference TEXT, reference_ratio REAL, body TEXT,
    PRIMARY KEY (name, hardware, file)
) WITHOUT ROWID;
CREATE INDEX cases_of_file ON cases (file);
"""
"""``run`` is a run without its cases. The columns before ``body`` repeat the little that is read of all runs of a series."""
_MANY_FILES = 2000
"""More new files than this take a second or longer to read, so it is said first."""
_WAIT_S = 60.0
"""For another process that brings the same index up to date."""


class IndexedCase(NamedTuple):
    """A case of the history on one kind of hardware."""

    name: str
    hardware: str
    """`Fingerprint.hardware`."""


class History:
    """The runs of a history, as its files were when it was opened."""

    problems: tuple[str, ...]
    """One sentence for each file that cannot be read. It is left as it is, and all others are there."""

    def __init__(self, places: Sequence[RunFiles], index: Path | None, announce: Callable[[str], None] = lambda _: None) -> None:
        """Open the index and bring it up to date; None: in memory. A file that several places hold counts once.

        ``announce`` receives a sentence before many files are read. Raises OutputError for a place that cannot be listed.
        """
        self._announce = announce
        wanted = [(place, place.listed()) for place in places]
        for path in (index, index, None):  # as it is; after it was damaged; after it could not be written
            try:
                self._database = _opened(path)
                self._refresh(wanted)
                break
            except sqlite3.OperationalError:
                index = None
            except sqlite3.DatabaseError:
                if path:
                    path.unlink(missing_ok=True)
        rows = self._database.execute("SELECT problem FROM files WHERE problem IS NOT NULL ORDER BY name")
        self.problems = tuple(problem for (problem,) in rows)

    def cases(self) -> list[IndexedCase]:
        """Return every case of every kind of hardware, by name."""
        rows = self._database.execute("SELECT DISTINCT name, hardware FROM cases ORDER BY name, hardware")
        return [IndexedCase(*row) for row in rows]

    def series(self, name: str, hardware: str, last: int | None = None) -> Series:
        """Return all runs of a case on one kind of hardware, or the latest of them."""
        known = self._runs
        found = self._database.execute(
            "SELECT file, workload, anchor, anchor_ratio, reference, reference_ratio FROM cases WHERE name = ? AND hardware = ?",
            (name, hardware),
        )
        # Only these columns are read of the runs that are not shown: there may be thousands.
        links = {file: link for file, *link in found}
        files = [file for file in known if file in links]  # another process may have entered more since
        places = places_of((Link(known[file][1].commit, known[file][1].fingerprint, *links[file]) for file in files), last)
        latest = []
        for file in files[len(files) - len(places) :]:
            one = (name, hardware, file)
            ((body,),) = self._database.execute("SELECT body FROM cases WHERE name = ? AND hardware = ? AND file = ?", one)
            latest.append((*known[file], HistoryCase.model_validate_json(body)))
        return placed_series(name, latest, places, len(files))

    @functools.cached_property
    def _runs(self) -> dict[int, tuple[str, HistoryRun]]:
        """The name of every run's file and the run without its cases, by the number of its file; the oldest first."""
        rows = self._database.execute("SELECT id, name, run FROM files WHERE run IS NOT NULL ORDER BY placed_at, name")
        machines: dict[Fingerprint, Fingerprint] = {}  # one value for all runs of a machine, which compares fast
        runs = {}
        for file, name, text in rows:
            run = HistoryRun.model_validate_json(text)
            machine = machines.setdefault(run.fingerprint, run.fingerprint)
            runs[file] = (name, run.model_copy(update={"fingerprint": machine}))
        return runs

    def runs(self) -> list[HistoryRun]:
        """Return every run without its cases, the oldest first."""
        return [run for _, run in self._runs.values()]

    def names(self) -> list[str]:
        """Return the name of every run's file, the oldest run first."""
        return [name for name, _ in self._runs.values()]

    def run(self, name: str) -> HistoryRun:
        """Return a whole run by the name of its file."""
        ((file, text),) = self._database.execute("SELECT id, run FROM files WHERE name = ?", (name,))
        bodies = self._database.execute("SELECT body FROM cases WHERE file = ? ORDER BY place", (file,))
        cases = tuple(HistoryCase.model_validate_json(body) for (body,) in bodies)
        return HistoryRun.model_validate_json(text).model_copy(update={"cases": cases})

    def _refresh(self, wanted: Sequence[tuple[RunFiles, Mapping[str, str]]]) -> None:
        """Forget the files that are gone or changed, and read those that are new."""
        listed = {name: state for _, states in reversed(wanted) for name, state in states.items()}
        if self._states() == listed:
            return
        with _transaction(self._database):
            known = self._states()  # again: another process may have been first
            stale = [(name,) for name, state in known.items() if listed.get(name) != state]
            self._database.executemany("DELETE FROM cases WHERE file = (SELECT id FROM files WHERE name = ?)", stale)
            self._database.executemany("DELETE FROM files WHERE name = ?", stale)
            new = {name for name, state in listed.items() if known.get(name) != state}
            if len(new) > _MANY_FILES:
                self._announce(f"Reading {len(new)} new files of the history into its index, once")
            for place, states in wanted:
                own = sorted(new & states.keys())
                new -= states.keys()
                for name, content in place.contents(own):
                    self._enter(name, states[name], content)

    def _states(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT name, state FROM files"))

    def _enter(self, name: str, state: str, content: bytes | RecordError) -> None:
        run, problem = _read(name, content)
        at = run and run.at.astimezone(UTC).isoformat()
        text = run and run.model_copy(update={"cases": ()}).model_dump_json(exclude_none=True)
        insert = "INSERT INTO files (name, state, problem, placed_at, run) VALUES (?, ?, ?, ?, ?)"
        file = self._database.execute(insert, (name, state, problem, at, text)).lastrowid
        if run:
            hardware = run.fingerprint.hardware
            rows = (
                (case.name, hardware, file, place, *Link.of(run, case)[2:], case.model_dump_json(exclude_none=True))
                for place, case in enumerate(run.cases)
            )
            # A file that somebody wrote by hand may have one case twice.
            self._database.executemany("INSERT OR REPLACE INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _read(name: str, content: bytes | RecordError) -> tuple[HistoryRun | None, str | None]:
    """Return the run of a file, or a sentence that says why it cannot be read."""
    if isinstance(content, RecordError):
        return None, str(content)
    try:
        return HistoryRun.model_validate_json(content, strict=True), None  # five times as fast as `loads`, which explains
    except ValidationError:
        try:
            return loads(content, name, HistoryRun), None
        except RecordError as error:
            return None, f"{error} It was left as it is."


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Keep everything that the body writes, or nothing; another process that writes waits."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield


def _opened(index: Path | None) -> sqlite3.Connection:
    """Open a database with our tables, empty ones where the file is of another layout. Raises sqlite3.DatabaseError."""
    if index is not None:
        try:
            index.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            index = None
    database = sqlite3.connect(index or ":memory:", timeout=_WAIT_S, isolation_level=None)
    for setting in ("synchronous = OFF", "journal_mode = MEMORY", "cache_size = -65536"):  # it can be made again; 64 MiB
        database.execute(f"PRAGMA {setting}")
    if _layout(database) != LAYOUT:
        with _transaction(database):
            if _layout(database) != LAYOUT:  # still: another process may have been first
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    database.execute(f'DROP TABLE "{table}"')
                for statement in _TABLES.split(";")[:-1]:
                    database.execute(statement)
                database.execute("INSERT INTO about VALUES (?)", (LAYOUT,))
    return database


def _layout(database: sqlite3.Connection) -> str:
    """Return the layout that a database was written in; empty for a new one."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchall():
        return ""
    ((layout,),) = database.execute("SELECT layout FROM about").fetchall() or (("",),)
    return str(layout)


# The files: one for each judged run.


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
