"""Make ``tests/data/runs`` again: ``python -m tests.record_runs``, then ``pytest -k recorded_run --golden-update``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ratchet.common.baseline_steps import with_digest
from ratchet.core.judge.chain import ChainPlace
from ratchet.core.judge.evidence import session_of
from ratchet.core.records.baseline import Baseline, Candidate, Day, Measurement
from ratchet.core.records.run import SIDES, Block, CaseRun, Config, Failure, LostWorker, Mute, Policy, RunRecord, Shard, Tree
from ratchet.github.records import Acceptance
from ratchet.shards.judge import joined
from tests import examples
from tests.examples import CPU_ENVIRONMENT, ENVIRONMENT, HEAD, HOSTILE, PLAN, REFERENCE, STARTED, WORKLOAD
from tests.history_examples import STEADY, gone, new
from tests.recorded_runs import LOG_URL, RUN_URL, RUNS, RecordedRun

WAVE = (0.0, 0.03, -0.02, 0.01, -0.03, 0.02, -0.01, 0.0)
"""By how much pairs differ from their mean, as fractions, on a machine that is not quiet."""
NOISE = (0.985, 1.025, 1.015, 0.975, 1.03, 1.015, 0.985, 0.965)
RESTLESS = (0.7, 1.5, 1.2, 0.8, 1.6, 0.9, 1.3, 0.75) * 3
SAME_CODE = {"head": "a", "reference": "a"}
APRIL = (1.0, 1.012, 0.99, 1.008, 0.995, 0.988, 1.01, 1.002)
"""Milliseconds of unchanged code on eight days that differ by 1 %."""
STAGES = {"scores": (0.3, 0.1), "values": (0.4,)}
HOT = "6 of 8 blocks were dropped because the GPU was throttled (SW thermal slowdown); let it cool."
BUSY = "During this case another process was computing on the GPU; measure again when it is free, or choose another with --gpu."


def case(name: str, ratios: float | Iterable[float] = (), **changes: Any) -> CaseRun:
    """A case whose pairs have these ratios, or are steady around one: as many as a check needs for its outcome."""
    if isinstance(ratios, float):
        ratios = [ratios * each for each in STEADY[: 12 if abs(ratios - 1) < 0.025 else 24]]
    taken = list(ratios)
    benchmark, _, config = name.partition("/")
    return examples.compared(*taken, **({"name": name, "benchmark": benchmark, "config": Config(name=config)} | changes))


def failure(message: str, *lines: str, stage: str = "check", side: Any = "head") -> dict[str, Any]:
    return {"failures": (Failure(side=side, stage=stage, message=message, last_lines=lines),)}


def waves(ratio: float, pairs: int, scale: float = 1.0) -> list[float]:
    return [ratio * (1 + scale * WAVE[pair % len(WAVE)]) for pair in range(pairs)]


def with_roof(one: CaseRun, gflops: float, gb_s: float, median_ms: float = 0.0612) -> CaseRun:
    """The case with these rates on both sides."""
    done = examples.performance(median_ms).model_copy(update={"throughput_gflops": gflops, "bandwidth_gb_s": gb_s})
    return one.model_copy(update={"performance": done, "reference_performance": done})


def working(**changes: Any) -> dict[str, Any]:
    """Both sides' workload, with changes."""
    return dict.fromkeys(("workload", "reference_workload"), WORKLOAD.model_copy(update=changes))


def with_head(one: CaseRun, samples_ms: Callable[[int], tuple[float, ...]]) -> CaseRun:
    """The case with one block of these samples in each worker of the head."""
    workers = (replace(each, blocks=(Block(index=0, position=0, samples_ms=samples_ms(each.pair)),)) for each in one.head)
    return one.model_copy(update={"head": tuple(workers)})


def in_sessions(one: CaseRun, session: Callable[[int], int]) -> CaseRun:
    """The case with its workers in other sessions."""
    sides = {side: tuple(replace(each, session=session(each.session)) for each in getattr(one, side)) for side in SIDES}
    return one.model_copy(update=sides)


