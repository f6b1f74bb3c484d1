"""`ratchet baseline …` in real repositories, on runs that were not measured there."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.baseline import local
from ratchet.core.judge.chain import problems
from ratchet.core.records.baseline import Baseline, BaselineEntry
from ratchet.core.records.files import load, save
from ratchet.core.records.run import CaseRun, RunRecord, Tree
from ratchet.core.request import Request
from tests import examples
from tests.history_examples import gone, new, timed
from tests.integration.playground import Playground, only_json

NAME = "attention/training_512"
REASON = ("--reason", "masked rows were wrong")


class Ledger:
    """A repository of several commits, with runs of them."""

    def __init__(self, play: Playground) -> None:
        self.play = play
        self.commits = [play.git("rev-parse", "HEAD~1"), play.git("rev-parse", "HEAD")]
        self.commits.append(play.commit({"notes.txt": "third\n"}))
        self.path = play.repo / "results" / "baseline.json"

    def run(self, *cases: CaseRun, day: float, head: int, reference: int, name: str = "current", dirty: bool = False) -> Path:
        """Write the record of a check of one commit against another."""
        record: RunRecord = examples.run_of(
            *cases,
            head=Tree(commit=self.commits[head], dirty=dirty),
            reference=Tree(commit=self.commits[reference]),
            started_at=examples.STARTED + timedelta(days=day),
        )
        path = self.play.repo / "results" / f"{name}.json"
        save(path, record)
        return path

    def do(self, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        """Run ``ratchet baseline words…``; what it printed, or on an error the one sentence that it said."""
        done = self.play.ratchet("baseline", *words, env=env)
        assert done.code == code, done
        return done.sentence if code and "verify" not in words else done.out

    def entry(self, name: str = NAME) -> BaselineEntry:
        stored = load(self.path, Baseline)
        assert problems(stored) == []
        return stored.entries(examples.FINGERPRINT)[name]

    def edit(self, before: str, after: str) -> bytes:
        text = self.path.read_text(encoding="utf-8")
        assert before in text
        stored, key, plain = text.rpartition('"configs"')  # where the figures stand a second time
        changed = stored.replace(before, after, 1) + key + plain.replace(before, after, 1)
        self.path.write_text(changed, encoding="utf-8")
        return self.path.read_bytes()


@pytest.fixture
def ledger(play: Playground) -> Ledger:
    """A case and another one at the first commit."""
    made = Ledger(play)
    made.run(timed(1.0), timed(1.0, "copy/a"), day=0, head=0, reference=0)
    made.do("record")
    return made


def test_two_commands_at_once_both_move_the_baseline(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits for the first, in place of writing over what that has entered."""
    paths = [ledger.run(timed(1.0, name), day=1, head=1, reference=0, name=name[0]) for name in ("x/a", "y/a")]
    request = Request(ledger.play.repo, ("ratchet",))
    second = threading.Thread(target=lambda: local.record_baseline(paths[1:], request, {}))
    judge = local.judge_again

    def judge_beside_another(path: Path | None, *more: Any) -> Any:
        if path == paths[0]:
            second.start()
            second.join(2)  # it ends by then, unless it waits
        return judge(path, *more)

    monkeypatch.setattr(local, "judge_again", judge_beside_another)
    local.record_baseline(paths[:1], request, {})
    second.join()
    assert {"x/a", "y/a"} <= set(load(ledger.path, Baseline).entries(examples.FINGERPRINT))


def test_two_runs_move_the_baseline(ledger: Ledger) -> None:
    """A run that proves a commit faster leaves it waiting, across commands; a second one makes it the baseline commit."""
    first = ledger.run(timed(0.8), day=1, head=1, reference=0)
    assert "Cases that are waiting were proven faster once. Run `ratchet check --against-baseline` again" in ledger.do("record")
    assert ledger.entry().git_commit == ledger.commits[0]
    before = ledger.path.read_bytes()
    assert "1 as before" in ledger.do("record", str(first))
    assert ledger.path.read_bytes() == before
    ledger.run(timed(0.8), day=2, head=1, reference=0)
    assert "improved  attention/training_512  1.000 ms → 800.0 µs  −20.00 %" in ledger.do("record")
    assert ledger.entry().git_commit == ledger.commits[1]
    assert "no problems found" in ledger.do("verify")
    assert "2 steps, improved 2026-03-16" in ledger.do("show")


