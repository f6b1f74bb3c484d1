"""Run profilers as child processes, Nsight Compute in particular: find them, limit their time, say in a sentence what went wrong.

`ratchet.explain.sides` records reports with `take`; the readers use `run` and `find_ncu`. Starts and ends
programs and writes the report file; everything that goes wrong is a `ProfileError`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ratchet.core.errors import RatchetError
from ratchet.core.processes import Ended, Program, started
from ratchet.core.records.profile import Profile
from ratchet.core.records.run import Side
from ratchet.core.untrusted import clean


class ProfileError(RatchetError):
    """A profiler gave nothing usable; the sentence says why and what to do. It costs a profile, never the verdict."""

    section = "profiles"


class CountersHeldError(ProfileError):
    """Another process holds the GPU's counters."""


def last_line(ended: Ended) -> str:
    """Return the last line with text in it."""
    return line_with(ended) or "it printed nothing"


def line_with(ended: Ended, *words: str) -> str | None:
    """Return the last line with text in it that holds one of these words; without any, the last of all."""
    lines = [clean(line) for line in ended.output.splitlines() if not words or any(word in line for word in words)]
    return next(filter(None, reversed(lines)), None)


@dataclass(frozen=True)
class Surroundings:
    """Surroundings of a program: its environment, its folder, and how long it may take."""

    environ: Mapping[str, str]
    folder: Path
    time_limit_s: float


def run(command: Sequence[str | Path], where: Surroundings) -> Ended:
    """Run a program. It and everything that it started are gone afterwards, also on Ctrl-C.

    Raises ProfileError where it cannot be started.
    """
    with contextlib.ExitStack() as running:
        return _started(command, where, running).wait(where.time_limit_s)


def _started(command: Sequence[str | Path], where: Surroundings, running: contextlib.ExitStack) -> Program:
    words = [str(word) for word in command]
    try:
        return running.enter_context(started(words, environ=where.environ, folder=where.folder))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ProfileError(f"{Path(command[0]).name} cannot be started: {clean(why or str(error))}.") from None


def newest(root: Path, pattern: str) -> list[Path]:
    """Return the folders under ``root`` that match, the highest version first; none where the folder cannot be read."""
    try:
        return sorted((path for path in root.glob(pattern) if path.is_dir()), key=_version, reverse=True)
    except OSError:
        return []


