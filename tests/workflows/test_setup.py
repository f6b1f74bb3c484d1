"""The set-up in docs/github.md, followed literally in a fresh repository, on a persistent and an ephemeral stand-in runner."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from ratchet.adopt.files import TEMPLATES, workflow_values
from ratchet.github.publish import CHECK
from tests.integration.playground import new_repository, wait_until
from tests.integration.test_bisect import BENCH, WORK
from tests.workflows.bridge import Bridge
from tests.workflows.reading import ROOT
from tests.workflows.scene import NUMBER, QUIET, SLOW_ADDS, Scene, git
from tests.workflows.shims import tool
from tests.workflows.test_serving import jobs, serving

GUIDE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
ACTIONS = {int(number): text for number, text in re.findall(r"^### (\d+)\. .*?\n(.*?)(?=^##)", GUIDE, re.DOTALL | re.MULTILINE)}
"""Number → the text below its heading."""
LABELS = '["self-hosted", "gpu"]'
VALUES = workflow_values(f"octo-org/ratchet@{'a' * 40}", LABELS, "python3", "main")
FILES = {name: VALUES.fill(text) for name, text in TEMPLATES.items()}
Gpu = Callable[[list[str]], AbstractContextManager[Mapping[str, str]]]


def written(folder: Path) -> Path:
    """The guide's files, in a folder."""
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


APP = re.search(r"```yaml\n( +with:\n +environment: .*?)```", GUIDE, re.DOTALL)
"""What the files get with a GitHub App."""


def with_app(text: str) -> str:
    """A caller's file with the App's lines, as the guide has them."""
    assert APP
    lines = textwrap.dedent(APP[1]).splitlines()
    given, secrets = lines[: lines.index("secrets:")], lines[lines.index("secrets:") :]
    own = "    with:\n"
    text = (
        text.replace(own, own + f"    {given[1]}\n") if own in text else text + textwrap.indent("\n".join(given), "    ") + "\n"
    )
    return text + textwrap.indent("\n".join(secrets), "    ") + "\n"


def commands(*numbers: int) -> str:
    """What the guide has a person type in these actions, as one script, with values of our own."""
    blocks = [block for number in numbers for block in re.findall(r"```console\n(.*?)```", ACTIONS[number], re.DOTALL)]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    script = "\n".join(lines).replace("=OWNER/ratchet", "=octo-org/ratchet")
    return script.replace("=/opt/torch/bin/python", f"={sys.executable if 2 in numbers else 'python3'}")


def typed(script: str, scene: Scene) -> str:
    """Run it in the clone of a person for whom github.com is a folder of this machine; return what was seen."""
    here = scene.repo.parent / "github.com"
    environ = scene.actions.environ | {
        "GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_0": f"url.file://{here}/.insteadOf", "GIT_CONFIG_VALUE_0": "https://github.com/",
        "GIT_CONFIG_KEY_1": "user.name", "GIT_CONFIG_VALUE_1": "A Person",
        "GIT_CONFIG_KEY_2": "user.email", "GIT_CONFIG_VALUE_2": "a-person@example.org",
    }  # fmt: skip
    tools = scene.repo.parent / "tools"  # there is no index here that uv could ask: the ratchet of this checkout is the one
    tools.mkdir(exist_ok=True)
    (tools / "uvx").write_text('#!/bin/sh\n[ "$1 $2" = "--quiet --from" ] || exit 9\nshift 3\nexec "$@"\n', encoding="utf-8")
    (tools / "uvx").chmod(0o755)
    environ["PATH"] = f"{tools}:{environ['PATH']}"
    program = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(program, cwd=scene.repo, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def publish_ratchet(folder: Path) -> str:
    """Put a repository where `git ls-remote` finds it; return its commit."""
    folder.parent.mkdir(parents=True)
    new_repository(folder, {"README.md": "ratchet\n"})
    return git(folder, "rev-parse", "HEAD")


@contextmanager
def persistent(scene: Scene) -> Iterator[Gpu]:
    """A machine that keeps all that jobs leave behind."""

    def wait(labels: list[str]) -> AbstractContextManager[Mapping[str, str]]:
        assert labels == ["self-hosted", "gpu"], f"no machine has {labels}"
        return nullcontext({})

    yield wait


@contextmanager
def ephemeral(scene: Scene) -> Iterator[Gpu]:
    """runners/serve.sh, with a program that is there for one job and gives it an empty home."""
    folder = scene.repo.parent / "machine"
    folder.mkdir()
    waits = f"touch {folder}/ready; while [ ! -e {folder}/done ]; do sleep 0.02; done; rm {folder}/done"

    @contextmanager
    def wait(labels: list[str]) -> Iterator[Mapping[str, str]]:
        wait_until((folder / "ready").exists, "no runner waits for a job")
        (folder / "ready").unlink()
        (runner,) = scene.fake.state.runners.values()
        assert set(labels) <= set(runner["labels"]), f"no machine has {labels}"
        home = folder / runner["name"]
        (home / "tmp").mkdir(parents=True)
        own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(home / "tmp"), "RATCHET_EPHEMERAL": "true"}
        try:
            yield own
        finally:
            shutil.rmtree(home)
            (folder / "done").touch()

    with serving(scene.fake, folder, waits):
        yield wait


