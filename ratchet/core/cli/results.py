"""Commands about what is written: the last report (check --open), recorded runs (compare).

Loads nothing that measures; what judges and renders loads where it is used, since the others do not need it.
"""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import common, exchange, harness_format, judging, machine, request_of
from ratchet.core.cli.output import print_paths, print_result, show, write_exchange
from ratchet.core.errors import Exit, UsageError
from ratchet.core.request import PAGE, results_folder
from ratchet.core.untrusted import clean


@click.command("open")
@common
def open_command(**options: Any) -> int:
    """Open the report of the last check in a browser.

    The page needs no network and no other file: attach it to a message as it is.
    """
    page = results_folder(request_of((), options), os.environ) / PAGE
    if not page.is_file():
        raise UsageError(f"There is no {clean(page)}.", "Run `ratchet check` first, or name the folder with --results.")
    if options["as_json"] or not webbrowser.open(page.resolve().as_uri()):
        print_result({"page": str(page)}, [f"Open it in a browser: {clean(page)}"], as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("compare")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[A.json B.json | RUN.json]")
@judging
@exchange
@harness_format
@machine
@common
def compare_command(files: tuple[Path, ...], **options: Any) -> int:
    """Compare two recorded runs of one machine, or two files of another harness: is B slower than A?

    Exits with 1 if it is, with 3 where no case can be compared or the two cannot decide it; --on-inconclusive pass lets undecided
    cases pass. One run is judged again and its report is written; without a name, that is results/current.json.
    """
    from ratchet.core.command_result import save_files
    from ratchet.core.recorded import compare, judge_again

    if len(files) > 2:
        raise click.UsageError(f"Name two files, not {len(files)}. --join makes one run of files of several processes.")
    format_, request = options.pop("format"), request_of((), options)
    if len(files) == 2:
        report = compare(files[0], files[1], format_, request, os.environ)
        show(report, as_json=options["as_json"])
        write_exchange(report, options, os.environ)
        return report.exit_code
    if format_:
        raise click.UsageError("--format takes two files of another harness: A and B.")
    done = judge_again(files[0] if files else None, request, os.environ)
    show(done.report, as_json=options["as_json"])
    print_paths(save_files(done, with_run=False), quiet=options["as_json"])
    write_exchange(done.report, options, os.environ)
    return done.report.exit_code
