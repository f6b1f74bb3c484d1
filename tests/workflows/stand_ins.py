"""Stand-ins for the actions of others that our workflows use: checkout, artifacts, Python and Node."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fake_github import State, Token

Inputs = Mapping[str, str]


class StepFailed(Exception):
    """A step of a stand-in failed; the text is what it says."""


@dataclass
class Store:
    """Artifacts of all runs: id of the run → name → folder."""

    folder: Path
    names: dict[int, dict[str, Path]] = field(default_factory=dict)

    def adopt(self, run: int) -> None:
        """Take over what lies in the folder already."""
        self.names[run] = {path.name: path for path in (self.folder / str(run)).iterdir()}

    def put(self, run: int, name: str, source: Path) -> None:
        target = self.folder / str(run) / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self.names.setdefault(run, {})[name] = target


def checkout(inputs: Inputs, github: Mapping[str, Any], origin: Path, workspace: Path, *, may_write: bool) -> None:
    """A clone at the ref; without ``fetch-depth: 0`` of one commit.

    Nothing can be pushed from it unless the job may write and its credentials persist.
    """
    target = workspace / inputs.get("path", "")
    target.mkdir(parents=True, exist_ok=True)
    given = inputs.get("ref") or ""
    on_branch = "" if given else github["ref"].removeprefix("refs/heads/")
    ref = given.removeprefix("refs/heads/") or github["sha"]
    _git(target, "init", "--quiet")
    _git(target, "remote", "add", "origin", f"file://{origin}")
    if not may_write or inputs.get("persist-credentials") != "true":
        _git(target, "remote", "set-url", "--push", "origin", "file:///no-credentials-here")
    deep = inputs.get("fetch-depth") == "0"
    if deep:
        _git(target, "fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    _git(target, "fetch", "--quiet", *([] if deep else ["--depth=1"]), "origin", ref)
    at = ["-B", on_branch] if on_branch and "/" not in on_branch else ["--detach"]
    _git(target, "checkout", "--quiet", *at, "FETCH_HEAD")


APP_ID, APP_KEY = "271828", "-----BEGIN RSA PRIVATE KEY-----\nof the App\n-----END RSA PRIVATE KEY-----"
APP = "kernels-gate[bot]"
"""The App whose ID and key this is, as the author of what it writes."""


def app_token(inputs: Inputs, run: int, state: State) -> dict[str, str]:
    """A token of the App with the rights that are asked for. Raises StepFailed for another key."""
    if (inputs["client-id"], inputs["private-key"]) != (APP_ID, APP_KEY):
        raise StepFailed("A JSON web token could not be decoded")
    rights = {name.removeprefix("permission-").replace("-", "_") for name, level in inputs.items() if level == "write"}
    token = f"ghs_app{run}{'x' * 30}"
    state.tokens[token] = Token(APP, frozenset(rights))
    return {"token": token, "app-slug": APP.removesuffix("[bot]")}


def upload(inputs: Inputs, run: int, store: Store) -> None:
    """Raises StepFailed."""
    source = Path(inputs["path"])
    if not source.is_dir() or not any(source.iterdir()):
        if inputs.get("if-no-files-found") == "error":
            raise StepFailed(f"No files were found with the provided path: {source}")
        return
    if inputs["name"] in store.names.get(run, {}) and inputs.get("overwrite") != "true":
        raise StepFailed("an artifact with this name already exists on the workflow run")
    store.put(run, inputs["name"], source)


def download(inputs: Inputs, run: int, store: Store, workspace: Path) -> None:
    """Raises StepFailed where an artifact asked for by name is not there."""
    other = inputs.get("run-id") or ""
    if other and not inputs.get("github-token"):
        raise StepFailed("artifacts of another run need github-token")
    found = store.names.get(int(other) if other else run, {})
    target = Path(inputs.get("path") or workspace)
    if inputs.get("name"):
        if inputs["name"] not in found:
            raise StepFailed(f"Unable to download artifact(s): Artifact not found for name: {inputs['name']}")
        _unpack(found[inputs["name"]], target, inputs)
        return
    before, _, rest = (inputs.get("pattern") or "*").partition("{")
    choices, _, after = rest.partition("}")
    names = [name for choice in choices.split(",") for name in fnmatch.filter(found, f"{before}{choice}{after}")]
    for name in names:
        _unpack(found[name], target if len(names) == 1 else target / name, inputs)  # one alone gets no folder of its name


def _unpack(source: Path, target: Path, inputs: Inputs) -> None:
    if inputs.get("skip-decompress") != "true":
        shutil.copytree(source, target, dirs_exist_ok=True)
        return
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target / f"{source.name}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(source).as_posix())


def _git(folder: Path, *words: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environ | {"GIT_CONFIG_GLOBAL": os.devnull}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StepFailed(done.stderr)