def with_kernels(one: CaseRun, ratio: float) -> CaseRun:
    """The case with the GPU waiting for the host, and kernels that take ``ratio`` times 0.4 ms."""
    waiting = examples.waiting(one, head=1.0, reference=1.0)
    sides = {"head": 0.4 * ratio, "reference": 0.4}
    update = {
        side: tuple(replace(each, kernels_ms=(ms * (1 + 1e-3 * (each.pair % 3)),)) for each in getattr(waiting, side))
        for side, ms in sides.items()
    }
    return waiting.model_copy(update=update)


def now_and_then(one: CaseRun, times: float, each: int) -> CaseRun:
    """The case with every so manyth sample of the head that many times slower."""
    count = iter(range(10**6))
    head = tuple(
        replace(
            worker,
            blocks=tuple(
                replace(block, samples_ms=tuple(ms * times if next(count) % each == 0 else ms for ms in block.samples_ms))
                for block in worker.blocks
            ),
        )
        for worker in one.head
    )
    slow = sum(ms for worker in head for block in worker.blocks for ms in block.samples_ms) / next(count)
    done = examples.performance(1.0).model_copy(update={"mean_time_ms": slow})
    return one.model_copy(update={"head": head, "performance": done})


def alone(about: str, baseline: Baseline, ratio: float, *others: str) -> RecordedRun:
    """A run whose reference did not build, of a case that takes ``ratio`` ms, and of others."""
    lost = failure("ValueError: no such\nlayout.", "there", stage="prepare", side="reference")
    lost |= {"reference": (), "reference_workload": None, "reference_performance": None}
    cases = [
        case(name, of).model_copy(update=lost)
        for name, of in (("attention/training_512", ratio), *((name, 1.0) for name in others))
    ]
    run = examples.run_of(*cases, reference=None, reference_missing="The reference did not build.")
    return RecordedRun(about=about, runs={"": run}, baseline=baseline)


def stored_days(*medians_ms: float, name: str = "attention/training_512") -> Baseline:
    """A baseline of 1 ms that was measured on so many days of April."""
    days = [Day(timestamp=datetime(2026, 4, 1 + day, tzinfo=UTC), median_ms=ms) for day, ms in enumerate(medians_ms)]
    first = {"median_ms": 1.0, "ci_95_low": 0.99, "ci_95_high": 1.01, "pair_medians_ms": STEADY[:8]}
    entry = examples.first_entry(name, **first).model_copy(update={"days": tuple(days)})
    return examples.stored({name: with_digest(entry, ChainPlace(examples.FINGERPRINT.key, name))})


def drifted() -> tuple[RunRecord, Baseline]:
    """A run that makes a case a little slower, which three merges before it did as well."""
    best = Tree(commit="1" * 40, subject="softmax: one pass")
    merges = tuple(
        Candidate(
            commit=f"{number}" * 40,
            measurement=Measurement(
                started_at=STARTED, ended_at=STARTED, reference=best.commit, ratio=ratio, low=ratio, high=ratio, pairs=8
            ),
        )
        for number, ratio in ((2, 1.01), (3, 1.02), (4, 1.028))
    )
    name = "softmax/rows_4096"
    entry = examples.first_entry(name, git_commit=best.commit).model_copy(update={"merges": merges})
    baseline = examples.stored({name: with_digest(entry, ChainPlace(examples.FINGERPRINT.key, name))})
    whole = case(name, 1.041, reference_tree=best)
    return examples.run_of(
        case(name, [1.012 * each for each in STEADY]), case("softmax/rows_512", 1.0), best=(whole,), anchors=(whole,)
    ), baseline


def accept(
    name: str, reason: str = "rows that are masked as a whole gave NaN; see @octocat in #12", **changes: Any
) -> Acceptance:
    usual: dict[str, Any] = {
        "by": "a-maintainer",
        "sha": HEAD.commit,
        "comment": 2_481_113_907,
        "at": STARTED + timedelta(minutes=20),
    }
    return Acceptance(case=name, reason=reason, **(usual | changes))


