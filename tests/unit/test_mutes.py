"""Muted cases: what they do to the verdict, and where they are said."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest

from ratchet.core.config import settings_from
from ratchet.core.errors import UsageError
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, Config, Failure, Mute, RunRecord
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.core.report.markdown import render_markdown
from ratchet.core.report.page import render_page
from ratchet.core.report.terminal import plain_lines
from ratchet.core.report.words import mark
from ratchet.history.judge import history_run
from tests.examples import STARTED, compared, run_of
from tests.history_examples import timed

NAME = "attention/training_512"
TODAY = STARTED.date()
SETTINGS = '[tool.ratchet]\n[[tool.ratchet.mute]]\ncase = "norm/*"\nowner = "@jo"\nreason = "waits for 590"\nuntil = 2026-12-01\n'


def mute(**changes: Any) -> Mute:
    """A mute that holds today for the last time."""
    return Mute(**({"case": NAME, "owner": "@jo", "reason": "waits for driver 590", "until": TODAY} | changes))


def judged(*cases: CaseRun, mutes: tuple[Mute, ...] = (mute(),), day: date | None = None) -> ReportRecord:
    run = run_of(*cases)
    return judge_run(run, Baseline(), run.policy.model_copy(update={"mutes": mutes}), day)


def test_a_muted_slowdown_fails_nothing_and_is_said() -> None:
    """The case stays REGRESSED, the check exits with 0, and headline, terminal, report and page say who muted it till when."""
    report = judged(timed(1.2), timed(1.0, "copy/a"))
    assert [case.outcome for case in report.cases] == [Outcome.REGRESSED, Outcome.UNCHANGED]
    assert (report.exit_code, report.verdict, mark(report)) == (0, "pass", "⚠️")
    assert report.headline == "1 of 2 cases slower or undecided, but muted; no other slower by over 3 %."
    for text in ("\n".join(plain_lines(report)), render_markdown(report), render_page(report)):
        assert "waits for driver 590" in text
        assert "2026-03-14" in text
    assert ", so its slowdown of 20.00 % does not fail the run" in report.warnings[0]


def test_a_mute_ends() -> None:
    """A day later the case counts again, and the report says that the mute is over and who has to take it away."""
    report = judged(timed(1.2), day=TODAY + timedelta(days=1))
    assert report.exit_code == 1
    assert report.warnings[0] == (
        f"The mute of {NAME} by @jo ended on 2026-03-14, so the case counts again. "
        "Remove it from the settings, or give it a later date."
    )
    assert report.cases[0].muted is None


def test_a_mute_ends_for_a_run_that_compares_nothing() -> None:
    """`ratchet run` says so as well, on the day that it is asked about."""
    run = run_of(timed(1.0), kind="run")
    policy = run.policy.model_copy(update={"mutes": (mute(),)})
    assert judge_run(run, Baseline(), policy, TODAY).cases[0].muted is not None
    assert judge_run(run, Baseline(), policy, TODAY + timedelta(days=1)).cases[0].muted is None


def test_a_mute_covers_its_case_alone() -> None:
    """Another regression in the same run fails it, and the headline says both."""
    report = judged(timed(1.2), timed(1.3, "copy/a"))
    assert report.exit_code == 1
    assert report.headline == "1 of 2 cases slower, 1 muted; worst: copy/a +30 %."


def test_a_wrong_result_is_never_muted() -> None:
    """A case that fails is red however it is muted."""
    failure = Failure(side="head", stage="check", message="The result is wrong.")
    report = judged(CaseRun(name="a/b", benchmark="a", config=Config(name="b"), failures=(failure,)), mutes=(mute(case="*"),))
    assert (report.exit_code, report.cases[0].is_silenced) == (1, False)


def test_a_muted_case_that_is_not_slower_is_said_too() -> None:
    """Nobody forgets a mute that hides nothing: it is in the report, and in the history."""
    run = run_of(timed(1.0))
    report = judged(timed(1.0))
    said = f"{NAME} is muted (until 2026-03-14 by @jo: waits for driver 590); the mute changes nothing in this run."
    assert report.warnings == (said,)
    kept = history_run(run, report, Baseline())
    assert kept.cases[0].muted == "Until 2026-03-14 by @jo: waits for driver 590"


@pytest.mark.parametrize(
    ("case", "outcome", "what"),
    [
        (timed(0.8), Outcome.IMPROVED, "; the mute changes nothing in this run."),
        (
            compared(0.9, 1.1, 1.02, 0.95, 1.08, 1.03, 0.98, 1.07),
            Outcome.INCONCLUSIVE,
            ", so its inconclusive result does not fail the run.",
        ),
    ],
)
def test_what_a_mute_hides(case: CaseRun, outcome: Outcome, what: str) -> None:
    """A mute that hides an inconclusive result says so, and one of a case that is faster hides nothing."""
    report = judged(case)
    assert report.cases[0].outcome is outcome
    assert report.warnings[0] == f"{NAME} is muted (until 2026-03-14 by @jo: waits for driver 590){what}"


def test_mutes_are_settings() -> None:
    """A mute is a table of [tool.ratchet] and travels with the thresholds; the run record keeps it."""
    policy = settings_from(SETTINGS, "pyproject.toml", {}, {}).policy
    assert policy.mutes == (Mute(case="norm/*", owner="@jo", reason="waits for 590", until=date(2026, 12, 1)),)
    assert policy.mutes[0].covers("norm/rows_4k")
    run = run_of(timed(1.0), policy=policy)
    assert RunRecord.model_validate_json(run.model_dump_json(), strict=True).policy.mutes == policy.mutes


def test_a_job_takes_the_mutes_of_the_base_branch() -> None:
    """A variable holds them as JSON and wins over the checkout, also where there is none; other text is a sentence."""
    mutes = json.dumps([mute().model_dump(mode="json")])
    assert settings_from(SETTINGS, "pyproject.toml", {"RATCHET_MUTE": mutes}, {}).mute == (mute(),)
    assert settings_from(SETTINGS, "pyproject.toml", {"RATCHET_MUTE": "[]"}, {}).mute == ()
    with pytest.raises(UsageError, match="environment variable RATCHET_MUTE: it is not JSON"):
        settings_from(SETTINGS, "pyproject.toml", {"RATCHET_MUTE": "norm"}, {})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('owner = "@jo"\n', "mute in pyproject.toml, number 1, owner: field required"),
        ("until = 2026-12-01\n", "mute in pyproject.toml, number 1, until: field required"),
        ('reason = "waits for 590"\n', "mute in pyproject.toml, number 1, reason: field required"),
    ],
)
def test_a_mute_needs_an_owner_a_reason_and_a_date(line: str, words: str) -> None:
    """A mute without one of them is refused with the place and what is missing."""
    with pytest.raises(UsageError, match=words):
        settings_from(SETTINGS.replace(line, ""), "pyproject.toml", {}, {})
