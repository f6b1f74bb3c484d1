"""Benchmarks that flood, hide processes, rewrite what is not theirs, or lose their controller: the check ends clean."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratchet.core.records.verdict import Outcome
from tests.integration.playground import ADDS, LENIENT, QUICK, Playground, git, wait_until

SLEEPER = """
import os, sys, time

def sleeper(mark):
    # Twice forked and in a session of its own: no process group of ours holds it, and nobody waits for it.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", mark])
        os._exit(0)
"""


def holding(mark: str) -> list[int]:
    """Processes whose command line holds a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in entry.joinpath("cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A word on the command line of what a benchmark leaves behind; those are killed if the test fails."""
    word = f"left-behind-{tmp_path.name}-{os.getpid()}"
    yield word
    for pid in holding(word):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_flood_of_output_fills_nothing_and_ends_nobody(make: Callable[..., Playground]) -> None:
    """A benchmark that prints 3 GB at import and in each process is measured as any other, and no file of it is left or grows."""
    flood = (
        "import os\nCHUNK = b'x' * 4095 + b'\\n'\nhere = os.environ['TMPDIR']\n"
        "def flood(count):\n"
        "    for _ in range(count // 4096):\n        os.write(1, CHUNK)\n"
        "    assert sum(size(os.path.join(place, name)) for place, _, names in os.walk(here) for name in names) < 1 << 20\n"
        "def size(path):\n    try:\n        return os.stat(path).st_size\n    except FileNotFoundError:  # of another process\n"
        "        return 0\n"
        "flood(1_500_000_000)\n"
    )
    play = make({"bench/adds.py": flood + ADDS.replace("    def run():", "    flood(100_000_000)\n\n    def run():")}, {"a": "b"})
    done = play.check("--pairs", "3")
    assert done.code in {0, 3}, done
    assert not done.case("adds/small").failures
    assert done.pairs("adds/small") == [0, 1, 2]
    play.assert_clean()


def test_last_lines_are_those_of_the_case_that_failed(make: Callable[..., Playground]) -> None:
    """What a worker printed for an earlier case is not shown with a later one, nor one file's import with another's."""
    loud = ADDS.replace("def adds", "def a_loud").replace("    x =", "    print('words of a_loud')\n    x =")
    crash = ADDS.replace("def adds", "def b_crash").replace(
        "    x =", "    print('words of b_crash')\n    __import__('os').abort()\n    x ="
    )
    play = make({"bench/adds.py": "print('imported')\n" + ADDS}, {"bench/a.py": loud, "bench/b.py": crash})
    done = play.check("--pairs", "3", "a_loud", "b_crash")
    assert done.verdict("b_crash/small").outcome is Outcome.FAILED
    lines = " ".join(done.case("b_crash/small").failures[0].last_lines)
    assert "words of b_crash" in lines
    assert "words of a_loud" not in lines
    assert "imported" not in lines
    play.commit({"bench/c.py": "import os\nos._exit(7)\n"})
    done = play.check("--pairs", "3")
    assert done.code == 3
    assert "while it imported bench/c.py: it printed nothing" in done.sentence
    play.assert_clean()


@pytest.mark.slow
def test_what_a_benchmark_starts_ends_with_its_worker(make: Callable[..., Playground], mark: str) -> None:
    """A process that left its session, from an import, a worker or a build, is gone with the check; a worker's, with it."""
    bench = SLEEPER + f"sleeper({mark!r})\n" + ADDS.replace("    x =", f"    sleeper({mark!r})\n    count()\n    x =")
    counting = (
        "\ndef count():\n"
        "    import pathlib\n"
        "    pids = [each.parent.name for each in pathlib.Path('/proc').glob('[0-9]*/cmdline') if MARK in read(each)]\n"
        "    with open(os.environ['COUNT'], 'a') as file:\n        file.write(f'{len(pids)}\\n')\n"
        "def read(path):\n    try:\n        return path.read_bytes()\n    except OSError:\n        return b''\n"
        f"MARK = {mark.encode()!r}\n"
    )
    build = SLEEPER + f"sleeper({mark!r})\n"
    play = make(
        {"bench/adds.py": bench + counting, "make.py": build}, {"a": "b"}, settings=f'build = ["{sys.executable}", "make.py"]\n'
    )
    done = play.check(env={"COUNT": str(play.folder / "count.txt")})
    assert done.code in {0, 3}, done
    assert not done.case("adds/small").failures
    assert holding(mark) == []
    counts = [int(line) for line in play.folder.joinpath("count.txt").read_text().split()]
    # Two imports and two workers, each of which builds the workload a few times and forks before it execs.
    assert len(counts) > 12
    assert max(counts[-4:]) <= 2 + 2 * 3, counts
    play.assert_clean()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["imports", "build"])
