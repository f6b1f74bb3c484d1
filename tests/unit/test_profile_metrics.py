"""Metrics by ncu's names → the record of a kernel; names → bare names; launches of two sides → pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.common.launch_pairs import matched
from ratchet.core.records.profile import KernelProfile, Profile, ProfilerRule
from ratchet.explain.metrics import NAMES, RawKernel, bare, kernel_profile, limiter

CYCLES = 499333.51515151514


def profile_of(**metrics: float) -> KernelProfile:
    """The record of a kernel with these metrics."""
    return kernel_profile(RawKernel(name="k", metrics=metrics), 0)


def test_a_report_without_metrics_gives_no_figures() -> None:
    """What a report does not have is None or absent, and never 0."""
    kernel = kernel_profile(RawKernel(name="k"), 3)
    kept = {"name", "function", "index", "peaks"}
    figures = {field: value for field, value in kernel if field not in kept}
    assert {str(value) for value in figures.values()} <= {"None", "{}", "()"}
    assert (kernel.index, kernel.peaks.dram_bytes_per_s, kernel.peaks.flops_per_s) == (3, None, {})


@pytest.mark.parametrize(("field", "name"), [(field, name) for field, names in NAMES.items() for name in names])
def test_every_name_gives_its_figure(field: str, name: str) -> None:
    """Each alternative name of a figure is enough by itself."""
    assert getattr(profile_of(**{name: 42.0}), field) == 42


def test_the_first_name_wins() -> None:
    """Where a report has a figure under several names, the first is taken."""
    first, second = NAMES["dram_percent"]
    assert profile_of(**{second: 1.0, first: 2.0}).dram_percent == 2.0


def test_the_limiter_allows_the_fewest_blocks() -> None:
    """Occupancy is limited by what allows the fewest blocks; at a draw by what an author can change first."""
    limits = {"registers": 8.0, "shared_mem": 3.0, "warps": 8.0, "blocks": 32.0}
    metrics = {f"launch__occupancy_limit_{name}": value for name, value in limits.items()}
    assert limiter(metrics) == "shared memory"
    assert limiter(metrics | {"launch__occupancy_limit_shared_mem": 8.0}) == "registers"
    assert limiter({}) is None


def test_half_precision_is_counted_without_moves_of_constants() -> None:
    """A fused half-precision instruction counts four operations, but none where it only puts a constant into a register."""
    base = "smsp__sass_thread_inst_executed_op_h{}_pred_on.sum.per_cycle_elapsed"
    metrics = {base.format("add"): 0.0, base.format("mul"): 0.0, base.format("fma"): 33.59921874042284}
    metrics["smsp__cycles_elapsed.avg"] = CYCLES
    flops = [
        kernel_profile(RawKernel(name="k", metrics=metrics, constant_moves=moves), 0).flops for moves in (0.0, 2.0**24, None)
    ]
    assert flops == [{"fp16": 2.0**26}, {"fp16": 0.0}, {}]


def test_vector_operations_need_all_their_counters() -> None:
    """A multiply-add is two operations, and a precision of which a counter is missing is left out."""
    base = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum"
    metrics = {base.format("add"): 1.0, base.format("mul"): 10.0, base.format("fma"): 100.0}
    assert profile_of(**metrics).flops == {"fp32": 211.0}
    del metrics[base.format("mul")]
    assert profile_of(**metrics).flops == {}


def test_tensor_work_is_counted_once() -> None:
    """Of a counter and its parts only one is taken: the counter where it is there, else its parts together."""
    part = "sm__ops_path_tensor_src_bf16_dst_fp32{}.sum"
    parts = {part.format("_sparsity_off"): 8.0, part.format("_sparsity_on"): 2.0}
    assert profile_of(**parts).flops == {"tensor_bf16": 10.0}
    by_instruction = {"sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum": 8.0}
    assert profile_of(**parts, **by_instruction, **{part.format(""): 10.0}).flops == {"tensor_bf16": 10.0}
    assert profile_of(**by_instruction).flops == {"tensor_bf16": 8.0}


def test_the_tensor_peak_is_the_dense_one() -> None:
    """On Hopper a counter for all work has the sparse peak; the peak of the report is that of its fastest dense instruction."""
    peaks = {
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained": 8192.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 0.0,
        "sm__cycles_elapsed.avg.per_second": 1e9,
    }
    for instruction, dense, sparse in (("hgmma", 4096.0, 8192.0), ("hmma", 2731.0, 4096.0)):
        base = f"sm__ops_path_tensor_op_{instruction}_src_bf16_dst_fp32_sparsity"
        peaks |= {f"{base}_off.sum": 0.0, f"{base}_off.sum.peak_sustained": dense}
        peaks |= {f"{base}_on.sum": 0.0, f"{base}_on.sum.peak_sustained": sparse}
    assert profile_of(**peaks).peaks.flops_per_s == {"tensor_bf16": 4096e9}


def test_spills_leave_out_local_arrays() -> None:
    """Local memory is a spill only as far as the report says that registers were spilled to it."""
    sectors = {f"l1tex__t_sectors_pipe_lsu_mem_local_op_{each}.sum": 50.0 for each in ("ld", "st")}
    accesses = {f"smsp__sass_inst_executed_op_local_{each}.sum": 10.0 for each in ("ld", "st")}
    assert profile_of(**sectors).spill_bytes == 3200
    assert profile_of(**sectors, **accesses, sass__inst_executed_register_spilling=5.0).spill_bytes == 800
    assert profile_of(**sectors, **accesses, sass__inst_executed_register_spilling=0.0).spill_bytes == 0


def test_shares_of_nothing_are_none() -> None:
    """A kernel without global accesses has no sectors per request and no coalescing, rather than bad ones."""
    counters = {f"l1tex__t_{each}_pipe_lsu_mem_global_op_ld.sum": 0.0 for each in ("sectors", "requests")}
    kernel = profile_of(**counters, memory_l2_theoretical_sectors_global=0.0, memory_l2_theoretical_sectors_global_ideal=0.0)
    assert (kernel.load_sectors_per_request, kernel.coalesced_percent) == (None, None)


def test_coalescing_from_the_bytes_of_a_sector() -> None:
    """Where a report has no addresses, the bytes used of each sector tell, weighted by the sectors of loads and stores."""
    counters = {f"l1tex__t_sectors_pipe_lsu_mem_global_op_{each}.sum": 100.0 for each in ("ld", "st")}
    counters["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"] = 4.0
    counters["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"] = 32.0
    assert profile_of(**counters).coalesced_percent == pytest.approx(56.25)


def test_stalls_are_waits_longest_first() -> None:
    """The cycle in which an instruction issues is no wait, and the longest wait comes first."""
    stalls = {"wait": 2.0, "selected": 1.0, "long_scoreboard": 44.0}
    metrics = {f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": value for name, value in stalls.items()}
    assert list(profile_of(**metrics).stalls.items()) == [("long_scoreboard", 44.0), ("wait", 2.0)]


def test_global_rules_come_first() -> None:
    """A rule about the whole kernel comes before one about a part, and the larger estimate before the smaller."""
    rules = tuple(
        ProfilerRule(name=name, title="", message="m", scope=scope, speedup_percent=gain)
        for name, scope, gain in (("a", "local", 90.0), ("b", "global", 10.0), ("c", None, None), ("d", "global", 20.0))
    )
    kernel = kernel_profile(RawKernel(name="k", rules=rules), 0)
    assert [rule.name for rule in kernel.rules] == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("matmul", "matmul"),
        ("scale(const float *, float *)", "scale"),
        ("void ns::softmax<float, (int)4>(float *, int)", "softmax"),
        ("void (anonymous namespace)::elementwise<at::op<(bool)1>>(int, T2)", "elementwise"),
        ("void at::native::vectorized<4, at::native::FillFunctor<float>, std::array<char *, 1ul>>(int, T2, T3)", "vectorized"),
        ("std::enable_if<(1 > 0), void>::type a::b::kernel<true>(int)", "kernel"),
        ("cutlass::Kernel2<cutlass_80_tensorop>", "Kernel2"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("<unnamed>", "<unnamed>"),
    ],
)
def test_bare_names(name: str, function: str) -> None:
    """A kernel's bare name has no type, namespace, template arguments and parameters."""
    assert bare(name) == function


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_has_a_bare_name(name: str) -> None:
    """No name, however strange, stops the reading."""
    assert isinstance(bare(name), str)
    if name.strip():
        assert bare(name)


def side(*functions: str) -> Profile:
    kernels = tuple(KernelProfile(name=f"{name}<{index}>", function=name, index=index) for index, name in enumerate(functions))
    return Profile(tool="ncu", kernels=kernels)


def test_launches_are_matched_by_name_and_order() -> None:
    """The second launch of a function is compared with the second one, and what only one side has stands alone."""
    pairs = matched(side("b", "a", "a", "new"), side("a", "gone", "a", "b", "a"))
    places = [(one and one.index, other and other.index) for one, other in pairs]
    assert places == [(0, 3), (1, 0), (2, 2), (3, None), (None, 1), (None, 4)]
    alone = side("a", "b")
    assert matched(alone, None) == [(kernel, None) for kernel in alone.kernels]
    assert matched(None, alone) == [(None, kernel) for kernel in alone.kernels]
    assert matched(None, None) == []
