"""Carry out `ratchet evaluate`: is a candidate file faster than a baseline file, does it compute the same, and is that so?

Read it from the top: fix the sources, draw the seeds, compare results, time, judge. `request_again` is for a certificate. It
holds the device, starts processes that run both files, and writes to a scratch folder; the command line writes the certificate.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import ratchet
from ratchet.core.bench.build import without_secrets
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.cache import scratch_folder
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.environment import describe
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.machine import Machine, machine_of, plan_of_case
from ratchet.core.records.files import load
from ratchet.core.records.run import Side
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, root_of
from ratchet.core.trees import tree_spec
from ratchet.lab.judge import headline, timed_verdict
from ratchet.lab.measure.evaluation import SEEDS, FilesTask, MeasuredFiles, find_sanitizer, measure_files, write_tree
from ratchet.lab.records.evaluation import EvaluationRecord, EvaluationTask, InputSpec, Rules, SourceFile, Violation
from ratchet.lab.rules import CandidateRule, clocks_agree, times_ms

BUDGET_S = {"cuda": 12.0, "cpu": 5.0}
"""No pair begins after so many seconds of them, beyond the first eight, unless --pairs asks for them."""
BLOCKS = {"cuda": 8, "cpu": 4}
SIZE = {"cuda": 4096, "cpu": 1024}
"""Rows and columns of the argument, where nothing else is asked for."""


@dataclass(frozen=True)
class EvaluationRequest:
    """The files to evaluate, and the options. The sources are fixed: they were read before anything of them ran."""

    baseline: SourceFile
    candidate: SourceFile
    function: str
    inputs: tuple[InputSpec, ...]
    """None: one square float32 matrix, as large as the device is used to."""
    maker: SourceFile | None
    maker_function: str
    rules: Rules
    seeds: tuple[int, ...] = ()
    """None: new ones are drawn."""
    sanitize: bool = False
    """Run the candidate under compute-sanitizer, too."""


def read_source(path: Path) -> SourceFile:
    """Read a file that is to be evaluated. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}.", "Name the files: `ratchet evaluate BASELINE CANDIDATE`.") from None
    return SourceFile(path=str(path.absolute()), sha256=_digest(text), text=text)


def evaluate(wanted: EvaluationRequest, request: Request, progress: Progress, environ: Mapping[str, str]) -> EvaluationRecord:
    """Evaluate a candidate against a baseline.

    Raises UsageError for a wrong request, BusyError and UnfitError for the device, HostError where no process can be started.
    What goes wrong in either file is in the record.
    """
    given = {name: value for name, value in request.options.items() if value is not None}
    options = {"pairs": 20, "case_timeout": 60, **given}
    settings = load_settings(root_of(request.folder), environ, options, request.folder)
    clock, started, evaluator = time.monotonic(), datetime.now(UTC), evaluator_digest()
    with (
        machine_of(request.devices, settings, f"ratchet evaluate {wanted.candidate.path}", progress, environ) as machine,
        scratch_folder("evaluate") as folder,
    ):
        sanitizer = _sanitizer(machine, environ) if wanted.sanitize else None
        seeds = (*wanted.seeds, *(secrets.randbelow(2**31) for _ in range(SEEDS)))[:SEEDS]
        size = SIZE[machine.device]
        inputs = wanted.inputs or (() if wanted.maker else (InputSpec(shape=(size, size)),))
        budget_s = 0.0 if "pairs" in given else BUDGET_S[machine.device]
        plan = plan_of_case(settings, machine.device, BLOCKS[machine.device], budget_s).model_copy(update={"seed": seeds[-1]})
        rule = CandidateRule(settings.pairs)
        task = FilesTask(plan, wanted.rules, rule, seeds, machine.gpu, machine.idle, sanitizer)
        trees = _trees(wanted, inputs, settings, machine, folder, request.folder)
        measured = measure_files(trees, task, folder, progress, without_secrets(environ))
    if evaluator_digest() != evaluator:
        measured.violations.append(Violation(rule="harness", message="files of the evaluator changed while the candidate ran"))
    judged = _judged(measured, wanted.rules)
    return EvaluationRecord.model_validate(
        {
            "started_at": started,
            "wall_s": time.monotonic() - clock,
            "command": request.command,
            "evaluator": evaluator,
            "environment": describe(
                machine.gpu,
                machine.device,
                torch_version=measured.torch or None,
                cuda_version=measured.cuda,
                triton_version=measured.triton,
                cpu_threads=settings.cpu_threads,
                l2_bytes=None,
            ),
            "baseline": wanted.baseline,
            "candidate": wanted.candidate,
            "maker": wanted.maker,
            "maker_function": wanted.maker_function,
            "function": wanted.function,
            "inputs": inputs,
            "rules": wanted.rules,
            "seeds": seeds,
            "probes": tuple(measured.probes),
            "slope": measured.slope,
            "kernels": measured.kernels,
            "samples": measured.samples,
            "warnings": (*machine.warnings, *measured.notes),
            **judged,
        }
    )


