"""Sample records for tests: small, valid, and the same every time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from ratchet.common.baseline_steps import new_chain_entry
from ratchet.core.judge.chain import ChainPlace
from ratchet.core.judge.evidence import session_of
from ratchet.core.records.baseline import Baseline, BaselineEntry, Figures, FingerprintBaseline, Step, StepKind
from ratchet.core.records.environment import Environment, Fingerprint, Telemetry
from ratchet.core.records.profile import Activity, CaseProfile, Finding, KernelProfile, Profile
from ratchet.core.records.run import (
    Block,
    CaseRun,
    Config,
    Failure,
    Performance,
    Plan,
    Policy,
    RunRecord,
    Tree,
    WorkerSamples,
    WorkloadIdentity,
)

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
    """One worker with a block for each median; the blocks named in ``throttled`` were slowed.

    Its host is that of a check in which the case looked changed from the first session on. No two samples tie: the clock is fine.
    """
    taken = tuple(
        Block(
            index=index,
            position=2 * index,
            samples_ms=(
                median * (0.99 + 1e-3 * (jitter := math.sqrt(2 + pair + 1000 * index) % 1)),
                median,
                median * (1.02 + 1e-3 * jitter),
            ),
            throttled=index in throttled,
        )
        for index, median in enumerate(medians_ms)
    )
    usual: dict[str, Any] = {
        "pair": pair,
        "started_first": True,
        "blocks": taken,
        "ready_s": 0.4,
        "peak_memory_bytes": 1024,
        "error": 0.0,
        "session": session_of(pair),
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


def with_kernels(case: CaseRun, **taken: Callable[[int], float]) -> CaseRun:
    """The case whose kernels, timed alone, take as many milliseconds in each pair of ``head`` and ``reference`` as these say."""
    update = {side: tuple(replace(one, kernels_ms=(ms(one.pair),)) for one in getattr(case, side)) for side, ms in taken.items()}
    return case.model_copy(update=update)


def longer(case: CaseRun, times: int) -> CaseRun:
    """The case with its pairs so many times over, in the sessions that a check takes for so many."""
    update = {
        side: tuple(
            replace(worker, pair=(pair := worker.pair + again * len(workers)), session=session_of(pair))
            for again in range(times)
            for worker in workers
        )
        for side, workers in (("head", case.head), ("reference", case.reference))
    }
    return case.model_copy(update=update)


def run_of(*cases: CaseRun, **changes: Any) -> RunRecord:
    """A check of these cases."""
    return run_record().model_copy(update={"cases": cases, **changes})


def listed(record: RunRecord, *, exclude_defaults: bool = False) -> dict[str, Any]:
    """The document of a run as earlier ratchets wrote it, with every sample in it."""
    document: dict[str, Any] = record.model_dump(mode="json", exclude_defaults=exclude_defaults)
    for name in ("cases", "best", "anchors"):
        for case, written in zip(getattr(record, name), document.get(name, ()), strict=False):
            for side in {"head", "reference"} & written.keys():
                workers = tuple(getattr(case, side))
                written[side] = _SIDE.dump_python(workers, mode="json", exclude_defaults=exclude_defaults)
    return document


_SIDE = TypeAdapter(tuple[WorkerSamples, ...])
