"""Commands that look at the checkout and at the machine: list and doctor.

Loaded by `ratchet.core.cli` when one of them is called. They print to stdout.
"""

from __future__ import annotations

import os
from typing import Any

import click

from ratchet.core.cli.options import common, device, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.device import doctor
from ratchet.core.errors import Exit
from ratchet.core.run import cases_of_checkout
from ratchet.core.untrusted import clean


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


@click.command("doctor")
@click.option("--strict", is_flag=True, help="Exit with 3 where nothing should be measured: an unfit or busy GPU.")
@device
@common
def doctor_command(*, strict: bool, **options: Any) -> int:
    """Say what this machine can and cannot do, and what to do about it."""
    root = options["repo"].resolve()
    checks = doctor.examine(root, options["gpu"], results=root / (options["results"] or "results"))
    click.echo(doctor.to_json(checks) if options["as_json"] else doctor.render(checks), nl=False)
    unfit = [check for check in checks if check.unfit and (check.name == "torch" or options["device"] != "cpu")]
    return int(Exit.NOT_MEASURED if strict and unfit else Exit.PASS)