def test_a_controller_killed_early_leaves_nothing(make: Callable[..., Playground], mark: str, tmp_path: Path, where: str) -> None:
    """After kill -9 during imports or a build, processes in sessions of their own are gone, and the next run removes folders."""
    reached = tmp_path / "reached"
    waits = SLEEPER + f"sleeper({mark!r})\n" + f"open({str(reached)!r}, 'w').close()\nimport time\ntime.sleep(600)\n"
    files = {"bench/adds.py": waits if where == "imports" else ADDS, "make.py": waits if where == "build" else ""}
    settings = f'build = ["{sys.executable}", "make.py"]\n' if where == "build" else ""
    play = make({name: text for name, text in files.items() if text}, {"a": "b"}, settings=settings)
    child = play.start("check", *QUICK, *LENIENT)
    wait_until(lambda: reached.exists() and holding(mark), "nothing was imported or built")
    child.kill()
    child.communicate()
    wait_until(lambda: not play.processes() and not holding(mark), "something outlives the controller")
    play.commit({"bench/adds.py": ADDS, "make.py": ""} if where == "build" else {"bench/adds.py": ADDS})
    assert play.ratchet("list", "--device", "cpu").code == 0
    assert play.check("--base", "HEAD", env={"RATCHET_BUILD": "true"}).code in {0, 3}
    play.assert_clean()


def test_a_folder_of_a_killed_run_is_removed_by_the_next(play: Playground) -> None:
    """`ratchet run` that was killed leaves a folder, and any later command that measures takes it away."""
    child = play.start("run", *QUICK)
    wait_until(lambda: list(play.temp.glob("ratchet-logs-*")) or child.poll() is not None, "no folder was made")
    child.kill()
    child.communicate()
    wait_until(lambda: not play.processes(), "something outlives the controller")
    assert list(play.temp.glob("ratchet-logs-*"))
    assert play.ratchet("list", "--device", "cpu").code == 0
    play.assert_clean()


@pytest.mark.slow
def test_two_temporary_folders_have_one_lock(play: Playground, tmp_path: Path) -> None:
    """Checks with different TMPDIR exclude each other."""
    gate = {"GATE": str(play.folder)}
    waits = "import os, pathlib, time\npathlib.Path(os.environ['GATE'], 'reached').touch()\ntime.sleep(600)\n"
    play.commit({"bench/adds.py": waits})
    other = tmp_path / "other"
    other.mkdir()
    first = play.start(
        "check", *QUICK, *LENIENT, env=gate
    )  # both with one RATCHET_LOCK_DIR, in place of the machine's own folder
    wait_until(lambda: play.folder.joinpath("reached").exists() or first.poll() is not None, "nothing was imported")
    second = play.check(env=gate | {"TMPDIR": str(other)})
    first.send_signal(signal.SIGINT)
    first.communicate()
    assert second.code == 3
    assert f"The CPU is held by pid {first.pid}" in second.sentence


EVIL = """
import os, subprocess
from pathlib import Path

def evil():
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for words in (["update-ref", "refs/heads/main", "HEAD~1"], ["tag", "evil"], ["branch", "evil"],
                  ["symbolic-ref", "HEAD", "refs/heads/x"],
                  ["config", "core.hooksPath", "/tmp"], ["update-ref", "-d", "refs/heads/kept"], ["add", "-A"], ["stash"]):
        subprocess.run(["git", *words], **quiet)
"""


