"""``python -m tests.fake_github [SEED.json]``: the address on the first line; it serves until standard input closes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.fake_github import FakeGitHub, State


def main(arguments: list[str]) -> int:
    """0, or 1 if a request broke the contract: each sentence on standard error."""
    seed = json.loads(Path(arguments[0]).read_text(encoding="utf-8")) if arguments else {}
    fake = FakeGitHub(State.from_json(seed))
    with fake:
        sys.stdout.write(f"{fake.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
        found, fake.violations = fake.violations, []
    sys.stderr.writelines(f"{each}\n" for each in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
