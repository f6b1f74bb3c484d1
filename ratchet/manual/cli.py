"""Commands of the manual: doctor settings and doctor explain. Loaded by `ratchet.core.cli` when one of them is called."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from ratchet import tools
from ratchet.core.cli.options import common, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.errors import Exit, UsageError
from ratchet.core.request import root_of
from ratchet.core.untrusted import clean
from ratchet.manual.guide import contents, explain
from ratchet.manual.settings import describe_settings


@click.command("settings")
@click.option(
    "--schema", metavar="FILE", help="Print the JSON Schema of a file instead: run, baseline, report, …; `list` names them."
)
@common
def settings_command(schema: str | None, **options: Any) -> int:
    """Show every setting: its value, where that comes from, and what it means."""
    if schema:
        return _print_schema(schema)
    request = request_of((), options)
    shown = describe_settings(root_of(request.folder), os.environ, request.options, request.folder)
    fields = [{"name": each.name, "value": each.value, "source": each.source, "meaning": each.meaning} for each in shown]
    width = max(len(each.name) for each in shown)
    lines = [
        line
        for each in shown
        for line in (f"{each.name:<{width}} = {json.dumps(each.value)}  ({each.source})", f"{'':<{width}}   {each.meaning}")
    ]
    print_result(fields, lines, as_json=options["as_json"])
    return int(Exit.PASS)


def _print_schema(name: str) -> int:
    schemas = tools.part("schemas")
    if name != "list" and name not in schemas.SCHEMAS:
        raise UsageError(f"There is no schema of {clean(name)}.", f"There is one of {', '.join(schemas.SCHEMAS)}.")
    print_result(None if name == "list" else schemas.schema(name), schemas.SCHEMAS, as_json=name != "list")
    return int(Exit.PASS)


@click.command("explain")
@click.argument("word", required=False, metavar="[WORD|PAGE|SECTION]")
def explain_command(word: str | None) -> int:
    """Print what the documentation says about a word, an outcome or an exit code; a page or a section as a whole."""
    from rich.console import Console
    from rich.markdown import Markdown

    text = explain(word) if word else contents()
    console = Console(soft_wrap=False)
    console.print(Markdown(text, hyperlinks=False), width=min(console.width, 100))
    return int(Exit.PASS)
