"""Tell byte code that follows its source from byte code that counts by itself. Pure but for the file."""

from __future__ import annotations

from importlib.util import source_from_cache
from pathlib import Path


def followed_source(path: Path) -> Path | None:
    """Return the source with whose time and size Python compares byte code before it runs it; it need not be there.

    None for any other file, and for byte code that names its source by a hash: that may run whatever became of it (PEP 552).
    """
    if path.suffix != ".pyc" or not path.is_file():
        return None
    try:
        source = source_from_cache(path)
        with path.open("rb") as file:
            return Path(source) if file.read(8)[4:] == bytes(4) else None
    except (ValueError, OSError):  # no name that Python gives to byte code, or no right to read it
        return None
