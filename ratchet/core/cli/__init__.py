"""The command line: each command reads its options, calls one function of `ratchet.core`, prints, and returns an exit code.

``ratchet`` and ``python -m ratchet`` call `main`, which sets the handlers of signals and checks the limits of the process. Errors
become one sentence and an exit code in `main`, and nowhere else. Here only click is imported, so that ``ratchet --help`` stays
fast: a command's module loads when the command is called.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pkgutil
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from copy import copy
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

import click
from click.shell_completion import CompletionItem

from ratchet import __version__, tools
from ratchet.core import processes
from ratchet.core.errors import Exit, RatchetError, UsageError
from ratchet.core.units import did_you_mean

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {},
    "Compare two states of the code": {
        "check": ("ratchet.core.cli.check:check_command", "Is this checkout slower than an earlier commit?"),
        "check --open": ("ratchet.core.cli.results:open_command", "Open the report of the last check; measures nothing."),
        "run": ("ratchet.core.cli.check:run_command", "Time this checkout alone and write results/current.json."),
        "compare": ("ratchet.core.cli.results:compare_command", "Compare two recorded runs, or judge one again."),
    },
    "Find out why, make it faster": {},
    "Main over time": {},
    "In workflows": {
        "ci": ("", "What workflows call: publish, command, notify, merge, push."),
    },
}
"""Section of ``ratchet --help`` → words of a command → where it is, and its line of help. Tools add theirs (`ratchet.tools`).

