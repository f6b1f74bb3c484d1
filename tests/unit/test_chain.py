"""The chain of steps: what was written verifies, what was edited does not."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ratchet.common.baseline_steps import Person, accept, continued, rename
from ratchet.common.baseline_update import record
from ratchet.core.errors import RecordError, UsageError
from ratchet.core.judge.chain import ChainPlace, problems
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, BaselineEntry, Step, StepKind
from ratchet.core.records.environment import Fingerprint
from ratchet.core.records.files import dumps, load
from ratchet.core.records.run import CaseRun, RunRecord
from tests import examples
from tests.history_examples import check_of, commit, gone, new, timed

OLD, NAME = "attention/train", "attention/training_512"
OTHER = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
ELSEWHERE = examples.ENVIRONMENT.model_copy(update={"fingerprint": OTHER})
KEY = examples.FINGERPRINT.key


def person(day: float, reason: str = "masked rows were wrong") -> Person:
    return Person("A Test <test@localhost>", reason, examples.STARTED + timedelta(days=day))


def recorded(baseline: Baseline, *runs: RunRecord) -> Baseline:
    return record(baseline, [(run, judge_run(run, baseline)) for run in runs]).baseline


def eventful() -> Baseline:
    """Every kind of step, a candidate, several days, two machines."""
    other = examples.WORKLOAD.model_copy(update={"bytes": 1e6})
    stored = recorded(
        Baseline(),
        check_of(timed(1.0, OLD), timed(1.0, "copy/a"), day=0, head=1),
        check_of(timed(1.0, OLD), day=0, head=1, environment=ELSEWHERE),
        *(check_of(timed(0.8, OLD), day=day, head=2, reference=1) for day in (1, 2)),
    )
    stored, _ = rename(stored, OLD, NAME, commit(3), person(3))
    back = check_of(timed(1.1), day=4, head=4, reference=2)
    stored, _ = accept(stored, back, judge_run(back, stored), [NAME], person(4))
    return recorded(
        stored,
        check_of(gone("copy/a"), timed(1.0), day=5, head=5, reference=4),
        check_of(new("copy/a"), timed(0.9), day=6, head=6, reference=4),
        check_of(timed(1.0, "copy/a", workload=other, reference=()), day=7, head=7, reference=6),
    )


EVENTFUL = eventful()
ENTRY = EVENTFUL.entries(examples.FINGERPRINT)[NAME]


def test_what_was_written_verifies() -> None:
    """Every kind of step, on two machines, fits; so does an empty file."""
    kinds = {step.kind for _, _, entry in EVENTFUL.every() for step in entry.steps}
    assert kinds == set(StepKind)
    assert ENTRY.candidate is not None
    assert len(ENTRY.days) > 1
    assert problems(EVENTFUL) == problems(Baseline()) == []


def test_it_verifies_after_a_round_trip(tmp_path: Path) -> None:
    """Digests hold for the text in the file as well as for the record."""
    path = tmp_path / "baseline.json"
    path.write_text(dumps(EVENTFUL), encoding="utf-8")
    assert problems(load(path, Baseline)) == []


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number, text and null of a document, with the way to it."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*place, key))
    else:
        yield place, value


def edited(place: tuple[Any, ...], value: Any) -> str:
    """The file with another value in one place."""
    document = EVENTFUL.model_dump(mode="json")
    here = document
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    return json.dumps(document)


def other_values(place: tuple[Any, ...], value: Any) -> list[Any]:
    """What a hand might write instead."""
    if value is None:
        return ["x", 1.0, commit(9)[:32]]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 1.001 + 1e-9, value + 1, 0.5, None]
    if place[-1] in ("timestamp", "started_at", "ended_at"):
        return [value.replace("2026", "2027"), value.replace(":09:", ":10:")]
    flipped = value[:-1] + ("0" if value[-1:] != "0" else "1")
    return [flipped, value.upper(), "", None]


def is_found(text: str, folder: Path) -> bool:
    """Return whether loading or verifying this file tells of a problem."""
    path = folder / "baseline.json"
    path.write_text(text, encoding="utf-8")
    try:
        return bool(problems(load(path, Baseline)))
    except RecordError:
        return True


FIELDS = sorted({str(place[-1]) for place, _ in leaves(EVENTFUL.model_dump(mode="json")) if isinstance(place[-1], str)})


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("field", [*FIELDS, "pair_medians_ms"])
def test_any_edited_field_is_found(field: str, tmp_path: Path) -> None:
    """Another number, hash, name, date or reason in any one place of the file does not verify, or does not load."""
    document = EVENTFUL.model_dump(mode="json")
    places = [(place, value) for place, value in leaves(document) if field in place[-2:]]
    assert places
    for place, value in places:
        for instead in other_values(place, value):
            if instead != value:
                assert is_found(edited(place, instead), tmp_path), (place, value, instead)


def test_an_edit_is_told_once_and_where() -> None:
    """One edit gives one line: the case, the machine, the step, and what to do."""
    undo = "Undo the edit, or restore the file from git."
    of_entry = ": its candidate, its days, its merges, its digest or its list of steps was edited."
    step, apart = "it is not as it was written for this case and machine.", "it does not follow the step before it."
    last = len(ENTRY.steps)
    assert [each.kind.value for each in ENTRY.steps] == ["first", "improved", "renamed", "accepted"]
    for changes, said in (
        ({"median_ms": ENTRY.median_ms * 1.0001}, f": its figures are not those that step {last} (accepted, 2026-03-18) set."),
        ({"days": ENTRY.days[1:]}, of_entry),
        ({"candidate": None}, of_entry),
        ({"digest": "0" * 32}, of_entry),
        (step_with(0, commit=commit(7)), f", step 1 (first, 2026-03-14): {step}"),
        (step_with(1, digest="0" * 32), f", step 2 (improved, 2026-03-16): {step}"),
        (step_with(2, previous_name="a/b"), f", step 3 (renamed, 2026-03-17): {step}"),
        (step_with(3, reason="x"), f", step 4 (accepted, 2026-03-18): {step}"),
        ({"steps": ENTRY.steps[1:]}, f", step 1 (improved, 2026-03-16): {apart}"),
        ({"steps": (*ENTRY.steps[:1], *ENTRY.steps[2:])}, f", step 2 (renamed, 2026-03-17): {apart}"),
        ({"steps": ENTRY.steps[2:3]}, f", step 1 (renamed, 2026-03-17): {apart}"),
    ):
        (line, *more) = problems(examples.stored({NAME: ENTRY.model_copy(update=changes)}))
        assert line == f"{NAME} [{KEY}]{said} {undo}"
        assert more == (
            [f"{NAME} [{KEY}]: no step of its chain set any figures. {undo}"] if len(changes.get("steps", "xx")) == 1 else []
        )


def step_with(index: int, **changes: Any) -> dict[str, Any]:
    """ENTRY's steps, one of them edited."""
    steps = list(ENTRY.steps)
    steps[index] = steps[index].model_copy(update=changes)
    return {"steps": tuple(steps)}


