"""Records ↔ JSON files: written whole or not at all, and refused with a place and a reason when they are not what we wrote.

A run of 5,000 cases has sixty million samples. Each case stands on a line of its own, so that `run_of_lines` holds the text of
one at a time, and the samples stay compressed (`ratchet.core.records.samples`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ratchet.core.errors import OutputError, RecordError
from ratchet.core.processes import WRITTEN, uninterrupted
from ratchet.core.records import SCHEMA_VERSION, Record
from ratchet.core.records.run import CaseRun, RunRecord
from ratchet.core.untrusted import clean

LARGEST_BYTES = 256 * 2**20
"""Largest file that is read: an artifact may come from a stranger."""
_UNDO = "Undo the edit, restore the file from git, or measure again."

AnyRecord = TypeVar("AnyRecord", bound=Record)


def load(path: Path, record_type: type[AnyRecord]) -> AnyRecord:
    """Read a record.

    Raises RecordError naming the file, the field and what to do where the file is missing, too large, not JSON, of another
    kind, written by a newer ratchet, or holds values that cannot be.
    """
    with _gc_paused():
        record: Record | None = None
        if record_type is RunRecord:
            with contextlib.suppress(OSError), path.open("rb") as stream:  # the second try explains the error
                if record := run_of_lines(stream, str(path), LARGEST_BYTES):
                    gc.freeze()  # nothing of it is garbage, and a collection that looks for some takes a second
        if record is None:
            with reading(path), path.open("rb") as stream:
                content = stream.read(LARGEST_BYTES + 1)
            if len(content) > LARGEST_BYTES:
                raise RecordError(f"{path} is larger than 256 MiB, so ratchet did not write it.", "Check the path.")
            record = loads(content, str(path), record_type)
    for cases in (record.cases, record.best, record.anchors) if isinstance(record, RunRecord) else ():
        if twins := [name for name, count in Counter(case.name for case in cases).items() if count > 1]:
            raise RecordError(f"{path}: two of its cases have the same name, {_quoted(twins[0])}.", _UNDO)
    return cast(AnyRecord, record)


def loads(content: bytes, name: str, record_type: type[AnyRecord], context: Mapping[str, object] | None = None) -> AnyRecord:
    """Read a record from the bytes of its file. Raises RecordError as `load` does, which calls the file ``name``."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{name} is not UTF-8 text (byte {error.start}).", _UNDO) from None
    _check(name, text, record_type)
    try:
        # The text again, because JSON mode is the strict one that still knows dates, tuples and enumerations.
        return record_type.model_validate_json(text, strict=True, context=context)
    except ValidationError as error:
        raise RecordError(_explain(name, parse_json(name, text), error), _UNDO) from None


def save(path: Path, record: Record) -> None:
    """Write a record, as `save_text` does."""
    save_text(path, dumps(record))


def save_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, as `save_bytes` does."""
    save_bytes(path, text.encode())


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file: afterwards it is the whole new one or, after any error, exactly what it was. Raises OutputError."""
    with replaced(path) as temporary:
        _write_new(temporary, content)


def _write_new(path: Path, content: bytes) -> None:
    # Not the tempfile module, whose files only their owner may read.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor has no path
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def save_together(contents: Mapping[Path, str]) -> None:
    """Write texts that belong together: all, or none where one cannot be written. Raises OutputError as `save_text` does.

    Ctrl-C comes before the first file is replaced or after the last: a run never stands beside the report of another.
    """
    with uninterrupted(), contextlib.ExitStack() as stack:
        for path, text in contents.items():
            _write_new(stack.enter_context(replaced(path)), text.encode())


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path to write to; the file then takes the place of ``path``, unless an error came. Raises OutputError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OutputError(f"{path} is not a regular file.", "Choose another path.")
        try:
            yield temporary
            os.replace(temporary, path)  # noqa: PTH105 - the call that is atomic, by its own name
            WRITTEN[path] = None
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Check its folder's permissions and the free space, then run again.",
        ) from error


def save_over(path: Path, record: Record) -> None:
    """Write a record as `save` does, but never over a file that `load` refuses: it may still be worth something to somebody.

    Raises RecordError where the present file is unreadable, OutputError where writing fails.
    """
    if os.path.lexists(path):
        try:
            load(path, type(record))
        except RecordError as error:
            raise RecordError(f"{error.message} It was left as it is.", error.hint) from error
    save(path, record)


def file_stem(case: str) -> str:
    """Return a plain file name for any case: ``attention.training_512`` for ``attention/training_512``."""
    stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", case.replace("/", ".")).lstrip(".") or "case"
    if case.isascii() and len(stem) <= 150:
        return stem
    return f"{stem[:141]}-{hashlib.sha256(case.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def dumps(record: Record) -> str:
    """Return the text of a record's file: one field a line, plain arrays and the cases of a run on one line, a final newline."""
    pieces: list[str] = []
    with _gc_paused():
        document = record.model_dump(mode="json")
        _put(document, "\n", pieces.append, LISTS if isinstance(record, RunRecord) else ())
    return "".join([*pieces, "\n"])


