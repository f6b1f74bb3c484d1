"""Builders of reports for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ratchet.core.errors import Exit
from ratchet.core.judge.evidence import sessions_of
from ratchet.core.judge.verdict import exit_code, headline
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary
from tests.examples import ENVIRONMENT, HEAD, PLAN, REFERENCE, STARTED


def comparison(ratio: float, spread: float = 0.0018, **changes: Any) -> Comparison:
    """An interval of ``ratio`` ± ``spread`` over twenty pairs in the sessions of a check, which agree."""
    usual = {
        "ratio": ratio,
        "low": ratio - spread,
        "high": ratio + spread,
        "confidence": 0.95,
        "p_value": 0.0,
        "cliffs_delta": max(-1.0, min(1.0, (ratio - 1) * 20)),
        "pairs": 20,
        "sessions": (ratio,) * sessions_of(20),
        "sessions_p_value": 0.0,
        "spread": 2 * spread,
        "detectable": max(0.031, spread * 1.7),
    }
    return Comparison(**(usual | changes))


def side(median_ms: float, gflops: float = 540_000.0, **changes: Any) -> SideSummary:
    """One side of a case; the measured roof is 720 TFLOP/s."""
    usual = {
        "median_ms": median_ms,
        "gflops": gflops,
        "gb_s": gflops / 512,
        "peak_memory_bytes": 192 * 2**20,
        "roof": "matmul",
        "share_of_roof": gflops / 720_000,
    }
    return SideSummary(**(usual | changes))


def case(
    name: str, outcome: Outcome, reason: str, ratio: float | None = None, reference_ms: float = 0.12, **changes: Any
) -> CaseVerdict:
    """The verdict of one case; with ``ratio`` it has both sides and a comparison."""
    usual: dict[str, Any] = {"name": name, "outcome": outcome, "reason": reason}
    if ratio is not None:
        usual |= {
            "comparison": comparison(ratio),
            "reference": side(reference_ms),
            "head": side(reference_ms * ratio, 540_000 / ratio),
        }
    return CaseVerdict(**(usual | changes))


def report(cases: tuple[CaseVerdict, ...], **changes: Any) -> ReportRecord:
    """A report on ``cases`` whose counts, verdict and headline fit them."""
    counts = Counter(each.outcome for each in cases)
    code = exit_code(counts, Policy())
    usual: dict[str, Any] = {
        "verdict": {Exit.PASS: "pass", Exit.REGRESSION: "regression"}.get(code, "not measured"),
        "headline": headline(cases, Policy(), code),
        "exit_code": int(code),
        "counts": dict(counts),
        "cases": cases,
        "policy": Policy(),
        "plan": PLAN,
        "environment": ENVIRONMENT,
        "head": HEAD,
        "reference": REFERENCE,
        "started_at": STARTED,
        "wall_s": 187.4,
        "command": ("ratchet", "check"),
    }
    return ReportRecord(**(usual | changes))