def test_several_runs_at_once(ledger: Ledger) -> None:
    """Both runs can be recorded in one command, in any order, and the answer can be JSON."""
    runs = [ledger.run(timed(0.8), day=day, head=1, reference=0, name=f"run{day}") for day in (2, 1)]
    answer = only_json(ledger.do("record", *map(str, runs), "--json"))
    assert [(move["case"], move["kind"]) for move in answer["moves"]] == [(NAME, "candidate"), (NAME, "improved")]
    assert answer["path"] == os.path.join("results", "baseline.json")  # noqa: PTH118 - the text of a path


def test_accept_names_the_person_whom_git_knows(ledger: Ledger) -> None:
    """Accepting moves a case back to the head of the last run; who, why and by how much are printed and stay in the file."""
    ledger.run(timed(1.1), day=1, head=1, reference=0)
    said = (
        f"{NAME}: 1.000 ms → 1.100 ms (+10.00 % [+9.94, +10.06]), accepted by A Test <test@localhost>: masked rows were wrong\n"
    )
    assert ledger.do("accept", NAME, *REASON).startswith(said)
    step = ledger.entry().steps[-1]
    assert (ledger.entry().git_commit, step.by, step.reason) == (ledger.commits[1], "A Test <test@localhost>", REASON[1])
    history = ledger.do("show", "--history", NAME).splitlines()
    assert history[-1].endswith("+10.00 % [+9.94, +10.06]  by A Test <test@localhost>: masked rows were wrong")
    assert "no problems found" in ledger.do("verify")


def test_accept_by_somebody_else(ledger: Ledger) -> None:
    """In a workflow the person who started it counts, and --by before both; a run can be named, and JSON asked for."""
    run = ledger.run(timed(1.1), timed(1.1, "copy/a"), day=1, head=1, reference=0, name="other")
    assert "accepted by octocat: " in ledger.do("accept", NAME, str(run), *REASON, env={"GITHUB_ACTOR": "octocat"})
    answer = only_json(
        ledger.do("accept", "copy/a", str(run), *REASON, "--by", "B Test", "--json", env={"GITHUB_ACTOR": "octocat"})
    )
    assert [(move["case"], move["step"]["by"]) for move in answer["accepted"]] == [("copy/a", "B Test")]


def test_nobody_is_no_person(ledger: Ledger) -> None:
    """Where nobody told git a name, the person must be named."""
    ledger.play.git("config", "--unset", "user.name")
    ledger.play.git("config", "--unset", "user.email")
    ledger.run(timed(1.1), day=1, head=1, reference=0)
    assert "Say who with --by" in ledger.do("accept", NAME, *REASON, code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((NAME, "--reason", " "), "only for a reason"),
        (("training_512", *REASON), f"Did you mean {NAME}?"),
        (("attention/*", *REASON), "The run has no case attention/*"),
        (("copy/hot", *REASON), "copy/hot gave no time that counts: Hot."),
        ((NAME, "nowhere.json", *REASON), "nowhere.json does not exist"),
    ],
)
def test_what_accept_refuses(ledger: Ledger, words: tuple[str, ...], said: str) -> None:
    """A refusal is one sentence and exit code 2, and the file stays as it was."""
    ledger.run(timed(1.1), timed(1.1, "copy/hot", unfit="Hot."), day=1, head=1, reference=0)
    before = ledger.path.read_bytes()
    assert said in ledger.do("accept", *words, code=2)
    assert ledger.path.read_bytes() == before


def test_accept_wants_cases_and_a_reason(ledger: Ledger) -> None:
    """Without a reason, or with a run alone, the command says what it wants."""
    assert "--reason" in ledger.play.ratchet("baseline", "accept", NAME).err
    lone = ledger.play.ratchet("baseline", "accept", "results/current.json", *REASON)
    assert (lone.code, "Name the cases" in lone.err) == (2, True)


def test_accept_refuses_a_dirty_head(ledger: Ledger) -> None:
    """Figures of uncommitted changes are no baseline, not even on purpose."""
    ledger.run(timed(1.1), day=1, head=1, reference=0, dirty=True)
    assert "uncommitted changes" in ledger.do("accept", NAME, *REASON, code=2)


def test_a_renamed_case_keeps_its_chain(ledger: Ledger) -> None:
    """Recording names a likely renaming; saying so takes the chain along, also after both names were recorded."""
    ledger.run(gone(), new("attention/train"), day=1, head=1, reference=0)
    command = f"ratchet baseline rename {NAME} attention/train"
    assert f"`{command}`" in ledger.do("record")
    assert "with its 2 steps; it replaces 1.000 ms of" in ledger.do(*command.split()[2:], "--reason", "clearer")
    entry = ledger.entry("attention/train")
    assert [step.kind.value for step in entry.steps] == ["first", "removed", "renamed"]
    assert (entry.git_commit, entry.steps[-1].commit) == (ledger.commits[0], ledger.commits[2])
    assert f"was {NAME}, by A Test <test@localhost>: clearer" in ledger.do("show", "--history")
    assert "The baseline has no case" in ledger.do("rename", NAME, "a/b", code=2)
    assert only_json(ledger.do("rename", "attention/train", "a/b", "--json"))["machines"] == [examples.FINGERPRINT.key]


