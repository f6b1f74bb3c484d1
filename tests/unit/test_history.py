"""The history: what is kept of a run, the files, the index, and the series that they are read as."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ratchet.core.errors import GitError, RecordError, UsageError
from ratchet.core.git import Repository
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline, Step, StepKind
from ratchet.core.records.environment import Fingerprint, PackageDifference, Peaks
from ratchet.core.records.profile import Profile, ProfilerRule
from ratchet.core.records.run import CaseRun, Tree
from ratchet.core.records.verdict import Outcome
from ratchet.core.untrusted import clean
from ratchet.explain.report import tables
from ratchet.history.anchors import anchors_of, by_anchor
from ratchet.history.command import BranchFiles, case_histories
from ratchet.history.judge import history_run, series_of, shortened
from ratchet.history.records import HistoryCase, HistoryRun, RatioTo, Series
from ratchet.history.report import case_lines, overview_lines, problem_lines, trend
from ratchet.history.store import FolderFiles, History, append, name_of, text_of
from tests.examples import (
    FINGERPRINT,
    HOSTILE,
    STARTED,
    WORKLOAD,
    blocks,
    case_profile,
    compared,
    first_entry,
    kernel_profile,
    performance,
    stored,
    traced,
)
from tests.history_examples import check_of, commit, gone, timed
from tests.integration.playground import new_repository

NAME = "attention/training_512"
OTHER_DRIVER = FINGERPRINT.model_copy(update={"driver": "590.10"})


def to(number: int, ratio: float) -> RatioTo:
    """A ratio to the commit of this number."""
    return RatioTo(commit=commit(number), ratio=ratio, low=ratio * 0.999, high=ratio * 1.001, pairs=20)


def case_of(anchor: RatioTo | None, **changes: Any) -> HistoryCase:
    """A case of one run."""
    usual = {"name": NAME, "outcome": Outcome.UNCHANGED, "anchor": anchor, "median_ms": 1.0, "workload": "w"}
    return HistoryCase.model_validate(usual | changes)


def run_at(day: float, head: int, *cases: HistoryCase, machine: Fingerprint = FINGERPRINT) -> HistoryRun:
    """A run so many days after the first."""
    return HistoryRun(
        commit=commit(head),
        subject=f"commit {head}",
        started_at=STARTED + timedelta(days=day),
        fingerprint=machine,
        verdict="pass",
        headline="No case is slower.",
        regression=0.03,
        cases=cases,
    )


def opened(folder: Path) -> History:
    """The history of a folder, with an index beside it."""
    return History([FolderFiles(folder)], folder.parent / "index.sqlite")


def only_series(runs: list[HistoryRun]) -> Any:
    return series_of(NAME, [(name_of(run), run, run.cases[0]) for run in runs])


def test_runs_come_back_whole(tmp_path: Path) -> None:
    """What was appended is read back as it was, and a run that is appended twice is there once."""
    run = run_at(0, 1, case_of(to(1, 1.0), share_of_roof=0.5, gflops=3.0))
    assert append(tmp_path / "history", run) == append(tmp_path / "history", run)
    history = opened(tmp_path / "history")
    assert history.problems == ()
    assert [history.run(name) for name in history.names()] == [run]


def test_index_reads_new_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is opened again reads what was added since, and forgets what is gone."""
    folder = tmp_path / "history"
    first = append(folder, run_at(0, 1, case_of(to(1, 1.0))))
    opened(folder)
    second = append(folder, run_at(1, 2, case_of(to(1, 1.1))))
    read: list[str] = []
    real = FolderFiles.contents
    monkeypatch.setattr(FolderFiles, "contents", lambda self, names: real(self, [read.append(name) or name for name in names]))
    assert len(opened(folder).names()) == 2
    assert read == [str(second.relative_to(folder))]
    first.unlink()
    assert opened(folder).names() == [str(second.relative_to(folder))]


