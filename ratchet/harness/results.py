"""Read a file of results that another harness wrote: which benchmarks it timed, how long each took, and what went wrong.

`pairs` reads what a command has just written, `ratchet compare` and `ratchet compare --join` read saved files. The formats
themselves are in `formats`. The files may come from a stranger: they are bounded, and what is wrong with one is said in a
sentence with its path. Reads the named file or folder, and nothing else.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ratchet.core.errors import RecordError
from ratchet.core.records.files import parse_json, reading
from ratchet.core.records.run import CASE_LETTER
from ratchet.core.untrusted import clean
from ratchet.harness import formats
from ratchet.harness.entries import MOST_CASES, FileOrigin, FormatError, ParsedFile, TimedBenchmark
from ratchet.harness.formats import BESIDE, FORMATS
from ratchet.harness.tables import CsvTable

LARGEST_BYTES = 64 * 2**20
"""Largest file that is read, and the most that all files of a folder hold together."""
MOST_SAMPLES = 2_000
"""Samples of one benchmark and process that are kept; of more, every n-th, so that a run stays small."""
MOST_NAMED = 50
"""Entries that are named in one warning."""
_PART = 100
"""Longest part of a case's name, before and after the slash."""


@dataclass(frozen=True)
class ReportedCase:
    """One benchmark as one process timed it."""

    name: str
    """A case's name: ``benchmark/config``, made of the name that the harness gave."""
    benchmark: TimedBenchmark
    samples_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class HarnessResults:
    format: str
    cases: tuple[ReportedCase, ...]
    source: FileOrigin = field(default_factory=FileOrigin)
    left_out: tuple[str, ...] = ()
    """Each entry that is no case, with the reason."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what was left out, in one sentence."""
        named = [f"{reason} ({count} times)" if count > 1 else reason for reason, count in Counter(self.left_out).items()]
        more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        return (f"Left out of its results: {'; '.join(named[:MOST_NAMED])}{more}.",) if named else ()


def read_results(place: Path, wanted: str | None = None) -> HarnessResults:
    """Read a file, or all files of a folder, in the format ``wanted``; None: in the one that it looks like.

    Raises RecordError with the path, what is wrong, and what to do.
    """
    files: list[Path] = []
    parsed: list[tuple[str, ParsedFile]] = []
    for depth in _DEPTHS:
        files = _files_of(place, depth)
        parsed = [one for file in files if (one := _parsed(file, wanted, in_folder=file != place))]
        if parsed or files == [place]:
            break
    if not parsed:
        raise RecordError(
            f"{place} has no .json or .csv file of results in it.",
            "Check the path, and that the command wrote its results there.",
        )
    kinds = {kind for kind, _ in parsed}
    if len(kinds) != 1:
        raise RecordError(
            f"{place} has files of {' and of '.join(sorted(kinds))}.", "Give one of them, or name it with --format."
        )
    kind = kinds.pop()
    if len(parsed) > 1 and (kind == "asv" or (kind == "pytest-benchmark" and _STORED.match(files[0].name))):
        names = ", ".join(file.name for file in files[:3])
        raise RecordError(
            f"{place} keeps {len(parsed)} runs of {kind}, each of its own process: {names}.", "Give the files of one commit."
        )
    benchmarks = [one for _, found in parsed for one in found.benchmarks]
    left_out = tuple(each for _, found in parsed for each in found.left_out)
    if not benchmarks:
        which = f" that can be read: {'; '.join(left_out[:3])}" if left_out else " in it"
        raise RecordError(f"{place} has no benchmark{which}.", "Check that the command ran any, and measure again.")
    if len(benchmarks) > MOST_CASES:
        raise RecordError(f"{place} has {len(benchmarks)} benchmarks, more than {MOST_CASES}.", "Choose some of them.")
    if not any(one.samples_ms or one.problem for one in benchmarks):
        told = next((f"{clean(each.name, 80)}: {each.untimed}" for each in benchmarks if each.untimed), None)
        if told:
            raise RecordError(f"{place}: {told}.", "Check what it times, and measure again.")
    return HarnessResults(kind, tuple(_cases(place, benchmarks)), parsed[0][1].source, left_out)


_STORED = re.compile(r"\d{4}_")
"""The storage of pytest-benchmark numbers the files of its runs."""


def case_name(benchmark: str, config: str = "") -> str:
    """Return the name of a case for a benchmark of another harness: letters, digits and ``_ - . +`` on both sides of a slash.

    It depends on nothing but the harness's own name, so a new benchmark renames no other one. A space and the signs ``/ : , =``
    become ``-``; a name with other signs ends in a digest of it: ``[<]`` and ``[>]`` stay apart.
    """
    return f"{_part(benchmark, r'(?!-)') or 'benchmark'}/{_part(config) or 'default'}"


def _part(text: str, start: str = "") -> str:
    """Return one side of the slash. A benchmark begins with no hyphen, since its case would look like an option."""
    plain = _plain(text)
    if re.fullmatch(rf"{start}(?:{CASE_LETTER})*", plain):
        return _fitting(plain, text)
    letters = re.sub(rf"(?:(?!{CASE_LETTER}).)+", "-", text, flags=re.DOTALL).strip("-")
    return f"{letters[: _PART - 9]}-{_digest(text)}".lstrip("-")


def _plain(text: str) -> str:
    return re.sub(r"[ /:,=]", "-", text)


