"""Look at a prepared case for an experiment: profile it, measure the floors of the machine, compare results, try a CUDA graph.

`child.worker` calls it. It runs the author's code on the device, and writes results to a file that the controller names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ratchet.common.call_trace import is_gpu_range, trace
from ratchet.core.bench.child import outputs
from ratchet.core.bench.child.calls import TimedCall, has_compiled, seed_all
from ratchet.core.bench.child.kernel_times import profiled, settle
from ratchet.core.bench.child.outputs import Part, Value, signature
from ratchet.core.bench.clocks import warm_up
from ratchet.core.cache import scratch_folder
from ratchet.core.records.profile import Activity
from ratchet.core.untrusted import clean
from ratchet.core.workload import Device
from ratchet.lab.records.experiment import LISTED, PROFILED_CALLS, WARM_UPS, CopyRow, Equality, Floors, HotSpot, ProfileBaseline

if TYPE_CHECKING:
    from ratchet.core.bench.child.worker import Worker

ATOL, RTOL = 1e-5, 1e-4
LAUNCHES, LAUNCH_ROUNDS = 500, 5
COPY_BYTES, COPIES = 64 << 20, 5
_FRAME = re.compile(r"(?P<file>.+\.py)\((?P<line>\d+)\): (?P<function>.*)")
_OF_THE_PROFILER = "Activity Buffer Request"
_OCCUPANCY = "est. achieved occupancy %"
"""Of a kernel in a trace: torch.profiler computes it from the launch and the registers and shared memory of a block."""
_MOST_TEXT = 160


def profile_call(call: Callable[[], object], device: Device, tree: Path) -> ProfileBaseline:
    """Return the profile of some calls with stacks and shapes, right after warm-up."""
    activity = trace(call, device)  # without stacks, which slow the host down, and so that the tracer is set up
    for _ in range(WARM_UPS):
        call()
    settle(device)
    taken = _profiled(call, device, detailed=True)
    operators = [one for one in taken.events() if _is_operator(one) and not is_gpu_range(one)]
    copied, occupancy = _of_device(taken) if device == "cuda" else ({}, None)
    if device == "cpu":
        activity = _with_operators(activity, taken)
    spots = _hot_spots(operators, tree)
    return ProfileBaseline(
        by_cuda=_ranked(spots, attrgetter("cuda_us")),
        by_cpu=_ranked(spots, attrgetter("cpu_us")),
        copies=_copies(spots, copied),
        activity=activity,
        occupancy=occupancy,
    )


def _profiled(call: Callable[[], object], device: Device, *, detailed: bool = False) -> Any:
    def calls() -> None:
        for _ in range(PROFILED_CALLS):
            call()
        settle(device)

    return profiled(calls, device, detailed=detailed)


def _ranked(spots: Iterable[HotSpot], time: Callable[[HotSpot], float]) -> tuple[HotSpot, ...]:
    return tuple(sorted(filter(time, spots), key=time, reverse=True)[:LISTED])


def _with_operators(activity: Activity, taken: Any) -> Activity:
    """Count as launches what the host starts where there is no GPU: operators that no other operator calls."""
    started = sum(_is_operator(one) and _is_outermost(one) for one in taken.events())
    return activity.model_copy(update={"launches": round(started / PROFILED_CALLS * activity.calls)})


def _is_operator(event: Any) -> bool:
    return not _FRAME.match(event.name) and not event.name.startswith(("<", "nn.Module:", _OF_THE_PROFILER))


def _is_outermost(event: Any) -> bool:
    around = event.cpu_parent
    while around is not None and not _is_operator(around):
        around = around.cpu_parent
    return around is None


def _hot_spots(events: Iterable[Any], tree: Path) -> list[HotSpot]:
    """Sum up events by name; the shapes and the caller are those of the longest one."""
    groups: dict[str, list[Any]] = {}
    launched_at: dict[str, str] = {}  # kernel → function
    for event in events:
        groups.setdefault(str(event.name), []).append(event)
        for kernel in getattr(event, "kernels", ()):
            if kernel.name not in launched_at:
                launched_at[kernel.name] = _caller_of(event, tree)
    spots = []
    for name, group in groups.items():
        longest = max(group, key=lambda event: event.time_range.elapsed_us())
        on_host = [event for event in group if "CPU" in str(event.device_type)]
        spots.append(
            HotSpot(
                name=clean(name, _MOST_TEXT),
                count=len(group),
                cuda_us=sum(max(0.0, float(event.device_time_total)) for event in group),
                cpu_us=sum(max(0.0, float(event.cpu_time_total)) for event in on_host),
                shapes=clean(", ".join(str(shape) for shape in longest.input_shapes or () if shape), _MOST_TEXT),
                where=_caller_of(longest, tree) or launched_at.get(name, ""),
            )
        )
    return spots


def _caller_of(event: Any, tree: Path) -> str:
    """Return the innermost function of the tree on an event's stack, with its first line; none where there is none.

    Frames are events around it or, in some releases of torch, in its own ``stack``, from the innermost one on.
    """
    while event is not None:
        for frame in map(_FRAME.match, (event.name, *(event.stack or ()))):
            if frame and not frame["file"].startswith("torch/"):
                file = Path(frame["file"])
                inside = file.relative_to(tree) if file.is_relative_to(tree) else file
                if not inside.is_absolute() and (tree / inside).is_file():
                    return clean(f"{inside}:{frame['line']} {frame['function']}", _MOST_TEXT)
        event = event.cpu_parent
    return ""


def _of_device(taken: Any) -> tuple[dict[str, int], float | None]:
    """Return bytes by name of all copies, and the occupancy of the kernels by their time: only the trace as a file has them."""
    found: dict[str, int] = {}
    held = ran = 0.0
    with scratch_folder("profile") as folder:
        taken.export_chrome_trace(str(folder / "trace.json"))
        trace_file = json.loads((folder / "trace.json").read_text(encoding="utf-8", errors="replace"))
    for event in trace_file["traceEvents"]:
        args = event.get("args", {})
        if str(event.get("name", "")).startswith("Memcpy") and "bytes" in args:
            found[event["name"]] = found.get(event["name"], 0) + int(args["bytes"])
        if _OCCUPANCY in args:
            held += float(args[_OCCUPANCY]) / 100 * event["dur"]
            ran += event["dur"]
    return found, min(1.0, held / ran) if ran else None


def _copies(spots: Iterable[HotSpot], copied: Mapping[str, int]) -> tuple[CopyRow, ...]:
    """Return what copies, by its time on the GPU; on a CPU by its own. A call of the runtime takes none on the GPU."""
    chosen = [spot for spot in spots if "copy" in spot.name.lower() or "memcpy" in spot.name.lower()]
    on_gpu = any(spot.cuda_us for spot in chosen)
    rows = [
        CopyRow(name=spot.name, count=spot.count, us=us, bytes=copied.get(spot.name))
        for spot in chosen
        if (us := spot.cuda_us if on_gpu else spot.cpu_us)
    ]
    return tuple(sorted(rows, key=lambda row: -row.us)[:64])


def floors(device: Device) -> Floors:
    """Measure the time of a launch, and on a GPU the rates of copies from and to pinned memory."""
    tiny = torch.zeros(1, device=device)

    def launch_us() -> float:
        began = perf_counter()
        for _ in range(LAUNCHES):
            tiny.add_(1)
        settle(device)
        return (perf_counter() - began) / LAUNCHES * 1e6

    launch_us()
    launch = min(launch_us() for _ in range(LAUNCH_ROUNDS))
    if device == "cpu":
        return Floors(launch_us=launch)
    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    return Floors(launch_us=launch, h2d_bytes_per_s=_copy_rate(there, host), d2h_bytes_per_s=_copy_rate(host, there))


def _copy_rate(target: torch.Tensor, source: torch.Tensor) -> float:
    rates = []
    for _ in range(COPIES):
        settle("cuda")
        began = perf_counter()
        target.copy_(source, non_blocking=True)
        settle("cuda")
        rates.append(COPY_BYTES / (perf_counter() - began))
    return max(rates)


def write_result(call: TimedCall, file: str) -> dict[str, str]:
    """Write the bytes of a call's result to a file, one tensor after the other, and return what each of its parts is."""
    parts = _result(call)
    with Path(file).open("wb") as stream:
        for part in parts.values():
            if isinstance(part, torch.Tensor):
                _bytes(part).cpu().numpy().tofile(stream)
    return {place: _described(part) for place, part in parts.items()}