def test_every_problem_is_told() -> None:
    """Edits in three places, of two cases, are three lines."""
    entry = ENTRY.model_copy(update={"throughput_gflops": 0.5, **step_with(1, reason="x")})
    other = EVENTFUL.entries(examples.FINGERPRINT)["copy/a"].model_copy(update={"days": ()})
    stored = EVENTFUL.with_entries(examples.FINGERPRINT, {NAME: entry, "copy/a": other})
    assert [line.partition(" ")[0] for line in problems(stored)] == [NAME, NAME, "copy/a"]


def test_a_case_renamed_by_hand_is_found() -> None:
    """A chain under another name, or on another machine, is not the one that was written there."""
    entry = examples.first_entry()
    for stored in (examples.stored({"a/b": entry}), examples.stored({NAME: entry}, OTHER)):
        (line,) = problems(stored)
        assert "not as it was written for this case and machine" in line
    two = EVENTFUL.entries(examples.FINGERPRINT)["copy/a"]
    removed = Step(kind=StepKind.REMOVED, commit=commit(2), timestamp=examples.STARTED)
    for longer in (two, continued(examples.first_entry(), removed, ChainPlace(KEY, NAME))):
        told = problems(examples.stored({"a/b": longer}))
        assert ["Was it renamed or copied by hand?" in line for line in told] == [True]


