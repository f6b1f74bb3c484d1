"""Commands that look at the checkout, at the machine and at the last report: list, settings, doctor, open.

Loaded by `ratchet.cli` when one of them is called. They print to stdout; what they look at is in `ratchet.commands.run` and
`ratchet.measure.device.doctor`.
"""

from __future__ import annotations

import json
import os
import webbrowser
from typing import Any

import click

from ratchet.cli.options import common, device, request_of
from ratchet.cli.output import print_result
from ratchet.commands.fleet import load_quarantine
from ratchet.commands.request import PAGE, root_of
from ratchet.commands.run import cases_of_checkout
from ratchet.config import explained, load_settings
from ratchet.errors import Exit, UsageError
from ratchet.measure.device import doctor
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


@click.command("open")
@common
def open_command(**options: Any) -> int:
    """Open the report of the last check in a browser.

    The page needs no network and no other file: attach it to a message as it is.
    """
    request = request_of((), options)
    root = root_of(request.folder)
    page = root / load_settings(root, os.environ, request.options, request.folder).results / PAGE
    if not page.is_file():
        raise UsageError(f"There is no {clean(page)}.", "Run `ratchet check` first, or name the folder with --results.")
    if options["as_json"] or not webbrowser.open(page.resolve().as_uri()):
        print_result({"page": str(page)}, [f"Open it in a browser: {clean(page)}"], as_json=options["as_json"])
    return int(Exit.PASS)
