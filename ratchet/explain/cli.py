"""Commands that explain times: profile (why is it as fast as it is?), roofline (how fast could it be?), advise (what is wrong?).

Loaded by `ratchet.core.cli` when one of them is called. The work is done by `ratchet.core`; this file reads options and prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import OutFile, as_json, common, device, duration, reference, repository, request_of, waiting
from ratchet.core.cli.output import print_result, progressing, shown
from ratchet.core.errors import Exit
from ratchet.explain.advice_report import advice_lines
from ratchet.explain.advise_command import STARTING_S, AdviceRequest, advise
from ratchet.explain.cases import profile, read_profiles
from ratchet.explain.report import profile_lines, read_lines
from ratchet.explain.roofline_command import draw_roofline
from ratchet.explain.roofline_figure import roofline_lines


@click.command("profile")
@click.argument("cases", nargs=-1)
@reference("none")
@click.option(
    "--compare", is_flag=True, help="Compare with the commit before HEAD, or with HEAD if there are uncommitted changes."
)
@click.option(
    "--set",
    "set_name",
    type=click.Choice(["full", "detailed", "basic", "speed-of-light"]),
    default="full",
    help="How many counters ncu collects.",
)
@click.option(
    "--read", is_flag=True, help="Read one report file instead, or compare two: `--read REFERENCE.ncu-rep HEAD.ncu-rep`."
)
@click.option(
    "--nsys",
    is_flag=True,
    help="Record one call with Nsight Systems instead: pageable or pinned copies, gaps, overlap. With --read: its files.",
)
@device
@waiting
@common
def profile_command(cases: tuple[str, ...], set_name: Any, read: bool, compare: bool, nsys: bool, **options: Any) -> int:
    """Profile CASES of this checkout, and of an earlier commit beside it, without timing them.

    Counters come from Nsight Compute if it is installed and permitted; otherwise torch.profiler gives times. Reports, metrics
    and figures go to results/nsight/. With --read, CASES are report files of any kernel and GPU; this needs no GPU.
    """
    bases = (options["base"], options["merge_base"], options["against_baseline"], compare)
    if sum(map(bool, bases)) > 1:
        raise click.UsageError("--base, --merge-base, --against-baseline and --compare exclude each other.")
    if not cases:
        raise click.UsageError("Name report files to read." if read else "Name cases to profile (see `ratchet doctor cases`).")
    if (read or nsys) and any(bases):
        raise click.UsageError(f"{'--nsys' if nsys else '--read'} looks at one state of the code, so it takes no commit.")
    if nsys:
        return _timelines(cases, read=read, options=options)
    if read:
        files = read_profiles([Path(case) for case in cases], os.environ)
        fields = files.model_dump(mode="json")
        print_result(fields, read_lines(files), as_json=options["as_json"])
        return int(Exit.PASS)
    with progressing(options) as progress:
        profiles, results = profile(request_of(cases, options), set_name, progress, os.environ, compare=any(bases))
    lines = (line for case in profiles for line in profile_lines(case, shown(results)))
    print_result([case.model_dump(mode="json") for case in profiles], lines, as_json=options["as_json"])
    return int(Exit.PASS if all(case.head for case in profiles) else Exit.NOT_MEASURED)


def _timelines(cases: tuple[str, ...], *, read: bool, options: dict[str, Any]) -> int:
    from ratchet.explain.nsys import nsys_lines, profile_nsys, read_nsys

    if read:
        found = [read_nsys(Path(case), os.environ) for case in cases]
    else:
        with progressing(options) as progress:
            found = profile_nsys(request_of(cases, options), progress, os.environ)
    lines = (line for one in found for line in nsys_lines(one))
    print_result([one.model_dump(mode="json") for one in found], lines, as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("roofline")
@click.argument("words", nargs=-1, metavar="[CASE…] [RUN.json]")
@click.option(
    "--profiles", type=click.Path(path_type=Path), help="Counters (default: results/nsight/profiles.json, if it is there)."
)
@click.option("--out", cls=OutFile, type=click.Path(file_okay=False, path_type=Path), help="Folder (default: results/roofline).")
@waiting
@common
def roofline_command(words: tuple[str, ...], profiles: Path | None, out: Path | None, **options: Any) -> int:
    """Draw how near each case comes to what the machine can do (default: the last run, else the baseline).

    A word that ends with .json is a recorded run or a baseline; the others are cases, benchmarks, configs or globs. On the
    machine of the run, roofs that are not known are measured.
    """
    files = [Path(word) for word in words if word.endswith(".json")]
    if len(files) > 1:
        raise click.UsageError(f"Name one recorded run, not {len(files)}.")
    cases = tuple(word for word in words if not word.endswith(".json"))
    with progressing(options) as progress:
        drawn = draw_roofline(files[0] if files else None, profiles, out, request_of(cases, options), progress, os.environ)
    paths = (f"{'Picture:' if path.suffix != '.json' else 'Figures:':<9}{shown(path)}" for path in drawn.files)
    print_result(drawn.roofline, [*roofline_lines(drawn.roofline), *paths], as_json=options["as_json"])
    if drawn.step_down:
        click.echo(drawn.step_down, err=True)
    return int(Exit.PASS)


class _ScriptCommand(click.Command):
    """A command whose words behind a script belong to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        script = next((number for number, word in enumerate(args) if word.endswith(".py")), len(args))
        return super().parse_args(ctx, [*args[: script + 1], "--", *args[script + 1 :]])


@click.command("advise", cls=_ScriptCommand)
@click.argument("subject", metavar="SCRIPT|CASE|TRACE.json")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--trace-for", type=duration, default="10s", show_default=True, help="Trace a script no longer than this.")
@click.option(
    "--time-limit", type=duration, default=f"{STARTING_S:.0f}s", show_default=True, help="For imports, and for writing the trace."
)
@click.option(
    "--save",
    cls=OutFile,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the trace (Perfetto and Chrome show it).",
)
@repository
@as_json
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
