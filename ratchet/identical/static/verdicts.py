"""Reach verdicts without a GPU, from a record, three trees as folders, and what kernels compile to. Starts nothing.

`command.check` compiles the kernels itself; `evidence` takes the word of a job that did, and looks at the rest again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

from ratchet.core.records.run import SIDES, CaseRun, Config, Policy, RunRecord, Side
from ratchet.core.records.tuned import TUNED_FILE
from ratchet.core.report.words import commit_label
from ratchet.core.units import plural
from ratchet.identical.difference import TreeDifference, compare
from ratchet.identical.footprint import Found, Touch, look
from ratchet.identical.static.records import (
    Kernel,
    KernelChange,
    Recompiled,
    Recorded,
    RecordedCase,
    StaticCase,
    StaticReport,
)


@dataclass(frozen=True)
class OneSide:
    """A side of the check, and how it differs from what was recorded."""

    side: Side
    difference: TreeDifference


def tree_difference(base: Path, tree: Path, bench: str, results: str) -> TreeDifference:
    """Return how a tree differs from the recorded one; ``bench`` and ``results`` are folders in both."""
    try:
        found = compare(base, tree, bench, results)
    except OSError as error:
        return TreeDifference(unknown=f"the trees cannot be read: {error.strerror}")
    # The harness lists this folder and imports what it finds, and takes parameters from a file there: no doing of any case.
    in_bench = (path for path in found.one_sided if PurePath(path).is_relative_to(bench))
    read = {path for path in in_bench if PurePath(path).suffix in ("", ".py")} | ({f"{bench}/{TUNED_FILE}"} & found.paths.keys())
    return replace(found, counted=(*found.counted, *(f"{path} {found.paths[path]}" for path in sorted(read))))


def verdicts(
    recorded: Recorded,
    sides: Sequence[OneSide],
    names: Sequence[str],
    compiled: Callable[[Sequence[int]], Mapping[int, KernelChange]],
) -> Iterator[StaticCase]:
    """Yield the verdict on each of these cases. ``compiled`` gets places of kernels in the record, once at most."""
    imported = recorded.imported.touches()
    found = {name: [_found(recorded.cases[name], imported, side) for side in sides] for name in names}
    open_cases = {name for name, of in found.items() if not any(one.noticed for one in of) and any(one.kernels for one in of)}
    wanted = sorted({place for name in open_cases for place in recorded.cases[name].kernels})
    changes = compiled(wanted) if wanted else {}
    for name, of in found.items():
        reasons = tuple(
            dict.fromkeys(f"{_called(side)}{why}" for side, one in zip(sides, of, strict=True) for why in one.noticed)
        )
        kernels = tuple(changes[place] for place in recorded.cases[name].kernels) if name in open_cases else ()
        same = not reasons and all(kernel.same for kernel in kernels)
        if name in open_cases and not kernels:
            reasons, same = ("a kernel changed that no compiled one is known to use",), False
        yield StaticCase(name=name, identical=same, reasons=reasons, kernels=kernels)


def _called(side: OneSide) -> str:
    return "" if side.side == "head" else "since the record: "


def _found(case: RecordedCase, imported: dict[Touch, str], side: OneSide) -> Found:
    if case.unknown:
        return Found((case.unknown,))
    return look(imported | case.touched.touches(), side.difference)


def kernel_change(kernel: Kernel, of_side: Mapping[Side, Recompiled | str], trouble: str = "") -> KernelChange:
    """Return how a kernel fared. It is the same only where both sides compile to what was recorded on the GPU."""
    made = {side: one for side, one in of_side.items() if isinstance(one, Recompiled)}
    failed = [f"{side}: {one}" for side, one in of_side.items() if isinstance(one, str)]
    same = len(made) == len(SIDES) and all(one.code == kernel.compiled for one in made.values())
    if not (same or trouble or failed) and made["reference"].code == made["head"].code:
        trouble = "here the compiler makes other code of the recorded source than it did on the GPU's machine"
    return KernelChange(
        kernel=kernel.label,
        reference=made.get("reference"),
        head=made.get("head"),
        same=same,
        trouble=trouble or "; ".join(failed),
    )


def run_of(command: tuple[str, ...], policy: Policy, recorded: Recorded, report: StaticReport) -> RunRecord:
    """Return the record of a check in which every case is identical."""
    return RunRecord(
        kind="check",
        started_at=datetime.now(UTC) - timedelta(seconds=report.seconds),
        wall_s=report.seconds,
        command=command,
        environment=recorded.environment,
        plan=recorded.plan,
        policy=policy,
        head=report.head,
        reference=report.reference,
        cases=tuple(identical_cases(recorded, report)),
        warnings=(note_of(report),),
    )


def identical_cases(recorded: Recorded, report: StaticReport) -> Iterator[CaseRun]:
    """Yield what a run has of each case that was proved identical."""
    for case in (case for case in report.cases if case.identical):
        workload, (benchmark, config) = recorded.cases[case.name].workload, case.name.split("/", 1)
        code = [one.head.code.code for one in case.kernels if one.head]
        digest = hashlib.sha256("".join(code).encode()).hexdigest()
        yield CaseRun(
            name=case.name,
            benchmark=benchmark,
            config=Config(name=config, parameters=workload.parameters if workload else {}),
            workload=workload,
            reference_workload=workload,
            host_same=not code,
            identity=dict.fromkeys(SIDES, digest) if code else {},
        )


def note_of(report: StaticReport) -> str:
    """Return a sentence for a run about the cases that were proved identical."""
    count = sum(case.identical for case in report.cases)
    what = "No case ran" if count == len(report.cases) else f"{plural(count, 'case')} did not run"
    return f"{what}: by what was recorded of {commit_label(report.recorded)}, this change does not reach any of them."
