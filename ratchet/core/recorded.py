"""Judge recorded runs again, for `ratchet compare`: reads files, the settings and the baseline, and measures nothing."""

from __future__ import annotations

import filecmp
import re
from collections.abc import Mapping
from pathlib import Path

from ratchet import tools
from ratchet.core.config import Settings
from ratchet.core.errors import UsageError
from ratchet.core.judge.verdict import judge_run, judge_two
from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord
from ratchet.core.records.verdict import ReportRecord
from ratchet.core.request import CURRENT, CommandResult, Request, load_baseline, settings_of
from ratchet.core.untrusted import clean

_OURS = re.compile(rb'\s*\{\s*"schema_version":\s*\d')


def compare(first: Path, second: Path, format_: str | None, request: Request, environ: Mapping[str, str]) -> ReportRecord:
    """Judge two runs of one machine, ``first`` being the reference: recorded ones, or files that another harness wrote.

    Nothing cancels between two times, so a case that they cannot decide fails unless the request lets it pass.
    ``format_`` names that harness; None: by their content. Raises RecordError for an unreadable file, UsageError for one run
    that is compared with itself.
    """
    _, settings = settings_of(request, environ)
    reference, head = (load_run(path, format_, settings, request.command) for path in (first, second))
    if first.is_file() and second.is_file() and filecmp.cmp(first, second, shallow=False):
        both = clean(first) if first.samefile(second) else f"{clean(first)} and {clean(second)}"
        raise UsageError(f"{both}: this is one run, and it cannot differ from itself.", "Name the files of two runs.")
    undecided = request.options.get("on_inconclusive") or "fail"
    return judge_two(reference, head, settings.policy.model_copy(update={"on_inconclusive": undecided}))


def judge_again(recorded: Path | None, request: Request, environ: Mapping[str, str]) -> CommandResult:
    """Judge a recorded run (None: the last one) again, by the thresholds given, else by its own. Raises RecordError."""
    root, settings = settings_of(request, environ)
    results = root / settings.results
    past = load(recorded or results / CURRENT, RunRecord)
    report = judge_run(past, load_baseline(results), settings.overriding(past.policy, request.options))
    return CommandResult(past, tools.part("profile_files").with_stored_profiles(report, past, results), results)


def load_run(path: Path, format_: str | None, settings: Settings, command: tuple[str, ...]) -> RunRecord:
    """Return the recorded run of a file; a file of another harness becomes one. Raises RecordError."""
    if format_ is None and path.is_file():
        with path.open("rb") as stream:
            if _OURS.match(stream.read(4096)):
                return load(path, RunRecord)
    if format_ is None and not path.exists():
        return load(path, RunRecord)  # whose error says what to do
    run: RunRecord = tools.part("importer").run_of([path], format_, settings, command)
    return run
