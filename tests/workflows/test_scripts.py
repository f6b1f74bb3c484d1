"""The scripts that our actions run, by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.core.records.files import dumps
from ratchet.core.records.run import Tree
from tests import tuning_examples
from tests.fake_github import FakeGitHub, State
from tests.integration.playground import commit, git, new_repository
from tests.workflows.reading import ROOT

SCRIPTS = ROOT / ".github" / "scripts"


def run(name: str, folder: Path, words: tuple[str, ...] = (), **environ: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-I"] if name.endswith(".py") else ["bash"]
    files = {each: str(folder / each) for each in ("GITHUB_ENV", "GITHUB_OUTPUT")}
    known = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **files, **environ}
    return subprocess.run(
        [*program, str(SCRIPTS / name), *words], cwd=folder, env=known, capture_output=True, text=True, check=False
    )


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_inputs_become_settings(tmp_path: Path) -> None:
    """Thresholds as changes in percent, a path and a rule become the settings that ratchet reads."""
    done = run("settings.py", tmp_path, THRESHOLD="-3", IMPROVEMENT="5.0", BASELINE="bench/results/baseline.json",
               FAIL_ON="inconclusive", BUILD="make kernels", BUDGET="2m", DEVICE="cuda")  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert lines_of(tmp_path / "GITHUB_ENV") == [
        "RATCHET_REGRESSION_THRESHOLD=3%",
        "RATCHET_IMPROVEMENT_THRESHOLD=5.0%",
        "RATCHET_RESULTS=bench/results",
        "RATCHET_ON_INCONCLUSIVE=fail",
        "RATCHET_BUILD=make kernels",
        "RATCHET_DEVICE=cuda",
        "RATCHET_BUDGET=2m",
    ]


def test_the_budget_of_a_search_is_not_the_budget_of_a_check(tmp_path: Path) -> None:
    """Of `tune` the budget is an option of the command, no setting."""
    assert run("settings.py", tmp_path, COMMAND="tune", BUDGET="20m").returncode == 0
    assert lines_of(tmp_path / "GITHUB_ENV") == []


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("THRESHOLD", "3.0", "threshold"),  # 3 % faster is no regression
        ("THRESHOLD", "-0", "threshold"),
        ("THRESHOLD", "-300", "threshold"),
        ("THRESHOLD", "-3.0\nLD_PRELOAD=x", "threshold"),
        ("IMPROVEMENT", "-5", "improvement"),
        ("IMPROVEMENT", "nan", "improvement"),
        ("BASELINE", "../baseline.json", "baseline"),
        ("BASELINE", "/etc/baseline.json", "baseline"),
        ("BASELINE", "results/best.json", "baseline"),
        ("BASELINE", "baseline.json", "baseline"),
        ("FAIL_ON", "improvement", "fail-on"),
        ("BUILD", "make\nLD_PRELOAD=/tmp/x.so", "BUILD"),
    ],
)
def test_an_input_that_means_nothing_is_refused(name: str, value: str, word: str, tmp_path: Path) -> None:
    """A wrong value ends with one sentence that names the input, and sets nothing."""
    done = run("settings.py", tmp_path, **{name: value})
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=ratchet::")
    assert word in done.stdout
    assert done.stdout.count("\n") == 1
    assert not (tmp_path / "GITHUB_ENV").exists()


MODE = 'baseline_mode = "branch"\n'


def fetched(folder: Path, settings: str, branches: dict[str, dict[str, str]]) -> Path:
    """A clone in which the base branch ``main`` has these settings, and others have these files, as a checkout fetched them."""
    new_repository(folder / "clone", {"pyproject.toml": f"[tool.ratchet]\n{settings}"})
    clone = folder / "clone"
    git(clone, "remote", "add", "origin", str(folder / "nowhere"))
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    for name, files in branches.items():
        git(clone, "checkout", "--quiet", "--orphan", "other")
        commit(clone, name, files)
        git(clone, "update-ref", f"refs/remotes/origin/{name}", "HEAD")
        git(clone, "checkout", "--quiet", "-B", "head", "refs/remotes/origin/main")
        git(clone, "branch", "--quiet", "-D", "other")
    return clone


def placed(clone: Path, base: str = "refs/heads/main", **environ: str) -> tuple[int, str, str | None]:
    """Exit code and last line of the script, without the one about thresholds, and the baseline that is there then."""
    done = run("baseline.py", clone, BASE_BRANCH=base, **environ)
    assert done.stderr == ""
    path = clone / "results" / "baseline.json"
    said = done.stdout if done.returncode else done.stdout.split("\n", 1)[1]
    return done.returncode, said, path.read_text() if path.is_file() else None


def test_thresholds_are_those_of_the_base_branch(tmp_path: Path) -> None:
    """Its settings, not the checkout's, reach the steps after this one, unless this job was given others; the log says which."""
    clone = fetched(tmp_path, 'regression_threshold = "20%"\nresults = "perf"\ngates = { host_time = "20%" }\n', {})
    (clone / "pyproject.toml").write_text('[tool.ratchet]\nregression_threshold = "90%"\non_inconclusive = "fail"\n')
    at = f"pyproject.toml of main at {git(clone, 'rev-parse', 'HEAD')[:10]}"
    done = run("baseline.py", clone, BASE_BRANCH="main")
    assert done.stdout == f"gate 20 % from {at}; improvement 5 % from the defaults, since {at} sets none.\n"
    assert lines_of(clone / "GITHUB_ENV") == [
        "RATCHET_REGRESSION_THRESHOLD=0.2",
        "RATCHET_IMPROVEMENT_THRESHOLD=0.05",
        "RATCHET_CONFIDENCE=0.95",
        "RATCHET_FALSE_ALARM=0.001",
        "RATCHET_ON_INCONCLUSIVE=pass",
        "RATCHET_MUTE=[]",
        'RATCHET_GATES={"host_time": 0.2}',
        "RATCHET_RESULTS=perf",
    ]
    done = run("baseline.py", clone, BASE_BRANCH="main", RATCHET_REGRESSION_THRESHOLD="7%")
    assert done.stdout.startswith(f"gate 7 % from this workflow, not from {at}; ")
    done = run("baseline.py", clone, BASE_BRANCH="release")
    assert done.stdout.startswith("gate 90 % from pyproject.toml of this checkout, since it has no release; ")


