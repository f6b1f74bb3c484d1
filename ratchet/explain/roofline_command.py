"""Carry out `ratchet variants --roofline`: draw recorded times, profiles and peaks as a roofline.

Only `ratchet variants --roofline` calls `draw_roofline`. It reads runs, baselines and profiles of the results folder, and
writes a record and two pictures. Where no roof of the machine is known, it measures them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.common.rooflines import Roofline, printed_peaks
from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.errors import PageError, RatchetError, RecordError, UnfitError, UsageError
from ratchet.core.judge.roofs import Roofs, cached, measured_roofs
from ratchet.core.machine import environment_of, machine_of
from ratchet.core.records.baseline import Baseline, FingerprintBaseline
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.files import load, save
from ratchet.core.records.profile import CaseProfile, Profile, Profiles
from ratchet.core.records.run import RunRecord, Tree, WorkloadIdentity
from ratchet.core.report.progress import Progress
from ratchet.core.request import BASELINE, CURRENT, Request, load_baseline, results_folder, settings_of
from ratchet.core.units import percent
from ratchet.core.untrusted import clean
from ratchet.explain import roofline as pure
from ratchet.explain.results import FOLDER as PROFILE_FOLDER
from ratchet.explain.results import INDEX
from ratchet.explain.roof_timing import PAIRS, roofs_of, stored_roofs
from ratchet.figure_style import write_files

FOLDER, NAME = "roofline", "roofline"


@dataclass(frozen=True)
class TimedCase:
    name: str
    workload: WorkloadIdentity
    seconds: float
    tree: Tree


@dataclass(frozen=True)
class RooflineFiles:
    """A roofline and its files. ``step_down``: why there is no picture."""

    roofline: Roofline
    files: tuple[Path, ...]
    step_down: str | None = None


def draw_roofline(
    recorded: Path | None,
    profiles: Path | None,
    out: Path | None,
    request: Request,
    progress: Progress,
    environ: Mapping[str, str],
) -> RooflineFiles:
    """Draw the roofline of a recorded run or baseline, as a record and two pictures.

    None takes the defaults of the results folder. Roofs that are not known are measured, if this is the machine of the run.
    Raises RecordError for an unreadable file, UsageError for a pattern that matches no case or where nothing was measured yet,
    OutputError where the files cannot be written.
    """
    from ratchet.explain.roofline_figure import roofline_figure

    results = results_folder(request, environ)
    made = _of_results(recorded, profiles, results, request, progress, environ)
    folder = out or results / FOLDER
    save(folder / f"{NAME}.json", made)
    try:
        pictures = write_files(lambda: roofline_figure(made), folder, NAME)
    except PageError as error:
        return RooflineFiles(made, (folder / f"{NAME}.json",), str(error))
    return RooflineFiles(made, (*pictures, folder / f"{NAME}.json"))


def _measured_here(
    fingerprint: Fingerprint, request: Request, results: Path, progress: Progress, environ: Mapping[str, str]
) -> Roofs:
    """Return the roofs of this machine, if it has this fingerprint. Raises UnfitError if it has not, and as `roofs_of`."""
    _, settings = settings_of(request, environ)
    settings = settings.model_copy(update={"device": fingerprint.device, "pairs": max(settings.pairs, PAIRS)})
    with machine_of(request.devices, settings, "ratchet variants --roofline", progress, environ) as machine:
        if environment_of(machine).fingerprint != fingerprint:
            raise UnfitError(
                f"these times are of another machine ({fingerprint.key}).", "Run `ratchet variants --roofline` there."
            )
        return roofs_of(machine, settings, results, progress, environ)


def _of_results(
    recorded: Path | None, profiles: Path | None, results: Path, request: Request, progress: Progress, environ: Mapping[str, str]
) -> Roofline:
    """Return the roofline of a recorded run; without one, of the last run of a results folder, else of its baseline."""
    patterns = request.patterns
    path = recorded or next((path for path in (results / CURRENT, results / BASELINE) if path.exists()), None)
    if path is None:
        raise UsageError(f"Nothing was measured in {results} yet.", "Measure first with `ratchet run`, or name a recorded run.")
    try:
        fingerprint, cases, roofs, notes = _of_baseline(path, load(path, Baseline))
    except RecordError:
        if path.name == BASELINE:
            raise
        fingerprint, cases, roofs, notes = _of_run(load(path, RunRecord), load_baseline(results))
    known = [case.name for case in cases]
    for pattern in unmatched(known, patterns):
        raise UsageError(clean(f"{path} has no timed case called {pattern}."), clean(f"It has {', '.join(known) or 'none'}."))
    chosen = [case for case in cases if case.name in select(known, patterns)]
    if not chosen:
        raise UsageError(f"{path} has no timed case.", "Measure first with `ratchet run`.")
    roofs = stored_roofs(results, fingerprint) or roofs
    if not (roofs.bytes_per_s or roofs.flops_per_s):
        try:
            roofs = _measured_here(fingerprint, request, results, progress, environ)
        except RatchetError as error:
            notes.append(f"No roof was measured: {error}")
    place = profiles or results / PROFILE_FOLDER / INDEX
    counted = load(place, Profiles).profiles if profiles or place.exists() else ()
    return _assembled(fingerprint, chosen, roofs, counted, notes)


def _assembled(
    fingerprint: Fingerprint, cases: Sequence[TimedCase], measured: Roofs, profiles: Sequence[CaseProfile], notes: list[str]
) -> Roofline:
    matched = {case.name: _matching(case, profiles, fingerprint, notes) for case in cases}
    roofs, more = pure.machine_roofs(fingerprint, measured, matched.values()), []
    if fingerprint.device == "cuda" and printed_peaks(fingerprint) is None:
        gpu = f"a MIG slice of {fingerprint.gpu}" if fingerprint.mig == "on" else fingerprint.gpu or "this device"
        more.append(f"No datasheet peaks are known for {gpu}, so only measured roofs are drawn.")
    by_case = {
        case.name: pure.point(case.name, None, matched[case.name], case.workload, case.seconds, roofs, measured.l2_bytes)
        for case in cases
    }
    points = [point for point in by_case.values() if point]
    if unplaced := [name for name, point in by_case.items() if point is None]:
        more.append(f"Not shown: {', '.join(unplaced)}. Declare FLOPs and bytes in the benchmark, or run `ratchet profile`.")
    far = [point for point in points if point.of_declared is not None and abs(point.of_declared - 1) > pure.AGREEMENT]
    if far:
        ratios = ", ".join(f"{point.case} {point.of_declared:.3f}" for point in far)
        more.append(f"Counted FLOPs over declared ones, where they are more than {percent(pure.AGREEMENT)} apart: {ratios}.")
    warm = [case.name for case in cases if cached(case.workload, measured.l2_bytes) == "warm"]
    if warm:
        more.append(f"Timed with their data in the L2 cache, so the DRAM roofs do not limit them: {', '.join(warm)}.")
    small = [case.name for case in cases if cached(case.workload, measured.l2_bytes) == "fits"]
    if small:
        more.append(f"Their data fit into the L2 cache, so they have no share of a DRAM roof: {', '.join(small)}.")
    return pure.roofline(fingerprint.processor, points, roofs, [*more, *notes])


def _matching(case: TimedCase, profiles: Sequence[CaseProfile], fingerprint: Fingerprint, notes: list[str]) -> Profile | None:
    """Return the profile of this very code on this kind of GPU; where there is one of other code only, add a note."""
    of_case = [one for one in profiles if one.case == case.name]
    sides = [side for one in of_case for side in ((one.head_tree, one.head), (one.reference_tree, one.reference))]
    counted = [(tree, profile) for tree, profile in sides if profile and profile.tool == "ncu"]
    for tree, profile in counted:
        if tree and _same(tree, case.tree) and profile.gpu in (None, fingerprint.gpu):
            return profile
    if counted:
        notes.append(f"The profile of {case.name} is of other code or another GPU, so the figure shows its declared work.")
    return None


def _same(one: Tree, other: Tree) -> bool:
    if one.content and other.content:
        return one.content == other.content
    return one.commit == other.commit and not one.dirty and not other.dirty


def _of_run(run: RunRecord, stored: Baseline) -> tuple[Fingerprint, list[TimedCase], Roofs, list[str]]:
    fingerprint = run.environment.fingerprint
    cases = [
        TimedCase(case.name, case.workload, case.performance.median_time_ms / 1e3, run.head)
        for case in run.cases
        if case.workload is not None and case.performance is not None
    ]
    return fingerprint, cases, measured_roofs(run.cases, stored.entries(fingerprint), run.environment.l2_bytes), []


def _of_baseline(path: Path, stored: Baseline) -> tuple[Fingerprint, list[TimedCase], Roofs, list[str]]:
    """Return the machine of a baseline that was measured last, and its cases."""

    def last_measured(part: FingerprintBaseline) -> tuple[float, str]:
        return max((entry.timestamp.timestamp() for entry in part.configs.values()), default=0.0), part.fingerprint.key

    parts = sorted(stored.fingerprints.values(), key=last_measured)
    if not parts:
        raise UsageError(f"{path} is empty.", "Measure with `ratchet check`, then `ratchet baseline record`.")
    part = parts[-1]
    entries = {name: entry for name, entry in part.configs.items() if not entry.removed}
    cases = [
        TimedCase(name, entry.workload, entry.median_ms / 1e3, Tree(commit=entry.git_commit)) for name, entry in entries.items()
    ]
    others = [other.fingerprint.key for other in parts[:-1]]
    notes = (
        [f"{path.name} also knows {', '.join(others)}; the figure shows the machine that was measured last."] if others else []
    )
    return part.fingerprint, cases, measured_roofs((), entries), notes