@contextlib.contextmanager
def _gc_paused() -> Iterator[None]:
    """Switch garbage collection off: among millions of new values, none of which is garbage, it takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def reading(path: Path, if_missing: str = "Check the path, or measure first.") -> Iterator[None]:
    """Turn errors of the system into a RecordError that names the file; ``if_missing`` says what to do where there is none."""
    try:
        yield
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist.", if_missing) from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}.", "Check the path and its permissions.") from error


def _check(path: str, text: str, record_type: type[Record]) -> None:
    """Refuse text that cannot be a record, before its fields are checked. Raises RecordError."""
    document = parse_json(path, text)
    if not isinstance(document, dict):
        raise RecordError(f"{path} does not hold a JSON object.", _UNDO)
    if "schema_version" in record_type.model_fields:
        version = document.get("schema_version")
        if version is None:
            raise RecordError(f"{path}: schema_version is missing, so this file is not from ratchet.", "Check the path.")
        if type(version) is not int:  # True would pass for 1
            raise RecordError(f"{path}: schema_version is {_quoted(version)}, not a whole number.", _UNDO)
        if version > SCHEMA_VERSION:
            versions = f"schema {version}, this one reads {SCHEMA_VERSION}"
            raise RecordError(f"{path} was written by a newer ratchet ({versions}).", "Upgrade ratchet.")
        wanted, wanted_keys = _KINDS.get(record_type.__name__, ("", set()))
        found = next((what for what, keys in _KINDS.values() if keys <= document.keys()), None)
        if found and not wanted_keys <= document.keys():
            raise RecordError(f"{path} is {found}.", f"Give {wanted}.")


_KINDS: dict[str, tuple[str, set[str]]] = {
    "earlier evaluation": ("a certificate of an earlier version, which this one cannot check", {"probes", "slope"}),
    "EvaluationRecord": ("a certificate: `ratchet evaluate --certify FILE` writes one", {"observed", "seals"}),
    "RunRecord": ("a recorded run, such as current.json", {"kind", "plan", "cases"}),
    "ReportRecord": ("the verdict of a run (report.json), without its samples", {"verdict", "headline"}),
    "Baseline": ("a baseline (baseline.json)", {"fingerprints"}),
    "Calibration": ("a calibration (calibration.json)", {"holds", "gate"}),
}
"""Name of a record's class → what its file is, and the fields that tell it from the others."""


TWICE = "given twice"
"""Stands for the values of a field that a foreign file gives twice in one object: nobody knows which one is meant."""


def parse_json(path: str, text: str | bytes, hint: str = _UNDO, *, foreign: bool = False) -> Any:
    """Return a JSON document in which every number is one, and no field stands twice in one object. Raises RecordError.

    A ``foreign`` one, of another program, may hold NaN and infinity, as Python, C and Google Benchmark (``-NaN``) write them,
    numbers of any length, control characters in its texts, as Google Benchmark writes them, and fields that are given twice.
    """

    def refuse_number(name: str) -> NoReturn:
        raise RecordError(f"{path} contains {name}, which is not a JSON number.", hint)

    def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            if foreign:
                return fields | {name: TWICE for name, count in Counter(name for name, _ in pairs).items() if count > 1}
            twin = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise RecordError(f"{path}: the field {_quoted(twin)} stands twice in one object.", hint)
        return fields

    constant, whole = (None, _whole) if foreign else (refuse_number, None)
    try:
        return json.loads(text, parse_constant=constant, parse_int=whole, object_pairs_hook=refuse_twins, strict=not foreign)
    except json.JSONDecodeError as error:
        if foreign and (renamed := _NOT_FINITE.sub(_as_python_writes_it, str(text))) != text:
            return parse_json(path, renamed, hint, foreign=True)
        place = f"line {error.lineno}, column {error.colno}"
        if error.msg == "Extra data":
            rest = clean(str(text[error.pos : error.pos + 40]), 40)
            raise RecordError(f"{path} goes on after its JSON document, at {place}: {rest!r}.", hint) from None
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
        truncated = " The file seems to be cut off there." if cut else ""
        raise RecordError(f"{path} is not JSON: {error.msg.removesuffix(' at')} at {place}.{truncated}", hint) from None
    except (ValueError, RecursionError):
        raise RecordError(
            f"{path} cannot be read: it has a number of thousands of digits, or is nested too deeply.", hint
        ) from None


_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*+"?|(-?)(?:(nan)|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL)
"""A text, which stays as it is even where its end is missing, or a number that is not finite."""


def _as_python_writes_it(found: re.Match[str]) -> str:
    sign, is_nan = found.groups()
    return found[0] if sign is None else "NaN" if is_nan else f"{sign}Infinity"


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)  # Python's int refuses thousands of digits