The first word is the command. A second one chooses another parser: a word such as ``fill`` stands behind the first, an option
such as ``--open`` anywhere. A command without a place only lists those of two words.
"""
for _section, _commands in tools.commands():
    SECTIONS[_section] |= _commands
COMMANDS = {words: command for commands in SECTIONS.values() for words, command in commands.items()}
RENAMED = {
    "open": "check --open",
    "report": "compare",
    **tools.renamed(),
}
"""Words that commands had → their words now. They are answered without a word about it, and no help page names them."""
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
        "ratchet check                       uncommitted changes; without any, HEAD against its parent",
        "ratchet check --merge-base main     this branch against where it left main",
        "ratchet check norm 'attention/*' --base v1.2 --gate 2%",
        "ratchet check --base HEAD --time-identical     what unchanged code gives",
        "ratchet check --junit junit.xml --sarif ratchet.sarif   files that other CI systems read",
        "ratchet check --command './bench --jsonbin {out}' --format nvbench   another harness",
    ),
    "check --open": ("ratchet check --open",),
    "ci": ("ratchet ci merge shard-1/current.json shard-2/current.json",),
    "compare": (
        "ratchet compare before/current.json after/current.json",
        "ratchet compare old/current.json --gate 5%    judge one run again, write its report",
        "ratchet compare before.json after.json --format hyperfine",
    ),
    "run": (
        "ratchet run",
        "ratchet run norm --pairs 12 --device cpu",
    ),
}
EXAMPLES |= tools.examples()
"""Command → lines that can be typed; what follows three blanks says what the line does."""


def page_of(words: str, *, brief: bool = True) -> click.Command:
    """Return a command with the commands of its name and its examples on its help page, ``brief``: with three options on it."""
    place, line = COMMANDS[words]
    command = (
        pkgutil.resolve_name(place)
        if place
        else click.Command(words, help=line, no_args_is_help=True, options_metavar="COMMAND [ARGS]...")
    )
    inner = _commands_behind(words)
    widest = max((len(name) for name, _ in inner), default=0)
    parts = {
        "Commands" if not place else "Also": [f"{name:{widest}}  {line}" for name, line in inner],
        "Examples": EXAMPLES.get(words, ()),
    }
    command.epilog = "\n\n".join("\n  ".join((f"\b\n{title}:", *lines)) for title, lines in parts.items() if lines)
    own = [parameter for parameter in command.params if "--help-all" not in parameter.opts]
    options = [parameter for parameter in own if isinstance(parameter, click.Option)]
    typed = [word for line in EXAMPLES.get(words, ()) for word in line.split()]

    def rank(option: click.Option) -> tuple[bool, int]:
        return not option.required, min((typed.index(name) for name in option.opts if name in typed), default=len(typed))

    first = sorted(options, key=rank)[:FIRST]
    for option in options:
        option.hidden = brief and option not in first
    command.params = [*own, _help_all(hidden=len(options) <= FIRST)]
    return command


def _commands_behind(words: str) -> list[tuple[str, str]]:
    return [(name, line) for name, (_, line) in COMMANDS.items() if name.startswith(f"{words} ")]


def _with_second_words(name: str, command: click.Command) -> click.Command:
    """Return a command of which a shell completes the second words too: click does not know them, since they choose a parser."""
    behind = [(words.removeprefix(f"{name} "), line) for words, line in _commands_behind(name)]
    options = [click.Option([word], is_flag=True, help=line) for word, line in behind if word.startswith("-")]
    words = [CompletionItem(word, help=line) for word, line in behind if not word.startswith("-")]

    def fitting(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return [item for item in words if item.value.startswith(begun)]

    arguments = [click.Argument(["second_word"], required=False, shell_complete=fitting)] if words else []
    completed = copy(command)
    completed.params = [*arguments, *options, *command.params]
    return completed


FIRST = 3
"""Options on a help page: those that must be given, then those of its examples. ``--help-all`` shows the others."""


def _show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        for option in ctx.command.params:
            if isinstance(option, click.Option):
                option.hidden = False
        click.echo(ctx.get_help())
        ctx.exit()


def _help_all(*, hidden: bool) -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=hidden,
        callback=_show_all,
        help="Show all options.",
    )


class Commands(click.Group):
    """All commands. The module of one is imported only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's interface
        return [words for words in COMMANDS if " " not in words]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        completes = ctx.resilient_parsing
        command = page_of(cmd_name, brief=not completes)
        return _with_second_words(cmd_name, command) if completes else command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str, click.Command, list[str]]:
        if args[0] in REMOVED and not ctx.resilient_parsing:  # as where a shell completes a word
            raise UsageError(REMOVED[args[0]])
        for count in (2, 1):
            if now := RENAMED.get(" ".join(args[:count])):
                args = [*now.split(), *args[count:]]
                break
        name, *rest = args
        own = rest[: rest.index("--")] if "--" in rest else rest
        for place, word in enumerate(own):
            if f"{name} {word}" in COMMANDS and (place == 0 or word.startswith("-")):
                name, rest = f"{name} {word}", [*rest[:place], *rest[place + 1 :]]
                break
        command = self.get_command(ctx, name)
        takes_words = command is not None and any(isinstance(parameter, click.Argument) for parameter in command.params)
        if command is None or (rest[:1] and rest[0][:1] != "-" and not takes_words):
            words = " ".join([name] if command is None else [name, rest[0]])
            ctx.fail(" ".join(filter(None, (f"No such command '{words}'.", did_you_mean(words, list(COMMANDS))))))
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.list_commands(ctx)))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{words:{widest}}", line) for words, (_, line) in commands.items() if " " not in words])


@click.group(
    cls=Commands,
    params=[_help_all(hidden=True)],
    epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[""]),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="ratchet")
def cli() -> None:
    """A performance gate for GPU kernels.

    Exit codes: 0 pass, 1 regression or wrong result, 2 wrong usage, 3 could not measure, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one sentence on stderr."""
    for number in processes.ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    output, errors = (stream and cast(TextIO, LastingStream(stream)) for stream in (sys.stdout, sys.stderr))  # None: closed
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(words: list[str]) -> int:
    try:
        _refuse_low_limits()
        return int(cli.main(args=words, prog_name="ratchet", standalone_mode=False, obj=("ratchet", *words)) or 0)
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
    if isinstance(error, ModuleNotFoundError) and error.name == "github":  # which not every command needs
        return "this needs PyGithub. Install it with `pip install 'gpu-ratchet[github]'`, then run again.", Exit.USAGE
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


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    for number in processes.ENDINGS:
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleaning up
    raise KeyboardInterrupt


class LastingStream:
    """Writes to a stream, and nowhere once its reader has gone: there click and rich exit with 1, which reads as a regression."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"  # it may lack a letter, such as µ: an error would hide the whole result
        with self._ending_in_nothing():
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._ending_in_nothing():
            self._stream.flush()

    @contextlib.contextmanager
    def _ending_in_nothing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
