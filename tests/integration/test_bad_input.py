"""What people get wrong: one sentence, the right exit code, and nothing lost."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.core.cli import main
from ratchet.core.records.files import load
from ratchet.core.records.run import RunRecord
from tests.integration.playground import ADDS, QUICK, Playground, git


def test_no_git(play: Playground) -> None:
    """Without git on the PATH a check exits 3 and asks for git; `run` does without it."""
    done = play.check(env={"PATH": str(play.temp)})
    assert done.code == 3
    assert done.sentence == "git is not installed, and a check compares two commits. Install git and try again."
    alone = play.ratchet("run", *QUICK, env={"PATH": str(play.temp)})
    assert alone.code == 0, alone


def no_repository(play: Playground) -> None:
    shutil.rmtree(play.repo / ".git")


def no_commit(play: Playground) -> None:
    shutil.rmtree(play.repo / ".git")
    git(play.repo, "init", "--quiet")


def first_commit(play: Playground) -> None:
    git(play.repo, "checkout", "--quiet", "HEAD~1")


def shallow_clone(play: Playground) -> None:
    git(play.repo, "clone", "--quiet", "--depth", "1", f"file://{play.repo}", str(play.repo / "shallow"))


def no_bench(play: Playground) -> None:
    git(play.repo, "rm", "-r", "--quiet", "bench")
    git(play.repo, "commit", "--quiet", "-m", "No benchmarks")


def new_repository(play: Playground) -> None:
    first_commit(play)
    git(play.repo, "rm", "-r", "--quiet", "bench")
    git(play.repo, "commit", "--quiet", "--amend", "-m", "First")


def empty_bench(play: Playground) -> None:
    no_bench(play)
    (play.repo / "bench" / "kernels").mkdir(parents=True)


def ignored_bench(play: Playground) -> None:
    git(play.repo, "rm", "-r", "--quiet", "--cached", "bench")
    with (play.repo / ".gitignore").open("a", encoding="utf-8") as file:
        file.write("bench/\n")
    git(play.repo, "commit", "--quiet", "--all", "-m", "No benchmarks")


def nothing(play: Playground) -> None:
    """The repository is as it should be."""


@pytest.mark.parametrize(
    ("arrange", "words", "code", "said"),
    [
        (no_repository, (), 2, "{repo} is not inside a git repository."),
        (nothing, ("--repo", "nowhere"), 2, "Directory 'nowhere' does not exist."),
        (shallow_clone, ("--repo", "{repo}/shallow"), 3, "shallow clone|fetch-depth"),
        (shallow_clone, ("--repo", "{repo}/shallow", "--base", "HEAD~1"), 3, "HEAD~1 is not in this shallow clone"),
        (first_commit, (), 3, "HEAD is the first commit|`ratchet run`"),
        (no_commit, (), 3, "has no commit yet"),
        (nothing, ("--base=no-such-branch",), 2, "no-such-branch names no commit in {repo}"),
        (nothing, ("--base=--upload-pack=x",), 2, "--upload-pack=x names no commit in {repo}"),
        (nothing, ("--merge-base=no-such-branch",), 2, "no-such-branch names no commit in {repo}"),
        (nothing, ("--base=",), 2, "'--base': It is empty|name a commit, or leave the option out"),
        (nothing, ("--merge-base= ",), 2, "'--merge-base': It is empty"),
        (nothing, ("adds/smal",), 2, "adds/smal|Did you mean adds/small"),
        (no_bench, (), 2, "There is no folder bench/"),
        (new_repository, (), 2, "There is no folder bench/|`ratchet init` writes a first benchmark"),
        (empty_bench, (), 2, "There is no file in the folder bench/"),
        (ignored_bench, (), 2, "git ignores the folder bench/"),
    ],
)
def test_what_cannot_be_compared(
    play: Playground, arrange: Callable[[Playground], None], words: tuple[str, ...], code: int, said: str
) -> None:
    """Whatever is missing or named wrong is one sentence that names it and what to do, with 2 for usage and 3 for the rest."""
    arrange(play)
    done = play.check(*(word.format(repo=play.repo) for word in words))
    assert done.code == code, done
    assert "Traceback" not in done.err
    for part in said.format(repo=play.repo).split("|"):
        assert part in done.err


@pytest.mark.parametrize("words", [("tune", "adds"), ("variants", "adds"), ("run",), ("profile", "adds")])
def test_no_benchmarks_is_wrong_usage_of_every_command(play: Playground, words: tuple[str, ...]) -> None:
    """The sentence names the folder and `init`, and nothing was imported before."""
    no_bench(play)
    done = play.ratchet(*words)
    assert (done.code, done.sentence.partition(";")[0]) == (
        2,
        f"There is no folder bench/ in {play.repo}. `ratchet init` writes a first benchmark",
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("gate = '3%'\n", "[tool.ratchet] gate in pyproject.toml: there is no such setting"),
        ("pairs = 1\n", "[tool.ratchet] pairs in pyproject.toml"),
        ("regression_threshold = 3\n", "write 3% for percent"),
        ("build_timeout = 'soon'\n", "'soon' is not a duration"),
        ("pairs = \n", "not valid TOML"),
    ],
)
def test_invalid_settings(make: Callable[..., Playground], settings: str, said: str) -> None:
    """A setting that cannot be exits 2 and names the file, the key and what it may hold."""
    done = make({"bench/adds.py": ADDS}, {"notes.txt": "x\n"}, settings=settings).ratchet("check")
    assert done.code == 2
    assert said in done.sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema_version": 1, "fingerprints": {', "cut off"),
        ('{"schema_version": 1, "fingerprints": NaN}', "NaN"),
        ('{"schema_version": 99, "fingerprints": {}}', "newer ratchet"),
        ('{"schema_version": 1, "fingerprints": {}, "mine": 1}', "mine"),
        ("", "not JSON"),
    ],
)
def test_invalid_baseline_is_refused_and_kept(play: Playground, text: str, said: str) -> None:
    """A baseline that ratchet did not write like this exits 2 with the file and the reason, and is never overwritten."""
    path = play.repo / "results" / "baseline.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    done = play.check()
    assert done.code == 2
    assert str(path) in done.sentence
    assert said in done.sentence
    assert play.ratchet("baseline", "show").code == 2
    assert path.read_text(encoding="utf-8") == text


def test_results_that_are_no_folder(play: Playground) -> None:
    """A file where the results folder belongs is found before anything is measured, and kept."""
    play.repo.joinpath("results").write_text("mine", encoding="utf-8")
    done = play.check()
    assert done.code == 3
    assert f"The results folder {play.repo}/results cannot be written" in done.sentence
    assert "Importing" not in done.err
    assert play.repo.joinpath("results").read_text(encoding="utf-8") == "mine"


def test_tuning_folder_that_is_no_folder(play: Playground) -> None:
    """The error names the option of `ratchet tune` that chooses another folder."""
    (play.repo / "tuning").write_text("a file")
    done = play.ratchet("tune", "adds")
    assert done.code == 3
    assert done.sentence == f"The results folder {play.repo}/tuning cannot be written: File exists. Choose another with --tuning."


def test_read_only_results(play: Playground) -> None:
    """A results folder that may not be written is found before anything is measured."""
    folder = play.repo / "results"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK) and not _immutable(folder, "+i"):
        pytest.skip("this user may write everywhere")
    try:
        done = play.check()
    finally:
        _immutable(folder, "-i")
    assert done.code == 3
    assert f"The results folder {folder} cannot be written" in done.sentence
    assert "--results" in done.sentence


def _immutable(folder: Path, how: str) -> bool:
    if shutil.which("chattr") is None:
        return False
    return subprocess.run(["chattr", how, str(folder)], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_full_disk_keeps_earlier_results_and_the_run(play: Playground) -> None:
    """Where the results no longer fit on the disk, exit 3: the verdict is printed, old files stay, the run is kept elsewhere."""
    results = play.repo / "results"
    results.mkdir()
    results.joinpath("report.json").write_text("of an earlier check", encoding="utf-8")
    mount = 'mount -t tmpfs -o size=16k none "$0" && cp -r "$1"/. "$0" && shift && "$@"; code=$?; cp -r "$0"/. seen; exit $code'
    words = [str(play.python), "-m", "ratchet", "check", *QUICK, "--gate", "60%"]
    small = ["unshare", "--mount", "sh", "-c", mount, str(results), str(play.folder / "earlier"), *words]
    play.folder.joinpath("earlier").mkdir()
    play.folder.joinpath("earlier/report.json").write_text("of an earlier check", encoding="utf-8")
    play.folder.joinpath("earlier/filler").write_bytes(b"\0" * 8192)
    play.repo.joinpath("seen").mkdir()
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no private mounts here")
    child = subprocess.run(small, cwd=play.repo, env=play.environ(), capture_output=True, text=True, check=False)
    assert child.returncode == 3, child
    assert "adds/small" in child.stdout
    assert "No space left on device" in child.stderr
    assert "Traceback" not in child.stderr
    kept = list(play.temp.glob("ratchet-run-*.json"))
    assert len(kept) == 1
    assert str(kept[0]) in child.stderr
    assert load(kept[0], RunRecord).cases
    assert play.repo.joinpath("seen/report.json").read_text(encoding="utf-8") == "of an earlier check"
    assert not list(play.repo.joinpath("seen").glob(".*.tmp"))


@pytest.mark.slow
def test_files_that_may_not_grow_end_in_a_sentence(play: Playground) -> None:
    """A limit on the size of files is met like a full disk: one sentence, exit 3, no half-written file."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))

    done = play.check(prepare=[limit])
    assert done.code == 3, done
    assert "File too large" in done.sentence
    assert not list(play.repo.joinpath("results").glob("*.tmp"))
    assert not play.repo.joinpath("results/current.json").exists()