@pytest.mark.parametrize("content", [b"not a database, and longer than the header of one" * 30, b""])
def test_damaged_index_is_made_again(tmp_path: Path, content: bytes) -> None:
    """An index that is damaged is made again from the files."""
    folder = tmp_path / "history"
    append(folder, run_at(0, 1, case_of(to(1, 1.0))))
    opened(folder)
    (tmp_path / "index.sqlite").write_bytes(content)
    assert len(opened(folder).names()) == 1
    assert (tmp_path / "index.sqlite").read_bytes().startswith(b"SQLite format 3")


def test_index_that_cannot_be_written(tmp_path: Path) -> None:
    """Where the index cannot be written, the history is read all the same."""
    append(tmp_path / "history", run_at(0, 1, case_of(to(1, 1.0))))
    (tmp_path / "file").touch()
    assert len(History([FolderFiles(tmp_path / "history")], tmp_path / "file" / "index.sqlite").names()) == 1


def damaged(text: str, kind: str) -> bytes:
    """The text of a run's file, spoilt."""
    fields = json.loads(text)
    return {
        "truncated": text[:200].encode(),
        "empty": b"",
        "newer": json.dumps(fields | {"schema_version": 2}).encode(),
        "unknown field": json.dumps(fields | {"mood": "good"}).encode(),
        "not UTF-8": b"\xff" + text.encode(),
        "too large": text.encode() + b" " * (17 << 20),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("truncated", "cut off"),
        ("empty", "is not JSON"),
        ("newer", "newer ratchet"),
        ("unknown field", "mood: unknown field"),
        ("not UTF-8", "not UTF-8"),
        ("too large", "larger than 16 MiB"),
    ],
)
def test_unreadable_files(tmp_path: Path, kind: str, words: str) -> None:
    """A file that cannot be read is named in one sentence and left as it is; the other runs are all there."""
    folder = tmp_path / "history"
    append(folder, run_at(0, 1, case_of(to(1, 1.0))))
    bad = append(folder, run_at(1, 2, case_of(to(1, 1.0))))
    content = damaged(bad.read_text(), kind)
    bad.write_bytes(content)
    for _ in range(2):
        history = opened(folder)
        assert len(history.names()) == 1
        (problem,) = history.problems
        assert words in problem
        assert bad.name in problem
    assert bad.read_bytes() == content


def test_a_history_of_many_files_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before many new files are read there is a sentence, and none where few are new."""
    monkeypatch.setattr("ratchet.history.store._MANY_FILES", 10)
    folder, said = tmp_path / "history", []
    for days in (range(30), range(30, 35)):
        for day in days:
            append(folder, run_at(day, 1 + day, case_of(to(1, 1.0))))
        assert len(History([FolderFiles(folder)], tmp_path / "index.sqlite", said.append).names()) == days.stop
    assert said == ["Reading 30 new files of the history into its index, once"]


def test_a_history_of_mixed_versions(tmp_path: Path) -> None:
    """Files of an older ratchet, which lack today's fields, are read; of a newer one a sentence names each."""
    folder = tmp_path / "history"
    today, old, newer = (run_at(day, 1 + day, case_of(to(1, 1.0), profile=shortened(case_profile(NAME)))) for day in range(3))
    append(folder, today)
    spoilt = append(folder, newer)
    spoilt.write_text(spoilt.read_text().replace('"schema_version":1,"commit"', '"schema_version":2,"mood":"good","commit"'))
    fields = json.loads(text_of(old))
    for name in ("profile", "why", "muted", "share_of_roof"):
        fields["cases"][0].pop(name, None)
    append(folder, old).write_text(json.dumps(fields))
    history = opened(folder)
    assert [history.run(name).commit for name in history.names()] == [today.commit, old.commit]
    assert [spoilt.name in problem and "newer ratchet" in problem for problem in history.problems] == [True]


def test_where_no_file_can_be_read_a_sentence_says_so(tmp_path: Path) -> None:
    """That is not the same as a history without a run."""
    path = append(tmp_path / "history", run_at(0, 1, case_of(None)))
    path.write_bytes(b"")
    with pytest.raises(RecordError, match=r"No file of the history can be read\. .* is not JSON"):
        case_histories(opened(tmp_path / "history"), None)
    with pytest.raises(UsageError, match="There is no judged run of main yet"):
        case_histories(opened(tmp_path / "nothing"), None)


