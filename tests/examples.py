"""Sample records for tests: small, valid, and the same every time."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ratchet.judge.baseline.chain import ChainPlace, new_chain_entry
from ratchet.judge.drift import Drift
from ratchet.judge.outcome import CaseThresholds, decide, thresholds_for
from ratchet.judge.sequential import is_decided, looks, looks_for_change, thresholds_of_run
from ratchet.judge.verdict import judge_run
from ratchet.records import (
    Baseline,
    BaselineEntry,
    Block,
    CaseRun,
    CaseVerdict,
    Comparison,
    Config,
    Environment,
    Failure,
    Fingerprint,
    FingerprintBaseline,
    Outcome,
    Performance,
    Plan,
    Policy,
    ReportRecord,
    RunRecord,
    SideSummary,
    Telemetry,
    Tree,
    WorkerSamples,
    WorkloadIdentity,
)
from ratchet.records.baseline import Figures, Step, StepKind
from ratchet.records.profile import Activity, CaseProfile, Finding, KernelProfile, Profile
from ratchet.stats.comparison import Pair, compare_pairs, pairs_of

STARTED = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
HEAD = Tree(commit="3f2a1bc98d" + "0" * 30, subject="attention: use a larger tile for long sequences", content="c" * 64)
REFERENCE = Tree(commit="9e8d7c6b5a" + "1" * 30, subject="Merge branch 'softmax'", content="d" * 64)
FINGERPRINT = Fingerprint(
    device="cuda",
    gpu="NVIDIA H200",
    gpu_memory_bytes=150_754_820_096,
    gpu_power_limit_w=700,
    mig="off",
    driver="580.95.05",
    cuda="13.0",
    torch="2.9.1+cu130",
    triton="3.5.1",
    cpu="Intel(R) Xeon(R) Platinum 8480C",
)
ENVIRONMENT = Environment(
    fingerprint=FINGERPRINT,
    python="3.11.13",
    platform="Linux-6.8.0-x86_64-with-glibc2.36",
    ratchet="0.1.0",
    gpu_index=0,
    sm_clock_max_mhz=1980,
    compute_capability="9.0",
    nvcc="13.0",
)
CPU_ENVIRONMENT = Environment(
    fingerprint=Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8),
    python="3.11.13",
    platform="Linux-6.8.0-x86_64-with-glibc2.36",
    ratchet="0.1.0",
)
PLAN = Plan(pairs=100, blocks=8, block_ms=5.0, seed=1, clock="event", cache="cold")


def comparison(ratio: float, spread: float = 0.0018, **changes: Any) -> Comparison:
    """An interval of ``ratio`` ± ``spread``."""
    usual = {
        "ratio": ratio,
        "low": ratio - spread,
        "high": ratio + spread,
        "confidence": 0.95,
        "chance": 0.0,
        "cliffs_delta": max(-1.0, min(1.0, (ratio - 1) * 20)),
        "pairs": 20,
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
    """A report on ``cases`` whose counts fit them."""
    usual: dict[str, Any] = {
        "verdict": "pass",
        "headline": "No case is slower than the gate of 3 % allows",
        "exit_code": 0,
        "counts": dict(Counter(each.outcome for each in cases)),
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
            case("attention/inference_4k", Outcome.UNCHANGED, "The interval lies inside the gate.", 0.9987, 1.041),
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
        headline="2 of 13 cases are slower than the gate of 3 % allows, and 1 gives a wrong result",
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
        headline="2 cases measured, 1 skipped",
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


def kernel_profile(**changes: Any) -> KernelProfile:
    """One launch of an attention kernel."""
    usual: dict[str, Any] = {
        "name": "void attend<64, 64>(float const*, float*)",
        "function": "attend",
        "index": 0,
        "duration_s": 52.1e-6,
        "sm_percent": 61.0,
        "memory_percent": 33.5,
        "occupancy_percent": 48.2,
        "occupancy_limit_percent": 50.0,
        "occupancy_limiter": "registers",
        "registers": 128,
        "spill_bytes": 0.0,
        "dram_read_bytes": 48e6,
        "dram_write_bytes": 16e6,
    }
    return KernelProfile(**(usual | changes))


def case_profile(case: str = "attention/inference_4k", **changes: Any) -> CaseProfile:
    """Both sides of a case whose head spills registers."""
    spilt = kernel_profile(
        duration_s=55.7e-6, occupancy_percent=24.0, occupancy_limit_percent=25.0, registers=255, spill_bytes=1.2e6
    )
    usual: dict[str, Any] = {
        "case": case,
        "head": Profile(tool="ncu", reader="ncu_report", gpu="NVIDIA H200", kernels=(spilt,)),
        "reference": Profile(tool="ncu", reader="ncu_report", gpu="NVIDIA H200", kernels=(kernel_profile(),)),
        "head_tree": HEAD,
        "reference_tree": REFERENCE,
        "ratio": 1.0521,
        "findings": (
            Finding(
                key="spills",
                what="Registers 128 → 255 and 1.2 MB of spills: occupancy halved.",
                why="Spilled values go through memory.",
                advice="Take a smaller tile, or fewer stages.",
                confidence="high",
                weight=1.8,
                kernel="attend",
                effect="slower",
            ),
        ),
        "files": {"head.ncu-rep": "nsight/attention.inference_4k.head.ncu-rep", "page.png": "nsight/attention.inference_4k.png"},
    }
    return CaseProfile(**(usual | changes))


def traced(calls: int, add_s: float, **changes: Any) -> Profile:
    """What torch.profiler saw of so many calls on the CPU."""
    usual: dict[str, Any] = {"calls": calls, "wall_s": calls * add_s, "kernels": {"aten::add": calls * add_s}}
    return Profile(tool="torch", reader="torch", activity=Activity(**(usual | changes)))


HOSTILE = "\x1b[31m</td>|`@octocat`| #1 <img src=x onerror=alert(1)> [x](https://evil.example) www.evil.example\r\n# hi\u202e ```"


WAVE = (0.0, 0.03, -0.02, 0.01, -0.03, 0.02, -0.01, 0.0)
"""By how much pairs differ from their mean, as fractions, on a machine that is not quiet."""


def slower_report() -> ReportRecord:
    """Slowdowns that are not proven, one for each thing that may be missing, and two cases that more pairs would settle."""

    def waves(ratio: float, pairs: int, scale: float = 1.0) -> list[float]:
        return [ratio * (1 + scale * WAVE[pair % len(WAVE)]) for pair in range(pairs)]

    ratios = {
        "attention/training_512": [1.1 * ratio for ratio in STEADY[:8]],
        "softmax/rows_4096": waves(1.2, 8, 2) + waves(1.025, 32, 2),
        "softmax/rows_512": [1.3, 1.5, 0.9, 1.2] * 5,
        "gemm/2k": [1.06 * (1 + 0.05 * math.sin(pair / 3)) for pair in range(28)],
        "gemm/4k": [*(1.02 * ratio for ratio in STEADY[:18]), 1.3, 1.4, 1.35, 1.2],
        "copy/16m": waves(1.01, 12),
        "copy/32m": waves(1.04, 12),
        "copy/64m": waves(1.0, 64, 1.2),
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
            ),
            case("[/red]bold/c", Outcome.SKIPPED, HOSTILE),
        ),
        verdict="regression",
        headline=f"**pass** {HOSTILE}",
        exit_code=1,
        head=Tree(commit="--upload-pack=x", subject=HOSTILE, dirty=True),
        warnings=(HOSTILE, "- [ ] a task", "1. a list", "---"),
        command=("ratchet", "check", HOSTILE),
    )


WORKLOAD = WorkloadIdentity(
    parameters={"batch": 32, "seq": 512, "causal": True, "scale": 0.125, "layout": "bhsd"},
    device="cuda",
    dtype="bfloat16",
    flops=34.36e9,
    bytes=67.1e6,
    clock="event",
    cache="cold",
)


def worker(pair: int, base_ms: float) -> WorkerSamples:
    """One worker with two blocks of three samples."""
    blocks = tuple(
        Block(
            index=index,
            position=2 * index + pair % 2,
            samples_ms=tuple(round(base_ms + step, 6) for step in (0, 0.0001, 0.0002)),
            exposed=index == 1,
        )
        for index in range(2)
    )
    return WorkerSamples(
        pair=pair,
        started_first=pair % 2 == 0,
        blocks=blocks,
        ready_s=0.41,
        peak_memory_bytes=192 * 2**20,
        error=0.0012,
        stages_ms={"scores": (0.031, 0.0311)},
    )


def performance(median_ms: float) -> Performance:
    """Figures around one median."""
    return Performance(
        samples=12,
        workers=2,
        mean_time_ms=median_ms * 1.001,
        median_time_ms=median_ms,
        min_time_ms=median_ms * 0.99,
        std_time_ms=0.0002,
        ci_95_low=median_ms * 0.998,
        ci_95_high=median_ms * 1.002,
        throughput_gflops=561_400.0,
        bandwidth_gb_s=1096.0,
        peak_memory_bytes=192 * 2**20,
    )


def run_record() -> RunRecord:
    """A check of three cases: one measured, one failed, one skipped."""
    config = Config(name="training_512", parameters=WORKLOAD.parameters)
    measured = CaseRun(
        name="attention/training_512",
        benchmark="attention",
        config=config,
        workload=WORKLOAD,
        reference_workload=WORKLOAD,
        tuning={"BLOCK_M": 128},
        performance=performance(0.0621),
        reference_performance=performance(0.0612),
        head=(worker(0, 0.0621), worker(1, 0.0622)),
        reference=(worker(0, 0.0612), worker(1, 0.0613)),
        telemetry=Telemetry(
            readings=40,
            sm_clock_mhz_min=1905,
            sm_clock_mhz_median=1980,
            sm_clock_mhz_max=1980,
            temperature_c_max=54,
            power_w_max=412.5,
        ),
    )
    failure = Failure(side="head", stage="check", message="The result is wrong.", last_lines=("Traceback …", "AssertionError"))
    failed = CaseRun(name="gemm/2k", benchmark="gemm", config=Config(name="2k"), failures=(failure,))
    skipped = CaseRun(name="fp8/rows", benchmark="fp8", config=Config(name="rows"), skipped="It needs transformer_engine.")
    return RunRecord(
        kind="check",
        started_at=STARTED,
        wall_s=187.4,
        command=("ratchet", "check"),
        environment=ENVIRONMENT,
        plan=PLAN,
        policy=Policy(),
        head=HEAD,
        reference=REFERENCE,
        cases=(measured, failed, skipped),
    )


def baseline() -> Baseline:
    """One case on one machine."""
    return stored({"attention/training_512": first_entry()})


def stored(entries: dict[str, BaselineEntry], fingerprint: Fingerprint = FINGERPRINT) -> Baseline:
    """These entries on one machine."""
    return Baseline(fingerprints={fingerprint.key: FingerprintBaseline(fingerprint=fingerprint, configs=entries)})


def first_entry(name: str = "attention/training_512", fingerprint: Fingerprint = FINGERPRINT, **changes: Any) -> BaselineEntry:
    """A case recorded once."""
    usual: dict[str, Any] = figures().model_dump() | changes
    entered = Figures(**usual)
    step = Step(kind=StepKind.FIRST, commit=entered.git_commit, timestamp=entered.timestamp)
    return new_chain_entry(entered, None, step, ChainPlace(fingerprint.key, name))


def figures() -> Figures:
    """The best commit of a case and what was measured there."""
    return Figures(
        median_ms=0.0530,
        ci_95_low=0.0512,
        ci_95_high=0.0548,
        throughput_gflops=648_000.0,
        bandwidth_gb_s=1266.0,
        git_commit=REFERENCE.commit,
        timestamp=STARTED,
        workload=WORKLOAD,
        pair_medians_ms=(0.0529, 0.0530, 0.0531),
    )


def blocks(pair: int, *medians_ms: float, throttled: Collection[int] = (), **changes: Any) -> WorkerSamples:
    """One worker with a block for each median; the blocks named in ``throttled`` were slowed."""
    taken = tuple(
        Block(index=index, position=2 * index, samples_ms=(median * 0.99, median, median * 1.02), throttled=index in throttled)
        for index, median in enumerate(medians_ms)
    )
    usual: dict[str, Any] = {
        "pair": pair,
        "started_first": True,
        "blocks": taken,
        "ready_s": 0.4,
        "peak_memory_bytes": 1024,
        "error": 0.0,
    }
    return WorkerSamples(**(usual | changes))


def compared(*ratios: float, **changes: Any) -> CaseRun:
    """A case with one pair for each ratio of head time to reference time; the reference takes 1 ms."""
    usual: dict[str, Any] = {
        "name": "attention/training_512",
        "benchmark": "attention",
        "config": Config(name="training_512"),
        "workload": WORKLOAD,
        "reference_workload": WORKLOAD,
        "performance": performance(1.0),
        "reference_performance": performance(1.0),
        "head": tuple(blocks(pair, ratio, ratio) for pair, ratio in enumerate(ratios)),
        "reference": tuple(blocks(pair, 1.0, 1.0) for pair in range(len(ratios))),
    }
    return CaseRun(**(usual | changes))


def waiting(case: CaseRun, **shares: float) -> CaseRun:
    """The case with the GPU waiting for the host in this share of the blocks of ``head`` or ``reference``."""
    update = {}
    for side, share in shares.items():
        workers: tuple[WorkerSamples, ...] = getattr(case, side)
        most = share * sum(len(worker.blocks) for worker in workers)
        numbers = itertools.count()
        update[side] = tuple(
            replace(worker, blocks=tuple(replace(block, exposed=next(numbers) < most) for block in worker.blocks))
            for worker in workers
        )
    return case.model_copy(update=update)


def longer(case: CaseRun, times: int) -> CaseRun:
    """The case with its pairs so many times over."""
    sides = {"head": case.head, "reference": case.reference}
    update = {
        side: tuple(replace(worker, pair=worker.pair + again * len(workers)) for again in range(times) for worker in workers)
        for side, workers in sides.items()
    }
    return case.model_copy(update=update)


def run_of(*cases: CaseRun, **changes: Any) -> RunRecord:
    """A check of these cases."""
    return run_record().model_copy(update={"cases": cases, **changes})


STEADY = (1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999) * 3
"""Pairs of unchanged code, enough to prove a change of them."""


def commit(number: int) -> str:
    """A hash."""
    return f"{number:04x}" * 10


def timed(ratio: float, name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case whose head takes ``ratio`` times as long as its reference, which takes 1 ms."""
    return compared(*(ratio * each for each in STEADY), name=name, **changes)


