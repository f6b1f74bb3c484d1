"""Profiles without counters: which kernels a trace of torch.profiler shows, and the summaries of Nsight Systems over one call.

`ratchet.commands.profile.sides` asks which kernels matter, and calls `take_nsys` where nothing else gave anything. It starts
child processes, and reads and removes the files that they write.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ratchet.profile.metrics import bare
from ratchet.profile.ncu import ProfileError, Surroundings, find_program, last_line, newest, run
from ratchet.records.profile import Activity, Profile
from ratchet.untrusted import clean

REPORTS = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum", "cuda_kern_exec_sum")
"""Summaries of `nsys stats`, in the order of the arguments of `activity_of`."""
LEAST_S = 5.0
"""Seconds that have to be left for nsys to be started."""
_NS = 1e-9


def find_nsys(environ: Mapping[str, str]) -> Path | None:
    """Return nsys on the PATH, else where NVIDIA's installers put it; None where it is in neither."""
    places = [*newest(Path("/usr/local"), "cuda*/bin"), *newest(Path("/opt/nvidia/nsight-systems"), "*/bin")]
    return find_program("nsys", places, environ)


def take_nsys(nsys: Path, command: Sequence[str], report: Path, where: Surroundings) -> Profile:
    """Trace the marked call of ``command`` into ``report`` (which ends in ``.nsys-rep``) and read its summaries.

    Raises ProfileError where nsys fails, hangs or writes no report.
    """
    options = [
        "profile",
        "--trace=cuda,nvtx,osrt",
        "--cuda-memory-usage=true",
        "--sample",
        "none",
        "--cpuctxsw",
        "none",
        "--force-overwrite",
        "true",
    ]
    options += ["--capture-range", "cudaProfilerApi", "--capture-range-end", "stop", "--output", str(report)]
    started = time.monotonic()
    ended = run([nsys, *options, *command], where)
    if ended.status is None:
        raise ProfileError(f"nsys hung: it did not end within {where.time_limit_s:.0f} s.")
    if not report.is_file() and report.with_suffix(".qdstrm").is_file():
        raise ProfileError(
            "nsys traced the call and could not make a report of its trace.",
            "Install Nsight Systems itself: the nsys inside Nsight Compute lacks the importer.",
        )
    if ended.status != 0 or not report.is_file():
        raise ProfileError(f"nsys wrote no report: {last_line(ended)}")
    left_s = where.time_limit_s - (time.monotonic() - started)
    return Profile(tool="nsys", reader="nsys stats", activity=_summarised(nsys, report, replace(where, time_limit_s=left_s)))


def _summarised(nsys: Path, report: Path, where: Surroundings) -> Activity:
    stem = report.with_suffix("")
    words = [item for name in REPORTS for item in ("--report", name)]
    ended = run([nsys, "stats", *words, "--format", "json", "--force-export", "true", "--output", str(stem), str(report)], where)
    if ended.status is None:
        raise ProfileError("nsys stats had no time left to read the report.", "Raise profile_timeout in [tool.ratchet].")
    if ended.status != 0:
        raise ProfileError(f"nsys stats could not read the report: {last_line(ended)}")
    tables = []
    for name in REPORTS:
        path = Path(f"{stem}_{name}.json")
        tables.append(list(rows_of(path)))
        path.unlink(missing_ok=True)
    return activity_of(*tables)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of one summary; none where it has no file, since the call does nothing of the kind. Raises ProfileError."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    try:
        rows = json.loads(text) if text.strip() else []
    except ValueError as error:
        raise ProfileError(f"{path.name} of nsys stats is not JSON: {clean(str(error))}.") from None
    yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()