def test_a_setting_of_several_lines_sets_nothing(tmp_path: Path) -> None:
    """A folder whose name would be another variable ends with one sentence."""
    clone = fetched(tmp_path, 'results = "a\\nLD_PRELOAD=x"\n', {})
    done = run("baseline.py", clone, BASE_BRANCH="main")
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert "results in [tool.ratchet] holds a control character" in done.stdout
    assert not (clone / "GITHUB_ENV").exists()


def test_a_baseline_with_a_branch_of_its_own_is_put_in_place(tmp_path: Path) -> None:
    """That branch is the one that the base branch's settings name, not the checkout's; nothing is fetched from anywhere."""
    files = {"ratchet-baseline": {"results/baseline.json": "ours"}, "theirs": {"results/baseline.json": "theirs"}}
    clone = fetched(tmp_path, MODE, files)
    (clone / "pyproject.toml").write_text('[tool.ratchet]\nbaseline_branch = "theirs"\n')
    said = "results/baseline.json is that of ratchet-baseline.\n"
    assert placed(clone) == (0, said, "ours")
    assert placed(clone, "main", RATCHET_RESULTS="results") == (0, said, "ours")


def test_a_mode_that_a_workflow_was_given(tmp_path: Path) -> None:
    """It wins over the settings, either way; without the mode nothing is touched and nothing said."""
    clone = fetched(tmp_path, "", {"ratchet-baseline": {"results/baseline.json": "ours"}})
    assert placed(clone) == (0, "", None)
    assert placed(clone, RATCHET_BASELINE_MODE="") == (0, "", None)
    assert placed(clone, RATCHET_BASELINE_MODE="branch")[2] == "ours"


