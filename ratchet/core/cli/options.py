"""Options that several commands share, their types, and the `Request` that they make."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click

from ratchet.core.config import Format, Settings, parse_duration
from ratchet.core.errors import UsageError
from ratchet.core.records.run import SIDES, Shard, Side
from ratchet.core.request import DeviceChoice, Request
from ratchet.core.untrusted import clean

Command = Callable[..., Any]
T = TypeVar("T")


def request_of(cases: tuple[str, ...], options: dict[str, Any]) -> Request:
    """Return what a command asks of the pipeline; an option with the name of a setting gives that setting, a flag only if set."""
    gpu, gpus = options.get("gpu"), options.get("gpus")
    if gpu is not None and gpus not in (None, "all"):
        raise click.UsageError("--gpu and --gpus exclude each other.")
    settings = {name: value for name, value in options.items() if name in Settings.model_fields and value is not False}
    settings["build_cache"] = False if options.get("no_build_cache") else None
    settings["profile"] = "never" if options.get("no_profile") else None
    settings["results"] = str(options["results"].absolute()) if options.get("results") else None
    return Request(
        folder=options["repo"].resolve(),
        command=click.get_current_context().obj,
        patterns=cases,
        base=options.get("base"),
        merge_base=options.get("merge_base"),
        against_baseline=bool(options.get("against_baseline")),
        bench_from=options.get("bench_from"),
        devices=DeviceChoice(gpu, gpus, options.get("wait") or 0.0),
        shard=options.get("shard"),
        environments=_environments(options),
        options=settings,
    )


def _environments(options: dict[str, Any]) -> dict[Side, str]:
    wanted: dict[Side, str] = dict(zip(reversed(SIDES), options.get("requirements") or (), strict=False))
    for text in options.get("env") or ():
        side, _, what = text.partition("=")
        if side not in ("new", *SIDES) or not what:
            raise click.BadParameter(f"{text!r} is neither new=PATH nor reference=PATH.", param_hint="--env")
        wanted["reference" if side == "reference" else "head"] = what
    if wanted and options.get("against_baseline"):
        raise click.UsageError("A baseline holds for one environment: leave out --against-baseline.")
    return wanted


# Types of options. Click adds the option's name to the message of a BadParameter.


def parsed(parse: Callable[[str], T], name: str) -> Callable[[str], T]:
    """Return the type of an option whose value ``parse`` reads; its ValueError, a clause, becomes a BadParameter.

    ``name`` stands for the value on help pages, in capitals.
    """

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from None

    convert.__name__ = name  # which click shows
    return convert


duration = parsed(parse_duration, "duration")
"""Converts ``90s``, ``10m`` or ``1h`` to seconds."""


def gpu_list(text: str) -> tuple[int, ...] | Literal["all"]:
    """Convert ``all`` to itself and ``0,1`` to the numbers. Raises BadParameter."""
    if text == "all":
        return "all"
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers) or len(set(map(int, numbers))) < len(numbers):
        raise click.BadParameter(f"{text!r} is neither all nor numbers such as 0,1.")
    return tuple(map(int, numbers))


def shard(text: str) -> Shard:
    """Convert ``1/4`` to the first of four shards. Raises BadParameter."""
    number, _, of = text.partition("/")
    try:
        return Shard(number=int(number), of=int(of))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a shard such as 1/4, the first of four.") from None


def revision(text: str) -> str:
    """Return the name of a commit as it is. Raises BadParameter for an empty one: a variable that is not set."""
    if not text.strip():
        raise click.BadParameter("It is empty, as an unset variable is: name a commit, or leave the option out.")
    return text


class Number(click.FloatRange):
    """A number within a range; unlike click's, neither NaN, which no range leaves out, nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class OutFile(click.Option):
    """An option that names a file to write; what would be lost by that is refused before anything runs."""

    def handle_parse_result(self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]) -> tuple[Any, list[str]]:
        """Convert the value as click does. Raises UsageError where it cannot be written, or another word names that file too."""
        value, args = super().handle_parse_result(ctx, opts, args)
        if isinstance(value, Path) and not ctx.resilient_parsing:
            is_folder = isinstance(self.type, click.Path) and not self.type.file_okay
            if why := _unwritable(value / "file" if is_folder else value):
                raise UsageError(f"{self.opts[0]}: {clean(value)} cannot be written: {why}.", "Choose another path.")
            for other in ctx.command.params:
                named = () if other is self else _paths(other.consume_value(ctx, opts)[0])
                if any(path.resolve() == value.resolve() and (path.is_file() or isinstance(other, OutFile)) for path in named):
                    what = f"{other.opts[0]} writes" if isinstance(other, OutFile) else "it reads"
                    raise UsageError(f"{self.opts[0]} would overwrite {clean(value)}, which {what}.", "Name another file.")
        return value, args


