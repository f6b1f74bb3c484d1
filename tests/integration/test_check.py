"""`ratchet check` on ordinary repositories."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome, ReportRecord
from tests.integration.playground import ADDS, LENIENT, PATIENCE_S, PROOF, SLOW_ADDS, Playground, only_json

MISSING = "import a_module_that_nobody_has\n" + ADDS


def test_unchanged_code_passes_and_leaves_only_results(play: Playground, tmp_path: Path) -> None:
    """Unchanged code exits 0 with a table, the paths of its files and a step summary, and leaves nothing else behind.

    The first line has both commits with their messages.
    """
    summary = tmp_path / "summary.md"
    done = play.check(env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.code == 0, done
    head, base = (play.git("rev-parse", "--short=10", commit) for commit in ("HEAD", "HEAD~1"))
    assert done.err.splitlines()[0] == f'{head} "second" against {base} "first"'
    assert "adds/small" in done.out
    for name in ("results/ratchet_report.md", "results/report.json", "results/current.json"):
        assert name in done.out
    assert done.report.exit_code == 0
    assert done.run.command[:2] == ("ratchet", "check")
    assert "90%" in done.run.command
    assert done.run.head.commit == play.git("rev-parse", "HEAD")
    assert done.run.reference.commit == play.git("rev-parse", "HEAD~1")
    assert not done.run.head.dirty
    assert "adds/small" in done.markdown
    assert summary.read_text(encoding="utf-8").strip() == done.markdown.strip()
    assert play.git("status", "--porcelain") == ""
    play.assert_clean()


@pytest.mark.slow
def test_dirty_tree_is_compared_with_its_commit_and_left_alone(play: Playground) -> None:
    """Uncommitted and untracked changes are measured against HEAD, said so, and neither files nor index change."""
    play.repo.joinpath("bench/adds.py").write_text(SLOW_ADDS, encoding="utf-8")
    play.repo.joinpath("notes.txt").write_text("staged\n", encoding="utf-8")
    play.git("add", "notes.txt")
    play.repo.joinpath("bench/extra.py").write_text(ADDS.replace("def adds", "def extra"), encoding="utf-8")
    status, index = play.git("status", "--porcelain"), play.repo.joinpath(".git/index").read_bytes()
    done = play.check("--json", *PROOF)
    report = ReportRecord.model_validate(only_json(done.out))
    assert done.code == 1
    assert done.err == ""
    assert report.head.dirty
    assert report.reference.commit == report.head.commit == play.git("rev-parse", "HEAD")
    assert {case.name: case.outcome for case in report.cases} == {
        "adds/small": Outcome.REGRESSED,
        "extra/small": Outcome.NEW,
    }
    assert "uncommitted" in done.markdown.lower()
    assert play.repo.joinpath(".git/index").read_bytes() == index
    assert play.git("status", "--porcelain") == status
    play.assert_clean()


UNTIMED = {"RATCHET_TIME_IDENTICAL": "false"}


@pytest.mark.slow
def test_a_commit_is_not_compared_with_itself(play: Playground) -> None:
    """It would pass, whatever it holds; --time-identical says that this is meant, and then it is timed."""
    same = ("--base", "main", "--bench-from", "head")
    head = play.git("rev-parse", "--short=10", "HEAD")
    for words in (("--base", "HEAD"), ("--merge-base", "main"), same):
        done = play.check(*words, env=UNTIMED)
        assert done.code == 2, done
        assert f'{head} "second" would be compared with itself.' in done.sentence
        assert not (play.repo / "results/report.json").exists()
    assert play.check(*same, "--time-identical", env=UNTIMED).code == 0
    (play.repo / "notes.txt").write_text("y\n")
    done = play.check(env=UNTIMED)
    assert done.err.splitlines()[0] == f'{head} "second" + uncommitted changes against {head} "second"'


@pytest.mark.slow
def test_only_the_results_folder_changed_is_not_a_dirty_tree(make: Callable[..., Playground]) -> None:
    """Files of an earlier check that git does not ignore leave the commit before HEAD as the reference."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": SLOW_ADDS})
    play.commit({".gitignore": "__pycache__/\n"}, "results are not ignored")
    play.repo.joinpath("results").mkdir()
    play.repo.joinpath("results/ratchet_report.md").write_text("of an earlier check\n", encoding="utf-8")
    done = play.check()
    assert done.run.reference.commit == play.git("rev-parse", "HEAD~1")
    assert not done.run.head.dirty


def test_nothing_to_measure_is_not_a_pass(make: Callable[..., Playground]) -> None:
    """Where every case is skipped, `check` exits 3 and `list` names the missing module."""
    play = make({"bench/adds.py": MISSING}, {"notes.txt": "x\n"})
    done = play.check()
    assert done.code == 3, done
    assert done.outcomes() == {"adds/small": Outcome.SKIPPED}
    listed = play.ratchet("list", "--device", "cpu")
    assert listed.code == 0
    assert "needs a_module_that_nobody_has" in listed.out


