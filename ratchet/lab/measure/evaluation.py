"""Evaluate two files: compare their results on inputs that neither has seen, time them in pairs, and audit the times.

`ratchet.lab.evaluate` calls `measure_files`. Each file is a tree of its own with one case (`child.evaluation`), and the
pairs are those of `duet`. It starts processes through `client.Hosts`, and writes trees and results to a scratch folder. NVIDIA's
compute-sanitizer looks for accesses out of bounds and races in shared memory, each of its tools in a process that imports the
tree and calls the case (the program that profilers look at, too), with its log in the scratch folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ratchet.core import units
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.child.profile_target import MARK, ProfileTarget, read_status
from ratchet.core.bench.client import CaseTrouble, WorkerClient
from ratchet.core.bench.duet import MeasureProgress, open_bench
from ratchet.core.bench.lost import beyond_hardware
from ratchet.core.bench.messages import RULE, Prepared, Sampled
from ratchet.core.bench.ready.workers import Workers
from ratchet.core.bench.tracing import trace
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.device.gpu import Gpu
from ratchet.core.device.vendor import peaks_of
from ratchet.core.errors import HostError, UnfitError, UsageError
from ratchet.core.judge.rule import Rule
from ratchet.core.processes import run
from ratchet.core.records.files import save
from ratchet.core.records.run import SIDES, CaseRun, Config, Plan, Side, WorkerSamples
from ratchet.core.untrusted import clean, last_lines
from ratchet.lab.measure.answers import Compared, Probed
from ratchet.lab.records.evaluation import TASK_FILE, EvaluationTask, InputKind, Probe, Rules, Slope, Violation
from ratchet.lab.rules import clocks_agree

CASE = "evaluate/default"
_FILES = CaseRun(name=CASE, benchmark="evaluate", config=Config(name="default"))
_HINTS = {
    "has no function": "Name another function of both files with --function.",
    "positional argument": "Repeat --input for each argument, or make them with --inputs FILE:FUNCTION.",
    "hung: no answer": "It may be an endless loop; for code that is only slow raise --case-timeout.",
    "allocate memory": "Give smaller inputs with --input.",
    "out of memory": "Give smaller inputs with --input.",
}
"""Words of a failure, and what to try."""
_BENCH = """\
from pathlib import Path

from ratchet.lab.child.evaluation import evaluated

evaluate = evaluated(Path(__file__).parents[1])
"""
SLOPE_ROUNDS, MOST_SLOPE_ROUNDS, SLOPE_S, MOST_CALLS = 5, 20, 0.03, 4096
"""Fewest and most rounds in which the parent times K and 2K calls of both sides, the seconds that K calls take, the largest K.
More than the fewest are taken while its clock does not confirm the samples: on a busy machine five can miss what was saved."""
MOST_BUSY, IDLE_S = 0.2, 0.02
"""Most that the candidate's process may compute while the baseline is timed, as a share of what that computes, and beyond seconds
that do not count; it has nothing to do then."""
NO_SPINNING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Threads of GNU's and Intel's OpenMP and of OpenBLAS sleep as soon as they have no work. They would spin for up to 200 ms, while
the other side is timed on the same cores: the baseline would look slower, and an honest candidate like one that slows it."""
LESS_PRECISE, LEAST_EPS = 16.0, 64.0
"""A result is much less precise if its error against float64 is so many times the baseline's, and more than so many epsilons."""
KINDS: tuple[tuple[InputKind, int], ...] = (("random", 0), ("structured", 1), ("random", 2), ("large", 3))
"""Kinds of inputs, and which of the seeds each is made from."""
OTHER_SHAPE: InputKind = "other shape"
ONE_SHAPE = "The candidate works at the given shape only"
SEEDS = len(KINDS) + 2
"""Seeds of an evaluation: one for each kind of input, and the last one for what is timed."""

SANITIZER_TOOLS = ("memcheck", "racecheck")
SANITIZER_LIMIT_S = 300.0
"""Longest that one of these tools may take: kernels run tens of times slower under it."""
# Calls of the runtime that fail belong to torch's own probing. The cache of torch's allocator would hide what lies out of bounds.
_SANITIZER_OPTIONS = ("--report-api-errors", "no", "--print-limit", "1", "--target-processes", "all")
_UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_SUMMARY = re.compile(r"=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error)")
_BANNER = "COMPUTE-SANITIZER"


@dataclass(frozen=True)
class FilesTask:
    """How to measure two files."""

    plan: Plan
    rules: Rules
    rule: Rule
    """When the timing is over."""
    seeds: Sequence[int]
    gpu: Gpu | None = None
    idle: Sequence[int] = ()
    sanitizer: Path | None = None
    """The program compute-sanitizer, where the candidate is to be run under it."""


