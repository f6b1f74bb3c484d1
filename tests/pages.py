"""Sample pages for comments and check runs; the red one is of a real run on an H200."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.profile import Profiles
from ratchet.core.records.run import CaseRun, RunRecord
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.github.comment import CommentPage, MeasuredRun
from ratchet.github.publish import joined
from ratchet.github.records import Acceptance
from ratchet.github.state import Gap, PublishedState, with_acceptances, with_gaps
from tests import examples, reports

H200 = Path(__file__).parent / "data" / "h200_red"
RUN_URL = "https://github.com/octocat/kernels/actions/runs/19432117786"
LOG_URL = "https://github.com/octocat/kernels/actions/runs/19432117999"
LINKS = (RUN_URL, f"{RUN_URL}#artifacts", LOG_URL)
"""All that a comment or a check run may link to."""


INSIDE = "Any slowdown is smaller than the gate of 3 %."


def page(report: ReportRecord | None, **changes: Any) -> CommentPage:
    """The page of a report, as the trusted job makes it."""
    head_sha = report.head.commit if report and len(report.head.commit) == 40 else examples.HEAD.commit
    run = MeasuredRun("octocat/kernels", head_sha, "main", RUN_URL, 19432117786)
    of_run = {name: changes.pop(name) for name in list(changes) if hasattr(run, name)}
    usual: dict[str, Any] = {
        "rules": "gate 3 %, improvement 5 % from pyproject.toml of main at 5fe2b0c1d3; "
        "baseline results/baseline.json of main at 5fe2b0c1d3",
    }
    return CommentPage(report, replace(run, **of_run), **(usual | changes))


def green() -> CommentPage:
    """No case is slower."""
    return page(h200_report("h200_green"))


def red() -> CommentPage:
    """Five regressions of one run, three of them profiled."""
    return page(h200_report(), paths={"normalize": "bench/normalize.py", "attention": "bench/attention.py"})


def slower() -> CommentPage:
    """Five slowdowns that took fewer pairs than a proof needs."""
    return page(h200_report("h200_slower"), paths={"normalize": "bench/normalize.py"})


def mixed() -> CommentPage:
    """A case of nearly every outcome, a failure with its last lines, a warning."""
    return page(reports.red_report().model_copy(update={"profiles": (examples.case_profile(),)}))


def improved() -> CommentPage:
    """One case is faster."""
    report = reports.green_report()
    profile = examples.case_profile(
        "softmax/rows_4096", ratio=0.876, findings=(), steps_down=("There is no ncu on this machine.",)
    )
    return page(report.model_copy(update={"profiles": (profile,)}))


def inconclusive() -> CommentPage:
    """One case has no answer, and a part of the artifact was left out."""
    cases = (
        reports.case("copy/32m", Outcome.UNCHANGED, INSIDE, 1.0004, 0.0643),
        reports.case(
            "attention/training_512",
            Outcome.INCONCLUSIVE,
            "The interval reaches from −1.20 % to +5.40 %, across the gate of 3 %.",
            1.021,
            0.0612,
            comparison=reports.comparison(1.021, 0.033),
        ),
    )
    return page(reports.report(cases), notes=("The profiles were left out: nsight/profiles.json is not JSON.",))


def several() -> CommentPage:
    """Measured on three GPU models: red on one, green on another, and the third one's runner gave no results."""
    report = h200_report("h200_green")
    other = report.environment.fingerprint.model_copy(update={"gpu": "NVIDIA L4"})
    green = page(report.model_copy(update={"environment": report.environment.model_copy(update={"fingerprint": other})}))
    missing = page(None, problem="No runner of this model gave results in time: run 19432117786 ended with “failure”.")
    return joined({"l4": green, "h200": red(), "b200": missing})


def identical() -> CommentPage:
    """A pull request that touches no kernel: every case runs the same code."""
    return page(judge_run(with_cases(h200_run(), *(case for case in h200_run().cases if case.identical)), Baseline()))


