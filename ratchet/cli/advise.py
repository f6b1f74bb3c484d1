"""The command `ratchet advise`: antipatterns in a script, a case or a saved trace. Loaded by `ratchet.cli` when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import device, duration, request_of, waiting
from ratchet.cli.output import print_result, progressing
from ratchet.commands.advise import STARTING_S, AdviceRequest, advise
from ratchet.errors import Exit
from ratchet.report.lines import advice_lines


class _ScriptCommand(click.Command):
    """A command whose words behind a script belong to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        script = next((number for number, word in enumerate(args) if word.endswith(".py")), len(args))
        return super().parse_args(ctx, [*args[: script + 1], "--", *args[script + 1 :]])


@click.command(
    "advise",
    cls=_ScriptCommand,
)
@click.argument("subject", metavar="SCRIPT|CASE|TRACE.json")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--trace-for", type=duration, default="10s", show_default=True, help="Trace a script no longer than this.")
@click.option(
    "--time-limit", type=duration, default=f"{STARTING_S:.0f}s", show_default=True, help="For imports, and for writing the trace."
)
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Keep the trace (Perfetto and Chrome show it).")
@click.option(
    "--repo", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="The repository of a case."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")
@device
@waiting
def advise_command(subject: str, arguments: tuple[str, ...], **options: Any) -> int:
    """Name the antipatterns in a script, a case or a saved trace of torch.profiler: where, what each costs, what to do.

    A script runs under torch.profiler, with the ARGUMENTS that follow it. Exits with 0 whatever is found.
    """
    wanted = AdviceRequest(subject, arguments, options["trace_for"], options["time_limit"], options["save"])
    with progressing(options) as progress:
        advice = advise(wanted, request_of((subject,), options), progress, os.environ)
    print_result(advice, advice_lines(advice), as_json=options["as_json"])
    return int(Exit.PASS)
