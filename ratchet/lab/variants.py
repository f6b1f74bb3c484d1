"""Carry out `ratchet variants`: time the variants of benchmarks beside each other.

Read it from the top: what is measured, then how a suite becomes a record. Like `ratchet run` it imports the checkout in place and
holds the device. The command line writes the files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ratchet import tools
from ratchet.common.rooflines import Roof
from ratchet.core.bench.client import Hosts
from ratchet.core.bench.lost import repeats
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.suite import CaseTask, Suite, measure_suite
from ratchet.core.bench.tree_spec import Sweep, TreeSpec
from ratchet.core.config import Settings
from ratchet.core.errors import UnfitError, UsageError
from ratchet.core.judge.comparison import compare_workers, performance
from ratchet.core.judge.rule import Rule
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.files import load
from ratchet.core.records.run import CaseRun, Config, Side
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, settings_of, watched, writable
from ratchet.core.trees import tree_specs
from ratchet.lab.records.variants import Claim, Claims, VariantsCase, VariantsRecord, VariantTime

CONFIDENCE = 0.95
PAIRS = 6
"""Pairs of a variant, unless the command line says otherwise: what is compared here differs by more than a gate."""
FOLDER, CLAIMS = "quickwins", "claims.json"
"""Folder of the quick wins: below that of the repository's own benchmarks if it has some, else below `SHIPPED`."""
SHIPPED = Path(__file__).parent / "shipped"
"""A tree of benchmarks that comes with ratchet."""


Over = tuple[str, tuple[int, ...]]
"""A parameter and its values."""


def variants(
    request: Request, progress: Progress, environ: Mapping[str, str], *, over: Over | None = None, quickwins: bool = False
) -> tuple[list[VariantsRecord], Path]:
    """Time all variants of the chosen cases, of one case at many values ``over`` a parameter, or of the quick wins.

    Return a record for each benchmark, or one for all quick wins, and the folder where their files belong. Raises as
    `check.check` does; nothing is built.
    """
    root, settings = settings_of(request, environ, PAIRS)
    claims: tuple[Claim, ...] = ()
    tree = root
    if quickwins:
        bench = f"{settings.bench}/{FOLDER}"
        if not (root / bench / CLAIMS).is_file():
            tree, bench = SHIPPED, FOLDER
        claims = load(tree / bench / CLAIMS, Claims).claims
        # What is compared here differs by tens of per cent: half the blocks, and one place in memory, are enough.
        settings = settings.model_copy(update={"bench": bench, "blocks": min(settings.blocks, 4), "placements": 1})
    results = writable(root / settings.results)
    clock, started = time.monotonic(), datetime.now(UTC)
    with (
        machine_of(request.devices, settings, f"ratchet variants in {root}", progress, environ) as machine,
        watched(root, results, progress),
    ):
        plan = plan_of(settings, machine.device)
        task = CaseTask(plan, request.patterns, CONFIDENCE, Rule((settings.pairs,)), gpu=machine.gpu, idle=machine.idle)
        cases, suites = _measure_variants(tree_specs(settings, machine, tree, tree)["head"], task, progress, environ, over)
        roofs = () if quickwins else _roofs(cases, machine, settings, results, progress, environ)
    record = VariantsRecord(
        started_at=started,
        wall_s=time.monotonic() - clock,
        command=request.command,
        environment=environment_of(machine, suites[0] if suites else None),
        plan=plan,
        cases=tuple(cases),
        claims=claims,
        parameter=over[0] if over else "",
        warnings=(*machine.warnings, *repeats([case for suite in suites for case in suite.cases])),
    )
    if quickwins:
        return [record], results / "variants"
    by_benchmark: dict[str, list[VariantsCase]] = {}
    for case in record.cases:
        by_benchmark.setdefault(case.benchmark, []).append(case)
    records = [with_roofline(record.model_copy(update={"cases": tuple(its)}), roofs) for its in by_benchmark.values()]
    return records, results / "variants"


def _roofs(
    cases: Sequence[VariantsCase],
    machine: Machine,
    settings: Settings,
    results: Path,
    progress: Progress,
    environ: Mapping[str, str],
) -> tuple[Roof, ...]:
    """Return the roofs of the datasheet, and those that this machine reaches; none where no case declares its work."""
    if not any(case.workload and case.workload.declares_work for case in cases):
        return ()
    measured = tools.part("roofs").roofs_of(machine, settings, results, progress, environ)
    known: tuple[Roof, ...] = tools.part("roofline").machine_roofs(environment_of(machine).fingerprint, measured)
    return known


def with_roofline(record: VariantsRecord, roofs: tuple[Roof, ...]) -> VariantsRecord:
    """Return the record with its variants below those of the roofs that hold them."""
    pure = tools.part("roofline")
    needed = {"dram", *(pure.precision_of(case.workload.dtype) for case in record.cases if case.workload)}
    points = [
        pure.declared(f"{one.name}/{case.config.name}", None, case.workload, one.median_ms * 1e-3, record.environment.l2_bytes)
        for case in record.cases
        for one in case.variants
        if case.workload and case.workload.declares_work and one.median_ms
    ]
    near = tuple(roof for roof in roofs if (roof.precision or roof.kind) in needed)
    return record.model_copy(update={"roofline": pure.roofline(record.environment.fingerprint.processor, points, near)})


