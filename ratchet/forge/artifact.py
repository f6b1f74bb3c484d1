"""The artifact of the job that ran untrusted code → a run that may be judged, or one sentence why not.

Whoever wrote the pull request may have written every byte of it. What is taken in are two files, the run and the index of its
profiles: by plain names, within bounds, through no link, against a strict schema, with numbers that a measurement can give.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ratchet.errors import ArtifactError, RecordError
from ratchet.forge import reading_child
from ratchet.forge.containers import Container, archive_of, folder_of, read_file
from ratchet.judge.consistency import contradictions, with_own_figures
from ratchet.records.base import Record
from ratchet.records.files import load, save_bytes
from ratchet.records.profile import CaseProfile
from ratchet.records.profiles import Profiles
from ratchet.records.run import RunRecord

RUN, PROFILES = "current.json", "nsight/profiles.json"
PLACES = ("", "results/")
"""Where the files of a run stand in an artifact."""
LARGEST_RUN = 64 * 2**20
LARGEST_PROFILES = 16 * 2**20
LARGEST_NUMBER = 1e30
"""No figure of a run comes near; larger ones only break sums."""
LONGEST_TEXT = 10_000
"""Characters of one text of a record."""
QUICK = 256 * 2**10
"""Bytes that are read at once: so few cannot hold faults enough to fill a memory."""
MEMORY_BYTES = 3 * 2**30
SECONDS = 60
"""For reading one file, in a child."""

_HINT = "Measure again; if it comes back, look at what the job uploaded."
AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Intake:
    """What was taken in. Its texts are still those of a stranger."""

    run: RunRecord
    """With figures computed again from its samples."""
    profiles: tuple[CaseProfile, ...] = ()
    files: tuple[str, ...] = ()
    """Names of the other files: relative, plain."""
    problems: tuple[str, ...] = ()
    """What was left out, and why: a sentence each."""


def take_in(artifact: Path, workspace: Path) -> Intake:
    """Take in a folder, a zip archive, or the run's file alone. ``workspace`` gets copies of the two files, and nothing else.

    Raises ArtifactError where the artifact is unsafe in any part, or its run is missing, damaged or contradicts itself. What
    only adds to the verdict is left out where it is not sound, and that is said.
    """
    box = _opened(artifact)
    base = next((place for place in PLACES if f"{place}{RUN}" in box.sizes), None)
    if base is None:
        raise ArtifactError(f"The artifact has no {RUN}: the job ended before it wrote one.", "Its log says why.")
    run = _record(box, f"{base}{RUN}", workspace / RUN, LARGEST_RUN, RunRecord)
    wrong = list(contradictions(run))
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ArtifactError(f"{RUN} contradicts itself: {wrong[0]}{more}", _HINT)
    index, problems = f"{base}{PROFILES}", list[str]()
    profiles: tuple[CaseProfile, ...] = ()
    if index in box.sizes:
        try:
            profiles = _record(box, index, workspace / PROFILES, LARGEST_PROFILES, Profiles).profiles
        except ArtifactError as error:
            problems.append(f"The profiles were left out: {error.message}")
    others = tuple(sorted(name for name in box.sizes if name not in (f"{base}{RUN}", index)))
    return Intake(with_own_figures(run), profiles, others, tuple(problems))


@dataclass(frozen=True)
class _Alone:
    """The run's file by itself."""

    path: Path

    @property
    def sizes(self) -> dict[str, int]:
        return {RUN: 0}

    def read(self, name: str, most: int) -> bytes:
        return read_file(self.path, name, most)


def _opened(artifact: Path) -> Container:
    if artifact.is_symlink():
        raise ArtifactError("The artifact is a link.", _HINT)
    if artifact.is_dir():
        return folder_of(artifact)
    if not artifact.exists():
        raise ArtifactError("There is no artifact: the job that measures left none.", "Its log says why.")
    return archive_of(artifact) if artifact.suffix == ".zip" else _Alone(artifact)


def _record(box: Container, name: str, copy: Path, most: int, kind: type[AnyRecord]) -> AnyRecord:
    """One file, copied into the workspace and read there. Raises ArtifactError."""
    content = box.read(name, most)
    save_bytes(copy, content)
    if len(content) > QUICK:
        _refuse_bomb(copy, name, "run" if kind is RunRecord else "profiles")
    try:
        record = load(copy, kind)
    except RecordError as error:
        raise ArtifactError(error.message.replace(str(copy), name), _HINT) from None
    what = next(_beyond(json.loads(content)), None)
    if what:
        raise ArtifactError(f"{name} holds {what}, which no run of ours writes.", _HINT)
    return record


def _beyond(document: Any) -> Iterator[str]:
    """Numbers and texts that a schema cannot bound everywhere."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            if len(value) > LONGEST_TEXT:
                yield f"a text of {len(value)} characters"
        elif isinstance(value, int | float) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
            yield "a number beyond 1e30"


def _refuse_bomb(path: Path, name: str, kind: str) -> None:
    """Read a large file once in a child that may take only so much. Raises ArtifactError."""
    command = [sys.executable, "-P", "-m", reading_child.__name__, str(path), kind, str(MEMORY_BYTES), str(SECONDS)]
    environ = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")}
    try:
        done = subprocess.run(command, capture_output=True, env=environ, timeout=2 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        done = None
    if done is not None and done.returncode == reading_child.REFUSED:
        raise ArtifactError(str(json.loads(done.stdout)).replace(str(path), name), _HINT)
    if done is None or done.returncode:
        raise ArtifactError(f"{name} takes more memory or time to read than any run of ours.", _HINT)
