"""Commands: read options, call one pipeline function, print, map errors to exit codes.

Only click is imported here, so that ``ratchet --help`` stays fast: each command imports the rest when it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ratchet import __version__
from ratchet.errors import Exit, RatchetError

if TYPE_CHECKING:
    from ratchet.pipeline import Done, Request
    from ratchet.records.verdict import ReportRecord

Command = Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one sentence on stderr."""
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(cli.main(args=words, prog_name="ratchet", standalone_mode=False, obj=("ratchet", *words)) or 0)
    except BrokenPipeError:
        _print_nowhere()
        return int(Exit.PASS)
    except click.ClickException as error:
        error.show()
        return int(Exit.USAGE)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  no error may exit with 1, which reads as a regression
        sentence, code = _explained(error)
        click.echo(f"ratchet: {sentence}", err=True)
        return int(code)


def _explained(error: BaseException) -> tuple[str, Exit]:
    """What to tell the user about an error, and the exit code. A defect of our own is shown whole."""
    if isinstance(error, RatchetError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted; the trees and workers of this run are gone, earlier results are as they were.", Exit.INTERRUPTED
    if isinstance(error, OSError):  # a full disk, no more processes
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", Exit.NOT_MEASURED
    traceback.print_exception(error)
    return "this is a defect in ratchet itself; please report it with the lines above.", Exit.NOT_MEASURED


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a cancelled CI job, a closed terminal: all clean up."""


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleaning up
    raise KeyboardInterrupt


@contextlib.contextmanager
def _verdict() -> Iterator[None]:
    """Around the printing of one: `ratchet check … | head` is no error, and leaves files and exit code as they are."""
    try:
        yield
    except BrokenPipeError:
        _print_nowhere()


def _print_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


common = _options(
    click.option("--repo", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="The repository."),
    click.option("--results", type=click.Path(path_type=Path), help="Folder for reports and the baseline (default: results)."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text."),
)
device = _options(
    click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), help="Default: a GPU if there is one."),
    click.option("--gpu", type=int, help="Number of the GPU, as in nvidia-smi."),
)
measuring = _options(
    device,
    click.option("--pairs", type=int, help="Pairs of fresh processes (default: 8)."),
    click.option("--blocks", type=int, help="Turns that each side takes in a pair (default: 10)."),
    click.option("--clock", type=click.Choice(["auto", "event", "graph"]), help="GPU clock (default: as each workload asks)."),
    click.option("--cache", type=click.Choice(["cold", "warm"]), help="State of the L2 cache at each sample (default: cold)."),
    click.option("--case-timeout", help="Longest that one step of a case may take (default: 120s)."),
    click.option("--seed", type=int, help="Seed of the random inputs."),
    click.option("--wait", default="0s", help="How long to wait for a device that another check holds (default: not at all)."),
    click.option("--quiet", is_flag=True, help="No progress."),
)
judging = _options(
    click.option("--gate", "regression_threshold", help="Fail above this slowdown (default: 3%)."),
    click.option("--improvement", "improvement_threshold", help="Call it an improvement from here on (default: 5%)."),
    click.option("--on-inconclusive", type=click.Choice(["pass", "fail"]), help="What undecided cases mean (default: pass)."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ratchet")
def cli() -> None:
    """A performance gate for GPU kernels.

    Exit codes: 0 pass, 1 regression or wrong result, 2 wrong usage, 3 could not measure, 130 interrupted.
    """


@cli.command()
@click.argument("cases", nargs=-1)
@click.option("--base", help="Commit to compare with (default: the one before HEAD; HEAD if there are uncommitted changes).")
@click.option("--merge-base", metavar="REF", help="Compare with the commit where this branch left REF.")
@click.option("--no-build-cache", is_flag=True, help="Build both trees anew.")
@measuring
@judging
@common
def check(cases: tuple[str, ...], **given: Any) -> int:
    """Compare this checkout with an earlier commit, side by side, and fail on a regression.

    CASES are cases, benchmarks, configs or globs of these (see `ratchet list`); all by default.
    """
    from ratchet import pipeline

    if given["base"] and given["merge_base"]:
        raise click.UsageError("--base and --merge-base exclude each other.")
    return _measured(pipeline.check, cases, given)


@cli.command()
@click.argument("cases", nargs=-1)
@measuring
@common
def run(cases: tuple[str, ...], **given: Any) -> int:
    """Time this checkout alone, in place, and write results/current.json."""
    from ratchet import pipeline

    return _measured(pipeline.run, cases, given)


@cli.command()
@click.argument("reference", type=click.Path(path_type=Path), metavar="A.json")
@click.argument("head", type=click.Path(path_type=Path), metavar="B.json")
@judging
@common
def compare(reference: Path, head: Path, **given: Any) -> int:
    """Compare two recorded runs of one machine: is B slower than A?"""
    from ratchet import pipeline

    report = pipeline.compare(reference, head, _request((), given), os.environ)
    with _verdict():
        _show(report, as_json=given["as_json"])
    return report.exit_code


@cli.command()
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@judging
@common
def report(recorded: Path | None, **given: Any) -> int:
    """Judge a recorded run again and write its report (default: results/current.json)."""
    from ratchet import pipeline

    done = pipeline.judge_again(recorded, _request((), given), os.environ)
    with _verdict():
        _show(done.report, as_json=given["as_json"])
    paths = pipeline.write_report(done)
    with _verdict():
        _print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code


@cli.command("list")
@click.argument("cases", nargs=-1)
@device
@common
def list_(cases: tuple[str, ...], **given: Any) -> int:
    """List the cases of this checkout, and those that this machine skips."""
    import json

    from ratchet import pipeline
    from ratchet.measure.text import clean

    found = pipeline.cases(_request(cases, given), os.environ)
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
            click.echo(clean(f"{case.name:<{width}}  {note}"))
    if any(case.failures for case in found):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if found else Exit.NOT_MEASURED)


@cli.group()
def baseline() -> None:
    """The best commit of every case so far."""


@baseline.command("show")
@common
def baseline_show(**given: Any) -> int:
    """Show results/baseline.json."""
    from ratchet import pipeline
    from ratchet.report.baseline import baseline_lines

    path, stored = pipeline.show_baseline(_request((), given), os.environ)
    if given["as_json"]:
        click.echo(stored.model_dump_json(indent=2))
    else:
        for line in baseline_lines(stored, str(path)):
            click.echo(line)
    return int(Exit.PASS)


@baseline.command("record")
@click.argument("recorded", type=click.Path(path_type=Path), metavar="[RUN.json]", required=False)
@common
def baseline_record(recorded: Path | None, **given: Any) -> int:
    """Enter a recorded run into results/baseline.json: new cases, and those it proved faster than the baseline commit."""
    import json

    from ratchet import pipeline

    path, moved = pipeline.record_baseline(recorded, _request((), given), os.environ)
    if given["as_json"]:
        click.echo(json.dumps({"path": str(path), "moved": moved}))
    elif moved:
        click.echo(f"{path}: {len(moved)} cases entered: {', '.join(moved)}")
    else:
        click.echo(f"{path}: nothing to enter; every case is there, and none was proved faster than its baseline commit.")
    return int(Exit.PASS)


@cli.command()
@device
@common
def doctor(**given: Any) -> int:
    """Say what this machine can and cannot do, and what to do about it."""
    from ratchet.measure import doctor as doctor_

    root = given["repo"].resolve()
    checks = doctor_.examine(root, given["gpu"], results=root / (given["results"] or "results"))
    click.echo(doctor_.to_json(checks) if given["as_json"] else doctor_.render(checks), nl=False)
    return int(Exit.PASS)


def _measured(command: Callable[..., Done], cases: tuple[str, ...], given: dict[str, Any]) -> int:
    from ratchet import pipeline
    from ratchet.errors import OutputError
    from ratchet.report.progress import choose_progress

    progress = choose_progress(sys.stderr.isatty(), given["quiet"] or given["as_json"])
    try:
        done = command(_request(cases, given), progress, os.environ)
    finally:
        progress.finish()
    with _verdict():
        _show(done.report, as_json=given["as_json"])
    try:
        paths = pipeline.write(done, os.environ)
    except OutputError as error:
        click.echo(f"ratchet: {error}", err=True)
        return int(max(Exit.REGRESSION, done.report.exit_code) if done.report.exit_code else Exit.NOT_MEASURED)
    with _verdict():
        _print_paths(paths, quiet=given["as_json"])
    return done.report.exit_code


def _request(cases: tuple[str, ...], given: dict[str, Any]) -> Request:
    from ratchet.config import parse_duration
    from ratchet.pipeline import Request

    settings = (
        "device",
        "pairs",
        "blocks",
        "clock",
        "cache",
        "case_timeout",
        "seed",
        "regression_threshold",
        "improvement_threshold",
    )
    options = {key: given.get(key) for key in (*settings, "on_inconclusive")}
    options["build_cache"] = False if given.get("no_build_cache") else None
    options["results"] = str(given["results"].absolute()) if given.get("results") else None
    try:
        wait_s = parse_duration(given.get("wait") or 0)
    except ValueError as error:
        raise click.UsageError(f"--wait: {error}") from None
    return Request(
        folder=given["repo"].resolve(),
        command=click.get_current_context().obj,
        patterns=cases,
        base=given.get("base"),
        merge_base=given.get("merge_base"),
        gpu=given.get("gpu"),
        wait_s=wait_s,
        options=options,
    )


def _show(report: ReportRecord, *, as_json: bool) -> None:
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    from ratchet.report.terminal import plain_lines, print_report

    if sys.stdout.isatty():
        from rich.console import Console

        print_report(report, Console())
    else:
        for line in plain_lines(report):
            click.echo(line)


def _print_paths(paths: Sequence[Path], *, quiet: bool) -> None:
    if quiet:
        return
    labels = ("Report", "Verdict", "Samples")
    for label, path in zip(labels, paths, strict=False):
        shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
        click.echo(f"{label + ':':<9}{shown}")


if __name__ == "__main__":
    sys.exit(main())
