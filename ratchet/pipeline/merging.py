"""`ratchet merge`: the shards of one check, measured on several runners → one run and one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.config import load_settings
from ratchet.judge.shards import joined
from ratchet.judge.verdict import judge_run
from ratchet.pipeline import profile_files
from ratchet.pipeline.checkout import root_of, writable
from ratchet.pipeline.profiling import with_stored_profiles
from ratchet.pipeline.request import Done, Request
from ratchet.pipeline.stored import load_baseline
from ratchet.records.files import load
from ratchet.records.run import RunRecord


def merge(paths: Sequence[Path], request: Request, environ: Mapping[str, str]) -> Done:
    """Join the shards and judge them as one run; the profiles beside each come along.

    Raises UsageError where they do not belong together, IncompleteError where one is missing.
    """
    root = root_of(request.folder)
    settings = load_settings(root, environ, request.options)
    results = writable(root / settings.results)
    run = joined([load(path, RunRecord) for path in paths]).model_copy(update={"command": request.command})
    for path in paths:
        _take_profiles(path.parent / profile_files.FOLDER, results / profile_files.FOLDER)
    report = judge_run(run, load_baseline(results))
    return Done(run, with_stored_profiles(report, run, results), results)


def _take_profiles(source: Path, folder: Path) -> None:
    """Profiles and their files, from beside a shard's run."""
    found = profile_files.read_index(source).profiles
    if not found or source.resolve() == folder.resolve():
        return
    for each in found:
        profile_files.clear(folder, each.case)
        for name in each.files.values():
            place = source / Path(name).name
            if place.is_file():
                profile_files.keep(place, folder, place.name)
    profile_files.add_to_index(folder, found)
