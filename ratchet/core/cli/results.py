"""Commands that show what is written down: settings, and the last report (open, badge).

Loaded by `ratchet.core.cli` when one of them is called; loads nothing that measures. They print to stdout; `badge` writes
a file.
"""

from __future__ import annotations

import json
import os
import webbrowser
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import common, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.config import explained
from ratchet.core.errors import Exit, UsageError
from ratchet.core.records.files import load, save_text
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.report.badge import LABEL, badge_json, badge_svg
from ratchet.core.request import PAGE, REPORT, results_folder, root_of
from ratchet.core.untrusted import clean


@click.command("settings")
@common
def settings_command(**options: Any) -> int:
    """Show every setting: its value, where that comes from, and what it means."""
    request = request_of((), options)
    shown = explained(root_of(request.folder), os.environ, request.options, request.folder)
    fields = [{"name": each.name, "value": each.value, "source": each.source, "meaning": each.meaning} for each in shown]
    width = max(len(each.name) for each in shown)
    lines = [
        line
        for each in shown
        for line in (f"{each.name:<{width}} = {json.dumps(each.value)}  ({each.source})", f"{'':<{width}}   {each.meaning}")
    ]
    print_result(fields, lines, as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("badge")
@click.argument("report", type=click.Path(path_type=Path), metavar="[REPORT.json]", required=False)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file: NAME.svg, or NAME.json for shields.io (default: badge.svg)."
)
@click.option("--label", default=LABEL, show_default=True, help="The words on its left.")
@common
def badge_command(report: Path | None, out: Path | None, label: str, **options: Any) -> int:
    """Write the verdict of a check as a badge (default: of results/report.json, into that folder)."""
    results = results_folder(request_of((), options), os.environ)
    place = out or results / "badge.svg"
    if place.suffix not in (".svg", ".json"):
        raise UsageError(f"{clean(place)} ends neither in .svg nor in .json.", "Choose one of them.")
    verdict = load(report or results / REPORT, ReportRecord)
    save_text(place, badge_svg(verdict, label) if place.suffix == ".svg" else badge_json(verdict, label))
    print_result({"path": str(place)}, [f"Badge: {clean(place)}"], as_json=options["as_json"])
    return int(Exit.PASS)


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