# What is kept of a run.


def step(kind: StepKind, number: int) -> Step:
    return Step(kind=kind, commit=commit(number), timestamp=STARTED)


@pytest.mark.parametrize(
    ("kinds", "anchors"),
    [
        ("first improved accepted", [1, 2, 3]),
        ("first improved changed improved", [3, 4]),
        ("first renamed improved", [3]),
        ("first removed returned", [1]),
        ("first renamed", []),
        ("", []),
    ],
)
def test_the_anchor_is_the_first_commit_of_the_chain(kinds: str, anchors: list[int]) -> None:
    """The chain's first commit since the work changed, and under the present name; the later ones stand in for it."""
    steps = tuple(step(StepKind(kind), number) for number, kind in enumerate(kinds.split(), 1))
    assert anchors_of(first_entry().model_copy(update={"steps": steps})) == [commit(number) for number in anchors]


def test_each_case_goes_to_its_own_anchor() -> None:
    """Cases with one anchor are measured together; one that was compared with it, or whose head it is, is done."""
    waiting = {"a/a": ["1", "2"], "a/b": ["1"], "a/c": ["3"], "a/d": ["4"], "a/e": []}
    assert by_anchor(waiting, {"a/c": "3"}, head="4") == {"1": ["a/a", "a/b"]}


def test_what_is_kept_of_a_run() -> None:
    """Ratio to the reference and to the anchor, each with its commit; the head's subject and figures; no anchor where none is."""
    anchored = timed(1.2).model_copy(update={"reference_tree": Tree(commit=commit(1))})
    head = Tree(commit=commit(3), subject="softmax: a larger tile")
    run = check_of(timed(1.01), timed(1.0, "copy/a"), day=0, head=3, reference=2, anchors=(anchored,)).model_copy(
        update={"head": head}
    )
    report = judge_run(run, Baseline()).model_copy(update={"profiles": (case_profile(NAME),)})
    kept = history_run(run, report, Baseline(), "https://example.org/1")
    first, second = kept.cases
    assert kept.subject == "softmax: a larger tile"
    assert first.reference is not None
    assert (first.reference.commit, first.reference.ratio) == (commit(2), pytest.approx(1.01))
    assert first.anchor is not None
    assert (first.anchor.commit, first.anchor.ratio) == (commit(1), pytest.approx(1.2))
    assert (second.anchor, second.why) == (None, None)
    assert first.why == "Registers 128 → 255 and 1.2 MB of spills: occupancy halved."
    assert first.profile == shortened(case_profile(NAME))
    assert second.profile is None
    assert (first.median_ms, kept.commit, kept.url) == (pytest.approx(1.005, rel=1e-3), commit(3), "https://example.org/1")


def test_a_run_of_two_environments_is_not_kept() -> None:
    """Its difference is one of packages, which no commit has made: it is refused, with the reason."""
    run = check_of(timed(1.2), day=0, head=3, reference=2)
    differs = (PackageDifference(name="triton", head="3.6.0", reference="3.5.1"),)
    run = run.model_copy(update={"environment": run.environment.model_copy(update={"differs": differs})})
    with pytest.raises(UsageError, match=r"^This run compared two environments, so it is no part of the history of commits\."):
        history_run(run, judge_run(run, Baseline()), Baseline())


def test_what_is_kept_of_a_profile() -> None:
    """The first findings and the counters of the longest launches that stand beside each other; however much it holds, little."""
    flood = "long " * 10_000
    kernel = kernel_profile(metrics={f"m{number}": 1.0 for number in range(5000)}, function=flood)
    short = kernel_profile(duration_s=1e-6, function="short")
    side = Profile(tool="ncu", kernels=(short, kernel, short, kernel, kernel), warnings=(flood,) * 50)
    finding = case_profile().findings[0].model_copy(update={"what": flood, "why": flood, "advice": flood})
    whole = case_profile(head=side, reference=side, findings=(finding,) * 50, steps_down=(flood,) * 50)
    kept = shortened(whole)
    assert len(kept.model_dump_json(exclude_none=True)) < 16_000
    assert [len(one.kernels) if one else 0 for one in (kept.head, kept.reference)] == [3, 3]
    assert "short" not in kept.model_dump_json()
    assert (kept.files, kept.head_tree, len(kept.findings)) == ({}, None, 3)
    small = case_profile()
    assert [table.rows for table in tables(shortened(small))] == [table.rows for table in tables(small)]
    assert shortened(small).causes[0].what == small.causes[0].what


