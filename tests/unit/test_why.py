"""The cause that is named goes the way of the case: a slowdown is explained by what was added or got slower."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core.records.profile import CaseProfile, Profile
from ratchet.explain.diagnosis.rule import ADVICE_AGAINST_SLOWER, ADVICE_WHEN_FASTER
from ratchet.explain.report import first_sentence
from ratchet.explain.results import diagnosed
from tests import examples
from tests.why_scenarios import SCENARIOS, Scenario, counted, traced

KINDS: dict[str, Callable[[str], Profile]] = {
    "torch": traced,
    "torch on the CPU": lambda text: traced(text, on_cpu=True),
    "ncu": counted,
    "ncu without counters": lambda text: counted(text, counters=False),
}


def explained(head: Profile, reference: Profile, ratio: float | None) -> CaseProfile:
    return diagnosed(CaseProfile(case="a/b", head=head, reference=reference, ratio=ratio))


def names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_first_sentence_names_the_cause(scenario: Scenario, kind: str) -> None:
    """What was added or got slower explains a slowdown; what vanished is only ever named as replaced; and the mirror image."""
    see = KINDS[kind]
    said = first_sentence(explained(see(scenario.head), see(scenario.reference), scenario.ratio))
    assert [name for name in scenario.named if not names(said, name)] == [], said
    if not scenario.named:
        assert said.startswith("The profiles show no difference that explains the ")
    rest = re.sub(r"[Rr]eplaced .*? by ", "", said)
    assert [name for name in scenario.not_the_cause if names(rest, name)] == [], said


@pytest.mark.parametrize(("timed_ms", "is_idle"), [(0.02, False), (0.025, False), (0.1, True), (None, True)])
def test_the_device_is_idle_for_no_longer_than_the_timed_call_leaves(timed_ms: float | None, is_idle: bool) -> None:
    """torch.profiler slows the host down, so gaps of its own making are no finding; without times, all gaps count."""
    profile = examples.traced(10, 2e-5, gaps_s=1e-3, wall_s=1.5e-3)
    case = None
    if timed_ms:
        case = examples.compared(1.0, 1.0).model_copy(update={"performance": examples.performance(timed_ms)})
    found = diagnosed(CaseProfile(case="a/b", head=profile, reference=None, ratio=None), case)
    assert any(finding.key == "gaps" for finding in found.findings) == is_idle


SIDE = st.dictionaries(st.sampled_from(("kappa", "lambda", "sigma", "omega")), st.integers(20, 4000), min_size=1).map(
    lambda times: " ".join(f"{name}:{time}" for name, time in times.items())
)


@given(SIDE, SIDE, st.sampled_from((0.3, 0.8, 0.96, 1.04, 1.3, 3.2)), st.sampled_from(sorted(KINDS)))
def test_no_finding_contradicts_the_case(head: str, reference: str, ratio: float, kind: str) -> None:
    """Whatever the profiles are: causes go the way of the case and come first, and what goes against it is called that."""
    found = explained(KINDS[kind](head), KINDS[kind](reference), ratio)
    against = [finding.effect not in (None, found.direction) for finding in found.findings]
    assert against == sorted(against)
    for finding, contradicts in zip(found.findings, against, strict=True):
        assert contradicts == finding.what.startswith("Not the cause: ")
        assert (finding in found.causes) == (finding.weight >= 1)
        assert not (contradicts and finding.weight >= 1)
        quiet = finding.advice in (ADVICE_WHEN_FASTER, ADVICE_AGAINST_SLOWER)
        assert quiet == (finding.effect == "faster") == (not finding.needs_action)
    assert not first_sentence(found).startswith("Not the cause")


def test_a_profile_by_hand_goes_by_its_own_times() -> None:
    """Without a measured change, the times of the profiles say which way the head went."""
    faster = explained(counted("fused:100"), counted("one:50 two:60 three:40"), None)
    assert faster.causes[0].advice == ADVICE_WHEN_FASTER
    slower = explained(traced("gemm:300 copy:10"), traced("gemm:100 copy:90"), None)
    assert names(first_sentence(slower), "gemm")
    assert not names(first_sentence(slower), "copy")


def test_the_two_directions_of_one_kernel() -> None:
    """In an improved case, advice on what got slower says that there is more to gain."""
    found = explained(counted("one:100 two:400"), counted("one:500 two:150"), 0.77)
    assert [finding.effect for finding in found.findings] == ["faster", "slower"]
    assert found.findings[1].what == "Not the cause: each call spends more in two (150.0 µs → 400.0 µs), under the profiler."
    assert found.findings[1].advice.startswith("This makes the head slower, although the case is faster. To gain more: ")


def test_fewer_launches_do_not_explain_a_slowdown() -> None:
    """A trace with fewer launches in a slower call does not name their number as the cause."""
    many, few = traced("step:2x200"), traced("step:9x60")
    found = explained(few, many, 1.35)
    assert "launches" not in [finding.key for finding in found.causes]
    assert "launches" in [finding.key for finding in explained(many, few, 1.35).causes]


def test_kernels_of_one_short_name_are_told_apart() -> None:
    """Two kernels that differ in their template arguments alone are named with them."""
    old, new = "void elementwise<Add>(float*)", "void elementwise<Mul>(float*)"
    said = first_sentence(explained(traced(f"{new}:300"), traced(f"{old}:100"), 3.0))
    assert said == f"In each call, the head replaced {old} (100.0 µs) by {new} (300.0 µs)."


@pytest.mark.parametrize("kind", KINDS)
def test_the_reason_agrees_with_what_is_seen(kind: str) -> None:
    """A replacement that takes less time is not said to take longer, in whichever direction the case went."""
    see = KINDS[kind]
    for head, reference, ratio in (("new:100 one:600", "old:300 one:100", 1.75), ("new:100", "old:300", 0.4)):
        found = explained(see(head), see(reference), ratio)
        (replacement,) = [finding for finding in found.findings if "replaced old" in finding.what]
        assert replacement.why == "The kernels that do this work now take less time together than those that did it before."
