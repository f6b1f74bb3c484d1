"""Events of torch.profiler, summed up: made by hand, as a GPU gives them."""

from __future__ import annotations

from types import SimpleNamespace

from ratchet.common.call_trace import activity_of


def event(name: str, start_us: float, end_us: float, device: str = "DeviceType.CUDA", **more: object) -> SimpleNamespace:
    span = SimpleNamespace(start=start_us, end=end_us)
    return SimpleNamespace(name=name, time_range=span, device_type=device, self_cpu_time_total=end_us - start_us, **more)


def test_a_range_with_a_name_is_no_kernel() -> None:
    """torch shows a `record_function`, such as that of an optimizer's step, on the GPU too: around its kernels, and as long."""
    step = "Optimizer.step#AdamW.step"
    events = [
        event(step, 0, 50, "DeviceType.CPU", is_user_annotation=True),
        event("cudaLaunchKernel", 1, 3, "DeviceType.CPU", is_user_annotation=False),
        event("cudaLaunchKernel", 4, 6, "DeviceType.CPU", is_user_annotation=False),
        event(step, 10, 40, is_user_annotation=True),
        event("adam", 10, 20, is_user_annotation=False),
        event("adam", 30, 40, is_user_annotation=False),
    ]
    activity = activity_of(events, 1, "cuda")
    assert activity.kernels.keys() == activity.ran.keys() == {"adam"}
    assert (activity.ran["adam"], activity.launches) == (2, 2)
    assert activity.gaps_s is not None
    assert round(activity.gaps_s * 1e6) == 10


def test_copies_are_kept_by_kind() -> None:
    """Copies of memory are no kernels and no launches; how long each kind took and how often it ran is kept."""
    events = [
        event("cudaLaunchKernel", 1, 3, "DeviceType.CPU"),
        event("mul", 10, 20),
        event("Memcpy DtoD (Device -> Device)", 20, 22),
        event("Memcpy DtoD (Device -> Device)", 24, 27),
        event("Memcpy HtoD (Pageable -> Device)", 30, 34),
    ]
    activity = activity_of(events, 1, "cuda")
    assert {kind: round(seconds * 1e6) for kind, seconds in activity.copies.items()} == {"Memcpy DtoD": 5, "Memcpy HtoD": 4}
    assert activity.ran == {"mul": 1, "Memcpy DtoD": 2, "Memcpy HtoD": 1}
    assert (round(activity.copies_s * 1e6), activity.pageable_copies) == (9, 1)
    assert (activity.launches, set(activity.kernels)) == (1, {"mul"})
