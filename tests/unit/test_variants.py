"""Studies and sweeps without processes: their texts, their tables, and the values of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from ratchet.cli.variants import _over
from ratchet.commands.variants import swept_case
from ratchet.errors import UnfitError, UsageError
from ratchet.measure.child.loader import swept
from ratchet.measure.child.registry import Case
from ratchet.measure.tree_spec import Sweep, TreeSpec, child_command
from ratchet.records.run import CaseRun, Config
from ratchet.report.variants import averages, insights, study_lines, sweep_csv, sweep_lines
from tests import examples, variants_examples


def test_a_study_as_text(golden: Callable[[str, str], None]) -> None:
    """Each config and variant has its time, the bytes and FLOPs that the work needs, both utilisations, and what binds it."""
    golden("study.txt", "\n".join(study_lines(variants_examples.study())) + "\n")


def test_a_study_without_roofs() -> None:
    """Where no peak is known, no utilisation is made up, and the bound is by a rule of thumb."""
    bare = variants_examples.study(roofs=(), environment=examples.CPU_ENVIRONMENT)
    text = "\n".join(study_lines(bare))
    assert "Peak Memory Bandwidth: unknown" in text
    assert "Bandwidth utilization: unknown (no peak is known)" in text
    assert "⚠ MEMORY BOUND (AI=0.75 < 10)" in text


def test_what_computes_is_bound_by_that() -> None:
    """A case beyond the point where the roofs meet is bound by compute."""
    record = variants_examples.study()
    (case, *_) = record.cases
    assert case.workload
    heavy = case.model_copy(update={"workload": case.workload.model_copy(update={"flops": 100 * (case.workload.bytes or 0)})})
    text = "\n".join(study_lines(record.model_copy(update={"cases": (heavy,)})))
    assert "COMPUTE BOUND (AI=100.00 >= 13.9)" in text
    assert "Optimization focus: increase arithmetic intensity" in text


def test_the_average_is_geometric() -> None:
    """Twice as fast and half as fast are equally fast on average."""
    pair = [
        variants_examples.case(f"a/{name}", variants_examples.own(1.0, "ours"), variants_examples.other(speed, speed, "torch"))
        for name, speed in (("x", 2.0), ("y", 0.5))
    ]
    (average,) = averages(variants_examples.study(cases=tuple(pair)))
    assert average.mean == pytest.approx(1.0)
    assert (average.lowest, average.highest) == (pytest.approx(0.5), pytest.approx(2.0))
    assert any("1.00× as fast as torch on average" in line for line in insights(variants_examples.study(cases=tuple(pair))))


def test_a_sweep_as_text_and_as_table(golden: Callable[[str, str], None]) -> None:
    """A row for each value with the rates of every variant; one that could not be timed leaves its place empty, and says why."""
    record = variants_examples.sweep()
    golden("sweep.txt", "\n".join(sweep_lines(record)) + "\n")
    golden("sweep.csv", sweep_csv(record))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n=2**10..2**13", (1024, 2048, 4096, 8192)),
        ("n=3**1..3**3", (3, 9, 27)),
        ("n=100..500", (100, 200, 400)),
        ("n=128..512:128", (128, 256, 384, 512)),
        ("n=7,2**3,7", (7, 8)),
        ("n=5..5", (5,)),
    ],
)
def test_values_of_a_sweep(text: str, values: tuple[int, ...]) -> None:
    """Powers, doublings, steps and lists."""
    assert _over(text) == ("n", values)


@pytest.mark.parametrize("text", ["", "n", "n=", "2=3", "n=a..b", "n=9..3", "n=0..1:1:1", "n=1..9999:1", "n=2**999", "n=1.5"])
def test_values_that_cannot_be(text: str) -> None:
    """A sentence says how to write them, or how many may be."""
    with pytest.raises(click.BadParameter):
        _over(text)


CASES = [
    Case("norm/small", "norm", "small", "norm.py", {"rows": 4, "columns": 8}),
    Case("norm/large", "norm", "large", "norm.py", {"rows": 9, "columns": 8}),
    Case("copy/x", "copy", "x", "copy.py", {"mib": 1}),
]


def test_the_cases_of_a_sweep() -> None:
    """One for each value; the other parameters are those of the case."""
    made = swept(CASES, Sweep("norm/large", "columns", (16, 32)))
    assert [case.name for case in made] == ["norm/columns_16", "norm/columns_32"]
    assert [case.parameters for case in made] == [{"rows": 9, "columns": 16}, {"rows": 9, "columns": 32}]


RUNS = [
    CaseRun(name=case.name, benchmark=case.benchmark, config=Config(name=case.config, parameters=case.parameters))
    for case in CASES
]


def test_a_benchmark_with_one_config_can_be_swept() -> None:
    """It needs no config to be named; one with several does, and the parameter must be there."""
    assert swept_case(RUNS[2:], Sweep("copy", "mib", (1,))).name == "copy/x"
    with pytest.raises(UsageError, match=r"norm has 2 configs, and a sweep needs one .* Name one, such as norm/small."):
        swept_case(RUNS[:2], Sweep("norm", "rows", (1,)))
    with pytest.raises(UsageError, match=r"norm/small has no parameter n. Its parameters: rows, columns."):
        swept_case(RUNS[:1], Sweep("norm/small", "n", (1,)))
    with pytest.raises(UnfitError, match=r"copy/x cannot be measured: needs nvcc"):
        swept_case([RUNS[2].model_copy(update={"skipped": "needs nvcc"})], Sweep("copy", "mib", (1,)))


def test_a_tree_keeps_its_variant_and_sweep(tmp_path: Any) -> None:
    """Both reach the child program as they were."""
    import json
    from dataclasses import replace

    from ratchet.config import Settings

    plain = TreeSpec.of(Settings(order_seed=1), tmp_path, checkout=tmp_path, device="cpu", gpu_uuid=None)
    for tree in (plain, replace(plain, variant="torch", sweep=Sweep("norm/small", "rows", (1, 2)))):
        told = json.loads(child_command("a", tree=tree)[-1])["tree"]
        assert TreeSpec.read(told) == tree
