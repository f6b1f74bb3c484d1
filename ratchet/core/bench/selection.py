"""Choose the cases of a run from the listings of both trees, and give each the import failures that concern it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.bench.messages import CaseListed, Listing
from ratchet.core.errors import UsageError
from ratchet.core.records.run import CaseRun, Config, Failure, Side
from ratchet.core.units import did_you_mean
from ratchet.core.untrusted import clean


def choose_cases(head: Listing, reference: Listing | None, patterns: Sequence[str]) -> list[CaseRun]:
    """Return every case of either side that a pattern selects, not measured yet.

    A case whose file is broken on one side carries that side's failure. So does one that the head skips since a module is not
    installed, if the reference has it and can run it, and one whose function lost its decorator. Raises UsageError for a pattern
    that matches nothing, naming near misses.
    """
    heads = {case.name: case for case in head.cases}
    others = {case.name: case for case in reference.cases} if reference else {}
    lost = {
        "head": _lost("head", head, others) | _not_importable(head, others) | _undeclared(head, others),
        "reference": _lost("reference", reference or Listing(), heads),
    }
    names = list(dict.fromkeys([*heads, *others, *lost["head"], *lost["reference"]]))
    for pattern in unmatched(names, patterns):
        known = sorted({part for name in names for part in (name, *name.split("/"))})
        meant = f"No case, benchmark or config is called {pattern}. {did_you_mean(pattern, known)}"
        raise UsageError(meant.rstrip(), "See `ratchet doctor cases`.")
    return [
        _case(name, heads.get(name), others.get(name), [lost[side][name] for side in lost if name in lost[side]], reference)
        for name in select(names, patterns)
    ]


def _lost(side: Side, listing: Listing, others: dict[str, CaseListed]) -> dict[str, Failure]:
    """Return the cases whose declaration cannot work, and those that a side's broken files would have had.

    These are known by the file's text, or by what the other side has in that file.
    """
    faults = {case.name: clean(case.fault) for case in listing.cases if case.fault}
    found = {name: Failure(side=side, stage="import", message=fault) for name, fault in faults.items()}
    for broken in listing.broken:
        names = (*broken.cases, *(case.name for case in others.values() if case.file == broken.file))
        stand_in = f"{broken.file.removesuffix('.py')}/*"  # the file must not vanish from the report
        lines = tuple(clean(line) for line in broken.last_lines)
        failure = Failure(side=side, stage="import", message=clean(f"{broken.file}: {broken.message}"), last_lines=lines)
        found |= dict.fromkeys(names or (stand_in,), failure)
    return found


def _not_importable(head: Listing, others: dict[str, CaseListed]) -> dict[str, Failure]:
    """Return cases that the reference can run and the head cannot import: a package that was renamed, a name misspelt."""
    errors = {case.file: case.import_error for case in head.cases if case.import_error}
    names = {case.name: case.file for case in head.cases if case.import_error}
    listed = {case.name for case in head.cases}
    names |= {case.name: case.file for case in others.values() if case.file in errors and case.name not in listed}
    return {
        name: Failure(side="head", stage="import", message=clean(f"{file}: {errors[file]}"))
        for name, file in names.items()
        if name in others and not others[name].skipped
    }


def _undeclared(head: Listing, others: dict[str, CaseListed]) -> dict[str, Failure]:
    """Return the cases of the reference whose function the head still has in that file, but not as a benchmark."""
    listed = {case.benchmark for case in head.cases}
    return {
        case.name: Failure(
            side="head",
            stage="import",
            message=f"{case.file} has {case.benchmark}() without @benchmark: add that, or rename or remove the function",
        )
        for case in others.values()
        if case.benchmark not in listed and head.undeclared.get(case.benchmark) == case.file
    }


def _case(
    name: str, head: CaseListed | None, other: CaseListed | None, failures: list[Failure], reference: Listing | None
) -> CaseRun:
    shown = head or other
    if head and other and other.skipped and not head.skipped:
        # The reference gives no time for it; the head is still measured.
        failures = [*failures, Failure(side="reference", stage="import", message=other.skipped)]
    broken = {failure.side for failure in failures}
    benchmark, _, config = name.partition("/")
    return CaseRun(
        name=name,
        benchmark=benchmark,
        config=Config(name=config, parameters=shown.parameters if shown else {}),
        skipped=(shown.skipped or None) if shown and "head" not in broken else None,
        failures=tuple(failures),
        in_head=head is not None or "head" in broken,
        in_reference=reference is None or other is not None or "reference" in broken,
    )
