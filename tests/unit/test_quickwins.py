"""Quick wins without processes: whether a claim holds, the table, and the claims of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.measure.child.registry import discover
from ratchet.records.files import load
from ratchet.records.variants import Claims
from ratchet.report.variants import factor, holding, quickwins_lines, quickwins_markdown, rows_of
from tests import examples, variants_examples
from tests.variants_examples import claim

torch = pytest.importorskip("torch")

BENCH = Path(__file__).parents[2] / "bench"
QUICKWINS = BENCH / "quickwins"
NOT_ON_CPU = {"pinned", "vector_access", "shared_prefetch", "launch_bounds", "graph_kernels", "graph_model"}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (2.1, 2.3, "holds"),
        (1.8, 1.95, "holds"),  # 2 is rounded
        (5.9, 9.0, "holds"),
        (1.2, 1.5, "less"),
        (7.0, 8.0, "more"),
        (0.95, 1.08, "no gain"),
        (0.9, 2.5, "undecided"),
        (0.766, 1.21, "undecided"),
        (0.7, 0.9, "slower"),
    ],
)
def test_a_claim_holds_where_the_interval_meets_it(low: float, high: float, said: str) -> None:
    """A claim of 2–6× holds where the interval meets it, give or take 5 %; else the answer says on which side it is."""
    assert holding(claim("pinned", "Pinned", "2–6×", 2, 6), (low, high)) == said


def test_a_gain_on_the_way_is_not_the_claimed_factor() -> None:
    """13× is not met at 1.74×, although a pipeline as a whole is claimed to gain 1.08×."""
    claims = {one.case: one for one in load(QUICKWINS / "claims.json", Claims).claims}
    assert [holding(claims[name], (1.6, 1.9)) for name in ("preprocess", "postprocess")] == ["less", "less"]


def test_a_claim_without_a_figure() -> None:
    """What is claimed to be faster, without a figure, is faster, brings nothing, or is slower."""
    bare = claim("loader", "Loader", "no figure")
    intervals = ((1.1, 1.2), (0.99, 1.01), (0.9, 1.3), (0.8, 0.9))
    assert [holding(bare, interval) for interval in intervals] == ["faster", "no gain", "undecided", "slower"]
    assert holding(bare, None) == "not measured"


def test_the_table(golden: Callable[[str, str], None]) -> None:
    """The rows stand in the order of the claims, each with what the claim says and why it does not hold."""
    record = variants_examples.quickwins()
    golden("quickwins.txt", "\n".join(quickwins_lines(record)) + "\n")
    golden("quickwins.md", quickwins_markdown(record))


def test_a_cpu_has_reasons_of_its_own() -> None:
    """The reasons for a GPU are not given for a CPU."""
    record = variants_examples.quickwins().model_copy(update={"environment": examples.CPU_ENVIRONMENT})
    answers = [row.answer for row in rows_of(record)]
    assert "faster, more than claimed" in answers
    assert not any("launch costs" in answer for answer in answers)


def test_a_factor_has_three_digits() -> None:
    assert [factor(value) for value in (1.1, 31.24, 195.0, 1999.6)] == ["1.10×", "31.2×", "195×", "2000×"]


def test_every_quick_win_has_a_claim() -> None:
    """Each case of bench/quickwins is claimed by exactly one entry, each entry has a case, and steps stand in order."""
    claims = load(QUICKWINS / "claims.json", Claims).claims
    cases = discover(BENCH.parent, "bench/quickwins", "cuda").cases
    for case in cases:
        assert [one.title for one in claims if one.case in (case.name, case.benchmark)], case.name
        assert case.variants == ("improved", "naive")
    for one in claims:
        assert any(one.case in (case.name, case.benchmark) for case in cases), one.case
    assert [one.step for one in claims] == sorted(one.step for one in claims)


@pytest.mark.slow
@pytest.mark.no_cover
def test_quick_wins_are_no_cases_of_a_check() -> None:
    """`ratchet check` of this repository finds none of them: they lie in a folder of their own."""
    program = (
        "import sys, pathlib; from ratchet.measure.child.registry import discover; "
        "print(*(case.benchmark for case in discover(pathlib.Path(sys.argv[1]), 'bench', 'cuda').cases))"
    )
    words = [sys.executable, "-c", program, str(BENCH.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(BENCH.parent)})
    assert set(done.stdout.split()) == {"attention", "copy", "matmul", "normalize", "pipeline"}


@pytest.mark.slow
@pytest.mark.no_cover
def test_both_variants_agree_with_the_reference_on_a_cpu() -> None:
    """Every quick win that a CPU can run computes, in both variants, what its float64 reference computes."""
    from ratchet.measure.child.calls import TimedCall, seed_all
    from ratchet.measure.child.correctness import check

    found = discover(BENCH.parent, "bench/quickwins", "cpu")
    assert not found.broken
    assert {case.benchmark for case in found.cases if case.skipped} == NOT_ON_CPU
    for case in found.cases:
        for variant in case.variants if not case.skipped else ():
            seed_all(7)
            made = found.benchmarks[case.benchmark](device=torch.device("cpu"), **case.parameters, variant=variant)
            assert check(TimedCall(made)).error < 1e-4, f"{case.name} {variant}"