def test_all_that_is_kept_of_a_profile() -> None:
    """Of a launch its counters, of a side its first warnings, and why one failed; every text is clean, and the rest is gone."""
    spoken = f"one\x1b[31m {'long ' * 200}"
    heard = clean(spoken)
    limit = {"occupancy_limiter": spoken, "stalls": {"s": 1.0}, "flops": {"f": 1.0}, "metrics": {"m": 1.0}}
    rule = ProfilerRule(name="r", title="t", message="m")
    kernel = kernel_profile(name=spoken, function=spoken, peaks=Peaks(dram_bytes_per_s=1.0), rules=(rule,), **limit)
    traces = traced(10, 1e-5).activity
    side = Profile(tool="ncu", kernels=(kernel,), activity=traces, warnings=(spoken, "two", "three", "four"))
    whole = case_profile(head=side, reference=None, failed={"reference": spoken}, steps_down=(spoken, "a", "b", "c"), findings=())
    kept = shortened(whole)
    assert kept == whole.model_copy(
        update={
            "head": Profile(
                tool="ncu",
                kernels=(kernel_profile(name=heard, function=heard, occupancy_limiter=heard),),
                warnings=(heard, "two", "three"),
            ),
            "failed": {"reference": heard},
            "steps_down": (heard, "a", "b"),
            "head_tree": None,
            "reference_tree": None,
            "files": {},
        }
    )
    assert heard.startswith("one long long")
    assert 390 < len(heard) <= 400
    free = shortened(case_profile(head=Profile(tool="ncu", kernels=(kernel_profile(occupancy_limiter=None),)), reference=None))
    assert free.head is not None
    assert free.head.kernels[0].occupancy_limiter is None


def test_what_is_kept_of_traced_times() -> None:
    """The five longest of the traced times and the sum of all stay as they were; the others become one."""
    times = {f"aten::op{number}": (20 - number) * 1e-6 for number in range(15)}
    whole = case_profile(head=traced(10, 1e-5, kernels=times), reference=traced(5, 1e-5, kernels=times), findings=())
    (before,), (after,) = tables(whole), tables(shortened(whole))
    assert set(before.rows) - set(after.rows) == {before.rows[6]}
    assert [row.title for row in after.rows if row not in before.rows] == ["all others"]


def test_an_unfit_anchor_counts_for_nothing() -> None:
    """What was measured of the anchor on a machine that was not fit, or with a failure, is no ratio."""
    anchored = timed(1.2).model_copy(update={"reference_tree": Tree(commit=commit(1)), "unfit": "The GPU is shared."})
    run = check_of(timed(1.01), day=0, head=3, reference=2, anchors=(anchored,))
    assert history_run(run, judge_run(run, Baseline()), Baseline()).cases[0].anchor is None


@pytest.mark.parametrize(("chain", "ratio"), [([3], 1.0), ([2], 1.01)])
def test_a_run_of_the_anchor_itself(chain: list[int], ratio: float) -> None:
    """A run whose commit became the anchor is 1; one whose reference it is takes that ratio, and nothing is measured twice."""
    steps = tuple(step(StepKind.FIRST, number) for number in chain)
    baseline = stored({NAME: first_entry().model_copy(update={"steps": steps})})
    run = check_of(timed(1.01), day=0, head=3, reference=2)
    (case,) = history_run(run, judge_run(run, baseline), baseline).cases
    assert case.anchor is not None
    assert (case.anchor.commit, case.anchor.ratio) == (commit(chain[0]), pytest.approx(ratio))
    if chain == [3]:
        assert case.anchor == RatioTo(commit=commit(3), ratio=1, low=1, high=1, pairs=0)


