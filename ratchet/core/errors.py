"""Every error that a user can meet (what happened, where, and what to do), and the line of another program's error that matters.

`ratchet.core.cli.main` alone turns one into text and an exit code. `described` may read the sources of loaded modules.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from enum import IntEnum

from ratchet.core.untrusted import clean


class Exit(IntEnum):
    """Exit codes of every command."""

    PASS = 0
    REGRESSION = 1
    USAGE = 2
    NOT_MEASURED = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells expect


class RatchetError(Exception):
    """An error with one sentence for the user; ``hint`` says what to do."""

    exit_code: Exit = Exit.NOT_MEASURED
    section: str = ""
    """The section that says more: `ratchet explain SECTION` prints it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(RatchetError):
    """The command, an option or the configuration is wrong."""

    exit_code = Exit.USAGE


class RecordError(RatchetError):
    """A file of ours cannot be read: truncated, edited, of a newer schema, or with impossible values."""

    exit_code = Exit.USAGE
    section = "files-and-records"


class OutputError(RatchetError):
    """A result cannot be written: read-only folder, full disk."""

    section = "files-and-records"


class GitError(RatchetError):
    """git is missing, or refuses what a comparison needs."""


class DamageError(RatchetError):
    """The user's repository changed while foreign code ran, and cannot be restored."""

    section = "files-and-records"


class BusyError(RatchetError):
    """Another check holds the device."""

    section = "the-machine-is-not-fit"


class UnfitError(RatchetError):
    """This machine cannot give a trustworthy measurement now."""

    section = "the-machine-is-not-fit"


class IncompleteError(RatchetError):
    """A shard of a run is missing."""


class BuildError(RatchetError):
    """The build command failed in one tree."""

    section = "a-tree-cannot-be-loaded"


class FingerprintError(RatchetError):
    """Times from different machines or software were about to be compared."""

    section = "files-and-records"


class HostError(RatchetError):
    """The process that serves one tree did not start, died, or broke the protocol."""

    section = "a-tree-cannot-be-loaded"


class WorkerError(RatchetError):
    """A worker crashed, hung, ran out of memory or broke the protocol: one case fails, never the run."""

    section = "the-machine-is-not-fit"


class ForeignModuleError(RatchetError):
    """A module of the repository was loaded from outside its tree, so the tree was not what ran."""

    section = "a-tree-cannot-be-loaded"


class CudaBuildError(RatchetError):
    """nvcc is missing or rejected a source."""

    section = "a-tree-cannot-be-loaded"


class PageError(RatchetError):
    """A figure cannot be drawn: matplotlib is missing."""


LONGEST = 300
"""Most characters of a sentence."""
_LONGEST_SOURCE = 80
"""Most characters of a source line that is quoted."""
_COMPILER = re.compile(r"\b(?:error|fatal)(?: #[\w-]+)?\s*:(?!:)|\bundefined reference to|\bcannot find -l")
"""What nvcc, ptxas, gcc, clang and ld write; ``nvcc fatal   : …``, ``kernel.cu(4): error: …``, ``x.cpp:3:27: fatal error: …``."""
_REPORTS = re.compile(
    r"error: (?:[Cc]ommand .* (?:failed with|returned non-zero) exit|subprocess-exited-with-error|metadata-generation-failed|"
    r"ld returned)"
    r"|PTXAS error: Internal Triton"
)
"""Lines by which one program says that another one failed."""
_RAISED = re.compile(r"^\s*((?:[\w.]+\.)?\w*(?:Error|Exception): .+)", re.MULTILINE)
_TRITON = re.compile(r"\bat (\d+):(\d+):[ \t]*\n((?:.*\n){1,12}?)[ \t]*\^[ \t]*(?:\n(.+))?")
"""A line and a column within the kernel, up to twelve lines of its source, a caret, and the reason unless a cause has it."""
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+)', re.MULTILINE)
_FOLLOWS = re.compile(
    r"\n\s*(?:Set TORCHDYNAMO_VERBOSE|from user code:|CUDA kernel errors might be|Search for `cuda|For debugging consider|"
    r"Compile with `TORCH_USE|Developer debug context:|Exception raised from ).*",
    re.DOTALL,
)
"""Sentences that torch adds to every message of a kind."""
_GOT = re.compile(r": got (\w+\(.*\))$", re.MULTILINE)
"""The error that torch.compile met while it traced."""
_CARETS = re.compile(r"\s*[~^]{2,}\s*")
"""A line below a line of source, in which Python marks what it ran. Compilers mark one place, with one caret."""
_NOT_THEIRS = ("/site-packages/", "/dist-packages/", f"{__file__.rpartition('/core/')[0]}/")
"""Parts of the paths of installed packages, and of this one, which may lie in the author's tree too."""


