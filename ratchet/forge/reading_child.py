"""Run as a program of its own: read a record that a stranger wrote, within bounds of memory and time.

``python -m ratchet.forge.reading_child PATH KIND``. A few megabytes of JSON can make a validator write down millions of faults;
here that costs a child process and no more. Exits with 0 where the record is sound, with `REFUSED` and a sentence where it is
not, and with anything else where it did not come to an answer.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from ratchet.errors import RecordError
from ratchet.records.base import Record
from ratchet.records.files import load
from ratchet.records.profile import Profiles
from ratchet.records.run import RunRecord

REFUSED = 65
KINDS: dict[str, type[Record]] = {"run": RunRecord, "profiles": Profiles}


def main(path: str, kind: str, memory_bytes: str, seconds: str) -> int:
    """0 where the file is a record of that kind; REFUSED, with the sentence as JSON on standard output, where it is none."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        load(Path(path), KINDS[kind])
    except RecordError as error:
        sys.stdout.write(json.dumps(error.message))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