def test_an_identical_case_has_the_ratio_1() -> None:
    """What was proven identical was not timed, and its ratio is exactly 1, to the reference and to an anchor."""
    same = {"head": (), "reference": (), "identity": {"head": "a", "reference": "a"}, "performance": None}
    case = timed(1.0, **same)
    anchored = case.model_copy(update={"reference_tree": Tree(commit=commit(1))})
    run = check_of(case, day=0, head=3, reference=2, anchors=(anchored,))
    (kept,) = history_run(run, judge_run(run, Baseline()), Baseline()).cases
    assert kept.outcome is Outcome.IDENTICAL
    assert kept.reference == RatioTo(commit=commit(2), ratio=1, low=1, high=1, pairs=0)
    assert kept.anchor == RatioTo(commit=commit(1), ratio=1, low=1, high=1, pairs=0)
    baseline = stored({NAME: first_entry(git_commit=commit(3))})
    run = check_of(case, day=0, head=3, reference=2)
    (kept,) = history_run(run, judge_run(run, baseline), baseline).cases
    assert kept.anchor == RatioTo(commit=commit(3), ratio=1, low=1, high=1, pairs=0)


def test_the_figures_of_the_head_are_kept() -> None:
    """Time, rates, memory and share of a roof are those of the report, to seven digits; a case without a head has none."""
    figures = performance(1 / 3).model_copy(update={"throughput_gflops": 2e5 / 3, "bandwidth_gb_s": 1e3 / 3})
    copy = timed(1.0, "copy/a", performance=figures, reference_performance=figures)
    run = check_of(copy, timed(1.0, performance=figures), gone("a/gone"), day=0, head=3, reference=2)
    report = judge_run(run, Baseline())
    for kept, verdict in zip(history_run(run, report, Baseline()).cases[:2], report.cases, strict=False):
        head = verdict.head
        assert head is not None
        assert (kept.roof, kept.peak_memory_bytes) == (head.roof, head.peak_memory_bytes) == ("copy", 192 * 2**20)
        for name in ("median_ms", "share_of_roof", "gflops", "gb_s"):
            exact, short = getattr(head, name), getattr(kept, name)
            assert short == float(f"{exact:.7g}") != exact
    without = history_run(run, report, Baseline()).cases[2]
    assert (without.roof, without.median_ms, without.gflops, without.gb_s, without.workload) == (None, None, None, None, "")
    assert (without.share_of_roof, without.peak_memory_bytes) == (None, None)


def test_a_run_keeps_the_digest_of_each_workload() -> None:
    """Twelve hexadecimal digits, the same in every version, tell whether two runs did the same work."""
    other = WORKLOAD.model_copy(update={"flops": 1.0})
    run = check_of(timed(1.0), timed(1.0, "copy/a"), timed(1.0, "a/b", workload=other), day=0, head=3)
    one, same, differs = (case.workload for case in history_run(run, judge_run(run, Baseline()), Baseline()).cases)
    assert one == same == "4ccfad058a47"
    assert len(differs) == 12
    assert differs != one


@pytest.mark.parametrize(
    ("case", "reference"),
    [
        (timed(1.0), None),
        (timed(1.0), Tree(commit="")),
        (compared(1.0, 1.0), Tree(commit=commit(2))),
        (timed(1.0, reference=()), Tree(commit=commit(2))),
    ],
    ids=["alone", "no commit", "two pairs", "no reference"],
)
def test_a_run_beside_no_commit_has_no_ratio(case: CaseRun, reference: Tree | None) -> None:
    """A case that was timed alone, too rarely, or beside a tree that no commit names, is kept with its time alone."""
    run = check_of(case, day=0, head=3).model_copy(update={"reference": reference})
    (kept,) = history_run(run, judge_run(run, Baseline()), Baseline()).cases
    assert (kept.reference, kept.anchor) == (None, None)
    assert kept.median_ms is not None