def state_of(repo: Path) -> list[str]:
    """Everything of a repository that somebody would miss."""
    words = (
        ["for-each-ref"],
        ["symbolic-ref", "HEAD"],
        ["config", "--local", "--list"],
        ["status", "--porcelain"],
        ["ls-files", "-s"],
    )
    return [git(repo, *each) for each in words]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["bench", "build"])
def test_git_in_a_tree_is_not_the_users_git(make: Callable[..., Playground], where: str) -> None:
    """Branches, tags, HEAD, index and settings that measured code or a build changes with git are those of its own tree."""
    bench = EVIL + "evil()\n" + ADDS if where == "bench" else ADDS
    settings = f'build = ["{sys.executable}", "make.py"]\n' if where == "build" else ""
    seen = "subprocess.run(['git', 'describe', '--tags', '--dirty'], check=True)\nsubprocess.run(['git', 'log'], check=True)\n"
    play = make({"bench/adds.py": bench, "make.py": EVIL + seen + "evil()\n"}, {"a": "b"}, settings=settings)
    play.git("branch", "kept")
    play.git("tag", "v1")
    play.repo.joinpath("notes.txt").write_text("not committed", encoding="utf-8")
    play.repo.joinpath("a").write_text("changed", encoding="utf-8")
    before = state_of(play.repo)
    done = play.check()
    assert done.code in {0, 3}, done
    assert not done.case("adds/small").failures
    assert "while this ran" not in done.out + done.err
    assert state_of(play.repo) == before
    assert play.repo.joinpath("notes.txt").read_text(encoding="utf-8") == "not committed"
    play.assert_clean()


@pytest.mark.slow
def test_a_rewritten_baseline_is_put_back(make: Callable[..., Playground]) -> None:
    """Measured code that rewrites the baseline of the checkout finds it as it was; the run says so and keeps what was there."""
    bench = "import os, pathlib\npathlib.Path(os.environ['VICTIM']).write_text('{}')\n" + ADDS
    play = make({"bench/adds.py": bench}, {"a": "b"})
    path = play.repo / "results" / "baseline.json"
    path.parent.mkdir()
    text = '{"schema_version": 1, "fingerprints": {}}'
    for before in (text, None):
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
        done = play.check(env={"VICTIM": str(path)})
        assert done.code in {0, 3}, done
        assert (path.read_text(encoding="utf-8") if path.exists() else None) == before
        assert "results/baseline.json was changed while this ran, and was put back" in done.out
        assert path.with_name("baseline.json.changed").read_text(encoding="utf-8") == "{}"
        assert "was put back" in done.markdown
    run = play.ratchet("run", *QUICK, env={"VICTIM": str(path)})
    assert run.code == 0
    assert not path.exists()
    assert "was put back" in run.out


@pytest.mark.slow
def test_refs_rewritten_behind_our_back_are_said(make: Callable[..., Playground]) -> None:
    """A branch, HEAD or setting of the user's repository that changes meanwhile ends with exit 3 and says how to go back."""
    bench = "import os, subprocess\nsubprocess.run(['git', '-C', os.environ['VICTIM'], *os.environ['WORDS'].split()])\n" + ADDS
    play = make({"bench/adds.py": bench}, {"a": "b"})
    head, first = play.git("rev-parse", "HEAD"), play.git("rev-parse", "HEAD~1")
    done = play.check(env={"VICTIM": str(play.repo), "WORDS": f"update-ref refs/heads/main {first}"})
    assert done.code == 3, done
    assert f"`git update-ref refs/heads/main {head}`" in done.err
    assert done.case("adds/small").head, "what was measured is kept"
    play.git("update-ref", "refs/heads/main", head)
    done = play.check(env={"VICTIM": str(play.repo), "WORDS": "config core.hooksPath /nowhere"})
    assert done.code == 3, done
    assert "its settings (.git/config) changed" in done.sentence
    assert "its settings" in done.markdown
    play.git("config", "--unset", "core.hooksPath")
    done = play.check(env={"VICTIM": str(play.repo), "WORDS": "branch work"})
    assert "refs/heads/work" not in done.err, "new branches are what people do while a check runs"
    play.assert_clean()
