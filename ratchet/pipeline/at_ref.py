"""Settings and baseline of a commit that is not checked out: as bytes from git or from the API."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ratchet.config import Settings, settings_from
from ratchet.errors import RecordError, UsageError
from ratchet.judge.chain import problems
from ratchet.pipeline.request import BASELINE
from ratchet.records.baseline import Baseline
from ratchet.records.files import load, save_bytes

if TYPE_CHECKING:  # the package it needs is there in trusted jobs only
    from ratchet.forge.github import GitHub


@dataclass(frozen=True)
class Rules:
    """What a pull request is held to, and cannot change."""

    settings: Settings
    baseline: Baseline
    baseline_path: str
    """Within the repository."""


def rules_at(github: GitHub, ref: str, environ: Mapping[str, str], options: Mapping[str, Any]) -> Rules:
    """Settings and baseline of a branch, through the API; in the mode ``branch`` that branch has the baseline, once it is there.

    Raises UsageError and RecordError for files that cannot be read, ForgeError where GitHub does not answer.
    """
    text = _decoded(github.file_at("pyproject.toml", ref) or b"", f"pyproject.toml of {ref}")
    settings = settings_from(text, f"pyproject.toml of {ref}", environ, options)
    path = str(PurePosixPath(settings.results) / BASELINE)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise UsageError(f"The folder results of {ref} lies outside the repository.", "Set results in [tool.ratchet].")
    side = settings.baseline_branch
    place = side if settings.baseline_mode == "branch" and github.branch_exists(side) else ref
    content = github.file_at(path, place)
    return Rules(settings, Baseline() if content is None else baseline_from(content, f"{path} of {place}"), path)


def baseline_from(content: bytes, name: str) -> Baseline:
    """A baseline that came as bytes. Raises RecordError, which calls it ``name``."""
    with tempfile.TemporaryDirectory(prefix="ratchet-baseline-") as folder:
        path = Path(folder, BASELINE)
        save_bytes(path, content)
        try:
            return load(path, Baseline)
        except RecordError as error:
            raise RecordError(error.message.replace(str(path), name), error.hint) from None


def intact_baseline(content: bytes | None, name: str) -> Baseline:
    """The same, an empty one for no file. Raises RecordError also where its chains do not fit together."""
    stored = Baseline() if content is None else baseline_from(content, name)
    wrong = problems(stored)
    if wrong:
        raise RecordError(f"{name} does not verify, and was left as it is: {wrong[0]}", "See `ratchet baseline verify`.")
    return stored


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not valid TOML: {error}.", "Fix the file and try again.") from None
