"""The commands ``run --static`` and ``check --static``. Loaded by `ratchet.core.cli` when one of them is called."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ratchet.core.cli.options import common, device, out_file, reference, request_of, waiting
from ratchet.core.cli.output import print_paths, print_result, progressing, shown
from ratchet.core.command_result import write
from ratchet.core.errors import Exit
from ratchet.core.records.files import save, save_text
from ratchet.core.report.words import commit_label
from ratchet.core.units import plural, size, wall
from ratchet.core.untrusted import clean
from ratchet.identical.static.command import check, record
from ratchet.identical.static.records import REPORT, Instructions, KernelChange, StaticReport

MOST_OPCODES = 6
"""Opcodes that a line names."""


@click.command("record")
@click.argument("cases", nargs=-1)
@device
@waiting
@common
def record_command(cases: tuple[str, ...], **options: Any) -> int:
    """Run each case once, and write down what a verdict without a GPU needs: results/static.json.

    It holds what each case touches of the tree, and the kernels that Triton compiles for it. Run it on the GPU's machine, on the
    main branch, and keep the file in the repository, beside the baseline.
    """
    with progressing(options) as progress:
        path, still_holds = record(request_of(cases, options), progress, os.environ)
    since = f", of {commit_label(still_holds)}: no case touches what changed since" if still_holds else ""
    fields = {"file": str(path), "still_holds": still_holds.commit if still_holds else None}
    print_result(fields, [f"Record:  {shown(path)}{since}"], as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("check")
@click.argument("cases", nargs=-1)
@reference("the one before HEAD; HEAD if there are uncommitted changes")
@click.option(
    "--record",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The record (default: results/static.json of the reference, else of this checkout).",
)
@out_file("--needed", "Also write the cases that need the GPU, one a line.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show progress as lines that stay, on a terminal too.")
@common
def check_command(cases: tuple[str, ...], **options: Any) -> int:
    """Say without a GPU which cases a change leaves alone, by the record that `ratchet run --static` made.

    No case runs. Kernels with another source are compiled for the recorded GPU. If every case is proved identical, it writes
    the files of a check, and exits with 0; it exits with 3 if the GPU must decide.
    """
    with progressing(options) as progress:
        report, done, results = check(request_of(cases, options), options["file"], progress, os.environ)
    save(results / REPORT, report)
    if options["needed"]:
        save_text(options["needed"], "".join(f"{name}\n" for name in report.needed))
    print_result(report, lines(report), as_json=options["as_json"])
    if done:
        print_paths(write(done, os.environ), quiet=options["as_json"])
    return int(Exit.NOT_MEASURED if report.needed or not report.cases else Exit.PASS)


def lines(report: StaticReport) -> Iterator[str]:
    """Yield the report for people."""
    yield f"{commit_label(report.head)} against {commit_label(report.reference)}, by what {report.machine} recorded of"
    yield f"{commit_label(report.recorded)}"
    width = max((len(case.name) for case in report.cases), default=0)
    for case in report.cases:
        if case.identical:
            count = len(case.kernels)
            proof = f"{plural(count, 'kernel')} compile{'s' if count == 1 else ''} to the same machine code" if count else ""
            yield f"IDENTICAL  {clean(case.name):<{width}}  {proof or 'it touches nothing that differs'}"
        else:
            changed = [kernel for kernel in case.kernels if not kernel.same]
            why = case.reasons[0] if case.reasons else f"{plural(len(changed), 'kernel')} changed"
            yield f"NEEDS GPU  {clean(case.name):<{width}}  {clean(why)}"
    for text in dict.fromkeys(_kernel(each) for case in report.cases for each in case.kernels if not each.same):
        yield f"  {text}"
    count = len(report.needed)
    yield f"{len(report.cases) - count} of {plural(len(report.cases), 'case')} identical in {wall(report.seconds)}." + (
        f" The GPU job must run for {plural(count, 'case')}." if count else " No GPU is needed."
    )


def _kernel(change: KernelChange) -> str:
    name = clean(change.kernel)
    if not (change.reference and change.head) or change.trouble:
        return f"{name}: {clean(change.trouble)}"
    one, other = change.reference.code, change.head.code
    figures = {
        "registers": (str(one.registers), str(other.registers)),
        "spills": (size(one.spills), size(other.spills)),
        "shared memory": (size(one.shared), size(other.shared)),
        "code": (size(one.code_size), size(other.code_size)),
    }
    parts = [f"{what} {_arrow(before, after)}" for what, (before, after) in figures.items()]
    if change.reference.instructions and change.head.instructions:
        parts.append(_mix(change.reference.instructions, change.head.instructions))
    return f"{name}: {', '.join(parts)}"


def _arrow(before: object, after: object) -> str:
    return f"{before}" if before == after else f"{before} -> {after}"


def _mix(one: Instructions, other: Instructions) -> str:
    """Return the number of instructions, and the opcodes of which there are more or fewer, the most first."""
    counts = {opcode: (one.counts.get(opcode, 0), other.counts.get(opcode, 0)) for opcode in {**one.counts, **other.counts}}
    changed = {opcode: pair for opcode, pair in counts.items() if pair[0] != pair[1]}
    most = sorted(changed, key=lambda opcode: (-abs(changed[opcode][1] - changed[opcode][0]), opcode))[:MOST_OPCODES]
    listed = ", ".join(f"{opcode} {_arrow(*changed[opcode])}" for opcode in most)
    what = "instructions" if one.of == "machine code" else "instructions of PTX"
    return f"{what} {_arrow(sum(one.counts.values()), sum(other.counts.values()))}" + (f" ({listed})" if listed else "")