@dataclass
class MeasuredFiles:
    """The measurements of both files; ``trouble`` is why the baseline, or the machine, gave nothing to compare with."""

    probes: list[Probe] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    samples: dict[Side, tuple[WorkerSamples, ...]] = field(default_factory=dict)
    peaks: dict[Side, int] = field(default_factory=dict)
    slope: Slope | None = None
    kernels: dict[Side, tuple[str, ...]] = field(default_factory=dict)
    trouble: str = ""
    notes: list[str] = field(default_factory=list)
    torch: str = ""
    cuda: str | None = None
    triton: str | None = None


def write_tree(folder: Path, task: EvaluationTask) -> Path:
    """Write the tree of one side: its task, and a benchmark that reads it."""
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "evaluate.py").write_text(_BENCH, encoding="utf-8")
    save(folder / TASK_FILE, task)
    return folder


def find_sanitizer(environ: Mapping[str, str]) -> Path:
    """Return compute-sanitizer on the PATH, else that of the CUDA toolkit. Raises UsageError where there is none."""
    for path in (environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        if program := shutil.which("compute-sanitizer", path=path):
            return Path(program).absolute()
    raise UsageError(
        "compute-sanitizer was not found, so --sanitize cannot look for races and wrong accesses.",
        "Install it with the CUDA toolkit or put it on the PATH, or leave --sanitize out.",
    )


def measure_files(
    trees: Mapping[Side, TreeSpec], task: FilesTask, folder: Path, progress: MeasureProgress, environ: Mapping[str, str]
) -> MeasuredFiles:
    """Compare results, then time; nothing is timed once the candidate has broken a rule.

    Raises HostError and ForeignModuleError.
    """
    found, environ = MeasuredFiles(), {**environ, **NO_SPINNING}
    progress.stage("Starting processes")
    with open_bench(trees, task.plan, progress, environ, gpu=task.gpu, idle=task.idle) as duet:
        for host in duet.hosts.values():  # both have read their files before any of them runs
            listing = host.listing()
            if listing.broken:
                raise HostError(listing.broken[0].message, "")
        found.torch, found.cuda, found.triton = listing.torch, listing.cuda, listing.triton
        _probe(duet.workers, task, folder, found, progress)
        if task.sanitizer and not (found.violations or found.trouble):
            _sanitize(trees, task.sanitizer, task.seeds[-1], folder, environ, found, progress)
        if found.violations or found.trouble:
            return found
        progress.start(1, task.rule.looks[-1])
        (timed,) = duet.measure([_FILES], {CASE: SIDES}, task.rule)
        found.samples = {"reference": tuple(timed.reference), "head": tuple(timed.head)}
        _note_failures(timed, found)
        if not found.violations and not found.trouble:
            progress.stage("Checking the times by another clock")
            _audit(duet.workers, task, found)
            if task.gpu:
                found.kernels = {side: _kernels(duet.workers, side) for side in SIDES}
    return found


def _probe(workers: Workers, task: FilesTask, folder: Path, found: MeasuredFiles, progress: MeasureProgress) -> None:
    """Compare both results on inputs of several kinds: each side in a process of its own, which never sees the other's."""
    progress.stage("Comparing results on fresh inputs")
    with contextlib.ExitStack() as stack:
        sides = {side: workers.fork(side) for side in SIDES}
        for worker in sides.values():
            stack.callback(workers.end, worker)
        for number, (kind, seed) in enumerate((*KINDS, (OTHER_SHAPE, len(KINDS)))):
            try:
                probe, compared = _compared(sides, kind, task.seeds[seed], folder / f"result-{number}", task.rules, number == 0)
            except CaseTrouble as error:
                if kind == OTHER_SHAPE:
                    if error.side == "head":
                        found.notes.append(
                            f"The candidate works at the given shape only: at another one it says: {error.message}"
                        )
                elif number and error.side == "reference":
                    found.notes.append(
                        f"The baseline does not work on {kind} inputs, so these were not compared: {error.message}"
                    )
                    continue
                else:
                    _note(error, found)
                return
            found.probes.append(probe)
            if compared is not None:
                found.peaks = found.peaks or {"head": compared[0].peak_bytes, "reference": compared[1].peak_bytes}
                found.violations += _violations(probe, task, found)
            if found.violations:
                return


def _compared(
    sides: Mapping[Side, WorkerClient], kind: InputKind, seed: int, file: Path, rules: Rules, precise: bool
) -> tuple[Probe, tuple[Probed, Compared]]:
    try:
        probed = sides["head"].ask("probe", Probed, seed=seed, kind=kind, file=str(file))
        compared = sides["reference"].ask(
            "compare",
            Compared,
            seed=seed,
            kind=kind,
            file=str(file),
            candidate=probed.model_dump(mode="json"),
            rtol=rules.rtol,
            atol=rules.atol,
            precise=precise,
        )
    finally:
        file.unlink(missing_ok=True)
    fields = compared.model_dump(exclude={"peak_bytes"})
    return Probe(kind=kind, seed=seed, **fields), (probed, compared)


def _violations(probe: Probe, task: FilesTask, found: MeasuredFiles) -> Iterator[Violation]:
    """Yield what one comparison says against the candidate."""
    if probe.problem and probe.kind == OTHER_SHAPE:
        found.notes.append(f"{ONE_SHAPE}: at another one its result is wrong.")
        return
    inputs = f"on {probe.kind} inputs of seed {probe.seed}"
    rule, _, what = probe.problem.partition(": ")
    if rule == "outputs":
        off = "nan" if probe.largest is None else f"{probe.largest:.2e}"
        yield Violation(rule="outputs", message=f"outputs differ by {off}", detail=f"{what}, {inputs}")
    elif probe.problem:
        yield Violation.model_validate({"rule": rule, "message": what, "detail": inputs})
    error, own = probe.error, probe.baseline_error
    if task.rules.same_precision and error is not None and own is not None and error > max(LESS_PRECISE * own, LEAST_EPS):
        yield Violation(
            rule="precision",
            message=f"precision is {error / max(own, 1.0):.0f} times worse than the baseline's",
            detail=f"error against float64 in units of the type's epsilon: {error:.3g}, the baseline's {own:.3g}",
        )


def _sanitize(
    trees: Mapping[Side, TreeSpec],
    sanitizer: Path,
    seed: int,
    folder: Path,
    environ: Mapping[str, str],
    found: MeasuredFiles,
    progress: MeasureProgress,
) -> None:
    """Run the candidate under each tool. What the baseline does as well is only noted: it may lie in a library."""
    targets = {side: ProfileTarget(trees[side], (CASE,), seed) for side in SIDES}
    for tool in SANITIZER_TOOLS:
        progress.stage(f"Running the candidate under compute-sanitizer ({tool})")
        try:
            error = sanitizer_errors(targets["head"], tool, sanitizer, folder, environ)
            if error and (own := sanitizer_errors(targets["reference"], tool, sanitizer, folder, environ)):
                found.notes.append(f"{tool} reports errors of both files, which is held against neither. The baseline: {own}")
            elif error:
                found.violations.append(Violation(rule="sanitizer", message=f"{tool}: {error}"))
        except UnfitError as trouble:
            found.trouble = str(trouble)
            return


def sanitizer_errors(
    target: ProfileTarget,
    tool: str,
    sanitizer: Path,
    folder: Path,
    environ: Mapping[str, str],
    limit_s: float = SANITIZER_LIMIT_S,
) -> str:
    """Return the first error that a tool reports of a case, as a clause; empty where there is none.

    Raises UnfitError where the tool or the case comes to no end.
    """
    log, status = folder / f"{tool}.log", folder / f"{tool}.status"
    log.unlink(missing_ok=True)
    command = target.command(limit_s, status=status, turn=folder / f"{tool}.turn")
    ended = run(
        [str(sanitizer), "--tool", tool, *_SANITIZER_OPTIONS, "--log-file", str(log), *command],
        environ=benchmark_environ(environ, target.tree) | _UNCACHED,
        folder=folder,
        time_limit_s=limit_s,
    )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    summary = next(filter(None, map(_SUMMARY.match, reversed(lines))), None)
    if summary is not None and int(summary[1] or summary[2]):
        said = [line.lstrip("= ") for line in lines if line.startswith("=") and _BANNER not in line and not _SUMMARY.match(line)]
        return clean(" ".join(said[:2]), 300) or "it reports an error"
    trouble = read_status(status).get(target.cases[0])
    if summary is not None and trouble == "":
        return ""
    last = "".join(last_lines(ended.output, 1)).removeprefix(MARK)
    why = f"it did not end within {limit_s:g} s" if ended.status is None else trouble or last or "the case was not called"
    raise UnfitError(f"compute-sanitizer --tool {tool} gave no result: {clean(why)}.", "Leave --sanitize out.")


def _note_failures(measured: CaseRun, found: MeasuredFiles) -> None:
    """Note why the pairs ended early."""
    for failure in measured.failures:
        if failure.side == "head":
            _broken(failure.stage, failure.message, found)
        else:
            found.trouble = f"The baseline failed while it was timed: {failure.message}"
    if measured.unfit:
        found.trouble = measured.unfit


def _note(error: CaseTrouble, found: MeasuredFiles) -> None:
    if error.side == "head":
        _broken(error.stage, error.message, found)
    else:
        hint = _hint(error.message)
        found.trouble = f"The baseline failed: {error.message}{f'. {hint}' if hint else ''}"


def _broken(stage: str, message: str, found: MeasuredFiles) -> None:
    rule, _, what = message.partition(": ")
    if stage == RULE:
        found.violations.append(Violation.model_validate({"rule": rule, "message": what}))
    elif stage == "check":
        found.violations.append(Violation(rule="outputs", message="outputs differ between pairs", detail=message))
    else:
        found.violations.append(Violation(rule="failed", message=message, detail=_hint(message)))


def _hint(message: str) -> str:
    """Return what to try where a file fails in a way that an option may mend; empty elsewhere."""
    return next((hint for words, hint in _HINTS.items() if words in message), "")


def _audit(workers: Workers, task: FilesTask, found: MeasuredFiles) -> None:
    """Time K and 2K calls of both sides by this process's clock, and hold the samples against what the hardware can do."""
    sides = {side: workers.fork(side) for side in SIDES}
    try:
        prepared = {side: workers.prepare(side, worker, CASE, task.seeds[-1], check=False) for side, worker in sides.items()}
        if workers.plan.clock == "cpu":
            cores = {side: os.sched_getaffinity(worker.pid) for side, worker in sides.items()}
            if len(cores["head"]) > len(cores["reference"]):
                found.violations.append(Violation(rule="harness", message="it took more cores than it was given"))
        _note_floor(prepared, task, found)
        found.slope, busy = timed_from_outside(sides, lambda slope: clocks_agree(found.samples, slope))
        if busy > MOST_BUSY:
            message = "it computes while the baseline is timed"
            found.violations.append(
                Violation(rule="harness", message=message, detail=f"{units.percent(busy)} of what the baseline computes")
            )
    except CaseTrouble as error:
        _note(error, found)
    finally:
        for worker in sides.values():
            workers.end(worker)


def timed_from_outside(sides: Mapping[Side, WorkerClient], agrees: Callable[[Slope], bool]) -> tuple[Slope, float]:
    """Return the slopes, and what the candidate's process computed while the baseline was timed, as a share of its work."""
    count = 1
    while count < MOST_CALLS and max(_wall_s(worker, count) for worker in sides.values()) < SLOPE_S:
        count *= 2
    slope = Slope(baseline_ms=(), candidate_ms=())
    busy_s = own_s = 0.0
    for number in range(MOST_SLOPE_ROUNDS):
        enough = number >= SLOPE_ROUNDS and own_s >= 5 * IDLE_S  # on a busy machine, calls that take long compute little
        if enough and agrees(slope):
            break
        round_ms: dict[Side, float] = {}
        for side in SIDES if number % 2 else tuple(reversed(SIDES)):
            before = {other: _cpu_s(worker.pid) for other, worker in sides.items()}
            shorter, longer = (_wall_s(sides[side], calls) for calls in (count, 2 * count))
            round_ms[side] = (longer - shorter) / count * 1e3
            if side == "reference":
                busy_s += _cpu_s(sides["head"].pid) - before["head"]
                own_s += _cpu_s(sides[side].pid) - before[side]
        slope = Slope(
            baseline_ms=(*slope.baseline_ms, round_ms["reference"]), candidate_ms=(*slope.candidate_ms, round_ms["head"])
        )
    return slope, max(0.0, busy_s - IDLE_S) / max(own_s, IDLE_S)


def _cpu_s(pid: int) -> float:
    """Return the seconds that all threads of a process have computed: proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wall_s(worker: WorkerClient, calls: int) -> float:
    start = time.perf_counter()
    worker.ask("block", Sampled, samples=calls, place=0)
    return time.perf_counter() - start


def _note_floor(prepared: Mapping[Side, Prepared], task: FilesTask, found: MeasuredFiles) -> None:
    """Note times in which no GPU could even write the results."""
    written = max((probe.output_bytes for probe in found.probes), default=0)
    samples_ms = [sample for worker in found.samples["head"] for block in worker.blocks for sample in block.samples_ms]
    workload = prepared["head"].workload.model_copy(update={"bytes": float(written)})
    excess = beyond_hardware(samples_ms, workload, peaks_of(task.gpu)) if samples_ms else None
    if excess:
        found.violations.append(Violation(rule="impossible", message=f"impossible: {excess.what}"))


def _kernels(workers: Workers, side: Side) -> tuple[str, ...]:
    activity = trace(workers, side, [CASE])[CASE].activity
    return tuple(activity.kernels) if activity else ()
