"""A badge says what the verdict says, and nothing kinder."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from ratchet.core.records.verdict import Outcome
from ratchet.history.badge import badge_json, badge_svg, words_of
from tests.examples import HOSTILE
from tests.recorded_runs import recorded
from tests.reports import case, report

U, R, S = Outcome.UNCHANGED, Outcome.REGRESSED, Outcome.SLOWER


@pytest.mark.parametrize(
    ("outcomes", "message", "color"),
    [
        ((U, U), "nothing slower", "brightgreen"),
        ((Outcome.IDENTICAL,), "nothing slower", "brightgreen"),
        ((U, Outcome.IMPROVED), "1 faster, none slower", "brightgreen"),
        ((U, R, R, S), "2 slower", "red"),
        ((R, Outcome.FAILED), "1 failed", "red"),
        ((S, U), "1 slower, not proven", "orange"),
        ((Outcome.INCONCLUSIVE, Outcome.IMPROVED), "1 inconclusive", "yellow"),
        ((Outcome.UNFIT, U), "not measured", "lightgrey"),
        ((Outcome.SKIPPED,), "not measured", "lightgrey"),
        ((Outcome.MEASURED,), "not measured", "lightgrey"),
    ],
)
def test_what_a_badge_says(outcomes: tuple[Outcome, ...], message: str, color: str) -> None:
    """Green is a check in which every case has an answer; what is not known is never shown as unchanged."""
    verdict = report(tuple(case(f"a/{number}", outcome, "", 1.0) for number, outcome in enumerate(outcomes)))
    assert words_of(verdict) == (message, color)
    assert json.loads(badge_json(verdict)) == {"schemaVersion": 1, "label": "performance", "message": message, "color": color}


@pytest.mark.parametrize("name", ["pass", "hostile", "run"])
def test_a_badge_is_a_picture_without_anything_remote(name: str) -> None:
    """It is XML whatever the label is, shows both texts, and loads nothing."""
    svg = badge_svg(recorded(name).reports[""], HOSTILE)
    root = ElementTree.fromstring(svg)
    assert len([part for part in root.iter() if part.tag.endswith("text")]) == 2
    assert {part.tag.rpartition("}")[2] for part in root.iter()} == {"svg", "title", "clipPath", "rect", "g", "text"}
    assert "href" not in svg