def failed() -> CommentPage:
    """A kernel does not compile, another gives a wrong result, and a third one is slower."""
    cases = (
        reports.case("copy/32m", Outcome.UNCHANGED, INSIDE, 1.0004, 0.0643),
        reports.case(
            "attention/training_512",
            Outcome.FAILED,
            "Prepare: CompilationError at kernels/attention.py:17:31, “tl.store(x_ptr + offsets, valu, mask=offsets < n)”: "
            "NameError('valu is not defined').",
            last_lines=(
                "Traceback (most recent call last):",
                '  File "bench/attention.py", line 41, in run',
                "    attend[grid](q, k, v, out, BLOCK_M=128, BLOCK_N=64)",
                "triton.compiler.errors.CompilationError: at 17:31:",
                "    tl.store(x_ptr + offsets, valu, mask=offsets < n)",
                "                              ^",
                "NameError('valu is not defined')",
            ),
        ),
        reports.case(
            "gemm/fp8_4k",
            Outcome.FAILED,
            "Check: The head's result is wrong: ‖out − ref‖ / ‖ref‖ is 0.31, and 0.02 is allowed.",
            reference=reports.side(0.21),
        ),
    )
    return page(reports.report(cases))


def unfit() -> CommentPage:
    """Another process took the GPU in the middle of the run."""
    busy = (
        "During this case another process was computing on the GPU; measure again when it is free, or choose another with --gpu."
    )
    cases = (
        reports.case("attention/inference_4k", Outcome.UNFIT, busy),
        reports.case("attention/training_512", Outcome.UNFIT, busy),
        reports.case("copy/32m", Outcome.UNCHANGED, INSIDE, 1.0004, 0.0643),
        reports.case("gemm/2k", Outcome.UNCHANGED, INSIDE, 0.9991, 0.0451),
        reports.case("gemm/4k", Outcome.UNCHANGED, INSIDE, 1.0007, 0.3011),
    )
    return page(reports.report(cases))


def nothing() -> CommentPage:
    """The GPU was too hot for any case, and the machine cannot run the last one."""
    hot = "6 of 8 blocks were dropped because the GPU was throttled (SW thermal slowdown); let it cool."
    cases = (
        reports.case("attention/training_512", Outcome.UNFIT, hot),
        reports.case("copy/32m", Outcome.UNFIT, hot),
        reports.case("fp8/rows", Outcome.SKIPPED, "Skipped: It needs the module transformer_engine, which is not installed."),
    )
    return page(with_gaps(reports.report(cases), (), ()))


def doubtful() -> CommentPage:
    """Nothing is slower, but some times are the host's, a result has no reference, and the reference is an old commit."""
    waits = (
        "The GPU waited for the host in 91 % of the head's blocks, so these times include launch latency and the host's noise. "
        'A CUDA graph (clock="graph"), fewer launches or a larger size would help.'
    )
    alone = "No reference implementation: both sides agree within 1e-4, and nothing else was checked."
    cases = (
        reports.case("decode/step", Outcome.UNCHANGED, INSIDE, 1.0081, 0.0182, host_bound=waits),
        reports.case("decode/sample", Outcome.UNCHANGED, INSIDE, 1.0022, 0.0091, host_bound=waits, unchecked=alone),
        reports.case("gemm/2k", Outcome.UNCHANGED, INSIDE, 0.9991, 0.0451, unchecked=alone),
        reports.case("copy/32m", Outcome.IDENTICAL, "The same machine code on both sides."),
    )
    older = Gap(
        PublishedState.OTHER_REFERENCE,
        "Compared with 9e8d7c6b5a: a pass takes the commit where the head left main, 4e4e4e4e4e, or the one that the baseline "
        "names for the case.",
    )
    return page(with_gaps(reports.report(cases), (), [older]), gaps=(older,))


