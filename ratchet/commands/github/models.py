"""One pull request measured on several GPU models: a page for each, and one page of them all, which is that of the worst.

`ratchet publish` calls it where the base branch's settings name ``models``. Pure, but for the pages, which `judge_again` makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ratchet.judge.github.state import PublishedState, state_of
from ratchet.report.comment import CommentPage, conclusion
from ratchet.report.profile import headline


def joined(pages: Mapping[str, CommentPage]) -> CommentPage:
    """Return the page of the model that ended worst, which names it, with all models in it.

    A model without results is no pass; a regression on another model comes first, since it says more.
    """
    apart = {model: _of_own_machine(model, pages) for model in pages}
    worst = min(apart, key=lambda model: _rank(apart[model]))
    page = apart[worst]
    others = tuple(f"{model}: {_end(one)}" for model, one in apart.items() if model != worst and conclusion(one) != "success")
    report = page.report and page.report.model_copy(update={"headline": f"{_scope(worst, apart)}: {page.report.headline}"})
    problem = f"{worst}: {page.problem}" if page.problem else ""
    return replace(page, report=report, problem=problem, notes=(*others, *page.notes), model=worst, models=apart)


def _of_own_machine(model: str, pages: Mapping[str, CommentPage]) -> CommentPage:
    """Return the page of a model; without its verdict where an earlier model has one of the same machine."""
    page = pages[model]
    for other, earlier in pages.items():
        if other == model or page.report is None:
            break
        if earlier.report and earlier.report.environment.fingerprint == page.report.environment.fingerprint:
            why = f"Its results are of the same kind of machine as those of {other}: look at the labels of its runner."
            return replace(page, report=None, problem=why, artifact_url=None)
    return page


def _rank(page: CommentPage) -> int:
    state = state_of(page.report, {acceptance.case for acceptance in page.acceptances}, page.gaps)
    return 0 if state is PublishedState.REGRESSION else state.value


def _scope(worst: str, pages: Mapping[str, CommentPage]) -> str:
    alike = all(conclusion(page) == "success" for page in pages.values())
    return (
        f"{worst}, and no worse on {', '.join(model for model in pages if model != worst)}" if alike and len(pages) > 1 else worst
    )


def _end(page: CommentPage) -> str:
    return headline(page.report) if page.report else page.problem
