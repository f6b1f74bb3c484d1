"""``ratchet profile``: why is it as fast as it is?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import common, device, reference, request_of
from ratchet.cli.output import progressing, verdict
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
        from ratchet.cli.profile import read as read_files

        return int(read_files([Path(case) for case in cases], as_json=given["as_json"]) or Exit.PASS)
    return _profiled(cases, set_name, given, compare=any(given_bases))


def _profiled(cases: tuple[str, ...], set_name: Any, given: dict[str, Any], *, compare: bool) -> int:
    import json

    from ratchet.commands.profile.by_hand import profile
    from ratchet.report.profile import profile_lines

    with progressing(given) as progress:
        done = profile(request_of(cases, given), set_name, progress, os.environ, compare=compare)
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


# ``ratchet profile --read``: report files of Nsight Compute, of any kernel and GPU, on any machine.


def read(paths: Sequence[Path], as_json: bool) -> int:
    """Print one report, or a reference and a head beside each other; as JSON with every metric."""
    import json
    import os

    from ratchet.commands.profile.by_hand import read_profiles
    from ratchet.report.profile import read_lines

    found = read_profiles(paths, os.environ)
    with verdict():
        if as_json:
            click.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, indent=2))
        else:
            for line in read_lines(found):
                click.echo(line)
    return int(Exit.PASS)


# `ratchet roofline`.


@click.command()
@click.argument("words", nargs=-1, metavar="[CASE…] [RUN.json]")
@click.option("--profiles", type=click.Path(path_type=Path), help="Counters (default: results/nsight/profiles.json, if there).")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder (default: results/roofline).")
@common
def roofline(words: tuple[str, ...], profiles: Path | None, out: Path | None, **given: Any) -> int:
    """Draw how near each case comes to what the machine can do (default: the last run, else the baseline).

    A word that ends with .json is a recorded run or a baseline; the others are cases, benchmarks, configs or globs.
    """
    from ratchet.commands.roofline import draw_roofline
    from ratchet.report.roofline import roofline_lines

    files = [Path(word) for word in words if word.endswith(".json")]
    if len(files) > 1:
        raise click.UsageError(f"one recorded run at a time, not {len(files)}.")
    cases = tuple(word for word in words if not word.endswith(".json"))
    drawn = draw_roofline(files[0] if files else None, profiles, out, request_of(cases, given), os.environ)
    with verdict():
        if given["as_json"]:
            click.echo(drawn.roofline.model_dump_json(indent=2))
        else:
            for line in roofline_lines(drawn.roofline):
                click.echo(line)
            for path in drawn.files:
                click.echo(f"{'Picture:' if path.suffix != '.json' else 'Figures:':<9}{_shown(path)}")
        if drawn.step_down:
            click.echo(drawn.step_down, err=True)
    return int(Exit.PASS)


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
