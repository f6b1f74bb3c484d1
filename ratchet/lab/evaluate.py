"""Carry out `ratchet evaluate`: is a candidate file faster than a baseline file, does it compute the same, and is that so?

Read it from the top: fix the sources, draw the seeds, confine each file, compare and time, judge. It holds the device, starts
processes, and writes to a scratch folder; the command line writes the certificate. Why it can be believed: docs/evaluate.md.
"""

from __future__ import annotations

import gc
import hashlib
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ratchet
from ratchet.common.byte_code import followed_source
from ratchet.core.bench.build import benchmark_environ, without_secrets
from ratchet.core.bench.tree_spec import child_command
from ratchet.core.cache import scratch_folder
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import UsageError
from ratchet.core.machine import Machine, environment_of, machine_of
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, root_of
from ratchet.core.trees import tree_spec
from ratchet.lab import sanitizer
from ratchet.lab.certificate import digest_of
from ratchet.lab.child import containment
from ratchet.lab.gpu_memory import GpuMemory
from ratchet.lab.judge import judged
from ratchet.lab.records.evaluation import EvaluationRecord, InputSpec, Rules, SourceFile, Violation
from ratchet.lab.runners import CannotShare, Role, RunnerTrouble, started

if TYPE_CHECKING:
    from ratchet.lab.referee import Referee

PAIRS = 12
"""Pairs of messages, unless --pairs gives another number. Of twelve one may disagree, of ten none."""
SIZE = {"cuda": 4096, "cpu": 1024}
"""Rows and columns of the argument, where nothing else is asked for."""
LEAST_BYTES = 16 << 30
"""Memory that a process of a file may take, if four times the memory limit is not more: past that, asking for it fails."""
CONTAINMENT = "RATCHET_CONTAINMENT"
"""Variable with the parts of `child.containment` to use, by commas, where one of them does not work on a machine."""


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