def test_a_branch_without_a_baseline(tmp_path: Path) -> None:
    """Until the branch is there the checkout's file stays; where it has no file, an empty one takes that file's place."""
    clone = fetched(tmp_path, MODE, {})
    (clone / "results").mkdir()
    (clone / "results" / "baseline.json").write_text("of main")
    code, said, found = placed(clone)
    assert (code, found) == (0, "of main")
    assert "There is no branch ratchet-baseline yet" in said
    git(clone, "update-ref", "refs/remotes/origin/ratchet-baseline", "HEAD")
    code, said, found = placed(clone)
    assert (code, json.loads(found or "")["fingerprints"]) == (0, {})
    assert "has none yet" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("baseline_mode = 'branch'\nbaseline_branch = '--upload-pack=x'\n", "baseline_branch in pyproject.toml"),
        ("baseline_mode = 'elsewhere'\n", "baseline_mode in pyproject.toml"),
        ("baseline_mode = \n", "not valid TOML"),
        ("baseline_mode = 'branch'\nresults = '../out'\n", "leads out of the checkout"),
        ("baseline_mode = 'branch'\nresults = 'link'\n", "leads out of the checkout"),
        ("baseline_mode = 'branch'\nresults = 'folder'\n", "is not a regular file"),
    ],
)
def test_a_place_that_is_none(settings: str, said: str, tmp_path: Path) -> None:
    """Settings that mean nothing, and a folder or file that the checkout turned into something else, end with one sentence."""
    clone = fetched(tmp_path, settings, {"ratchet-baseline": {"notes.txt": "x"}})
    (tmp_path / "out").mkdir()
    (clone / "link").symlink_to(tmp_path / "out")
    (clone / "folder" / "baseline.json").mkdir(parents=True)
    code, line, _ = placed(clone)
    assert code in (2, 3)
    assert line.startswith("::error title=ratchet::")
    assert said in line
    assert line.count("\n") == 1
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(("merge_base", "words"), [("", "--base=HEAD --time-identical"), ("b" * 40, f"--merge-base={'b' * 40}")])
def test_a_machine_that_the_baseline_does_not_know(merge_base: str, words: str, tmp_path: Path) -> None:
    """Where no case has a commit to be compared with, a push is measured beside itself, a pull request against its base."""
    program = tmp_path / "ratchet" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\ncase "$*" in *--against-baseline*) exit 2;; esac\n')
    program.chmod(0o755)
    given = {"COMMAND": "check", "AGAINST_BASELINE": "true", "BASE": "", "MERGE_BASE": merge_base, "CASES": "a b", "BUDGET": ""}
    done = run("measure.sh", tmp_path, RUNNER_TEMP=str(tmp_path), **given)
    assert done.returncode == 0, done.stderr
    assert lines_of(tmp_path / "calls") == [
        "-P -m ratchet check --against-baseline --wait 30m -- a b",
        f"-P -m ratchet check {words} --wait 30m -- a b",
    ]
    assert lines_of(tmp_path / "GITHUB_OUTPUT") == ["status=0"]


@pytest.mark.parametrize("said", [None, "", "false", "1"])
def test_caches_of_a_machine_with_a_past_lie_in_the_job(said: str | None, tmp_path: Path) -> None:
    """Unless the machine says that it is ephemeral, each cache of compiled code is an empty folder of the job."""
    (tmp_path / "ratchet-caches" / "triton").mkdir(parents=True)
    ephemeral = {} if said is None else {"RATCHET_EPHEMERAL": said}
    event = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main", "DEFAULT_BRANCH": "main"}
    assert run("caches.sh", tmp_path, RUNNER_TEMP=str(tmp_path), **event, **ephemeral).returncode == 0
    set_to = dict(line.split("=") for line in lines_of(tmp_path / "GITHUB_ENV"))
    assert set_to.pop("RATCHET_BUILDS_DIR") == ""
    names = {"RATCHET_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH"}
    assert set(set_to) == names
    assert all(value.startswith(f"{tmp_path}/ratchet-caches") for value in set_to.values())
    assert not (tmp_path / "ratchet-caches").exists()


