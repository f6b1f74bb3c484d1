"""The command line: each command reads its options, calls one function of `ratchet.core`, prints, and returns an exit code.

``ratchet`` and ``python -m ratchet`` call `main`, which sets the handlers of signals and checks the limits of the process. Errors
become one sentence and an exit code in `main`, and nowhere else. Here only click is imported, so that ``ratchet --help`` stays
fast: a command's module loads when the command is called.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import resource
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, cast

import click

from ratchet import __version__, tools
from ratchet.core import processes
from ratchet.core.errors import Exit, RatchetError, UsageError
from ratchet.core.units import did_you_mean

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "list": ("ratchet.core.cli.check:list_command", "List the cases of this checkout."),
        "settings": (
            "ratchet.core.cli.results:settings_command",
            "Show every setting: its value, where that comes from, and what it means.",
        ),
        "explain": (
            "ratchet.core.cli.results:explain_command",
            "Print what the documentation says about a word, an outcome or an exit code.",
        ),
    },
    "Compare two states of the code": {
        "check": (
            "ratchet.core.cli.check:check_command",
            "Compare this checkout with an earlier commit and fail on a regression.",
        ),
        "run": ("ratchet.core.cli.check:run_command", "Time this checkout alone and write results/current.json."),
        "compare": ("ratchet.core.cli.results:compare_command", "Compare two recorded runs of one machine."),
        "report": ("ratchet.core.cli.results:report_command", "Judge a recorded run again and write its report."),
        "open": ("ratchet.core.cli.results:open_command", "Open the report of the last check in a browser."),
        "merge": ("ratchet.core.cli.results:merge_command", "Join the shards of one check into one run and one verdict."),
    },
    "Find out why, make it faster": {},
    "Main over time": {},
    "Try the machine and the gate": {},
    "In workflows": {},
    "Other harnesses": {},
}
"""Section of ``ratchet --help`` → name → where the command is, and its line there. Tools add theirs (`ratchet.tools`).

A newcomer's first command, `init`, comes first.
"""
for _section, _commands in tools.commands():
    SECTIONS[_section] = dict(sorted({**SECTIONS[_section], **_commands}.items(), key=lambda command: command[0] != "init"))
COMMANDS = {name: command for commands in SECTIONS.values() for name, command in commands.items()}
_RENAMED = {"study": ("variants",), "sweep": ("variants",), "quickwins": ("variants", "--quickwins")}
"""Names that commands had → their words now."""
REMOVED = {
    "fleet": "`ratchet fleet` and the quarantine were removed: each run names its GPU and its health (environment.cards in "
    "results/current.json), and `ratchet doctor --strict` exits with 3 on a GPU that is broken or busy.",
    "export": "`ratchet export` was removed: results/current.json is JSON, and results/schema/run.json describes it.",
}
"""Name that used to be a command → the sentence that answers it."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "ratchet init        a first benchmark for this repository",
        "ratchet check       are my changes slower than the last commit?",
        "ratchet doctor      what this machine can do",
    ),
    "check": (
        "ratchet check                          with uncommitted changes against HEAD, else HEAD against the one before",
        "ratchet check --merge-base main        this branch against where it left main",
        "ratchet check norm 'attention/*' --base v1.2 --gate 2%",
        "ratchet check --base HEAD --time-identical   what unchanged code gives",
        "ratchet check --junit junit.xml --sarif ratchet.sarif   files that other CI systems read",
        "ratchet check --command './bench --jsonbin {out}' --format nvbench   another harness",
    ),
    "compare": (
        "ratchet compare before/current.json after/current.json",
        "ratchet compare before.json after.json --format hyperfine",
    ),
    "explain": (
        "ratchet explain INCONCLUSIVE",
        "ratchet explain the-machine-is-not-fit",
        "ratchet explain benchmarks",
    ),
    "list": (
        "ratchet list",
        "ratchet list 'norm/*' --json",
    ),
    "merge": ("ratchet merge shard-1/current.json shard-2/current.json",),
    "open": ("ratchet open",),
    "report": (
        "ratchet report",
        "ratchet report old/current.json --gate 5%",
    ),
    "run": (
        "ratchet run",
        "ratchet run norm --pairs 12 --device cpu",
    ),
    "settings": (
        "ratchet settings",
        "ratchet settings --json",
        "RATCHET_PAIRS=40 ratchet settings",
        "ratchet settings --schema run   the JSON Schema of results/current.json",
    ),
}
EXAMPLES |= tools.examples()
"""Command → lines that can be typed; what follows three blanks says what the line does."""


