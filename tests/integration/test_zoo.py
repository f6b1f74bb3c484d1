"""One check over many bad benchmarks: each costs its own case, never the run."""

from __future__ import annotations

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import PAIRS, Finished

FAULTS = {
    "wrong": "wrong result: the output is off by",
    "nan": "NaN",
    "stale": "wrong result",
    "abort": "died of SIGABRT",
    "segfault": "died of SIGSEGV",
    "hang": "no answer within 10 s",
    "memory": "memory",
    "oom": "ran out of GPU memory",
    "leaves": "SystemExit: 7",
    "late": "died of SIGABRT",
    "ugly": "ValueError: bold",
    "wire": "sent an invalid answer",
    "unwritable": "cannot be recorded",
}


def test_run_of_bad_benchmarks_is_red_and_names_them(zoo: Finished) -> None:
    """A check with failing cases exits 1, and its table, headline and files name them."""
    assert zoo.code == 1
    assert "Traceback" not in zoo.err
    for name in (*FAULTS, "slower"):
        assert f"zoo/{name}" in zoo.out
        assert f"zoo/{name}" in zoo.markdown
    assert zoo.report.exit_code == 1


@pytest.mark.parametrize(("name", "said"), FAULTS.items())
def test_fault_costs_its_own_case(zoo: Finished, name: str, said: str) -> None:
    """Each way to go wrong makes that one case FAILED, on the head's side, with what happened."""
    verdict = zoo.verdict(f"zoo/{name}")
    assert verdict.outcome is Outcome.FAILED, verdict
    assert said in verdict.reason
    assert {failure.side for failure in zoo.case(f"zoo/{name}").failures} == {"head"}


@pytest.mark.parametrize("name", ["steady", "chatty", "secretive", "tuned"])
def test_good_case_beside_bad_ones_is_measured(zoo: Finished, name: str) -> None:
    """A sound case is measured in every pair on both sides, whatever its neighbours do."""
    case = zoo.case(f"zoo/{name}")
    assert zoo.verdict(case.name).outcome not in (Outcome.FAILED, Outcome.UNFIT), zoo.verdict(case.name)
    pairs = zoo.pairs(case.name)
    assert len(pairs) >= PAIRS
    assert pairs == list(range(len(pairs)))
    assert [len(worker.blocks) for worker in case.head if not worker.is_light] == [2] * len(pairs)


def test_crash_of_the_reference_is_neither_red_nor_a_pass(zoo: Finished) -> None:
    """A case whose reference crashes each time while it is timed is UNFIT, which says how it ended."""
    verdict = zoo.verdict("zoo/frail")
    assert verdict.outcome is Outcome.UNFIT, verdict
    assert verdict.reason.startswith("The reference's worker died of SIGABRT three times.")
    assert zoo.case("zoo/frail").failures == ()


def test_exception_of_the_reference_is_not_red(zoo: Finished) -> None:
    """A case whose reference raises while it is timed is INCONCLUSIVE; its head is still timed in every pair."""
    verdict = zoo.verdict("zoo/fragile")
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict
    assert "RuntimeError: gives up" in verdict.reason
    case = zoo.case("zoo/fragile")
    assert {failure.side for failure in case.failures} == {"reference"}
    assert [worker.pair for worker in case.head] == list(range(PAIRS))


def test_slower_and_faster_code_is_told(zoo: Finished) -> None:
    """Four times the work is REGRESSED, a quarter of it IMPROVED."""
    assert zoo.verdict("zoo/slower").outcome is Outcome.REGRESSED
    assert zoo.verdict("zoo/faster").outcome is Outcome.IMPROVED
    assert zoo.report.headline.startswith(f"1 of {len(zoo.report.cases)} cases slower, ")
    assert "; worst: zoo/slower +" in zoo.report.headline


def test_stale_result_is_found_after_timing(zoo: Finished) -> None:
    """A result kept from an earlier call passes the first check and fails the one on a fresh seed."""
    case = zoo.case("zoo/stale")
    assert [failure.stage for failure in case.failures] == ["check"]


def test_last_lines_of_a_crash_are_kept(zoo: Finished) -> None:
    """What a worker printed just before it crashed is in the report, and so is the line of Python that crashed."""
    assert any("the last words before the abort" in line for line in zoo.verdict("zoo/abort").last_lines)
    assert any("in segfault" in line for line in zoo.verdict("zoo/segfault").last_lines)


def test_no_escape_sequence_reaches_anybody(zoo: Finished) -> None:
    """Control characters that a benchmark prints appear in no output and no file."""
    texts = [zoo.out, zoo.err, zoo.markdown, *zoo.verdict("zoo/ugly").last_lines, zoo.verdict("zoo/ugly").reason]
    for text in texts:
        assert not any(sign in text for sign in ("\x1b", "\x07", "\0", "\u202e")), text


def test_cases_of_one_side_and_changed_ones_are_told_apart(zoo: Finished) -> None:
    """A case of the head alone is NEW, of the reference alone MISSING, with other work CHANGED with what differs."""
    assert zoo.verdict("zoo/fresh").outcome is Outcome.NEW
    assert zoo.verdict("zoo/gone").outcome is Outcome.MISSING
    assert zoo.verdict("zoo/changed").outcome is Outcome.CHANGED
    assert "flops" in zoo.verdict("zoo/changed").reason


def test_file_broken_in_the_head_fails_its_cases(zoo: Finished) -> None:
    """A syntax error in a bench file of the head makes the cases it had FAILED, with the error."""
    for config in ("one", "two"):
        verdict = zoo.verdict(f"broken_head/{config}")
        assert verdict.outcome is Outcome.FAILED
        assert "SyntaxError" in verdict.reason


def test_file_broken_in_the_reference_is_not_red(zoo: Finished) -> None:
    """A bench file that only the reference cannot import leaves its cases INCONCLUSIVE, timed alone, with the reason."""
    verdict = zoo.verdict("broken_base/one")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the reference is broken" in verdict.reason
    assert len(zoo.case("broken_base/one").head) == PAIRS


def test_missing_module_skips(zoo: Finished) -> None:
    """A bench file whose import lacks a module that is not installed is SKIPPED, with the module's name."""
    verdict = zoo.verdict("optional/one")
    assert verdict.outcome is Outcome.SKIPPED
    assert "a_module_that_nobody_has" in verdict.reason


def test_stages_and_tuning_reach_the_report(zoo: Finished) -> None:
    """Stages are timed on the side that has them, and the default tuning is what was called and recorded."""
    case = zoo.case("zoo/tuned")
    assert case.tuning == {"BLOCK": 64, "WARPS": 4}
    assert all(set(worker.stages_ms) == {"load", "store"} for worker in case.head if not worker.is_light)
    assert not any(worker.stages_ms for worker in case.reference)
    head = zoo.verdict("zoo/tuned").head
    assert set(head.stages_ms) == {"load", "store"}
