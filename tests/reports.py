"""Sample reports for tests: a check that passed, one with every outcome, slowdowns without proof, hostile texts."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ratchet.core.errors import Exit
from ratchet.core.judge.evidence import session_of, sessions_of
from ratchet.core.judge.verdict import exit_code, headline, judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import Policy, Tree
from ratchet.core.records.verdict import CaseVerdict, Comparison, Outcome, ReportRecord, SideSummary
from tests.examples import ENVIRONMENT, HEAD, HOSTILE, PLAN, REFERENCE, STARTED, compared, run_of, waiting
from tests.history_examples import STEADY


def comparison(ratio: float, spread: float = 0.0018, **changes: Any) -> Comparison:
    """An interval of ``ratio`` ± ``spread`` over twenty pairs in the sessions of a check, which agree."""
    usual = {
        "ratio": ratio,
        "low": ratio - spread,
        "high": ratio + spread,
        "confidence": 0.95,
        "chance": 0.0,
        "cliffs_delta": max(-1.0, min(1.0, (ratio - 1) * 20)),
        "pairs": 20,
        "sessions": (ratio,) * sessions_of(20),
        "sessions_chance": 0.0,
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


def green_report() -> ReportRecord:
    """A check without any doubt."""
    return report(
        (
            case("attention/training_512", Outcome.UNCHANGED, "The interval lies inside the gate.", 1.0012, 0.0612),
            case("attention/inference_4k", Outcome.UNCHANGED, "The interval lies inside the gate.", 0.9987, 1.041).model_copy(
                update={"timed_because": "the GPU waits for the host while it is timed; kernels/softmax.py: BLOCK changed"}
            ),
            case(
                "softmax/rows_4096",
                Outcome.IMPROVED,
                "12.4 % less time, and at least 12.2 % with 95 % confidence.",
                0.876,
                0.0213,
            ),
            case("copy/32m", Outcome.IDENTICAL, "The machine code is the same on both sides."),
        )
    )


def red_report() -> ReportRecord:
    """A check with one case of nearly every outcome."""
    slow = side(1.0952, 513_000.0, stages_ms={"scores": 0.61, "softmax_and_values": 0.485}, peak_memory_bytes=256 * 2**20)
    return report(
        (
            case("softmax/rows_4096", Outcome.UNCHANGED, "The interval lies inside the gate.", 1.001, 0.0213, dropped_blocks=2),
            case("softmax/rows_512", Outcome.UNCHANGED, "The interval lies inside the gate.", 0.999, 0.0073),
            case("layernorm/hidden_4096", Outcome.REGRESSED, "3.9 % slower; the gate is 3 %.", 1.039, 0.0334),
            case(
                "attention/inference_4k",
                Outcome.REGRESSED,
                "5.2 % slower, and at least 5.0 % with 95 % confidence; the gate is 3 %.",
                1.0521,
                1.041,
                head=slow,
                reference=side(1.041, stages_ms={"scores": 0.56, "softmax_and_values": 0.481}),
            ),
            case(
                "attention/training_512",
                Outcome.INCONCLUSIVE,
                "+2.1 %, but anything from −1.2 % to +5.4 % is possible: measure longer with --budget.",
                1.021,
                0.0612,
                comparison=comparison(1.021, 0.033),
            ),
            case("gemm/2k", Outcome.IMPROVED, "12.4 % less time.", 0.876, 0.0451),
            case(
                "gemm/fp8_4k",
                Outcome.FAILED,
                "The head’s result is wrong: error 0.31, allowed 0.02.",
                reference=side(0.21),
                last_lines=(
                    "Traceback (most recent call last):",
                    '  File "bench/gemm.py", line 88, in run',
                    "AssertionError: max |out - ref| = 0.31",
                ),
            ),
            case("gemm/new_shape", Outcome.NEW, "The case exists only in the head.", head=side(0.3)),
            case("gemm/gone", Outcome.MISSING, "The case exists only in the reference.", reference=side(0.3)),
            case(
                "gemm/1k", Outcome.CHANGED, "The work differs: dtype: float32 → bfloat16.", head=side(0.02), reference=side(0.04)
            ),
            case("copy/32m", Outcome.IDENTICAL, "The machine code is the same on both sides."),
            case("gemm/8k", Outcome.UNFIT, "Another process used the GPU during every block: stop it and measure again."),
            case("fp8/rows", Outcome.SKIPPED, "It needs the module transformer_engine, which is not installed."),
        ),
        verdict="regression",
        exit_code=1,
        head=HEAD.model_copy(update={"dirty": True}),
        warnings=("The GPU’s clock is not locked, which widens the intervals: sudo nvidia-smi -lgc 1500.",),
    )


def run_report() -> ReportRecord:
    """`ratchet run`: one side, nothing to compare with."""
    return report(
        (
            CaseVerdict(name="attention/training_512", outcome=Outcome.MEASURED, reason="Timed alone.", head=side(0.0612)),
            CaseVerdict(
                name="copy/32m",
                outcome=Outcome.MEASURED,
                reason="Timed alone.",
                head=side(0.0643, gflops=0, gb_s=4260.0, roof="copy", share_of_roof=0.97),
            ),
            CaseVerdict(name="fp8/rows", outcome=Outcome.SKIPPED, reason="It needs the module transformer_engine."),
        ),
        reference=None,
        command=("ratchet", "run"),
    )


def cached_report() -> ReportRecord:
    """Cases that the measured roofs do not hold, and two that are faster without being improved."""

    def reached(**changes: Any) -> SideSummary:
        return side(0.0612, gflops=0, gb_s=6100.0, roof="copy", **changes)

    inside = "Any slowdown is smaller than the gate of 3 %."
    noisy = comparison(0.903, low=0.829, high=0.982, chance=0.011)
    return report(
        (
            case("copy/64m", Outcome.UNCHANGED, inside, 1.0001, 0.0612, head=reached(share_of_roof=1.0)),
            case("norm/rows_1k", Outcome.UNCHANGED, inside, 1.0003, 0.0612, head=reached(share_of_roof=None, cached="fits")),
            case("norm/rows_1k_warm", Outcome.UNCHANGED, inside, 0.9995, 0.0612, head=reached(share_of_roof=None, cached="warm")),
            case("norm/rows_8k", Outcome.UNCHANGED, inside, 1.0004, 0.0612, head=reached(share_of_roof=1.36)),
            case("gemm/sparse", Outcome.UNCHANGED, inside, 1.0002, 0.0612, head=side(0.0612, 800_000.0, share_of_roof=1.11)),
            case("norm/rows_2k", Outcome.UNCHANGED, inside, 0.903, 0.0612, comparison=noisy),
            case("gemm/2k", Outcome.UNCHANGED, inside, 0.997, 0.0612),
        )
    )


WAVE = (0.0, 0.03, -0.02, 0.01, -0.03, 0.02, -0.01, 0.0)
"""By how much pairs differ from their mean, as fractions, on a machine that is not quiet."""


def slower_report() -> ReportRecord:
    """Slowdowns that are not proven, one for each thing that may be missing, and cases that are inconclusive."""

    def waves(ratio: float, pairs: int, scale: float = 1.0) -> list[float]:
        return [ratio * (1 + scale * WAVE[pair % len(WAVE)]) for pair in range(pairs)]

    ratios = {
        "attention/training_512": [1.1 * ratio for ratio in STEADY[:8]],
        "softmax/rows_4096": waves(1.1, 20),
        "softmax/rows_512": [1.3, 1.5, 0.9, 1.2] * 7,
        "softmax/rows_1k": [
            (1.1, 1.3, 1.12, 1.25, 1.08, 1.2, 1.3, 1.1)[session_of(pair)] * STEADY[pair % 8] for pair in range(28)
        ],
        "gemm/1k": [1.08 * (1 + (0.0, 0.05, 0.03, -0.05, -0.02, 0.02, 0.05, -0.05)[pair % 8]) for pair in range(28)],
        "gemm/2k": [1.08 * (1 + 0.025 * math.sin(pair / 2)) for pair in range(28)],
        "gemm/4k": [*(1.02 * ratio for ratio in STEADY[:18]), 1.3, 1.4, 1.35, 1.2],
        "copy/16m": waves(1.01, 12),
        "copy/32m": waves(1.04, 12),
        "copy/64m": waves(1.028, 24, 1.2),
        "copy/128m": list(STEADY[:6]),
    }
    cases = [compared(*taken, name=name, pair_s=1.7) for name, taken in ratios.items()]
    run = run_of(*(waiting(case, head=1.0) if case.name == "copy/64m" else case for case in cases))
    return judge_run(run, Baseline())


def hostile_report() -> ReportRecord:
    """Every text that code under test may write tries to be more than text."""
    return report(
        (
            case(f"{HOSTILE}/a", Outcome.REGRESSED, HOSTILE, 1.08, head=side(0.13, stages_ms={HOSTILE: 0.1}, roof=HOSTILE)),
            case(
                "$(reboot);x/b",
                Outcome.FAILED,
                HOSTILE,
                last_lines=(HOSTILE, "````", "</details>", "::error::pwned", "##[group]x"),
            ).model_copy(update={"timed_because": HOSTILE}),
            case("[/red]bold/c", Outcome.SKIPPED, HOSTILE),
        ),
        verdict="regression",
        headline=f"**pass** {HOSTILE}",
        exit_code=1,
        head=Tree(commit="--upload-pack=x", subject=HOSTILE, dirty=True),
        warnings=(HOSTILE, "- [ ] a task", "1. a list", "---"),
        command=("ratchet", "check", HOSTILE),
    )
