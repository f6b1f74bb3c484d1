"""Several GPU models on one page: which decides, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ratchet.core.config import settings_from
from ratchet.core.errors import UsageError
from ratchet.github.check_run import check_output
from ratchet.github.comment import CommentPage, render_comment
from ratchet.github.publish import joined
from tests import pages


def on(gpu: str, page: CommentPage) -> CommentPage:
    """The same page, measured on another model."""
    assert page.report
    fingerprint = page.report.environment.fingerprint.model_copy(update={"gpu": gpu})
    environment = page.report.environment.model_copy(update={"fingerprint": fingerprint})
    return replace(page, report=page.report.model_copy(update={"environment": environment}))


def missing() -> CommentPage:
    return pages.page(None, problem="No runner of this model gave results in time: run 1 has not ended.")


def test_red_on_one_is_red() -> None:
    """The check run is that of the worst model, which its title names, in whatever order they come."""
    green, red = on("NVIDIA L4", pages.green()), on("NVIDIA H200", pages.red())
    for page in (joined({"l4": green, "h200": red}), joined({"h200": red, "l4": green})):
        conclusion, output = check_output(page)
        assert conclusion == "failure"
        assert output.title.startswith("h200: 5 of 11 cases slower")
        assert page.model == "h200"


def test_a_model_without_results_is_no_pass() -> None:
    """It makes the check run fail and is named; beside a regression, that comes first and the other one is a note."""
    conclusion, output = check_output(joined({"l4": missing(), "h200": pages.green()}))
    assert conclusion == "failure"
    assert output.title.startswith("l4: No runner of this model gave results in time")
    page = joined({"l4": missing(), "h200": pages.red()})
    assert page.model == "h200"
    assert page.notes[0].startswith("l4: No runner of this model")
    assert "l4: No runner of this model" in render_comment(page)


def test_green_on_all_names_all() -> None:
    """A pass says of which models it is one."""
    conclusion, output = check_output(joined({"h200": pages.green(), "l4": on("NVIDIA L4", pages.green())}))
    assert conclusion == "success"
    assert output.title.startswith("h200, and no worse on l4: ")


def test_two_names_for_one_machine_are_refused() -> None:
    """A label that leads to the wrong runner would leave a model unmeasured: its results are refused, and the check run fails."""
    page = joined({"h200": pages.green(), "l4": pages.green()})
    assert check_output(page)[0] == "failure"
    assert page.model == "l4"
    assert "the same kind of machine as those of h200" in page.problem


@pytest.mark.parametrize("name", ["", "H200", "a/b", "../x", "x" * 60])
def test_names_of_models(name: str) -> None:
    """A name becomes a part of the names of artifacts and folders, so it is a plain word."""
    with pytest.raises(UsageError, match="models"):
        settings_from(f'[tool.ratchet]\nmodels = ["{name}"]\n', "pyproject.toml", {}, {})
    assert settings_from('[tool.ratchet]\nmodels = ["h200", "l4"]\n', "pyproject.toml", {}, {}).models == ("h200", "l4")