def _measure_variants(
    tree: TreeSpec, task: CaseTask, progress: Progress, environ: Mapping[str, str], over: Over | None
) -> tuple[list[VariantsCase], list[Suite]]:
    """Measure every variant of the cases that ``task`` selects, or of one of them at many values.

    There is a suite for each other variant, whose head is the benchmark's own one, and one of the cases without others. Raises
    as `measure_suite`, and as `swept_case`.
    """
    progress.stage("Importing benchmarks")
    with Hosts({"head": tree}, environ) as hosts:
        listing = hosts.sides["head"].listing()
        cases = choose_cases(listing, None, task.patterns)
    offered = {case.name: case.variants or ("",) for case in listing.cases}
    if over:
        case = swept_case(cases, over[0])
        sweep = Sweep(case.name, *over)
        tree, cases = replace(tree, sweep=sweep), []
        for value in sweep.values:
            name = sweep.name(value)
            config = Config(name=name.partition("/")[2], parameters=case.config.parameters | {sweep.parameter: value})
            cases.append(case.model_copy(update={"name": name, "config": config}))
        offered |= dict.fromkeys((one.name for one in cases), offered[case.name])
    variants = {case.name: offered[case.name] for case in cases if case.name in offered and not case.skipped}
    suites: dict[str, Suite] = {}
    for other in dict.fromkeys(other for names in variants.values() for other in names[1:] or ("",)):
        chosen = tuple(name for name, names in variants.items() if other in (names[1:] or ("",)))
        part = replace(task, patterns=chosen, compared=bool(other), time_identical=True)
        trees: dict[Side, TreeSpec] = {"head": tree}
        if other:
            trees["reference"] = replace(tree, variant=other)
        suites[other] = measure_suite(trees, part, progress, environ)
    measured: dict[str, dict[str, CaseRun]] = {}
    for other, suite in suites.items():
        for timed in suite.cases:
            measured.setdefault(timed.name, {})[other] = timed
    own = {name: names[0] for name, names in variants.items()}
    return [timed_variants(case, own.get(case.name, ""), measured.get(case.name, {})) for case in cases], list(suites.values())


def swept_case(cases: Sequence[CaseRun], parameter: str) -> CaseRun:
    """Return the case whose parameter changes.

    Raises UsageError where there are several, or it has no such parameter, UnfitError where it cannot run.
    """
    case, *others = cases
    if why := case.skipped or next((failure.message for failure in case.failures), ""):
        raise UnfitError(f"{case.name} cannot be measured: {why.rstrip('.')}.", "Fix that and try again, or name another case.")
    if others:
        raise UsageError(
            f"These are {len(cases)} cases, and --over needs one for its other parameters.", f"Name one, such as {case.name}."
        )
    if parameter not in case.config.parameters:
        known = ", ".join(case.config.parameters) or "none"
        raise UsageError(f"{case.name} has no parameter {parameter}.", f"Its parameters: {known}.")
    return case


def timed_variants(listed: CaseRun, own: str, measured: Mapping[str, CaseRun]) -> VariantsCase:
    """Return a case with the times of all its variants. ``measured``: beside each other one, or by itself."""
    workload = next((case.workload for case in measured.values() if case.workload), None)
    times: tuple[VariantTime, ...] = ()
    if measured:
        heads = [worker for case in measured.values() for worker in case.head]
        failed = next((why for case in measured.values() for why in _failures(case, "head")), "")
        figures = performance(heads, workload, CONFIDENCE) if workload and not failed else None
        problem = failed or ("" if heads else next((why for case in measured.values() for why in _problems(case, "head")), ""))
        times = (
            VariantTime(
                name=own or listed.benchmark,
                median_ms=figures.median_time_ms if figures else None,
                low_ms=figures.ci_95_low if figures else None,
                high_ms=figures.ci_95_high if figures else None,
                peak_memory_bytes=figures.peak_memory_bytes if figures else 0,
                problem=problem,
            ),
            *(_other(other, case, figures.median_time_ms if figures else None) for other, case in measured.items() if other),
        )
    return VariantsCase(
        name=listed.name,
        benchmark=listed.benchmark,
        config=listed.config,
        workload=workload,
        variants=times,
        problem=listed.skipped or next((failure.message for failure in listed.failures), ""),
        skipped=bool(listed.skipped),
    )


def _other(name: str, case: CaseRun, own_ms: float | None) -> VariantTime:
    """Return a variant; its time is that of the own one times what the pairs show, so that a slow minute moves both."""
    comparison = compare_workers(case.head, case.reference, CONFIDENCE)
    if comparison is None or own_ms is None or any(_failures(case, "reference")):
        return VariantTime(name=name, problem=next(_problems(case, "reference"), "its benchmark's own variant has no time"))
    return VariantTime(
        name=name,
        median_ms=own_ms / comparison.ratio,
        low_ms=own_ms / comparison.high,
        high_ms=own_ms / comparison.low,
        peak_memory_bytes=max(worker.peak_memory_bytes for worker in case.reference),
        comparison=comparison,
    )


def _failures(case: CaseRun, side: Side) -> Iterator[str]:
    """Yield what failed, such as a wrong result: in a later pair, a side has times from before it, and they count for nothing."""
    return (failure.message for failure in case.failures if failure.side == side)


def _problems(case: CaseRun, side: Side) -> Iterator[str]:
    """Yield why a side of a case has no times."""
    yield from _failures(case, side)
    if case.unfit:
        yield case.unfit
    if case.workload and case.reference_workload and case.workload != case.reference_workload:
        yield f"it does other work: {', '.join(case.workload.differences(case.reference_workload))}"
