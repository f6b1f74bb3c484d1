"""The time of a case's kernels alone, by torch.profiler: it stands beside the clocks' where the GPU waits for the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ratchet.core.workload import Device


def kernels_ms(call: Callable[[], object], before: Callable[[], object] | None, samples: int) -> tuple[float, ...]:
    """Return the time that kernels, copies and fills of one call took together, in milliseconds, once for each sample.

    The host's time and gaps on the GPU are not in it. The L2 cache is as warm as the call before has left it. A call on which the
    GPU did nothing gives an empty tuple.
    """
    taken = []
    for number in range(samples + 1):
        if before is not None:
            before()
        settle("cuda")
        ran = [one.time_range for one in events_of(call, "cuda", on_host=False) if "CPU" not in str(one.device_type)]
        if number:  # the first one sets the tracer up, and its events are late
            taken.append(sum(span.end - span.start for span in ran) * 1e-6 * 1e3)  # from µs
    return tuple(each for each in taken if each > 0)


def events_of(call: Callable[[], object], device: Device, *, on_host: bool = True) -> Iterable[Any]:
    """Return what torch.profiler sees while a call runs and until the device is done."""

    def body() -> None:
        call()
        settle(device)

    events: Iterable[Any] = profiled(body, device, on_host=on_host).events()
    return events


def profiled(body: Callable[[], object], device: Device, *, on_host: bool = True, detailed: bool = False) -> Any:
    """Run ``body`` under torch.profiler, ``detailed`` with stacks and shapes. Return the profiler."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile

    wanted = [*([ProfilerActivity.CPU] if on_host else []), *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle")  # there is one cycle
        # Without `verbose` stacks stay empty in releases that do not give frames as events: pytorch#100253.
        how = _ExperimentalConfig(verbose=detailed)
        with profile(activities=wanted, with_stack=detailed, record_shapes=detailed, experimental_config=how) as taken:
            body()
        return taken


def settle(device: Device) -> None:
    """Wait until the GPU has nothing left to do."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
