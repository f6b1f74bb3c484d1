"""Commands for the files of other harnesses: import, export. Loaded by `ratchet.cli` when one of them is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, harness_format, request_of
from ratchet.cli.output import print_result
from ratchet.commands.harness import exported, import_results
from ratchet.errors import Exit
from ratchet.records.files import load, save, save_text
from ratchet.records.run import RunRecord

out = click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write.")


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@harness_format
@out
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


@click.command("export")
@click.argument("recorded", type=click.Path(path_type=Path), metavar="RUN.json")
@out
@common
def export_command(recorded: Path, out: Path, **options: Any) -> int:
    """Write the head of a recorded run as JSON for PyTorch's benchmark database: one record a case, one value a process."""
    run = load(recorded, RunRecord)
    save_text(out, exported(run))
    print_result({"path": str(out)}, [f"Exported: {out}"], as_json=options["as_json"])
    return int(Exit.PASS)
