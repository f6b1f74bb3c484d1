"""Run somebody's harness for two trees, in pairs of fresh processes that take turns, and keep what it timed as cases.

One process of the command times every benchmark of one tree; a pair is one process of each side, in an order that is drawn as for
our own benchmarks. The rule that judges them is the same. `ratchet.core.trees` calls `measure_harness` in place of
`suite.measure_suite`. Starts the command in the trees, and writes its results to a temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ratchet.core.bench.build import benchmark_environ
from ratchet.core.bench.child.registry import select, unmatched
from ratchet.core.bench.duet import MeasureProgress
from ratchet.core.bench.lost import REPEATS, could_not_measure, in_every_try
from ratchet.core.bench.suite import CaseTask, Suite, completed
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.bench.turns import order_of_pair
from ratchet.core.config import Settings
from ratchet.core.device.telemetry import Sampler, Window
from ratchet.core.errors import HostError, RecordError, UsageError
from ratchet.core.processes import run
from ratchet.core.records.run import SIDES, Block, CaseRun, Config, Failure, LostWorker, Side, WorkerSamples, WorkloadIdentity
from ratchet.core.units import did_you_mean, duration, plural
from ratchet.core.untrusted import clean, last_lines
from ratchet.harness.entries import MOST_CASES, TimedBenchmark
from ratchet.harness.results import HarnessResults, ReportedCase, read_results

FILE, FOLDER = "{out}", "{dir}"
"""Stand in the command for the file, or the folder, that the harness writes its results to."""


@dataclass(frozen=True)
class Harness:
    """A command that times every benchmark of the tree that it is started in."""

    command: tuple[str, ...]
    format: str | None
    """None: recognised by its content."""
    time_limit_s: float
    folder: str = ""
    """The folder of the tree that it is started in."""

    @property
    def shown(self) -> str:
        """The command as somebody would type it."""
        return re.sub(r"'([\w./{}=:@%+,-]+)'", r"\1", shlex.join(self.command))  # braces need no quotes here


def harness_of(settings: Settings) -> Harness:
    """Return the harness that the settings name."""
    return Harness(settings.command, settings.format, settings.command_timeout, settings.project)


@dataclass(frozen=True)
class FailedProcess:
    """A process that gave no results."""

    how: str
    """``ended with status 1``, ``was killed (SIGKILL)``, … or what is wrong with its file."""
    lines: tuple[str, ...] = ()


@dataclass
class _Pairs:
    """Everything that was measured, by side."""

    results: dict[Side, dict[int, HarnessResults]] = field(default_factory=lambda: {"reference": {}, "head": {}})
    """By the number of the pair."""
    windows: dict[Side, dict[int, Window]] = field(default_factory=lambda: {"reference": {}, "head": {}})
    first: dict[int, Side] = field(default_factory=dict)
    lost: list[LostWorker] = field(default_factory=list)
    head_failure: Failure | None = None
    reference_missing: str | None = None
    unfit: str | None = None
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        return bool(self.head_failure or self.unfit)


def measure_harness(
    trees: Mapping[Side, TreeSpec], harness: Harness, task: CaseTask, progress: MeasureProgress, environ: Mapping[str, str]
) -> Suite:
    """Measure what the command reports in the given trees, in rounds while any case is undecided.

    A command that fails in the head alone is a failure of every case. Raises HostError where it fails in the only tree or in
    both, UsageError for a pattern that matches nothing or a command that runs the user's checkout in place of a tree.
    """
    for tree in trees.values():
        _refuse_foreign_program(harness, tree)
    done = _Pairs()
    sampler = Sampler(task.gpu, idle=task.idle) if task.gpu else None
    ecc_before = task.gpu.uncorrected_ecc() if task.gpu else None
    with tempfile.TemporaryDirectory(prefix="ratchet-harness-") as folder, sampler or contextlib.nullcontext():
        runner = _Runner(trees, harness, Path(folder), environ)
        _measure_rounds(runner, task, done, progress)
    ecc = (ecc_before, task.gpu.uncorrected_ecc() if task.gpu else None)
    cases = [completed(case, task.confidence, ecc) for case in _cases(done, harness, task, sampler)]
    notes = next((results.notes for results in done.results["head"].values()), ())
    return Suite(tuple(cases), "", None, None, done.reference_missing, notes=notes)


def list_harness(tree: TreeSpec, harness: Harness, patterns: Sequence[str], environ: Mapping[str, str]) -> list[CaseRun]:
    """Return the cases that one process of the command reports. Raises as `measure_harness` does."""
    with tempfile.TemporaryDirectory(prefix="ratchet-harness-") as folder:
        found = _Runner({"head": tree}, harness, Path(folder), environ).process("head")
    if isinstance(found, FailedProcess):
        raise _unusable(harness, {"head": found})
    return [_case(case.name, {"head": case}, harness) for case in _selected(found.cases, patterns)]


def _measure_rounds(runner: _Runner, task: CaseTask, done: _Pairs, progress: MeasureProgress) -> None:
    """Measure pairs until nothing is undecided, the last round is over, or the budget is spent; the first round is finished."""
    deadline = time.monotonic() + task.plan.budget_s if task.plan.budget_s else float("inf")
    pair = 0
    for last in task.rule.looks:
        if pair and not _going(task, done, runner.harness, deadline):
            return
        while pair < last and not done.ended:
            if pair >= task.rule.looks[0] and time.monotonic() > deadline and not _going(task, done, runner.harness, deadline):
                return
            started = time.monotonic()
            if pair == 0:
                progress.stage(f"Running the command in {' and '.join(runner.sides(done))}")
            _measure_pair(runner, pair, task.plan.order_seed, done)
            done.seconds += time.monotonic() - started
            if pair == 0 and not done.ended:
                progress.start(len(_selected(done.results["head"][0].cases, task.patterns)), task.rule.looks[-1])
            for case in done.results["head"].get(pair, HarnessResults("", ())).cases[:1]:
                progress.case(case.name, pair, pair + 1)
            pair += 1


def _going(task: CaseTask, done: _Pairs, harness: Harness, deadline: float) -> Collection[str]:
    """Return the cases that more pairs are worth it for."""
    if done.ended or done.reference_missing:
        return ()
    cases = _cases(done, harness, task, None)
    return task.rule.urgent(cases) if time.monotonic() > deadline else task.rule.undecided(cases)


class _Runner:
    """Starts the command in a tree and reads its results."""

    def __init__(self, trees: Mapping[Side, TreeSpec], harness: Harness, folder: Path, environ: Mapping[str, str]) -> None:
        self.harness = harness
        self._trees = trees
        self._folder = folder
        self._environ = environ
        self.windows: dict[Side, Window] = {}

    def sides(self, done: _Pairs) -> tuple[Side, ...]:
        """Return the sides that are still measured."""
        return tuple(side for side in SIDES if side in self._trees and not (side == "reference" and done.reference_missing))

    def process(self, side: Side) -> HarnessResults | FailedProcess:
        """Run one fresh process of the command. Both sides write to the same path, one after the other."""
        tree = self._trees[side]
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            place = Path(scratch, "results")
            place.mkdir()
            file = place / "out.json"
            command = [word.replace(FILE, str(file)).replace(FOLDER, str(place)) for word in self.harness.command]
            started = time.monotonic()
            try:
                ended = run(
                    command,
                    environ=_environ(self._environ, tree),
                    folder=tree.path / self.harness.folder,
                    time_limit_s=self.harness.time_limit_s,
                )
            except OSError as error:
                return FailedProcess(
                    f"cannot be started ({error.strerror}: {clean(command[0], 80)}); what it runs must be in the tree"
                )
            self.windows[side] = (started, time.monotonic())
            if ended.status is None:
                how = f"gave no answer within {duration(self.harness.time_limit_s)}"
            elif ended.status and (said := _uncollected(ended.output.replace(f"{tree.path}/", ""))):
                return FailedProcess(said)
            elif ended.status:
                how = f"was killed (signal {-ended.status})" if ended.status < 0 else f"ended with status {ended.status}"
            else:
                try:
                    in_file = any(FILE in word for word in self.harness.command)
                    return read_results(file if in_file else place, self.harness.format)
                except RecordError as error:
                    what = str(error.message).replace(f"{place}/", "").replace(str(place), FOLDER).rstrip(".")
                    how = f"gave no results: {clean(what)}"
            return FailedProcess(how, last_lines(ended.output, 8))


_COLLECTING = re.compile(
    r"^(?:_+ ERROR collecting (?P<file>\S+) _+|ImportError while loading conftest '(?P<conftest>[^']+)'\.)$"
    r"(?:(?!^_+ ERROR )[\s\S])*?^E +(?P<error>[\w.]+: .+)$",
    re.MULTILINE,
)
"""What pytest prints of a file that it cannot import, up to the error."""


def _uncollected(output: str) -> str:
    """Return which files pytest could not import, and why the first one; empty where it says no such thing."""
    found = list(_COLLECTING.finditer(output))
    if not found:
        return ""
    more = f" and {plural(len(found) - 1, 'other file')}" if len(found) > 1 else ""
    file, error = clean(found[0]["file"] or found[0]["conftest"], 80), clean(found[0]["error"], 200).rstrip(".")
    return f"could not import {file}{more}: {error}"


def _environ(environ: Mapping[str, str], tree: TreeSpec) -> dict[str, str]:
    """Return the variables of a process: packages of the tree come before installed ones, such as an editable install."""
    kept = tree.python.variables(benchmark_environ(environ, tree)) | tree.extensions
    own = [str(tree.path / folder) for folder in tree.python_path]
    return kept | {"PYTHONPATH": os.pathsep.join([*own, *filter(None, [kept.get("PYTHONPATH")])]), "PYTHONDONTWRITEBYTECODE": "1"}


def _refuse_foreign_program(harness: Harness, tree: TreeSpec) -> None:
    """Refuse a path into the user's checkout: both trees would run the same program. An environment of Python is one for both."""
    for word in harness.command:
        path = Path(word)
        if not (path.is_absolute() and path.is_relative_to(tree.checkout)) or tree.path == tree.checkout:
            continue
        if not any(Path(parent, "pyvenv.cfg").exists() for parent in path.parents):
            inside = path.relative_to(tree.checkout)
            raise UsageError(
                f"The command runs {path}, the same file for both sides.", f"Write {inside}, which each tree has by itself."
            )


