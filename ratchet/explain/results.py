"""Keep the latest profile of every case in ``results/nsight/``: findings, reports, metrics, pictures and their index.

`cases` stores what it profiled, and `ratchet ci merge` copies the profiles of shards here; `ratchet compare` reads them with
`with_stored_profiles`, and `ratchet variants --roofline` reads the index. It reads and writes files of this folder only.
"""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from ratchet.common.rooflines import Roofline
from ratchet.core.errors import OutputError, RatchetError, RecordError
from ratchet.core.judge.roofs import Roofs, measured_roofs
from ratchet.core.judge.verdict import worst_first
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Environment
from ratchet.core.records.files import file_stem, load, replaced, save, save_text
from ratchet.core.records.profile import CaseProfile, Profile, Profiles
from ratchet.core.records.run import SIDES, CaseRun, Performance, RunRecord, Side
from ratchet.core.records.verdict import CaseVerdict, ReportRecord
from ratchet.core.untrusted import clean
from ratchet.explain import roofline as pure
from ratchet.figure_style import write_files

FOLDER, INDEX = "nsight", "profiles.json"
_OF_A_CASE = (*(f"{side}.ncu-rep" for side in SIDES), "csv", "png", "svg")

Reports = Mapping[Side, Path]
"""Side → where ncu left its report, under the name that it keeps."""


@dataclass(frozen=True)
class Background:
    """The facts that all pages of a command share."""

    folder: Path
    """Folder for the files, inside the results folder that the names in a profile are relative to."""
    environment: Environment
    when: datetime
    measured: Roofs


def background_of(
    run: RunRecord | None, environment: Environment, when: datetime, baseline: Baseline, results: Path
) -> Background:
    """Return the facts with the measured roofs, else with those that copy and matmul of a run or of the baseline reached."""
    from ratchet.explain.roof_timing import stored_roofs

    fingerprint = environment.fingerprint
    measured = stored_roofs(results, fingerprint) or measured_roofs(
        run.cases if run else (), baseline.entries(fingerprint), environment.l2_bytes
    )
    return Background(results / FOLDER, environment, when, measured)


def diagnosed(profile: CaseProfile, case: CaseRun | None = None) -> CaseProfile:
    """Return the profile with its findings, the likeliest cause first. ``case`` has the times without a profiler."""
    from ratchet.explain.diagnosis import diagnose

    head, reference = _alike(profile.head, profile.reference)
    if head is None:
        return profile
    head = _without_own_gaps(head, case.performance if case else None)
    reference = _without_own_gaps(reference, case.reference_performance if case else None) if reference else None
    timed = (case.performance, case.reference_performance) if case else (None, None)
    return profile.model_copy(update={"findings": diagnose(head, reference, profile.ratio, timed)})


def _without_own_gaps(profile: Profile, timed: Performance | None) -> Profile:
    """Return the profile with no more time between kernels than the timed call leaves: torch.profiler slows the host down."""
    activity = profile.activity
    if timed is None or activity is None or activity.gaps_s is None:
        return profile
    left_s = max(0.0, activity.calls * timed.median_time_ms / 1e3 - sum(activity.kernels.values()))
    return profile.model_copy(update={"activity": activity.model_copy(update={"gaps_s": min(activity.gaps_s, left_s)})})


def save_case(
    profile: CaseProfile, verdict: CaseVerdict, case: CaseRun | None, background: Background, reports: Reports
) -> CaseProfile:
    """Write the reports, the metrics and the page of a case. Return its record, which names the files.

    The record leaves out the thousands of metrics. A file that cannot be written becomes a sentence in ``steps_down``.
    """
    from ratchet.explain.page_figure import page_figure

    stem, folder, written = file_stem(profile.case), background.folder, dict(profile.files)
    steps = list(profile.steps_down)
    both: dict[Side, Profile | None] = {"reference": profile.reference, "head": profile.head}
    try:
        clear(folder, profile.case)
        for side, path in reports.items():
            written[f"{side}.ncu-rep"] = _relative(keep(path, folder))
        if write_metrics(folder / f"{stem}.csv", {side: found for side, found in both.items() if found}):
            written["metrics.csv"] = _relative(folder / f"{stem}.csv")
        roofline = roofline_of(profile, case, background)
        page = partial(page_figure, profile, verdict, roofline, background.environment, background.when)
        for path in write_files(page, folder, stem):
            written[f"page{path.suffix}"] = _relative(path)
    except (RatchetError, OSError) as error:
        steps.append(str(error))
    changed = {"files": written, "steps_down": tuple(steps)}
    return profile.model_copy(update={side: _without_metrics(found) for side, found in both.items()} | changed)


def _without_metrics(profile: Profile | None) -> Profile | None:
    """Return the profile without the thousands of metrics that have no field of their own."""
    if profile is None:
        return None
    return profile.model_copy(update={"kernels": tuple(kernel.model_copy(update={"metrics": {}}) for kernel in profile.kernels)})


