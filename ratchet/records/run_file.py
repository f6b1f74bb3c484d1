"""The file of a run, read case by case.

A run of 2,000 cases has ten million samples. Read as one document, it takes six times the memory of its text, and most of the
time goes into providing that. What `ratchet.records.files.save` writes can be cut between its cases instead, by the indentation.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pydantic import ValidationError

from ratchet.errors import RecordError
from ratchet.records.run import CaseRun, RunRecord

LISTS = ("cases", "best")
"""The fields of a run that hold cases."""
CHUNK_BYTES = 2**20
_CASE_END, _CASE_FOLLOWS, _LIST_END = b"\n    }", b",\n  ", b"\n  ]"
_BLOCKS, _BLOCKS_END = b'"blocks": [', b"\n          ]"
_NUMBERS_AND_SPACE = b"0123456789.,- \n"
_BLOCK = b'{"index":"position":"samples_ms":[]"throttled":false"exposed":false}'
"""A block without the above. Every block looks like this, and no field stands twice in it."""

Parse = Callable[[bytes], dict[str, Any]]
"""JSON → an object; raises RecordError where it is not JSON, or a field stands twice in one object."""


class _OtherLayoutError(Exception):
    """The text is not laid out as ratchet writes it."""


def read_by_case(stream: BinaryIO, parse: Parse, largest_bytes: int) -> RunRecord | None:
    """Read a run of at most so many bytes, holding the text of a few cases at a time.

    None where the text is not a sound run, or is laid out in another way: then only the whole text shows what is wrong with it.
    """
    text = _Text(stream, largest_bytes)
    token = json.dumps(secrets.token_hex(16)).encode()  # stands for each list of cases in the text around them
    around: list[bytes] = []
    lists: dict[str, tuple[CaseRun, ...]] = {}
    try:
        for name in LISTS:
            opening = f'\n  "{name}": ['.encode()
            before = text.up_to(opening + b"\n")  # an empty list has no line of its own
            if before is not None:
                lists[name] = tuple(_cases(text, parse))
                around += [before, opening, token]
        rest = b"".join([*around, text.rest()]).replace(b"[" + token, token)
        fields = parse(rest)
        # A name may stand in other places too: only where the token is the field's value, the cases were the field's.
        if (
            not isinstance(fields, dict)
            or type(fields.get("schema_version")) is not int
            or any(fields.get(name) != json.loads(token) for name in lists)
        ):
            return None
        return RunRecord.model_validate_json(rest.replace(token, b"[]"), strict=True).model_copy(update=lists)
    except (ValidationError, RecordError, _OtherLayoutError):
        return None


def _cases(text: _Text, parse: Parse) -> Iterator[CaseRun]:
    """The cases from here to the end of their list."""
    while True:
        before = text.up_to(_CASE_END)
        if before is None:
            raise _OtherLayoutError
        case = before + _CASE_END
        yield CaseRun.model_validate_json(case, strict=True)
        parse(_without_plain_blocks(case))
        follows = text.take(len(_LIST_END))
        if follows == _LIST_END:
            return
        if follows != _CASE_FOLLOWS:
            raise _OtherLayoutError


def _without_plain_blocks(case: bytes) -> bytes:
    """The text of a case without those blocks in which certainly no field stands twice: they are nearly all of it."""
    first, *parts = case.split(_BLOCKS)
    kept = [first]
    for part in parts:
        blocks, end, after = part.partition(_BLOCKS_END)
        kept += [_BLOCKS, b"]" + after if end and _are_plain(blocks) else part]
    return b"".join(kept)


def _are_plain(blocks: bytes) -> bool:
    bare = blocks.translate(None, _NUMBERS_AND_SPACE)
    for name in (b'"throttled":', b'"exposed":'):
        bare = bare.replace(name + b"true", name + b"false")
    return bare == _BLOCK * (len(bare) // len(_BLOCK))


class _Text:
    """A text that is read on as far as it is needed."""

    def __init__(self, stream: BinaryIO, largest_bytes: int) -> None:
        self._stream = stream
        self._left = largest_bytes
        self._buffer = b""
        self._place = 0

    def up_to(self, mark: bytes) -> bytes | None:
        """The text before the next ``mark``, which is left behind; None, and nothing is taken, where there is no such mark."""
        start = self._place
        while (found := self._buffer.find(mark, start)) < 0:
            start = max(0, len(self._buffer) - self._place - len(mark) + 1)
            if not self._read_on():
                return None
        before = self._buffer[self._place : found]
        self._place = found + len(mark)
        return before

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer where the text ends."""
        while len(self._buffer) - self._place < count and self._read_on():
            pass
        taken = self._buffer[self._place : self._place + count]
        self._place += len(taken)
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        while self._read_on():
            pass
        return self._buffer[self._place :]

    def _read_on(self) -> bool:
        """Drop what was taken, and read the next chunk; False at the end."""
        chunk = self._stream.read(CHUNK_BYTES)
        self._left -= len(chunk)
        if self._left < 0:
            raise _OtherLayoutError
        self._buffer = self._buffer[self._place :] + chunk
        self._place = 0
        return bool(chunk)