def test_the_ratio_of_a_run_is_the_one_that_decided() -> None:
    """A case that is slow now and then is kept with the ratio of its mean, which made it red."""
    slow_now_and_then = tuple(blocks(pair, *([1.0] * 7), 3.0) for pair in range(40))
    usual = tuple(blocks(pair, *([1.0] * 8)) for pair in range(40))
    run = check_of(timed(1.0, head=slow_now_and_then, reference=usual), day=0, head=3, reference=2)
    (kept,) = history_run(run, judge_run(run, Baseline()), Baseline()).cases
    assert kept.outcome is Outcome.REGRESSED
    assert kept.reference is not None
    assert kept.reference.ratio == pytest.approx(1.25, rel=1e-2)
    assert kept.reference.low < kept.reference.ratio < kept.reference.high
    assert kept.reference.pairs == 40


# The long-run index.


def test_index_counts_from_the_anchor() -> None:
    """The index of a run is its ratio to the anchor, not a product of the ratios between."""
    series = only_series([run_at(day, 2 + day, case_of(to(1, 1 + day / 100))) for day in range(5)])
    assert [point.index for point in series.points] == [1 + day / 100 for day in range(5)]
    assert {(point.segment, point.seam, point.bridged) for point in series.points} == {(0, None, False)}
    assert series.hardware == "NVIDIA H200"


def test_runs_stand_in_the_order_of_their_time() -> None:
    """Whatever their files are called, earlier runs come first; of two that began at once, the one whose file comes first."""
    times = {"c": 0, "b": 1, "d": 1, "a": 2}
    rows = [(name, run_at(day, 2, case_of(to(1, 1.0)))) for name, day in times.items()]
    for given in (rows, rows[::-1]):
        assert [point.run for point in series_of(NAME, [(name, run, run.cases[0]) for name, run in given]).points] == [*times]


def test_times_of_commits_are_shown_in_one_zone() -> None:
    """Of commits that were made in several time zones, a list shows the times in UTC, so that they rise."""
    zones = {9: datetime(2026, 11, 1, 8), -5: datetime(2026, 10, 31, 20), 0: datetime(2026, 11, 1, 2)}  # noqa: DTZ001
    runs = [
        run_at(0, 2, case_of(None)).model_copy(update={"placed_at": at.replace(tzinfo=timezone(timedelta(hours=hours)))})
        for hours, at in zones.items()
    ]
    lines = case_lines(only_series(runs), 3)[-3:]
    assert [line[2:18] for line in lines] == ["2026-10-31 23:00", "2026-11-01 01:00", "2026-11-01 02:00"]


def test_a_case_without_a_run_has_an_empty_series() -> None:
    """It has no points, no hardware and no commit that its index counts from."""
    assert series_of(NAME, []) == Series(case=NAME, hardware="", points=(), runs=0, origin=None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (to(1, 1.2), case_of(to(2, 1.5)), (pytest.approx(1.2 * 1.5), 0, True)),  # its head was measured before
        (to(1, 1.2), case_of(to(7, 2.0)), (pytest.approx(1.2 / 1.5 * 2), 0, True)),  # and its reference
        (to(1, 1.2), case_of(to(9, 1.5)), (1.5, 1, False)),  # this one never was
        (to(1, 1.2), case_of(to(2, 1.5), workload="x"), (1.5, 1, False)),  # other work does not compare, whatever was measured
    ],
    ids=["a head", "a reference", "unknown", "other work"],
)
def test_a_new_anchor(first: RatioTo, second: HistoryCase, expected: tuple[float, int, bool]) -> None:
    """After an anchor that no longer builds the index goes on by a commit that was measured beside it, and else starts anew."""
    runs = [run_at(0, 2, case_of(first, reference=to(7, 1.5))), run_at(1, 3, second)]
    _, found = only_series(runs).points
    assert (found.index, found.segment, found.bridged) == expected
    assert ("starts anew" in found.seam) is not found.bridged


