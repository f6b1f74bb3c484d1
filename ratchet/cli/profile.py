"""``ratchet profile``: why is it as fast as it is?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, device, reference, request_of
from ratchet.cli.shown import progressing, verdict
from ratchet.errors import Exit


@click.command()
@click.argument("cases", nargs=-1)
@reference("none")
@click.option("--compare", is_flag=True, help="Compare with the commit before HEAD; with uncommitted changes, HEAD.")
@click.option(
    "--set", "set_name", type=click.Choice(["full", "detailed", "basic"]), default="full", help="How many counters ncu takes."
)
@click.option(
    "--read", is_flag=True, help="Read one report file, or compare two, instead: `--read REFERENCE.ncu-rep HEAD.ncu-rep`."
)
@device
@click.option("--wait", default="0s", help="How long to wait for a device that another check holds (default: not at all).")
@click.option("--quiet", is_flag=True, help="No progress.")
@common
def profile(cases: tuple[str, ...], set_name: Any, read: bool, compare: bool, **given: Any) -> int:
    """Profile CASES of this checkout, and of an earlier commit beside it, without timing them.

    Counters come from Nsight Compute where it is there and permitted, else times from torch.profiler. Reports, metrics and
    pictures go to results/nsight/. With --read, CASES are report files of any kernel and GPU; this needs no GPU.
    """
    given_bases = (given["base"], given["merge_base"], given["against_baseline"], compare)
    if sum(map(bool, given_bases)) > 1:
        raise click.UsageError("--base, --merge-base, --against-baseline and --compare exclude each other.")
    if not cases:
        raise click.UsageError("Name report files to read." if read else "Name cases to profile (see `ratchet list`).")
    if read:
        if any(given_bases):
            raise click.UsageError("--read compares files, so it takes no commit.")
        from ratchet.cli.profile_read import read as read_files

        return int(read_files([Path(case) for case in cases], as_json=given["as_json"]) or Exit.PASS)
    return _profiled(cases, set_name, given, compare=any(given_bases))


def _profiled(cases: tuple[str, ...], set_name: Any, given: dict[str, Any], *, compare: bool) -> int:
    import json

    from ratchet import pipeline
    from ratchet.report.profile import profile_lines

    with progressing(given) as progress:
        done = pipeline.profile(request_of(cases, given), set_name, progress, os.environ, compare=compare)
    shown = os.path.relpath(done.results) if done.results.is_relative_to(Path.cwd()) else str(done.results)
    with verdict():
        if given["as_json"]:
            found = [each.model_dump(mode="json") for each in done.profiles]
            click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        else:
            for each in done.profiles:
                for line in profile_lines(each, shown):
                    click.echo(line)
    return int(Exit.PASS if all(each.head for each in done.profiles) else Exit.NOT_MEASURED)