def test_an_edited_number_is_found_and_nothing_is_written_over_it(ledger: Ledger) -> None:
    """`verify` exits 2 and names the case and what to do; record, accept and rename leave such a file as it is."""
    ledger.run(timed(1.1), timed(1.1, "copy/b"), day=1, head=1, reference=0)
    before = ledger.edit('"throughput_gflops": ', '"throughput_gflops": 1')
    out = ledger.do("verify", code=2)
    undo = "Undo the edit, or restore the file from git."
    line = f"{NAME} [{examples.FINGERPRINT.key}]: its figures are not those that step 1 (first, 2026-03-14) set. {undo}"
    assert out.splitlines() == [line, "results/baseline.json: 1 problem in 2 steps of 2 cases on 1 machine."]
    assert only_json(ledger.do("verify", "--json", code=2)) == {
        "path": "results/baseline.json",
        "problems": [line],
        "warnings": [],
    }
    for words in (("record",), ("accept", NAME, *REASON), ("rename", NAME, "a/b")):
        assert "does not verify, and was left as it is" in ledger.do(*words, code=2)
    assert ledger.path.read_bytes() == before
    assert ledger.do("show").count("\n") == 3


def test_a_file_that_does_not_load_does_not_verify(ledger: Ledger) -> None:
    """What cannot even be read gives one sentence and exit code 2."""
    ledger.edit('"median_ms": 1', '"median_ms": -1')
    done = ledger.play.ratchet("baseline", "verify")
    assert (done.code, "Undo the edit" in done.sentence) == (2, True)


def test_a_baseline_commit_that_git_does_not_know(ledger: Ledger) -> None:
    """A baseline commit that is gone is a problem, one of an earlier step a warning, and in a shallow clone all are."""
    ledger.commits.append("ab" * 20)
    ledger.run(timed(1.1), timed(1.1, "copy/a"), day=1, head=3, reference=0)
    ledger.do("accept", NAME, *REASON)
    assert f"{NAME} [{examples.FINGERPRINT.key}]: git knows no commit ababababab" in ledger.do("verify", code=2)
    ledger.run(timed(1.1), day=2, head=1, reference=0)
    ledger.do("accept", NAME, *REASON)
    out = ledger.do("verify")
    assert "Warning: git no longer knows ababababab, the commit of an earlier step." in out
    assert "no problems found" in out
    clone = ledger.play.folder / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{ledger.play.repo}", str(clone)], check=True)
    clone.joinpath("results").mkdir(exist_ok=True)
    clone.joinpath("results/baseline.json").write_bytes(ledger.path.read_bytes())
    shallow = ledger.play.ratchet("baseline", "verify", cwd=clone)
    assert (shallow.code, "3 of 3 commits named in the file are not in this shallow clone" in shallow.out) == (0, True)


def test_outside_git(ledger: Ledger, tmp_path: Path) -> None:
    """A file outside git verifies with a warning; without one there is nothing to verify; renaming needs a commit."""
    folder = tmp_path / "plain"
    folder.joinpath("results").mkdir(parents=True)
    empty = ledger.play.ratchet("baseline", "verify", cwd=folder)
    assert (empty.code, "no baseline yet" in empty.out) == (0, True)
    folder.joinpath("results/baseline.json").write_bytes(ledger.path.read_bytes())
    plain = ledger.play.ratchet("baseline", "verify", cwd=folder)
    assert (plain.code, "Warning: The commits were not looked up" in plain.out) == (0, True)
    assert ledger.play.ratchet("baseline", "rename", NAME, "a/b", "--by", "x", cwd=folder).code == 2


def test_show_wants_history_for_a_case(ledger: Ledger) -> None:
    """A case is named together with --history; JSON is the file itself."""
    assert ledger.play.ratchet("baseline", "show", NAME).code == 2
    assert "no case is called a/b" in ledger.do("show", "--history", "a/b")
    assert only_json(ledger.do("show", "--json")) == json.loads(ledger.path.read_text(encoding="utf-8"))


def test_this_repository_s_baseline_verifies() -> None:
    """The committed file is what the commands wrote."""
    assert problems(load(Path(__file__).parents[2] / "results" / "baseline.json", Baseline)) == []