def test_full_step_summary_is_said(play: Playground) -> None:
    """A step summary that cannot be written is said, exit 3, with the files of the check in place."""
    done = play.check(env={"GITHUB_STEP_SUMMARY": "/dev/full"})
    assert done.code == 3
    assert "GITHUB_STEP_SUMMARY (/dev/full) cannot be written" in done.sentence
    assert done.report.exit_code == 0
    play.assert_clean()


@pytest.mark.parametrize(("words", "code"), [(("chek",), 2), (("check", "nothing"), 2), (("explain", "github"), 0)])
def test_reader_that_has_gone_changes_no_exit_code(play: Playground, words: tuple[str, ...], code: int) -> None:
    """Where nobody reads its output, as with ``2>&1 | head``, a command works to its end and does not exit like a regression."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = play.ratchet(*words, stdout=writing, stderr=writing)
    finally:
        os.close(writing)
    assert done.code == code


def test_place_of_the_cache_is_no_setting(play: Playground) -> None:
    """RATCHET_CACHE_DIR says where compiled things are kept, and is not taken for a setting."""
    done = play.ratchet("list", "--device", "cpu", env={"RATCHET_CACHE_DIR": str(play.folder / "kept")})
    assert done.code == 0, done


@pytest.mark.parametrize(
    ("limit", "count", "said"),
    [
        (resource.RLIMIT_NOFILE, 6, "too many open files: 6 are allowed. Raise the limit (`ulimit -n 1024`) and run again."),
        (resource.RLIMIT_NOFILE, 30, "too many open files: 30 are allowed. Raise the limit (`ulimit -n 1024`) and run again."),
        (resource.RLIMIT_AS, 200 << 20, "not enough memory. Free some, or raise the limit (`ulimit -v`)."),
    ],
)
def test_limits_of_the_system(play: Playground, limit: int, count: int, said: str) -> None:
    """Too few open files or too little memory exits 3 with one sentence that names the limit, and leaves nothing."""
    done = play.check("--quiet", prepare=[lambda: resource.setrlimit(limit, (count, count))])
    assert done.code == 3, done
    assert done.sentence == said
    play.assert_clean()


@pytest.mark.slow
def test_few_files_suffice(play: Playground) -> None:
    """With the fewest open files that are accepted, a check of unchanged code ends with a verdict."""
    done = play.check("--quiet", prepare=[lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))])
    assert done.case("adds/small").head, done
    assert not done.case("adds/small").failures
    play.assert_clean()


@pytest.mark.parametrize(
    "words",
    [
        "compare --join one.json two.json --out two.json",
        "compare one.json --junit ./one.json",
        "compare one.json --junit new.xml --sarif new.xml",
        "tune --record one.json --export one.json",
        "evaluate one.py two.py --certify two.py",
        "evaluate two.py two.py --inputs one.py:make --certify one.py",
        "advise --save one.py one.py",
        "history --badge one.json --out one.json",
    ],
)
def test_no_output_overwrites_what_the_command_names(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is both read and written, or written twice, is refused before anything runs, and all stay as they were."""
    monkeypatch.chdir(tmp_path)
    before = {name: name for name in ("one.json", "two.json", "one.py", "two.py")}
    for name, text in before.items():
        Path(name).write_text(text, encoding="utf-8")
    assert main(words.split()) == 2
    sentence = r"ratchet: --\w+ would overwrite [\w.]+, which (it reads|--\w+ writes)\. Name another file\.\n"
    assert re.fullmatch(sentence, capsys.readouterr().err)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        "evaluate one.py one.py --certify /dev/null/x",
        "evaluate one.py one.py --certify /dev/null",
        "check --sarif /proc/x",
        "check --junit one.py/new/x",
        "run --seed-format /dev/null/new/x",
        "roofline --out one.py/new",
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder cannot be made or written, or it is no regular file: 2, with the option and the path."""
    monkeypatch.chdir(tmp_path)
    Path("one.py").touch()
    assert main(words.split()) == 2
    *_, option, path = words.split()
    assert capsys.readouterr().err.startswith(f"ratchet: {option}: {path} cannot be written: ")
    assert [path.name for path in tmp_path.iterdir()] == ["one.py"]


@pytest.mark.parametrize(
    "words", ["evaluate --rtol", "evaluate --atol", "experiment start norm --minutes", "history cost --price"]
)
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_number_is_finite(words: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and infinity are wrong usage, whatever the range of an option."""
    assert main([*words.split(), number]) == 2
    assert "Error: Invalid value for '--" in capsys.readouterr().err
