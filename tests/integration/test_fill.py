"""`ratchet history fill` through a repository with planted changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.history.fill import CHANGES
from ratchet.history.fill_records import FilledCommit, FillRecord
from ratchet.history.records import HistoryRun
from tests.integration.playground import Finished, Playground, new_repository
from tests.once import once

BENCH = """\
import torch
from ratchet import Workload, benchmark
from work import other, work

try:
    from work import broken
except ImportError:
    broken = None


@benchmark(configs={"small": {}}, devices=("cpu",))
def adds(*, device):
    x = torch.ones(16)
    return Workload(run=lambda: work(x), reference=lambda: x.double() + 1, dtype="float32", flops=16, bytes=128)


@benchmark(configs={"small": {}}, devices=("cpu",))
def others(*, device):
    x = torch.ones(16)
    return Workload(run=lambda: other(x), reference=lambda: x.double() + 1, dtype="float32", flops=16, bytes=128)


@benchmark(configs={"small": {}}, devices=("cpu",))
def never(*, device):
    return Workload(run=broken.run, reference=None, dtype="float32", flops=16, bytes=128)
"""
WORK = """\
import time


def work(x):
    time.sleep(0.002)
    return x + 1


def other(x):
    time.sleep(0.002)
    return x + 1
"""
SLOW = WORK.replace("0.002", "0.003", 1)
FAST = WORK.replace("0.002", "0.001", 1)
QUICK = ("--device", "cpu", "--pairs", "20", "--blocks", "2", "--budget", "0", "-v")


@dataclass(frozen=True)
class Filled:
    """A walk in two calls, the first with no time for more than a commit or two."""

    play: Playground
    first: Finished
    done: Finished

    @property
    def record(self) -> FillRecord:
        (path,) = self.play.repo.glob("results/fill/*/fill.json")
        return load(path, FillRecord)

    def commit(self, subject: str) -> FilledCommit:
        return next(one for one in self.record.done if one.tree.subject == subject)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    done: Filled = once(tmp_path_factory, "fill", _filled)
    return done


def _filled(folder: Path) -> Filled:
    new_repository(folder / "repo", {"bench/adds.py": BENCH.replace("def adds", "def earlier"), "work.py": WORK})
    play = Playground(folder)
    for subject, change in (
        ("a document", {"notes.md": "of no matter\n"}),
        ("slower", {"work.py": SLOW}),
        ("does not load", {"work.py": "raise RuntimeError('half a merge')\n"}),
        ("loads again", {"work.py": SLOW}),
        ("faster again", {"work.py": WORK}),
        ("the benchmark", {"bench/adds.py": BENCH}),
    ):
        play.commit(change, subject)
    first = play.ratchet("history", "fill", "HEAD~6..HEAD", "--time", "1s", *QUICK)
    return Filled(play, first, play.ratchet("history", "fill", "HEAD~6..HEAD", *QUICK))


def test_a_change_is_found_at_its_commit_and_confirmed_against_the_anchor(filled: Filled) -> None:
    """The slower commit and the one that undoes it are named, with the anchor that each was measured against once more."""
    slower, faster = (
        {case.name: case for case in filled.commit(name).cases if case.outcome in CHANGES} for name in ("slower", "faster again")
    )
    assert set(slower) == set(faster) == {"adds/small"}, filled.done
    anchor = slower["adds/small"].anchor
    assert anchor
    assert anchor.commit == filled.record.older.commit
    assert slower["adds/small"].confirmed
    assert faster["adds/small"].confirmed
    assert anchor.ratio == pytest.approx(1.5, rel=0.01)
    back = faster["adds/small"].anchor
    assert back
    assert back.commit == anchor.commit
    assert back.ratio == pytest.approx(1, rel=0.01)


def test_a_commit_that_cannot_be_measured_is_passed_over(filled: Filled) -> None:
    """It is recorded as failed with its reason, and the next one is compared with the last that could be measured."""
    broken = filled.commit("does not load")
    assert broken.result == "failed"
    assert "half a merge" in broken.reason
    assert filled.commit("loads again").before == filled.commit("slower").tree.commit
    assert filled.commit("loads again").result == "identical"


def test_a_walk_goes_on_where_its_time_was_used_up(filled: Filled) -> None:
    """The first call ends with 0 and says what is left; the second measures none of what is done, and leaves nothing."""
    assert filled.first.code == filled.done.code == 0, filled
    assert "left" in filled.first.out
    assert "were done before" in filled.done.err
    assert filled.record.left == ()
    assert [one.tree.commit for one in filled.record.done] == list(filled.record.commits)


def test_a_case_that_fails_before_and_after_is_no_change(filled: Filled) -> None:
    """One benchmark works at no commit: it is no case of any, though it fails at each, and hides no other one."""
    measured = [one for one in filled.record.done if one.machine and one.result != "failed"]
    assert measured
    for one in measured:
        assert {*one.same, *(case.name for case in one.cases)} == {"adds/small", "others/small"}, one
        assert one.reason.endswith(" 1 case cannot be measured, as before."), one
        assert "failed" not in one.reason, one


def test_commits_with_the_same_files_are_not_measured(filled: Filled) -> None:
    """The last commit changes nothing but benchmark files, of which all commits have the same."""
    same = filled.commit("the benchmark")
    assert same.result == "identical"
    assert same.machine is None


def test_the_history_and_the_site_show_the_walk(filled: Filled) -> None:
    """The history has a run of each commit that could be measured, whose index rises and falls with the planted change."""
    shown = filled.play.ratchet("history", "adds/small", "--json")
    (series,) = json.loads(shown.out)["series"]
    commits = [one.tree.commit for one in filled.record.done if one.run]
    assert [point["commit"] for point in series["points"]] == commits
    index = {point["subject"]: point["index"] for point in series["points"]}
    assert index["slower"] == index["loads again"] > 1.3 > 1.1 > index["the benchmark"]
    assert filled.play.ratchet("site").code == 0


def test_the_page_lists_changes_and_failures(filled: Filled) -> None:
    """The tables name the two commits that changed the case, and why one failed; the output ends with the path of the page."""
    (page,) = filled.play.repo.glob("results/fill/*/fill.md")
    assert filled.done.out.splitlines()[-1] == f"Page: {page.relative_to(filled.play.repo)}"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ") and not line.startswith("| commit")]
    subjects = ("slower", "faster again", "does not load")
    assert [next((name for name in subjects if name in row), row) for row in rows] == list(subjects), rows
    assert "half a merge" in rows[-1]


def test_a_range_that_is_none_is_refused_with_what_to_write(tmp_path: Path) -> None:
    """One commit, three dots, an empty range and ends in the wrong order each end with 2 and one sentence."""
    new_repository(tmp_path / "repo", {"bench/adds.py": BENCH, "work.py": WORK})
    play = Playground(tmp_path)
    play.commit({"work.py": SLOW}, "slower")
    for span in ("HEAD~1", "HEAD~1...HEAD", "HEAD..HEAD", "HEAD..HEAD~1"):
        done = play.ratchet("history", "fill", span)
        assert done.code == 2, done
        assert done.err.count("ratchet: ") == 1, done


@pytest.mark.slow
def test_commits_that_a_record_proves_the_same_need_no_device(tmp_path: Path) -> None:
    """With --static, a commit that no case notices is not measured, before changes and after them; the changes are.

    Of a commit that one case notices, the others are not measured. Nothing is written down between two changes of what a case
    calls: it would prove nothing.
    """
    runs = BENCH.partition('\n\n@benchmark(configs={"small": {}}, devices=("cpu",))\ndef never')[0]
    new_repository(tmp_path / "repo", {"bench/adds.py": runs, "work.py": WORK})
    play = Playground(tmp_path)
    for subject, change in (
        ("words", {"notes.md": "words\n"}),
        ("more words", {"notes.md": "more words\n"}),
        ("slower", {"work.py": SLOW}),
        ("faster", {"work.py": FAST}),
        ("a tool", {"tool.py": "x = 1\n"}),
    ):
        play.commit(change, subject)
    done = play.ratchet("history", "fill", "HEAD~5..HEAD", "--static", *QUICK)
    assert done.code == 0, done
    walk = Filled(play, done, done).record.done
    assert [(one.tree.subject, one.result, one.machine is None) for one in walk] == [
        ("words", "identical", True),
        ("more words", "identical", True),
        ("slower", "timed", False),
        ("faster", "timed", False),
        ("a tool", "identical", True),
    ]
    assert walk[4].same == ("adds/small", "others/small")
    assert "recorded of" in walk[4].reason
    assert "faster" in walk[4].reason
    assert walk[3].same == ("others/small",)
    assert walk[3].reason.startswith("1 of 2 cases faster")
    history = [load(play.repo / "results/history" / walk[place].run, HistoryRun) for place in (2, 3)]
    assert [[case.name for case in run.cases] for run in history] == [
        ["adds/small", "others/small"],
        ["others/small", "adds/small"],
    ]
    assert history[1].cases[0].median_ms == history[0].cases[1].median_ms
    assert done.err.count("Writing down adds/small") == 2
