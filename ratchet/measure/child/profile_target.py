"""The program that a profiler looks at: it imports one tree's benchmarks, warms one case up, and calls it in a marked range.

`ratchet.commands.profile.cases` has a profiler run it with one JSON argument: see `ProfileTarget.command`. Between
``cudaProfilerStart`` and ``cudaProfilerStop`` there is one call and the wait for it, so that a profiler that starts switched off
sees nothing of the imports, the tuning and the warm-up.
With a path for a trace it is its own profiler: torch.profiler over some calls, written to that file as an `Activity`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.errors import ForeignModuleError, RatchetError
from ratchet.measure.child.loader import load_tree, use_last_cores
from ratchet.measure.tree_spec import TreeSpec, child_command
from ratchet.records.files import save
from ratchet.records.profile import Activity
from ratchet.workload import Device

if TYPE_CHECKING:
    from ratchet.measure.child.calls import TimedCall

ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::resize_", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cuMem")
"""Beginnings of the names of calls that allocate or free memory."""
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch")
_US = 1e-6
TROUBLE = 70
"""Exit status where the case could not be called; the last line on stderr begins with `MARK` and says why."""
MARK = "ratchet target: "
_WARM_CALLS, _WARM_S = (3, 50), 0.3
"""Fewest and most warm-up calls; between these they end after so many seconds."""
_TRACED_S = 1.0
"""Calls that take longer than this together are traced in a smaller number."""


@dataclass(frozen=True)
class ProfileTarget:
    """One case of one tree, as a process of its own."""

    tree: TreeSpec
    case: str
    seed: int

    def command(self, time_limit_s: float, *, trace: Path | None = None, calls: int = 1) -> list[str]:
        """Return the argument list; after ``time_limit_s`` seconds the process ends itself, whoever started it."""
        limit = max(1, round(time_limit_s))
        module = "ratchet.measure.child.profile_target"
        return child_command(module, target=self, time_limit_s=limit, trace=trace and trace.resolve(), calls=calls)


def main() -> None:
    argument = json.loads(sys.argv[1])
    signal.alarm(argument["time_limit_s"])  # its default is to end the process, also within a call that never returns
    spec = TreeSpec.read(argument["target"]["tree"])
    try:
        call = _built(ProfileTarget(spec, argument["target"]["case"], argument["target"]["seed"]))
        warm_s = _warmed(call, spec.device)
        if argument["trace"]:
            calls = max(1, min(argument["calls"], int(_TRACED_S / max(warm_s, 1e-9))))
            save(Path(argument["trace"]), trace(call, calls, spec.device))
        else:
            _marked(call, spec.device)
    except RatchetError as error:
        _give_up(str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  an author's code may raise anything; it costs this profile only
        _give_up(f"the case raised {type(error).__name__}: {error}")


def _built(target: ProfileTarget) -> TimedCall:
    """Return the call that a worker would time: the same seed, the same tuning, from the tree's own modules."""
    from ratchet.measure.child.calls import TimedCall

    tree = load_tree(target.tree)
    tree.case(target.case)
    if target.tree.device == "cpu":
        use_last_cores(target.tree.threads)
    workload = tree.build(target.case, target.seed)
    if foreign := tree.provenance.foreign():
        raise ForeignModuleError(f"The tree loaded {foreign[0]} instead of its own copy.", "Uninstall that package.")
    return TimedCall(workload)


def _warmed(call: Callable[[], object], device: Device) -> float:
    """Call until tuning, compilation and clocks have settled. Return the seconds of the last call."""
    began = time.perf_counter()
    for count in range(1, _WARM_CALLS[1] + 1):
        started = time.perf_counter()
        call()
        _settle(device)
        now = time.perf_counter()
        if count >= _WARM_CALLS[0] and now - began > _WARM_S:
            break
    return now - started


def _marked(call: TimedCall, device: Device) -> None:
    import torch

    if call.before is not None:
        call.before()
        _settle(device)
    if device == "cuda":
        torch.cuda.profiler.start()
    call.run()
    _settle(device)
    if device == "cuda":
        torch.cuda.profiler.stop()


def _settle(device: Device) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _give_up(sentence: str) -> None:
    sys.stderr.write(f"{MARK}{' '.join(sentence.split())[:500]}\n")
    sys.stderr.flush()
    os._exit(TROUBLE)  # a broken CUDA context may hang in exit hooks


def trace(call: Callable[[], object], calls: int, device: Device) -> Activity:
    """Trace ``calls`` calls with torch.profiler, one right after the other. The call has to be warm."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    wanted = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    settle: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    with profile(activities=wanted):  # the first one sets the tracer up, and its events are late
        call()
        settle()
    with profile(activities=wanted) as taken:
        for _ in range(calls):
            call()
        settle()
    return activity_of(taken.events(), calls, device)


def activity_of(events: Iterable[Any], calls: int, device: Device) -> Activity:
    """Sum up torch.profiler's events by name, in seconds; on the CPU an operator's own time, without that of those it calls."""
    kernels: dict[str, float] = defaultdict(float)
    spent: dict[str, float] = defaultdict(float)
    busy: list[tuple[float, float]] = []
    every: list[tuple[float, float]] = []
    launches = kernel_count = pageable = 0
    copies_s = 0.0
    for event in events:
        name, span = str(event.name), (event.time_range.start * _US, event.time_range.end * _US)
        every.append(span)
        if "CPU" in str(event.device_type):
            spent[name] += max(0.0, event.self_cpu_time_total * _US)
            launches += name.startswith(_LAUNCHES)
            continue
        busy.append(span)
        if name.startswith("Memcpy"):
            copies_s += span[1] - span[0]
            pageable += "Pageable" in name
        else:
            kernels[name] += span[1] - span[0]
            kernel_count += not name.startswith("Memset")
    return Activity(
        calls=calls,
        wall_s=max((end for _, end in every), default=0.0) - min((start for start, _ in every), default=0.0),
        kernels=dict(kernels) if device == "cuda" else dict(spent),
        launches=launches or kernel_count,
        copies_s=copies_s,
        pageable_copies=pageable,
        gaps_s=idle_between(busy) if device == "cuda" else None,
        cpu_s=dict(spent),
        allocation_s=sum(seconds for name, seconds in spent.items() if name.startswith(ALLOCATIONS)),
    )


def idle_between(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time between the first start and the last end that no span covers."""
    idle, reached = 0.0, None
    for start, end in sorted(spans):
        if reached is not None and start > reached:
            idle += start - reached
        reached = end if reached is None else max(reached, end)
    return idle


if __name__ == "__main__":
    main()
