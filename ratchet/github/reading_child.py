"""Read a record from an artifact: a child program does so first, within bounds of memory and time.

`ratchet.github.artifact` starts it: ``python -m ratchet.github.reading_child PATH KIND BYTES SECONDS``. A few megabytes of JSON
can make a validator collect millions of errors; here that costs a child process and no more. Reads PATH, writes to stdout only.
Exits with 0 for a valid record, with `REFUSED` and a sentence for an invalid one, and with anything else if it came to no answer.
A file of its own, since it imports records alone: whatever else is in memory would count against the bound.
"""

from __future__ import annotations

import json
import pkgutil
import resource
import sys
from pathlib import Path
from typing import cast

from ratchet.core.errors import RecordError
from ratchet.core.records.files import AnyRecord, load, run_of_lines
from ratchet.core.records.run import RunRecord
from ratchet.core.records.samples import CHECKED

REFUSED = 65
"""Exit status for an invalid record."""
LARGEST_RUN = 160 * 2**20
"""Bytes: 5,000 cases of 20 pairs of 300 samples each have two thirds of it."""
LARGEST_WHOLE = 8 * 2**20
"""Bytes of a run that does not have one case a line, as files of earlier ratchets: such a one is held as a whole."""


def read_record(path: Path, kind: type[AnyRecord], *, checked: bool) -> AnyRecord:
    """Read a record; of a run, one case at a time. Raises RecordError.

    ``checked``: the child has read this file, so samples stay packed until somebody looks at them. Else they are unpacked, and
    not kept.
    """
    if kind is RunRecord:
        with path.open("rb") as stream:
            run = run_of_lines(stream, str(path), LARGEST_RUN, keep=checked, context=CHECKED if checked else None)
        if run is not None:
            return cast(AnyRecord, run)
        if path.stat().st_size > LARGEST_WHOLE:
            raise RecordError(
                f"{path} does not have one case a line, as this ratchet writes it: both jobs need the same one.", ""
            )
    return load(path, kind)


def main(path: str, kind: str, memory_bytes: str, seconds: str) -> int:
    """Return 0 for a record of that kind (``module:class``); else REFUSED, with the sentence as JSON on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        read_record(Path(path), pkgutil.resolve_name(kind), checked=False)
    except RecordError as error:
        sys.stdout.write(json.dumps(error.message))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
