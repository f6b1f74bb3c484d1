"""``ratchet profile --read``: report files of Nsight Compute, of any kernel and GPU, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ratchet.cli.shown import verdict
from ratchet.errors import Exit


def read(paths: Sequence[Path], as_json: bool) -> int:
    """Print one report, or a reference and a head beside each other; as JSON with every metric."""
    import json
    import os

    from ratchet.pipeline.reading import read_profiles
    from ratchet.report.kernels import read_lines

    found = read_profiles(paths, os.environ)
    with verdict():
        if as_json:
            click.echo(json.dumps(found.profile.model_dump(mode="json"), ensure_ascii=False, indent=2))
        else:
            for line in read_lines(found.profile, found.pairs):
                click.echo(line)
    return int(Exit.PASS)
