"""A judged run → the record that the history keeps; the runs of one case → its series, with the long-run index. Pure.

The index of a run is its time / the time of one fixed commit, the anchor, measured side by side in that run. A product of ratios
to the run before would add up the noise of all runs. Where another anchor takes over, a run that knows both links them: it
measured both, or its own commit is the new anchor, which was measured against the old one then.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from ratchet.common.launch_pairs import matched
from ratchet.core.errors import UsageError
from ratchet.core.judge.gates import figures_of
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.environment import Fingerprint, Peaks
from ratchet.core.records.profile import CaseProfile, KernelProfile, Profile
from ratchet.core.records.run import CaseRun, RunRecord, WorkloadIdentity
from ratchet.core.records.verdict import CaseVerdict, ReportRecord
from ratchet.core.untrusted import clean
from ratchet.history.anchors import anchors_of
from ratchet.history.records import HistoryCase, HistoryRun, Point, RatioTo, Series

MOST_PROFILES = 100
"""Profiles of a run that are kept: as many as a check makes at most (`profile_cases`)."""


def history_run(run: RunRecord, report: ReportRecord, baseline: Baseline, url: str | None = None) -> HistoryRun:
    """Return the record of a run. ``baseline`` is the one after this run, which may have made its commit the anchor of a case."""
    if run.environment.differs:
        raise UsageError("This run compared two environments, so it is no part of the history of commits.", "")
    stored = baseline.entries(run.environment.fingerprint)
    cases = {case.name: case for case in run.cases}
    anchored = {case.name: case for case in run.anchors}
    profiles = {profile.case: profile for profile in report.profiles[:MOST_PROFILES]}
    kept = []
    for verdict in report.cases:
        case, entry = cases[verdict.name], stored.get(verdict.name)
        reference = ratio_to(case, run, verdict)
        anchor = ratio_to(anchored[case.name], run) if case.name in anchored else None
        anchors = anchors_of(entry) if entry else []
        if anchor is None and reference and reference.commit in anchors:
            anchor = reference
        if anchor is None and anchors and anchors[0] == run.head.commit and (case.head or case.identical):
            anchor = RatioTo(commit=run.head.commit, ratio=1, low=1, high=1, pairs=0)
        kept.append(_history_case(case, verdict, reference, anchor, profiles.get(verdict.name)))
    return HistoryRun(
        commit=run.head.commit,
        subject=run.head.subject,
        started_at=run.started_at,
        fingerprint=run.environment.fingerprint,
        verdict=report.verdict,
        headline=report.headline,
        regression=report.policy.regression,
        url=url,
        device_s=round(run.wall_s * max(1, len(run.environment.cards)), 2),
        cases=tuple(kept),
    )


def ratio_to(case: CaseRun, run: RunRecord, verdict: CaseVerdict | None = None) -> RatioTo | None:
    """Return the head's time against that of the reference side; None where these were not timed side by side."""
    tree = case.reference_tree or run.reference
    if tree is None or not tree.commit or case.unfit or case.failures:
        return None
    if case.identical:
        return RatioTo(commit=tree.commit, ratio=1, low=1, high=1, pairs=0)
    from ratchet.core.judge.outcome import compared  # with numpy, which those who only read a history do not need

    comparison = verdict.comparison if verdict else compared(case, run.policy.confidence)
    if comparison is None or not comparison.is_paired:
        return None
    low, ratio, high = (_short(value) for value in (comparison.low, comparison.ratio, comparison.high))
    return RatioTo(commit=tree.commit, ratio=ratio, low=low, high=high, pairs=comparison.pairs)


def _history_case(
    case: CaseRun, verdict: CaseVerdict, reference: RatioTo | None, anchor: RatioTo | None, profile: CaseProfile | None
) -> HistoryCase:
    head = verdict.head
    return HistoryCase(
        name=case.name,
        outcome=verdict.outcome,
        reference=reference,
        anchor=anchor,
        median_ms=_short(head.median_ms) if head else None,
        roof=head.roof if head else None,
        share_of_roof=_short(head.share_of_roof) if head and head.share_of_roof is not None else None,
        peak_memory_bytes=head.peak_memory_bytes if head else None,
        takes={name: _short(figure) for name, figure in figures_of(case, "head").items() if name != "memory"},
        gflops=_short(head.gflops) if head else None,
        gb_s=_short(head.gb_s) if head else None,
        workload=_digest(case.workload) if case.workload else "",
        why=profile.causes[0].what if profile and profile.causes else None,
        profile=shortened(profile) if profile else None,
        muted=verdict.muted,
    )


