"""Read the artifact of a job that ran untrusted code: records that may be judged, or one sentence why not.

Every trusted job reads artifacts here and nowhere else: `ratchet publish` and `ratchet baseline push` by `take_in`, the job that
proposes tuned parameters by `take_in_tuning`. Whoever wrote the pull request may have written every byte. Only the files of
records are read: by plain names, within bounds, through no link, against a strict schema, with numbers that a measurement can
give. Writes copies of them, and starts a child process to read a large one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ratchet.errors import ArtifactError, RecordError
from ratchet.forge import reading_child
from ratchet.forge.container import Container, Folder, archive_of, folder_of
from ratchet.judge.consistency import CASE_NAME, contradictions, with_own_figures
from ratchet.records.base import Record
from ratchet.records.files import load, save_bytes
from ratchet.records.profile import CaseProfile, Profiles
from ratchet.records.run import Block, RunRecord, WorkerSamples
from ratchet.records.tuning import TUNING_FOLDER, TuningRecord
from ratchet.subprocesses import run

RUN, PROFILES = "current.json", "nsight/profiles.json"
PLACES = ("", "results/")
"""Folders of an artifact in which the files of a run may be."""
TUNING = re.compile(rf"{TUNING_FOLDER}/[^/]+\.json")
LARGEST_RUN = 64 * 2**20
LARGEST_PROFILES = 8 * 2**20
LARGEST_SEARCH = 4 * 2**20
"""Bytes of the record of a search, enough for eight thousand evaluations."""
LARGEST_TUNING, MOST_TUNING = 16 * 2**20, 50
"""Bytes of all records of searches together, and their number."""
LARGEST_NUMBER = 1e30
"""No figure of a run comes near; larger ones only break sums."""
LONGEST_TEXT = 10_000
"""Characters of one text of a record."""
MOST_TEXTS, MOST_CHARACTERS = 1_000_000, 2**24
"""Texts of one record, and characters of them all: a report may carry every one, and a character may take four bytes."""
MOST_BLOCKS = 1_000_000
"""Blocks of samples of one run; the largest file that ratchet writes has two thirds of them."""
QUICK = 256 * 2**10
"""Bytes. A smaller file is read without a child: it cannot hold enough faults to fill the memory."""
MEMORY_BYTES = 2**29
SECONDS = 60
"""Limits of the child that reads one file. Whatever it can read takes no more here, where the work needs memory too."""

_LOOK_AT_JOB = "Measure again; if it comes back, look at what the job uploaded."
AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Intake:
    """A run that may be judged. Its texts are still those of a stranger."""

    run: RunRecord
    """Its figures are computed again from its samples."""
    profiles: tuple[CaseProfile, ...] = ()
    files: tuple[str, ...] = ()
    """Names of the other files: relative, plain."""
    problems: tuple[str, ...] = ()
    """One sentence for each thing that was left out."""


def take_in(artifact: Path, workspace: Path) -> Intake:
    """Take in a run from a folder, a zip archive, or its file alone. ``workspace`` gets copies of two files, and nothing else.

    Raises ArtifactError where the artifact is unsafe in any part, or its run is missing, damaged or contradicts itself. Unsound
    profiles are left out, with a sentence in ``problems``.
    """
    box = _opened(artifact)
    base = next((place for place in PLACES if f"{place}{RUN}" in box.sizes), None)
    if base is None:
        raise ArtifactError(f"The artifact has no {RUN}: the job ended before it wrote one.", "Its log says why.")
    record = _record(box, f"{base}{RUN}", workspace / RUN, LARGEST_RUN, RunRecord)
    wrong = list(contradictions(record))
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ArtifactError(f"{RUN} contradicts itself: {wrong[0]}{more}", _LOOK_AT_JOB)
    index, problems = f"{base}{PROFILES}", list[str]()
    profiles: tuple[CaseProfile, ...] = ()
    if index in box.sizes:
        try:
            profiles = _record(box, index, workspace / PROFILES, LARGEST_PROFILES, Profiles).profiles
        except ArtifactError as error:
            problems.append(f"The profiles were left out: {error.message}")
    others = tuple(sorted(name for name in box.sizes if name not in (f"{base}{RUN}", index)))
    return Intake(with_own_figures(record), profiles, others, tuple(problems))


def take_in_tuning(artifact: Path, workspace: Path) -> Iterator[TuningRecord]:
    """Yield the records of searches in a folder or a zip archive, one after the other. ``workspace`` gets copies of them.

    Raises ArtifactError where the artifact is unsafe in any part, has no record or too many, or one is damaged.
    """
    box = _opened(artifact)
    names = sorted(filter(TUNING.fullmatch, box.sizes))
    if not names:
        raise ArtifactError("The artifact holds no record of a search.", "See the log of the job that tuned.")
    if len(names) > MOST_TUNING or sum(box.sizes[name] for name in names) > LARGEST_TUNING:
        most = f"{MOST_TUNING} records or {LARGEST_TUNING // 2**20} MiB"
        raise ArtifactError(f"The artifact holds more than {most} of searches.", "Tune fewer cases at once.")
    for name in names:
        record = _record(box, name, workspace / name, LARGEST_SEARCH, TuningRecord)
        if not CASE_NAME.fullmatch(record.case) or record.case != f"{record.benchmark}/{record.config}":
            raise ArtifactError(f"{name} is of a case with an impossible name.", _LOOK_AT_JOB)
        yield record


def _opened(artifact: Path) -> Container:
    if artifact.is_symlink():
        raise ArtifactError("The artifact is a link.", _LOOK_AT_JOB)
    if artifact.is_dir():
        # Asked not to unpack it (`skip-decompress`), the step that fetches an artifact leaves the archive alone in the folder.
        with os.scandir(artifact) as entries:
            first = [entry.name for entry in itertools.islice(entries, 2)]
        alone = artifact / first[0] if len(first) == 1 else artifact
        return archive_of(alone) if alone.suffix == ".zip" and not alone.is_symlink() else folder_of(artifact)
    if not artifact.exists():
        raise ArtifactError("There is no artifact: the job that measures left none.", "Its log says why.")
    return archive_of(artifact) if artifact.suffix == ".zip" else Folder({RUN: artifact}, {RUN: 0})


def _record(box: Container, name: str, copy: Path, most: int, kind: type[AnyRecord]) -> AnyRecord:
    """Copy one file into the workspace and read it there. Raises ArtifactError."""
    save_bytes(copy, box.read(name, most))
    if copy.stat().st_size > QUICK:
        _refuse_bomb(copy, name, kind)
    try:
        record = load(copy, kind)
    except RecordError as error:
        raise ArtifactError(error.message.replace(str(copy), name), _LOOK_AT_JOB) from None
    _refuse_extremes(record, name)
    return record


def _refuse_extremes(record: Record, name: str) -> None:
    """Bound numbers, texts and blocks everywhere, which a schema cannot; samples it does. Raises ArtifactError."""
    texts = characters = blocks = 0
    waiting: list[object] = [record]
    while waiting:
        value = waiting.pop()
        if isinstance(value, int | float):
            if not -LARGEST_NUMBER < value < LARGEST_NUMBER:
                raise ArtifactError(f"{name} holds a number beyond 1e30, which no run of ours writes.", _LOOK_AT_JOB)
        elif isinstance(value, Block):
            blocks += 1
            waiting += (value.index, value.position)
        elif isinstance(value, str):
            texts += 1
            characters += len(value)
            if len(value) > LONGEST_TEXT:
                raise ArtifactError(f"{name} holds a text of {len(value)} characters, which no run of ours writes.", _LOOK_AT_JOB)
        elif isinstance(value, tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += (*value, *value.values())
        elif isinstance(value, Record):
            waiting += vars(value).values()
        elif isinstance(value, WorkerSamples):
            waiting += (getattr(value, field) for field in WorkerSamples.__slots__)
    if texts > MOST_TEXTS or characters > MOST_CHARACTERS or blocks > MOST_BLOCKS:
        raise ArtifactError(f"{name} holds more texts or blocks of samples than any run of ours.", _LOOK_AT_JOB)


def _refuse_bomb(path: Path, name: str, kind: type[Record]) -> None:
    """Read a large file once in a child with little memory and time. Raises ArtifactError."""
    # -P: the current folder, perhaps a checkout of a stranger, is not a place to import from. The four variables hold no secret.
    command = [sys.executable, "-P", "-m", reading_child.__name__, str(path), kind.__name__, str(MEMORY_BYTES), str(SECONDS)]
    environ = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")}
    ended = run(command, environ=environ, folder=Path.cwd(), time_limit_s=2 * SECONDS)
    if ended.status == reading_child.REFUSED:
        raise ArtifactError(str(json.loads(ended.output.splitlines()[-1])).replace(str(path), name), _LOOK_AT_JOB)
    if ended.status != 0:
        raise ArtifactError(f"{name} takes more memory or time to read than any run of ours.", _LOOK_AT_JOB)
