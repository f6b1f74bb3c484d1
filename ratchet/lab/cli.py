"""Commands that try a change: experiment (a session on one case) and evaluate (one file against another).

Loaded by `ratchet.core.cli` when one of them is called.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click

from ratchet.core.cli.options import Number, OutFile, as_json, common, device, duration, parsed, request_of, waiting
from ratchet.core.cli.output import print_result, progressing, shown
from ratchet.core.errors import Exit
from ratchet.core.records.files import save
from ratchet.core.records.profile import Category
from ratchet.core.request import results_folder
from ratchet.core.units import parse_size
from ratchet.lab.certificate import confirmation, read_certificate, sealed
from ratchet.lab.evaluate import EvaluationRequest, evaluate, read_source, request_again
from ratchet.lab.experiment import HANDOFF, StartRequest, open_session, show_experiment, start, status_of
from ratchet.lab.experiment_run import RunRequest, run
from ratchet.lab.judge import exit_code
from ratchet.lab.records.evaluation import EvaluationRecord, Rules, parse_input
from ratchet.lab.report.evaluation import evaluation_lines
from ratchet.lab.report.experiment import baseline_lines, experiment_lines, status_lines

_pairs = click.option("--pairs", type=click.IntRange(8, 200), help="At most this many pairs of fresh processes (default: 20).")
_timeout = click.option("--case-timeout", help="Time limit for one step of a case (default: 60s).")


@click.command("start")
@click.argument("case")
@click.option("--tests", default="", metavar="COMMAND", help="Test command of each experiment, split into words; no shell.")
@click.option("--test-timeout", type=duration, default="10m", show_default=True, help="Time limit for the tests.")
@click.option("--minutes", type=Number(0, min_open=True), help="Begin no experiment later than this after the start.")
@click.option(
    "--import", "table", type=click.Path(path_type=Path), help="Begin with the lines of a table, such as .codeflash/results.tsv."
)
@click.option("--again", is_flag=True, help="Close the session that is open; its lines stay in the table.")
@_pairs
@_timeout
@device
@waiting
@common
def start_command(case: str, **options: Any) -> int:
    """Profile CASE and open a session.

    The working tree as it is becomes the first reference; the noise of this machine is measured with it.
    """
    wanted = StartRequest(options["tests"], options["test_timeout"], options["minutes"], options["table"], options["again"])
    with progressing(options) as progress:
        session = start(wanted, request_of((case,), options), progress, os.environ)
    print_result(session, baseline_lines(session), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("run")
@click.option("-m", "--message", "description", required=True, help="What was changed, and why it should be faster.")
@click.option("--stage", required=True, help="Stage in which the gain should show; e2e for the whole call.")
@click.option("--pattern", required=True, help="What was wrong, such as pageable-h2d or kernel-fusion.")
@click.option("--category", type=click.Choice(get_args(Category)), help="Its category, where the pattern is a new one.")
@click.option("--micro", default="", metavar="CASE", help="Another case, which times only what was changed.")
@_pairs
@_timeout
@device
@waiting
@common
def run_command(**options: Any) -> int:
    """Try the working tree: keep or discard?

    It is compared with what was kept last.

    Exits with 0 for keep, with 1 for discard and crash, with 3 where nothing could be measured.
    """
    names = ("description", "stage", "pattern", "category", "micro")
    wanted = RunRequest(**{name: options[name] for name in names})
    with progressing(options) as progress:
        session, record = run(wanted, request_of((), options), progress, os.environ)
    lines = [*experiment_lines(record), *status_lines(status_of(session))]
    print_result(record, lines, as_json=options["as_json"])
    return int(Exit.PASS if record.decision.status == "keep" else Exit.REGRESSION)


@click.command("status")
@common
def status_command(**options: Any) -> int:
    """Say what was gained, and what to try next.

    Also whether the best could be luck, and whether a limit of the machine is reached.
    """
    status = status_of(open_session(results_folder(request_of((), options), os.environ)), datetime.now(UTC))
    print_result(status, status_lines(status), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("show")
@click.argument("number", type=click.IntRange(1), required=False)
@common
def show_command(number: int | None, **options: Any) -> int:
    """Show experiment NUMBER again, by default the last one."""
    record = show_experiment(results_folder(request_of((), options), os.environ), number)
    print_result(record, experiment_lines(record), as_json=options["as_json"])
    return int(Exit.PASS)


@click.command("handoff")
@common
def handoff_command(**options: Any) -> int:
    """Print HANDOFF.md, for whoever goes on."""
    results = results_folder(request_of((), options), os.environ)
    open_session(results)
    text = (results / HANDOFF).read_text(encoding="utf-8")
    print_result({"path": shown(results / HANDOFF), "text": text}, text.splitlines(), as_json=options["as_json"])
    return int(Exit.PASS)


# `ratchet evaluate`: a baseline file against a candidate file.


def _seeds(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) < 2**31 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 1,2,3.")
    return tuple(map(int, parts))


@click.command("evaluate")
@click.argument("baseline", type=click.Path(path_type=Path), default=".weco/baseline.py")
@click.argument("candidate", type=click.Path(path_type=Path), default=".weco/optimize.py")
@click.option("--function", default="kernel", show_default=True, help="Function that both files have.")
@click.option(
    "--input", "inputs", type=parsed(parse_input, "spec"), multiple=True, metavar="SPEC",
    help="An argument: 4096x4096, 4096x4096:bfloat16, 8192:int64:0..32000 or =0.5; repeat it for more. "
    "Default: one float32 matrix of 4096 × 4096, on a CPU of 1024 × 1024.",
)  # fmt: skip
@click.option("--inputs", "maker", metavar="FILE:FUNCTION", help="A function (seed, device) that returns all arguments.")
@click.option("--rtol", type=Number(0, 1), default=1e-3, show_default=True, help="Relative tolerance of an element.")
@click.option("--atol", type=Number(0), default=1e-5, show_default=True, help="Absolute tolerance of an element.")
@click.option(
    "--memory-limit",
    "limit_bytes",
    type=parsed(parse_size, "size"),
    metavar="SIZE",
    default="4000MB",
    show_default=True,
    help="Most memory that a call may hold.",
)
@click.option("--seeds", type=_seeds, default=None, metavar="1,2,…", help="Seeds of the inputs (default: new ones each time).")
@click.option("--allow-lower-precision", is_flag=True, help="Accept TF32 or half precision inside, within the tolerances.")
@click.option("--sanitize", is_flag=True, help="Run the candidate under compute-sanitizer (memcheck, racecheck).")
@click.option("--pairs", type=click.IntRange(8, 200), help="Pairs of times, fixed before the first one (default: 12).")
@click.option("--case-timeout", help="Time limit for one step of a file (default: 60s).")
@click.option(
    "--certify",
    cls=OutFile,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write sources, samples and verdict to a file.",
)
@click.option("--verify", type=click.Path(path_type=Path, dir_okay=False), help="Run the evaluation of such a file again.")
@as_json
@device
@waiting
def evaluate_command(baseline: Path, candidate: Path, **options: Any) -> int:
    """Evaluate a candidate file against a baseline file: are its results the same, and how much faster is it?

    Both files have the function, which gets fresh inputs on the device. Exits with 0 if the candidate is valid and not slower,
    1 if it is slower or violates a constraint, 3 if that could not be shown.
    """
    request = request_of((), {**options, "repo": Path.cwd()})
    certificate = read_certificate(options["verify"]) if options["verify"] else None
    wanted = request_again(certificate) if certificate else _wanted(baseline, candidate, options)
    wanted = replace(wanted, sanitize=options["sanitize"])
    with progressing(options) as progress:
        record = evaluate(wanted, request, progress, os.environ)
    print_result(_without_sources(record), evaluation_lines(record), as_json=options["as_json"])
    if options["certify"]:
        save(options["certify"], sealed(record))
    if certificate is None:
        return int(exit_code(record.verdict))
    is_same, said = confirmation(certificate, record)
    print_result(None, [said] if not options["as_json"] else [], as_json=False)
    return int(exit_code(record.verdict) if is_same else Exit.NOT_MEASURED)


def _wanted(baseline: Path, candidate: Path, options: dict[str, Any]) -> EvaluationRequest:
    if options["maker"] and options["inputs"]:
        raise click.UsageError("--input and --inputs exclude each other.")
    file, _, maker_function = (options["maker"] or "").partition(":")
    if options["maker"] and not maker_function:
        raise click.UsageError("--inputs names a file and a function, such as make.py:make_inputs.")
    rules = Rules(
        rtol=options["rtol"],
        atol=options["atol"],
        memory_limit_bytes=options["limit_bytes"],
        same_precision=not options["allow_lower_precision"],
    )
    maker = read_source(Path(file), "Name the file and its function: `--inputs FILE:FUNCTION`.") if file else None
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
    return record.model_copy(update={**sources, "observed": record.observed.model_copy(update={"samples": ()})})