def _digest(workload: WorkloadIdentity) -> str:
    return hashlib.sha256(workload.model_dump_json().encode()).hexdigest()[:12]


def _short(value: float) -> float:
    """Return a figure with seven digits: more is noise, and fills a folder of thousands of runs."""
    return float(f"{value:.7g}")


# The series of one case.

Row = tuple[str, HistoryRun, HistoryCase]
"""The name of a run's file, the run, and the case in it."""


class Link(NamedTuple):
    """The part of a run that its place in a series depends on: so little that a long series is read fast."""

    commit: str
    machine: Fingerprint
    workload: str
    anchor: str | None
    """The commits and ratios of `HistoryCase.anchor` and `HistoryCase.reference`; None where there is none."""
    anchor_ratio: float | None
    reference: str | None
    reference_ratio: float | None

    @classmethod
    def of(cls, run: HistoryRun, case: HistoryCase) -> Link:
        anchor = (case.anchor.commit, case.anchor.ratio) if case.anchor else (None, None)
        reference = (case.reference.commit, case.reference.ratio) if case.reference else (None, None)
        return cls(run.commit, run.fingerprint, case.workload, *anchor, *reference)


class SeriesPlace(NamedTuple):
    """The place of a run in a series."""

    scale: float
    """The index of its anchor."""
    segment: int
    seam: str | None = None
    bridged: bool = False
    origin: str | None = None
    """The anchor that the index of its segment counts from; None before any was measured."""


def series_of(case: str, rows: Iterable[Row]) -> Series:
    """Return the series of a case on one kind of hardware. ``rows``: in any order."""
    ordered = sorted(rows, key=lambda row: (row[1].at, row[0]))
    return placed_series(case, ordered, places_of(Link.of(run, one) for _, run, one in ordered), len(ordered))


def places_of(links: Iterable[Link], last: int | None = None) -> list[SeriesPlace]:
    """Return the places of all runs, or of the latest of them. ``links``: oldest first."""
    state = _Links()
    return list(deque(map(state.place, links), maxlen=last))


def placed_series(case: str, rows: Sequence[Row], places: Sequence[SeriesPlace], runs: int) -> Series:
    """Return the series, or its latest points, of rows at these places, oldest first. ``runs``: how many there are in all."""
    keys = {fingerprint: fingerprint.key for fingerprint in {run.fingerprint for _, run, _ in rows}}
    points = tuple(_point(*row, place, keys[row[1].fingerprint]) for row, place in zip(rows, places, strict=True))
    hardware, origin = (rows[-1][1].fingerprint.processor, places[-1].origin) if rows else ("", None)
    return Series(case=case, hardware=hardware, points=points, runs=runs, origin=origin)


def _point(name: str, run: HistoryRun, case: HistoryCase, place: SeriesPlace, machine: str) -> Point:
    anchor = case.anchor
    return Point(
        run=name,
        commit=run.commit,
        subject=run.subject,
        started_at=run.at,
        machine=machine,
        case=case,
        index=place.scale * anchor.ratio if anchor else None,
        low=place.scale * anchor.low if anchor else None,
        high=place.scale * anchor.high if anchor else None,
        segment=place.segment,
        seam=place.seam,
        bridged=place.bridged,
    )


