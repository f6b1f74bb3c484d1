"""What commands print."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ratchet.records.verdict import ReportRecord
    from ratchet.report.progress import Progress


@contextlib.contextmanager
def verdict() -> Iterator[None]:
    """Around the printing of one: `ratchet check … | head` is no error, and leaves files and exit code as they are."""
    try:
        yield
    except BrokenPipeError:
        print_nowhere()


@contextlib.contextmanager
def progressing(given: dict[str, Any]) -> Iterator[Progress]:
    """What shows how far a command has come, as its options ask; taken away at the end, however that comes."""
    from ratchet.report.progress import choose_progress

    shown = choose_progress(sys.stderr.isatty(), given["quiet"] or given["as_json"])
    try:
        yield shown
    finally:
        shown.finish()


def print_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(report: ReportRecord, *, as_json: bool) -> None:
    """Print a report: as JSON, in colours on a terminal, else as plain lines."""
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    from ratchet.report.terminal import plain_lines, print_report

    if sys.stdout.isatty():
        from rich.console import Console

        print_report(report, Console())
    else:
        for line in plain_lines(report):
            click.echo(line)


def print_paths(paths: Sequence[Path], *, quiet: bool) -> None:
    if quiet:
        return
    labels = ("Report", "Verdict", "Samples", *(["Profile"] * len(paths)))
    for label, path in zip(labels, paths, strict=False):
        shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        click.echo(f"{label + ':':<9}{shown}")
