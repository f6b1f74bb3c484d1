"""Carry out ``run --static`` and ``check --static``: write down what cases need for a verdict without a GPU, and reach it.

The record is that of one commit. Each side of a check is held against it: where a side differs in nothing that a case touched,
and kernels with another source compile to the recorded machine code, the case does there what it did when it was recorded.
Two sides that both do that are the same. Whatever is not shown so asks for the GPU.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import NamedTuple

from ratchet.core.bench.build import without_secrets
from ratchet.core.bench.child.registry import select
from ratchet.core.bench.client import CaseTrouble, HostClient, Hosts
from ratchet.core.bench.messages import Answer, BuiltCase
from ratchet.core.bench.ready.workers import Workers
from ratchet.core.bench.selection import choose_cases
from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.cache import scratch_folder
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.environment import installed_version
from ratchet.core.errors import BuildError, ForeignModuleError, GitError, HostError, RecordError, UsageError
from ratchet.core.git import Repository, Snapshot, worktrees
from ratchet.core.judge.verdict import judge_run
from ratchet.core.machine import Machine, environment_of, machine_of, plan_of
from ratchet.core.records.environment import Environment
from ratchet.core.records.files import load, loads, save
from ratchet.core.records.run import SIDES, CaseRun, Plan, Side, Tree
from ratchet.core.report.progress import Progress
from ratchet.core.request import CommandResult, Request, load_baseline, own_output_globs, reference_of, watched, writable
from ratchet.core.trees import build, settings_of_tree, tree_specs
from ratchet.core.units import plural
from ratchet.core.untrusted import clean
from ratchet.identical.footprint import Footprint, look
from ratchet.identical.static.records import (
    STATIC,
    CaseCapture,
    Kernel,
    KernelChange,
    KernelKeys,
    Recompiled,
    Recorded,
    RecordedCase,
    StaticReport,
)
from ratchet.identical.static.verdicts import OneSide, kernel_change, run_of, tree_difference, verdicts

AT_ONCE = 4
"""Kernels of one side that are compiled at the same time."""


class WrittenDown(NamedTuple):
    """The record of the checked-out commit."""

    file: Path
    still_holds: Tree | None = None
    """The commit of the record that this one has, where it is as good as a new one; then nothing was written."""


def record(request: Request, progress: Progress, environ: Mapping[str, str]) -> WrittenDown:
    """Run each case of the checked-out commit once, and write down what it needs for a verdict elsewhere.

    Nothing runs where the commit has a record of the same cases and the same kind of machine, and differs from that record's
    commit in nothing that they touched. Raises UsageError for uncommitted changes and for benchmarks of another harness,
    BusyError and UnfitError for the device, BuildError and HostError where the benchmarks cannot be run.
    """
    prover = Prover.of(request, progress, environ)
    repository, settings = prover.repository, prover.settings
    results = writable(repository.root / settings.results)
    head = repository.working_snapshot(own_output_globs(repository, results))
    if head.tree.dirty:
        raise UsageError("There are uncommitted changes, and a record is that of a commit.", "Commit or stash them first.")
    with (
        machine_of(request.devices, settings, f"ratchet run --static in {repository.root}", progress, environ) as machine,
        worktrees(repository, head, None) as trees,
        watched(repository.root, results, progress),
        prover.hosts(machine, trees.head, head) as hosts,
    ):
        cases = choose_cases(hosts.sides["head"].listing(), None, request.patterns)
        earlier = repository.file_in(head.revision, str(PurePath(settings.results, STATIC)))
        if earlier and (holds := prover.holding(earlier, machine, {case.name for case in cases}, trees.head)):
            return WrittenDown(results / STATIC, holds)
        recorded = prover.written_down(hosts, cases, machine, head)
        every = [case.name for case in choose_cases(hosts.sides["head"].listing(), None, ())]
    others = {name: RecordedCase(unknown="it was not written down") for name in every if name not in recorded.cases}
    recorded = recorded.model_copy(update={"cases": recorded.cases | others})
    save(results / STATIC, recorded)
    return WrittenDown(results / STATIC)


class SeenCase(NamedTuple):
    """A case as a worker has prepared it, and what it got at."""

    prepared: BuiltCase
    captured: CaseCapture


class Verdict(NamedTuple):
    """All that is known without a GPU."""

    report: StaticReport
    done: CommandResult | None
    """The whole check, if nothing is left for a GPU."""
    results: Path


def check(request: Request, file: Path | None, progress: Progress, environ: Mapping[str, str]) -> Verdict:
    """Compare the checkout with an earlier commit by what was recorded of the cases; no case runs.

    ``file`` is the record; None: the reference's own ``static.json``, else that of the checkout. Raises UsageError where there is
    none, RecordError for one that cannot be read, GitError where the commit that it is about is missing.
    """
    began = time.monotonic()
    prover = Prover.of(request, progress, environ)
    repository, settings = prover.repository, prover.settings
    results = repository.root / settings.results
    head = repository.working_snapshot(own_output_globs(repository, results))
    reference = repository.commit_snapshot(reference_of(request, repository, head))
    recorded = _record(repository, reference, settings, file)
    base = repository.commit_snapshot(recorded.tree.commit)
    report = prover.compared(recorded, (base, reference, head), request.patterns)
    report = report.model_copy(update={"seconds": time.monotonic() - began})
    if report.needed or not report.cases:
        return Verdict(report, None, writable(results))
    run = run_of(request.command, settings.policy, recorded, report)
    baseline = load_baseline(results)
    return Verdict(report, CommandResult(run, judge_run(run, baseline), writable(results)), results)


def _record(repository: Repository, reference: Snapshot, settings: Settings, file: Path | None) -> Recorded:
    if file:
        return load(file, Recorded)
    path = str(PurePath(settings.results, STATIC))
    if PurePath(settings.results).is_absolute() or not (content := repository.file_in(reference.revision, path)):
        local = repository.root / settings.results / STATIC
        if not local.exists():
            raise UsageError(
                f"There is no record of the cases: neither {reference.revision[:10]} nor this checkout has {path}.",
                "Write one on a machine with the GPU: `ratchet run --static`.",
            )
        return load(local, Recorded)
    return loads(content, f"{path} of {reference.revision[:10]}", Recorded)


@dataclass(frozen=True)
class Prover:
    """A repository whose commits are written down, and held against what was written down."""

    repository: Repository
    settings: Settings
    progress: Progress
    environ: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, progress: Progress, environ: Mapping[str, str]) -> Prover:
        """Return the one of a command. Raises UsageError for benchmarks of another harness."""
        repository = Repository(request.folder)
        settings = load_settings(repository.root, environ, request.options, request.folder)
        if settings.command:
            raise UsageError("--static looks into ratchet's own benchmarks, and these are of another harness.", "Leave it out.")
        return cls(repository, settings, progress, environ)

    def recorded(self, machine: Machine, snapshot: Snapshot, patterns: Sequence[str]) -> Recorded:
        """Run each case of a commit once on a machine that is held, and return its record.

        Raises UsageError for patterns that no case has, BuildError and HostError where the benchmarks cannot be run.
        """
        with worktrees(self.repository, snapshot, None) as trees, self.hosts(machine, trees.head, snapshot) as hosts:
            cases = choose_cases(hosts.sides["head"].listing(), None, patterns)
            return self.written_down(hosts, cases, machine, snapshot)

    def hosts(self, machine: Machine, tree: Path, snapshot: Snapshot) -> Hosts:
        """Build a tree and start its host. Raises BuildError and HostError."""
        self._build(tree, snapshot)
        self.progress.stage("Importing benchmarks")
        spec = tree_specs(self.settings, machine, self.repository.root, tree)["head"]
        return Hosts({"head": replace(spec, identified="alone")}, self.environ)

    def written_down(self, hosts: Hosts, cases: Sequence[CaseRun], machine: Machine, head: Snapshot) -> Recorded:
        """Run each case once, and return what each needs for a verdict elsewhere."""
        plan = plan_of(self.settings, machine.device).model_copy(
            update={"tunes_each_process": True}
        )  # so that an autotuner tries all configurations, and the kernels of none are missing
        workers = Workers(hosts.sides, plan, None, {})
        found: dict[str, SeenCase | str] = {}
        for number, case in enumerate(cases, 1):
            self.progress.stage(f"Writing down {case.name} ({number} of {len(cases)})")
            why_not = case.skipped or next((failure.message for failure in case.failures), "")
            found[case.name] = why_not or _captured(workers, case.name, self.settings.seed)
        return joined(head, environment_of(machine), plan, found)

    def holding(self, content: bytes, machine: Machine, names: Collection[str], tree: Path) -> Tree | None:
        """Return the commit of a record that still says all there is to say of a tree; None for any other record."""
        try:
            recorded = loads(content, STATIC, Recorded)
            base = self.repository.commit_snapshot(recorded.tree.commit)
            fingerprint = environment_of(machine).fingerprint
            if recorded.environment.fingerprint != fingerprint or recorded.cases.keys() != set(names):
                return None
            with self._trees(head=base) as trees:
                difference = tree_difference(trees["head"], tree, self.settings.bench, self.settings.results)
        except (RecordError, GitError, BuildError):
            return None
        imported = recorded.imported.touches()
        known = [case for case in recorded.cases.values() if not case.unknown]
        if len(known) < len(names) and difference.python:
            return None  # a case of which nothing was known may have come to work
        return None if any(any(look(imported | case.touched.touches(), difference)) for case in known) else recorded.tree

    def compared(
        self,
        recorded: Recorded,
        snapshots: tuple[Snapshot, Snapshot, Snapshot],
        patterns: Sequence[str],
        *,
        compiling: bool = True,
    ) -> StaticReport:
        """Hold two commits against a record; ``snapshots`` are that of the record, the reference and the head. No case runs.

        ``compiling``: a kernel that changed may prove to be the same once compiled. Raises BuildError and GitError.
        """
        began = time.monotonic()
        self.progress.stage("Comparing the trees")
        base, reference, head = snapshots
        with self._trees(base=base, refs=reference, head=head) as found:  # names of one length, as in other checks
            trees: dict[Side, Path] = {"reference": found["refs"], "head": found["head"]}
            bench, own = self.settings.bench, self.settings.results
            sides = [OneSide(side, tree_difference(found["base"], tree, bench, own)) for side, tree in trees.items()]
            imported = recorded.imported.touched.get("imported", {})
            if absent := next((path for path in imported if not (found["base"] / path).exists()), ""):
                why = f"the build makes no {absent} here, and the tree that was written down imported it"
                sides = [replace(each, difference=replace(each.difference, unknown=why)) for each in sides]
            names = select(list(recorded.cases), patterns) if patterns else list(recorded.cases)
            is_reference = not sides[0].difference.python

            def compiled(wanted: Sequence[int]) -> dict[int, KernelChange]:
                if not compiling:
                    return {place: kernel_change(recorded.kernels[place], {}, "it was not compiled") for place in wanted}
                self.progress.stage(f"Compiling {plural(len(wanted), 'kernel')} of each side")
                return self._compiled(recorded, trees, wanted, is_reference=is_reference)

            cases = tuple(verdicts(recorded, sides, names, compiled))
        return StaticReport(
            reference=reference.tree,
            head=head.tree,
            recorded=recorded.tree,
            machine=recorded.environment.fingerprint.key,
            cases=cases,
            install=_missing(recorded) if any(case.kernels for case in cases) else (),
            seconds=time.monotonic() - began,
        )

    @contextlib.contextmanager
    def _trees(self, **snapshots: Snapshot) -> Iterator[dict[str, Path]]:
        """Check commits out in a folder, each under its name, and build them. Raises BuildError and GitError."""
        with scratch_folder("static") as folder, contextlib.ExitStack() as stack:
            for name, snapshot in snapshots.items():
                stack.callback(self.repository.remove_worktree, folder / name)
                self.repository.add_worktree(folder / name, snapshot.revision)
                self._build(folder / name, snapshot)
            yield {name: folder / name for name in snapshots}

    def _build(self, tree: Path, snapshot: Snapshot) -> None:
        if broken := build(self.settings, "head", tree, snapshot, self.progress, without_secrets(self.environ)):
            raise broken

    def _compiled(
        self, recorded: Recorded, trees: Mapping[Side, Path], wanted: Sequence[int], *, is_reference: bool
    ) -> dict[int, KernelChange]:
        """Compile these kernels as each side has them, each side in a process of its own.

        ``is_reference``: the reference has the Python files of the record, so that its kernels are those that were recorded. Then
        one is the same where both sides have the same key for it, and the reference's need compiling only where the head's are
        others.
        """
        kernels = recorded.kernels
        if needs := _missing(recorded):
            trouble = f"it was recorded with Triton {recorded.environment.fingerprint.triton}: install {' and '.join(needs)}"
            return {place: kernel_change(kernels[place], {}, trouble) for place in wanted}
        specs: dict[Side, TreeSpec] = {}
        for side, tree in trees.items():
            own = settings_of_tree(self.settings, tree)
            specs[side] = TreeSpec.of(own, tree, checkout=self.repository.root, device="cpu", gpu_uuid=None)
        made: dict[Side, dict[int, Recompiled | str]] = {
            side: {place: Recompiled(code=kernels[place].compiled) for place in wanted} for side in SIDES
        }
        with scratch_folder("kernels") as cache:  # so that no earlier process could leave its own answer there
            try:
                with (
                    Hosts(specs, {**self.environ, "TRITON_CACHE_DIR": str(cache)}) as hosts,
                    ThreadPoolExecutor(AT_ONCE) as pool,
                ):
                    for side in SIDES:
                        hosts.sides[side].listing()
                    left = list(wanted)
                    if is_reference:
                        keys = [_keys(hosts.sides[side], [kernels[place] for place in wanted]) for side in SIDES]
                        left = [place for place, one, other in zip(wanted, *keys, strict=True) if not one or one != other]
                    for side in ("head", "reference"):
                        done = pool.map(lambda place, host=hosts.sides[side]: _recompiled(host, kernels[place]), left)
                        made[side] |= dict(zip(left, done, strict=True))
                        if is_reference:
                            left = [place for place in left if not _is_as_recorded(made["head"][place], kernels[place])]
            except (HostError, ForeignModuleError) as error:
                return {place: kernel_change(kernels[place], {}, clean(str(error))) for place in wanted}
        return {place: kernel_change(kernels[place], {side: made[side][place] for side in SIDES}) for place in wanted}


def _captured(workers: Workers, name: str, seed: int) -> SeenCase | str:
    """Return what a worker found out about a case, or why it could not."""
    try:
        worker = workers.fork("head", one_queue=True, watched=True)
        try:
            # Checked, so that what its reference runs is written down too, and nothing of a case that is wrong.
            return SeenCase(workers.prepare("head", worker, name, seed, check=True), worker.ask("capture", CaseCapture))
        finally:
            workers.let_go(worker)
            workers.wait_for_ends()
    except CaseTrouble as error:
        return error.message


def joined(head: Snapshot, environment: Environment, plan: Plan, found: Mapping[str, SeenCase | str]) -> Recorded:
    """Join what is known of the cases; a kernel of several cases stands there once."""
    kernels: dict[Kernel, int] = {}
    cases = {}
    imported = next((one.captured.imported for one in found.values() if isinstance(one, SeenCase)), Footprint())
    for name, one in found.items():
        if isinstance(one, str):
            cases[name] = RecordedCase(unknown=clean(one))
            continue
        case = one.captured
        places = tuple(sorted(kernels.setdefault(kernel, len(kernels)) for kernel in case.kernels))
        workload = one.prepared.workload
        cases[name] = RecordedCase(workload=workload, touched=case.case, kernels=places, unknown=case.unknown)
    return Recorded(tree=head.tree, environment=environment, plan=plan, imported=imported, kernels=tuple(kernels), cases=cases)


def _missing(recorded: Recorded) -> tuple[str, ...]:
    """Return the packages with which the recorded kernels could be compiled; none where they can be."""
    there = recorded.environment.fingerprint
    if installed_version("triton") == there.triton:
        return ()
    return (f"torch=={there.torch.partition('+')[0]}", f"triton=={there.triton}")  # torch for the CPU will do


def _keys(host: HostClient, kernels: Sequence[Kernel]) -> Sequence[str]:
    """Return the keys of kernels; no texts where a worker cannot tell, so that compiling them says why."""
    found = _asked(host, "kernel_keys", KernelKeys, kernels=[_as_asked(kernel) for kernel in kernels])
    return [""] * len(kernels) if isinstance(found, str) else found.keys


def _is_as_recorded(made: Recompiled | str, kernel: Kernel) -> bool:
    return isinstance(made, Recompiled) and made.code == kernel.compiled


def _recompiled(host: HostClient, kernel: Kernel) -> Recompiled | str:
    return _asked(host, "recompile", Recompiled, kernel=_as_asked(kernel))


def _as_asked(kernel: Kernel) -> dict[str, object]:
    return kernel.model_dump(mode="json", include={"file", "function", "module", "source"})


def _asked(host: HostClient, op: str, expected: type[Answer], **arguments: object) -> Answer | str:
    """Return the answer of a new worker, or why there is none."""
    try:
        worker = host.fork()
        try:
            return worker.ask(op, expected, **arguments)
        finally:
            worker.end()
    except (CaseTrouble, HostError, GitError) as error:
        return clean(str(error))
