"""Variants without processes: their texts and tables, whether a claim holds, the values of a parameter, and old names."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet.core.bench.child.loader import swept
from ratchet.core.bench.child.registry import discover
from ratchet.core.bench.messages import CaseListed
from ratchet.core.bench.tree_spec import Sweep
from ratchet.core.cli import main
from ratchet.core.errors import Exit, UnfitError, UsageError
from ratchet.core.records.files import load
from ratchet.core.records.run import CaseRun, Config, Failure, Side
from ratchet.lab.records.variants import Claim, Claims
from ratchet.lab.report.variants import against_claim, averages, factor, variants_csv, variants_lines
from ratchet.lab.variants import SHIPPED, swept_case, timed_variants
from ratchet.lab.variants_cli import _over
from tests import examples, variants_examples
from tests.variants_examples import claim

QUICKWINS = SHIPPED / "quickwins"
NOT_ON_CPU = {"pinned", "vector_access", "shared_prefetch", "launch_bounds", "graph_kernels", "graph_model"}


def test_variants_as_text(golden: Callable[[str, str], None]) -> None:
    """Each config and variant has its time, its rates, its share of the roof that is nearest, and what binds it."""
    golden("variants.txt", "\n".join(variants_lines(variants_examples.variants())) + "\n")


def test_many_sizes_as_text_and_as_table(golden: Callable[[str, str], None]) -> None:
    """A row for each value; a variant that could not be timed leaves its place empty, and a line says why."""
    record = variants_examples.sizes()
    golden("variants_sizes.txt", "\n".join(variants_lines(record)) + "\n")
    golden("variants_sizes.csv", variants_csv(record))


def test_quick_wins_as_text(golden: Callable[[str, str], None]) -> None:
    """The rows stand in the order of the claims, each with what the claim says and why it does not hold."""
    golden("variants_quickwins.txt", "\n".join(variants_lines(variants_examples.quickwins())) + "\n")


def test_without_roofs() -> None:
    """Where no peak is known, no share and no bound is made up."""
    bare = variants_examples.variants(roofs=(), environment=examples.CPU_ENVIRONMENT)
    row = next(line for line in variants_lines(bare) if line.startswith("rows_16k  ours"))
    assert row.endswith("2.78 TFLOP/s  3.71 TB/s        –  –")


def test_the_average_is_geometric() -> None:
    """Twice as fast and half as fast are equally fast on average."""
    pair = [
        variants_examples.case(f"a/{name}", variants_examples.own(1.0, "ours"), variants_examples.other(speed, speed, "torch"))
        for name, speed in (("x", 2.0), ("y", 0.5))
    ]
    assert averages(variants_examples.variants(cases=tuple(pair))) == [
        "ours is 1.00× as fast as torch on average (0.500× to 2.00×)."
    ]


@pytest.mark.parametrize("words", ["variants", "variants --quickwins --over n=1,2", "variants a --over n"])
def test_options_that_cannot_be(words: str) -> None:
    assert main(words.split()) == Exit.USAGE


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
def test_values_of_a_parameter(text: str, values: tuple[int, ...]) -> None:
    """Powers, doublings, steps and lists."""
    assert _over(text) == ("n", values)


@pytest.mark.parametrize("text", ["", "n", "n=", "2=3", "n=a..b", "n=9..3", "n=0..1:1:1", "n=1..9999:1", "n=2**999", "n=1.5"])
def test_values_that_cannot_be(text: str) -> None:
    """A sentence says how to write them, or how many may be."""
    with pytest.raises(click.BadParameter):
        _over(text)


CASES = [
    CaseListed("norm/small", "norm", "small", "norm.py", {"rows": 4, "columns": 8}),
    CaseListed("norm/large", "norm", "large", "norm.py", {"rows": 9, "columns": 8}),
    CaseListed("copy/x", "copy", "x", "copy.py", {"mib": 1}),
]


def test_a_case_for_each_value() -> None:
    """One for each value; the other parameters are those of the case."""
    made = swept(CASES, Sweep("norm/large", "columns", (16, 32)))
    assert [case.name for case in made] == ["norm/columns_16", "norm/columns_32"]
    assert [case.parameters for case in made] == [{"rows": 9, "columns": 16}, {"rows": 9, "columns": 32}]


RUNS = [
    CaseRun(name=case.name, benchmark=case.benchmark, config=Config(name=case.config, parameters=case.parameters))
    for case in CASES
]


def test_over_needs_one_case() -> None:
    """It needs no config to be named; one with several does, and the parameter must be there."""
    assert swept_case(RUNS[2:], "mib").name == "copy/x"
    with pytest.raises(UsageError, match=r"2 cases, and --over needs one .* Name one, such as norm/small."):
        swept_case(RUNS[:2], "rows")
    with pytest.raises(UsageError, match=r"norm/small has no parameter n. Its parameters: rows, columns."):
        swept_case(RUNS[:1], "n")
    with pytest.raises(UnfitError, match=r"copy/x cannot be measured: needs nvcc"):
        swept_case([RUNS[2].model_copy(update={"skipped": "needs nvcc"})], "mib")


@pytest.mark.parametrize(("side", "wrong"), [("head", "ours"), ("reference", "torch")])
def test_a_wrong_result_of_a_later_pair(side: Side, wrong: str) -> None:
    """Pairs have other inputs each, so a variant that is right in three and wrong in the fourth has no time, but a problem."""
    workers = {one: tuple(examples.worker(pair, 1.0) for pair in range(3)) for one in ("head", "reference")}
    failure = Failure(side=side, stage="check", message="wrong result: the result is off")
    workload = variants_examples.case("a/b").workload
    run = RUNS[2].model_copy(update={"workload": workload, "reference_workload": workload, **workers, "failures": (failure,)})
    found = timed_variants(RUNS[2], "ours", {"torch": run})
    assert found.problems["wrong result: the result is off"] == [wrong]
    assert next(one for one in found.variants if one.name == wrong).median_ms is None


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (2.0, 2.3, "reached"),
        (5.9, 9.0, "reached"),
        (7.0, 8.0, "reached, and more than claimed"),
        (1.9, 3.0, "faster; whether by the claimed 2.00× is undecided: measure with more --pairs"),
        (1.2, 1.5, "faster, but less than claimed"),
        (0.95, 1.08, "no difference shown within 8 %, so less than claimed"),
        (0.766, 1.21, "no difference shown within 31 %, so less than claimed"),
        (0.2, 1.9, "no difference shown within a factor of 5.00×, so less than claimed"),
        (0.9, 2.5, "undecided between no gain and the claimed 2.00×: measure with more --pairs"),
        (0.7, 0.9, "slower"),
    ],
)
def test_an_interval_beside_a_claim(low: float, high: float, said: str) -> None:
    """A claim of 2–6× is reached where the whole interval is; else the answer says where the interval lies."""
    assert against_claim(claim("pinned", "Pinned", "2–6×", 2, 6), (low, high)) == said


def test_a_gain_on_the_way_is_not_the_claimed_factor() -> None:
    """13× is not reached at 1.74×, although a pipeline as a whole is claimed to gain 1.08×."""
    claims = {one.case: one for one in load(QUICKWINS / "claims.json", Claims).claims}
    said = {against_claim(claims[name], (1.6, 1.9)) for name in ("preprocess", "postprocess")}
    assert said == {"faster, but less than claimed"}


@given(low=st.floats(0.01, 100), wider=st.floats(1, 10), least=st.floats(1.05, 50))
def test_no_answer_says_more_than_the_interval(low: float, wider: float, least: float) -> None:
    """Reached, faster, slower and no difference each hold for every value in the interval."""
    high = low * wider
    said = against_claim(claim("a", "A", "n×", least, 2 * least), (low, high))
    assert said.startswith("reached") == (low >= least)
    assert said.startswith(("reached", "faster")) == (low > 1)
    assert (said == "slower") == (high < 1)
    assert ("less than claimed" in said) == (1 <= high < least)
    assert ("undecided" in said) == (high >= least > low)


def test_a_claim_without_a_figure() -> None:
    """What is claimed to be faster, without a figure or up to one, is faster, not shown to differ, or slower."""
    bare, bound = claim("loader", "Loader", "no figure"), claim("graph", "Graph", "≤ 195×", None, 195)
    intervals = ((1.1, 1.2), (0.99, 1.01), (0.9, 1.3), (0.8, 0.9))
    assert [against_claim(bare, interval) for interval in intervals] == [
        "faster; the claim has no figure",
        "no difference shown within 2 %",
        "no difference shown within 30 %",
        "slower",
    ]
    assert against_claim(bound, (6.9, 10)) == "faster; the claim is a bound"
    assert against_claim(bound, (200, 210)) == "faster, more than claimed"


def test_reasons_that_nobody_measured_are_not_kept() -> None:
    """Reasons in files of earlier versions are read over; a misspelled field is still refused."""
    fields = {"case": "a", "title": "A", "step": "1", "text": "2×"}
    assert Claim.model_validate({**fields, "less": "because", "cpu": "because"}) == Claim(**fields)
    with pytest.raises(ValidationError):
        Claim.model_validate({**fields, "lesss": "because"})


def test_a_factor_has_three_digits() -> None:
    assert [factor(value) for value in (1.1, 31.24, 195.0, 1999.6)] == ["1.10×", "31.2×", "195×", "2000×"]


def test_every_quick_win_has_a_claim() -> None:
    """Each quick win that comes with ratchet is claimed by exactly one entry, each entry has a case, and steps stand in order."""
    pytest.importorskip("torch")
    claims = load(QUICKWINS / "claims.json", Claims).claims
    cases = discover(SHIPPED, "quickwins", "cuda").cases
    for case in cases:
        assert [one.title for one in claims if one.case in (case.name, case.benchmark)], case.name
        assert case.variants == ("improved", "naive")
    for one in claims:
        assert any(one.case in (case.name, case.benchmark) for case in cases), one.case
    assert [one.step for one in claims] == sorted(one.step for one in claims)


@pytest.mark.slow
@pytest.mark.no_cover
def test_both_variants_agree_with_the_reference_on_a_cpu() -> None:
    """Every quick win that a CPU can run computes, in both variants, what its float64 reference computes."""
    from ratchet.core.bench.child.calls import TimedCall, seed_all
    from ratchet.core.bench.child.correctness import check

    torch = pytest.importorskip("torch")
    found = discover(SHIPPED, "quickwins", "cpu")
    assert not found.broken
    assert {case.benchmark for case in found.cases if case.skipped} == NOT_ON_CPU
    for case in found.cases:
        for variant in case.variants if not case.skipped else ():
            seed_all(7)
            made = found.benchmarks[case.benchmark](device=torch.device("cpu"), **case.parameters, variant=variant)
            assert check(TimedCall(made)).error < 1e-4, f"{case.name} {variant}"