def read_source(path: Path, remedy: str = "Name the files: `ratchet evaluate BASELINE CANDIDATE`.") -> SourceFile:
    """Read a file that is to be evaluated. Raises UsageError with the remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}.", remedy) from None
    return SourceFile(path=str(path.absolute()), sha256=hashlib.sha256(text.encode()).hexdigest(), text=text)


def request_again(record: EvaluationRecord) -> EvaluationRequest:
    """Return the request that evaluates the sources of a certificate again, by its rules and with new seeds."""
    sources = record.baseline, record.candidate, record.function, record.inputs, record.maker, record.maker_function
    return EvaluationRequest(*sources, record.observed.rules)


def evaluate(wanted: EvaluationRequest, request: Request, progress: Progress, environ: Mapping[str, str]) -> EvaluationRecord:
    """Evaluate a candidate against a baseline.

    Raises UsageError for a wrong request, BusyError and UnfitError for the device, HostError where no process can be started.
    What goes wrong in either file is in the record.
    """
    given = {name: value for name, value in request.options.items() if value is not None}
    settings = load_settings(root_of(request.folder), environ, {"pairs": PAIRS, "case_timeout": 60, **given}, request.folder)
    clock, started, evaluator = time.monotonic(), datetime.now(UTC), evaluator_digest()
    with (
        machine_of(request.devices, settings, f"ratchet evaluate {wanted.candidate.path}", progress, environ) as machine,
        scratch_folder("evaluate") as scratch,
    ):
        if wanted.sanitize and machine.device == "cpu":
            raise UsageError("compute-sanitizer looks at kernels on a GPU, and this is the CPU.", "Leave --sanitize out.")
        size = SIZE[machine.device]
        inputs = wanted.inputs or (() if wanted.maker else (InputSpec(shape=(size, size)),))
        spec = tree_spec(settings, machine, scratch, scratch)
        variables = benchmark_environ(without_secrets(environ), spec)
        if machine.gpu:  # the referee uses that GPU, too
            os.environ.update({name: value for name, value in variables.items() if name.startswith("CUDA_")})
        found: tuple[str, ...] = ()
        notes: list[str] = []
        before = _neighbours(wanted)
        if wanted.sanitize:
            progress.stage("Running the candidate under compute-sanitizer")
            found, notes = _sanitize(wanted, inputs, scratch, variables, request.folder)
        referee, contained = _refereed(wanted, inputs, settings, machine, scratch, request.folder, variables, progress, found)
    if changed := [path for path, digest in _neighbours(wanted).items() if before.get(path) != digest]:
        referee.seen.trouble = f"{changed[0]} changed while the files were evaluated."
    observed = referee.observed(contained)
    return EvaluationRecord.model_validate(
        {
            **judged(observed).model_dump(),
            "started_at": started,
            "wall_s": time.monotonic() - clock,
            "command": request.command,
            "evaluator": evaluator,
            "environment": environment_of(machine),
            **{name: value for name, value in vars(wanted).items() if name in EvaluationRecord.model_fields},
            "inputs": inputs,
            "files": _files_of_user(referee.seen.opened, wanted, scratch),
            "observed": observed,
            "violations": observed.violations,
            "warnings": (*machine.warnings, *notes, *referee.seen.notes),
        }
    )


def _refereed(
    wanted: EvaluationRequest,
    inputs: tuple[InputSpec, ...],
    settings: Settings,
    machine: Machine,
    scratch: Path,
    folder: Path,
    environ: Mapping[str, str],
    progress: Progress,
    found: Sequence[str],
) -> tuple[Referee, tuple[str, ...]]:
    """Confine the files, and have them compared and timed."""
    cores = sorted(os.sched_getaffinity(0))[-settings.cpu_threads :] if machine.device == "cpu" else []
    options: dict[str, Any] = {
        "device": machine.device,
        "cores": cores,
        "most_bytes": max(LEAST_BYTES, 4 * wanted.rules.memory_limit_bytes),
        "folder": str(folder),
        "visible": [str(Path(source.path).parent) for source in _sources(wanted)]
        + [str(folder), sys.prefix, str(Path(ratchet.__file__).parent)],
        "imports_triton": any("triton" in source.text for source in _sources(wanted)),
    }
    sources: dict[Role, tuple[SourceFile, str]] = {
        "reference": (wanted.baseline, wanted.function),
        "head": (wanted.candidate, wanted.function),
    }
    if wanted.maker:
        sources["maker"] = (wanted.maker, wanted.maker_function)
    seeds = (*wanted.seeds, *(secrets.randbelow(2**31) for _ in range(30)))
    tries = containment.attempts(environ.get(CONTAINMENT, ",".join(containment.PARTS)).split(","), machine.device)
    memory = GpuMemory(machine.gpu) if machine.gpu else None
    for number, parts in enumerate(tries):
        progress.stage("Starting processes")
        part_of = scratch / str(number)
        with started(sources, {**options, "parts": parts}, memory, part_of, environ, settings.case_timeout) as ready:
            from ratchet.lab.contents import CallContents  # torch takes seconds, in the other process meanwhile too
            from ratchet.lab.referee import SEEDS, Referee, on_other_cores

            gc.freeze()  # no collection looks at all of torch while the clock runs
            # Nothing of this process can be read by another one of the same user, unless only that keeps a driver from sharing.
            containment.dumpable(is_dumpable=machine.device == "cuda" and parts is tries[-1])
            runners = ready()
            referee = Referee(runners, wanted.rules, seeds[:SEEDS], settings.pairs, progress)
            referee.seen.violations += [Violation(rule="sanitizer", message=message) for message in found]
            try:
                with on_other_cores(cores):
                    contents = CallContents(inputs, runners.get("maker"), machine.device, seeds[SEEDS - 1])
                    if not found:
                        referee.observe(contents)
            except RunnerTrouble as error:
                referee.note(error)
            except CannotShare:
                if parts is tries[-1]:
                    raise
                continue
            finally:
                containment.dumpable(is_dumpable=True)
            if memory and memory.others_seen:
                said = "Other processes were on the GPU meanwhile: what they held does not count as memory of these files."
                referee.seen.notes.append(said)
            return referee, tuple(part for part in containment.PARTS if all(part in one.holds for one in runners.values()))
    raise AssertionError("there is always a last try")


def _sources(wanted: EvaluationRequest) -> list[SourceFile]:
    return [source for source in (wanted.baseline, wanted.candidate, wanted.maker) if source]


def _sanitize(
    wanted: EvaluationRequest, inputs: Sequence[InputSpec], scratch: Path, environ: Mapping[str, str], folder: Path
) -> tuple[tuple[str, ...], list[str]]:
    """Return what each tool says against the candidate, and what is only noted, since the baseline does it as well."""
    program, notes = sanitizer.find_sanitizer(environ), []
    seed, status = secrets.randbelow(2**31), scratch / "status"
    commands = {
        source.sha256: child_command(
            "ratchet.lab.child.once",
            source=source.model_dump(),
            function=wanted.function,
            maker=wanted.maker.model_dump() if wanted.maker else None,
            maker_function=wanted.maker_function,
            inputs=[one.model_dump_json() for one in inputs],
            device="cuda",
            seed=seed,
            status=status,
        )
        for source in (wanted.baseline, wanted.candidate)
    }
    for tool in sanitizer.TOOLS:
        errors = [
            sanitizer.sanitizer_errors(commands[source.sha256], status, tool, program, folder, environ)
            for source in (wanted.candidate, wanted.baseline)
        ]
        if all(errors):
            notes.append(f"{tool} reports errors of both files, which is held against neither. The baseline: {errors[1]}")
        elif errors[0]:
            return (f"{tool}: {errors[0]}",), notes
    return (), notes


def _neighbours(wanted: EvaluationRequest) -> dict[str, str]:
    """Return the digests of the Python files beside the sources, which the baseline may import."""
    folders = {Path(source.path).parent for source in _sources(wanted)}
    return {str(path): digest_of(path) for folder in folders for path in sorted(folder.glob("*.py"))[:1000]}


def _files_of_user(opened: set[str], wanted: EvaluationRequest, scratch: Path) -> dict[str, str]:
    """Return the digests of files that lie beside the sources or below them, and are none of them."""
    known = {source.path for source in _sources(wanted)}
    folders = [Path(path).parent for path in known]
    ours = (scratch, Path(sys.prefix), Path(ratchet.__file__).parent)
    paths = [path for path in map(Path, sorted(opened - known)) if str(followed_source(path)) not in opened]  # made again from it
    mine = [path for path in paths if any(map(path.is_relative_to, folders)) and not any(map(path.is_relative_to, ours))]
    return {str(path): digest for path in mine if path.is_file() and (digest := digest_of(path))}


def evaluator_digest() -> str:
    """Return the SHA-256 over the names and contents of the installed package's Python files."""
    root, digest = Path(ratchet.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0{digest_of(path)}\0".encode())
    return digest.hexdigest()
