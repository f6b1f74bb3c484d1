"""Profile one side of a case with the best profiler there is: ncu, nsys or torch's own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ratchet.errors import RatchetError
from ratchet.measure.child.profile_target import MARK, ProfileTarget
from ratchet.profile import ncu
from ratchet.profile.ncu import ProfileError, Surroundings
from ratchet.profile.readers import traces
from ratchet.records.profile import Profile

ON_THE_CPU = "A CPU has no GPU counters: the times of torch's operators stand in for them."


NO_KERNEL = "The call launches no kernel, and copies have no counters: the times of torch.profiler stand in for them."


INSTEAD = "The times of torch.profiler stand in for the counters."


@dataclass
class SideProfile:
    """What came of one side."""

    profile: Profile | None = None
    steps_down: list[str] = field(default_factory=list)
    reports: dict[str, Path] = field(default_factory=dict)
    """Ending of the file's name → where the profiler left it."""


@dataclass(frozen=True)
class ProfileRequest:
    """How a side is looked at, and where its files may lie meanwhile."""

    environ: Mapping[str, str]
    folder: Path
    time_limit_s: float
    wish: ncu.Wish


def look_at(target: ProfileTarget, look: ProfileRequest) -> SideProfile:
    """Profile one case of one tree within the time limit. What cannot be had is a sentence in ``steps_down``.

    torch.profiler comes first: it is quick, it names the kernel that has to be in ncu's report, and it is all that is left
    where ncu takes the rest of the time and gives nothing.
    """
    ends = time.monotonic() + look.time_limit_s
    found = SideProfile()
    traced = _traced(target, look, ends, found)
    if target.tree.device == "cpu":
        found.profile = traced
        found.steps_down.insert(0, ON_THE_CPU)
    elif traced and traced.activity and traced.activity.copies_s and traces.busiest(traced.activity) is None:
        found.profile = traced
        found.steps_down.append(NO_KERNEL)
    else:
        counted = _counted(target, look, ends, found, traced)
        found.profile = counted or traced
        if counted is None and traced is not None:
            found.steps_down.append(INSTEAD)
        if counted is None:
            _systems(target, look, ends, found)
    return found


def _traced(target: ProfileTarget, look: ProfileRequest, ends: float, found: SideProfile) -> Profile | None:
    left = ends - time.monotonic()
    written = look.folder / "activity.json"
    try:
        command = target.command(left, trace=written, calls=traces.CALLS)
        return traces.take_torch_trace(command, written, Surroundings(look.environ, look.folder, left), own_error=MARK)
    except ProfileError as error:
        found.steps_down.append(str(error))
        return None


def _counted(
    target: ProfileTarget, look: ProfileRequest, ends: float, found: SideProfile, traced: Profile | None
) -> Profile | None:
    """ncu's report, read; with what torch.profiler saw of the same case beside it."""
    from ratchet.profile.readers import read

    left = ends - time.monotonic()
    report = look.folder / "counted.ncu-rep"
    try:
        program = ncu.find_ncu(look.environ)
        where = Surroundings(look.environ, look.folder, left)
        ncu.take(program, target.command(left), report, look.wish, where, own_error=MARK)
        found.reports["ncu-rep"] = report
        profile = ncu.accepted(read(report, look.environ), traces.busiest(traced.activity) if traced else None)
    except RatchetError as error:  # of the profiler, or of whatever cannot be read in its report
        found.steps_down.append(str(error).replace(str(report), "The report of ncu"))
        return None
    more = traced.activity.launches // traced.activity.calls if traced and traced.activity else 0
    warnings = profile.warnings
    if len(profile.kernels) >= ncu.MOST_KERNELS and more > ncu.MOST_KERNELS:
        warnings = (*warnings, f"The call launches {more} kernels; the first {ncu.MOST_KERNELS} were profiled.")
    return profile.model_copy(update={"activity": traced.activity if traced else profile.activity, "warnings": warnings})


def _systems(target: ProfileTarget, look: ProfileRequest, ends: float, found: SideProfile) -> None:
    """nsys, where it is installed and there is time: its report is kept, and its summaries stand in where torch saw nothing."""
    left = ends - time.monotonic()
    program = traces.find_nsys(look.environ)
    if program is None or left < traces.LEAST_S:
        return
    report = look.folder / "traced.nsys-rep"
    try:
        profile = traces.take_nsys(program, target.command(left), report, Surroundings(look.environ, look.folder, left))
    except ProfileError as error:
        found.steps_down.append(str(error))
        return
    found.reports["nsys-rep"] = report
    found.profile = found.profile or profile