@pytest.mark.parametrize(
    ("event", "ref", "lines"),
    [
        ("push", "refs/heads/main", []),
        ("push", "refs/heads/topic", ["RATCHET_BUILD_CACHE=read"]),
        ("push", "refs/tags/main", ["RATCHET_BUILD_CACHE=read"]),
        ("pull_request", "refs/pull/7/merge", ["RATCHET_BUILD_CACHE=read"]),
        ("workflow_dispatch", "refs/heads/main", ["RATCHET_BUILD_CACHE=read"]),
        ("merge_group", "refs/heads/gh-readonly-queue/main/pr-7", ["RATCHET_BUILD_CACHE=read"]),
    ],
)
def test_builds_are_kept_by_pushes_to_main_alone(event: str, ref: str, lines: list[str], tmp_path: Path) -> None:
    """On an ephemeral machine every other run reads what is there, and adds nothing."""
    (tmp_path / "GITHUB_ENV").touch()
    given = {"GITHUB_EVENT_NAME": event, "GITHUB_REF": ref, "DEFAULT_BRANCH": "main", "RATCHET_EPHEMERAL": "true"}
    assert run("caches.sh", tmp_path, RUNNER_TEMP=str(tmp_path), **given).returncode == 0
    assert lines_of(tmp_path / "GITHUB_ENV") == lines


@pytest.mark.parametrize(
    ("command", "own"), [("check", "nsight/a.ncu-rep"), ("tune", "tuning/suggestions.md"), ("soak", "soak/a.jsonl")]
)
def test_an_artifact_holds_plain_files_alone(command: str, own: str, tmp_path: Path) -> None:
    """The run, and the profiles, the records or the decisions of its command are taken; links, devices, records that were there
    before a search, and whatever else lies about are not.
    """
    results = tmp_path / "results"
    (results / "nsight").mkdir(parents=True)
    (results / "soak").mkdir()
    (tmp_path / "tuning").mkdir()
    (tmp_path / "ratchet").mkdir()
    earlier = tmp_path / "tuning" / "earlier, by somebody else.json"
    earlier.write_text("{}")
    os.utime(earlier, (1, 1))
    (tmp_path / "ratchet" / "before.json").write_text("{}")
    (results / "current.json").write_text("{}")
    (results / "soak" / "a.jsonl").write_text("{}")
    (results / "nsight" / "a.ncu-rep").write_text("profile")
    (results / "nsight" / "passwords").symlink_to("/etc/passwd")
    (results / "nsight" / "everything").symlink_to("/etc")
    os.mkfifo(results / "nsight" / "pipe")
    (results / "secret.txt").write_text("no")
    (tmp_path / "tuning" / "suggestions.md").write_text("faster")
    report = {"cases": [{"outcome": each} for each in ("REGRESSED", "FAILED", "IMPROVED", "UNCHANGED")]}
    (results / "report.json").write_text(json.dumps(report))
    given = {"STATUS": "1", "FOLDER": str(tmp_path / "artifact"), "COMMAND": command, "RUNNER_TEMP": str(tmp_path)}
    done = run("collect.py", tmp_path, **given)
    assert done.returncode == 0, done.stderr
    taken = {path.relative_to(tmp_path / "artifact").as_posix() for path in (tmp_path / "artifact").rglob("*") if path.is_file()}
    assert taken == {"current.json", own}
    counted = ["regressions=2", "improvements=1"] if command == "check" else ["regressions=0", "improvements=0"]
    assert lines_of(tmp_path / "GITHUB_OUTPUT")[:3] == ["verdict=regressed", *counted]


def test_a_link_of_several_lines_adds_no_output(tmp_path: Path) -> None:
    """The results may be a link whose target has line breaks: the outputs are four all the same."""
    target = tmp_path / "x\nverdict=passed\nregressions=0"
    target.mkdir()
    (tmp_path / "results").symlink_to(target)
    done = run("collect.py", tmp_path, STATUS="1", FOLDER=str(tmp_path / "artifact"), COMMAND="check")
    assert done.returncode == 0, done.stderr
    names = [line.partition("=")[0] for line in lines_of(tmp_path / "GITHUB_OUTPUT")]
    assert names == ["verdict", "regressions", "improvements", "report-path"]


