"""Find saved results of other harnesses in a repository, and the command that writes such a file again; `ratchet init` offers it.

Reads files, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.core.errors import RecordError
from ratchet.core.untrusted import clean
from ratchet.harness.entries import part, text_of
from ratchet.harness.results import document_of, read_results

COMMAND = "COMMAND"
"""Stands in a command for what a file does not tell."""
_STORAGES = (".benchmarks", ".asv/results", ".codspeed")
"""Where harnesses keep results that git often ignores."""
_MOST_FILES, _MOST_BYTES = 500, 4 << 20


@dataclass(frozen=True)
class SavedResults:
    """Files of one format, and how to get another one."""

    format: str
    files: tuple[str, ...]
    command: tuple[str, ...]


def find_saved(root: Path, files: Sequence[str]) -> list[SavedResults]:
    """Return the saved results among ``files``, whose paths are relative to ``root``, and in the folders of harnesses."""
    found: dict[str, list[str]] = {}
    commands: dict[str, tuple[str, ...]] = {}
    for file in _candidates(root, files):
        try:
            results = read_results(root / file)
            document = document_of(root / file)
        except (RecordError, OSError):
            continue
        found.setdefault(results.format, []).append(file)
        commands[results.format] = tuple(_command(results.format, document, root))  # of the last one, since storages count up
    return [SavedResults(format_, tuple(names), commands[format_]) for format_, names in found.items()]


def _candidates(root: Path, files: Sequence[str]) -> Iterator[str]:
    kept = [str(path.relative_to(root)) for storage in _STORAGES for path in sorted((root / storage).rglob("*.json"))]
    tables = [file for file in dict.fromkeys((*files, *kept)) if file.endswith((".json", ".csv"))]
    for file in tables[:_MOST_FILES]:
        place = root / file
        if place.is_file() and not place.is_symlink() and place.stat().st_size <= _MOST_BYTES:
            yield file


def _command(format_: str, document: Any, root: Path) -> Iterator[str]:
    if format_ == "google-benchmark":
        yield from _program(text_of(document["context"], "executable"), root)
        yield from ("--benchmark_out={out}", "--benchmark_out_format=json", "--benchmark_repetitions=5")
    elif format_ == "nvbench":
        words = part(part(document, "meta"), "argv")
        yield from _program(words[0] if isinstance(words, list) and words else None, root)
        yield from ("--jsonbin", "{out}")
    elif format_ == "pytest-benchmark":
        places = _places([text_of(one, "fullname") for one in document["benchmarks"]])
        yield from ("python", "-m", "pytest", *places, "--benchmark-only", "--benchmark-json={out}")
    elif format_ == "codspeed":
        places = _places([text_of(one, "uri") for one in document["benchmarks"]])
        yield from ("env", "CODSPEED_PROFILE_FOLDER={dir}", "python", "-m", "pytest", *places)
        yield from ("--codspeed", "--codspeed-mode", "walltime")
    elif format_ == "asv":
        yield from ("python", "-m", "ratchet.harness.run_asv", "{dir}")
    elif format_ == "criterion":
        yield from ("sh", "-c", "cargo criterion --message-format=json > {out}")
    elif format_ == "hyperfine":
        yield from ("hyperfine", "--export-json", "{out}")
        yield from dict.fromkeys(text_of(one, "command") or COMMAND for one in document["results"])
    else:
        yield from ("sh", "-c", f"{COMMAND} > {{out}}")


def _program(name: object, root: Path) -> tuple[str, ...]:
    """Return the words that start a program, which stands as it was called; one elsewhere is unknown here."""
    path = Path(clean(name, 200)) if isinstance(name, str) and name else Path("/")
    if path.is_absolute() and not path.is_relative_to(root):
        return (COMMAND,)
    inside = os.path.normpath(path.relative_to(root) if path.is_absolute() else path)
    return ("python", inside) if inside.endswith(".py") else (f"./{inside}",)


def _places(tests: Sequence[str | None]) -> tuple[str, ...]:
    """Return the files of tests, up to four, else the folder that holds all of them."""
    files = sorted({test.partition("::")[0] for test in tests if test})
    if len(files) > 4:
        return (os.path.commonpath([str(Path(file).parent) for file in files]) or ".",)
    return tuple(files) or (COMMAND,)