def with_examples(command: click.Command, name: str) -> click.Command:
    """Add the examples of a command (empty: of ``ratchet``), and those of its own commands, to their help."""
    command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES.get(name, ()))
    for own, inner in getattr(command, "commands", {}).items():
        with_examples(inner, f"{name} {own}")
    return command


class LazyGroup(click.Group):
    """A group that imports the module of a command only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's interface
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's interface
        if cmd_name not in COMMANDS:
            return None
        return with_examples(cast(click.Command, pkgutil.resolve_name(COMMANDS[cmd_name][0])), cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if now := _RENAMED.get(args[0]):
            old, args = args[0], [*now, *args[1:]]
            click.echo(f"{old} is now `ratchet {shlex.join(args)}`.", err=True)
        if args[0] in REMOVED and not ctx.resilient_parsing:  # as where a shell completes a word
            raise UsageError(REMOVED[args[0]])
        if args[0] not in COMMANDS and (meant := did_you_mean(args[0], list(COMMANDS))):
            ctx.fail(f"No such command '{args[0]}'. {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's interface
        widest = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{widest}}", text) for name, (_, text) in commands.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ratchet")
def cli() -> None:
    """A performance gate for GPU kernels.

    Exit codes: 0 pass, 1 regression or wrong result, 2 wrong usage, 3 could not measure, 130 interrupted.
    """


with_examples(cli, "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one sentence on stderr."""
    for number in processes.ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_low_limits()
        return int(cli.main(args=words, prog_name="ratchet", standalone_mode=False, obj=("ratchet", *words)) or 0)
    except BrokenPipeError:
        discard_output()
        return int(Exit.PASS)
    except click.ClickException as error:
        error.show()
        return int(Exit.USAGE)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  no error may exit with 1, which reads as a regression
        sentence, code = _explained(error)
        click.echo(f"ratchet: {sentence}", err=True)
        if section := getattr(error, "section", ""):
            click.echo(f"More: ratchet explain {section}", err=True)
        return int(code)


def _explained(error: BaseException) -> tuple[str, Exit]:
    """Return the sentence and the exit code of an error; print the traceback of a defect of our own."""
    if isinstance(error, RatchetError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return processes.interruption_sentence(), Exit.INTERRUPTED
    if isinstance(error, ModuleNotFoundError) and error.name in _INSTALL:
        return f"this needs {_INSTALL[error.name]}, then run again.", Exit.USAGE
    if limit := _limit_met(error):
        return limit, Exit.NOT_MEASURED
    if isinstance(error, OSError):  # a full disk, no more processes
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", Exit.NOT_MEASURED
    traceback.print_exception(error)
    return "this is a defect in ratchet itself; please report it with the lines above.", Exit.NOT_MEASURED


def _limit_met(error: BaseException) -> str:
    """Return the system limit behind an error and how to raise it; empty for any other error."""
    if isinstance(error, MemoryError):
        return "not enough memory. Free some, or raise the limit (`ulimit -v`)."
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no more threads can be started. Raise the limits of processes and memory (`ulimit -u`, `ulimit -v`)."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        count = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files: {count} are allowed. Raise the limit (`ulimit -n 1024`) and run again."
    return ""


def _refuse_low_limits() -> None:
    """Raise MemoryError or OSError where the limits are too low to work, and to clean up afterwards.

    With too few addresses, the linear algebra library of NumPy waits forever or exits with 1, the code of a regression.
    """
    addresses, files = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE))
    if addresses != resource.RLIM_INFINITY and addresses < _LEAST_BYTES + (os.cpu_count() or 1) * _THREAD_BYTES:
        raise MemoryError
    if files != resource.RLIM_INFINITY and files < _FEWEST_FILES:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


_LEAST_BYTES, _THREAD_BYTES = 512 << 20, 48 << 20
"""For the packages, and for each core: OpenBLAS reserves 32 MiB and a stack per thread."""
_FEWEST_FILES = 48
"""A check of one device needs about twenty."""
_INSTALL = {
    "github": "PyGithub. Install it with `pip install 'gpu-ratchet[github]'`",
}
"""Packages that not every command needs: name → what it is and how to install it."""


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    for number in processes.ENDINGS:
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleaning up
    raise KeyboardInterrupt


def discard_output() -> None:
    """Send further output nowhere, since its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