def described(error: BaseException, tree: str) -> tuple[str, tuple[str, ...]]:
    """Return one sentence about what an author's code raised, and the last lines of its traceback.

    ``tree`` is the folder of the author's code. This works also for an error whose ``str()`` fails.
    """
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    parts = traceback.format_exception_only(error)
    # A SyntaxError begins with its place and source, and notes come after the message.
    text = next((part for part in parts if not part.startswith(" ")), parts[-1]).partition(": ")[2]
    sources: dict[str, list[str]] = {}
    if _TRITON.search("\n".join(lines)):
        files = {str(getattr(module, "__file__", None)) for module in list(sys.modules.values())}
        sources = {file: linecache.getlines(file) for file in sorted(files) if _in_tree(file, tree) and file.endswith(".py")}
    report = traceback.TracebackException.from_exception(error)
    sentence = error_line(type(error).__name__, text, "\n".join(lines), tree, sources)
    last = report.stack[-1].filename if report.stack else ""
    led_here = report.__cause__ or (report.__context__ and not report.__suppress_context__)
    if last.startswith((_NOT_THEIRS[-1], "<string>")) and not led_here:
        return sentence, ()  # this package refused something: the sentence says what, and the lines would be its own
    _drop_callers(report, tree)
    theirs = "".join(report.format()).strip().splitlines()
    shown = [line.replace(f"{tree}/", "") for line in theirs if not _CARETS.fullmatch(line)]
    return sentence, tuple(line[:LONGEST] for line in shown[-12:])


def _drop_callers(report: traceback.TracebackException, tree: str) -> None:
    """Remove the frames that lead to the author's code; where none of theirs follows, those of this package."""
    files = [frame.filename for frame in report.stack]
    theirs = [number for number, file in enumerate(files) if _in_tree(file, tree)]
    others = [number for number, file in enumerate(files) if not file.startswith((_NOT_THEIRS[-1], "<frozen "))]
    del report.stack[: next(iter(theirs or others), len(files))]
    for inner in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if inner:
            _drop_callers(inner, tree)


def error_line(kind: str, text: str, traceback_text: str, tree: str, sources: Mapping[str, Sequence[str]]) -> str:
    """Return one sentence about an exception: what is wrong, and where in ``tree``.

    ``kind`` is the name of its class, ``text`` its message. ``sources`` (file → lines) serves to find a Triton kernel, whose
    errors count lines from the kernel's first.
    """
    if triton := _triton_error(kind, traceback_text, tree, sources):
        return triton
    message = first_error(text) if "\n" in text.strip() else ""
    if not message:
        got = _GOT.search(text)
        message = got[1] if got else _FOLLOWS.sub("", text)
    frames = [(file, line) for file, line in _FRAME.findall(traceback_text) if _in_tree(file, tree)]
    place = f" ({_within(frames[-1][0], tree)}:{frames[-1][1]})" if frames else ""
    whole = f"{kind}: {message}" if message.strip() else kind
    return clean(clean(whole.replace(f"{tree}/", ""), LONGEST - len(place)) + place)


def first_error(log: str) -> str:
    """Return the first line of a log that names a compiler's or linker's error, else what Python raised; empty for neither."""
    lines = [line.strip() for line in log.splitlines() if _COMPILER.search(line)]
    raised = _RAISED.findall(log) if "Traceback (most recent call last)" in log else []
    named = [line for line in lines if not _REPORTS.search(line)]
    return next(iter([*named[:1], *raised[-1:], *lines[:1]]), "")


def _triton_error(kind: str, text: str, tree: str, sources: Mapping[str, Sequence[str]]) -> str:
    """Return the sentence for an error of Triton's compiler; empty for any other.

    A kernel that calls another one has a block of its own for each; the innermost comes first and has the reason.
    """
    blocks = list(_TRITON.finditer(text))
    if not blocks:
        return ""
    block = next((match for match in blocks if (match[4] or "").strip()), blocks[0])
    excerpt = block[3].splitlines()
    line, column = int(block[1]), int(block[2])
    source, caret = excerpt[-1].strip(), column - _indent(excerpt[-1])
    places = _places([line.strip() for line in excerpt], sources)
    if len(places) == 1:
        file, number = places[0]
        where = f"{_within(file, tree)}:{number}:{_indent(sources[file][number - 1]) + caret + 1}"
    else:
        named = re.match(r"\s*def (\w+)", excerpt[0])
        where = f"line {line}, column {column + 1} of {named[1] if named else 'the kernel'}"
    if len(source) > _LONGEST_SOURCE:  # the part at the caret
        start = max(0, caret - _LONGEST_SOURCE // 2)
        source = f"{'…' if start else ''}{source[start : start + _LONGEST_SOURCE]}…"
    return clean(f"{kind} at {where}, “{source}”: {block[4] or 'no reason given'}", LONGEST)


def _places(excerpt: list[str], sources: Mapping[str, Sequence[str]]) -> list[tuple[str, int]]:
    """Return file and number of the last line wherever these lines, without their indentation, follow each other."""
    places = []
    for file, found in sources.items():
        lines = [line.strip() for line in found]
        ends = range(len(excerpt), len(lines) + 1)
        places += [(file, end) for end in ends if lines[end - len(excerpt) : end] == excerpt]
    return places


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _in_tree(file: str, tree: str) -> bool:
    return file.startswith(f"{tree}/") and not any(part in file for part in _NOT_THEIRS)


def _within(file: str, tree: str) -> str:
    return file.removeprefix(f"{tree}/")