def _measure_pair(runner: _Runner, pair: int, order_seed: int, done: _Pairs) -> None:
    """Measure one pair, again where a process gave no results."""
    tries: list[dict[Side, FailedProcess]] = []
    while len(tries) <= REPEATS:
        sides = runner.sides(done)
        flipped = order_of_pair(order_seed, "", pair)[1] != (len(tries) % 2 == 1)
        answers = {side: runner.process(side) for side in (sides if not flipped else sides[::-1])}
        troubles = {side: answer for side, answer in answers.items() if isinstance(answer, FailedProcess)}
        if not troubles:
            done.first[pair] = next(iter(answers))
            for side, answer in answers.items():
                if isinstance(answer, HarnessResults):
                    done.results[side][pair] = answer
                    done.windows[side][pair] = runner.windows[side]
            return
        tries.append(troubles)
        done.lost += [
            LostWorker(side=side, pair=pair, stage="measure", how=trouble.how, last_lines=trouble.lines)
            for side, trouble in troubles.items()
        ]
    always = [side for side in SIDES if all(side in troubles for troubles in tries)]
    if always == list(runner.sides(done)) and pair == 0:
        raise _unusable(runner.harness, tries[-1])
    if always == ["head"]:
        lost = [one for one in done.lost if one.pair == pair]
        trouble = tries[-1]["head"]
        message = in_every_try(f"`{runner.harness.shown}` {trouble.how}", lost)
        done.head_failure = Failure(side="head", stage="measure", message=clean(message), last_lines=trouble.lines)
        if pair == 0 and isinstance(other := answers.get("reference"), HarnessResults):
            done.results["reference"][0] = other  # which cases the head has lost
    elif always == ["reference"] and pair == 0:
        done.reference_missing = f"`{runner.harness.shown}` {tries[-1]['reference'].how}."
        _measure_pair(runner, pair, order_seed, done)
    else:
        done.unfit = could_not_measure(done.lost)