def new(name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case that only the head has."""
    return timed(1.0, name, **({"reference": (), "reference_workload": None, "in_reference": False} | changes))


def gone(name: str = "attention/training_512", **changes: Any) -> CaseRun:
    """A case that only the reference has."""
    return compared(name=name, **({"workload": None, "performance": None, "in_head": False} | changes))


def check_of(*cases: CaseRun, day: float, head: int, reference: int | None = 0, **changes: Any) -> RunRecord:
    """A check of the commit ``head`` against ``reference``, so many days after the first; without one, a run of it alone."""
    usual: dict[str, Any] = {
        "kind": "run" if reference is None else "check",
        "head": Tree(commit=commit(head)),
        "reference": None if reference is None else Tree(commit=commit(reference)),
        "started_at": STARTED + timedelta(days=day),
    }
    return run_of(*cases, **(usual | changes))


def pairs(log_ratios: Iterable[float]) -> list[Pair]:
    """Pairs with these log ratios of head time to reference time; the reference takes 1 ms."""
    return [Pair(float(log), math.exp(log), 1.0) for log in log_ratios]


QUIET = ("attn_1k", "attn_2k", "attn_4k", "attn_512", "copy", "gemm_2k", "gemm_4k", "warm:attn_2k")
"""The cases of tests/data/h200_paired.npz that are not bound by their launch."""


def recorded_pairs(*cases: str) -> dict[str, list[Pair]]:
    """The pairs that were recorded of unchanged code on an H200, from their samples on (tests/data/README.md)."""
    with np.load(Path(__file__).parent / "data" / "h200_paired.npz") as data:
        return {case: pairs_of(_recorded(data[f"{case}|B"]), _recorded(data[f"{case}|A"])) for case in cases}


def _recorded(taken: np.ndarray) -> list[WorkerSamples]:
    """One worker for each pair of an array of (pairs, blocks, samples)."""
    return [
        replace(
            blocks(0),
            pair=pair,
            blocks=tuple(
                Block(index=index, position=index, samples_ms=tuple(samples)) for index, samples in enumerate(worker.tolist())
            ),
        )
        for pair, worker in enumerate(taken)
    ]


def bar(policy: Policy | None = None, cases: int = 1, most: int = 100) -> CaseThresholds:
    """What a change must pass in a check of so many cases."""
    return thresholds_for(policy or Policy(), cases, looks_for_change(most))


def looked_at(taken: Sequence[Pair], each: CaseThresholds, most: int = 100, drift: Drift | None = None) -> Comparison:
    """The comparison of a case at the look at which a check stops."""
    for count in looks(most):
        seen = compare_pairs(taken[:count], each.policy.confidence)
        if seen and is_decided(seen, each, drift):
            return seen
    assert seen is not None
    return seen


def outcomes(cases: Mapping[str, Sequence[Pair]], policy: Policy | None = None, most: int = 100) -> dict[str, Outcome]:
    """What a check says of cases whose pairs came in this order."""
    rule = policy or Policy()
    seen = {name: looked_at(taken, bar(rule, len(cases), most), most) for name, taken in cases.items()}
    whole = thresholds_of_run(seen, rule, most)
    return {name: decide(comparison, whole)[0] for name, comparison in seen.items()}