def read_certificate(path: Path) -> EvaluationRecord:
    """Return the evaluation that a certificate holds. Raises RecordError, also where a source is not the one it names."""
    record = load(path, EvaluationRecord)
    for source in filter(None, (record.baseline, record.candidate, record.maker)):
        if _digest(source.text) != source.sha256:
            raise RecordError(f"{path}: the text of {source.path} does not match its digest.", "Certify it again.")
    return record


def request_again(record: EvaluationRecord) -> EvaluationRequest:
    """Return the request that evaluates the sources of a certificate again, with its seeds and rules."""
    return EvaluationRequest(
        record.baseline,
        record.candidate,
        record.function,
        record.inputs,
        record.maker,
        record.maker_function,
        record.rules,
        record.seeds,
    )


def evaluator_digest() -> str:
    """Return the SHA-256 over the names and contents of the installed package's Python files."""
    root, digest = Path(ratchet.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0{_digest(path.read_text(encoding='utf-8'))}\0".encode())
    return digest.hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sanitizer(machine: Machine, environ: Mapping[str, str]) -> Path:
    if machine.device == "cpu":
        raise UsageError("compute-sanitizer looks at kernels on a GPU, and this is the CPU.", "Leave --sanitize out.")
    return find_sanitizer(environ)


def _trees(
    wanted: EvaluationRequest,
    inputs: tuple[InputSpec, ...],
    settings: Settings,
    machine: Machine,
    scratch: Path,
    folder: Path,
) -> dict[Side, TreeSpec]:
    """Write a tree for each side, whose only difference is the file."""
    sides: dict[Side, SourceFile] = {"reference": wanted.baseline, "head": wanted.candidate}
    trees: dict[Side, TreeSpec] = {}
    for side, source in sides.items():
        task = EvaluationTask(
            source=source,
            function=wanted.function,
            inputs=inputs,
            maker=wanted.maker,
            maker_function=wanted.maker_function,
            folder=str(folder),
            tolerance=max(1e-2, 10 * wanted.rules.rtol),
            strict=side == "head",
        )
        path = write_tree(scratch / side, task)
        trees[side] = tree_spec(settings.model_copy(update={"bench": "bench", "python_path": ()}), machine, scratch, path)
    return trees


def _judged(measured: MeasuredFiles, rules: Rules) -> dict[str, object]:
    """Return the verdict and the figures of a record."""
    verdict, comparison = timed_verdict(measured.samples.get("head", ()), measured.samples.get("reference", ()))
    violations = list(measured.violations)
    peak = measured.peaks.get("head")
    if peak is not None and peak > rules.memory_limit_bytes:
        violations.append(Violation(rule="memory", message=f"peak memory {peak / 2**20:.0f}MB exceeds limit"))
    figures: dict[str, object] = {}
    # What was wrong or forged has no speed; what takes too much memory has one.
    if comparison is not None and not measured.trouble and all(one.rule == "memory" for one in violations):
        baseline_ms, optimized_ms = times_ms(measured.samples, comparison)
        figures = {
            "speedup": 1 / comparison.ratio,
            "speedup_low": 1 / comparison.high,
            "speedup_high": 1 / comparison.low,
            "baseline_ms": baseline_ms,
            "optimized_ms": optimized_ms,
        }
        if verdict == "faster" and (measured.slope is None or not clocks_agree(measured.samples, measured.slope)):
            verdict = "unconfirmed"
    if violations:
        verdict = "violated"
    elif measured.trouble or comparison is None:
        verdict = "not measured"
    return {
        **figures,
        "verdict": verdict,
        "headline": headline(verdict, comparison, violations, measured.trouble),
        "comparison": comparison if figures else None,
        "violations": tuple(violations),
        "baseline_peak_bytes": measured.peaks.get("reference"),
        "peak_bytes": peak,
    }
