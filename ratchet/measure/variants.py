"""Measure the variants of benchmarks: each of them in pairs with the benchmark's own, by `suite.measure_suite`.

`ratchet.commands.variants` calls `measure_variants`. Head and reference are one tree, which builds its benchmarks as one variant
or as another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ratchet.errors import UnfitError, UsageError
from ratchet.measure.client import Hosts
from ratchet.measure.duet import MeasureProgress
from ratchet.measure.selection import choose_cases
from ratchet.measure.suite import CaseTask, Suite, measure_suite
from ratchet.measure.tree_spec import Sweep, TreeSpec
from ratchet.records.run import CaseRun, Config, Side


@dataclass(frozen=True)
class MeasuredVariants:
    """Suites whose head is the benchmark's own variant."""

    cases: tuple[CaseRun, ...]
    """The chosen cases, not measured."""
    variants: Mapping[str, tuple[str, ...]]
    """Case → its variants, its own first; one without a name where it has no others."""
    suites: Mapping[str, Suite]
    """The other variant, the reference of its suite; no name: cases without others, timed alone."""


def measure_variants(
    tree: TreeSpec, task: CaseTask, progress: MeasureProgress, environ: Mapping[str, str], sweep: Sweep | None = None
) -> MeasuredVariants:
    """Measure every variant of the cases that ``task`` selects, or of the cases of a sweep.

    Raises as `measure_suite`, and as `swept_case`.
    """
    progress.stage("Importing benchmarks")
    with Hosts({"head": tree}, environ) as hosts:
        listing = hosts.sides["head"].listing()
        cases = choose_cases(listing, None, (sweep.case,) if sweep else task.patterns)
    offered = {case.name: case.variants or ("",) for case in listing.cases}
    if sweep:
        case = swept_case(cases, sweep)
        tree = replace(tree, sweep=replace(sweep, case=case.name))
        cases = [_with_value(case, sweep, value) for value in sweep.values]
        offered |= dict.fromkeys((one.name for one in cases), offered[case.name])
    variants = {case.name: offered[case.name] for case in cases if case.name in offered and not case.skipped}
    suites = {}
    for other in dict.fromkeys(other for names in variants.values() for other in names[1:] or ("",)):
        chosen = tuple(name for name, names in variants.items() if other in (names[1:] or ("",)))
        part = replace(task, patterns=chosen, compared=bool(other), time_identical=True)
        trees: dict[Side, TreeSpec] = {"head": tree}
        if other:
            trees["reference"] = replace(tree, variant=other)
        suites[other] = measure_suite(trees, part, progress, environ)
    return MeasuredVariants(tuple(cases), variants, suites)


def swept_case(cases: Sequence[CaseRun], sweep: Sweep) -> CaseRun:
    """Return the case whose parameter changes.

    Raises UsageError where there are several, or it has no such parameter, UnfitError where it cannot run.
    """
    case, *others = cases
    if why := case.skipped or next((failure.message for failure in case.failures), ""):
        raise UnfitError(f"{case.name} cannot be measured: {why}.")
    if others:
        raise UsageError(
            f"{sweep.case} has {len(cases)} configs, and a sweep needs one for its other parameters.",
            f"Name one, such as {case.name}.",
        )
    if sweep.parameter not in case.config.parameters:
        known = ", ".join(case.config.parameters) or "none"
        raise UsageError(f"{case.name} has no parameter {sweep.parameter}.", f"Its parameters: {known}.")
    return case


def _with_value(case: CaseRun, sweep: Sweep, value: int) -> CaseRun:
    name = replace(sweep, case=case.name).name(value)
    config = Config(name=name.partition("/")[2], parameters=case.config.parameters | {sweep.parameter: value})
    return case.model_copy(update={"name": name, "config": config})
