"""Artifacts of somebody who wants to fill, crash or steer a trusted job: archives as GitHub serves them, and records in them.

Each is made from a good record of the job that is attacked, so that nothing but the attack is wrong with it. `poisons.py` has
more for the job that publishes alone: what is shown, and what must never be green.
"""

from __future__ import annotations

import base64
import copy
import functools
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ratchet.core.records.run import CaseRun

Json = dict[str, Any]
Build = Callable[[Json, str], bytes]
"""Makes an archive from a good record and the name that its file has in the artifact."""
RUNS = ("publish", "baseline")
"""Jobs that read a run, each in its own way; the others are given those of `later_archives` and `later_runs`."""
EVERY_RUN = (*RUNS, "queue", "models", "notify")
NUMBER = 918273645
"""Stands in a record where a raw text is to stand."""
MIB = 2**20


@dataclass(frozen=True)
class Attack:
    """One artifact."""

    name: str
    build: Build
    said: str
    """Part of the sentence that refuses it; empty where it is harmless and taken in."""
    jobs: tuple[str, ...] = (*RUNS, "propose")


def attacks() -> list[Attack]:
    """Every artifact that is tried on every job that reads one."""
    everywhere = [replace(attack, jobs=(*attack.jobs, "static")) for attack in archives()]
    return [*everywhere, *texts(), *records(), *runs(), *lines(), *sides(), *searches(), *later_archives(), *later_runs()]


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return stream.getvalue()


@functools.cache
def _empty(count: int) -> bytes:
    """So many empty entries; one archive for all jobs, since it takes longer than any of them."""
    return packed(*((f"{number}", b"") for number in range(count)))


def text_of(document: Json) -> bytes:
    return json.dumps(document).encode()


def put(document: Json, where: str, value: object) -> Json:
    """A copy with another value in one place."""
    made = copy.deepcopy(document)
    *above, last = [int(step) if step.isdigit() else step for step in where.split(".")]
    here: Any = made
    for step in above:
        here = here[step]
    here[last] = value
    return made


# Archives.


