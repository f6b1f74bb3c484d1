"""Printing for all commands: results as JSON or as lines, progress (on stderr), and the paths of written files."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from ratchet import tools
from ratchet.core.cli.options import request_of
from ratchet.core.records.files import save_text
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report.progress import Progress, choose_progress
from ratchet.core.report.terminal import plain_lines, print_report
from ratchet.core.request import settings_of


@contextlib.contextmanager
def progressing(options: dict[str, Any]) -> Iterator[Progress]:
    """Show progress as the options ask, and clear it at the end, also on errors; after Ctrl-C, what was at work stays."""
    progress = choose_progress(
        sys.stderr.isatty() and not options["verbose"], options["quiet"] or (options["as_json"] and not options["verbose"])
    )
    try:
        with progress.never_silent():
            yield progress
    except KeyboardInterrupt:
        progress.interrupted()
        raise
    finally:
        progress.finish()


def print_result(document: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a record or plain values as JSON, else the lines."""
    if isinstance(document, BaseModel) and as_json:
        click.echo(document.model_dump_json(indent=2))
    elif as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(line)


def show(report: ReportRecord, *, as_json: bool) -> None:
    """Print a report: as JSON, in colours on a terminal, else as plain lines."""
    if sys.stdout.isatty() and not as_json:
        from rich.console import Console  # a twentieth of a second, which a pipe does not need

        print_report(report, Console())
    else:
        print_result(report, plain_lines(report), as_json=as_json)


def print_paths(paths: Sequence[Path], *, quiet: bool) -> None:
    """Print where the report, the verdict, the samples and the profiles are."""
    labels = ("Report", "Page", "Verdict", "Samples", *(["Profile"] * len(paths)))
    if not quiet:
        print_result(None, (f"{label + ':':<9}{shown(path)}" for label, path in zip(labels, paths, strict=False)), as_json=False)


def write_exchange(
    report: ReportRecord, options: dict[str, Any], environ: Mapping[str, str], run: RunRecord | None = None
) -> None:
    """Write the files of ``--junit`` and ``--sarif``, and of a run that of ``--seed-format``. Raises OutputError."""
    junit, sarif, seed = (options.get(name) for name in ("junit", "sarif", "seed_format"))
    if not (junit or sarif or seed):
        return
    texts = tools.part("exchange")
    if junit:
        save_text(junit, texts.junit_text(report))
    if sarif:
        root, settings = settings_of(request_of((), options), environ)
        save_text(sarif, texts.sarif_text(report, texts.defined_at(root, settings.bench)))
    if seed and run:
        save_text(seed, texts.seed_text(run))


def shown(path: Path) -> str:
    """Return the path relative to the current folder if it lies within, else as it is."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