def signal_name(status: int) -> str:
    """Return the name of the signal in a negative exit status, such as ``SIGSEGV``."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _version(path: Path) -> tuple[tuple[int, ...], str]:
    numbers = "".join(c if c.isdigit() else " " for c in str(path)).split()
    return tuple(int(number) for number in numbers[:8] if len(number) < 9), str(path)


# Nsight Compute over one call: hardware counters of each kernel in the marked range, in a ``.ncu-rep`` file.
#
# ``--clock-control none``: ncu would lock the clocks to the base clock, at which nobody runs
# (docs/decisions/0017-one-process-a-side.md).
# ``--profile-from-start off``: tuning and warm-up run at full speed and stay out of the report. (Nsight Compute CLI, Command
# Line Options.)


SetName = Literal["full", "detailed", "basic", "speed-of-light"]
MOST_KERNELS = 16
"""Kernels of one call; each is replayed some forty times for a full set of counters."""
SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "WarpStateStats",
    "InstructionStats",
    "ComputeWorkloadAnalysis",
)
"""Sections that the diagnosis reads first: most replays of a full set, which adds rooflines and single instructions."""
SPEED_OF_LIGHT = ("SpeedOfLight", "SpeedOfLight_RooflineChart", "LaunchStats")
"""The set of that name, which releases since 2022 no longer have, and the grid, without which a launch is not recognised."""
FULL_PASSES = 38
"""Replays of a launch for a full set, as on an H200."""
PASS_S = 0.05
"""Seconds that a replay takes besides the kernel: 38 of each of six launches took 14 s on an H200, memory restored each time."""
WRITE_S = 30.0
"""Seconds beyond the time limit that ncu has to write what it collected, once the program that it profiles has ended."""
NO_PERMISSION = (
    "Allow them with the driver option NVreg_RestrictProfilingToAdminUsers=0, or give the container CAP_SYS_ADMIN"
    " (docker run --cap-add SYS_ADMIN)."
)
# Words that ncu prints, here and below; a version with other words gets the general sentence of `_ending`.
_COUNTERS_HELD = ("driver resource was unavailable", "concurrently collecting")
_SHELL = 128
"""A shell, and the ncu on the PATH is a shell script on some machines, adds this to the signal that ended its program."""
_LAST_SIGNAL = 64
_NO_KERNELS = "No kernels were profiled"
_NOT_SUPPORTED = ("not supported on device", "not compatible with Nsight Compute", "not supported with Nsight Compute")


@dataclass(frozen=True)
class NcuOptions:
    """Options of ncu that a case decides."""

    set_name: SetName = "full"
    cold_cache: bool = True
    """Whether caches are emptied before each replay, as they are before each sample of a cold measurement."""
    kernels: tuple[str, ...] = ()
    """Bare names of the kernels that are replayed; none: all of them."""
    launches: int = MOST_KERNELS
    """Most launches that are replayed."""
    is_brief: bool = False
    """Whether `SECTIONS` stand in for the set."""


@dataclass(frozen=True)
class NcuTask:
    """One process of ncu: the command that it profiles, which ends itself in time, and where its report goes (``.ncu-rep``)."""

    command: Sequence[str]
    report: Path


def find_ncu(environ: Mapping[str, str]) -> Path:
    """Return ncu on the PATH, else where NVIDIA's installers put it. Raises ProfileError if it is in neither."""
    places = [*newest(Path("/usr/local"), "cuda*/bin"), *newest(Path("/opt/nvidia/nsight-compute"), "*")]
    for path in (environ.get("PATH", ""), *map(str, places)):
        program = shutil.which("ncu", path=path) if path else None
        if program is not None:
            return Path(program).absolute()
    raise ProfileError("ncu (Nsight Compute) is not installed.", "Install it with the CUDA toolkit, or put it on the PATH.")


Started = Mapping[Side, "Program | ProfileError"]
"""Processes of ncu that run, or why one could not be started."""


def start(
    ncu: Path, tasks: Mapping[Side, NcuTask], options: NcuOptions, where: Surroundings, running: contextlib.ExitStack
) -> Started:
    """Start a process of ncu for each task; they end with ``running``."""
    programs: dict[Side, Program | ProfileError] = {}
    for side, task in tasks.items():
        task.report.unlink(missing_ok=True)
        try:
            programs[side] = _started([ncu, *_options(options, task.report), *task.command], where, running)
        except ProfileError as error:
            programs[side] = error
    return programs


def take(
    ncu: Path,
    tasks: Mapping[Side, NcuTask],
    options: NcuOptions,
    where: Surroundings,
    *,
    own_error: str,
    begun: Started | None = None,
) -> dict[Side, ProfileError | None]:
    """Profile what each command marks, all at once. Return each one's error in a sentence; None where there is a report.

    Processes of ncu wait for each other's replays. Where one refuses to, it is run again alone. Beside an error there may be a
    report too, of what came before it. ``own_error`` is how a line begins on which the command says why it cannot be called.
    ``begun`` are processes of these tasks that run already.
    """
    ends = time.monotonic() + where.time_limit_s
    errors: dict[Side, ProfileError | None] = {}
    with contextlib.ExitStack() as running:
        for side, program in (begun or start(ncu, tasks, options, where, running)).items():
            if isinstance(program, ProfileError):
                errors[side] = program
                continue
            errors[side] = _trouble(program.wait(ends + WRITE_S - time.monotonic()), where.time_limit_s, own_error)
            report = tasks[side].report
            if errors[side] is None and not (report.is_file() and report.stat().st_size):
                errors[side] = ProfileError("ncu succeeded but wrote no report.", "Run it by hand, or see `ncu --version`.")
    for side, error in errors.items():
        left = ends - time.monotonic()
        if isinstance(error, CountersHeldError) and len(tasks) > 1 and left > 0:
            alone = replace(where, time_limit_s=left)
            errors |= take(ncu, {side: tasks[side]}, options, alone, own_error=own_error)
    return errors


