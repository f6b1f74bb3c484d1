"""Load the benchmarks of one tree into this process.

`load_tree` changes the current folder and `sys.path` and runs the author's files. That the code which then runs comes from that
tree is shown by `reads.Provenance`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ratchet import tools
from ratchet.core.bench.child.reads import Provenance, installed_copies
from ratchet.core.bench.child.registry import Catalogue, discover
from ratchet.core.bench.messages import CaseListed
from ratchet.core.bench.tree_spec import Sweep, TreeSpec
from ratchet.core.device.environment import cpu_model
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.records.files import load
from ratchet.core.records.tuned import TUNED_FILE, Tuned
from ratchet.core.workload import VARIANT, Workload


@dataclass(frozen=True)
class LoadedTree:
    """A tree in this process: a host hands it to the workers that it forks."""

    spec: TreeSpec
    provenance: Provenance
    catalogue: Catalogue
    tuned: Tuned
    """The tree's ``bench/tuned.json``, whose values take the place of its workloads' own tuning."""
    states: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """What each file's import changes in the process: `CaseBoundary.begin` puts that into force for the file's cases."""
    proof: Any = None
    """What was noticed of the differences from the other tree (`ratchet.identical.proof.Proof`), where a host compares them."""

    @property
    def changed(self) -> dict[str, tuple[str, ...]]:
        """File → what it sets for its own cases alone."""
        files = {case.file for case in self.catalogue.cases}
        found: dict[str, tuple[str, ...]] = tools.part("import_watch").differing(self.states, files)
        return found

    @property
    def threads(self) -> int:
        """The most threads that importing any file sets torch to use."""
        import torch

        asked = [each.new for changes in self.states.values() for each in changes if each.name == "num_threads"]
        return max(torch.get_num_threads(), *asked) if asked else torch.get_num_threads()

    def case(self, name: str) -> CaseListed:
        """Return the case of this name. Raises UsageError where this tree does not have it, or cannot run it here."""
        case = next((case for case in self.catalogue.cases if case.name == name), None)
        if case is None or case.skipped:
            raise UsageError(f"{name} is not among the cases of this tree{f': {case.skipped}' if case else ''}.")
        return case

    def build(self, name: str, seed: int, tuning: Mapping[str, Any] | None = None) -> Workload:
        """Build the workload of a case as its tree has it today, or with other values of its parameters.

        ``seed`` seeds torch, NumPy and `random`. Raises UsageError for an unknown case or for tuned values that do not fit,
        TypeError for a benchmark that returns neither a function nor a Workload, and whatever the author's code raises.
        """
        import torch

        from ratchet.core.bench.child.calls import seed_all

        case, device = self.case(name), self.spec.device
        benchmark = self.catalogue.benchmarks[case.benchmark]
        seed_all(seed)
        variant = self.spec.variant or next(iter(benchmark.variants), None)
        if benchmark.variants and variant not in benchmark.variants:
            raise UsageError(f"{benchmark.name} has no variant {variant}: it has {', '.join(benchmark.variants)}.")
        chosen = {VARIANT: variant} if benchmark.variants else {}
        workload = benchmark(device=torch.device(device), **case.parameters, **chosen)
        if benchmark.on_host:
            workload = dataclasses.replace(workload, clock="cpu")
        if tuning is not None:
            return dataclasses.replace(workload, tuning=dict(tuning))
        if not self.tuned.cases or (self.spec.variant and not workload.tune):  # other variants need not have its parameters
            return workload
        return with_tuned(
            workload, self.tuned, name, torch.cuda.get_device_name() if device == "cuda" else cpu_model(Path("/proc/cpuinfo"))
        )


def load_tree(spec: TreeSpec, on_file: Callable[[str], None] = lambda _: None, only: str = "") -> LoadedTree:
    """Import the benchmarks of a tree, or of ``only`` one file of it. The tree becomes the current folder.

    ``on_file`` gets each file's name before its import. What that changes in the process is undone after it.
    Raises HostError where there are no benchmarks or two of one name, RecordError where ``bench/tuned.json`` cannot be read.
    """
    tree, roots = spec.path, spec.python_path
    os.chdir(tree)
    os.environ.update(spec.extensions)
    # Ahead of everything else, so that the tree's packages win over any installed copy of them.
    places = [(tree / place).resolve() for place in roots]  # those too that only the other side has
    sys.path[:0] = map(str, places)
    # The same for programs that a benchmark starts: a script that imports the package, a command that lies in the repository.
    _prepend("PYTHONPATH", map(str, places))
    inside = (Path(each) for each in os.environ.get("PATH", "").split(os.pathsep))
    _prepend("PATH", [str(tree / each.relative_to(spec.checkout)) for each in inside if each.is_relative_to(spec.checkout)])
    names = own_names(tree, roots) | own_names(spec.checkout, roots)
    installed = installed_copies(tree, spec.checkout, {tree, *places}) if tree != spec.checkout else frozenset()
    provenance = Provenance(tree, spec.checkout, names, installed)
    watch = tools.part("import_watch").ImportWatch(names | {Path(spec.bench).name})

    @contextlib.contextmanager
    def importing(file: str) -> Iterator[None]:
        on_file(file)
        with watch.importing(file):
            yield

    catalogue = discover(tree, spec.bench, spec.device, importing, only)
    if spec.sweep:
        catalogue = dataclasses.replace(catalogue, cases=swept(catalogue.cases, spec.sweep), broken=())
    tuned_file = tree / spec.bench / TUNED_FILE
    try:
        tuned = load(tuned_file, Tuned) if tuned_file.exists() else Tuned()
    except RecordError as error:
        raise RecordError(error.message.replace(f"{tree}/", ""), error.hint) from None
    return LoadedTree(spec, provenance, catalogue, tuned, watch.states)


def _prepend(variable: str, folders: Iterable[str]) -> None:
    os.environ[variable] = os.pathsep.join([*folders, *filter(None, [os.environ.get(variable)])])


def swept(cases: Iterable[CaseListed], sweep: Sweep) -> tuple[CaseListed, ...]:
    """Return the case of a sweep once for each of its values; none where there is no such case."""
    return tuple(
        dataclasses.replace(
            case,
            name=sweep.name(value),
            config=sweep.name(value).partition("/")[2],
            parameters=case.parameters | {sweep.parameter: value},
        )
        for case in cases
        for value in (sweep.values if case.name == sweep.case else ())
    )


def use_last_cores(threads: int) -> None:
    """Keep this process, which works on the CPU, to the last ``threads`` cores: the controller has the first ones."""
    import torch

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    torch.set_num_threads(min(threads, torch.get_num_threads()))  # fewer, if the tree's package asked for that


def with_tuned(workload: Workload, tuned: Tuned, case: str, device: str) -> Workload:
    """Return the workload with the values applied for this case on this device (see `Fingerprint.processor`).

    Raises UsageError where the file has a parameter or a value that the workload's ``tune`` does not have.
    """
    parameters: Mapping[str, Any] = tuned.parameters(case, device)
    if not parameters:
        return workload
    where, hint = f"{TUNED_FILE} for {case} on {device}", "Tune it again, or take the entry out."
    if set(parameters) != set(workload.tune):
        raise UsageError(f"{where}: it names {sorted(parameters)}, the workload's tune {sorted(workload.tune)}.", hint)
    for name, value in parameters.items():
        if value not in workload.tune[name]:
            raise UsageError(f"{where}: {name}={value} is not among {list(workload.tune[name])}.", hint)
    try:
        return dataclasses.replace(workload, tuning=dict(parameters))
    except ValueError as error:  # a constraint
        raise UsageError(f"{where}: {error}.", hint) from None


def own_names(tree: Path, roots: Iterable[str]) -> frozenset[str]:
    """Return the top-level names that a tree offers for import from its ``roots`` (``.``, ``src``)."""
    names: set[str] = set()
    for root in roots:
        place = tree / root
        names |= {path.stem for path in place.glob("*.py")}
        names |= {path.name.partition(".")[0] for path in place.glob("*.so")}  # extensions built in place
        folders = {path.parent for path in place.glob("*/*.py")} | {path.parent.parent for path in place.glob("*/*/__init__.py")}
        names |= {folder.name for folder in folders if _can_be_imported(folder)}
    return frozenset(names - {"ratchet", "setup", "conftest"} - sys.stdlib_module_names)


def _can_be_imported(folder: Path) -> bool:
    """Return whether importing this name finds this folder.

    A folder without ``__init__.py`` never wins over an installed package: a folder ``triton/`` may hold a project's kernels.
    """
    if (folder / "__init__.py").is_file():
        return True
    found = PathFinder.find_spec(folder.name)
    return found is None or found.origin is None or Path(found.origin).is_relative_to(folder)
