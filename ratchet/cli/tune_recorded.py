"""``ratchet tune --record``: what an earlier search recorded is applied or exported, without a GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import request_of
from ratchet.cli.shown import verdict
from ratchet.errors import Exit


def recorded(paths: tuple[Path, ...], given: dict[str, Any]) -> int:
    """Raises click.UsageError where it is not said what to do, or one export would be of several records."""
    from ratchet import pipeline
    from ratchet.report.escape import log_line

    out: Path | None = given["export"]
    if not given["apply"] and out is None:
        raise click.UsageError("--record takes a record of an earlier search: say --apply or --export FILE.")
    if out is not None and len(paths) > 1:
        raise click.UsageError(f"--export takes one record at a time, not {len(paths)}.")
    lines = []
    if out is not None:
        lines.append(f"Written: {os.path.relpath(pipeline.export_tuning(paths[0], out))}")
    if given["apply"]:
        applied = pipeline.apply_recorded(paths, request_of((), given), os.environ)
        lines += [*map(log_line, applied.lines), f"Written: {os.path.relpath(applied.path)}"]
    with verdict():
        for line in lines:
            click.echo(line)
    return int(Exit.PASS)
