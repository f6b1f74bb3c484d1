"""The command `ratchet evaluate`: a baseline file against a candidate file. Loaded by `ratchet.cli` when it is called."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ratchet.cli.options import device, request_of, waiting
from ratchet.cli.output import print_result, progressing
from ratchet.commands.evaluate import (
    EvaluationRequest,
    evaluate,
    read_certificate,
    read_source,
    request_again,
)
from ratchet.errors import Exit
from ratchet.judge.evaluation import exit_code
from ratchet.records.evaluation import EvaluationRecord, InputSpec, Rules, parse_input
from ratchet.records.files import save
from ratchet.report.terminal import evaluation_lines, verified_line
from ratchet.units import parse_size


def _input(text: str) -> InputSpec:
    try:
        return parse_input(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def _memory(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def _seeds(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) < 2**31 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 1,2,3.")
    return tuple(map(int, parts))


@click.command(
    "evaluate",
    epilog="\b\nExamples:\n"
    "  ratchet evaluate                                  .weco/baseline.py against .weco/optimize.py, as kernel(x)\n"
    "  ratchet evaluate old.py new.py --function softmax --input 8192x2048:bfloat16\n"
    "  ratchet evaluate old.py new.py --input 512x512 --input 512 --input =0.5\n"
    "  ratchet evaluate old.py new.py --inputs make.py:make_inputs --certify win.json\n"
    "  ratchet evaluate --verify win.json",
)
@click.argument("baseline", type=click.Path(path_type=Path), default=".weco/baseline.py")
@click.argument("candidate", type=click.Path(path_type=Path), default=".weco/optimize.py")
@click.option("--function", default="kernel", show_default=True, help="Function that both files have.")
@click.option(
    "--input", "inputs", type=_input, multiple=True, metavar="SPEC",
    help="An argument: 4096x4096, 4096x4096:bfloat16, 8192:int64:0..32000 or =0.5; repeat it for more. "
    "Default: one float32 matrix of 4096 × 4096, on a CPU of 1024 × 1024.",
)  # fmt: skip
@click.option("--inputs", "maker", metavar="FILE:FUNCTION", help="A function (seed, device) that returns all arguments.")
@click.option("--rtol", type=click.FloatRange(0, 1), default=1e-3, show_default=True, help="Relative tolerance of an element.")
@click.option("--atol", type=click.FloatRange(0), default=1e-5, show_default=True, help="Absolute tolerance of an element.")
@click.option(
    "--memory-limit", type=_memory, metavar="SIZE", default="4000MB", show_default=True, help="Most memory that a call may hold."
)
@click.option("--seeds", type=_seeds, default=None, metavar="1,2,…", help="Seeds of the inputs (default: new ones each time).")
@click.option("--allow-lower-precision", is_flag=True, help="Accept TF32 or half precision inside, within the tolerances.")
@click.option("--sanitize", is_flag=True, help="First run the candidate under compute-sanitizer (memcheck, racecheck).")
@click.option("--pairs", type=click.IntRange(8, 200), help="Most pairs of fresh processes (default: 20).")
@click.option("--case-timeout", help="Time limit for one step of a file (default: 60s).")
@click.option("--certify", type=click.Path(path_type=Path, dir_okay=False), help="Write sources, samples and verdict to a file.")
@click.option("--verify", type=click.Path(path_type=Path, dir_okay=False), help="Run the evaluation of such a file again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")
@device
@waiting
def evaluate_command(baseline: Path, candidate: Path, **options: Any) -> int:
    """Evaluate a candidate file against a baseline file: same results, how much faster, and is it true?

    Both files have the function, which gets fresh inputs on the device. Exits with 0 if the candidate is valid and not slower,
    1 if it is slower or violates a constraint, 3 if that could not be shown.
    """
    request = request_of((), {**options, "repo": Path.cwd()})
    certificate = read_certificate(options["verify"]) if options["verify"] else None
    wanted = request_again(certificate) if certificate else _wanted(baseline, candidate, options)
    wanted = replace(wanted, sanitize=options["sanitize"])
    with progressing(options) as progress:
        record = evaluate(wanted, request, progress, os.environ)
    if options["certify"]:
        save(options["certify"], record)
    print_result(_without_sources(record), evaluation_lines(record), as_json=options["as_json"])
    if certificate is None:
        return int(exit_code(record.verdict))
    print_result(None, [verified_line(certificate, record)] if not options["as_json"] else [], as_json=False)
    return int(exit_code(record.verdict) if record.verdict == certificate.verdict else Exit.NOT_MEASURED)


def _wanted(baseline: Path, candidate: Path, options: dict[str, Any]) -> EvaluationRequest:
    if options["maker"] and options["inputs"]:
        raise click.UsageError("--input and --inputs exclude each other.")
    file, _, maker_function = (options["maker"] or "").partition(":")
    if options["maker"] and not maker_function:
        raise click.UsageError("--inputs names a file and a function, such as make.py:make_inputs.")
    rules = Rules(
        rtol=options["rtol"],
        atol=options["atol"],
        memory_limit_bytes=options["memory_limit"],
        same_precision=not options["allow_lower_precision"],
    )
    maker = read_source(Path(file)) if file else None
    return EvaluationRequest(
        read_source(baseline),
        read_source(candidate),
        options["function"],
        options["inputs"],
        maker,
        maker_function,
        rules,
        options["seeds"] or (),
    )


def _without_sources(record: EvaluationRecord) -> EvaluationRecord:
    """Return the record as it is printed: without the texts and the samples, which a certificate has."""
    sources = {
        name: source.model_copy(update={"text": ""})
        for name in ("baseline", "candidate", "maker")
        if (source := getattr(record, name)) is not None
    }
    return record.model_copy(update={**sources, "samples": {}})
