"""Several GPU models on one page: which decides, and what is said of the others, beside what `test_recorded_runs.py` holds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ratchet.core.config import settings_from
from ratchet.core.errors import UsageError
from ratchet.core.records.verdict import Outcome
from ratchet.github.check_run import check_output
from ratchet.github.event_file import Subject
from ratchet.github.publish import Publication, joined, outputs_of
from ratchet.github.records import Acceptance, WorkflowRun
from tests.examples import STARTED
from tests.recorded_runs import recorded


def test_the_worst_model_decides_in_any_order() -> None:
    """The check run is that of the worst model, which its title names; beside a regression, a model without results is a note."""
    models = recorded("several").comment_page.models
    for names in itertools.permutations(models):
        page = joined({name: models[name] for name in names})
        conclusion, output = check_output(page)
        assert (conclusion, page.model) == ("failure", "h200")
        assert output.title.startswith("h200: 5 of 11 cases slower")
        assert page.notes[0].startswith("b200: No runner of this model")


def test_a_model_without_results_is_no_pass() -> None:
    """Beside a green model it makes the check run fail and is named."""
    models = recorded("several").comment_page.models
    conclusion, output = check_output(joined({name: models[name] for name in ("b200", "l4")}))
    assert conclusion == "failure"
    assert output.title.startswith("b200: No runner of this model gave results in time")


def test_an_acceptance_on_another_model_than_the_worst_is_no_regression() -> None:
    """The output counts the slowdowns that nobody accepted, on whichever model a case is slower."""
    worst = recorded("several").comment_page.models["h200"]
    assert worst.report is not None
    first, second = [case for case in worst.report.cases if case.outcome is Outcome.REGRESSED][:2]
    taken = Acceptance(case=second.name, reason="r", by="jo", sha="a" * 40, comment=None, at=STARTED)
    one = replace(worst, report=worst.report.model_copy(update={"cases": (first,)}))
    report = worst.report.model_copy(update={"cases": (second,), "verdict": "pass"})
    other = replace(worst, report=report, acceptances=(taken,))
    run = WorkflowRun(1, "", "push", "a" * 40, "", None, None, "", 1, STARTED)
    page = replace(joined({"h200": one, "l4": other}), models={"h200": one, "l4": other})
    assert outputs_of(Publication(Subject(run, "main"), page), None)["regressions"] == "1"


@pytest.mark.parametrize("name", ["", "H200", "a/b", "../x", "x" * 60])
def test_names_of_models(name: str) -> None:
    """A name becomes a part of the names of artifacts and folders, so it is a plain word."""
    with pytest.raises(UsageError, match="models"):
        settings_from(f'[tool.ratchet]\nmodels = ["{name}"]\n', "pyproject.toml", {}, {})
    assert settings_from('[tool.ratchet]\nmodels = ["h200", "l4"]\n', "pyproject.toml", {}, {}).models == ("h200", "l4")