def _options(chosen: NcuOptions, report: Path) -> list[str]:
    sections = SECTIONS if chosen.is_brief else SPEED_OF_LIGHT if chosen.set_name == "speed-of-light" else ()
    options = [word for name in sections for word in ("--section", name)] or ["--set", chosen.set_name]
    options += ["--clock-control", "none", "--cache-control", "all" if chosen.cold_cache else "none"]
    options += ["--profile-from-start", "off", "--target-processes", "application-only"]
    if chosen.kernels:
        names = "|".join(map(re.escape, chosen.kernels))
        options += ["--kernel-name-base", "function", "--kernel-name", f"regex:^({names})$"]
    return [*options, "--launch-count", str(chosen.launches), "--force-overwrite", "--export", str(report)]


def accepted(profile: Profile, wanted: str | None) -> Profile:
    """Return the profile if it can be used: it has launches, with ``wanted`` among them, and that one (None: each) has figures.

    ``wanted`` is the bare name of the kernel, of those that were asked for, that takes most of the call. Raises ProfileError.
    """
    if not profile.kernels:
        raise ProfileError("The report of ncu holds no kernel.", "Does the case launch any?")
    if wanted is not None and not any(kernel.function == wanted for kernel in profile.kernels):
        others = ", ".join(dict.fromkeys(clean(kernel.function, 60) for kernel in profile.kernels[:3]))
        raise ProfileError(f"The report of ncu lacks {clean(wanted, 60)}, which takes most of the time; it has {others}.")
    for kernel in profile.kernels:
        has_figures = kernel.duration_s is not None and not (kernel.sm_percent is None and kernel.memory_percent is None)
        if (wanted is None or kernel.function == wanted) and not has_figures:
            name = clean(kernel.function, 60)
            raise ProfileError(f"ncu gave no usable counters for {name} (missing, or not numbers).", "Profile it once more.")
    return profile


def _trouble(ended: Ended, time_limit_s: float, own_error: str) -> ProfileError | None:
    """Return the error in one sentence, or None. ncu's own words say more than its exit status, so they come first."""
    if "ERR_NVGPUCTRPERM" in ended.output:
        return ProfileError("This user may not read the GPU's counters (ERR_NVGPUCTRPERM).", NO_PERMISSION)
    if line_with(ended, *_COUNTERS_HELD):
        return CountersHeldError(
            "Another program holds the GPU's counters, perhaps DCGM.", "Pause it with `dcgmi profile --pause`, and profile again."
        )
    if own := line_with(ended, own_error):
        return ProfileError(f"Under ncu {own[own.find(own_error) + len(own_error) :]}")
    if _NO_KERNELS in ended.output:
        return ProfileError("ncu saw no kernel in the call.", "It counts kernels only, not copies or memsets.")
    if line := line_with(ended, *_NOT_SUPPORTED):
        return ProfileError(f"This ncu does not know the GPU or its driver: {line}", "Install the ncu that came with the driver.")
    return _ending(ended, time_limit_s)


def _ending(ended: Ended, time_limit_s: float) -> ProfileError | None:
    if ended.status is None:
        return ProfileError(f"ncu hung: it did not end within {time_limit_s:.0f} s.", "Raise profile_timeout in [tool.ratchet].")
    signal = ended.status - _SHELL if ended.status > _SHELL else -ended.status
    if 0 < signal <= _LAST_SIGNAL:
        return ProfileError(f"ncu crashed ({signal_name(-signal)}): {last_line(ended)}")
    if ended.status > 0:
        return ProfileError(f"ncu failed with status {ended.status}: {line_with(ended, '==ERROR==') or last_line(ended)}")
    return None
