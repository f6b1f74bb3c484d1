"""The command import. Loaded by `ratchet.core.cli` when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import OutFile, common, harness_format, machine, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.errors import Exit
from ratchet.core.records.files import save
from ratchet.harness.import_results import import_results


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@harness_format
@machine
@click.option("--out", cls=OutFile, type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write.")
@common
def import_command(files: tuple[Path, ...], out: Path, **options: Any) -> int:
    """Make a recorded run of files that another harness wrote: each FILE holds the results of one process of the same code.

    `ratchet compare` judges two such runs, and says what their verdict lacks. A verdict takes three processes a side.
    """
    format_ = options.pop("format")
    run = import_results(files, format_, request_of((), options), os.environ)
    save(out, run)
    lines = [f"Imported {len(run.cases)} cases of {run.plan.clock} from {len(files)} processes: {out}", *run.warnings]
    fields = {"path": str(out), "cases": [case.name for case in run.cases], "warnings": run.warnings}
    print_result(fields, lines, as_json=options["as_json"])
    return int(Exit.PASS)
