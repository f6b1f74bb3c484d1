"""Looking at a prepared case for an experiment, on the CPU: profile, results on both sides, and our pipeline."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ratchet.core.bench.child.calls import TimedCall
from ratchet.core.bench.child.outputs import is_on_host
from ratchet.core.workload import Workload
from ratchet.lab.child.experiment import _copies, _of_device, compare_result, floors, profile_call, write_result
from ratchet.lab.records.experiment import LISTED, PROFILED_CALLS, WARM_UPS, HotSpot

pytestmark = pytest.mark.no_cover

X = torch.linspace(0, 1, 1000).reshape(10, 100)
NAN = torch.where(X > 0.5, math.nan, X)


def test_a_profile_knows_lines_shapes_and_copies() -> None:
    """What each operator took in the profiled calls is summed up, longest first."""
    calls = 0

    def call() -> torch.Tensor:
        nonlocal calls
        calls += 1
        return (X @ X.T).clone()

    found = profile_call(call, "cpu", Path(__file__).parents[2])
    assert calls >= WARM_UPS + PROFILED_CALLS
    assert found.by_cuda == ()
    spots = {spot.name: spot for spot in found.by_cpu}
    product = spots["aten::mm"]
    assert (product.count, product.shapes) == (PROFILED_CALLS, "[10, 100], [100, 10]")
    assert product.where.startswith("tests/unit/test_experiment_child.py:")
    assert product.where.endswith(" call")
    times = [spot.cpu_us for spot in found.by_cpu]
    assert times == sorted(times, reverse=True)
    assert len(times) <= LISTED
    assert [row.count for row in found.copies if row.name == "aten::copy_"] == [PROFILED_CALLS]
    assert not any(".py(" in spot.name for spot in found.by_cpu)
    assert found.activity.launches == 3 * found.activity.calls  # numpy_T, matmul and clone, and not what these call


def test_copies_and_occupancy_are_those_of_the_trace() -> None:
    """Bytes are summed up by name, occupancy is weighted by the time of the kernels; it is not known where no kernel ran."""

    class Taken:
        def __init__(self, *events: dict[str, Any]) -> None:
            self.events = events

        def export_chrome_trace(self, path: str) -> None:
            Path(path).write_text(json.dumps({"traceEvents": self.events}), encoding="utf-8")

    copy = {"name": "Memcpy HtoD (Pinned -> Device)", "dur": 4, "args": {"bytes": 100}}
    long, short = ({"name": "k", "dur": dur, "args": {"est. achieved occupancy %": full}} for dur, full in ((30, 100), (10, 20)))
    assert _of_device(Taken(copy, copy, long, short)) == ({copy["name"]: 200}, 0.8)
    assert _of_device(Taken({"name": "no arguments", "dur": 1}))[1] is None


def test_copies_are_ranked_by_one_kind_of_time() -> None:
    """Where a GPU copies, the time that the host spends in the call is no time of a copy."""
    call = HotSpot(name="cudaMemcpyAsync", count=2, cuda_us=0, cpu_us=900)
    there = HotSpot(name="Memcpy HtoD (Pageable -> Device)", count=2, cuda_us=300, cpu_us=0)
    assert [(row.name, row.us) for row in _copies([call, there], {there.name: 8})] == [(there.name, 300)]
    assert [row.us for row in _copies([call], {})] == [900]


def test_floors_of_a_cpu_are_those_of_its_operators() -> None:
    """There is no bus to measure."""
    found = floors("cpu")
    assert found.launch_us > 0
    assert (found.h2d_bytes_per_s, found.d2h_bytes_per_s) == (None, None)


PAIRS: dict[str, tuple[Any, Any, tuple[bool, bool], str]] = {
    "the same": (X, X.clone(), (True, True), ""),
    "a rounding": (X * (1 + 1e-6), X, (False, True), ""),
    "too far": (X + 0.1, X, (False, False), "the output"),
    "not a number": (NAN, X, (False, False), "the output"),
    "not a number on both sides, in the same bits": (NAN, NAN.clone(), (True, False), "the output"),
    "another type": (X.double(), X, (False, False), "the output is float64 (10, 100), the reference's float32 (10, 100)"),
    "another place": ((X, X), X, (False, False), "only one side returns output [0]"),
    "a value": ([X, "a"], [X, "b"], (False, False), "output [1] is another value, the reference's Value(value='b')"),
    "a tree": ({"a": X, "b": [1, X]}, {"a": X, "b": [1, X]}, (True, True), ""),
    "empty": (X[:0], X[:0], (True, True), ""),
}


@pytest.mark.parametrize("name", PAIRS)
def test_results_are_compared_bit_for_bit_and_within_tolerance(name: str, tmp_path: Path) -> None:
    """One side writes, the other compares; what differs is named."""
    head, reference, (bitwise, close), note = PAIRS[name]
    file = tmp_path / "result"
    written = write_result(TimedCall(Workload(run=lambda: head)), str(file))
    found = compare_result(TimedCall(Workload(run=lambda: reference)), str(file), written)
    assert (found.bitwise, found.close, found.note) == (bitwise, close, note)
    if name == "too far":
        assert found.largest == pytest.approx(0.1, rel=1e-4)


def test_a_stage_of_the_host_is_known_by_its_result() -> None:
    """A result without arrays says nothing, so the stage keeps the clock of its case."""
    assert is_on_host({"a": X, "b": np.ones(3)})
    assert not is_on_host(None)
    assert not is_on_host([1, "text"])


def test_the_stages_of_the_pipeline_are_its_parts() -> None:
    """Called one after the other they are the whole call: the last stage alone gives the result of all."""
    path = Path(__file__).parents[2] / "bench" / "pipeline.py"
    spec = importlib.util.spec_from_file_location("pipeline_of_this_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(7)
    workload = module.pipeline(device=torch.device("cpu"), height=36, width=64, side=64)
    assert list(workload.stages) == ["prepare", "upload", "preprocess", "infer", "postprocess", "download"]
    results = [stage() for stage in workload.stages.values()]
    assert results[-1].shape == (4, 6)
    assert torch.equal(results[-1], workload.run())
