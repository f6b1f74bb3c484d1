"""The outputs of a build that are kept for a tree of the same content. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ratchet.records.base import SCHEMA_VERSION, Count, Record


class KeptFile(Record):
    """One file that a build wrote."""

    size: Count
    """Bytes."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    is_executable: bool


class KeptBuild(Record):
    """The list of one entry of the build cache; the files lie beside it."""

    schema_version: int = SCHEMA_VERSION
    files: dict[str, KeptFile]
    """Path within the tree → what it held."""
