"""Commands that look at the checkout, at the machine and at the last report: list, settings, doctor, badge, open.

Loaded by `ratchet.cli` when one of them is called. They print to stdout, and `badge` writes a file; what they look at is in
`ratchet.commands.run` and `ratchet.measure.device.doctor`.
"""

from __future__ import annotations

import json
import os
import webbrowser
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, device, request_of
from ratchet.cli.output import print_result
from ratchet.commands.fleet import load_quarantine
from ratchet.commands.request import PAGE, REPORT, results_folder, root_of
from ratchet.commands.run import cases_of_checkout
from ratchet.config import explained
from ratchet.errors import Exit, UsageError
from ratchet.measure.device import doctor
from ratchet.records.files import load, save_text
from ratchet.records.verdict import ReportRecord
from ratchet.report.badge import LABEL, badge_json, badge_svg
from ratchet.untrusted import clean


@click.command("list")
@click.argument("cases", nargs=-1)
@device
@common
def list_command(cases: tuple[str, ...], **options: Any) -> int:
    """List the cases of this checkout, and those that this machine skips."""
    listed = cases_of_checkout(request_of(cases, options), os.environ)
    width = max((len(case.name) for case in listed), default=0)
    lines = []
    for case in listed:
        if case.failures:
            note = f"broken: {case.failures[0].message}"
        elif case.skipped:
            note = f"skipped: {case.skipped}"
        else:
            note = " ".join(f"{name}={value}" for name, value in case.config.parameters.items())
        lines.append(f"{clean(case.name):<{width}}  {clean(note)}".rstrip())
    lines = lines or ["There is no case: a benchmark is a function with the decorator @benchmark (docs/benchmarks.md)."]
    fields = [case.model_dump(mode="json", include={"name", "config", "skipped", "failures"}) for case in listed]
    print_result(fields, lines, as_json=options["as_json"])
    if any(case.failures for case in listed):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if listed else Exit.NOT_MEASURED)


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


@click.command("doctor")
@click.option("--strict", is_flag=True, help="Exit with 3 where nothing should be measured: an unfit, busy or quarantined GPU.")
@device
@common
def doctor_command(*, strict: bool, **options: Any) -> int:
    """Say what this machine can and cannot do, and what to do about it."""
    root = options["repo"].resolve()
    results = root / (options["results"] or "results")
    quarantined = {card.uuid: card.reason for card in load_quarantine(results).cards}
    checks = doctor.examine(root, options["gpu"], results=results, quarantined=quarantined)
    click.echo(doctor.to_json(checks) if options["as_json"] else doctor.render(checks), nl=False)
    unfit = [check for check in checks if check.unfit and (check.name == "torch" or options["device"] != "cpu")]
    return int(Exit.NOT_MEASURED if strict and unfit else Exit.PASS)


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
