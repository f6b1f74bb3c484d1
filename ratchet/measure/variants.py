"""Measure the variants of benchmarks: each of them in pairs with the benchmark's own, by `suite.measure_suite`.

`ratchet.commands.variants` calls `measure_variants`. Head and reference are one tree, which builds its benchmarks as one variant
or as another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ratchet.measure.client import Hosts
from ratchet.measure.duet import MeasureProgress
from ratchet.measure.selection import choose_cases
from ratchet.measure.suite import CaseTask, Suite, measure_suite
from ratchet.measure.tree_spec import TreeSpec
from ratchet.records.run import CaseRun, Side


@dataclass(frozen=True)
class MeasuredVariants:
    """Suites whose head is the benchmark's own variant."""

    cases: tuple[CaseRun, ...]
    """The chosen cases, not measured."""
    variants: Mapping[str, tuple[str, ...]]
    """Case → its variants, its own first; one without a name where it has no others."""
    suites: Mapping[str, Suite]
    """The other variant, the reference of its suite; no name: cases without others, timed alone."""


def measure_variants(tree: TreeSpec, task: CaseTask, progress: MeasureProgress, environ: Mapping[str, str]) -> MeasuredVariants:
    """Measure every variant of the cases that ``task`` selects. Raises as `measure_suite`."""
    progress.stage("Importing benchmarks")
    with Hosts({"head": tree}, environ) as hosts:
        listing = hosts.sides["head"].listing()
        cases = choose_cases(listing, None, task.patterns)
    known = {case.name: case.variants or ("",) for case in listing.cases}
    variants = {case.name: known[case.name] for case in cases if case.name in known and not case.skipped}
    others = dict.fromkeys(other for names in variants.values() for other in names[1:] or ("",))
    suites = {}
    for other in others:
        chosen = tuple(name for name, names in variants.items() if other in (names[1:] or ("",)))
        part = replace(task, patterns=chosen, compared=bool(other), time_identical=True)
        trees: dict[Side, TreeSpec] = {"head": tree}
        if other:
            trees["reference"] = replace(tree, variant=other)
        suites[other] = measure_suite(trees, part, progress, environ)
    return MeasuredVariants(tuple(cases), variants, suites)
