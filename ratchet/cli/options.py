"""Options that commands share, and the request that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from ratchet.commands.request import Request
    from ratchet.records.run import Shard

Command = Callable[..., Any]


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
    click.option("--pairs", type=int, help="Most pairs of fresh processes for a case that stays undecided (default: 20)."),
    click.option("--budget", help="Begin no more pairs for undecided cases after this long; 0: no limit (default: 90s)."),
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


def reference(default: str) -> Callable[[Command], Command]:
    """What the head stands beside; ``default`` says what that is where none of these is given."""
    return _options(
        click.option("--base", help=f"Commit to compare with (default: {default})."),
        click.option("--merge-base", metavar="REF", help="Compare with the commit where this branch left REF."),
        click.option(
            "--against-baseline", is_flag=True, help="Compare each case with the commit that the baseline names for it."
        ),
    )


def request_of(cases: tuple[str, ...], given: dict[str, Any]) -> Request:
    """What a command asks of the pipeline; an option that a command has not counts as not given."""
    from ratchet.commands.request import Request
    from ratchet.config import parse_duration

    settings = (
        "device",
        "pairs",
        "budget",
        "blocks",
        "clock",
        "cache",
        "case_timeout",
        "seed",
        "regression_threshold",
        "improvement_threshold",
    )
    options = {key: given.get(key) for key in (*settings, "on_inconclusive")}
    options["time_identical"] = given.get("time_identical") or None
    options["build_cache"] = False if given.get("no_build_cache") else None
    options["profile"] = "never" if given.get("no_profile") else None
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
        against_baseline=bool(given.get("against_baseline")),
        gpu=given.get("gpu"),
        gpus=_gpus(given.get("gpus"), given.get("gpu")),
        shard=_shard(given.get("shard")),
        wait_s=wait_s,
        options=options,
    )


def _gpus(text: str | None, gpu: int | None) -> tuple[int, ...] | Literal["all"] | None:
    if text is None or text == "all":
        return "all" if text else None
    if gpu is not None:
        raise click.UsageError("--gpu and --gpus exclude each other.")
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers) or len(set(map(int, numbers))) < len(numbers):
        raise click.UsageError(f"--gpus: {text!r} is neither all nor numbers such as 0,1.")
    return tuple(map(int, numbers))


def _shard(text: str | None) -> Shard | None:
    from pydantic import ValidationError

    from ratchet.records.run import Shard

    if text is None:
        return None
    number, _, of = text.partition("/")
    try:
        return Shard(number=int(number), of=int(of))
    except (ValueError, ValidationError):
        raise click.UsageError(f"--shard: {text!r} is no part such as 1/4, the first of four.") from None