def compare_result(call: TimedCall, file: str, written: Mapping[str, str]) -> Equality:
    """Compare a call's result, the reference's, with the one that the head wrote. Nothing of the file but bytes is believed."""
    expected = _result(call)
    if written.keys() != expected.keys():
        odd = sorted(written.keys() ^ expected.keys())[0]
        return Equality(bitwise=False, close=False, note=f"only one side returns {odd}")
    for place, part in expected.items():
        if (its := written[place]) != _described(part):
            mine = part if isinstance(part, Value) else signature(part)
            its = "another value" if its.startswith(_VALUE) else its
            return Equality(bitwise=False, close=False, note=f"{place} is {its}, the reference's {mine}")
    bitwise, close, largest, note = True, True, 0.0, ""
    with Path(file).open("rb") as stream:
        for place in written:  # in the order of the file
            if isinstance(part := expected[place], Value) or not part.numel():
                continue
            plain = torch.from_numpy(np.fromfile(stream, np.uint8, part.nbytes)).to(part.device)
            bitwise = bitwise and torch.equal(plain, _bytes(part))
            off, near = apart(plain.view(part.dtype).reshape(part.shape), part)
            largest = off if math.isnan(off) or off > largest else largest
            if not near:
                close, note = False, note or place
    return Equality(bitwise=bitwise, close=close, largest=largest if math.isfinite(largest) else None, note=note)


