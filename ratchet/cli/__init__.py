"""Commands: read options, call one pipeline function, print, map errors to exit codes.

Only click is imported here, so that ``ratchet --help`` stays fast: each command imports the rest when it runs.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from ratchet import __version__
from ratchet.cli.baseline import baseline
from ratchet.cli.check import calibrate, check, compare, merge, replay_, report, run
from ratchet.cli.github import command as command_
from ratchet.cli.github import publish
from ratchet.cli.output import print_nowhere
from ratchet.cli.profile import profile, roofline
from ratchet.cli.show import doctor, list_
from ratchet.cli.tune import tune
from ratchet.errors import Exit, RatchetError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one sentence on stderr."""
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_low_limits()
        return int(cli.main(args=words, prog_name="ratchet", standalone_mode=False, obj=("ratchet", *words)) or 0)
    except BrokenPipeError:
        print_nowhere()
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
    if limit := _limit_met(error):
        return limit, Exit.NOT_MEASURED
    if isinstance(error, OSError):  # a full disk, no more processes
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", Exit.NOT_MEASURED
    traceback.print_exception(error)
    return "this is a defect in ratchet itself; please report it with the lines above.", Exit.NOT_MEASURED


def _limit_met(error: BaseException) -> str:
    """The limit of the system that an error stands for, and how to raise it; empty for any other error."""
    if isinstance(error, MemoryError):
        return "the memory does not suffice. Free some, or raise the limit (`ulimit -v`)."
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no more threads can be started. Raise the limits of processes and memory (`ulimit -u`, `ulimit -v`)."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        count = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files: {count} are allowed. Raise the limit (`ulimit -n 1024`) and run again."
    return ""


def _refuse_low_limits() -> None:
    """Raise MemoryError or OSError where too little is allowed to do anything, and to clean up afterwards.

    Where the linear algebra beneath NumPy gets too few addresses, it waits for ever, or ends the process with the status of a
    regression.
    """
    addresses, files = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE))
    if addresses != resource.RLIM_INFINITY and addresses < _LEAST_BYTES + (os.cpu_count() or 1) * _THREAD_BYTES:
        raise MemoryError
    if files != resource.RLIM_INFINITY and files < _FEWEST_FILES:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


_LEAST_BYTES, _THREAD_BYTES = 512 << 20, 48 << 20
"""For the packages, and for each core: OpenBLAS reserves 32 MiB and a stack for each of its threads."""
_FEWEST_FILES = 48
"""A check of one device needs about twenty."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a cancelled CI job, a closed terminal: all clean up."""


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleaning up
    raise KeyboardInterrupt


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ratchet")
def cli() -> None:
    """A performance gate for GPU kernels.

    Exit codes: 0 pass, 1 regression or wrong result, 2 wrong usage, 3 could not measure, 130 interrupted.
    """


for command in (
    check,
    run,
    profile,
    tune,
    calibrate,
    compare,
    merge,
    report,
    roofline,
    replay_,
    list_,
    baseline,
    doctor,
    publish,
    command_,
):
    cli.add_command(command)