def one(about: str, *cases: CaseRun, run: dict[str, Any] | None = None, **known: Any) -> RecordedRun:
    """A check of these cases; ``run`` changes its record, ``known`` is what else is known."""
    return RecordedRun(about=about, runs={"": examples.run_of(*cases, **(run or {}))}, **known)


def shards() -> RunRecord:
    """Two halves of a suite, put together."""
    halves = (("copy/32m", 1.0, "gemm/1k", 1.08), ("softmax/rows_512", 0.9, "gemm/2k", 1.001))
    return joined(
        [
            examples.run_of(case(a, of_a), case(b, of_b), shard=Shard(number=number, of=2), warnings=(f"Warm: {number}.",))
            for number, (a, of_a, b, of_b) in enumerate(halves, 1)
        ]
    )


COMPILE_ERROR = (
    "Traceback (most recent call last):",
    '  File "bench/attention.py", line 41, in run',
    "triton.compiler.errors.CompilationError: at 17:31:",
    "    tl.store(x_ptr + offsets, valu, mask=offsets < n)",
    "NameError('valu is not defined')",
)
OUTCOMES = (
    case("softmax/rows_4096", 1.001),
    case("layernorm/hidden_4096", 1.039),
    case("attention/inference_4k", 1.0521),
    case("attention/training_512", waves(1.08, 12)),
    case("attention/training_1k", NOISE, pair_s=1.5),
    case("gemm/2k", 0.876),
    case(
        "gemm/fp8_4k", **failure("the head's result is wrong: error 0.31, allowed 0.02", "AssertionError: max |out - ref| = 0.31")
    ),
    new("gemm/new_shape", workload=WORKLOAD.model_copy(update={"flops": 1.0})),
    gone("gemm/gone"),
    case("gemm/1k", 1.5, workload=WORKLOAD.model_copy(update={"dtype": "float16"})),
    case("copy/32m", identity=SAME_CODE),
    case("gemm/8k", unfit=BUSY),
    case("fp8/rows", skipped="It needs the module transformer_engine, which is not installed."),
)
UNPROVEN = {
    "attention/training_512": [1.1 * ratio for ratio in STEADY[:8]],
    "softmax/rows_4096": waves(1.1, 20),
    "softmax/rows_512": [1.3, 1.5, 0.9, 1.2] * 7,
    "softmax/rows_1k": [(1.1, 1.3, 1.12, 1.25, 1.08, 1.2, 1.3, 1.1)[session_of(pair)] * STEADY[pair % 8] for pair in range(28)],
    "gemm/1k": [1.08 * (1 + (0.0, 0.05, 0.03, -0.05, -0.02, 0.02, 0.05, -0.05)[pair % 8]) for pair in range(28)],
    "gemm/2k": [1.08 * (1 + 0.025 * math.sin(pair / 2)) for pair in range(28)],
    "gemm/4k": [*(1.02 * ratio for ratio in STEADY[:18]), 1.3, 1.4, 1.35, 1.2],
    "copy/16m": waves(1.01, 12),
    "copy/32m": waves(1.04, 12),
    "copy/64m": waves(1.028, 24, 1.2),
    "copy/128m": list(STEADY[:6]),
}