@pytest.mark.parametrize("name", [examples.HOSTILE, "µ/ß", "a/\ud800"])
def test_any_text_has_a_digest(name: str) -> None:
    """Hostile names, letters that are not ASCII, half a pair of surrogates: what was written verifies, under that name only."""
    entry = examples.first_entry(name)
    step = Step(kind=StepKind.REMOVED, commit=commit(2), timestamp=examples.STARTED, reason=name)
    assert problems(examples.stored({name: continued(entry, step, ChainPlace(KEY, name))})) == []
    assert problems(examples.stored({NAME: entry})) != []


class Chains(RuleBasedStateMachine):
    """Any sequence of recording, accepting, renaming and removing."""

    def __init__(self) -> None:
        super().__init__()
        self.baseline = Baseline()
        self.day = 0
        self.name = NAME

    def entry(self) -> BaselineEntry | None:
        return self.baseline.entries(examples.FINGERPRINT).get(self.name)

    def measured(self, case: Callable[..., CaseRun], *ratio: float, head: int, against_baseline: bool) -> RunRecord:
        self.day += 1
        entry = self.entry()
        run = check_of(case(*ratio, name=self.name), day=self.day, head=head, reference=99)
        known = entry is not None and against_baseline
        return (
            run.model_copy(update={"reference": run.reference.model_copy(update={"commit": entry.git_commit})}) if known else run
        )

    @rule(
        ratio=st.sampled_from([0.7, 0.9, 0.97, 1.0, 1.02, 1.2]),
        head=st.integers(1, 4),
        against=st.booleans(),
        twice=st.booleans(),
    )
    def records(self, ratio: float, head: int, against: bool, twice: bool) -> None:
        before = self.entry()
        runs = [self.measured(timed, ratio, head=head, against_baseline=against) for _ in range(1 + twice)]
        self.baseline = recorded(self.baseline, *runs)
        after = self.entry()
        if before and after and before.git_commit != after.git_commit:
            assert ratio < 0.95
            assert against
            assert after.steps[-1].ratio is not None
            assert after.steps[-1].ratio < 0.95
            assert all(each.reference == before.git_commit and each.high < 1 for each in after.steps[-1].measurements)

    @rule(case=st.sampled_from([gone, new]))
    def comes_or_goes(self, case: Callable[..., CaseRun]) -> None:
        before = self.entry()
        self.baseline = recorded(self.baseline, self.measured(case, head=5, against_baseline=False))
        if before is not None:
            assert self.entry().git_commit == before.git_commit

    @precondition(lambda self: self.entry() is not None)
    @rule(ratio=st.sampled_from([0.9, 1.0, 1.3]), head=st.integers(6, 9))
    def accepts(self, ratio: float, head: int) -> None:
        run = self.measured(timed, ratio, head=head, against_baseline=True)
        with contextlib.suppress(UsageError):  # it is there already
            self.baseline, _ = accept(self.baseline, run, judge_run(run, self.baseline), [self.name], person(self.day))
        assert self.entry().git_commit == commit(head)

    @precondition(lambda self: self.entry() is not None)
    @rule()
    def renames(self) -> None:
        new_name = f"attention/x{self.day}"
        self.baseline, _ = rename(self.baseline, self.name, new_name, commit(10), person(self.day))
        self.name = new_name
        self.day += 1

    @invariant()
    def verifies(self) -> None:
        assert problems(self.baseline) == []
        assert self.baseline == Baseline.model_validate_json(dumps(self.baseline))


TestChains = pytest.mark.no_cover(Chains.TestCase)
TestChains.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.8, 0.94, 0.96, 1.0, 1.02]), max_size=12))
@settings(max_examples=40, deadline=None)
def test_only_two_in_a_row_move(ratios: list[float]) -> None:
    """Measured again and again against the baseline commit, a commit takes its place when two in a row prove it faster."""
    baseline = recorded(Baseline(), check_of(timed(1.0), day=0, head=1))
    runs = [check_of(timed(ratio), day=day, head=2, reference=1) for day, ratio in enumerate(ratios, 1)]
    proven = [ratio < 0.95 for ratio in ratios]
    moved = recorded(baseline, *runs).entries(examples.FINGERPRINT)[NAME].git_commit == commit(2)
    assert moved == any(one and other for one, other in itertools.pairwise(proven))
