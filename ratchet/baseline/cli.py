"""``ratchet baseline …``: show, move and verify the best commit of every case.

Loaded by `ratchet.core.cli` when it is called. The work is done by `ratchet.baseline.local`; this file reads options, prints, and
writes the outputs and the summary of a workflow step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.baseline.local import accept_cases, record_baseline, rename_case, show_baseline, verify_baseline
from ratchet.common.baseline_text import (
    accepted_fields,
    accepted_lines,
    baseline_lines,
    history_lines,
    recorded_fields,
    recorded_lines,
    renamed_lines,
    verified_lines,
)
from ratchet.core.cli.options import common, request_of
from ratchet.core.cli.output import print_result, shown
from ratchet.core.errors import Exit

_by = click.option("--by", metavar="NAME", help="Who does this (default: GITHUB_ACTOR, else git's user.name and user.email).")


@click.command("show")
@click.argument("case", required=False)
@click.option("--history", is_flag=True, help="Show the chain of every case, or of CASE: each step, by how much, who and why.")
@common
def baseline_show(case: str | None, history: bool, **options: Any) -> int:
    """Show results/baseline.json."""
    if case and not history:
        raise click.UsageError("Name a case only together with --history.")
    path, stored = show_baseline(request_of((), options), os.environ)
    lines = history_lines(stored, shown(path), case) if history else baseline_lines(stored, shown(path))
    print_result(stored, lines, as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("record")
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]...", nargs=-1)
@common
def baseline_record(recorded: tuple[Path, ...], **options: Any) -> int:
    """Enter recorded runs into results/baseline.json.

    Without a name, that is the last run. New cases enter. A case that is there moves to a commit that two separate runs have
    proven faster than its baseline commit.
    """
    path, done = record_baseline(recorded, request_of((), options), os.environ)
    print_result(recorded_fields(done, shown(path)), recorded_lines(done, shown(path)), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("accept")
@click.argument("words", metavar="CASE... [RUN.json]", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why the baseline moves, for whoever reads the file later.")
@_by
@common
def baseline_accept(words: tuple[str, ...], reason: str, by: str | None, **options: Any) -> int:
    """Move the baseline of cases on purpose, faster or not.

    Their next baseline commit is the head of the recorded run; without a name, of the last one.
    """
    recorded = Path(words[-1]) if words[-1].endswith(".json") else None
    cases = words[:-1] if recorded else words
    if not cases:
        raise click.UsageError("Name the cases that move, as benchmark/config.")
    path, moved = accept_cases(cases, recorded, by, reason, request_of((), options), os.environ)
    print_result(accepted_fields(moved, shown(path)), accepted_lines(moved, shown(path)), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("rename")
@click.argument("old")
@click.argument("new")
@click.option("--reason", help="Why, for whoever reads the file later.")
@_by
@common
def baseline_rename(old: str, new: str, reason: str | None, by: str | None, **options: Any) -> int:
    """Continue a case under another name, on every machine."""
    path, done = rename_case(old, new, by, reason, request_of((), options), os.environ)
    fields = {"path": shown(path), "old": old, "new": new, "machines": [chain.machine for chain in done]}
    print_result(fields, renamed_lines(done, old, new, shown(path)), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("verify")
@common
def baseline_verify(**options: Any) -> int:
    """Check the chain of every case.

    Digests, predecessors and figures must fit, and git must know the commits. Exits with 2 where something does not fit.
    """
    done = verify_baseline(request_of((), options), os.environ)
    fields = {"path": shown(done.path), "problems": done.problems, "warnings": done.warnings}
    lines = verified_lines(done.baseline, shown(done.path), done.problems, done.warnings)
    print_result(fields, lines, as_json=options["as_json"])
    return int(Exit.USAGE if done.problems else Exit.PASS)