def out_file(name: str, help_line: str) -> Callable[[Command], Command]:
    """Return an option that names a file to write in addition to what the command writes anyway."""
    return click.option(name, cls=OutFile, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=help_line)


def _unwritable(path: Path) -> str:
    """Return why a file cannot be written, as a clause; empty where it can. Creates nothing that stays."""
    try:
        with tempfile.TemporaryFile(dir=next(folder for folder in path.absolute().parents if folder.exists())):
            return "" if path.is_file() or not path.exists() else "it is not a regular file"
    except OSError as error:
        return error.strerror or str(error)


def _paths(value: object) -> Iterator[Path]:
    """Yield the paths that a value may name, also those within FILE:FUNCTION and new=FILE."""
    if isinstance(value, str | Path):
        yield from map(Path, (str(value), *re.split("[:=]", str(value))))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _paths(one)


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


repository = click.option(
    "--repo", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="The repository."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")
common = _options(
    repository,
    click.option("--results", type=click.Path(path_type=Path), help="Folder for reports and the baseline (default: results)."),
    as_json,
)

exchange = _options(out_file("--junit", "Also write JUnit's XML."), out_file("--sarif", "Also write SARIF 2.1.0."))

device = _options(
    click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), help="Default: a GPU if there is one."),
    click.option("--gpu", type=int, help="Number of the GPU, as in nvidia-smi."),
)

verbosity = _options(
    click.option("-q", "--quiet", is_flag=True, help="Do not show progress."),
    click.option("-v", "--verbose", is_flag=True, help="Show progress as lines that stay, on a terminal too."),
)

waiting = _options(
    click.option(
        "--wait",
        type=duration,
        default="0s",
        help="How long to wait for a device that another check holds (default: not at all).",
    ),
    verbosity,
)


def measuring_with(pairs: str) -> Callable[[Command], Command]:
    """Return the options that say how to measure; ``pairs`` is the help of ``--pairs``."""
    return _options(
        device,
        click.option("--pairs", type=int, help=pairs),
        click.option("--budget", help="Start no more pairs for undecided cases after this long; 0: no limit (default: 90s)."),
        click.option("--blocks", type=int, help="Turns that each side takes in a pair (default: 8)."),
        click.option(
            "--clock",
            type=click.Choice(["auto", "event", "graph", "cold-graph"]),
            help="How to time on a GPU (default: as each workload asks).",
        ),
        click.option(
            "--cache", type=click.Choice(["cold", "warm"]), help="State of the L2 cache before each sample (default: cold)."
        ),
        click.option("--case-timeout", help="Time limit for one step of a case (default: 120s)."),
        click.option("--seed", type=int, help="Seed of the random inputs."),
        waiting,
    )


measuring = measuring_with("At most this many pairs of fresh processes for an undecided case (default: 100).")

harness_format = click.option(
    "--format",
    type=click.Choice(get_args(Format)),
    metavar="FORMAT",
    help=f"What another harness writes: {', '.join(get_args(Format))} (default: recognised by its content).",
)

machine = click.option(
    "--machine", metavar="NAME", help="The machine that files of another harness come from (default: as they say)."
)

harness = _options(
    click.option(
        "--command",
        metavar="COMMAND",
        help="Time another harness: a command that writes its results to {out}, or into the folder {dir}. "
        "More: `ratchet explain harnesses`.",
    ),
    harness_format,
)

judging = _options(
    click.option("--gate", "regression_threshold", help="Fail above this slowdown (default: 3%)."),
    click.option(
        "--improvement", "improvement_threshold", help="Call it improved if it takes this much less time (default: 5%)."
    ),
    click.option(
        "--on-inconclusive",
        type=click.Choice(["pass", "fail"]),
        help="How to treat undecided cases (default: pass; in compare: fail).",
    ),
)


def reference(default: str) -> Callable[[Command], Command]:
    """Return the options that name the reference; ``default`` says, in their help, what it is without them."""
    return _options(
        click.option("--base", type=revision, help=f"Commit to compare with (default: {default})."),
        click.option("--merge-base", type=revision, metavar="REF", help="Compare with the commit where this branch left REF."),
        click.option(
            "--against-baseline", is_flag=True, help="Compare each case with the commit that the baseline names for it."
        ),
    )
