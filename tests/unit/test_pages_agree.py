"""Estimate, interval, gate and outcome never contradict each other: on the page, in the report, in a log."""

from __future__ import annotations

import html
import math
import random
import re

from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.judge.estimate import BOUND
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import Policy
from ratchet.core.records.verdict import CaseVerdict, Outcome, ReportRecord
from ratchet.core.report import words
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.page import render_page
from ratchet.core.report.terminal import plain_lines
from ratchet.github.comment import render_comment
from tests import examples
from tests.recorded_runs import page_of

CHANGE = re.compile(r"([+−]?[0-9.]+) % +\[([+−]?[0-9.]+), ([+−]?[0-9.]+)\]")
COUNTS = {Outcome.REGRESSED: "slower", Outcome.IMPROVED: "faster"}


def judged(change: float, noise: float, pairs: int, gate: float, improvement: float, seed: int) -> ReportRecord:
    """The verdict of a case whose pairs scatter by ``noise`` around a change."""
    draw = random.Random(seed)
    ratios = [math.exp(draw.gauss(math.log1p(change), noise)) for _ in range(pairs)]
    policy = Policy(regression=gate, improvement=improvement)
    return judge_run(examples.run_of(examples.compared(*ratios), policy=policy), Baseline())


def assert_reason_agrees(case: CaseVerdict, ratio: float, gate: float) -> None:
    """Whatever change a reason names is the one that is shown, in the same digits, beside the gate that holds."""
    assert case.comparison is not None
    shown = f"{abs(ratio):.{case.comparison.digits}f}"
    for found in re.findall(r"(?:Slower by|Takes) ([0-9.]+) %", case.reason):
        assert found == shown, case.reason
    for found in re.findall(r"not proven: [+−]([0-9.]+) % \[", case.reason):
        assert found == shown, case.reason
    for found in re.findall(r"the gate of ([0-9.]+ %)", case.reason):
        assert found == words.units.threshold(gate)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


PERCENT = re.compile(r"([0-9.]*[0-9])(?= %)|[\[;][+−]?([0-9.]+), [+−]?([0-9.]+)(?:\]|&#93;)")
SAME_IN_ALL = re.compile(
    r"in at most 0\.1 % of all runs|95 % (?:confidence )?interval|95 % confidence|more than [0-9]+ % past the gate"
    r"|gate 3 %, improvement 5 % from pyproject\.toml"
    r"|The typical call: .*?(?=, (?:across|past) the)"
)
"""What no verdict changes: of the example page too; and what noise that persists may hide, which is no figure of this change."""


def figures(text: str) -> set[str]:
    """Return the figures in percent that a reader sees, without their signs."""
    shown = html.unescape(re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", text, flags=re.DOTALL))
    shown = SAME_IN_ALL.sub("", " ".join(shown.split()))
    return {figure for groups in PERCENT.findall(shown) for figure in groups if figure}


def figures_of_verdict(case: CaseVerdict, gate: float, improvement: float) -> set[str]:
    """Return all figures in percent that anything may say of a case, without their signs: each rounded, none of them another."""
    comparison = case.comparison
    assert comparison is not None
    total = comparison.total
    ends = [comparison.ratio, comparison.low, comparison.high, comparison.upper_bound]
    ends += [total.ratio, total.low, total.high] if total else []
    known = [words.units.threshold(each) for each in (gate, improvement, 1 - BOUND * (1 - comparison.confidence))]
    known += [words.units.change(each, digits) for each in ends for digits in range(5)]
    known += [words.units.change(each, 1) for each in comparison.sessions]
    known += [words.detectable(comparison), words.units.percent(math.expm1(comparison.spread), 1)]
    return {each.removesuffix(" %").lstrip("+−") for each in known}


@given(
    change=st.sampled_from((-0.3, -0.06, -0.0501, -0.01, 0.0, 0.01, 0.0296, 0.0301, 0.032, 0.06, 0.3, 3.0)),
    noise=st.sampled_from((1e-5, 1e-4, 0.001, 0.005, 0.02, 0.08, 0.3)),
    pairs=st.integers(3, 40),
    gate=st.sampled_from((0.005, 0.03, 0.0333, 0.652)),
    improvement=st.sampled_from((0.01, 0.05)),
    seed=st.integers(0, 2**20),
)
def test_no_output_contradicts_another(
    change: float, noise: float, pairs: int, gate: float, improvement: float, seed: int
) -> None:
    """What is shown of a verdict is on the side of the gate and of no change that its outcome says, and the same everywhere."""
    report = judged(change, noise, pairs, gate, improvement, seed)
    case = report.cases[0]
    assert case.comparison is not None
    line = plain_lines(report)[0]
    shown = CHANGE.search(line)
    assert shown is not None, line
    ratio, low, high = map(number, shown.groups())
    assert low <= ratio <= high, line
    past, goal = 100 * gate, -100 * improvement
    held = {
        Outcome.REGRESSED: ratio > past and low > 0,
        Outcome.SLOWER: low > past or "now and then" in case.reason,
        Outcome.IMPROVED: ratio <= goal and high < 0,
        Outcome.UNCHANGED: high < past,
        Outcome.INCONCLUSIVE: True,
    }
    assert held[case.outcome], (line, case.reason)
    same = f"{words.change(case.comparison)} {words.interval(case.comparison)}"
    assert " ".join(shown.group().split()) == same
    texts = [render_markdown(report), render_page(report), render_comment(page_of(report))]
    texts = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts]
    known = figures_of_verdict(case, gate, improvement)
    for text in (*texts, "\n".join(plain_lines(report)), report.headline):
        assert figures(text) <= known, (figures(text) - known, text)
    for text in texts:
        assert same in text, text
    assert_reason_agrees(case, ratio, gate)
    smallest = words.detectable(case.comparison)
    assert f"MDE {smallest}" in line
    if smallest != words.NOTHING:
        assert number(smallest.removesuffix(" %")) >= round(past, case.comparison.digits), "none is found that may be unseen"
        assert case.outcome is not Outcome.REGRESSED or number(smallest.removesuffix(" %")) <= ratio, (line, case.reason)
        assert f"a slowdown of {smallest} is found four times in five" in texts[1]
    else:
        assert "is found four times in five" not in texts[1]
    if "No case is slower by over" in report.headline or "none slower by over" in report.headline:
        assert case.outcome in (Outcome.UNCHANGED, Outcome.IMPROVED)
        assert high < past
    if worst := re.search(r"(?:worst|best): \S+ ([+−][0-9.]+ %)", report.headline):
        assert worst[1] in {words.units.change(case.comparison.ratio, digits) for digits in range(5)}
        assert (low > 0) is ("worst" in worst[0])
    if case.outcome in COUNTS:
        assert f"1 of 1 case {COUNTS[case.outcome]}" in report.headline


@given(half=st.floats(1e-6, 1.0), ratio=st.floats(0.3, 4.0))
def test_digits_are_those_that_the_interval_earns(half: float, ratio: float) -> None:
    """Where no threshold is near, an interval of ±20 % is shown without decimals, and one of ±0.1 % with two."""
    digits = words.units.earned_digits(ratio, ratio - half, ratio + half, ())
    assert digits == (0 if half >= 0.05 else 1 if half >= 0.005 else 2)