def archives() -> Iterator[Attack]:
    ours = "a name that no file of ours has"
    for name in ("/etc/cron.d/x", "../../.ssh/id", "tuning/../../x.json", "~/.bashrc", ".git/hooks/x", "C:/x", "-rf", ".."):
        yield Attack(f"an entry called {name}", _beside(_entry(name)), ours)
    for name in ("//host/evil", "./x", "a//b", "a/./b", "nsight/../current.json", "x\u202ey", "a\nb"):
        yield Attack(f"an entry called {name!a}", _beside(_entry(name)), ours, ("publish",))
    yield Attack("an entry that commands the runner", _beside(_entry("::set-env name=PATH::x")), ours)
    yield Attack("an entry of 60,000 characters", _beside(_entry("x" * 60_000)), ours)
    yield Attack("folders in folders", _beside(_entry("a/" * 40 + "x")), ours)
    yield Attack("an entry with a backslash", _beside(_entry("..\\x")), "a backslash or a null")
    yield Attack("an entry with a null", _beside(_entry("x.json\0.png")), "a backslash or a null")
    for kind, mode in (
        ("symbolic link", 0o120777),
        ("device", 0o020666),
        ("disk", 0o060666),
        ("pipe", 0o010666),
        ("socket", 0o140666),
    ):
        yield Attack(f"a {kind}", _beside(_entry("x.json", mode)), "is not an ordinary file")
    yield Attack("a folder that is a file", _beside(_entry("x/", 0o100644)), "is not an ordinary file", ("publish",))
    yield Attack("its record is a link", lambda _, name: packed((_entry(name, 0o120777), b"/etc/passwd")), "is not an ordinary")
    yield Attack("its record is a folder", lambda _, name: packed((f"{name}/", b"")), "The artifact h")
    yield Attack("nothing but folders", lambda *_: packed(("tuning/", b""), ("nsight/", b"")), "The artifact h")
    for count in (2_001, 60_000):
        yield Attack(f"{count} entries", lambda *_, count=count: _empty(count), "more than 2000")
    yield Attack("its record twice", lambda good, name: _twice(text_of(good), name), "one name twice")
    yield Attack("a flat bomb", lambda good, name: packed((name, text_of(good)), ("x", bytes(90 * MIB))), "unpacks to far more")
    yield Attack("a bomb for a record", lambda good, name: packed((name, text_of(good) + b" " * 90 * MIB)), "unpacks to far more")
    yield Attack("a bomb of a smaller ratio", lambda good, name: packed((name, text_of(good) + _ragged(170))), " MiB")
    yield Attack("a nested bomb", lambda good, name: packed((name, text_of(good)), ("x.zip", _nested())), "")
    yield Attack("an archive within", lambda good, name: packed(("x.zip", packed((name, text_of(good))))), "The artifact h")
    yield Attack("entries that overlap", lambda good, name: _overlapping(text_of(good), name), "holds more than 2 GiB")
    yield Attack("another method", lambda good, name: packed((name, text_of(good)), method=zipfile.ZIP_LZMA), "by a method that")
    for name, edit, said in (
        ("a wrong checksum", lambda raw: _with(raw, 16, struct.pack("<I", zlib.crc32(b"x"))), "damaged"),
        ("an encrypted record", lambda raw: _with(raw, 8, b"\1"), "is encrypted"),
        ("a size that is a lie", lambda raw: _with(raw, 24, struct.pack("<I", 10)), "damaged"),
        ("a size of 4 GiB", lambda raw: _with(raw, 24, struct.pack("<I", 2**32 - 2)), "unpacks to far more"),
        ("a size in zip64 that is missing", lambda raw: _with(raw, 24, struct.pack("<I", 2**32 - 1)), "unpacks to far more"),
        ("a list in zip64", _in_zip64, "more than 2000 entries"),
        ("a list of 2 GiB", lambda raw: raw[:-10] + struct.pack("<I", 2**31) + raw[-6:], "more than 2000 entries"),
        ("a list that is cut off", lambda raw: raw[: len(raw) // 2] + raw[-22:], "is not a zip archive"),
        ("an archive cut off", lambda raw: raw[:-30], "is not a zip archive"),
        ("another name beside its data", lambda raw: raw[:30] + b"x" + raw[31:], "damaged"),
        ("a second archive in its comment", _with_second, "The artifact h"),
        ("several disks", lambda raw: raw[:-18] + b"\1\0\1\0" + raw[-14:], ""),
        ("a program before it", lambda raw: b"#!/bin/sh\nexit\n" + raw, ""),
        ("a program and no archive", lambda _: b"#!/bin/sh\n", "is not a zip archive"),
        ("an empty file", lambda _: b"", "is not a zip archive"),
    ):
        yield Attack(name, lambda good, name, edit=edit: edit(packed((name, text_of(good)))), said)
    yield Attack("an empty archive", lambda *_: packed(), "The artifact h")


def _beside(entry: zipfile.ZipInfo) -> Build:
    return lambda good, name: packed((name, text_of(good)), (entry, b"/etc/passwd"))


def _entry(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo("x")
    made.filename = made.orig_filename = name  # as written, whatever zipfile makes of it
    made.external_attr = mode << 16
    return made


def _ragged(mebibytes: int) -> bytes:
    """Blanks that pack to less than the ratio of a bomb."""
    lines = b"".join(b" " * (number % 61) + b"\n" for number in range(1, 6001))
    return lines * (mebibytes * MIB // len(lines))


def _twice(text: bytes, name: str) -> bytes:
    other = name[:-1] + "X"
    return packed((name, text), (other, b"{}")).replace(other.encode(), name.encode())


def _nested() -> bytes:
    inner = packed(("x.bin", bytes(50 * MIB)))
    return packed(*((f"{number}.zip", inner) for number in range(10)))


def _overlapping(text: bytes, name: str) -> bytes:
    """A list of many entries that all are the one file of 20 MiB: https://www.bamsoftware.com/hacks/zipbomb/"""
    raw = packed((name, text), ("x0000", _ragged(20)))
    first, start = raw.index(b"PK\x01\x02"), raw.rindex(b"PK\x01\x02")
    row, end = raw[start:-22], raw[-22:]
    rows = b"".join(row.replace(b"x0000", b"x%04d" % number) for number in range(1_000))
    count = struct.pack("<HHI", 1_001, 1_001, start - first + len(rows))
    return raw[:start] + rows + end[:8] + count + end[16:]


def _with_second(raw: bytes) -> bytes:
    """With an archive in its comment, whose end is the last."""
    other = packed(("x.json", b"{}"))
    return raw[:-2] + struct.pack("<H", len(other)) + other


def _with(raw: bytes, offset: int, value: bytes) -> bytes:
    """Change the list's first row."""
    place = raw.index(b"PK\x01\x02") + offset
    return raw[:place] + value + raw[place + len(value) :]


def _in_zip64(raw: bytes) -> bytes:
    """With the two records of zip64 before the end, which say that there are four billion entries."""
    count = 2**32
    end = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, 2**40, 0)
    return raw[:-22] + end + struct.pack("<4sIQI", b"PK\x06\x07", 0, len(raw) - 22, 1) + raw[-22:]


# Texts that are no record, packed without compression: then a large one is no bomb.


def texts() -> Iterator[Attack]:
    for name, edit, said in (
        ("an empty record", lambda _: b"", "is not JSON"),
        ("a record cut off", lambda text: text[: len(text) // 2], "is not JSON"),
        ("a record and more", lambda text: text + text, "goes on after its JSON document"),
        ("a list", lambda text: b"[" + text + b"]", "does not hold a JSON object"),
        ("a pickle", lambda _: b"\x80\x04cos\nsystem\n(S'id'\ntR.", "is not UTF-8"),
        ("UTF-16", lambda text: text.decode().encode("utf-16"), "is not UTF-8"),
        ("a byte-order mark", lambda text: b"\xef\xbb\xbf" + text, "is not JSON"),
        ("a hundred thousand lists", lambda _: b"[" * 100_000, "nested too deeply"),
        ("3 MB of objects in each other", lambda _: b'{"a":' * 600_000, "nested too deeply"),
        ("a field twice", lambda text: text[:-1] + b', "schema_version": 1}', "twice"),
        ("300,000 fields", lambda text: text[:-1] + b"".join(b',"x%d":0' % n for n in range(300_000)) + b"}", "unknown field"),
        ("a million zeros", lambda text: text[:-1] + b',"x":[' + b"0," * 1_000_000 + b"0]}", "unknown field"),
    ):
        yield Attack(name, lambda good, name, edit=edit: stored(name, edit(text_of(good))), said)
    for name, raw, said in (
        ("invalid UTF-8", b'"\xc3\x28\xff"', "is not UTF-8"),
        ("an overlong slash", b'"\xc0\xaf"', "is not UTF-8"),
        ("a lone surrogate", b'"\\ud800"', "Invalid JSON"),
        ("a surrogate in UTF-8", b'"\xed\xa0\x80"', "is not UTF-8"),
        ("raw control characters", b'"a\x00b\x1b[31m\x07"', "is not JSON"),
        ("escaped control characters", b'"a\\u0000b\\u001b[2J\\u0007\\r::error::x"', ""),
        ("a text of 3 MB", b'"' + b"x" * 3_000_000 + b'"', "holds a text of 3000000 characters"),
        ("lists in each other in a field", b"[" * 5_000 + b"]" * 5_000, "nested too deeply"),
    ):
        yield Attack(name, _written(SOME_TEXT, raw), said)
    for name, raw, said in (
        ("a number of 5,000 digits", b"9" * 5_000, "thousands of digits"),
        ("a number of 3 MB", b"9" * 3_000_000, "thousands of digits"),
        ("an exponent of 400 digits", b"1e" + b"9" * 400, "finite number"),
        ("1e400", b"1e400", "finite number"),
        ("1e300", b"1e300", "a number beyond 1e30"),
        ("NaN", b"NaN", "contains NaN"),
        ("Infinity", b"-Infinity", "contains -Infinity"),
        ("a negative number", b"-1", "greater than or equal to 0"),
    ):
        yield Attack(name, _written(SOME_NUMBER, raw), said)


SOME_NUMBER, SOME_TEXT = "environment.fingerprint.gpu_power_limit_w", "environment.python"
"""Places that records of runs and of searches have."""
MEMORY = "cannot be read in 512 MiB of memory"
LAYOUT = "does not have one case a line"


def stored(name: str, text: bytes) -> bytes:
    return packed((name, text), method=zipfile.ZIP_STORED)


def _written(where: str, raw: bytes) -> Build:
    """Write a raw text into one place."""
    return lambda good, name: stored(name, text_of(put(good, where, NUMBER)).replace(b"%d" % NUMBER, raw))


def _filled(where: str, piece: bytes, times: int) -> Build:
    """Fill a list with a raw text."""

    def build(good: Json, name: str) -> bytes:  # not before: the whole list may be large
        return _written(where, b"[" + b",".join([piece] * times) + b"]")(good, name)

    return build


def _made(edit: Callable[[Json], object]) -> Build:
    """Change a copy of the record."""

    def build(good: Json, name: str) -> bytes:
        document = copy.deepcopy(good)
        edit(document)
        return stored(name, text_of(document))

    return build


def _set(where: str, value: object) -> Build:
    return lambda good, name: stored(name, text_of(put(good, where, value)))


# Records of another kind, version or commit.


def records() -> Iterator[Attack]:
    for version in (2, 10**40, 0, -1, True, "1", 1.0, None, [1]):
        said = "a newer ratchet" if isinstance(version, int) and version > 1 else "schema_version"
        yield Attack(f"schema_version {version!r:.9}", _set("schema_version", version), said)
    yield Attack("no version", _made(lambda good: good.pop("schema_version")), "schema_version is missing")
    yield Attack("a verdict of its own", _made(lambda good: good.update(exit_code=0)), "unknown field")
    yield Attack("a field of Python", _made(lambda good: good.update(__class__="x")), "unknown field")
    yield Attack("a text for a number", _set("environment.gpu_index", "0; rm -rf /"), "valid integer")
    yield Attack("a list for an object", _set("environment", []), "environment")
    yield Attack("another record", lambda _, name: stored(name, b'{"schema_version": 1, "profiles": []}'), "the field is missing")
    for name, commit in (
        ("another commit", "4e" * 20),
        ("no commit", ""),
        ("a branch", "refs/heads/main"),
        ("an option of git", "--upload-pack=touch /tmp/x"),
        ("a path", "../../../etc/passwd"),
    ):
        yield Attack(f"a record of {name}", _set("head.commit", commit), commit[:10] or "no commit")


# Runs.


def runs() -> Iterator[Attack]:
    for name, edit, said in (
        ("5,001 cases", lambda run: run.update(cases=_cases(run, 5_001)), "5001 cases"),
        ("a case twice", lambda run: run["cases"].append(run["cases"][0]), "have the same name"),
        ("a case called ../../x", lambda run: run["cases"][0].update(name="../../x"), "a name that no case can have"),
        ("a case of neither side", lambda run: run["cases"][0].update(in_head=False, in_reference=False), "on neither side"),
        ("a shard", lambda run: run.update(shard={"number": 1, "of": 9}), "merge all shards"),
        ("a plan of a million pairs", lambda run: run["plan"].update(pairs=10**6), "more than any run takes"),
        ("pairs of one side", lambda run: run["cases"][0]["head"].pop(), "one side alone"),
        ("figures of its own", lambda run: run["cases"][0]["performance"].update(median_time_ms=1e-6), ""),
    ):
        yield Attack(name, _made(edit), said, RUNS)
    block = b'{"index":0,"position":0,"samples_ms":[1]}'
    case = b'{"name":"a/b","benchmark":"a","config":{"name":"b"}}'
    failure = b'{"side":"head","stage":"build","message":"x"}'
    wide = "x" * 2_000 + "\U0001f600" * 2_000
    for name, where, piece, times, said in (
        ("a case of a million samples", "cases.0.head.0.blocks.0.samples_ms", b"1.0", 1_000_000, ""),
        ("30 million samples", "cases.0.head.0.blocks.0.samples_ms", b"1", 30_000_000, LAYOUT),
        ("a million and a half of blocks", "cases.0.head.0.blocks", block, 1_500_000, LAYOUT),
        ("a hundred thousand blocks", "cases.0.head.0.blocks", block, 120_000, "twice"),
        ("three million empty objects", "cases.0.head.0.blocks", b"{}", 3_000_000, LAYOUT),
        ("a million cases", "cases", case, 1_000_000, LAYOUT),
        ("two million warnings", "warnings", b'""', 2_000_000, "holds more than"),
        ("100,000 warnings", "warnings", b'"x"', 100_000, "100000 warnings"),
        ("warnings of 60 MB", "warnings", b'"' + b"x" * 9_000 + b'"', 6_900, LAYOUT),
        ("warnings of wide characters", "warnings", f'"{wide}"'.encode(), 4_000, ""),
        ("a million failures", "cases.0.failures", failure, 1_000_000, LAYOUT),
        (
            "2,000 failures",
            "cases.0.failures",
            failure,
            2_000,
            "more than 1000 failures",
        ),
    ):
        # What is refused is refused by `take_in`, before either job does anything of its own: seconds and memory are spent once.
        yield Attack(name, _filled(where, piece, times), said, ("publish",) if said else RUNS)


# Runs as `ratchet check` writes them: one case a line, the samples of a side in one text.


def by_line(run: Json, edit: Callable[[list[bytes]], list[bytes]] = lambda cases: cases) -> bytes:
    """The text of a run with its cases on lines of their own, which are ``edit``'s to change."""
    whole = {**run, "cases": [packed_case(case) for case in run["cases"]]}
    rest = {name: value for name, value in whole.items() if name not in ("cases", "best", "anchors")}
    fields = [f"  {json.dumps(name)}: {json.dumps(value)}".encode() for name, value in rest.items()]
    cases = b",\n    ".join(edit([json.dumps(case).encode() for case in whole["cases"]]))
    return b"{\n" + b",\n".join([*fields, b'  "cases": [\n    ' + cases + b"\n  ]"]) + b"\n}\n"


def packed_case(case: Json) -> Json:
    """The case with its samples packed."""
    made: Json = json.loads(CaseRun.model_validate_json(json.dumps(case), strict=True).model_dump_json())
    return made


def lines() -> Iterator[Attack]:
    """What a reader of lines may get wrong, or be filled with."""
    for name, edit, said in (
        ("cases by line", lambda cases: cases, ""),
        ("a case by line twice", lambda cases: cases * 2, "have the same name"),
        ("an empty line among cases", lambda cases: [cases[0], b""], "is not JSON"),
        ("a list for a case", lambda cases: [cases[0], b"[]"], "cases"),
        ("a case of two lines", lambda cases: [cases[0].replace(b", ", b",\n", 1)], ""),
        ("a comma and nothing", lambda cases: [cases[0] + b","], "is not JSON"),
        ("two cases on a line", lambda cases: [cases[0] + b", " + cases[0]], "goes on after its JSON document"),
        ("the end of the list within", lambda cases: [cases[0] + b'\n  ],\n  "best": [\n    ' + cases[0]], ""),
        ("a list opened twice", lambda cases: [cases[0] + b'\n  ],\n  "cases": [\n    ' + cases[0]], "twice"),
        ("a field twice in a line", lambda cases: [cases[0][:-1] + b', "name": "a/b"}'], "twice"),
        ("5,001 lines", lambda cases: cases + [_named(cases[0], n) for n in range(5_000)], "5001 cases"),
        ("50,000 lines", lambda cases: [_named(cases[0], n) for n in range(50_000)], MEMORY),
        ("a line of 20 MB", lambda cases: [cases[0][:-1] + b" " * 20 * MIB + b"}"], LAYOUT),
        (
            "a line of a million objects",
            lambda cases: [cases[0][:-1] + b', "failures": [' + b"{}," * 1_000_000 + b"{}]}"],
            "failures",
        ),
        ("a line of five million lists", lambda cases: [_with_list(cases[0], "lost", b"[]", 5 * 10**6)], MEMORY),
        ("a line of 100,000 lists in each other", lambda cases: [cases[0][:-1] + b', "lost": ' + b"[" * 100_000], "nested"),
        ("a line that is no UTF-8", lambda cases: [cases[0].replace(b"training", b"\xff\xfe")], "is not UTF-8"),
        (
            "a name nobody sees",
            lambda cases: [cases[0].replace(b"training_512", "\u3164".encode())],
            "a name that no case can have",
        ),
        ("a line that commands", lambda cases: [b"::error::x\n    " + cases[0]], "is not JSON"),
        ("an unknown field in a line", lambda cases: [cases[0][:-1] + b', "verdict": "pass"}'], "unknown field"),
    ):
        build = functools.partial(_by_line, edit)
        yield Attack(name, build, said, RUNS)
    yield Attack("lines with other ends", lambda run, name: stored(name, by_line(run).replace(b"\n", b"\r\n")), "", RUNS)
    yield Attack("lines cut off", lambda run, name: stored(name, by_line(run)[:-9]), "is not JSON", RUNS)
    yield Attack(
        "something after the lines", lambda run, name: stored(name, by_line(run) + b"{}"), "goes on after its JSON document", RUNS
    )
    yield Attack("a line without an end", lambda run, name: stored(name, by_line(run).replace(b"\n", b"")), "", RUNS)


def _by_line(edit: Callable[[list[bytes]], list[bytes]], run: Json, name: str) -> bytes:
    return stored(name, by_line(run, edit))


def _named(case: bytes, number: int) -> bytes:
    return json.dumps(json.loads(case) | {"name": f"b{number}/c", "head": EMPTY, "reference": EMPTY}).encode()


def _with_list(case: bytes, field: str, piece: bytes, times: int) -> bytes:
    return case.replace(f'"{field}": []'.encode(), f'"{field}": ['.encode() + b",".join([piece] * times) + b"]")


def side_of(described: bytes, planes: bytes = b"") -> str:
    return base64.b64encode(zlib.compress(described + b"\n" + planes)).decode()


PACKED = "not as ratchet packs them"
EMPTY = side_of(b"[6,0,1,[]]")
ROW = b"[0,true,0.4,1,0.0,{},[],0,false,[[0,0,1,false,false]]]"
ONE = (1_000_000).to_bytes(8, "little")
"""A sample of a millisecond, in nanoseconds."""


def one(row: bytes, planes: bytes = b"") -> str:
    """A side of one worker."""
    return side_of(b"[6,0,1,[" + row + b"]]", planes)


def sides() -> Iterator[Attack]:
    """What a packed side may hold."""
    entries: list[tuple[str, str | Callable[[], str], str]] = [
        ("no text of ours", "%%%", PACKED),
        ("nothing compressed", "AAAA", PACKED),
        ("nothing", "", PACKED),
        ("a bomb of zeros", _zeros, "more than 32 MiB"),
        ("a bomb of lists", lambda: side_of(b"[6,0,1,[" + b"[]," * 10_000_000 + b"[]]]"), ""),
        ("samples without a block", side_of(b"[6,0,1,[]]", ONE * 9), "not as many as the blocks have"),
        ("blocks without samples", one(ROW), "not as many as the blocks have"),
        (
            "a block of a negative length",
            side_of(b"[6,0,1,[" + ROW.replace(b"[0,0,1", b"[0,0,-1") + b"]]"),
            "as ratchet packs them",
        ),
        ("a length of 2^63", one(ROW.replace(b"[0,0,1", b"[0,0,9223372036854775808")), "not as many"),
        (
            "a pair of 2^80",
            side_of(b"[6,0,1,[" + ROW.replace(b"[0,true", b"[%d,true" % 2**80) + b"]]", ONE),
            "as ratchet packs them",
        ),
        ("a sample of no time", one(ROW, bytes(8)), "is not between"),
        ("a sample before its start", one(ROW, b"\xff" * 8), "is not between"),
        ("a sample that is not a number", side_of(b"[0,0,1,[" + ROW + b"]]", b"\xff" * 8), "is not between"),
        (
            "a step that overflows",
            side_of(b"[6,1,4503599627370496,[" + ROW + b"]]", b"\x7f" * 8),
            "is not between",
        ),
        ("99 decimals", side_of(b"[99,0,1,[" + ROW + b"]]", ONE), PACKED),
        ("half a sample", one(ROW, ONE + b"x"), "not as many as the blocks have"),
        ("a second text behind it", base64.b64encode(base64.b64decode(EMPTY) * 2).decode(), "not as many as the blocks have"),
        ("four million samples", lambda: one(ROW.replace(b"[0,0,1,", b"[0,0,4000000,"), ONE * 4_000_000), ""),
        (
            "a stage with a name of 3 MB",
            side_of(b"[6,0,1,[" + ROW.replace(b"{}", b'{"' + b"x" * 3_000_000 + b'":[]}') + b"]]", ONE),
            "packs them",
        ),
        ("an error of infinity", one(ROW.replace(b"0.0,{", b"1e999,{"), ONE), PACKED),
    ]
    for name, text, said in entries:
        build = functools.partial(_with_side, text)
        yield Attack(f"a side of {name}", build, said, RUNS if said else ("publish",))


def _zeros() -> str:
    return base64.b64encode(zlib.compress(bytes(400 * MIB), 9)).decode()


def _with_side(text: str | Callable[[], str], run: Json, name: str) -> bytes:
    """``text``: what makes it, if that takes long."""

    def edit(cases: list[bytes]) -> list[bytes]:
        return [json.dumps(json.loads(cases[0]) | {"head": text if isinstance(text, str) else text()}).encode(), *cases[1:]]

    return stored(name, by_line(run, edit))


def _cases(run: Json, count: int) -> list[Json]:
    return [run["cases"][0] | {"name": f"b{number}/c", "head": [], "reference": []} for number in range(count)]


# Searches.


def searches() -> Iterator[Attack]:
    for name, edit, said in (
        ("a case called ../../x", lambda record: record.update(case="../../x"), "an impossible name"),
        ("a case of another benchmark", lambda record: record.update(case="a/b"), "an impossible name"),
        ("a GPU called ../../x", lambda record: record["environment"]["fingerprint"].update(gpu="../../x\n@octocat"), ""),
        ("a verdict that mentions", lambda record: record.update(verdict="@octocat fixes #1 <img src=x>"), ""),
        ("a best that nobody confirmed", lambda record: record.update(confirmations=[]), "never confirmed"),
        ("a value outside the space", lambda record: record["default"].update(BLOCK_M=7), "not in the space"),
        ("a million texts", lambda record: record.update(constraints=["x"] * 1_100_000), " MiB"),
        ("700,000 texts", lambda record: record.update(constraints=["x"] * 700_000), ""),
        ("as many evaluations as fit", lambda record: record.update(evaluations=_evaluations(record, 3.9)), ""),
        ("an evaluation of many samples", lambda record: record["evaluations"][0].update(samples_ms=[1] * 1_300_000), ""),
    ):
        yield Attack(name, _made(edit), said, ("propose",))
    for count, said in ((4, ""), (5, "16 MiB"), (51, "more than 50 records")):
        yield Attack(f"{count} searches", lambda good, _, count=count: _several(good, count), said, ("propose",))


def _evaluations(record: Json, mebibytes: float) -> list[Json]:
    least = {"configuration": record["default"], "outcome": "crash", "reason": "x", "at": "2026-01-01T00:00Z"}
    return [least] * int(mebibytes * MIB / (len(json.dumps(least)) + 2))


def _several(record: Json, count: int) -> bytes:
    """As many full searches, each of another case."""
    nothing = {"confirmations": [], "others": [], "best": None, "evaluations": _evaluations(record, 3.9 if count < 9 else 0)}
    names = [f"config{number}" for number in range(count)]
    texts = [text_of(record | nothing | {"config": name, "case": f"{record['benchmark']}/{name}"}) for name in names]
    return packed(*((f"tuning/{name}.json", text) for name, text in zip(names, texts, strict=True)), method=zipfile.ZIP_STORED)


# Written after the reader of packed samples was finished, and tried on every job.


def later_archives() -> Iterator[Attack]:
    ours = "a name that no file of ours has"
    every = (*EVERY_RUN, "propose")
    for name, said in (
        ("current.json::$DATA", ours),
        ("aux ", ""),
        ("\uff0e\uff0e/x", ours),
        ("x\x7fy", ours),
        ("%2e%2e/x", ours),
        ("$HOME/x", ours),
        ("", ours),
    ):
        yield Attack(f"an entry called {name!a}, later", _beside(_entry(name)), said, every)
    for name, edit, said in (
        ("a comment of 65,535 bytes", lambda raw: raw[:-2] + b"\xff\xff" + b"x" * 65_535, ""),
        ("a comment that looks like an end", lambda raw: raw[:-2] + b"\x16\0" + b"PK\5\6" + bytes(18), "The artifact h"),
        ("another name before the file than in the list", lambda raw: raw.replace(b".json", b".jsoN", 1), "damaged"),
        ("a list that begins elsewhere", lambda raw: raw[:-6] + struct.pack("<I", 2**31) + raw[-2:], ""),
        ("an offset behind the end", lambda raw: _with(raw, 42, struct.pack("<I", 2**31)), "damaged"),
        ("a packed size that is a lie", lambda raw: _with(raw, 20, struct.pack("<I", 9)), ""),
        ("an unknown version", lambda raw: _with(raw, 6, b"\xff\0"), ""),
    ):
        yield Attack(name, lambda good, name, edit=edit: edit(packed((name, text_of(good)))), said, every)


def later_runs() -> Iterator[Attack]:
    evil = "fixes #1 @octocat <img src=x> \u202e::error::x\n##[error]x\x1b]0;x\x07"
    for name, edit, said in (
        ("a subject that closes issues", lambda run: run["head"].update(subject=evil), ""),
        ("a command line that commands", lambda run: run.update(command=[evil] * 3), ""),
        ("warnings that command", lambda run: run.update(warnings=[evil] * 40), ""),
        ("a machine that commands", lambda run: run["environment"].update(python=evil), ""),
        ("a gate of its own", lambda run: run["policy"].update(regression=0.99), ""),
        ("a mute of its own", lambda run: run["policy"].update(mutes=[_mute(run["cases"][0]["name"], evil)]), ""),
        ("a work of 1e29", lambda run: run["cases"][0]["workload"].update(flops=1e29), ""),
        ("a year of 9999", lambda run: run.update(started_at="9999-12-31T23:59:59Z"), "or began before"),
        ("a year of 1", lambda run: run.update(started_at="0001-01-01T00:00:00+14:00"), "or began before"),
        ("a run of 10^29 seconds", lambda run: run.update(wall_s=1e29), "more than 30 days"),
    ):
        yield Attack(name, _made(edit), said, EVERY_RUN)
    many = b",".join(ROW[:-1].replace(b"[0,true", b"[%d,true" % pair) + b"]" for pair in range(1_500))
    for name, text, said in (
        ("1,500 workers", side_of(b"[6,0,1,[" + many + b"]]", _planes(1_500)), "more samples"),
        ("100,000 blocks of one sample", one(_blocks(100_000), _planes(100_000)), "a pair or a block"),
        ("50,000 stages", one(ROW.replace(b"{}", _stages(50_000)), ONE), ""),
        ("500,000 kernels", one(ROW.replace(b"{},[]", b"{},[" + b",".join([b"1.0"] * 500_000) + b"]"), ONE), ""),
        ("a step of 0", side_of(b"[6,0,0,[" + ROW + b"]]", ONE), PACKED),
        ("decimals of -1", side_of(b"[-1,0,1,[" + ROW + b"]]", ONE), PACKED),
        ("the smallest double", side_of(b"[0,0,1,[" + ROW + b"]]", (1).to_bytes(8, "little")), "is not between"),
        ("the largest sample", one(ROW, (10**15 - 1).to_bytes(8, "little")), ""),
        ("a list of rows that is no list", side_of(b'[6,0,1,"' + b"x" * 1_000_000 + b'"]'), PACKED),
        ("a row in a row", one(b"[" * 50_000), PACKED),
    ):
        yield Attack(f"a side of {name}", functools.partial(_with_side, text), said, EVERY_RUN)


def _mute(case: str, text: str) -> Json:
    return {"case": case, "owner": text[:90], "reason": text, "until": "2999-01-01"}


def _planes(count: int) -> bytes:
    """So many samples of a millisecond, their bytes sorted by place."""
    return b"".join(bytes([byte]) * count for byte in ONE)


def _blocks(count: int) -> bytes:
    return ROW.replace(b"[[0,0,1,false,false]]", b"[" + b",".join([b"[0,0,1,false,false]"] * count) + b"]")


def _stages(count: int) -> bytes:
    return b"{" + b",".join(b'"s%d":[1.0]' % number for number in range(count)) + b"}"


# Events of the job that answers commands, which reads no artifact.


@dataclass(frozen=True)
class EventAttack:
    """The event that starts the job."""

    name: str
    payload: Callable[[], bytes]
    event: str = "issue_comment"


def events() -> Iterator[EventAttack]:
    """Events that GitHub does not write."""
    comment = {
        "action": "created",
        "issue": {"number": 7, "pull_request": {}},
        "comment": {"id": 1, "user": {"login": "x"}, "body": ""},
    }
    for name, payload in (
        ("nothing", lambda: b""),
        ("a list", lambda: b"[]"),
        ("a text", lambda: b'"/ratchet accept"'),
        ("cut off", lambda: b'{"action": "created", '),
        ("lists in each other", lambda: b"[" * 20_000_000),
        ("objects in each other", lambda: b'{"a":' * 4_000_000),
        ("8 million objects", lambda: b"[" + b"{}," * 8_000_000 + b"{}]"),
        ("3 million objects with a field", lambda: b"[" + b'{"a":1},' * 3_000_000 + b"{}]"),
        ("more than 25 MiB", lambda: b'{"a": "' + b" " * 26 * MIB + b'"}'),
        ("a million fields", lambda: b"{" + b"".join(b'"x%d":0,' % n for n in range(1_000_000)) + b'"y":0}'),
        ("a number of 3 MB", lambda: b'{"action": ' + b"9" * 3_000_000 + b"}"),
        ("NaN", lambda: b'{"action": NaN}'),
        ("invalid UTF-8", lambda: b'{"action": "\xff\xfe"}'),
        ("UTF-32", lambda: '{"action": "created"}'.encode("utf-32")),
        ("null bytes", lambda: bytes(1_000)),
    ):
        yield EventAttack(name, payload)
    for where, value in (
        ("action", ["created"]),
        ("issue", None),
        ("issue.number", "7"),
        ("issue.number", -1),
        ("issue.number", 2**63),
        ("issue.number", 7.5),
        ("comment.id", True),
        ("comment.id", "1/../../pulls/7"),
        ("comment.user", None),
        ("comment.user.login", "x" * 2_000),
        ("comment.user.login", {"login": "a-maintainer"}),
        ("comment.body", "/ratchet accept a/b x" * 100_000),
        ("comment.body", ["/ratchet accept a/b x"]),
        ("comment.body", None),
    ):
        payload = functools.partial(_payload, comment, where, value)
        yield EventAttack(f"{where} is {str(value)[:20]}", payload)
    good = {"ref": "refs/heads/main", "sender": {"login": "a-stranger"}, "inputs": {"pr": "7", "sha": "3f" * 20, "actor": "x"}}
    for where, value in (
        ("inputs.pr", "7; rm -rf /"),
        ("inputs.pr", "../../7"),
        ("inputs.pr", "9" * 100),
        ("inputs.sha", "HEAD"),
        ("inputs.sha", "--upload-pack=x"),
        ("inputs.actor", "a\n::set-output name=x::y"),
        ("inputs.actor", "-x"),
        ("inputs", ["pr"]),
        ("inputs", {str(number): "" for number in range(300_000)}),
        ("sender", "a-maintainer"),
        ("sender.login", 7),
    ):
        payload = functools.partial(_payload, good, where, value)
        yield EventAttack(f"{where} is {str(value)[:20]}", payload, "workflow_dispatch")
    for name in ("push", "workflow_run", "pull_request", "release", "::error::x"):
        yield EventAttack(f"the event {name}", lambda: b'{"action": "created"}', name)
    run = {"action": "completed", "workflow_run": {"id": 1, "run_attempt": 1}}
    for where, value in (
        ("workflow_run", [1]),
        ("workflow_run.id", "900"),
        ("workflow_run.id", True),
        ("workflow_run.id", 2**63),
        ("workflow_run.run_attempt", 0),
        ("workflow_run.run_attempt", 1e300),
    ):
        yield EventAttack(f"{where} is {str(value)[:20]}", functools.partial(_payload, run, where, value), "workflow_run")
    # Its payload is whatever somebody with a token wrote.
    sent = {"action": "::error::x", "client_payload": {"run_id": "900", "pr": 7, "sha": "3f" * 20, "inputs": {"run_id": "900"}}}
    yield EventAttack("a dispatch that names a run", lambda: text_of(sent), "repository_dispatch")
    yield EventAttack("a dispatch like another event", lambda: text_of(sent | run | comment), "repository_dispatch")


def _payload(event: Json, where: str, value: object) -> bytes:
    return text_of(put(event, where, value))
