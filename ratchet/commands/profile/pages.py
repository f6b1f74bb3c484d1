"""``results/nsight/``: reports, metrics and pictures of the latest profile of every case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ratchet.commands.profile.files import FOLDER, clear, keep, stem_of, write_metrics
from ratchet.commands.profile.side import SideProfile
from ratchet.errors import RatchetError
from ratchet.judge.profile import is_warm, measured_roofs
from ratchet.profile import roofline as pure
from ratchet.profile.roofline import datasheet
from ratchet.records.baseline import Baseline
from ratchet.records.environment import Environment
from ratchet.records.profile import CaseProfile, Profile, without_metrics
from ratchet.records.roofline import Roof, Roofline
from ratchet.records.run import CaseRun, RunRecord, Side
from ratchet.records.verdict import CaseVerdict

# Profiles of both sides → what they show: findings, the metrics as CSV, and the page with its roofline.


@dataclass(frozen=True)
class Background:
    """What the pages of a command share."""

    folder: Path
    """For the files; within the results folder, which the names in a profile are relative to."""
    environment: Environment
    when: datetime
    roofs: tuple[Roof, ...]
    """Measured, and of the datasheet."""


def background_of(
    run: RunRecord | None, environment: Environment, when: datetime, baseline: Baseline, results: Path
) -> Background:
    """What the copy and the matmul of a run (else of the baseline) reached, and what the datasheet promises."""
    fingerprint = environment.fingerprint
    roofs = pure.roofs_measured(measured_roofs(run.cases if run else (), baseline.entries(fingerprint), environment.l2_bytes))
    peaks = datasheet(fingerprint.gpu) if fingerprint.mig != "on" else None  # a slice of a GPU is not the GPU
    return Background(results / FOLDER, environment, when, (*roofs, *(pure.roofs_from("datasheet", peaks) if peaks else ())))


def diagnosed(found: CaseProfile) -> CaseProfile:
    """With what the head's profile shows beside that of the reference, the likeliest cause first."""
    from ratchet.profile.diagnosis import diagnose

    head, reference = _alike(found.head, found.reference)
    if head is None:
        return found
    return found.model_copy(update={"findings": diagnose(head, reference, found.ratio)})


def kept(
    found: CaseProfile, verdict: CaseVerdict, case: CaseRun | None, background: Background, looked: Mapping[Side, SideProfile]
) -> CaseProfile:
    """The profile without its thousands of metrics, which are in the files that it names."""
    from ratchet.report.figures.page import draw_page

    stem, folder, names = stem_of(found.case), background.folder, dict(found.files)
    steps = list(found.steps_down)
    try:
        clear(folder, found.case)
        for side, one in looked.items():
            for ending, path in one.reports.items():
                names[f"{side}.{ending}"] = _relative(keep(path, folder, f"{stem}.{side}.{ending}"))
        sides: dict[Side, Profile] = {side: one.profile for side, one in looked.items() if one.profile is not None}
        if write_metrics(folder / f"{stem}.csv", sides):
            names["metrics.csv"] = _relative(folder / f"{stem}.csv")
        roofline = roofline_of(found, case, background)
        for path in draw_page(found, verdict, roofline, folder, stem, environment=background.environment, when=background.when):
            names[f"page{path.suffix}"] = _relative(path)
    except (RatchetError, OSError) as error:
        steps.append(str(error))
    return without_metrics(found).model_copy(update={"files": names, "steps_down": tuple(steps)})


def roofline_of(found: CaseProfile, case: CaseRun | None, background: Background) -> Roofline | None:
    """Both sides of one case: from counters where there are any, else what the benchmark declares; None without a point."""
    both: dict[Side, Profile | None] = {"reference": found.reference, "head": found.head}
    roofs = (*background.roofs, *pure.roofs_from("report", pure.report_peaks(both.values())))
    points = []
    for side, profile in both.items():
        workload = (case.workload if side == "head" else case.reference_workload) if case else None
        timed = (case.performance if side == "head" else case.reference_performance) if case else None
        seconds = timed.median_time_ms / 1e3 if timed else None
        warm = workload is not None and is_warm(workload)
        point = pure.counted(found.case, side, profile, roofs, seconds, warm=warm) if profile and profile.kernels else None
        if point is None and workload is not None and seconds is not None:
            point = pure.declared(found.case, side, workload, seconds, background.environment.l2_bytes)
        if point is not None:
            points.append(point)
    fingerprint = background.environment.fingerprint
    return pure.roofline(fingerprint.gpu or fingerprint.cpu, points, roofs) if points else None


def _alike(head: Profile | None, reference: Profile | None) -> tuple[Profile | None, Profile | None]:
    """Both as one tool sees them: where one side alone has counters, what both were traced to do."""
    if head is None or reference is None or bool(head.kernels) == bool(reference.kernels):
        return head, reference
    if head.activity is None or reference.activity is None:
        return head, None
    return head.model_copy(update={"kernels": ()}), reference.model_copy(update={"kernels": ()})


def _relative(path: Path) -> str:
    return f"{FOLDER}/{path.name}"