def _explain(path: str, document: dict[str, Any], error: ValidationError) -> str:
    details = error.errors(include_url=False)
    first = details[0]
    place = _place(first, document)
    others = {_place(detail, document) for detail in details} - {place}
    more = f" (and {len(others)} more place{'' if len(others) == 1 else 's'})" if others else ""
    alternatives = len([detail for detail in details if _place(detail, document) == place])
    return f"{path}: {place}{': ' if place else ''}{_problem(first, alternatives)}{more}."


def _problem(detail: ErrorDetails, alternatives: int) -> str:
    if detail["type"] == "missing":
        return "the field is missing"
    if detail["type"] == "extra_forbidden":
        return "unknown field"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    wanted = "a value of an unexpected kind" if alternatives > 1 else detail["msg"]
    shown = not isinstance(detail["input"], dict | list) and detail["type"] != "json_invalid"
    return f"{wanted}: found {_quoted(detail['input'])}" if shown else wanted


def _place(detail: ErrorDetails, document: dict[str, Any]) -> str:
    """Name the place: ``fingerprints.x.configs.attention/training_512.median_ms``; without pydantic's names for branches."""
    place = ""
    here: Any = document
    for step in detail["loc"]:
        within = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if within or (isinstance(here, dict) and step in here):
            here = here[step]
        elif isinstance(here, list) and isinstance(step, str):
            continue  # pydantic's name of a branch
        elif detail["type"] != "missing":
            break
        place += f"[{step}]" if isinstance(step, int) else f".{clean(step, 80)}" if place else clean(step, 80)
    return place


def _quoted(value: object) -> str:
    return clean(json.dumps(value, ensure_ascii=False), 80)


def _put(value: Any, newline: str, put: Callable[[str], None], by_line: Collection[str] = ()) -> None:
    """Pass pieces of JSON to ``put``; ``newline`` carries the indentation of the line that ``value`` stands on.

    Each entry of the lists of these names stands on one line.
    """
    inner = f"{newline}  "
    if isinstance(value, dict) and value:
        between = f"{{{inner}"
        for key, entry in value.items():
            put(f"{between}{_text_of_key(key)}: ")
            if key in by_line and entry:
                lines = f",{inner}  ".join(map(_text, entry))
                put(f"[{inner}  {lines}{inner}]")
            else:
                _put(entry, inner, put)
            between = f",{inner}"
        put(f"{newline}}}")
    elif isinstance(value, list) and not _NOT_PLAIN.isdisjoint(map(type, value)):
        between = f"[{inner}"
        for entry in value:
            put(between)
            _put(entry, inner, put)
            between = f",{inner}"
        put(f"{newline}]")
    else:
        put(_text(value))


_NOT_PLAIN = frozenset({dict, list, str})
"""An array of these has a line for each."""
_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_text_of_key = functools.lru_cache(4096)(_text)
"""Most keys are names of fields, of which there are few."""


LISTS = ("cases", "best", "anchors")
"""The fields of a run that hold cases, each on one line."""
LARGEST_LINE = 16 * 2**20
"""Bytes of the longest line that is read; a case of 200 pairs takes a hundredth of it."""


def run_of_lines(
    stream: BinaryIO, name: str, largest_bytes: int, *, keep: bool = True, context: Mapping[str, object] | None = None
) -> RunRecord | None:
    """Read a run of at most ``largest_bytes`` bytes, holding the text of one case at a time; without ``keep`` no samples either.

    None where the text is larger, or laid out in another way than `dumps` does. Raises RecordError as `load` does.
    """
    around: list[bytes] = []
    lists: dict[str, list[CaseRun]] = {}
    field, goes_on = "", False  # the list that is open, and whether a comma followed its last case
    while line := stream.readline(LARGEST_LINE):
        largest_bytes -= len(line)
        closes = line in (b"  ]\n", b"  ],\n")
        if largest_bytes < 0 or not line.endswith(b"\n") or (field and closes == goes_on):
            return None
        if not field or closes:
            around.append(line)
            opened = next((one for one in LISTS if line == f'  "{one}": [\n'.encode()), "")
            if opened in lists:
                return None
            field, goes_on = opened, True
            if opened:
                lists[opened] = []
            continue
        text = line.rstrip()
        goes_on = text.endswith(b"},")
        if not text.endswith((b"}", b"},")):
            return None
        case = loads(text.removesuffix(b","), f"{name}: {field}[{len(lists[field])}]", CaseRun, context)
        lists[field].append(case if keep else case.model_copy(update={"head": (), "reference": ()}))
    if "cases" not in lists or field:
        return None
    record = loads(b"".join(around), name, RunRecord)
    if any(getattr(record, one) for one in lists):  # such a list stood in another field
        return None
    return record.model_copy(update={one: tuple(cases) for one, cases in lists.items()})