def test_there_are_five_actions() -> None:
    """They are numbered, each says what one sees, and one word in one place stands for the repository of ratchet."""
    assert list(ACTIONS) == list(range(1, len(ACTIONS) + 1))
    assert len(ACTIONS) == 5
    assert all(text.count("\nYou see: ") == 1 for text in ACTIONS.values())
    assert re.findall(r"\b(?:OWNER|REPOSITORY|YOUR_\w+|an-owner)\b", "".join(ACTIONS.values())) == ["OWNER"]


def test_no_word_of_a_template_is_left() -> None:
    """Filled in, the files have no placeholder."""
    assert not re.findall(r"\b(?:RATCHET|RUNNER|DEFAULT)_[A-Z]+\b", "".join(FILES.values()))


@pytest.mark.slow
@pytest.mark.parametrize("machine", [persistent, ephemeral])
def test_the_guide_followed(machine: Callable[[Scene], AbstractContextManager[Gpu]], scene: Scene) -> None:
    """Main enters its baseline; a fork's slow pull request gets its comment and a red check; an acceptance turns it green."""
    sha = publish_ratchet(scene.repo.parent / "github.com" / "octo-org" / "ratchet")
    git(scene.repo, "checkout", "--quiet", "main")
    with machine(scene) as scene.actions.gpu:
        assert re.search(r"^git version .*\n\d+\.\d+", typed(commands(2), scene))
        said = typed(commands(3), scene)
        assert [line.split("/")[:2] + line.split("@")[1:] for line in said.splitlines() if "uses:" in line] == [
            ["    uses: octo-org", "ratchet", sha]
        ] * 7
        git(scene.repo, "push", "--quiet", "origin", "ratchet:main")  # the pull request of action 4 is merged
        git(scene.repo, "fetch", "--quiet", "origin")
        scene.main = git(scene.repo, "rev-parse", "origin/main")
        scene.workflows = scene.repo.parent / "checkout"
        git(scene.repo, "clone", "--quiet", str(scene.origin), str(scene.workflows))
        scene.workflows /= ".github/workflows"

        run = scene.pushed("ratchet_baseline.yml", scene.main)
        assert run.conclusion == "success", run.log
        assert git(scene.origin, "log", "-1", "--format=%s", "main") == "perf: ratchet baseline forward (adds/small) [skip ci]"

        scene.fake.state.permissions["a-maintainer"] = "write"
        measured = scene.measure(scene.open_pull(SLOW_ADDS, fork=True))
        assert measured.conclusion == "failure"
        report = scene.report(measured)
        assert report.conclusion == "success", report.log
        assert scene.check().conclusion == "failure"
        assert "adds/small" in scene.comment()
        scene.command("/ratchet accept adds/small the next stage needs it")
        scene.follow()
        assert scene.check().conclusion == "success"
        assert "a-maintainer" in scene.comment()
    if machine is ephemeral:
        served = jobs(scene.repo.parent / "machine")
        assert len(set(served)) == len(served) >= 2
        assert not scene.fake.state.runners


