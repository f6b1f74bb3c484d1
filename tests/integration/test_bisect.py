"""`ratchet bisect` in a repository with a planted slowdown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.core.records.files import load
from ratchet.core.records.verdict import Outcome, ReportRecord
from ratchet.history.bisection import SearchRecord
from tests.integration.playground import PATIENCE_S, Finished, Playground, new_repository, wait_until
from tests.once import once

BENCH = """\
import torch
from ratchet import Workload, benchmark
from work import work


@benchmark(configs={"small": {}}, devices=("cpu",))
def adds(*, device):
    x = torch.ones(16)
    return Workload(run=lambda: work(x), reference=lambda: x.double() + 1, dtype="float32", flops=16, bytes=128)
"""
WORK = "import time\n\n\ndef work(x):\n    time.sleep(0.002)\n    return x + 1\n"
SLOW = WORK.replace("0.002", "0.003")
BUILD = {"build.py": "raise SystemExit(0)\n"}
QUICK = ("--device", "cpu", "--pairs", "20", "--blocks", "2", "--budget", "0")


@dataclass(frozen=True)
class Searched:
    """A search that was killed after its first commits, and then gone on with."""

    play: Playground
    commits: dict[str, str]
    """Subject → commit."""
    before: SearchRecord
    """The state that the kill left."""
    done: Finished

    @property
    def search(self) -> SearchRecord:
        return load(_state(self.play), SearchRecord)


def _state(play: Playground) -> Path:
    (path,) = play.repo.glob("results/bisect/*/search.json")
    return path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    done: Searched = once(tmp_path_factory, "bisect", _killed_and_gone_on_with)
    return done


def _killed_and_gone_on_with(folder: Path) -> Searched:
    files = {"bench/adds.py": BENCH.replace("def adds", "def earlier"), "work.py": WORK, **BUILD}
    new_repository(folder / "repo", files, settings='build = "python3 build.py"\n')
    play, commits = Playground(folder), {}
    for subject, change in (
        ("same code as GOOD", {"work.py": f"# of no matter\n{WORK}"}),
        ("does not build", {"build.py": "raise SystemExit('no compiler')\n"}),
        ("other code", {"work.py": WORK.replace("return x + 1", "return 1 + x"), **BUILD}),
        ("slower", {"work.py": SLOW}),
        ("same code as BAD", {"work.py": f"# of no matter\n{SLOW}"}),
        ("the same files again", {"work.py": SLOW}),
        ("documents", {"notes.md": "of no matter\n"}),
        ("a benchmark that no earlier commit had", {"bench/adds.py": BENCH}),
    ):
        commits[subject] = play.commit(change, subject)
    child = play.start("bisect", "adds/small", "HEAD~8", *QUICK)
    saved = lambda: list(play.repo.glob("results/bisect/*/search.json"))  # noqa: E731
    wait_until(lambda: saved() or child.poll() is not None, "nothing was measured", PATIENCE_S)
    child.kill()
    child.communicate()
    before = load(_state(play), SearchRecord)
    return Searched(play, commits, before, play.ratchet("bisect", "adds/small", "HEAD~8", *QUICK))


def test_the_planted_slowdown_is_named(searched: Searched) -> None:
    """The search exits 1 and names the one commit that made the case slower, though no commit of the range had the benchmark."""
    done, found, parent = searched.done, searched.commits["slower"], searched.commits["other code"]
    assert done.code == 1, done
    assert f'This commit made adds/small slower:\n  {found[:10]} "slower"' in done.out
    assert f"ratchet bisect adds/small {parent[:10]} {found[:10]} --again" in done.out
    report = load(_state(searched.play).with_name("report.json"), ReportRecord)
    assert (report.reference.commit, report.head.commit) == (parent, found)
    assert report.counts == {Outcome.REGRESSED: 1}


def test_only_commits_with_other_code_are_timed(searched: Searched) -> None:
    """A commit that does not build is skipped; those with the code of GOOD are looked at, and not timed."""
    search, subjects = searched.search, {commit: subject for subject, commit in searched.commits.items()}
    timed = {subjects[one.tree.commit] for one in search.looked_at if one.comparison}
    skipped = {subjects[one.tree.commit] for one in search.looked_at if one.verdict == "skipped"}
    assert timed == {"a benchmark that no earlier commit had", "other code", "slower"}
    assert skipped == {"does not build"}
    assert "same code as GOOD" in {subjects[one.tree.commit] for one in search.looked_at}
    searched.play.assert_clean()


def test_a_killed_search_goes_on_where_it_was(searched: Searched) -> None:
    """What was measured before kill -9 is not measured again, and stays in the state file as it was."""
    kept = len(searched.before.looked_at)
    assert kept >= 1
    assert searched.search.looked_at[:kept] == searched.before.looked_at
    commits = [one.tree.commit for one in searched.search.looked_at]
    assert len(commits) == len(set(commits))


@pytest.mark.slow
def test_a_search_gives_way_to_a_check(make: Callable[..., Playground]) -> None:
    """A check that comes meanwhile gets the device; the search then goes on, keeps what it has measured, and finds the commit."""
    steps = [{"work.py": WORK}, {"work.py": f"{WORK}# a\n"}, {"work.py": SLOW}, {"work.py": f"{SLOW}# b\n"}]
    play = make({"bench/adds.py": BENCH, "work.py": f"# first\n{WORK}"}, *steps)
    child = play.start("bisect", "adds/small", "HEAD~4", *QUICK, "--gives-way", "--wait", "20m")
    holds = lambda: any("bisect" in note.read_text() for note in play.temp.glob("ratchet-*.json"))  # noqa: E731
    wait_until(lambda: holds() or child.poll() is not None, "the search never held the device", PATIENCE_S)
    checked = play.ratchet("check", "adds/small", "--base", "HEAD~1", *QUICK[:4])
    assert set(checked.outcomes()) == {"adds/small"}
    done = play.finish(child, PATIENCE_S)
    assert "This search pauses and continues when that run is done." in done.err
    assert done.code == 1, done
    assert play.git("rev-parse", "--short=10", "HEAD~1") in done.out


def test_ranges_that_cannot_be_searched_are_refused(make: Callable[..., Playground]) -> None:
    """Unknown, equal, swapped and unrelated commits, several cases, an unknown case and too few pairs: one sentence, exit 2."""
    play = make(
        {"bench/adds.py": BENCH + BENCH.partition("\n\n\n")[2].replace("adds", "more"), "work.py": WORK}, {"notes.md": "x\n"}
    )
    play.git("checkout", "--quiet", "--orphan", "other")
    play.commit({"notes.md": "y\n"}, "another root")
    play.git("checkout", "--quiet", "main")
    for words, sentence in (
        (("adds/small", "nowhere"), "nowhere names no commit"),
        (("adds/small", "main"), "GOOD and BAD are the same commit"),
        (("adds/small", "main", "main~1"), "is not an ancestor of BAD"),
        (("adds/small", "other"), "is not an ancestor of BAD"),
        (("adds/small", "main~1", "main", "--pairs", "12"), "A search takes 20 pairs or more, not 12."),
        (("small", "main~1"), "small names 2 cases: adds/small, more/small."),
        (("nothing", "main~1"), "nothing"),
    ):
        done = play.ratchet("bisect", "--device", "cpu", *words)
        assert done.code == 2, done
        assert sentence in done.sentence
    assert "Swap them" in play.ratchet("bisect", "adds/small", "main", "main~1").sentence


def test_a_wrong_name_is_refused_where_nothing_is_timed(make: Callable[..., Playground]) -> None:
    """Commits with the same files need no measurement, but their case has to exist, and to be the only one of that name."""
    play = make({"bench/adds.py": BENCH, "work.py": WORK}, {"bench/adds.py": f"{BENCH}\n"})
    wrong = play.ratchet("bisect", "adds/smal", "HEAD~1", "--device", "cpu")
    assert wrong.code == 2, wrong
    assert "adds/smal" in wrong.sentence
    assert "Did you mean adds/small?" in wrong.sentence
    right = play.ratchet("bisect", "adds/small", "HEAD~1", "--device", "cpu")
    assert right.code == 0, right
    assert "It has the same files as GOOD." in right.err


def test_without_a_change_there_is_nothing_to_search_for(make: Callable[..., Playground]) -> None:
    """BAD with the code of GOOD: exit 0, nothing is timed, BAD is looked at once; a damaged state is made anew."""
    play = make({"bench/adds.py": BENCH, "work.py": WORK}, {"work.py": SLOW}, {"work.py": f"# as before\n{WORK}"})
    done = play.ratchet("bisect", "adds/small", "HEAD~2", "--device", "cpu")
    assert done.code == 0, done
    assert "adds/small: there is no change to search for." in done.out
    kept = load(_state(play), SearchRecord)
    assert len(kept.looked_at) == 1
    again = play.ratchet("bisect", "adds/small", "HEAD~2", "--device", "cpu")
    assert "1 of them were looked at before" in again.err
    assert "Importing benchmarks" not in again.err
    _state(play).write_text('{"schema_version": 99}', encoding="utf-8")
    damaged = play.ratchet("bisect", "adds/small", "HEAD~2", "--device", "cpu")
    assert "The search starts from the beginning." in damaged.err
    assert (again.code, damaged.code) == (0, 0)
    assert load(_state(play), SearchRecord).looked_at == kept.looked_at


def test_ends_that_do_not_build_cannot_be_searched(make: Callable[..., Playground]) -> None:
    """GOOD or BAD that does not build ends the search with a sentence that names the side, and exit 3."""
    broken = {"build.py": "raise SystemExit('no compiler')\n"}
    play = make({"bench/adds.py": BENCH, "work.py": WORK, **broken}, BUILD, broken, settings='build = "python3 build.py"\n')
    for words in (("HEAD~2", "HEAD~1"), ("HEAD~1", "HEAD")):
        done = play.ratchet("bisect", "adds/small", *words, "--device", "cpu")
        assert done.code == 3, done
        assert "no compiler" in done.sentence


@pytest.mark.slow
def test_a_merge_and_a_change_in_two_parts(make: Callable[..., Playground]) -> None:
    """The merge that crosses half of the change is one step; commands search the merged branch, and the part elsewhere.

    The times are those that another harness reports, the same in every process.
    """

    def times(ms: float) -> dict[str, str]:
        return {"times.json": json.dumps({"unit": "ms", "benchmarks": {"copy": [ms] * 3}})}

    settings = 'command = "cp times.json {out}"\nformat = "json"\ndevice = "cpu"\n'
    play = make(times(0.5), {"notes.md": "x\n"}, settings=settings)
    play.git("checkout", "--quiet", "-b", "topic", "HEAD~1")
    play.commit(times(0.55), "slower in a branch")
    play.git("checkout", "--quiet", "main")
    play.git("merge", "--quiet", "--no-ff", "-m", "merged", "topic")
    first, merge, topic = (play.git("rev-parse", "--short=10", name) for name in ("HEAD~2", "HEAD", "topic"))
    last = play.commit(times(0.6), "slower again")[:10]
    done = play.ratchet("bisect", "copy/default", first, "--pairs", "20", "--blocks", "2")
    assert done.code == 1, done
    assert f'This commit made copy/default slower:\n  {merge} "merged"' in done.out
    assert f"to search the merged branch: ratchet bisect copy/default {first} {topic}" in done.out
    assert f"+9.1 % of +20 % are elsewhere: ratchet bisect copy/default {merge} {last}" in done.out
