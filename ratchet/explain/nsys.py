"""Look at the timeline of a case with Nsight Systems: copies from pageable or pinned memory, gaps of the GPU, overlap.

`ratchet profile --nsys` calls `profile_nsys`, for what torch.profiler does not see, and `read_nsys` for files. ``nsys profile``
records one call of the case, after its warm-up; ``nsys export`` makes the SQLite file that is read here. Tables and columns:
https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite schema reference).
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ratchet.common.call_trace import gaps_between
from ratchet.core import units
from ratchet.core.bench.build import benchmark_environ
from ratchet.core.cache import scratch_folder
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.machine import machine_of
from ratchet.core.records import Count, NotNegative, Record
from ratchet.core.records.files import file_stem
from ratchet.core.report.progress import Progress
from ratchet.core.request import Request, settings_of, writable
from ratchet.core.run import cases_of_checkout
from ratchet.core.trees import tree_spec
from ratchet.core.untrusted import clean
from ratchet.explain.child.profile_target import read_status, target_command
from ratchet.explain.ncu import ProfileError, Surroundings, last_line, run

TRACE = ("--trace=cuda,nvtx,osrt", "--cuda-memory-usage=true", "--sample=none", "--force-overwrite=true")
RANGE = ("--capture-range=cudaProfilerApi", "--capture-range-end=stop")
"""One call, which `child.profile_target` marks: not the imports and the warm-up."""
NSYS = "Install Nsight Systems (`nsys`), or add it to PATH."
_MEMORY = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 5: "device", 6: "managed"}
_DIRECTION = {1: "to the GPU", 2: "from the GPU", 8: "on the GPU"}
"""Numbers in the columns of copies, where they matter here."""


class NsysCopies(Record):
    """Copies of one direction from and to one kind of memory of the host."""

    direction: str
    memory: str
    """Of the host: ``pageable``, ``pinned``, ``managed``; of copies on the GPU ``device``."""
    count: Count
    bytes: Count
    seconds: NotNegative


class NsysTimeline(Record):
    """Work of the GPU, from the start of its first kernel or copy to the end of its last one."""

    source: str
    wall_s: NotNegative
    kernels: Count
    streams: Count
    busy_s: NotNegative
    """Some kernel ran."""
    idle_s: NotNegative
    """Neither a kernel nor a copy ran."""
    longest_gap_s: NotNegative
    copy_s: NotNegative
    """Some copy ran."""
    overlap_s: NotNegative
    """A kernel and a copy ran."""
    copies: tuple[NsysCopies, ...] = ()


def profile_nsys(request: Request, progress: Progress, environ: Mapping[str, str]) -> list[NsysTimeline]:
    """Record one call of each named case of the checkout. Reports stay in ``results/nsight``.

    Raises UsageError without a GPU or nsys, ProfileError where nsys or the case fails, BusyError and UnfitError for the device.
    """
    program = shutil.which("nsys", path=environ.get("PATH"))
    if program is None:
        raise UsageError("nsys is not on the PATH.", NSYS)
    root, settings = settings_of(request, environ)
    folder = writable(root / settings.results) / "nsight"
    cases = [case.name for case in cases_of_checkout(request, environ) if not case.skipped]
    found = []
    with machine_of(request.devices, settings, f"ratchet profile in {root}", progress, environ) as machine:
        if machine.device == "cpu":
            raise UsageError("Nsight Systems looks at a GPU, and this run has none.", "Leave --nsys out.")
        folder.mkdir(parents=True, exist_ok=True)
        spec = tree_spec(settings, machine, root, root)
        for case in cases:
            progress.stage(f"Recording {case} with nsys")
            report = folder / f"{file_stem(case)}.nsys-rep"
            with scratch_folder("nsys") as scratch:
                where = Surroundings(benchmark_environ(environ, spec), root, settings.profile_timeout)
                paths = {"status": scratch / "status", "turn": scratch / "turn"}
                words = target_command(spec, (case,), settings.seed, settings.profile_timeout, **paths)
                ended = run([program, "profile", *TRACE, *RANGE, "--output", report, *words], where)
                if trouble := read_status(scratch / "status").get(case):
                    raise ProfileError(f"{case}: {trouble}")
                if not report.is_file():
                    raise ProfileError(f"nsys left no report of {case}: {last_line(ended)}", "Run `nsys status --environment`.")
                found.append(read_nsys(report, environ).model_copy(update={"source": case}))
    return found


def read_nsys(path: Path, environ: Mapping[str, str]) -> NsysTimeline:
    """Read a report (``.nsys-rep``, which needs nsys) or its export (``.sqlite``).

    Raises RecordError for another file, UsageError without nsys, ProfileError where nsys cannot export.
    """
    if not path.is_file():
        raise RecordError(f"{path} does not exist.", "Check the path.")
    if path.suffix == ".sqlite":
        return _timeline(path)
    program = shutil.which("nsys", path=environ.get("PATH"))
    if program is None:
        raise UsageError(f"{path} needs nsys, which is not on the PATH.", NSYS)
    with scratch_folder("nsys") as scratch:
        out = scratch / "report.sqlite"
        words: list[str | Path] = [program, "export", "--type", "sqlite", "--force-overwrite=true", "--output", out, path]
        ended = run(words, Surroundings(environ, scratch, 300.0))
        if not out.is_file():
            raise ProfileError(f"nsys could not export {path}: {last_line(ended)}")
        return _timeline(out).model_copy(update={"source": str(path)})


def _timeline(path: Path) -> NsysTimeline:
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
            kernels = _rows(file, tables, "KERNEL", "start, end, streamId")
            copies = _rows(file, tables, "MEMCPY", "start, end, streamId, bytes, copyKind, srcKind, dstKind")
    except sqlite3.Error as error:
        raise RecordError(f"{path} cannot be read: {clean(error)}.", "Export it again: nsys export --type sqlite.") from None
    if not kernels and not copies:
        raise RecordError(f"{path} has neither kernels nor copies.", "Record with --trace=cuda, around work on the GPU.")
    running, copying = ([(start, end) for start, end, *_ in rows] for rows in (kernels, copies))
    either = [*running, *copying]
    gaps = gaps_between(either)
    wall = max(end for _, end in either) - min(start for start, _ in either)
    busy, copy, some = _covered(running), _covered(copying), wall - sum(gaps)
    return NsysTimeline(
        source=str(path),
        wall_s=wall * 1e-9,
        kernels=len(kernels),
        streams=len({row[2] for row in (*kernels, *copies)}),
        busy_s=busy * 1e-9,
        idle_s=sum(gaps) * 1e-9,
        longest_gap_s=max(gaps, default=0) * 1e-9,
        copy_s=copy * 1e-9,
        overlap_s=(busy + copy - some) * 1e-9,
        copies=_copies(copies),
    )


def _rows(file: sqlite3.Connection, tables: set[str], kind: str, columns: str) -> list[tuple[int, ...]]:
    table = f"CUPTI_ACTIVITY_KIND_{kind}"
    if table not in tables:  # nothing of this kind was recorded
        return []
    return [row for row in file.execute(f"SELECT {columns} FROM {table}") if row[1] > row[0]]  # noqa: S608  our own names


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """Return the time in which some span is."""
    if not spans:
        return 0.0
    return max(end for _, end in spans) - min(start for start, _ in spans) - sum(gaps_between(spans))


def _copies(rows: Sequence[tuple[int, ...]]) -> tuple[NsysCopies, ...]:
    groups: dict[tuple[str, str], list[tuple[int, ...]]] = defaultdict(list)
    for row in rows:
        _, _, _, _, kind, source, target = row
        host = target if kind == 2 else source
        groups[_DIRECTION.get(kind, "elsewhere"), _MEMORY.get(host, "unknown")].append(row)
    made = [
        NsysCopies(
            direction=direction,
            memory=memory,
            count=len(group),
            bytes=sum(row[3] for row in group),
            seconds=sum(row[1] - row[0] for row in group) * 1e-9,
        )
        for (direction, memory), group in groups.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.seconds, one.direction, one.memory)))


def nsys_lines(timeline: NsysTimeline) -> Iterator[str]:
    """Yield what a timeline shows."""
    wall_s = timeline.wall_s
    what = f"{units.plural(timeline.kernels, 'kernel')} on {units.plural(timeline.streams, 'stream')}"
    yield f"{clean(timeline.source)}: {what} in {units.duration(wall_s)}, of which kernels run {_share(timeline.busy_s, wall_s)}."
    for one in timeline.copies:
        rate = units.rate(one.bytes / one.seconds, "B/s")
        advice = "; pin it (pin_memory=True) and copy with non_blocking=True" if one.memory == "pageable" else ""
        where = "" if one.direction == "on the GPU" else f", {one.memory} memory"
        count = f"{one.count} {'copy' if one.count == 1 else 'copies'}"
        yield f"  {count} {one.direction}{where}: {units.size(one.bytes)} in {units.duration(one.seconds)} ({rate}){advice}."
    longest = units.duration(timeline.longest_gap_s)
    idle = f"{units.duration(timeline.idle_s)} ({_share(timeline.idle_s, wall_s)})"
    yield f"  Gaps: the GPU does nothing for {idle}; the longest gap is {longest}."
    if timeline.copies:
        yield f"  Overlap: kernels run during {_share(timeline.overlap_s, timeline.copy_s)} of the time of copies."


def _share(part_s: float, whole_s: float) -> str:
    return units.percent(part_s / whole_s if whole_s else 0.0)