_VALUE = "= "


def _described(part: Part) -> str:
    return clean(f"{_VALUE}{part.value!r}") if isinstance(part, Value) else signature(part)


def _result(call: TimedCall) -> dict[str, Part]:
    seed_all(torch.initial_seed())
    return call.evidence(call())


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def capture(call: Callable[[], object]) -> tuple[str, str]:
    """Capture a call in a CUDA graph, and replay it. Return ``safe``, ``breaks`` or ``depends``, and why.

    After a capture that failed the process may be unusable.
    """
    warm_up(call)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = call()
        graph.replay()
        torch.cuda.synchronize()
        replayed = _tensors(result)
        eager = _tensors(call())
        torch.cuda.synchronize()
    except (RuntimeError, TypeError) as error:
        return "breaks", clean(str(error).partition("\n")[0], 200)
    if any(not apart(one, eager[place])[1] for place, one in replayed.items() if place in eager):
        return "depends", "a replay gives another result than a call: what the host computes is fixed when it is captured"
    if any(not one.is_cuda for one in replayed.values()):
        return "depends", "a part of its result is not on the GPU, where a replay does not renew it"
    if has_compiled():
        return "depends", "torch.compile ran in it, and may compile anew for other inputs"
    return "safe", ""


def _tensors(result: object) -> dict[str, torch.Tensor]:
    """Return copies of the tensors of a result."""
    return {place: part.clone() for place, part in outputs.parts(result).items() if isinstance(part, torch.Tensor)}


def apart(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, bool]:
    """Return the largest absolute difference (NaN where there is one), and whether all elements are close, as in allclose."""
    if not expected.numel():
        return 0.0, True
    is_number = expected.dtype.is_floating_point or expected.dtype.is_complex
    wide = torch.promote_types(expected.dtype, torch.float32) if is_number else torch.float64
    one, other = found.to(wide), expected.to(wide)
    close = torch.isclose(one, other, RTOL, ATOL) if is_number else found == expected
    return (one - other).abs().masked_fill(found == expected, 0).max().item(), bool(close.all())  # infinities may be equal


# What a worker answers


def _answer_hot_spots(worker: Worker) -> dict[str, Any]:
    """Return the profile of some calls of the prepared case with stacks and shapes, of its stages, and the machine's floors."""
    call, device = worker.current().call, worker.tree.spec.device
    found = profile_call(call, device, worker.tree.spec.path)
    stages = {name: trace(stage, device) for name, stage in call.workload.stages.items()}
    if device == "cpu":
        taken = {name: _profiled(stage, device) for name, stage in call.workload.stages.items()}
        stages = {name: _with_operators(activity, taken[name]) for name, activity in stages.items()}
    return {
        "baseline": found.model_dump(mode="json"),
        "floors": floors(device).model_dump(mode="json"),
        "stages": {name: activity.model_dump(mode="json") for name, activity in stages.items()},
    }


def _answer_result(worker: Worker, file: str) -> dict[str, Any]:
    """Write the result of the prepared case to a file."""
    return {"parts": write_result(worker.current().call, file)}


def _answer_same_result(worker: Worker, file: str, written: dict[str, str]) -> dict[str, Any]:
    """Compare the result of the prepared case with one that another process wrote."""
    return compare_result(worker.current().call, file, written).model_dump(mode="json")


def _answer_capture(worker: Worker, stage: str) -> dict[str, Any]:
    """Try a stage of the prepared case, or all of it, in a CUDA graph. End this worker afterwards."""
    call = worker.current().call
    verdict, why = capture(call.workload.stages.get(stage, call))
    return {"verdict": verdict, "why": why}


OPERATIONS = {
    "hot_spots": _answer_hot_spots,
    "result": _answer_result,
    "same_result": _answer_same_result,
    "capture": _answer_capture,
}
"""Requests of a session of experiments (`ratchet.tools`)."""