class _Links:
    """The state of the index of each commit while a series is read from its oldest run on."""

    def __init__(self) -> None:
        self._here = SeriesPlace(1.0, 0)
        self._last: tuple[str, str, Fingerprint] | None = None
        """The anchor, the workload and the machine of the latest point with an index."""
        self._index: dict[str, float] = {}
        """Commit → its index in the present segment."""

    def place(self, link: Link) -> SeriesPlace:
        """Return the place of the next run."""
        if link.anchor is None:
            return self._here
        setting, seam, bridged = (link.anchor, link.workload, link.machine), None, False
        if setting != self._last:
            segment, seam, bridged = self._enter(link, link.anchor)
            is_new = self._last is None or segment != self._here.segment
            origin = link.anchor if is_new else self._here.origin
            self._last, self._here = setting, SeriesPlace(self._index[link.anchor], segment, origin=origin)
        self._remember(link)
        return self._here._replace(seam=seam, bridged=bridged) if seam else self._here

    def _remember(self, link: Link) -> None:
        """Make the index of a run's commits known."""
        index = self._here.scale * (link.anchor_ratio or 1)
        self._index.setdefault(link.commit, index)
        if link.reference:
            self._index.setdefault(link.reference, index / (link.reference_ratio or 1))

    def _enter(self, link: Link, anchor: str) -> tuple[int, str | None, bool]:
        """Make the index of the anchor known; return its segment, why the series breaks before it, and if that is bridged."""
        segment = self._here.segment
        if self._last is None:
            self._index = {anchor: 1.0}
            return segment, None, False
        before, workload, machine = self._last
        reasons = [f"the work itself changed at {link.commit[:10]}"] if workload != link.workload else []
        if differences := link.machine.differences(machine):
            reasons.append(f"another machine or software ({'; '.join(differences[:3])})")
        reasons += [f"the anchor was {before[:10]} and is {anchor[:10]}"] if before != anchor else []
        if workload != link.workload or not (anchor in self._index or link.reference in self._index):
            self._index = {anchor: 1.0}
            seam = f"{_sentence(reasons)} No commit known before was measured again, so the index starts anew."
            return segment + 1, seam, False
        if link.reference in self._index and (machine != link.machine or anchor not in self._index):
            self._index[anchor] = self._index[link.reference] * (link.reference_ratio or 1) / (link.anchor_ratio or 1)
        return segment, f"{_sentence(reasons)} A commit known before was measured again, so the index goes on.", True


def _sentence(reasons: list[str]) -> str:
    text = "; ".join(reasons)
    return f"{text[0].upper()}{text[1:]}."


# What of a profile is worth keeping for years.

KEPT, KEPT_TIMES = 3, 5
"""Findings, sentences and kernels, and traced times, that stay of a profile: as many as a report shows."""
_OTHERS = "all others"


def shortened(profile: CaseProfile) -> CaseProfile:
    """Return the first findings, and the counters of the longest kernels or else the longest traced times: a few kilobytes.

    Files, trees, rules of the profiler and other metrics are left out.
    """
    pairs = matched(profile.head, profile.reference)
    longest = nlargest(KEPT, pairs, key=lambda pair: max(kernel.duration_s or 0.0 for kernel in pair if kernel))
    kept = {id(kernel) for pair in longest for kernel in pair}
    changes = {
        "findings": tuple(
            finding.model_copy(update={name: clean(value) for name, value in finding if isinstance(value, str)})
            for finding in profile.findings[:KEPT]
        ),
        "steps_down": _sentences(profile.steps_down),
        "failed": {side: clean(why) for side, why in profile.failed.items()},
        **dict.fromkeys(("head_tree", "reference_tree")),
        "files": {},
    }
    for name, side in (("head", profile.head), ("reference", profile.reference)):
        if side is not None:
            kernels = tuple(_counters(kernel) for kernel in side.kernels if id(kernel) in kept)
            activity = None if kept else side.activity
            if activity is not None:
                longest_times = {"kernels": _longest(activity.kernels), "copies": _longest(activity.copies)}
                activity = activity.model_copy(update={**longest_times, "ran": {}, "cpu_s": {}})
            changes[name] = Profile(tool=side.tool, kernels=kernels, activity=activity, warnings=_sentences(side.warnings))
    return profile.model_copy(update=changes)


def _sentences(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean(text) for text in texts[:KEPT])


def _counters(kernel: KernelProfile) -> KernelProfile:
    function = clean(kernel.function)
    limiter = kernel.occupancy_limiter and clean(kernel.occupancy_limiter)
    texts = {"name": function, "function": function, "occupancy_limiter": limiter}
    return kernel.model_copy(update={**texts, "stalls": {}, "flops": {}, "metrics": {}, "peaks": Peaks(), "rules": ()})


def _longest(times: Mapping[str, float]) -> dict[str, float]:
    """Return the longest of some times by name; the time of the others is together, so that the sum stays."""
    longest = nlargest(KEPT_TIMES, times, key=lambda name: times[name])
    rest = sum(seconds for name, seconds in times.items() if name not in longest)
    return {clean(name): times[name] for name in longest} | ({_OTHERS: rest} if rest else {})
