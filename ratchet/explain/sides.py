"""Profile cases of one or two trees: what torch.profiler saw of them, and counters of ncu from one process a side.

`cases` calls `profile_sides` for all cases that share a reference. It starts ncu as child processes within one time limit; their
files stay in the folder of the request. Any error is a sentence in the profile.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from ratchet.core.bench.tree_spec import TreeSpec
from ratchet.core.device.vendor import vendor_here
from ratchet.core.errors import RatchetError
from ratchet.core.records.files import file_stem
from ratchet.core.records.profile import Activity, Profile
from ratchet.core.records.run import SIDES, Side
from ratchet.core.units import listed, plural
from ratchet.core.untrusted import clean
from ratchet.explain import ncu, readers, traces
from ratchet.explain.child.profile_target import MARK, GoFile, read_status, target_command
from ratchet.explain.ncu import NcuOptions, NcuTask, ProfileError, Surroundings
from ratchet.explain.traces import SideTrace

ON_THE_CPU = "A CPU has no GPU counters; the times are those of torch's operators."
NO_KERNEL = "The call launches no kernel, and copies have no counters; the times are torch.profiler's."
INSTEAD = "The times of torch.profiler are shown instead of counters."
NOT_IN_TIME = "ncu did not finish it within the time limit. Raise profile_timeout in [tool.ratchet]."
MIXED = "Its launches could not be told apart from those of other cases: run `ratchet profile` for this case alone."
NAMES_SHOWN = 3


@dataclass
class SideProfile:
    """The profile of one side, and sentences about what could not be measured of it."""

    profile: Profile | None = None
    steps_down: list[str] = field(default_factory=list)
    report: Path | None = None
    """Where ncu left its report; cases that were profiled together share one."""


@dataclass
class TimeBudget:
    """The time for profiling all cases of a run. Importing a tree counts apart, with twice the seconds that a host needed: ncu is
    slower at it.
    """

    left_s: float
    import_s: float = 0.0

    @contextlib.contextmanager
    def spend(self) -> Iterator[float]:
        """Yield the time limit in seconds for a process that imports a tree and profiles; what it takes is spent."""
        began = time.monotonic()
        try:
            yield self.left_s + 2 * self.import_s
        finally:
            self.left_s = max(0.0, self.left_s - max(0.0, time.monotonic() - began - 2 * self.import_s))


@dataclass(frozen=True)
class ProfileRequest:
    """The trees to profile, the options, and the folder for files meanwhile."""

    trees: Mapping[Side, TreeSpec]
    seed: int
    environ: Mapping[str, str]
    folder: Path
    budget: TimeBudget


@dataclass(frozen=True)
class CaseGroup:
    """Cases that one process of ncu a side profiles, one after the other."""

    cases: tuple[str, ...]
    options: NcuOptions
    warnings: tuple[str, ...] = ()

    def stem(self) -> str:
        """Return a name for the files that these cases share, which no other group has."""
        first, *others = self.cases
        digest = hashlib.sha256("\n".join(self.cases).encode()).hexdigest()[:8]
        return f"{file_stem(first)}+{len(others)}.{digest}" if others else file_stem(first)


TracedCases = Mapping[str, Mapping[Side, SideTrace]]
"""Case → side → what torch.profiler saw."""
Waiting = Mapping[str, Mapping[Side, Activity | None]]
"""Case → the sides that may have counters → what torch.profiler saw of them."""
Results = Mapping[str, Mapping[Side, SideProfile]]


@dataclass(frozen=True)
class WaitingProfilers:
    """Processes of ncu, one a side, that import the trees while pairs are still measured, and then wait for their cases."""

    trees: Mapping[Side, TreeSpec]
    group: CaseGroup
    tasks: Mapping[Side, NcuTask]
    started: ncu.Started
    go: GoFile

    def can_serve(self, request: ProfileRequest, group: CaseGroup) -> bool:
        """Return whether these processes can profile the group: they know its cases, and replay at least its kernels."""
        ours, others = self.group.options, group.options
        return (
            self.trees == request.trees
            and set(group.cases) <= set(self.group.cases)
            and (not ours.kernels or (bool(others.kernels) and set(others.kernels) <= set(ours.kernels)))
            and replace(ours, kernels=(), launches=0) == replace(others, kernels=(), launches=0)
        )


def start_profilers(
    request: ProfileRequest, options_of: Mapping[str, NcuOptions], traced: TracedCases, running: contextlib.ExitStack
) -> WaitingProfilers | None:
    """Start ncu on all sides for cases that `profile_sides` will probably profile; it ends with ``running``.

    None where no case may have counters, or there is no ncu: `profile_sides` says so.
    """
    _, waiting = _first_results(request, options_of, traced)
    group = next(_groups(waiting, options_of), None)
    if group is None:
        return None
    try:
        program = _find_ncu(request.environ)
    except ProfileError:
        return None
    group = _in_time(request.budget, group, waiting)
    go = GoFile(request.folder / "go")
    running.callback(go.close)
    where = Surroundings(request.environ, request.folder, request.budget.left_s + 2 * request.budget.import_s)
    tasks = _tasks(request, group, waiting, where.time_limit_s, go.path)
    return WaitingProfilers(request.trees, group, tasks, ncu.start(program, tasks, group.options, where, running), go)


def profile_sides(
    request: ProfileRequest,
    options_of: Mapping[str, NcuOptions],
    traced: TracedCases,
    ready: WaitingProfilers | None = None,
) -> dict[str, dict[Side, SideProfile]]:
    """Profile each case that has options on each side, within the time limit. Each failure is a sentence in ``steps_down``.

    ``traced`` is what torch.profiler saw: it names the kernels to count, and it is all that is left where ncu gives nothing.
    """
    results, waiting = _first_results(request, options_of, traced)
    try:
        program = _find_ncu(request.environ) if waiting else Path()
    except ProfileError as error:  # no counters here
        _note(str(error), waiting, waiting, results)
    else:
        for group in _groups(waiting, options_of):
            if request.budget.left_s:
                timely = _in_time(request.budget, group, waiting)
                serves = ready is not None and ready.can_serve(request, timely)
                _count(program, request, timely, waiting, results, ready if serves else None)
                ready = None if serves else ready
            else:
                _note(NOT_IN_TIME, group.cases, waiting, results)
    for case, sides in waiting.items():
        for side in sides:
            result = results[case][side]
            if result.profile is not None and not result.profile.kernels:
                result.steps_down.append(INSTEAD)
    return results


def _find_ncu(environ: Mapping[str, str]) -> Path:
    """Return ncu. Raises ProfileError where it or the reader of its reports is not installed, or has no counters of this GPU."""
    if why := vendor_here().no_counters:
        raise ProfileError(why)
    readers.need_module()
    return ncu.find_ncu(environ)


def _first_results(
    request: ProfileRequest, options_of: Mapping[str, NcuOptions], traced: TracedCases
) -> tuple[dict[str, dict[Side, SideProfile]], dict[str, dict[Side, Activity | None]]]:
    """Return what the traces alone give, and the cases and sides that may have counters."""
    results = {
        case: {side: _from_trace(traced[case][side], request.trees[side]) for side in request.trees} for case in options_of
    }
    waiting = {
        case: {
            side: traced[case][side].activity
            for side, result in sides.items()
            if not {ON_THE_CPU, NO_KERNEL} & set(result.steps_down)
        }
        for case, sides in results.items()
    }
    return results, {case: sides for case, sides in waiting.items() if sides}


def _from_trace(trace: SideTrace, tree: TreeSpec) -> SideProfile:
    result = SideProfile(None if trace.activity is None else Profile(tool="torch", reader="torch", activity=trace.activity))
    if tree.device == "cpu":
        result.steps_down.append(ON_THE_CPU)
    elif trace.activity and trace.activity.copies_s and traces.busiest(trace.activity) is None:
        result.steps_down.append(NO_KERNEL)
    if trace.trouble:
        result.steps_down.append(trace.trouble)
    return result


def _note(sentence: str, cases: Iterable[str], waiting: Waiting, results: Results) -> None:
    for result in (results[case][side] for case in cases for side in waiting[case]):
        result.steps_down.append(sentence)


# Counters: which launches, in which process.


def _groups(waiting: Waiting, options_of: Mapping[str, NcuOptions]) -> Iterator[CaseGroup]:
    """Yield the cases with the same options together, but those apart whose launches are unknown, differ, or are too many.

    Both sides of a group replay kernels of the same names, so that no kernel seems to be gone. In a report nothing stands between
    the launches of two cases: a kernel of ours would be replayed as often as theirs (2 s on an H200), ranges of NVTX would need
    other columns in each reader, and autograd launches from threads that are in no range. `_split` goes by their number.
    """
    for options in dict.fromkeys(options_of[case] for case in waiting):
        cases = [case for case in waiting if options_of[case] == options]
        known = [case for case in cases if None not in waiting[case].values()]
        names = _names(waiting, known)
        together = [case for case in known if _is_countable(waiting[case], names)]
        for members in (together, *([case] for case in cases if case not in together)):
            if members:
                launches = ncu.MOST_KERNELS * len(members)
                yield CaseGroup(tuple(members), replace(options, kernels=_names(waiting, members), launches=launches))


def _names(waiting: Waiting, cases: Sequence[str]) -> tuple[str, ...]:
    """Return the bare names of the kernels to count in these cases; none where a side has no trace."""
    names: dict[str, None] = {}
    for sides in (waiting[case].values() for case in cases):
        activities = [activity for activity in sides if activity is not None]
        if len(activities) < len(sides):
            return ()
        names |= dict.fromkeys(traces.worth_counters(activities))
    return tuple(names)


def _is_countable(sides: Mapping[Side, Activity | None], names: Sequence[str]) -> bool:
    """Return whether each call of both sides launches these kernels equally often, and not too often for others to wait."""
    counts = [count for one in sides.values() if one for count in traces.launches_by_name(one, names).values()]
    return all(count == round(count) for count in counts) and max(_launches(sides, names)) <= ncu.MOST_KERNELS


def _launches(sides: Mapping[Side, Activity | None], names: Sequence[str]) -> list[int]:
    """Return how many launches of these kernels a call of each side has; as many as are replayed where that is unknown."""
    return [traces.launches_of(activity, names) if activity and names else ncu.MOST_KERNELS for activity in sides.values()]


def _in_time(budget: TimeBudget, group: CaseGroup, waiting: Waiting) -> CaseGroup:
    """Return the group with fewer counters where a full set of them would take longer than there is time."""
    need = 0.0
    for sides in (waiting[case] for case in group.cases):
        for activity, launches in zip(sides.values(), _launches(sides, group.options.kernels), strict=True):
            call_s = activity.wall_s / max(1, activity.calls) if activity else 0.0
            need += ncu.FULL_PASSES * min(launches, ncu.MOST_KERNELS) * (ncu.PASS_S + call_s)
    if group.options.set_name != "full" or need <= budget.left_s:
        return group
    warning = (
        f"All counters would take about {need:.0f} s, and {budget.left_s:.0f} s were left: only those that the diagnosis reads"
        " first were collected. Raise profile_timeout in [tool.ratchet] for the others."
    )
    return replace(group, options=replace(group.options, is_brief=True), warnings=(warning,))


def _tasks(
    request: ProfileRequest, group: CaseGroup, waiting: Waiting, time_limit_s: float, go: Path | None = None
) -> dict[Side, NcuTask]:
    """Return what ncu has to run for a group on each side."""
    tasks: dict[Side, NcuTask] = {}
    for side, tree in request.trees.items():
        if cases := tuple(case for case in group.cases if side in waiting[case]):
            report = request.folder / f"{group.stem()}.{side}.ncu-rep"
            status, turn = _status_of(report), request.folder / "turn"
            command = target_command(tree, cases, request.seed, time_limit_s, status=status, turn=turn, go=go)
            tasks[side] = NcuTask(command, report)
    return tasks


def _status_of(report: Path) -> Path:
    """Return the file in which the profiled process says how each case went."""
    return report.with_suffix(".status")


def _count(
    program: Path,
    request: ProfileRequest,
    group: CaseGroup,
    waiting: Waiting,
    results: Results,
    ready: WaitingProfilers | None,
) -> None:
    """Run ncu over a group on all sides at once, and put the counters into the results."""
    if ready:  # in the order in which its processes call them
        cases_in_order = tuple(case for case in ready.group.cases if case in group.cases)
        group = replace(group, cases=cases_in_order, options=ready.group.options)
    with request.budget.spend() as time_limit_s:
        tasks = ready.tasks if ready else _tasks(request, group, waiting, time_limit_s)
        if ready:
            ready.go.release(group.cases, time_limit_s)
        where = Surroundings(request.environ, request.folder, time_limit_s)
        errors = ncu.take(program, tasks, group.options, where, own_error=MARK, begun=ready.started if ready else None)
    is_over = not request.budget.left_s
    activities = {side: {case: waiting[case][side] for case in group.cases if side in waiting[case]} for side in tasks}

    def counted(side: Side) -> dict[str, Profile | RatchetError]:
        error = ProfileError(NOT_IN_TIME) if is_over else errors[side]
        report = tasks[side].report
        return _counted(report, activities[side], group.options.kernels, read_status(_status_of(report)), error, request.environ)

    with ThreadPoolExecutor(len(SIDES)) as readers:  # a process of its own reads each report
        of_sides = dict(zip(tasks, readers.map(counted, tasks), strict=True))
    for side, task in tasks.items():
        for case, profile in of_sides[side].items():
            result, activity = results[case][side], activities[side][case]
            try:
                if isinstance(profile, RatchetError):
                    raise profile
                ncu.accepted(profile, traces.busiest(activity, group.options.kernels))
            except RatchetError as error:  # of the profiler, or of whatever cannot be read in its report
                result.steps_down.append(str(error).replace(str(task.report), "The report of ncu"))
                continue
            warnings = (*profile.warnings, *group.warnings, *_left_out(profile, activity, group.options))
            result.profile = profile.model_copy(update={"activity": activity, "warnings": warnings})
            result.report = task.report


def _counted(
    report: Path,
    activities: Mapping[str, Activity | None],
    kernels: Sequence[str],
    status: Mapping[str, str],
    error: ProfileError | None,
    environ: Mapping[str, str],
) -> dict[str, Profile | RatchetError]:
    """Return the part of the report for each case that came through, and for the others why they have none."""
    parts: dict[str, Profile | RatchetError] = {case: error or ProfileError(NOT_IN_TIME) for case in activities}
    parts |= {case: ProfileError(f"Under ncu {trouble}") for case, trouble in status.items() if trouble and case in parts}
    came_through = [case for case in activities if status.get(case) == ""]
    if came_through and report.is_file():
        try:
            whole = readers.read(report, environ)
        except RatchetError as unreadable:
            return parts | dict.fromkeys(came_through, error or unreadable)
        if len(activities) == 1:
            return {came_through[0]: whole}
        called = {case: activities[case] for case in came_through}
        others_after = len(called) < len(activities) and came_through == list(activities)[: len(called)]
        own: Mapping[str, Profile | RatchetError] = _split(whole, called, kernels, others_after=others_after) or {}
        parts.update(own or {case: ProfileError(MIXED) for case in called})
    return parts


def _split(
    profile: Profile, activities: Mapping[str, Activity | None], kernels: Sequence[str], *, others_after: bool
) -> dict[str, Profile] | None:
    """Return the launches of each case, as many of each kernel as its trace shows: the cases were called one after the other.

    Cases that failed may have left launches: where all of them were called after these (``others_after``), at the end; else
    anywhere. None where the numbers differ, so that nobody can say whose launches these are.
    """
    parts, place = {}, 0
    for case, activity in activities.items():
        expected = traces.launches_by_name(activity, kernels) if activity else {}
        own = profile.kernels[place : place + round(sum(expected.values()))]
        if Counter(kernel.function for kernel in own) != expected:
            return None
        parts[case] = profile.model_copy(update={"kernels": own})
        place += len(own)
    return parts if others_after or place == len(profile.kernels) else None


def _left_out(profile: Profile, activity: Activity | None, options: NcuOptions) -> Iterator[str]:
    """Yield what a reader should know about kernels and launches of the call that were not profiled."""
    times = traces.kernel_times(activity) if activity else {}
    missing = [name for name in times if options.kernels and name not in options.kernels]
    if missing and (total := sum(times.values())):
        share = 1 - sum(times[name] for name in missing) / total
        names = listed(missing, NAMES_SHOWN, lambda name: clean(name, 60))
        of = f"{len(times) - len(missing)} of {plural(len(times), 'kernel')}"
        yield (
            f"{of}, {100 * share:.0f} % of the call's time on the GPU, were profiled;"
            f" the others are short or hardly differ: {names}."
        )
    launches = traces.launches_of(activity, options.kernels or tuple(times)) if activity else 0
    if len(profile.kernels) >= ncu.MOST_KERNELS and launches > ncu.MOST_KERNELS:
        yield f"The call launches these kernels {launches} times; the first {ncu.MOST_KERNELS} launches were profiled."