def test_a_fork_asks_for_the_labels_that_the_file_names(scene: Scene) -> None:
    """Variables of the repository do not reach it, so nothing depends on them."""
    scene.workflows = written(scene.repo.parent / "workflows")
    for path in scene.workflows.iterdir():
        path.write_text(path.read_text().replace(LABELS, '["self-hosted", "a100"]'))
    scene.actions.variables["RATCHET_RUNNER"] = '["another"]'
    scene.actions.edited = {"BASELINE_PATH": "/nowhere"}  # which ends the jobs before they measure
    for fork in (True, False):
        run = scene.measure(scene.open_pull(QUIET, fork=fork))
        assert run.jobs["measure/measure"].labels == ["self-hosted", "a100"]
        del scene.fake.state.pulls[NUMBER]


def test_the_guide_has_a_file_for_each_workflow() -> None:
    """Every workflow of ours that others can call comes with the guide, but a soak, which needs a second runner."""
    ours = {path.name for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert set(FILES) == ours - {"ci.yml", "ratchet_soak.yml", "release.yml"}


@pytest.mark.parametrize("name", FILES)
def test_github_reads_the_files(name: str, bridge: Bridge) -> None:
    """GitHub's parser finds no fault in them, nor in what they give to the workflows that they call."""
    called = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert bridge.errors("workflow", "caller.yml", {**called, "caller.yml": FILES[name]}) == []


@pytest.mark.parametrize(
    "name", [*(f"ratchet_{name}.yml" for name in ("report", "command", "baseline", "bisect")), "cuda_autotune.yml"]
)
def test_an_app_s_lines_fit_the_files(name: str, bridge: Bridge, tmp_path: Path) -> None:
    """GitHub's parser and zizmor's auditor find no fault in a file with the lines that a GitHub App needs."""
    called = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    text = with_app(FILES[name])
    assert bridge.errors("workflow", "caller.yml", {**called, "caller.yml": text}) == []
    path = tmp_path / ".github" / "workflows" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = tool("zizmor", "--offline", "--no-progress", "--persona=auditor", "--strict-collection", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_environment_without_the_app_s_secrets_fails(scene: Scene) -> None:
    """Where an environment is named and gives no secrets, the job says so and writes nothing."""
    scene.workflows = written(scene.repo / ".github" / "workflows")
    path = scene.workflows / "ratchet_command.yml"
    path.write_text(with_app(path.read_text()))
    scene.fake.state.add_pull(7)
    run = scene.command("/ratchet accept adds/small because")
    assert run.conclusion == "failure"
    assert "The environment gave no RATCHET_APP_ID" in run.log
    assert scene.fake.sent("POST") == []


def test_the_ruleset_of_the_security_page_names_our_check() -> None:
    """Its JSON asks for the check run that ratchet makes, from one source."""
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.DOTALL)
    [rule] = json.loads(blocks[0])["rules"]
    [check] = rule["parameters"]["required_status_checks"]
    assert (rule["type"], check["context"], set(check)) == ("required_status_checks", CHECK, {"context", "integration_id"})


def test_the_files_are_as_safe_as_ours(tmp_path: Path) -> None:
    """zizmor's auditor finds nothing in them, and every job of theirs fits the published schema."""
    folder = written(tmp_path / ".github" / "workflows")
    paths = [str(folder / name) for name in FILES]
    for words in (
        ["zizmor", "--offline", "--no-progress", "--persona=auditor", "--strict-collection"],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
    ):
        done = tool(*words, *paths)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_mode_that_only_the_workflows_know(scene: Scene) -> None:
    """Given to the baseline's workflow alone, it reaches the GPU job too: the next push is compared with what that branch has."""
    scene.workflows = written(scene.repo / ".github" / "workflows")
    path = scene.workflows / "ratchet_baseline.yml"
    path.write_text(f"{path.read_text()}      mode: branch\n")
    first = scene.pushed("ratchet_baseline.yml", scene.main)
    assert first.conclusion == "success", first.log
    assert git(scene.origin, "rev-parse", "main") == scene.main
    second = scene.pushed("ratchet_baseline.yml", scene.push({"notes.txt": "as before\n"}))
    assert second.conclusion == "success", second.log
    assert "results/baseline.json is that of ratchet-baseline." in second.log


@pytest.mark.slow
def test_a_regression_of_main_gets_an_issue_where_the_file_asks_for_it(scene: Scene) -> None:
    """What regressed is measured once more, and the job that tells of it may write issues and nothing else; without the line
    nothing is told.
    """
    scene.workflows = written(scene.repo / ".github" / "workflows")
    first = scene.pushed("ratchet_baseline.yml", scene.main)
    assert first.conclusion == "success", first.log
    path = scene.workflows / "ratchet_baseline.yml"
    path.write_text(f"{path.read_text()}      issues: true\n")
    git(scene.repo, "pull", "--quiet", "origin", "main")
    run = scene.pushed("ratchet_baseline.yml", scene.push({"bench/adds.py": SLOW_ADDS}))
    assert run.conclusion == "success", run.log
    assert "benchmark-ratchet-results-again" in scene.actions.store.names[run.id]
    [issue] = scene.fake.state.issues.values()
    assert issue.title.startswith("main is slower: adds/small +")
    assert issue.author == "github-actions[bot]"


@pytest.mark.slow
def test_the_commit_of_a_regression_is_searched_and_told(scene: Scene) -> None:
    """Where the files ask for it, the issue gets the commit, how much slower it is and two lines, from the job of the second
    runner, which has no rights.
    """
    scene.workflows = written(scene.repo / ".github" / "workflows")
    first = scene.pushed("ratchet_baseline.yml", scene.push({"bench/adds.py": BENCH, "work.py": WORK}))
    assert first.conclusion == "success", first.log
    path = scene.workflows / "ratchet_baseline.yml"
    path.write_text(f"{path.read_text()}      issues: true\n      bisect: true\n")
    git(scene.repo, "fetch", "--quiet", "origin")
    git(scene.repo, "branch", "--force", "main", "origin/main")  # which holds the baseline now
    parent = scene.push({"notes.txt": "of no matter\n"})
    culprit = scene.push({"work.py": WORK.replace("0.002", "0.008")}, message="work more")
    run = scene.pushed("ratchet_baseline.yml", scene.push({"notes.txt": "after it\n"}))
    assert run.conclusion == "success", run.log
    searched = scene.follow()
    assert searched.conclusion == "success", searched.log
    assert searched.jobs["bisect/search"].labels == ["self-hosted", "gpu-idle"]
    [issue] = scene.fake.state.issues.values()
    assert f"**Culprit**: {culprit} work more" in (issue.body or ""), searched.log
    assert f"ratchet bisect adds/small {parent[:10]} {culprit[:10]}" in (issue.body or "")


@pytest.mark.parametrize("case", ["", "adds/small"])
def test_the_weekly_search_waits_for_a_case(scene: Scene, case: str) -> None:
    """On Mondays the file searches the case that the repository's variable names, and without one starts no job at all."""
    scene.workflows = written(scene.repo.parent / "workflows")
    scene.actions.edited = {"BASELINE_PATH": "/nowhere"}  # which ends the job before it measures
    if case:
        scene.actions.variables["RATCHET_TUNE_CASE"] = case
    run = scene.run("cuda_autotune.yml", "schedule", {"schedule": "23 4 * * 1"}, sha=scene.main)
    if not case:
        assert run.conclusion == "skipped", run.log
        return
    tune = run.jobs["autotune/tune"]
    assert tune.result != "skipped"
    assert case in tune.log
    assert run.jobs["autotune/propose"].result == "skipped"