def _fitting(part: str, text: str) -> str:
    return part if len(part) <= _PART else f"{part[: _PART - 9]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _cases(place: Path, benchmarks: Sequence[TimedBenchmark]) -> list[ReportedCase]:
    """Return the cases, so that none is compared with another one.

    Of several that the harness calls the same, each says which of how many it is. Names that differ and would give one case end
    in a digest, since the harness may list them in another order next time.
    """
    originals = [one.original or repr((one.benchmark, one.config)) for one in benchmarks]
    names = [case_name(one.benchmark, one.config) for one in benchmarks]
    spellings = Counter(name for name, _ in set(zip(names, originals, strict=True)))
    counts, before = Counter(originals), Counter[str]()
    cases = []
    for name, original, one in zip(names, originals, benchmarks, strict=True):
        before[original] += 1
        benchmark, _, config = name.partition("/")
        if spellings[name] > 1:
            config += f"-{_digest(original)}"
        if counts[original] > 1:
            config += f"-{before[original]}of{counts[original]}"
        cases.append(_case(f"{benchmark}/{_fitting(config, config)}", one))
    if twice := next((name for name, count in Counter(case.name for case in cases).items() if count > 1), None):
        both = [clean(case.benchmark.name, 80) for case in cases if case.name == twice][:2]
        raise RecordError(f"{place}: {both[0]} and {both[1]} are both called {twice}.", "Give each benchmark a name of its own.")
    return cases


def _case(name: str, one: TimedBenchmark) -> ReportedCase:
    if name != f"{_plain(one.benchmark)}/{_plain(one.config) or 'default'}" and one.name:
        one = replace(one, parameters={"name": clean(one.name, 200), **one.parameters})  # as its author wrote it
    step = -(-len(one.samples_ms) // MOST_SAMPLES) or 1
    return ReportedCase(name, one, tuple(one.samples_ms[::step]))


_DEPTHS = ("*", "*/*", "*/*/*")
"""Where results may lie in a folder: asv has a folder for each machine, and pytest-benchmark's storage one for each Python."""


def _files_of(place: Path, depth: str) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.glob(depth) if file.suffix in (".json", ".csv") and file.is_file())
    if sum(file.stat().st_size for file in files) > LARGEST_BYTES:
        raise RecordError(f"{place} holds more than {LARGEST_BYTES >> 20} MiB of results.", "Give some of its files.")
    return files


def _parsed(file: Path, wanted: str | None, *, in_folder: bool) -> tuple[str, ParsedFile] | None:
    """Return format and content of a file; None for one of a folder that only describes others."""
    document = document_of(file)
    looks = formats.looks_like(document)
    if looks == BESIDE and in_folder:
        return None
    kind = wanted or looks
    if kind is None or kind not in FORMATS:
        raise RecordError(f"{file} is {formats.described(looks)}.", _which(looks, None))
    if looks != kind:
        raise RecordError(f"{file} is not what {kind} writes: it is {formats.described(looks)}.", _which(looks, kind))
    try:
        return kind, FORMATS[kind](document, file if in_folder else None, file.parent)
    except FormatError as error:
        raise RecordError(f"{file}: {error}", error.hint) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"the field {error} is missing" if isinstance(error, KeyError) else clean(str(error), 120)
        raise RecordError(f"{file} is not what {kind} writes: {what}.", "Check that it is whole, and measure again.") from None


def _which(looks: str | None, kind: str | None) -> str:
    if looks in FORMATS:
        return f"Name it with --format {looks}."
    if looks in formats.UNREAD:
        return formats.UNREAD[looks]
    return f"Give a file of {kind}." if kind else f"ratchet reads files of {', '.join(FORMATS)}."


def _text(file: Path) -> str:
    if file.exists() and not file.is_file():  # reading a pipe would never end
        raise RecordError(f"{file} is not a regular file.", "Check the path.")
    with reading(file, "Check the path, and that the command wrote its results there."), file.open("rb") as stream:
        content = stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise RecordError(
            f"{file} is larger than {LARGEST_BYTES >> 20} MiB.", "Let the harness write fewer samples or parameters."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"{file} is not UTF-8 text (byte {error.start}).", "Check the path.") from None


def document_of(file: Path) -> Any:
    """Return the JSON of a file (of several lines of JSON, a list), or the rows of a table. Raises RecordError."""
    text = _text(file)
    if not text.strip():
        raise RecordError(f"{file} is empty.", "Check that the command ran to its end, and measure again.")
    if text.lstrip()[0] not in "{[":
        return _rows(file, text.lstrip("\r\n"))
    try:
        return parse_json(str(file), text, "Measure again.", foreign=True)
    except RecordError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines):  # one record a line
            with contextlib.suppress(RecordError):
                records = [parse_json(str(file), line, foreign=True) for line in lines]
                if formats.looks_like(records):
                    return records
        raise


def _rows(file: Path, text: str) -> CsvTable:
    first = text.splitlines()[0]
    rows, error = [[first]], ": it has one column"
    try:
        delimiter = max(",;", key=lambda sign: len(next(csv.reader([first], delimiter=sign))))  # tritonbench writes the second
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as wrong:
        error = f": {wrong}"
    is_table = len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows if row)
    if not is_table and re.search(r"^[{\[]", text, re.MULTILINE):
        raise RecordError(
            f"{file} has other lines before its JSON: {clean(text.strip().splitlines()[0], 60)!r}.",
            "Let the harness write its results to the file itself, apart from what it prints.",
        )
    if len(rows[0]) < 2:
        raise RecordError(f"{file} is neither JSON nor a table{error}.", "Check the path, and what the command writes.")
    return CsvTable(tuple(rows[0]), tuple(tuple(row) for row in rows[1:] if row))
