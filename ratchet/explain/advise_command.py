"""Carry out `ratchet advise`: trace a script or a case, or read a saved trace, and say which antipatterns it shows.

The command line calls `advise`. For a script or a case it holds the device and starts one process; its trace lies in a scratch
folder, or where ``save`` says.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.core import processes as subprocesses
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.tree_spec import child_command
from ratchet.core.cache import scratch_folder
from ratchet.core.config import load_settings
from ratchet.core.errors import UsageError
from ratchet.core.machine import machine_of
from ratchet.core.records.files import replaced
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, root_of
from ratchet.core.run import cases_of_checkout
from ratchet.core.trees import tree_spec
from ratchet.core.units import wall
from ratchet.core.untrusted import last_lines
from ratchet.explain.advice import advise as advise_on
from ratchet.explain.advice.trace import read_trace
from ratchet.explain.child.advise_target import MARK, TraceError
from ratchet.explain.records import Advice

STARTING_S = 120.0
"""For imports before tracing, and for writing the trace after it."""
_NOISE = ("USDT:", "STAGE:")
"""Beginnings of lines that the profiler prints."""
_FOREIGN = (".nsys-rep", ".sqlite", ".qdrep", ".ncu-rep", ".qdstrm")


@dataclass(frozen=True)
class AdviceRequest:
    """The script, case or trace to look at, and for how long."""

    subject: str
    """A script (.py), a trace (.json, .json.gz), or the name of a case."""
    arguments: tuple[str, ...] = ()
    """Arguments of the script."""
    trace_for_s: float = 10.0
    time_limit_s: float = STARTING_S
    save: Path | None = None


def advise(wanted: AdviceRequest, request: Request, progress: Progress, environ: Mapping[str, str]) -> Advice:
    """Say what a script, a case or a trace shows.

    Raises UsageError for a wrong subject, RecordError for a trace that cannot be read, TraceError for a script or a case that
    fails or does not end, BusyError and UnfitError for the device.
    """
    subject = wanted.subject
    if subject.endswith(_FOREIGN):
        raise UsageError(
            f"{subject} is a report of Nsight, which `ratchet advise` does not read.",
            "Trace the script itself, or save a trace of torch.profiler; `ratchet profile --read` reads .ncu-rep.",
        )
    if subject.endswith((".json", ".json.gz", ".gz")):
        if wanted.arguments:
            raise UsageError("A trace takes no arguments.", "Only a script does.")
        return advise_on(read_trace(Path(subject)), subject)
    settings = load_settings(root_of(request.folder), environ, request.options, request.folder)
    with (
        machine_of(request.devices, settings, f"ratchet advise {subject}", progress, environ) as machine,
        scratch_folder("advise") as folder,
    ):
        out, root = folder / "trace.json", root_of(request.folder)
        spec = tree_spec(settings, machine, root, root)
        script = Path(subject).absolute() if subject.endswith(".py") else None
        if script and not script.is_file():
            raise UsageError(f"{subject} does not exist.", "Check the path of the script.")
        case = None if script else _case(wanted, request, environ)
        progress.stage(f"Tracing {subject}")
        command = child_command(
            "ratchet.explain.child.advise_target",
            script=script,
            arguments=wanted.arguments,
            tree=spec,
            case=case,
            seed=settings.seed,
            out=out,
            trace_for_s=wanted.trace_for_s,
        )
        ended = subprocesses.run(
            command,
            environ=benchmark_environ(environ, spec),
            folder=request.folder,
            time_limit_s=wanted.trace_for_s + wanted.time_limit_s,
        )
        if ended.status != 0:
            raise TraceError(*_trouble(wanted, ended))
        progress.stage("Reading the trace")
        advice = advise_on(read_trace(out), subject)
        if wanted.save is not None:
            with replaced(wanted.save) as temporary:
                shutil.copyfile(out, temporary)
    return advice.model_copy(update={"warnings": (*machine.warnings, *advice.warnings)})


def _case(wanted: AdviceRequest, request: Request, environ: Mapping[str, str]) -> str:
    """Return the one case that is meant. Raises UsageError."""
    if wanted.arguments:
        raise UsageError("A case takes no arguments.", "Only a script does.")
    cases = [case for case in cases_of_checkout(request, environ) if not case.skipped]
    if len(cases) != 1:
        names = ", ".join(case.name for case in cases[:5])
        what = f"matches {len(cases)} cases: {names}" if cases else "is not a case of this checkout, a script or a trace"
        raise UsageError(
            f"{wanted.subject} {what}.",
            "Name one case (see `ratchet doctor cases`), a script that ends in .py, or a trace that ends in .json or .json.gz.",
        )
    return cases[0].name


def _trouble(wanted: AdviceRequest, ended: subprocesses.Ended) -> tuple[str, str]:
    """Return what happened to the process, and what to do."""
    if ended.status is None:
        limit = wall(wanted.trace_for_s + wanted.time_limit_s)
        return f"{wanted.subject} gave no trace within {limit}.", "Raise --time-limit, or lower --trace-for."
    said = next((line for line in reversed(last_lines(ended.output, 9)) if not line.startswith(_NOISE)), "")
    if said.startswith(MARK.strip()):
        return f"{wanted.subject} failed: {said.removeprefix(MARK.strip()).strip()}", ""
    how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    return f"{wanted.subject} ended with {how}{f': {said}' if said else ''}.", "Run it by itself first."