def hostile() -> RecordedRun:
    """Every text that code under test, a branch or a comment may write tries to be more than text."""
    findings = tuple(
        finding.model_copy(update={"what": HOSTILE, "why": HOSTILE, "advice": HOSTILE})
        for finding in examples.case_profile().findings
    )
    profile = examples.case_profile(
        f"{HOSTILE}/a", findings=findings, steps_down=(HOSTILE,), files={HOSTILE: HOSTILE}, failed={"reference": HOSTILE}
    )
    cases = (
        case(f"{HOSTILE}/a", 1.08),
        case("$(reboot);x/b", **failure(HOSTILE, HOSTILE, "````", "</details>", "::error::pwned", "##[group]x")),
        case("[/red]bold/c", skipped=HOSTILE),
        case("x/y", 1.2),
        case("x/z", 1.0, identity={"head": "a", "reference": "b"}, host_difference=HOSTILE),
        case("x/unfit", unfit=HOSTILE),
    )
    return one(
        "Every text that the code under test, a branch or a comment may have written tries to be more than text.",
        *cases,
        run={
            "head": Tree(commit="--upload-pack=x", subject=HOSTILE, dirty=True),
            "warnings": (HOSTILE, "- [ ] a task", "1. a list", "---"),
            "command": ("ratchet", "check", HOSTILE),
        },
        profiles=(profile,),
        acceptances=(accept("x/y", HOSTILE[:400], by="octocat", comment=None),),
        page={
            "base_ref": HOSTILE,
            "rules": HOSTILE,
            "repository": HOSTILE,
            "url": "javascript:alert(1)",
            "problem": HOSTILE,
            "stale_for": HOSTILE,
            "changes": ("baseline",),
            "notes": (HOSTILE, "::error::x"),
            "paths": {"x": "../../etc/passwd", "$(reboot);x": "/etc/passwd"},
        },
    )


