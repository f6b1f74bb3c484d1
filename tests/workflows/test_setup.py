"""docs/setup-github.md, step by step: its files are valid, and do what it says in another repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.workflows.bridge import Bridge
from tests.workflows.reading import ROOT
from tests.workflows.scene import SLOW_ADDS, Scene, git
from tests.workflows.shims import tool

GUIDE = (ROOT / "docs" / "setup-github.md").read_text(encoding="utf-8")
FILES = {
    name: text.replace("OWNER/", "octo-org/").replace("@COMMIT", f"@{'a' * 40}")
    for name, text in re.findall(r"```yaml\n# \.github/workflows/(\w+\.yml)\n(.*?)```", GUIDE, re.DOTALL)
}


def written(folder: Path) -> Path:
    """The guide's files, in a folder."""
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_guide_has_a_file_for_each_workflow() -> None:
    """Every workflow of ours that another repository can call is in the guide, and no other."""
    ours = {path.name for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert set(FILES) == ours - {"ci.yml"}


@pytest.mark.parametrize("name", FILES)
def test_github_reads_the_files(name: str, bridge: Bridge) -> None:
    """GitHub's parser finds no fault in them, nor in what they give to the workflows that they call."""
    called = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert bridge.errors("workflow", "caller.yml", {**called, "caller.yml": FILES[name]}) == []


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


def test_three_steps_in_a_scratch_repository(scene: Scene) -> None:
    """Main enters its baseline, a slow pull request gets its comment and a red check, and an acceptance turns it green."""
    scene.workflows = written(scene.repo / ".github" / "workflows")
    scene.fake.state.permissions["a-maintainer"] = "write"
    sha = scene.push({f".github/workflows/{path.name}": path.read_text() for path in scene.workflows.iterdir()})
    run = scene.pushed("ratchet_baseline.yml", sha)
    assert run.conclusion == "success", run.log
    assert git(scene.origin, "log", "-1", "--format=%s", "main") == "perf: ratchet baseline forward (adds/small) [skip ci]"

    measured = scene.measure(scene.open_pull(SLOW_ADDS))
    assert measured.conclusion == "failure"
    report = scene.report(measured)
    assert report.conclusion == "success", report.log
    assert scene.check().conclusion == "failure"
    assert "adds/small" in scene.comment()

    scene.command("/ratchet accept adds/small the next stage needs it")
    scene.follow()
    assert scene.check().conclusion == "success"
    assert "a-maintainer" in scene.comment()


def test_a_mode_that_only_the_workflows_know(scene: Scene) -> None:
    """Given to the baseline's workflow alone, it reaches the GPU job too: the next push is compared with what that branch has."""
    scene.workflows = written(scene.repo / ".github" / "workflows")
    path = scene.workflows / "ratchet_baseline.yml"
    path.write_text(f"{path.read_text()}    with:\n      mode: branch\n")
    first = scene.pushed("ratchet_baseline.yml", scene.main)
    assert first.conclusion == "success", first.log
    assert git(scene.origin, "rev-parse", "main") == scene.main
    second = scene.pushed("ratchet_baseline.yml", scene.push({"notes.txt": "as before\n"}))
    assert second.conclusion == "success", second.log
    assert "results/baseline.json is that of ratchet-baseline." in second.log
