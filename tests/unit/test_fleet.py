"""Which card of a fleet is an outlier: compared with what, and by which rule."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.cli import main
from ratchet.commands.soak import load_quarantine, survey_fleet, write_quarantine
from ratchet.errors import UnfitError, UsageError
from ratchet.judge.fleet import OWN_DAYS, WEEK, CardMeasurement, CardReport, fleet, observations_of_run, slower_than_before, sums
from ratchet.judge.verdict import judge_run
from ratchet.measure.device import doctor
from ratchet.records.baseline import Baseline
from ratchet.records.environment import Card
from ratchet.records.files import save
from ratchet.records.soak import append_check
from ratchet.report.soak import fleet_json, fleet_lines
from research.fleet import FLEETS, accused, begun, drawn
from tests import examples
from tests.unit.test_soak import check as soak_check

CARDS = [f"GPU-{number:08x}" for number in range(10)]
UUID = CARDS[0]


def nights(
    slower: Mapping[str, float] | None = None, *, cards: int = 10, days: int = 40, since: int = 0, **more: Any
) -> Iterator[CardMeasurement]:
    """A case of 1 ms on each card, night by night, with 0.3 % of noise; some cards are slower from a night on."""
    rng = random.Random(1)
    for day in range(days):
        for card in CARDS[:cards]:
            factor = 1 + (slower or {}).get(card, 0.0) * (day >= since)
            one = CardMeasurement(
                card=card,
                environment=examples.ENVIRONMENT.model_copy(update={"cards": (Card(uuid=card),)}),
                day=examples.STARTED.date() + timedelta(days=day),
                case="copy/large",
                code="c0de",
                kernel_class="memory",
                ms=factor * rng.gauss(1, 0.003),
                spread=0.002,
                mde=0.01,
                pairs=8,
                outliers=0,
            )
            yield replace(one, **more)


def outliers(found: list[CardReport]) -> dict[str, tuple[str, ...]]:
    return {report.uuid: report.problems for report in found if report.problems}


def test_a_healthy_fleet() -> None:
    """No card of ten that are as fast as each other is named; each has its time, noise and MDE."""
    found = fleet(nights())
    assert (len(found), outliers(found)) == (10, {})
    (speed,) = found[0].classes
    assert (speed.kernel_class, speed.days) == ("memory", 40)
    assert abs(speed.slower) < 0.005
    assert speed.noise == pytest.approx(0.003, rel=0.6)
    assert found[0].mde == 0.01
    assert fleet_lines(found)[-1] == "No card is an outlier."


def test_a_card_that_became_slow() -> None:
    """Within a week of nights, also in a fleet of three, and while its level is still within what cards may differ by."""
    days = OWN_DAYS + 10
    found = outliers(fleet(nights({UUID: 0.03}, cards=3, days=days + WEEK, since=days)))
    assert list(found) == [UUID]
    assert re.match(
        r"In memory kernels it is (2\.[789]|3\.[0123]) % slower over its last [67] measured days than in its first 28 days",
        found[UUID][0],
    )
    assert outliers(fleet(nights({UUID: 0.03}, cards=3, days=days, since=days))) == {}


def test_a_card_that_was_always_slow() -> None:
    """It is found by its first week where enough others show the spread of the model, and not where they are too few."""
    assert list(outliers(fleet(nights({UUID: 0.04}, days=WEEK)))) == [UUID]
    assert outliers(fleet(nights({UUID: 0.04}, days=WEEK, cards=4))) == {}


def test_a_bad_night_is_no_outlier() -> None:
    """A card that was 50 % slower in two nights and is well again is not named, nor is it while these last."""
    well = [0.0] * (OWN_DAYS + 5)
    assert slower_than_before([*well, 0.5, 0.5], 0.005) == ""
    assert slower_than_before([*well, 0.5, 0.5, 0.0, 0.0], 0.005) == ""
    assert slower_than_before([*well, *[0.03] * 5], 0.005) != ""


def test_a_mended_card_is_cleared() -> None:
    """Within ten days of being as fast as before, however long it was slow."""
    days = [*[0.0] * OWN_DAYS, *[0.1] * 200, *[0.0] * 10]
    assert sums(days, 0.005)[-1] == 0
    assert sums(days[:-10], 0.005)[-1] > 0


def test_what_all_cards_share_cancels() -> None:
    """A driver, a season or a new commit that makes all cards slower accuses none; other code is another comparison."""
    found = fleet([*nights(dict.fromkeys(CARDS, 0.05), since=35), *nights(dict.fromkeys(CARDS, 2.0), code="0ther", case="x")])
    assert outliers(found) == {}


def test_cards_of_other_software_are_never_compared() -> None:
    """A slower driver is no slower card: each fingerprint has its own median."""
    other = examples.ENVIRONMENT.model_copy(update={"fingerprint": examples.FINGERPRINT.model_copy(update={"driver": "1"})})
    slow = [replace(one, environment=other, ms=one.ms * 1.2) for one in nights(cards=3)]
    found = fleet([*nights(), *slow])
    assert (len(found), outliers(found)) == (13, {})


def test_two_cards_have_no_median() -> None:
    """Of two cards nobody can say which is at fault: both are listed without a time, and the text says why."""
    found = fleet(nights({UUID: 0.2}, cards=2))
    assert [report.known for report in found] == [False, False]
    assert any("ran nothing that at least two others ran too" in line for line in fleet_lines(found))


def test_broken_memory_is_an_outlier() -> None:
    """A card whose memory waits for a repair is named, however fast it is."""
    broken = examples.ENVIRONMENT.model_copy(update={"cards": (Card(uuid=UUID, remap_pending=True),)})
    found = fleet([replace(one, environment=broken) if one.card == UUID else one for one in nights(days=3)])
    assert outliers(found) == {UUID: ("A row of its memory waits to be replaced; reset it.",)}


@pytest.mark.parametrize(("between", "night"), FLEETS[:3])
def test_the_rule_holds_on_simulated_fleets(between: float, night: float) -> None:
    """At most one healthy card of a hundred is accused a month; one that becomes 3 % slower is found within a week of nights."""
    rng = np.random.default_rng(7)
    assert begun(accused(drawn(rng, between, night, nights=300))) <= 10
    slow = drawn(rng, between, min(night, 0.005), nights=OWN_DAYS + 30 + WEEK)
    slow[0, OWN_DAYS + 30 :] += np.log(1.03)
    assert accused(slow)[0, -1]


def test_records_of_runs(tmp_path: Path) -> None:
    """Folders of runs are read; a run from before cards were recorded says nothing of them, and other files are refused."""
    run = examples.run_record()
    save(tmp_path / "old" / "current.json", run)
    with pytest.raises(UnfitError, match="do not say which GPUs"):
        survey_fleet([tmp_path])
    new = run.model_copy(update={"environment": examples.ENVIRONMENT.model_copy(update={"cards": (Card(uuid=UUID),)})})
    save(tmp_path / "new" / "current.json", new)
    (found,) = survey_fleet([tmp_path])
    assert (found.uuid, found.gpu, found.known) == (UUID, "NVIDIA H200", False)
    (one,) = observations_of_run(new, judge_run(new, Baseline()))
    assert (one.case, one.kernel_class) == ("attention/training_512", "compute")
    wrong = tmp_path / "notes.txt"
    wrong.write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="neither a folder nor a record"):
        survey_fleet([wrong])


def test_records_of_soaks(tmp_path: Path) -> None:
    """Soaks of one commit on three cards compare them by kernel class, and a slower one shows."""
    for number, card in enumerate(CARDS[:3]):
        environment = examples.ENVIRONMENT.model_copy(update={"cards": (Card(uuid=card),)})
        for minute in range(3):
            check = soak_check(minute, environment=environment)
            case = check.cases[0].model_copy(update={"reference_ms": 1 + 0.1 * number, "intensity": 0.25})
            append_check(tmp_path / "soak" / f"{number}.jsonl", check.model_copy(update={"cases": (case,)}))
    found = survey_fleet([tmp_path])
    assert [(one.uuid, one.classes[0].kernel_class) for one in found] == [(card, "memory") for card in reversed(CARDS[:3])]
    assert [round(one.classes[0].slower, 2) for one in found] == [0.09, 0, -0.1]


def test_strict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`doctor --strict` exits 3 where nothing should be measured; a missing GPU matters unless the CPU is asked for."""
    checks = [doctor.Check("torch", "ok", "2.9"), doctor.Check("GPU", "missing", "no GPU", unfit=True)]
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: checks)
    codes = [main(["doctor", *words, "--repo", str(tmp_path)]) for words in ([], ["--strict"], ["--strict", "--device", "cpu"])]
    assert codes == [0, 3, 0]


def test_quarantine(tmp_path: Path) -> None:
    """Outliers are entered with their reason, and stay until somebody deletes the entry."""
    found = fleet(nights({UUID: 0.05}))
    assert fleet_json(found)[0]["uuid"] == UUID
    write_quarantine(found, tmp_path)
    (card,) = load_quarantine(tmp_path).cards
    assert (card.uuid, card.gpu) == (UUID, "NVIDIA H200")
    assert card.reason.endswith("slower than the median of 10 cards.")
    write_quarantine(fleet(nights()), tmp_path)
    assert load_quarantine(tmp_path).cards == (card,)
