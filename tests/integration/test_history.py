"""The history from checks of main to `ratchet history`: the anchor is measured, runs are kept in a folder and on a branch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ratchet.history.records import Series
from tests.integration.playground import (
    ADDS,
    QUICK,
    SETTINGS,
    SLOW_ADDS,
    Finished,
    Playground,
    new_repository,
    only_json,
)

NAME = "adds/small"
LENIENT = ("--gate", "90%", "--improvement", "60%", "--on-inconclusive", "pass")


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    """Four commits of main, each measured and recorded: slow; fast, and accepted, so that the baseline moved; the same twice.

    The first one, the anchor, is built by a command that fails once the last one is measured.
    """
    folder = tmp_path_factory.mktemp("history")
    needed = folder / "needed"
    needed.touch()
    built = f'build = ["test", "-f", "{needed}"]\n'
    new_repository(folder / "repo", {"bench/adds.py": SLOW_ADDS, "pyproject.toml": SETTINGS + built})
    play = Playground(folder)
    play.commit({"notes.txt": "1\n"}, "slow")
    done(play.ratchet("check", *QUICK))
    done(play.ratchet("baseline", "record"))
    play.commit({"bench/adds.py": ADDS, "pyproject.toml": SETTINGS}, "fast")
    done(play.ratchet("check", *QUICK, *LENIENT, "--against-baseline"))
    done(play.ratchet("baseline", "record"))
    done(play.ratchet("baseline", "accept", NAME, "--reason", "it is faster"))
    play.commit({"notes.txt": "3\n"}, "same")
    done(play.ratchet("check", *QUICK, *LENIENT, "--against-baseline"))
    done(play.ratchet("baseline", "record"))
    needed.unlink()
    play.commit({"notes.txt": "4\n"}, "last")
    done(play.ratchet("check", *QUICK, *LENIENT, "--against-baseline"))
    done(play.ratchet("baseline", "record"))
    return play


def done(finished: Finished) -> None:
    assert finished.code == 0, finished


def series(play: Playground, *words: str) -> Series:
    """The series of the one case."""
    answer = only_json(play.ratchet("history", NAME, "--json", *words).out)
    assert answer["problems"] == []
    (only,) = answer["series"]
    return Series.model_validate(only)


def test_every_run_is_measured_against_the_first_commit(moved: Playground) -> None:
    """The first recorded commit stays the anchor when the baseline moves on: later runs are timed against it once more."""
    first, second, third, last = series(moved).points
    commits = moved.git("log", "--format=%H", "--reverse").split()
    anchor = first.commit
    assert [point.commit for point in (first, second, third, last)] == commits[1:]
    assert {point.case.anchor.commit for point in (first, second, third) if point.case.anchor} == {anchor}
    assert first.index == 1
    assert third.case.reference is not None
    assert third.case.reference.commit == second.commit
    for point in (second, third):
        assert point.index is not None
        assert point.index < 0.6
    assert moved.git("status", "--porcelain", "--untracked-files=no") == ""


def test_an_anchor_that_no_longer_builds(moved: Playground) -> None:
    """The next commit of the chain takes its place, with a mark; since that one was measured against the old anchor, the index
    goes on.
    """
    _, second, _, last = series(moved).points
    assert last.case.anchor is not None
    assert last.case.anchor.commit == second.commit
    assert (last.bridged, last.segment) == (True, 0)
    assert last.seam is not None
    assert last.index == pytest.approx((second.index or 0) * last.case.anchor.ratio)


def test_history_in_a_terminal(moved: Playground) -> None:
    """Without a case there is a line for each, with its trend; with one, a line for each run; an unknown one is a sentence."""
    overview = moved.ratchet("history").out.splitlines()
    assert overview[2].split()[:2] == [NAME, "4"]
    assert overview[2].endswith("█▁▁▁")
    lines = moved.ratchet("history", "adds/*", "--last", "2").out.splitlines()
    assert lines[0].startswith(f"{NAME} on ")
    assert [line.split()[-1] for line in lines[3:]] == ["same", "on.", "last"]
    assert "Did you mean adds/small?" in moved.ratchet("history", "adds/smal").sentence


def test_no_history_is_a_sentence(play: Playground) -> None:
    """Where nothing was recorded yet, the commands say what to do, and exit with 2; pages of earlier runs stay as they were."""
    page = play.repo / "results" / "site" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("assets/site.js", encoding="utf-8")
    for command in ("history", "site"):
        none = play.ratchet(command)
        assert none.code == 2
        assert none.sentence.startswith("There is no judged run of main yet. `--fetch` brings those")
    assert page.read_text(encoding="utf-8") == "assets/site.js"
    assert list(page.parent.iterdir()) == [page]


def test_the_history_as_pages(moved: Playground, tmp_path: Path) -> None:
    """`ratchet history --html` writes an overview, a page for the case and one for each run, and leaves the checkout as it is."""
    runs = len(series(moved).points)
    answer = only_json(moved.ratchet("site", "--json").out)
    site = moved.repo / "results" / "site"
    assert answer == {"overview": str(site / "index.html"), "cases": 1, "runs": runs, "problems": []}
    assert len(list((site / "case").iterdir())) == 1
    assert len(list((site / "run").iterdir())) == runs
    assert moved.git("status", "--porcelain", "--untracked-files=no") == ""
    elsewhere = moved.ratchet("site", "--out", str(tmp_path / "pages"), "--title", "Adds & <more>")
    assert elsewhere.out.startswith(f"1 case, {runs} runs: ")
    assert "<h1>Adds &amp; &lt;more&gt;</h1>" in (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")


def test_a_copied_history_needs_no_git(moved: Playground, tmp_path: Path) -> None:
    """A results folder that was downloaded has its table and its pages, outside any repository too."""
    shutil.copytree(moved.repo / "results" / "history", tmp_path / "results" / "history")
    table, pages = (moved.ratchet(command, "--repo", str(tmp_path)) for command in ("history", "site"))
    assert (table.code, pages.code) == (0, 0), (table, pages)
    assert table.out.splitlines()[2].split()[:2] == [NAME, "4"]
    assert (tmp_path / "results" / "site" / "index.html").is_file()
    assert moved.ratchet("history", "--repo", str(tmp_path / "results" / "site")).code == 2