def runs() -> dict[str, RecordedRun]:
    """Name → recorded run."""
    same, slow, fast = case("copy/32m", 1.0004), case("attention/inference_4k", 1.041), case("softmax/rows_4096", 0.876)
    identical = case("gemm/2k", identity=SAME_CODE)
    l4 = examples.FINGERPRINT.model_copy(update={"gpu": "NVIDIA L4"})
    on_l4 = examples.run_of(same, environment=ENVIRONMENT.model_copy(update={"fingerprint": l4}))
    small = case("decode/step", 1.0081)
    roofed = with_roof(case("copy/64m", 1.0001), 0, 4100.0), with_roof(case("matmul/square_4096", 1.0), 720_000.0, 800.0)
    many = [case(f"bench/config_{number}", [(1.05 + number / 100) * ratio for ratio in STEADY]) for number in range(14)]
    drift, drift_baseline = drifted()
    edited = examples.first_entry("copy/32m").model_copy(update={"median_ms": 0.052})
    muted = tuple(
        Mute(case=name, owner="@jo", reason="waits for driver 591", until=date(2026, day, 1))
        for name, day in (("attention/*", 12), ("softmax/*", 12), ("gemm/*", 1))
    )
    return {
        "pass": one("No case is slower, and one is faster.", same, case("gemm/1k", 0.9987), fast, identical),
        "outcomes": one(
            "A case of each outcome, with a profile, uncommitted changes and a warning.",
            *OUTCOMES,
            run={"head": HEAD.model_copy(update={"dirty": True}), "warnings": ("The GPU’s clock is not locked.",)},
            profiles=(examples.case_profile(),),
        ),
        "unproven": one(
            "Slowdowns that are not proven, one for each thing that may be missing, and cases that are inconclusive.",
            *(
                examples.waiting(made, head=1.0) if name == "copy/64m" else made
                for name, made in ((name, case(name, ratios, pair_s=1.7)) for name, ratios in UNPROVEN.items())
            ),
        ),
        "hostile": hostile(),
        "run": one(
            "`ratchet run`: one side, nothing to compare with.",
            roofed[0],
            case("gemm/2k", 1.0),
            case("fp8/rows", skipped="It needs the module transformer_engine."),
            case("gemm/fp8", **failure("the result is wrong")),
            run={"kind": "run", "reference": None, "command": ("ratchet", "run")},
        ),
        "roofs": one(
            "Cases beside the measured roofs: under them, past them, in the L2 cache, timed warm.",
            *roofed,
            with_roof(case("norm/rows_1k", 1.0003, **working(bytes=1e6, flops=None)), 0, 6100.0),
            with_roof(case("norm/rows_1k_warm", 0.9995, **working(cache="warm", flops=None)), 0, 6100.0),
            with_roof(case("norm/rows_8k", 1.0004, **working(bytes=341e6, flops=None)), 0, 5576.0),
            with_roof(case("gemm/sparse", 1.0002), 800_000.0, 1560.0, 0.043),
            case("norm/rows_2k", [0.903 * ratio for ratio in waves(1.0, 12, 1.6)]),
            run={"environment": ENVIRONMENT.model_copy(update={"l2_bytes": 60 << 20})},
        ),
        "identical": one(
            "A pull request that touches no kernel.",
            *(case(f"gemm/{number}k", identity=SAME_CODE) for number in range(12)),
            case("copy/1k", identity={"head": "a", "reference": "b"}, host_same=True),
        ),
        "odd_names": one(
            "Names that a shell could read as more than names.",
            *(case(name, 1.1) for name in ("ok/a", "$(reboot)/b", "--base/c", "x;y/d", "ok/e")),
        ),
        "failed": one(
            "A kernel does not compile, another gives a wrong result, a third is slower without proof, a fourth lost workers.",
            same,
            case("attention/training_512", **failure(COMPILE_ERROR[-1], *COMPILE_ERROR, stage="prepare")),
            case("gemm/fp8_4k", **failure("The head's result is wrong: ‖out − ref‖ / ‖ref‖ is 0.31, and 0.02 is allowed.")),
            case("gemm/8k", waves(1.1, 12)),
            case("gemm/16k", 1.0, lost=(LostWorker(side="head", pair=3, stage="measure", how="was killed", last_lines=("x",)),)),
        ),
        "failed_on_both": one(
            "Both sides give a wrong result.",
            same,
            case("gemm/2k", failures=failure("Wrong.")["failures"] + failure("Wrong.", side="reference")["failures"]),
        ),
        "reference_died": one(
            "The reference of a case fails after two pairs.",
            same,
            case("gemm/2k", (1.0, 1.0), **failure("it was killed", "there", side="reference")),
        ),
        "unfit": one(
            "Another process took the GPU in the middle.",
            case("attention/inference_4k", unfit=BUSY),
            case("attention/training_512", unfit=BUSY),
            same,
            case("gemm/2k", 0.9991),
            case("gemm/4k", 1.0007),
        ),
        "nothing": one(
            "The GPU was too hot for any case.",
            case("attention/training_512", unfit=HOT),
            case("copy/32m", unfit=HOT),
            case("fp8/rows", skipped="It needs the module transformer_engine."),
        ),
        "no_case": one("A run without a case."),
        "only_new": one("Nothing to compare with.", new("gemm/new_shape")),
        "only_skipped": one("Every case was skipped.", case("fp8/rows", skipped="needs x")),
        "inconclusive": one(
            "A case has no answer, and a part of the artifact was left out.",
            same,
            case("attention/training_512", NOISE, pair_s=1.5),
            page={"notes": ("The profiles were left out: nsight/profiles.json is not JSON.",)},
        ),
        "inconclusive_fails": one(
            "A case has no answer, and the settings say that this fails.",
            same,
            case("attention/training_512", RESTLESS),
            run={"policy": Policy(on_inconclusive="fail")},
        ),
        "too_few_pairs": one(
            "Two pairs are too few for an interval.", case("gemm/2k", (1.0, 1.0)), case("gemm/4k", (1.1, 1.2, 1.1))
        ),
        "host_bound": one(
            "Nothing is slower, but times are the host's, results have no reference, and the reference is an old commit.",
            examples.waiting(small, head=0.91),
            examples.waiting(case("decode/sample", 1.0022, has_reference=False, agreement=1e-4), head=1.0, reference=1.0),
            case("gemm/2k", 0.9991, has_reference=False),
            identical.model_copy(update={"name": "copy/64m"}),
            gaps={"OTHER_REFERENCE": "Compared with 9e8d7c6b5a: a pass takes the commit where the head left main, 4e4e4e4e4e."},
        ),
        "kernels": one(
            "Kernels decide where the host hides them: slower, the same, and slower under calls that are not.",
            with_kernels(case("decode/step", RESTLESS), 1.05),
            with_kernels(case("decode/same", RESTLESS), 1.0),
            with_kernels(case("decode/hidden", 1.0), 1.05),
        ),
        "now_and_then": one(
            "The typical call is as fast as before, but some calls are far slower: often enough to prove it, and too seldom.",
            now_and_then(case("queue/often", STEADY), 3.0, 7),
            now_and_then(case("queue/some", STEADY), 2.5, 31),
            now_and_then(case("queue/once", STEADY), 12.0, 110),
            same,
        ),
        "sessions": one(
            "Hosts disagree: two of a case's sessions are far slower than the others, and another has too few sessions.",
            case("softmax/rows_1k", [(1.3 if session_of(pair) in (1, 4) else 1.0) * STEADY[pair % 8] for pair in range(24)]),
            in_sessions(case("softmax/rows_2k", 1.05), lambda session: session // 3),
        ),
        "coarse": one(
            "Times have steps of a twentieth.",
            with_head(case("copy/tiny", [1.0] * 20), lambda pair: (1.05 if pair % 2 else 1.0,) * 6),
        ),
        "throttled": one(
            "Blocks that heat slowed are left out, and stages were timed.",
            case(
                "gemm/2k", 1.0, head=tuple(examples.blocks(pair, 1.0, 1.9, throttled=[1], stages_ms=STAGES) for pair in range(20))
            ),
        ),
        "memory": one(
            "A call takes more memory than the reference, and another one more than its limit.",
            case("gemm/2k", 1.0, performance=examples.performance(1.0).model_copy(update={"peak_memory_bytes": 512 * 2**20})),
            case("gemm/4k", 1.0, memory_limit_bytes=1000),
        ),
        "accepted": one("The only regression was taken on purpose.", slow, same, acceptances=(accept("attention/inference_4k"),)),
        "accepted_slower": one(
            "A slowdown without proof was accepted, and another one was not.",
            case("attention/inference_4k", waves(1.1, 12)),
            case("gemm/2k", waves(1.12, 12)),
            acceptances=(accept("attention/inference_4k"), accept("gemm/4k")),
        ),
        "accepted_and_red": one(
            "One regression was accepted, another was not.",
            slow,
            case("gemm/2k", 1.08),
            acceptances=(accept("attention/inference_4k"),),
            page={"paths": {"gemm": "bench/gemm.py", "attention": "bench/attention.py"}},
        ),
        "accepted_unfit": one(
            "The only regression was accepted, and another case could not be measured.",
            slow,
            case("gemm/8k", unfit=BUSY),
            acceptances=(accept("attention/inference_4k"),),
        ),
        "stale": one(
            "The head moved while it was measured, and the pull request edits the baseline.",
            same,
            fast,
            page={"stale_for": "4e" * 20, "changes": ("baseline",)},
        ),
        "problem": RecordedRun(
            about="The job with the GPU died.",
            without_run={"": "The job that measures ended with “failure” and left no results: its log says why."},
        ),
        "unfinished": RecordedRun(
            about="The job that publishes ended in the middle.",
            without_run={"": "Publishing ended before there was a verdict: the log of the job that publishes says why."},
            page={"log_url": LOG_URL},
        ),
        "several_pass": RecordedRun(about="Green on two GPU models.", runs={"h200": examples.run_of(same, fast), "l4": on_l4}),
        "several_alike": RecordedRun(
            about="Two runners were meant to have different GPU models and have one.",
            runs={"h200": examples.run_of(same), "l4": examples.run_of(same, slow)},
        ),
        "left_out": one("Cases were left out.", same, gaps={"LEFT_OUT": "Not measured, though the baseline has them: gemm/1k."}),
        "removed": one("Cases were removed.", same, gaps={"REMOVED": "The head removes what the baseline has: gemm/old."}),
        "no_reference": alone("The reference did not build, and one day is stored.", stored_days(1.0), 1.5, "gemm/2k"),
        "no_reference_days": alone("The reference did not build, and eight days are stored.", stored_days(*APRIL), 1.2),
        "no_reference_same": alone("Against eight stored days nothing is slower.", stored_days(*APRIL), 0.98),
        "edited_baseline": one(
            "The baseline file was edited by hand.",
            same,
            run={"warnings": ("Hot.",)},
            baseline=examples.stored({"copy/32m": edited}),
        ),
        "drift": RecordedRun(
            about="A small slowdown, which makes a case slower than its best commit by more than the gate.",
            runs={"": drift},
            baseline=drift_baseline,
        ),
        "muted": one(
            "A slowdown and a case without an answer are muted, and one mute is over.",
            slow,
            case("softmax/rows_4096", NOISE),
            case("gemm/2k", 1.0),
            run={"policy": Policy(mutes=muted)},
        ),
        "renamed": one(
            "A case was renamed.",
            new("gemm/new_name"),
            gone("gemm/old_name"),
            same,
            baseline=examples.stored({"gemm/old_name": examples.first_entry("gemm/old_name")}),
        ),
        "shards": RecordedRun(about="Two shards, put together.", runs={"": shards()}),
        "head_benchmarks": one(
            "Both sides were measured with the benchmarks of the head.", same, slow, run={"bench_from": "head"}
        ),
        "uncommitted": one(
            "Uncommitted changes against their own commit.",
            same,
            slow,
            run={"head": REFERENCE.model_copy(update={"dirty": True})},
        ),
        "compared_apart": RecordedRun(
            about="`ratchet compare`: two runs at different times.",
            runs={
                "": examples.run_of(
                    case("gemm/1k", 1.2), case("gemm/2k", 1.0), case("gemm/4k", 1.04), case("gemm/8k", 0.8), new("gemm/16k")
                )
            },
            earlier=examples.run_of(*(case(f"gemm/{name}", 1.0) for name in ("1k", "2k", "4k", "8k", "gone"))),
        ),
        "narrow_gate": one(
            "A gate of half a percent.",
            case("gemm/2k", [1.007 * each for each in STEADY]),
            case("gemm/4k", 1.0),
            run={"policy": Policy(regression=0.005)},
        ),
        "many": one("More regressions than a comment lists as commands.", *many, page={"paths": {"bench": "bench/bench.py"}}),
        "one_case": one("One case, and nothing else.", same),
        "cpu": one(
            "A machine without a GPU.",
            same,
            case("gemm/2k", 1.9),
            run={"environment": CPU_ENVIRONMENT, "plan": PLAN.model_copy(update={"clock": "cpu"})},
        ),
        "traced": one(
            "A profile without ncu, and changed cases without a profile.",
            slow,
            case("gemm/2k", 1.08),
            profiles=(
                examples.case_profile(
                    head=examples.traced(10, 2e-5, launches=30),
                    reference=examples.traced(5, 1e-5, launches=5),
                    findings=(),
                    steps_down=("ncu (Nsight Compute) is not installed.",),
                    files={},
                ),
            ),
            page={"url": RUN_URL},
        ),
    }


def recorded_bytes(run: RecordedRun) -> bytes:
    """The file of a recorded run: one line of JSON, with times of seven digits."""
    document = run.model_dump(mode="json", exclude_defaults=True)
    if run.runs:
        document["runs"] = {name: examples.listed(one, exclude_defaults=True) for name, one in run.runs.items()}
    if run.earlier:
        document["earlier"] = examples.listed(run.earlier, exclude_defaults=True)
    document = _rounded(document)
    return (json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


if __name__ == "__main__":
    for name, made in runs().items():
        (RUNS / f"{name}.json").write_bytes(recorded_bytes(made))