def test_a_seam_says_all_that_changed() -> None:
    """The work, the first three differences of the machine and the anchor, each where it changed, and what that means."""
    changes = {"driver": "570.1", "cuda": "12.8", "torch": "2.8", "triton": "3.4"}
    other = FINGERPRINT.model_copy(update=changes)
    software = "another machine or software (driver: 570.1 here, 580.95.05 there; cuda: 12.8 here, 13.0 there; torch: "
    software += "2.8 here, 2.9.1+cu130 there)"
    first = run_at(0, 2, case_of(to(1, 1.2)))
    _, anew = only_series([first, run_at(1, 3, case_of(to(9, 1.0), workload="x"), machine=other)]).points
    assert anew.seam == (
        f"The work itself changed at {commit(3)[:10]}; {software}; the anchor was {commit(1)[:10]} and is {commit(9)[:10]}. "
        "No commit known before was measured again, so the index starts anew."
    )
    known = run_at(1, 3, case_of(to(1, 1.2), reference=to(2, 1.0)), machine=other)
    _, goes_on = only_series([first, known]).points
    assert goes_on.seam == (
        f"{software[0].upper()}{software[1:]}. A commit known before was measured again, so the index goes on."
    )


@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_other_driver_is_bridged_by_both_anchors(slower: float) -> None:
    """After an update that slows the head against the old anchor, the commit known before keeps the index where it was.

    Under the new driver commit 2 takes 1.5 times as long as the anchor 1; before it took 1.2 times as long. Commit 3 takes
    ``slower`` times as long as commit 2.
    """
    runs = [
        run_at(0, 2, case_of(to(1, 1.2))),
        run_at(1, 3, case_of(to(1, 1.5 * slower), reference=to(2, slower)), machine=OTHER_DRIVER),
        run_at(2, 4, case_of(to(2, 1.1)), machine=OTHER_DRIVER),
    ]
    _, second, third = only_series(runs).points
    assert second.index == pytest.approx(1.2 * slower)
    assert second.bridged
    assert "driver" in (second.seam or "")
    assert third.index == pytest.approx(1.32)
    assert third.bridged