@pytest.mark.slow
def test_reader_that_leaves_does_not_change_the_verdict(make: Callable[..., Playground]) -> None:
    """`ratchet check | true` writes its files and keeps its exit code, here that of a wrong result."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": ADDS.replace("out = x + 1", "out = x + 3")})
    child = play.start("check", "--device", "cpu", "--pairs", "3", "--blocks", "2", *LENIENT)
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait(PATIENCE_S) == 1, said
    assert "Traceback" not in said
    assert play.repo.joinpath("results/report.json").exists()


def test_cuda_at_import_is_refused(make: Callable[..., Playground]) -> None:
    """A head whose benchmarks use CUDA while they are imported ends the check with a sentence."""
    touched = "import torch\ntorch.cuda._initialized = True\n" + ADDS
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": touched})
    done = play.check()
    assert done.code == 3
    assert "of the head uses CUDA while it is imported" in done.sentence
    play.assert_clean()


def test_head_that_dies_while_imported_ends_in_a_sentence(make: Callable[..., Playground]) -> None:
    """A bench file of the head that ends the interpreter cannot be measured: exit 3, with what it printed last."""
    play = make({"bench/adds.py": ADDS}, {"bench/adds.py": "import os\nprint('bye')\nos._exit(9)\n"})
    done = play.check()
    assert done.code == 3
    assert "the head's process ended while it imported bench/adds.py: bye" in done.sentence.lower()
    play.assert_clean()


def test_reference_without_benchmarks_makes_every_case_new(make: Callable[..., Playground]) -> None:
    """A reference from before there was a bench folder is no error: the cases are NEW."""
    play = make({"notes.txt": "x\n"}, {"bench/adds.py": ADDS})
    done = play.check()
    assert done.code == 0
    assert done.outcomes() == {"adds/small": Outcome.NEW}


PACKAGE = ADDS.replace("import time\n", "import time\n\nfrom package import REPEAT\n").replace("REPEAT = 40\n\n\n", "\n")


@pytest.mark.slow
def test_benchmarks_of_the_head_on_both_sides(make: Callable[..., Playground]) -> None:
    """`--bench-from head` measures a reference from before there were benchmarks, and one whose benchmarks did other work."""
    assert "from package import REPEAT" in PACKAGE
    old = PACKAGE.replace("flops=41", "flops=40")
    play = make(
        {"package.py": "REPEAT = 20\n"}, {"bench/adds.py": old}, {"bench/adds.py": PACKAGE, "package.py": "REPEAT = 80\n"}
    )
    assert play.check().outcomes() == {"adds/small": Outcome.CHANGED}
    for base in ("HEAD~1", "HEAD~2"):
        done = play.check("--base", base, "--bench-from", "head", *PROOF)
        assert done.code == 1, done
        assert done.outcomes() == {"adds/small": Outcome.REGRESSED}
        assert done.run.reference.commit == play.git("rev-parse", base)
        assert done.run.bench_from == done.report.bench_from == "head"
        assert "benchmarks of the head on both sides" in done.out
        assert "benchmarks of the head on both sides" in done.markdown
    play.assert_clean()


@pytest.mark.slow
def test_integrated_benchmark_runs_as_a_script(tmp_path: Path) -> None:
    """`python bench/integrated_test.py --config …` of this repository times that config and says where its files are."""
    source = Path(__file__).parents[2]
    play = Playground(tmp_path)
    play.repo.mkdir()
    here = {"RATCHET_RESULTS": str(tmp_path / "results"), "RATCHET_PAIRS": "3", "RATCHET_BLOCKS": "2", "RATCHET_BLOCK_MS": "2"}
    words = (str(source / "bench" / "integrated_test.py"), "--config", "rows_1k", "--device", "cpu")
    done = play.finish(play.start_python(*words, env=here, cwd=source, stderr=subprocess.PIPE))
    assert done.code == 0, done
    assert "normalize/rows_1k" in done.out
    assert tmp_path.joinpath("results/current.json").exists()


def test_a_commit_s_message_commands_no_terminal(play: Playground) -> None:
    """What stands in the first line, and in the refusal, is one line of harmless characters."""
    play.git("commit", "--quiet", "--allow-empty", "-m", "\x1b[2J::error::\x07x")
    done = play.check("--base", "HEAD", env=UNTIMED)
    assert done.code == 2
    assert "\x1b" not in done.err + done.out
    first = play.check(env=UNTIMED).err.splitlines()[0]
    assert "x" in first
    assert "\x1b" not in first
