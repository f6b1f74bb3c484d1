"""A check that is under way: its trees, built and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from ratchet.commands.machine import Machine, in_parallel, plan_of
from ratchet.config import Settings
from ratchet.errors import BuildError, UsageError
from ratchet.forge.git import Repository, Snapshot, Trees
from ratchet.judge.drift import Drift
from ratchet.judge.sequential import looks, undecided, urgent
from ratchet.measure.build import build_tree
from ratchet.measure.suite import CaseTask, Ground, Suite, measure_suite
from ratchet.profile.roofline import highest
from ratchet.records.run import SESSION_PAIRS, CaseRun, Config, Failure, Shard, Side
from ratchet.report.progress import Progress


@dataclass(frozen=True)
class Site:
    """A check that is under way: everything that each of its steps needs."""

    repository: Repository
    settings: Settings
    machine: Machine
    trees: Trees
    progress: Progress
    environ: Mapping[str, str]
    others: tuple[Machine, ...] = ()
    """More machines of the same kind, over which the cases are spread."""

    def ground(self, reference: Path | None) -> Ground:
        """Where to measure the head, against ``reference`` if that is a tree with benchmarks."""
        places = _places(self.trees.head, reference, self.settings)
        gpu, root = self.machine.gpu, self.repository.root
        peaks = highest(gpu.name) if gpu else None
        return Ground(places, root, self.machine.device, gpu, self.trees.logs, self.environ, peaks)


def measure(
    site: Site,
    reference: Snapshot,
    tree: Path | None,
    patterns: Sequence[str],
    drifts: Mapping[str, Drift] | None = None,
    shard: Shard | None = None,
) -> Suite:
    """The head against one reference, which is built first; without it, the head alone. On all machines of the site at once."""
    unbuilt = build(site, "reference", tree, reference) if tree else None
    plan = plan_of(site.settings, site.machine.device, restart_after=SESSION_PAIRS)
    machines = (site.machine, *site.others)
    policy = site.settings.policy.shared(len(machines))

    def still_open(cases: Sequence[CaseRun]) -> set[str]:
        return undecided(cases, policy, plan.pairs, drifts)

    def slowest(cases: Sequence[CaseRun]) -> list[str]:
        return urgent(cases, policy, plan.pairs)

    def on(machine: Machine, part: Shard | None, progress: Progress) -> Suite:
        task = CaseTask(
            plan,
            patterns,
            looks(plan.pairs),
            still_open,
            slowest,
            compared=not unbuilt,
            idle=machine.idle,
            time_identical=site.settings.time_identical,
            shard=part,
        )
        ground = replace(site.ground(None if unbuilt else tree), gpu=machine.gpu)
        return measure_suite(ground, site.settings, task, progress)

    parts = [_part(shard, number, len(machines)) for number in range(1, len(machines) + 1)]
    suites = in_parallel(on, list(zip(machines, parts, strict=True)), site.progress)
    suite = replace(suites[0], cases=tuple(case for each in suites for case in each.cases))
    return replace(suite, reference_missing=str(unbuilt)) if unbuilt else suite


def _part(shard: Shard | None, number: int, machines: int) -> Shard | None:
    """What one of several machines measures of a shard."""
    if machines == 1:
        return shard
    whole = shard or Shard(number=1, of=1)
    return Shard(number=whole.number + (number - 1) * whole.of, of=whole.of * machines)


def build(site: Site, side: Side, tree: Path, snapshot: Snapshot) -> BuildError | None:
    """Build a tree; why it does not build, if it does not."""
    settings = site.settings
    if not settings.build:
        return None
    site.progress.stage(f"Building the {side}")
    try:
        build_tree(tree, settings.build, snapshot.tree.content, settings.build_timeout, site.environ, cache=settings.build_cache)
    except BuildError as error:
        return error
    return None


def unbuilt(error: BuildError) -> Suite:
    """A head that does not build is red: one failed entry stands for all its cases."""
    failure = Failure(side="head", stage="build", message=error.message)
    stand_in = CaseRun(name="build/*", benchmark="build", config=Config(name="*"), failures=(failure,))
    return Suite((stand_in,), torch=metadata.version("torch"), cuda=None, triton=None)


def _places(head: Path, reference: Path | None, settings: Settings) -> dict[Side, Path]:
    """The trees to import from: a reference from before there were benchmarks has none to offer."""
    if not (head / settings.bench).is_dir():
        raise UsageError(
            f"There is no folder {settings.bench}/ in this repository.", "Put benchmarks there, or set bench in [tool.ratchet]."
        )
    places: dict[Side, Path] = {"head": head}
    if reference and (reference / settings.bench).is_dir():
        places["reference"] = reference
    return places
