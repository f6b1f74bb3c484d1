"""A generated history: so many runs of main with so many cases, some of which change their level for good."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

from ratchet.core.records.profile import CaseProfile
from ratchet.core.records.verdict import Outcome
from ratchet.history.judge import shortened
from ratchet.history.records import HistoryCase, HistoryRun, RatioTo
from ratchet.history.store import FolderFiles, History, name_of, text_of
from tests.examples import FINGERPRINT, STARTED, case_profile

GATE = 0.03
NOISE = 0.002
"""Standard deviation of a log ratio."""
WORK = ("attention", "conv", "dequant", "gather", "gelu", "gemm", "layernorm", "normalize", "rope", "softmax")
SIZES = ("decode", "prefill_2k", "rows_16k", "rows_4k", "small")
SUBJECTS = (
    "attention: keep the running maximum in registers",
    "Merge branch 'tiles'",
    "softmax: read rows in vectors of eight",
    "docs: how to run the tests",
    "gemm: one more stage for long rows",
)


def names(count: int) -> list[str]:
    """So many cases."""
    return [f"{WORK[number // len(SIZES) % len(WORK)]}/{SIZES[number % len(SIZES)]}" for number in range(count)]


def runs(count: int, cases: Sequence[str]) -> list[HistoryRun]:
    """So many runs, two a day. Many cases get slower or faster for good, and some get back.

    The second case gets slower ten runs before the last one, the last case in the last run.
    """
    draw = Random(1)
    steps = {case: sorted(draw.sample(range(count), k=draw.choice((0, 0, 1, 2)))) for case in cases} if count > 20 else {}
    steps |= {cases[1 % len(cases)]: [count - 10], cases[-1]: [count - 1]}
    sizes = {case: draw.choice((0.06, 0.045, -0.055)) for case in cases} | {cases[1 % len(cases)]: 0.06, cases[-1]: 0.08}
    base = {case: math.exp(draw.uniform(-4, 1)) for case in cases}
    level = dict.fromkeys(cases, 0.0)
    done = []
    for number in range(count):
        listed = []
        for case in cases:
            moved = steps[case].index(number) if number in steps.get(case, ()) else None
            change = 0.0 if moved is None else sizes[case] * (-1) ** moved
            level[case] += change
            seen, noise = change + draw.gauss(0, NOISE), draw.gauss(0, NOISE)
            outcome = Outcome.REGRESSED if change > 0 else Outcome.IMPROVED if change < -0.05 else Outcome.UNCHANGED
            if draw.random() < 0.01 and not change:
                outcome = Outcome.INCONCLUSIVE
            time = base[case] * math.exp(level[case] + draw.gauss(0, 4 * NOISE))
            listed.append(
                HistoryCase(
                    name=case,
                    outcome=outcome,
                    reference=_ratio(commit(number - 1), seen),
                    anchor=_ratio(commit(-1), level[case] + noise),
                    median_ms=float(f"{time:.5g}"),
                    roof="copy",
                    share_of_roof=round(0.8 * base[case] / time, 4),
                    peak_memory_bytes=(256 + 32 * (number > count // 2)) << 20,
                    gb_s=round(3300 * base[case] / time, 1),
                    workload="0123456789ab",
                    why="Registers 128 → 255 and 1.2 MB of spills: occupancy halved." if outcome is Outcome.REGRESSED else None,
                    profile=shortened(case_profile(case)) if outcome is Outcome.REGRESSED else None,
                    muted="Until 2026-05-01 by octocat: the driver's fault, see #12." if case == "gelu/small" else None,
                )
            )
        worse = [one.name for one in listed if one.outcome is Outcome.REGRESSED]
        run = HistoryRun(
            commit=commit(number),
            subject=draw.choice(SUBJECTS),
            started_at=STARTED + timedelta(hours=12 * number),
            fingerprint=FINGERPRINT,
            verdict="regression" if worse else "pass",
            headline=f"{len(worse)} of {len(cases)} cases slower; worst: {worse[0]}" if worse else "No case is slower.",
            regression=GATE,
            url=f"https://github.com/octocat/kernels/actions/runs/{19_000_000_000 + number}",
            cases=tuple(listed),
        )
        done.append(run)
    return done


def commit(number: int) -> str:
    """A hash."""
    return hashlib.sha256(str(number).encode()).hexdigest()[:40]


def write(folder: Path, of: Sequence[HistoryRun]) -> History:
    """Write these runs into a folder; return the history that it is."""
    for run in of:
        path = folder / name_of(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(run), encoding="utf-8")
    return History([FolderFiles(folder)], None)


def hostile(text: str) -> HistoryRun:
    """A run in which everything that the measured code, a commit or a machine names is this text."""
    (run,) = runs(1, [text])
    (case,) = run.cases
    return run.model_copy(
        update={
            "subject": text,
            "headline": text,
            "url": "javascript:alert(1)",
            "fingerprint": FINGERPRINT.model_copy(update={"gpu": text, "driver": text}),
            "cases": (case.model_copy(update={"why": text, "muted": text, "profile": _profile_of(text)}),),
        }
    )


def _profile_of(text: str) -> CaseProfile:
    """A profile with this text wherever a profiler or measured code writes some."""
    plain = shortened(case_profile(text))
    assert plain.head
    kernels = tuple(one.model_copy(update={"function": text, "occupancy_limiter": text}) for one in plain.head.kernels)
    head = plain.head.model_copy(update={"kernels": kernels, "warnings": (text,)})
    (finding,) = plain.findings
    finding = finding.model_copy(update=dict.fromkeys(("what", "why", "advice"), text))
    return plain.model_copy(update={"head": head, "findings": (finding,), "steps_down": (text,), "failed": {"reference": text}})


def _ratio(commit_: str, log_ratio: float) -> RatioTo:
    ends = [round(math.exp(log_ratio + z * NOISE), 6) for z in (-1.96, 0, 1.96)]
    return RatioTo(commit=commit_, low=ends[0], ratio=ends[1], high=ends[2], pairs=20)