def history_of_breaks(length: int) -> list[HistoryRun]:
    """Runs with anchors, drivers and workloads that come and go, whose reference is sometimes a commit known before."""
    random = Random(7)
    anchor, runs = 1, []
    for day in range(length):
        anchor = random.choice((1, 2, day + 1)) if random.random() < 0.1 else anchor
        reference = to(random.choice((day, 1 + day // 2)), random.uniform(0.9, 1.1)) if day and random.random() < 0.7 else None
        measured = to(anchor, random.uniform(0.9, 1.1)) if random.random() < 0.9 else None
        case = case_of(measured, reference=reference, workload="v" if random.random() < 0.02 else "w")
        runs.append(run_at(day, day + 1, case, machine=OTHER_DRIVER if random.random() < 0.2 else FINGERPRINT))
    return runs


@pytest.mark.no_cover
@pytest.mark.parametrize("last", [1, 40, None])
def test_the_index_reads_no_more_than_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int | None) -> None:
    """The latest points are those of the whole series, whatever came before, and only their cases and runs are read whole.

    So it is where the files were added in another order than they were measured in.
    """
    runs = history_of_breaks(200)
    folder = tmp_path / "history"
    for part in (runs[1::2], runs[::2]):
        for run in part:
            append(folder, run)
        opened(folder)
    history, whole = opened(folder), only_series(runs)
    read = []
    real = HistoryCase.model_validate_json
    monkeypatch.setattr(HistoryCase, "model_validate_json", lambda text: read.append(text) or real(text))
    series = history.series(NAME, FINGERPRINT.hardware, last)
    assert series == whole.model_copy(update={"points": whole.points[-last if last else 0 :]})
    assert len(read) == len(series.points)
    assert len({point.segment for point in whole.points}) > 2
    assert {point.bridged for point in whole.points} == {True, False}


def test_a_case_without_a_run_is_gone(tmp_path: Path) -> None:
    """A case whose only run was deleted is no case of the history."""
    folder = tmp_path / "history"
    append(folder, run_at(0, 1, case_of(None)))
    other = append(folder, run_at(1, 2, case_of(None, name="copy/a")))
    assert [case.name for case in opened(folder).cases()] == [NAME, "copy/a"]
    other.unlink()
    assert [case.name for case in opened(folder).cases()] == [NAME]


# In the terminal.


def eventful() -> Any:
    """A case that gets faster, loses an anchor, meets another driver, and is muted in the end."""
    ratios = (1.0, 1.001, 0.999, 0.9, 0.901, 0.95)
    runs = [run_at(day, 1 + day, case_of(to(1, ratio), reference=to(max(1, day), 1.0))) for day, ratio in enumerate(ratios)]
    runs.append(run_at(6, 7, case_of(to(4, 1.06), reference=to(6, 1.0), share_of_roof=0.93, gb_s=3912.0), machine=OTHER_DRIVER))
    runs.append(run_at(7, 8, case_of(None, outcome=Outcome.SKIPPED, median_ms=None), machine=OTHER_DRIVER))
    muted = {"muted": "Until 2026-12-01 by @jo: waits for driver 591", "outcome": Outcome.REGRESSED}
    runs.append(run_at(8, 9, case_of(to(4, 1.2), reference=to(7, 1.13), peak_memory_bytes=2**26, **muted), machine=OTHER_DRIVER))
    return only_series(runs)


def test_lines(golden: Callable[[str, str], None]) -> None:
    """The table of all cases and the runs of one are as written down; breaks and mutes are said."""
    hostile = only_series([run_at(0, 1, case_of(to(1, 1.0), muted=HOSTILE))])
    lines = [*overview_lines([eventful(), hostile]), "", *case_lines(eventful(), 6), "", *case_lines(hostile, 6)]
    golden("history.txt", "\n".join([*lines, *problem_lines(["a.json is not JSON.", "b.json is not JSON."]), ""]))


def test_trend_of_noise_stays_low() -> None:
    """A series that moves by a thousandth fills no line with bars; one without an anchor is drawn by its times."""
    quiet = only_series([run_at(day, 2 + day, case_of(to(1, 1 + day % 2 / 1000))) for day in range(4)])
    assert trend(quiet.points) == "▁▁▁▁"
    times = only_series([run_at(day, 2 + day, case_of(None, median_ms=1.0 + day)) for day in range(3)])
    assert trend(times.points) == "▁▅█"


# On a branch.


def test_a_branch_is_read_without_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs are read, of a subfolder's project those below it; what cannot be read is named, other files do not matter."""
    runs = [run_at(day, 2 + day, case_of(to(1, 1.0))) for day in range(3)]
    files = {name_of(run): text_of(run) for run in runs}
    names = sorted(files)
    files |= {names[0]: files[names[0]][:100], "README.md": "hello", f"sub/{names[1]}": files[names[1]]}
    new_repository(tmp_path / "repo", files)
    repository = Repository(tmp_path / "repo")
    history = History([BranchFiles(repository, repository.head(), "")], None)
    assert history.names() == names[1:]
    assert [names[0] in problem for problem in history.problems] == [True]
    assert [run.commit for run in map(history.run, names[1:])] == [commit(3), commit(4)]
    assert History([BranchFiles(repository, repository.head(), "sub")], None).names() == [names[1]]
    monkeypatch.setattr("ratchet.history.command.LARGEST_RUN_BYTES", 200)
    assert "larger than 16 MiB" in History([BranchFiles(repository, repository.head(), "")], None).problems[1]


def test_a_clone_that_lacks_objects(tmp_path: Path) -> None:
    """A branch whose files are not in the clone is a sentence, not a shorter history."""
    run = run_at(0, 2, case_of(to(1, 1.0)))
    new_repository(tmp_path / "repo", {name_of(run): text_of(run)})
    repository = Repository(tmp_path / "repo")
    files = BranchFiles(repository, repository.head(), "")
    ((_, blob),) = files.listed().items()
    (tmp_path / "repo" / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError, match="lacks objects of its own"):
        History([files], None)