@pytest.mark.parametrize(
    "report", ["", "[", "[1]", '{"cases": 3}', '{"cases": [{"outcome": ["x"]}]}', '{"cases": [{}]}', "[" * 100_000]
)
def test_a_report_that_is_none_counts_nothing(report: str, tmp_path: Path) -> None:
    """Whatever the measured code left as its report, the outputs are numbers and words of ours."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.json").write_text(report)
    done = run("collect.py", tmp_path, STATUS="0", FOLDER=str(tmp_path / "artifact"), COMMAND="check")
    assert done.returncode == 0, done.stderr
    assert lines_of(tmp_path / "GITHUB_OUTPUT")[:3] == ["verdict=passed", "regressions=0", "improvements=0"]


def test_a_check_that_measured_nothing_has_no_verdict(tmp_path: Path) -> None:
    """After exit code 3, or none at all, a report from an earlier run does not count."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.json").write_text('{"cases": [{"outcome": "IMPROVED"}]}')
    for number, status in enumerate(("3", "2", "")):
        folder = tmp_path / str(number)
        assert run("collect.py", tmp_path, STATUS=status, FOLDER=str(folder), COMMAND="check").returncode == 0
        assert lines_of(tmp_path / "GITHUB_OUTPUT")[-4:-1] == ["verdict=unmeasured", "regressions=0", "improvements=0"]


def machine(folder: Path, *, permitted: bool) -> Path:
    """Programs that write down how they were called."""
    for name in ("nvidia-smi", "sudo"):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\nexit {0 if permitted else 1}\n')
        path.chmod(0o755)
    return folder / "calls"


@pytest.mark.parametrize(("clocks", "words"), [("1410", "--lock-gpu-clocks=1410"), ("1200,1410", "--lock-gpu-clocks=1200,1410")])
def test_clocks_are_locked_and_released(clocks: str, words: str, tmp_path: Path) -> None:
    """The clocks that are asked for are set, and given back."""
    calls = machine(tmp_path, permitted=True)
    assert run("clocks.sh", tmp_path, ("lock",), RATCHET_LOCK_CLOCKS=clocks).returncode == 0
    assert run("clocks.sh", tmp_path, ("release",), RATCHET_LOCK_CLOCKS=clocks).returncode == 0
    lock, release = (line.split("nvidia-smi ")[1] for line in lines_of(calls))
    assert (lock, release) == (words, "--reset-gpu-clocks")


def test_a_machine_that_does_not_permit_it_is_measured_as_it_is(tmp_path: Path) -> None:
    """Where clocks cannot be locked or released, that is a warning and no failure."""
    machine(tmp_path, permitted=False)
    for word in ("lock", "release"):
        done = run("clocks.sh", tmp_path, (word,), RATCHET_LOCK_CLOCKS="1410")
        assert done.returncode == 0
        assert done.stdout.startswith("::warning title=ratchet::")


@pytest.mark.parametrize("clocks", ["fast", "1410; id", "-1", "1410,", "--help"])
def test_clocks_that_are_none_are_refused(clocks: str, tmp_path: Path) -> None:
    """A value that is no clock reaches no program."""
    calls = machine(tmp_path, permitted=True)
    assert run("clocks.sh", tmp_path, ("lock",), RATCHET_LOCK_CLOCKS=clocks).returncode == 2
    assert not calls.exists()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (None, "gpu=true\nneeded=\n"),
        ("[]", "gpu=true\nneeded=\n"),
        ('{"cases": []}', "gpu=true\nneeded=\n"),
        ('{"cases": [{"name": "a/b", "identical": true}]}', "gpu=false\nneeded=\n"),
        ('{"cases": [{"name": "a/b", "identical": true}, {"name": "c/d", "identical": false}]}', "gpu=true\nneeded=c/d\n"),
        ('{"cases": [{"name": "a/b", "identical": false}]}', "gpu=true\nneeded=\n"),
        ('{"cases": [{"name": "a/b", "identical": true}, {"name": "x\\ngpu=false", "identical": false}]}', "gpu=true\nneeded=\n"),
        ('{"cases": [{"name": "a/b", "identical": "true"}]}', "gpu=true\nneeded=\n"),
        pytest.param(
            json.dumps({"cases": [{"name": f"a/{number:060}", "identical": not number} for number in range(3000)]}),
            "gpu=true\nneeded=\n",
            id="more names than a variable holds",
        ),
    ],
)
def test_only_a_whole_report_spares_the_gpu(tmp_path: Path, report: str | None, said: str) -> None:
    """The outputs say that no GPU is needed only where every case of a report is identical, and are made of names alone."""
    if report is not None:
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "static_report.json").write_text(report)
    assert run("static_report.py", tmp_path, ("outputs", "results")).stdout == said