def _unusable(harness: Harness, troubles: Mapping[Side, FailedProcess]) -> HostError:
    trouble = troubles.get("head") or next(iter(troubles.values()))
    where = " in both trees" if len(troubles) > 1 else ""
    lines = f" It printed: {' | '.join(trouble.lines[-3:]).rstrip('.')}." if trouble.lines else ""
    return HostError(f"The command `{harness.shown}`{where} {trouble.how}.{lines}", "Run it by hand in a fresh clone.")


# What was measured → cases.


def _selected(cases: Sequence[ReportedCase], patterns: Sequence[str]) -> list[ReportedCase]:
    """Return the cases that a pattern selects. Raises UsageError for a pattern that matches nothing."""
    names = [case.name for case in cases]
    for pattern in unmatched(names, patterns):
        near = did_you_mean(pattern, sorted({part for name in names for part in (name, *name.split("/"))}))
        raise UsageError(f"The command reports no case called {pattern}. {near}".rstrip(), f"It reports {', '.join(names[:8])}.")
    chosen = set(select(names, patterns))
    return [case for case in cases if case.name in chosen]


def _cases(done: _Pairs, harness: Harness, task: CaseTask, sampler: Sampler | None) -> list[CaseRun]:
    """Return every case that any process of either side reported, with its samples so far."""
    reported: dict[str, _ByPair] = {}
    for side in ("head", "reference"):
        for pair, results in done.results[side].items():
            for case in results.cases:
                if case.name in reported or len(reported) < MOST_CASES:  # names may change in each process
                    reported.setdefault(case.name, {}).setdefault(side, {})[pair] = case
    listed = [ReportedCase("command/*", TimedBenchmark("command"))]  # where no process said what there is
    if reported:
        listed = _selected([next(iter(_firsts(sides).values())) for sides in reported.values()], task.patterns)
    if task.shard:
        listed = task.shard.part(listed)
    return [_with_samples(case.name, reported.get(case.name, {}), done, harness, task, sampler) for case in listed]


