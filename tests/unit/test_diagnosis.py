"""What a profile shows, and what differs between two."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.records.profile import Activity, Finding, KernelProfile, Profile
from ratchet.core.records.run import Performance
from ratchet.explain.diagnosis import HIDES, diagnose, occupancy, throughput, traced
from ratchet.explain.diagnosis.rule import ADVICE_WHEN_FASTER, Cause, explained_share, points, whole
from ratchet.explain.metrics import (
    ATOMICS,
    LOAD_SECTORS,
    LOCAL_SECTORS,
    SM_ACTIVE,
    SM_ELAPSED,
    STORE_SECTORS,
    THREADS_PER_INSTRUCTION,
)

pytestmark = pytest.mark.no_cover

PLANTED = sorted((Path(__file__).parents[1] / "data" / "planted").glob("*.json"))


def planted(path: Path) -> tuple[Profile, Profile, str]:
    """The good side, the bad side and the key of the finding that names the cause."""
    given = json.loads(path.read_text(encoding="utf-8"))
    return Profile.model_validate(given["good"]), Profile.model_validate(given["bad"]), given["named_by"]


def kernel(**figures: Any) -> KernelProfile:
    return KernelProfile(**{"name": "softmax<4>(float *)", "function": "softmax", "index": 0, "duration_s": 1e-4} | figures)


def profile(*kernels: KernelProfile, activity: Activity | None = None) -> Profile:
    return Profile(tool="ncu", kernels=kernels, activity=activity)


def trace(**figures: Any) -> Profile:
    return Profile(tool="torch", activity=Activity(**{"calls": 10, "wall_s": 1e-3} | figures))


def keys(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.key for finding in findings]


@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_top_finding_names_the_planted_cause(path: Path) -> None:
    """Of a recorded pair it is the cause that was planted, held with confidence; removed, nobody is told to change anything."""
    good, bad, key = planted(path)
    top = diagnose(bad, good)[0]
    assert (top.key, top.confidence) == (key, "high")
    assert 1 < top.weight <= 2
    removed = diagnose(good, bad)[0]
    assert (removed.key, removed.advice) == (key, ADVICE_WHEN_FASTER)


@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_nothing_changed_between_a_profile_and_itself(path: Path) -> None:
    """The same profile on both sides gives only what stands in it."""
    for side in planted(path)[:2]:
        assert all(finding.weight < 1 for finding in diagnose(side, side))
        assert keys(diagnose(side, side)) == keys(diagnose(side))


@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_a_figure_that_is_missing_is_no_finding(path: Path) -> None:
    """Without any one of its figures, on either side or both, a recorded pair still gives sentences, and none about nothing."""
    good, bad, _ = planted(path)
    fields = [name for name, field in KernelProfile.model_fields.items() if field.default is None]

    def without(side: Profile, name: str) -> Profile:
        return side.model_copy(update={"kernels": tuple(each.model_copy(update={name: None}) for each in side.kernels)})

    for name in fields:
        for head, reference in (
            (without(bad, name), good),
            (bad, without(good, name)),
            (without(bad, name), without(good, name)),
        ):
            assert not any("None" in finding.what for finding in diagnose(head, reference))


def test_nothing_to_say() -> None:
    """Kernels without figures, and profiles without kernels, give an empty tuple."""
    bare = KernelProfile(name="k", function="k", index=0)
    for head in (profile(), profile(bare)):
        assert diagnose(head) == ()
        assert diagnose(head, head) == ()
        assert diagnose(head, profile()) == ()
        assert diagnose(profile(), head) == ()


def test_no_share_of_the_waves_is_below_nothing() -> None:
    """A wave that is a little more than full, as rounded counts are, leaves none of its slots empty."""
    whole, broken = (profile(kernel(waves=waves, duration_s=us * 1e-6)) for waves, us in ((1.004, 50), (1.1, 100)))
    assert [one.what for one in diagnose(broken, whole, 2.0) if one.key == "tail"] == [
        "Waves of blocks 1.00 → 1.10: 0 % → 45 % of their block slots stay empty."
    ]


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ({"coalesced_percent": 79.0, "memory_percent": 70.0}, "coalescing"),
        ({"occupancy_percent": 59.0, "sm_percent": 60.0, "memory_percent": 20.0}, "occupancy"),
        ({"l2_hit_percent": 79.0, "dram_percent": 60.0}, "L2 hits"),
        ({"l2_hit_percent": 79.0, "dram_percent": 20.0}, "L2 hits"),
        ({"sm_percent": 49.0, "memory_percent": 70.0}, "SM throughput"),
        ({"sm_percent": 70.0, "memory_percent": 49.0}, "memory throughput"),
        ({"metrics": {SM_ACTIVE: 59.0, SM_ELAPSED: 100.0}}, "SM utilisation"),
        ({"stalls": {"lg_throttle": 30.0, "long_scoreboard": 20.0}}, "memory throttle"),
        ({"sm_percent": 49.0, "memory_percent": 49.0}, "throughput"),
        ({"spill_bytes": 2e6, "dram_read_bytes": 1e6, "dram_write_bytes": 1e6}, "spills"),
        ({"bank_conflicts": 50.0, "shared_wavefronts": 100.0, "memory_percent": 80.0}, "bank conflicts"),
        ({"waves": 1.1, "sm_percent": 60.0}, "tail"),
        ({"waves": 0.2, "grid": (20, 1, 1)}, "small grid"),
        ({"sm_percent": 30.0, "memory_percent": 55.0, "stalls": {"long_scoreboard": 30.0}}, "bytes in flight"),
        ({"flops": {"fp64": 5e8, "fp32": 5e8}}, "precision"),
        ({"metrics": {THREADS_PER_INSTRUCTION: 12.0}, "sm_percent": 90.0}, "divergence"),
        (
            {"flops": {"fp32": 1e9}, "dram_read_bytes": 1e6, "dram_write_bytes": 1e6, "sm_percent": 80.0}
            | {"shared_wavefronts": 1e6, "instructions": 1e7},
            "tensor cores",
        ),
        ({"metrics": {ATOMICS[0]: 1e5}, "sm_percent": 3.0, "memory_percent": 3.0}, "atomics"),
        ({"duration_s": 3e-6}, "launch-bound"),
    ],
)
def test_what_stands_out_on_one_side(figures: dict[str, Any], key: str) -> None:
    """Each threshold of the table has its finding, with the reasons and something to try, below everything that changed."""
    found = {finding.key: finding for finding in diagnose(profile(kernel(**figures)))}
    assert key in found
    assert found[key].weight < 1
    assert found[key].why
    assert found[key].advice


@pytest.mark.parametrize(
    "figures",
    [
        {"coalesced_percent": 80.0, "memory_percent": 90.0, "sm_percent": 60.0},
        {"occupancy_percent": 30.0, "sm_percent": 85.0, "memory_percent": 60.0},
        {"l2_hit_percent": 80.0, "dram_percent": 90.0},
        {"sm_percent": 50.0, "memory_percent": 50.0},
        {"metrics": {SM_ACTIVE: 60.0, SM_ELAPSED: 100.0}},
        {"spill_bytes": 1e3, "dram_read_bytes": 1e6, "dram_write_bytes": 1e6},
        {"bank_conflicts": 5.0, "shared_wavefronts": 100.0},
        {"sm_percent": 55.0, "memory_percent": 55.0, "stalls": {"long_scoreboard": 3.0, "wait": 2.0, "math_pipe_throttle": 2.0}},
        {"waves": 1.9},
        {"waves": 20.1},
        {"waves": 1.0},
        {"bank_conflicts": 0.0, "shared_wavefronts": 0.0},
        {"duration_s": 6e-6},
    ],
)
def test_what_is_as_it_should_be(figures: dict[str, Any]) -> None:
    """On the right side of its threshold, or where it costs nothing, a figure is no finding."""
    assert diagnose(profile(kernel(**figures))) == ()


def test_spills_say_what_they_did() -> None:
    """Registers, spills and occupancy that changed together are one sentence, and occupancy is not said again."""
    reference = kernel(registers=128, spill_bytes=0.0, occupancy_percent=50.0, occupancy_limit_percent=50.0, dram_read_bytes=1e6,
                       dram_write_bytes=0.0)  # fmt: skip
    head = reference.model_copy(
        update={
            "registers": 255,
            "spill_bytes": 1.2e6,
            "occupancy_percent": 25.0,
            "occupancy_limit_percent": 25.0,
            "duration_s": 2e-4,
        }
    )
    found = [finding for finding in diagnose(profile(head), profile(reference)) if finding.weight > 1]
    assert keys(tuple(found)) == ["spills"]
    assert found[0].what == "Spills 0 B → 1.14 MiB, with registers 128 → 255 per thread and occupancy 50 % → 25 %."


def test_occupancy_says_what_limits_it() -> None:
    """The limiter of the side with fewer warps is named, with its figure on both sides."""
    reference = kernel(occupancy_percent=98.0, occupancy_limit_percent=100.0, occupancy_limiter="warps", registers=32)
    head = kernel(
        occupancy_percent=48.0, occupancy_limit_percent=50.0, occupancy_limiter="registers", registers=64, duration_s=2e-4
    )
    top = diagnose(profile(head), profile(reference))[0]
    assert top.what == "Occupancy 98 % → 48 %; the launch allows 100 % → 50 %, limited by registers (32 → 64 per thread)."


def test_smaller_steps_are_named_before_their_instructions() -> None:
    """The same products by the same blocks, with less shared memory and more instructions, are a smaller inner tile."""
    reference = kernel(instructions=25.1e6, shared_bytes=58368, grid=(2048, 1, 1), flops={"tensor_bf16": 18e9}, sm_percent=70.0,
                       memory_percent=85.0)  # fmt: skip
    head = reference.model_copy(update={"instructions": 31.7e6, "shared_bytes": 25600, "duration_s": 1.2e-4})
    found = [finding for finding in diagnose(profile(head), profile(reference)) if finding.weight > 1]
    assert keys(tuple(found)) == ["steps"]
    assert found[0].what == (
        "Each block holds 57.0 KiB → 25.0 KiB in shared memory for the same products: instructions 25.1 million → 31.7 million."
    )
    others = head.model_copy(update={"grid": (4096, 1, 1)})
    assert keys(diagnose(profile(others), profile(reference)))[0] == "instructions"


@pytest.mark.parametrize(("before", "after"), [((50.0, 8.0), (100.0, 4.0)), ((100.0, 4.0), (100.0, 16.0))])
def test_accesses_that_are_no_worse_explain_no_slowdown(before: tuple[float, float], after: tuple[float, float]) -> None:
    """Neither what costs less than before, nor sixteen sectors a request that are all used, is why the head is slower."""
    reference, head = (
        kernel(coalesced_percent=percent, load_sectors_per_request=sectors, duration_s=seconds)
        for (percent, sectors), seconds in ((before, 1e-4), (after, 2e-4))
    )
    assert keys(diagnose(profile(head), profile(reference))) == ["slower kernels"]


def test_l2_that_holds_less_is_named_before_its_bytes() -> None:
    """More device memory with fewer hits and the same accesses is a finding about L2, once."""
    same = {"metrics": {LOAD_SECTORS: 1e6, STORE_SECTORS: 1e6}, "dram_write_bytes": 0.0}
    reference = kernel(l2_hit_percent=90.0, dram_read_bytes=1e7, **same)
    head = kernel(l2_hit_percent=60.0, dram_read_bytes=4e7, duration_s=3e-4, **same)
    assert keys(diagnose(profile(head), profile(reference))) == ["L2 hits"]


def test_the_larger_part_of_the_change_comes_first() -> None:
    """Of two kernels that got slower for different reasons, the one that costs more is named first."""
    small = kernel(function="small", coalesced_percent=100.0, load_sectors_per_request=4.0)
    large = kernel(function="large", metrics={THREADS_PER_INSTRUCTION: 32.0})
    slow_small = small.model_copy(update={"coalesced_percent": 25.0, "load_sectors_per_request": 16.0, "duration_s": 1.5e-4})
    slow_large = large.model_copy(update={"metrics": {THREADS_PER_INSTRUCTION: 8.0}, "duration_s": 4e-4})
    found = diagnose(profile(slow_small, slow_large), profile(small, large))
    changed = [(finding.key, finding.kernel) for finding in found if finding.weight > 1]
    assert changed == [("divergence", "large"), ("coalescing", "small")]


def test_launches_are_named() -> None:
    """New, replaced and repeated kernels are said by name, count and time."""
    one = [kernel(function="fused")]
    two = [kernel(function="scale"), kernel(function="relu"), kernel(function="relu")]
    assert "In each call, the head replaced fused (100.0 µs) by relu ×2 (200.0 µs), scale (100.0 µs)." in [
        each.what for each in diagnose(profile(*two), profile(*one))
    ]
    fewer = diagnose(profile(*two[:2]), profile(*two))
    assert fewer[0].what == "Each call runs relu 2 → 1 times (100.0 µs less)."
    many = diagnose(profile(*[kernel(function="relu")] * 12), profile(*one))
    assert many[0].what == "Launches in a call 1 → 12: the head replaced fused (100.0 µs) by relu ×12 (1.200 ms)."


@pytest.mark.parametrize("kernels", [(), (kernel(function="add"),)], ids=["traced", "with counters"])
def test_what_only_the_trace_sees_of_a_call_is_named(kernels: tuple[KernelProfile, ...]) -> None:
    """Copies have no counters, and a late kernel may have none: what was added is named before the noise of counted kernels."""
    before = {"kernels": {"void add<4>(float*)": 2e-3}, "ran": {"void add<4>(float*)": 20}}
    more = {"copies": {"Memcpy DtoD": 2e-4}, "copies_s": 2e-4, "ran": {**before["ran"], "Memcpy DtoD": 160}}
    late = {"kernels": {**before["kernels"], "void late<1>()": 2e-4}, "ran": {**before["ran"], "void late<1>()": 20}}
    slower = tuple(one.model_copy(update={"duration_s": 1.03e-4}) for one in kernels)
    reference = Profile(tool="ncu", kernels=kernels, activity=trace(**before).activity)
    for figures, named in ((before | more, "Memcpy DtoD ×16 (20.00 µs)"), (before | late, "late ×2 (20.00 µs)")):
        found = diagnose(Profile(tool="ncu", kernels=slower, activity=trace(**figures).activity), reference, 1.1)
        assert found[0].what.endswith(f" the head added {named}.")


@pytest.mark.parametrize(
    ("runs", "seconds", "ratio", "said"),
    [
        ((20, 320), (2e-5, 3.2e-4), 1.2, "Each call runs Memcpy DtoD 2 → 32 times (30.00 µs more)."),
        ((320, 20), (3.2e-4, 2e-5), 0.8, "Each call runs Memcpy DtoD 32 → 2 times (30.00 µs less)."),
        ((20, 10), (2e-5, 3.2e-4), 1.2, "Each call spends more in Memcpy DtoD (2.000 µs → 32.00 µs)."),
    ],
    ids=["more", "fewer", "fewer that take longer"],
)
def test_what_runs_more_often_in_a_call_is_counted(
    runs: tuple[int, int], seconds: tuple[float, float], ratio: float, said: str
) -> None:
    """A name of both sides says how often it runs in a call, where its number is what made the call slower or faster."""
    sides = [
        trace(kernels={"add": 1.5e-3}, copies={"Memcpy DtoD": spent}, ran={"add": 20, "Memcpy DtoD": count})
        for count, spent in zip(runs, seconds, strict=True)
    ]
    assert diagnose(sides[1], sides[0], ratio)[0].what == said


def timed(median_us: float, spread: float) -> Performance:
    """A call as the benchmark timed it, whose medians differ by a part of ``spread`` between processes."""
    ms = median_us / 1e3
    times = {"mean_time_ms": ms, "median_time_ms": ms, "min_time_ms": ms, "ci_95_low": ms, "ci_95_high": ms}
    nothing = {"throughput_gflops": 0.0, "bandwidth_gb_s": 0.0, "peak_memory_bytes": 0}
    return Performance(samples=80, workers=8, std_time_ms=spread * ms, **times, **nothing)


def on_cpu(us: float, least: float, most: float) -> Profile:
    """A trace of calls that spend this long in one operator, from the fastest to the slowest of them."""
    return trace(kernels={"aten::mul": 10 * us / 1e6}, per_call={"aten::mul": (least / 1e6, most / 1e6)})


@pytest.mark.parametrize(
    ("before", "after", "spread", "is_named"),
    [
        ((60, 58, 62), (120, 118, 122), 0.02, True),
        ((391, 380, 400), (533, 520, 540), 0.02, False),  # of a call of 64 µs
        ((60, 58, 62), (70, 61, 75), 0.02, False),
        ((60, 58, 62), (70, 69, 75), 0.10, False),
        ((10, 9, 11), (300, 290, 310), 0.02, False),
    ],
    ids=["slower", "longer than the call", "as calls differ", "as processes differ", "more than the call became slower"],
)
def test_noise_of_a_trace_is_no_cause(before: tuple[float, ...], after: tuple[float, ...], spread: float, is_named: bool) -> None:
    """On the CPU, an operator is named only where its times differ by more than calls and processes do, and fit those timed."""
    found = diagnose(on_cpu(*after), on_cpu(*before), 2.0, (timed(128, spread), timed(64, spread)))
    assert [each.key for each in found] == (["slower kernels"] if is_named else [])


def test_times_that_a_tracer_stretches_are_not_shown() -> None:
    """An operator that only the head runs is named even there, without its time."""
    head = trace(kernels={"aten::mul": 4e-3, "aten::copy_": 2e-3})
    found = diagnose(head, trace(kernels={"aten::mul": 4e-3}), 2.0, (timed(128, 0.02), timed(64, 0.02)))
    assert [each.what for each in found] == ["In each call, the head added aten::copy_."]


@pytest.mark.parametrize(
    ("before", "after", "ratio", "what"),
    [
        (10, 40, 1.7, ["Each call runs aten::mul 1 → 4 times."]),
        (40, 10, 0.6, ["Each call runs aten::mul 4 → 1 times."]),
        (10, 40, 0.6, []),
        (40, 40, 1.7, []),
    ],
)
def test_how_often_an_operator_runs_is_exact(before: int, after: int, ratio: float, what: list[str]) -> None:
    """Where a tracer stretches times beyond belief, the number of calls of an operator still counts, if it fits the change."""
    sides = [trace(kernels={"aten::mul": 4e-3}, cpu_s={"aten::mul": 4e-3}, ran={"aten::mul": count}) for count in (after, before)]
    found = diagnose(*sides, ratio, (timed(64 * ratio, 0.02), timed(64, 0.02)))
    assert [each.what for each in found] == what


def test_a_slow_moment_of_a_trace_hides_no_count() -> None:
    """Where the reference was traced in a slow moment, no time shows what became slower: the number of calls does."""
    ran = ((70, 9.8e-3), (50, 10.3e-3))
    sides = [trace(kernels={"aten::to": spent}, cpu_s={"aten::to": spent}, ran={"aten::to": count}) for count, spent in ran]
    found = diagnose(*sides, 1.13, (timed(614, 0.02), timed(541, 0.02)))
    assert [each.what for each in found] == ["Each call runs aten::to 5 → 7 times."]


def test_equal_launches_of_other_kernels() -> None:
    """As many launches of another kernel are a replacement."""
    found = diagnose(profile(kernel(function="b", duration_s=2e-4)), profile(kernel(function="a")))
    assert [(each.key, each.confidence) for each in found] == [("other kernels", "high")]


def test_many_short_launches_stand_out_alone() -> None:
    """Without a reference, a storm of short kernels is what comes first."""
    assert keys(diagnose(profile(*[kernel(duration_s=2e-6) for _ in range(20)])))[0] == "launches"


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ({"pageable_copies": 10, "copies_s": 5e-4}, "pageable copies"),
        ({"launches": 200, "kernels": {"k": 4e-4}}, "launches"),
        ({"allocation_s": 2e-4}, "allocation"),
        ({"gaps_s": 4e-4}, "gaps"),
    ],
)
def test_what_a_trace_shows(figures: dict[str, Any], key: str) -> None:
    """Each cost is found on one side, and is the reason where only the slower head has it."""
    head = trace(**figures)
    assert [(each.key, each.weight < 1) for each in diagnose(head)] == [(key, True)]
    top = diagnose(head, trace(launches=10, gaps_s=0.0, wall_s=5e-4))[0]
    assert top.key == key
    assert top.weight > 1


def test_copies_on_the_gpu_are_no_cost_of_pageable_memory() -> None:
    """A short copy from pageable memory beside a long one within the GPU costs its own time alone."""
    copies = {"Memcpy DtoD": 4e-4, "Memcpy HtoD": 1e-6}
    head = trace(pageable_copies=10, copies_s=sum(copies.values()), copies=copies, wall_s=5e-4)
    assert [each.weight < 0.01 for each in diagnose(head) if each.key == "pageable copies"] == [True]


@pytest.mark.parametrize("calls", [0, 10])
def test_an_empty_trace_shows_nothing(calls: int) -> None:
    """Neither no calls nor no time divide by zero."""
    empty = trace(calls=calls, wall_s=0.0)
    assert diagnose(empty) == ()
    assert diagnose(empty, empty) == ()
    assert diagnose(trace(), empty) == ()


def test_the_part_that_is_explained() -> None:
    """A cost that doubled explains half of a time that quadrupled, all of less, and nothing of the opposite."""
    assert explained_share(math.log(4), 2) == pytest.approx(0.5)
    assert explained_share(math.log(1.5), 2) == 1
    assert explained_share(-math.log(2), 2) is None
    assert explained_share(None, 2) == pytest.approx(math.log(2) / 2)
    assert explained_share(0.0, 0.5) == pytest.approx(math.log(2) / 2)


def test_keys_and_ranks_are_sound() -> None:
    """Ranks lie between 0 and 1, and what a cause hides exists."""
    causes = [cause for theme in (occupancy, throughput, traced) for cause in vars(theme).values() if isinstance(cause, Cause)]
    assert all(0 < cause.rank < 1 for cause in causes)
    assert {key for hidden in HIDES.values() for key in hidden} <= {cause.key for cause in causes}


def test_spills_from_sectors() -> None:
    """A report without a figure for spills is read by its local sectors."""
    head = kernel(metrics={LOCAL_SECTORS[0]: 1e6, LOCAL_SECTORS[1]: 1e6, LOAD_SECTORS: 1e5, STORE_SECTORS: 0.0})
    assert keys(diagnose(profile(head))) == ["spills"]


def test_figures_in_words() -> None:
    """Counts and percentages are written as people write them."""
    assert [whole(value) for value in (0, 65536, 999_499, 999_500, 16.5e6, 2.5e9)] == [
        "0", "65,536", "999,499", "1 million", "16.5 million", "2.5 billion",
    ]  # fmt: skip
    assert [points(value) for value in (0, 0.04, 3.14, 9.95, 99.9)] == ["0 %", "0.0 %", "3.1 %", "10 %", "100 %"]