def activity_of(
    kernels: list[dict[str, Any]], copies: list[dict[str, Any]], api: list[dict[str, Any]], executed: list[dict[str, Any]]
) -> Activity:
    """Return the summaries of one call as an `Activity`; its wall time is the sum of its API calls."""
    spent = _times(api, "Name")
    copied = {name: seconds for name, seconds in _times(copies, "Operation").items() if "memcpy" in name.lower()}
    return Activity(
        calls=1,
        wall_s=sum(spent.values()),
        kernels=_times(kernels, "Name"),
        launches=sum(_count(row, "Num Calls") for row in api if "Launch" in str(row.get("Name"))),
        copies_s=sum(copied.values()),
        copies=copied,
        cpu_s=spent,
        queued_s=sum(_count(row, "QCount") * _number(row, "QAvg (ns)") * _NS for row in executed) if executed else None,
        allocation_s=sum(seconds for name, seconds in spent.items() if name.startswith(("cudaMalloc", "cudaFree", "cuMem"))),
    )


def _times(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    times: dict[str, float] = {}
    for row in rows:
        nanoseconds = row.get("Total Time (ns)", row.get("Total Time"))
        if isinstance(nanoseconds, int | float) and nanoseconds >= 0:
            key = str(row.get(name, ""))
            times[key] = times.get(key, 0.0) + nanoseconds * _NS
    return times


def _count(row: dict[str, Any], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) and 0 <= value < math.inf else 0.0


# What torch.profiler saw of some calls: which kernels take the time.


MATTERS = 0.95
"""Part of a call's time on the device whose kernels are worth counters. Of two sides, also part of the time between them."""
ALIKE = 0.02
"""Two sides whose kernels differ by less than this part of their time are alike: which ones differ most would be chance."""


def kernel_times(activity: Activity) -> dict[str, float]:
    """Return bare name → seconds of the kernels that ran, the longest first; copies and fills of memory are none."""
    times: dict[str, float] = {}
    for name, seconds in activity.kernels.items():
        if not name.startswith(("Memset", "Memcpy")):
            times[bare(name)] = times.get(bare(name), 0.0) + seconds
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def busiest(activity: Activity | None, among: Collection[str] = ()) -> str | None:
    """Return the bare name of the kernel that takes most of the device's time; None where no kernel ran.

    ``among`` leaves only kernels of these names, unless it is empty.
    """
    times = kernel_times(activity) if activity else {}
    return next((name for name in times if not among or name in among), None)


def that_matter(activity: Activity) -> list[str]:
    """Return the bare names of the longest kernels, which together take `MATTERS` of the time."""
    times, chosen = kernel_times(activity), list[str]()
    while sum(times[name] for name in chosen) < MATTERS * sum(times.values()):
        chosen.append(list(times)[len(chosen)])
    return chosen


def worth_counters(sides: Sequence[Activity]) -> list[str]:
    """Return the bare names of the kernels of a case whose counters explain it: of one side, those that matter.

    Of two sides those that, besides, make up nearly all of the difference in time, and at least one kernel of each side.
    """
    matter = dict.fromkeys(name for activity in sides for name in that_matter(activity))
    times = [{name: s / max(1, activity.calls) for name, s in kernel_times(activity).items()} for activity in sides]
    apart = {name: max(of.get(name, 0.0) for of in times) - min(of.get(name, 0.0) for of in times) for name in matter}
    whole = sum(apart.values())
    if len(sides) < 2 or whole < ALIKE * max(sum(of.values()) for of in times):
        return list(matter)
    chosen = set[str]()
    for name in sorted(matter, key=lambda name: -apart[name]):
        if sum(apart[one] for one in chosen) < MATTERS * whole:
            chosen.add(name)
    chosen |= {next(iter(of)) for of in times if of and not chosen & set(of)}
    return [name for name in matter if name in chosen]


def launches_of(activity: Activity, names: Collection[str]) -> int:
    """Return how often a call launches kernels of these bare names, rounded up."""
    return math.ceil(sum(launches_by_name(activity, names).values()))


def launches_by_name(activity: Activity, names: Collection[str]) -> dict[str, float]:
    """Return bare name → how often a call launches it, of these names; a fraction where calls differ."""
    counts: Counter[str] = Counter()
    for name, count in activity.ran.items():
        if bare(name) in names:
            counts[bare(name)] += count
    return {name: count / max(1, activity.calls) for name, count in counts.items()}