_ByPair = dict[Side, dict[int, ReportedCase]]
"""What each side's process of each pair reported of one case."""


def _firsts(sides: _ByPair) -> dict[Side, ReportedCase]:
    return {side: next(iter(by_pair.values())) for side, by_pair in sides.items()}


def _with_samples(name: str, sides: _ByPair, done: _Pairs, harness: Harness, task: CaseTask, sampler: Sampler | None) -> CaseRun:
    """Return one case with the samples of all pairs in which every side that has it reported it."""
    case = _case(name, _firsts(sides), harness, device="cuda" if task.gpu else "cpu")
    timed = {side: {pair: one for pair, one in sides.get(side, {}).items() if one.samples_ms} for side in SIDES}
    # Of a case that is gone, or skipped in its first process, nothing is compared.
    both = [side for side in SIDES if timed[side] and case.in_head and case.skipped is None]
    pairs = sorted(set.intersection(*(set(timed[side]) for side in both))) if both else []
    gaps = {pair for side in both for pair in done.results[side] if pair not in timed[side]}
    unfit = done.unfit
    if gaps and not unfit and not done.head_failure:
        unfit = f"The command did not time it in pair {min(gaps) + 1}. It must report the same benchmarks in every process."
    workers = {side: tuple(_worker(timed[side][pair], side, pair, done, sampler) for pair in pairs) for side in both}
    failures = (*case.failures, *([done.head_failure] if done.head_failure else []))
    return case.model_copy(
        update={
            "head": workers.get("head", ()),
            "reference": workers.get("reference", ()),
            "failures": failures,
            "in_head": case.in_head or done.head_failure is not None,
            "in_reference": case.in_reference or done.reference_missing is not None,
            "lost": tuple(done.lost),
            "unfit": unfit,
            "pair_s": done.seconds / max(1, len(done.first)),
        }
    )


def _case(name: str, sides: Mapping[Side, ReportedCase], harness: Harness, *, device: str = "cpu") -> CaseRun:
    shown = next(iter(sides.values()), None)
    benchmark, _, config = name.partition("/")
    head, reference = sides.get("head"), sides.get("reference")
    untimed = {side: case.benchmark.untimed for side, case in sides.items() if case.benchmark.untimed}
    if not any(case.samples_ms for case in sides.values()):
        untimed = {}  # no side has lost anything: it is skipped
    failures = [
        Failure(side=side, stage="measure", message=message)
        for side, case in sides.items()
        if (message := case.benchmark.problem or untimed.get(side))
    ]
    skipped = (head.benchmark.skipped or ("" if untimed else head.benchmark.untimed) or None) if head else None
    if head and reference and reference.benchmark.skipped and not skipped:
        failures.append(Failure(side="reference", stage="measure", message=reference.benchmark.skipped))
    return CaseRun(
        name=name,
        benchmark=benchmark,
        config=Config(name=config, parameters=dict(shown.benchmark.parameters) if shown else {}),
        workload=workload_of(head, harness.shown, harness.format, device) if head else None,
        reference_workload=workload_of(reference, harness.shown, harness.format, device) if reference else None,
        failures=tuple(failures),
        skipped=skipped,
        has_reference=False,
        in_head=head is not None,
        in_reference=reference is not None,
    )


def workload_of(case: ReportedCase, command: str, kind: str | None, device: str) -> WorkloadIdentity:
    """Return the identity of the work: times of two commands, or of two formats, do not compare."""
    unit = case.benchmark.unit
    return WorkloadIdentity(
        parameters={**case.benchmark.parameters, "command": command, "format": kind or "recognised"},
        device=device,
        dtype="",
        flops=unit.flops if unit else None,
        bytes=unit.bytes if unit else None,
        clock=kind or "command",
        cache="cold" if kind == "nvbench" else "warm",
    )


def samples_of(case: ReportedCase, pair: int, *, first: bool = True, position: int = 0) -> WorkerSamples:
    """Return the samples of one process: one block, since nobody else had a turn within it."""
    block = Block(index=0, position=position, samples_ms=case.samples_ms)
    return WorkerSamples(
        pair=pair,
        started_first=first,
        blocks=(block,),
        ready_s=0.0,
        peak_memory_bytes=0,
        error=0.0,
        session=pair,  # each run of the program is a process of its own
    )


def _worker(case: ReportedCase, side: Side, pair: int, done: _Pairs, sampler: Sampler | None) -> WorkerSamples:
    first = done.first.get(pair) == side
    worker = samples_of(case, pair, first=first, position=0 if first else 1)
    if sampler and sampler.slowed(done.windows[side][pair]):
        worker = replace(worker, blocks=tuple(replace(block, throttled=True) for block in worker.blocks))
    return worker