def accepted() -> CommentPage:
    """The only regression was taken on purpose."""
    cases = (
        reports.case("attention/inference_4k", Outcome.REGRESSED, "Slower by 4.10 %.", 1.041, 1.041),
        reports.case("copy/32m", Outcome.UNCHANGED, INSIDE, 1.0004, 0.0643),
    )
    given = Acceptance(
        case="attention/inference_4k",
        reason="rows that are masked as a whole gave NaN; see @octocat in #12",
        by="a-maintainer",
        sha=examples.HEAD.commit,
        comment=2_481_113_907,
        at=examples.STARTED + timedelta(minutes=20),
    )
    done = with_acceptances(reports.report(cases, verdict="regression", exit_code=1), [given])
    return page(done.report, acceptances=done.acceptances)


def stale() -> CommentPage:
    """The head moved while it was measured, and the pull request edits the baseline."""
    return page(reports.green_report(), stale_for="4e" * 20, edited_baseline=True)


def problem() -> CommentPage:
    """The job with the GPU died."""
    return page(None, problem="The job that measures ended with “failure” and left no results: its log says why.")


def unfinished() -> CommentPage:
    """The job that publishes ended in the middle."""
    why = "Publishing ended before there was a verdict: the log of the job that publishes says why."
    return page(None, problem=why, log_url=LOG_URL)


def hostile() -> CommentPage:
    """Every text that code under test, a branch or a comment may have written tries to be more than text."""
    nasty = examples.HOSTILE
    profile = examples.case_profile(
        f"{nasty}/a",
        findings=tuple(each.model_copy(update={"what": nasty, "why": nasty, "advice": nasty}) for each in _findings()),
        steps_down=(nasty,),
        files={nasty: nasty},
        failed={"reference": nasty},
    )
    taken = Acceptance(case="x/y", reason=nasty[:400], by="octocat", sha="4e" * 20, comment=None, at=examples.STARTED)
    report = reports.hostile_report()
    cases = (*report.cases, reports.case("x/y", Outcome.REGRESSED, nasty, 1.2))
    return page(
        report.model_copy(update={"cases": cases, "profiles": (profile,), "unprofiled": (nasty,)}),
        base_ref=nasty,
        rules=nasty,
        repository=nasty,
        url="javascript:alert(1)",
        problem=nasty,
        stale_for=nasty,
        edited_baseline=True,
        notes=(nasty, "::error::x"),
        acceptances=(taken,),
        paths={"x": "../../etc/passwd", "$(reboot);x": "/etc/passwd"},
    )


def with_cases(run: RunRecord, *cases: CaseRun) -> RunRecord:
    """The run with these cases alone."""
    return run.model_copy(update={"cases": cases})


ALL = (
    *(red, slower, failed, inconclusive, unfit, nothing, green, improved, identical, accepted),
    *(doubtful, mixed, stale, problem, unfinished, hostile, several),
)


def h200_run(times: int = 1) -> RunRecord:
    """The samples of the run with five slowdowns; its 8 pairs so many times over, in a check of as many as today."""
    run = RunRecord.model_validate_json(h200_bytes("current.json"))
    planned = run.model_copy(update={"plan": run.plan.model_copy(update={"pairs": 100, "sessions": times > 1})})
    return with_cases(planned, *(examples.longer(case, times) for case in run.cases))


def h200_bytes(name: str) -> bytes:
    """A file of the red run's artifact."""
    return gzip.decompress((H200 / f"{name}.gz").read_bytes())


def h200_report(kind: str = "h200_red") -> ReportRecord:
    """The verdict on it, with its profiles; the green one has only the cases that were not timed and two that were not slower.

    The red one has enough pairs to prove its slowdowns, ``h200_slower`` has those that were recorded, which are too few.
    """
    run = h200_run(1 if kind == "h200_slower" else 3)
    if kind == "h200_green":
        swapped = [
            case.model_copy(update={"head": case.reference, "performance": case.reference_performance})
            for case in run.cases
            if case.name in ("normalize/rows_16k", "attention/training_1k")
        ]
        return judge_run(with_cases(run, *swapped, *(case for case in run.cases if case.identical)), Baseline())
    profiles = Profiles.model_validate_json(h200_bytes("profiles.json"))
    return judge_run(run, Baseline()).model_copy(update={"profiles": profiles.profiles})


def _findings() -> tuple[Any, ...]:
    return examples.case_profile().findings
