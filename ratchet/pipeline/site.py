"""A check that is under way: its trees, built and measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from ratchet.config import Settings
from ratchet.errors import BuildError, UsageError
from ratchet.forge.git import Repository, Snapshot
from ratchet.forge.worktrees import Trees
from ratchet.judge.looks import looks, undecided
from ratchet.measure.build import build_tree
from ratchet.measure.suite import Ground, Suite, Task, measure_suite
from ratchet.pipeline.machine import Machine, plan_of
from ratchet.records.run import CaseRun, Config, Failure, Side
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

    def ground(self, reference: Path | None) -> Ground:
        """Where to measure the head, against ``reference`` if that is a tree with benchmarks."""
        places = _places(self.trees.head, reference, self.settings)
        return Ground(places, self.repository.root, self.machine.device, self.machine.gpu, self.trees.logs, self.environ)


def measure(site: Site, reference: Snapshot, tree: Path | None, patterns: Sequence[str], drifts: Collection[str] = ()) -> Suite:
    """The head against one reference, which is built first; without it, the head alone."""
    unbuilt = build(site, "reference", tree, reference) if tree else None
    plan = plan_of(site.settings, site.machine.device)

    def still_open(cases: Sequence[CaseRun]) -> set[str]:
        return undecided(cases, site.settings.policy, plan.pairs, drifts)

    task = Task(
        plan,
        patterns,
        looks(plan.pairs),
        still_open,
        compared=not unbuilt,
        idle=site.machine.idle,
        time_identical=site.settings.time_identical,
    )
    suite = measure_suite(site.ground(None if unbuilt else tree), site.settings, task, site.progress)
    return replace(suite, reference_missing=str(unbuilt)) if unbuilt else suite


def build(site: Site, side: Side, tree: Path, snapshot: Snapshot) -> BuildError | None:
    """Build a tree; why it does not build, if it does not."""
    settings = site.settings
    if not settings.build:
        return None
    site.progress.stage(f"Building the {side}")
    log = site.trees.logs / f"build-{side}.log"
    try:
        build_tree(
            tree, settings.build, snapshot.tree.content, settings.build_timeout, log, site.environ, cache=settings.build_cache
        )
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