def roofline_of(case_profile: CaseProfile, case: CaseRun | None, background: Background) -> Roofline | None:
    """Return the roofline of both sides of a case: by counters, else by the declared work; None without a point."""
    both: dict[Side, Profile | None] = {"reference": case_profile.reference, "head": case_profile.head}
    fingerprint, l2_bytes = background.environment.fingerprint, background.environment.l2_bytes
    roofs = pure.machine_roofs(fingerprint, background.measured, both.values())
    points = []
    for side, profile in both.items():
        workload = (case.workload if side == "head" else case.reference_workload) if case else None
        timed = (case.performance if side == "head" else case.reference_performance) if case else None
        seconds = timed.median_time_ms / 1e3 if timed else None
        if point := pure.point(case_profile.case, side, profile, workload, seconds, roofs, l2_bytes):
            points.append(point)
    return pure.roofline(fingerprint.processor, points, roofs) if points else None


def _alike(head: Profile | None, reference: Profile | None) -> tuple[Profile | None, Profile | None]:
    """Return both sides as one tool sees them: where only one has counters, the traces of both."""
    if head is None or reference is None or bool(head.kernels) == bool(reference.kernels):
        return head, reference
    if head.activity is None or reference.activity is None:
        return head, None
    return head.model_copy(update={"kernels": ()}), reference.model_copy(update={"kernels": ()})


def _relative(path: Path) -> str:
    return f"{FOLDER}/{path.name}"


# The files of the folder, and their index.


def clear(folder: Path, case: str) -> None:
    """Remove the files of this case from an earlier run. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending in _OF_A_CASE:
            (folder / f"{file_stem(case)}.{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}.", "Check its permissions.") from None


def keep(source: Path, folder: Path) -> Path:
    """Copy a file into the folder, whole or not at all. Return its place. Raises OutputError."""
    with replaced(folder / source.name) as temporary:
        shutil.copyfile(source, temporary)
    return folder / source.name


def write_metrics(path: Path, sides: Mapping[Side, Profile]) -> bool:
    """Write every metric of both sides, one a line. Return False, and write nothing, where there is none. Raises OutputError."""
    rows = [
        (side, kernel.index, _cell(kernel.name), _cell(metric), repr(value))
        for side in SIDES
        if side in sides
        for kernel in sides[side].kernels
        for metric, value in sorted(kernel.metrics.items())
    ]
    if rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("side", "launch", "kernel", "metric", "value"), *rows])
        save_text(path, text.getvalue())
    return bool(rows)


def read_index(folder: Path) -> Profiles:
    """Return the profiles of the index; none where it is missing or was written by something else."""
    path = folder / INDEX
    try:
        return load(path, Profiles) if path.exists() else Profiles()
    except RecordError:
        return Profiles()


def add_to_index(folder: Path, fresh: Iterable[CaseProfile]) -> None:
    """Put the fresh profiles in the place of those of the same cases; the others stay. Raises OutputError.

    A report that cases shared goes with the last of them.
    """
    earlier = read_index(folder).profiles
    by_case = {profile.case: profile for profile in (*earlier, *fresh)}
    save(folder / INDEX, Profiles(profiles=tuple(by_case.values())))
    named, unnamed = (
        {Path(path).name for profile in profiles for path in profile.files.values()} for profiles in (by_case.values(), earlier)
    )
    for name in (name for name in unnamed - named if name.endswith(".ncu-rep")):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def take_profiles(source: Path, results: Path) -> None:
    """Copy the profiles beside a shard's run, and their files, to this results folder. Raises OutputError."""
    source, folder = source / FOLDER, results / FOLDER
    profiles = read_index(source).profiles
    if not profiles or source.resolve() == folder.resolve():
        return
    for profile in profiles:
        clear(folder, profile.case)
        for name in profile.files.values():
            place = source / Path(name).name
            if place.is_file():
                keep(place, folder)
    add_to_index(folder, profiles)


def _cell(text: str) -> str:
    """Return foreign text for a table, with a quote before a beginning that a spreadsheet takes for a formula."""
    shown = clean(text, 1000)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def with_stored_profiles(report: ReportRecord, run: RunRecord, results: Path) -> ReportRecord:
    """Return the report of a run judged again, with the stored profiles that are of the same code on both sides."""
    stored = read_index(results / FOLDER)
    references = {case.name: case.reference_tree or run.reference for case in run.cases}
    kept = [(verdict, stored.of(verdict.name)) for verdict in worst_first(report.cases)]
    same = [
        profile.model_copy(update={"ratio": verdict.changed_ratio})
        for verdict, profile in kept
        if profile and (profile.head_tree, profile.reference_tree) == (run.head, references.get(profile.case))
    ]
    return report.model_copy(update={"profiles": tuple(same)})