@pytest.mark.parametrize(
    ("install", "said"),
    [
        (["torch==2.10.0", "triton==3.6.0"], "torch==2.10.0 triton==3.6.0"),
        (["torch==2.10.0", "--index-url=x"], ""),
        (["torch==2.10.0"], ""),
        ([], ""),
        ("x", ""),
    ],
)
def test_only_torch_and_triton_are_installed(tmp_path: Path, install: object, said: str) -> None:
    """Of a report that names anything else, nothing is installed."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "static_report.json").write_text(json.dumps({"install": install}))
    assert run("static_report.py", tmp_path, ("install", "results")).stdout == said


def test_a_commit_brings_no_record_and_no_report_of_its_own(tmp_path: Path) -> None:
    """Both are removed before the question, so that where nothing answers it the GPU has everything to do."""
    (tmp_path / "results").mkdir()
    for name in ("static.json", "static_report.json"):
        (tmp_path / "results" / name).write_text('{"cases": [{"name": "a/b", "identical": true}]}')
    program = tmp_path / "ratchet" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nif [ "$1" = -I ]; then exec {sys.executable} "$@"; fi\nexit 3\n')
    program.chmod(0o755)
    words = {"COMMAND": "static", "CASES": "", "BASE": "", "MERGE_BASE": "main", "PACKAGES": "", "RUNNER_TEMP": str(tmp_path)}
    assert run("static.sh", tmp_path, **words).returncode == 0
    assert lines_of(tmp_path / "GITHUB_OUTPUT") == ["status=3", "gpu=true", "needed="]


def test_a_proposal_that_got_no_pull_request_is_made_again(tmp_path: Path) -> None:
    """The branch of the first attempt is there, and the next one, which commits at another time, pushes one of its own."""
    new_repository(tmp_path / "work", {"kernel.cu": "first\n"})
    git(tmp_path, "clone", "--quiet", "--bare", "work", "origin.git")
    head = git(tmp_path / "work", "rev-parse", "HEAD")
    artifact = tmp_path / "artifact" / "tuning" / "x.json"
    artifact.parent.mkdir(parents=True)
    artifact.write_text(dumps(tuning_examples.record(head=Tree(commit=head))))
    with FakeGitHub(State(origin=tmp_path / "origin.git")) as fake:
        environ = {"GITHUB_TOKEN": fake.token, "GITHUB_API_URL": fake.url, "GITHUB_REPOSITORY": fake.state.repository}
        environ |= {"GITHUB_RUN_ID": "901", "BASE": "main", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
        ends = []
        for attempt, rights in (("1", set[str]()), ("2", {"pull_requests"})):
            clone = tmp_path / attempt
            git(tmp_path, "clone", "--quiet", "origin.git", str(clone))
            fake.state.tokens[fake.token].rights = frozenset(rights)
            dates = {"GIT_COMMITTER_DATE": f"2026-01-0{attempt}T00:00:00Z", "GITHUB_RUN_ATTEMPT": attempt}
            command = [sys.executable, "-P", str(SCRIPTS / "propose.py"), str(tmp_path / "artifact")]
            known = {"PATH": os.environ["PATH"], **environ, **dates}
            ends.append(subprocess.run(command, cwd=clone, env=known, capture_output=True, text=True, check=False))
    assert [end.returncode for end in ends] == [2, 0], ends
    assert [pull.head_ref for pull in fake.state.pulls.values()] == ["ratchet/tune-901-2"]
