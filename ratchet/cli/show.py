"""Commands that look at the checkout and at the machine."""

from __future__ import annotations

import os
from typing import Any

import click

from ratchet.cli.options import common, device, request_of
from ratchet.errors import Exit


@click.command("list")
@click.argument("cases", nargs=-1)
@device
@common
def list_(cases: tuple[str, ...], **given: Any) -> int:
    """List the cases of this checkout, and those that this machine skips."""
    import json

    from ratchet.commands.run import cases_of_checkout
    from ratchet.untrusted import clean

    found = cases_of_checkout(request_of(cases, given), os.environ)
    if given["as_json"]:
        click.echo(
            json.dumps([case.model_dump(mode="json", include={"name", "config", "skipped", "failures"}) for case in found])
        )
    else:
        width = max((len(case.name) for case in found), default=0)
        for case in found:
            broken = f"broken: {case.failures[0].message}" if case.failures else ""
            note = broken or (
                f"skipped: {case.skipped}" if case.skipped else " ".join(f"{k}={v}" for k, v in case.config.parameters.items())
            )
            click.echo(f"{clean(case.name):<{width}}  {clean(note)}".rstrip())
    if any(case.failures for case in found):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if found else Exit.NOT_MEASURED)


@click.command()
@device
@common
def doctor(**given: Any) -> int:
    """Say what this machine can and cannot do, and what to do about it."""
    from ratchet.measure.device import doctor as doctor_

    root = given["repo"].resolve()
    checks = doctor_.examine(root, given["gpu"], results=root / (given["results"] or "results"))
    click.echo(doctor_.to_json(checks) if given["as_json"] else doctor_.render(checks), nl=False)
    return int(Exit.PASS)
