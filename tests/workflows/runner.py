"""Runs the steps of real workflow files as a runner of GitHub Actions does.

Expressions are evaluated by GitHub's own evaluator, `run` steps by bash in clones of a bare repository, our composite actions
and reusable workflows from their files. Actions of others have stand-ins. A token has the rights that the file gives its job.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tests.fake_github import FakeGitHub, Token
from tests.workflows import stand_ins
from tests.workflows.bridge import Bridge
from tests.workflows.reading import ROOT, assignments, in_order, our_action, our_path, permitted, read_yaml, word
from tests.workflows.results import Job, Run, Scope, Step
from tests.workflows.shims import make_machine

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_STATUS = re.compile(r"\b(success|failure|always|cancelled)\s*\(")
_SHELLS = {"": ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], "python": ["python"]}


class Actions:
    """One repository with its workflows; ``origin`` is bare. Runs leave artifacts behind for each other."""

    def __init__(self, folder: Path, origin: Path, fake: FakeGitHub, bridge: Bridge, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.origin = origin
        self.fake = fake
        self.bridge = bridge
        self.environ = dict(environ)
        self.store = stand_ins.Store(folder / "artifacts")
        self.variables: dict[str, str] = {}
        """Of the repository. Runs of pull requests from forks have none."""
        self.secrets: dict[str, str] = {}
        """Likewise, or of the environment that the trusted jobs name."""
        self.gpu: Callable[[list[str]], AbstractContextManager[Mapping[str, str]]] = lambda _: nullcontext({})
        """Waits for a machine with these labels that is not hosted; gives what its environment has beyond ``environ``."""
        self.edited: dict[str, Any] = {}
        """What somebody changed in the `env:` of the workflow files."""
        self.machines = {hosted: make_machine(folder / f"machine-{hosted}", hosted=hosted) for hosted in (True, False)}
        self._numbers = itertools.count(9001 + 1000 * len(list(folder.glob("run-*"))))

    def run(
        self,
        file: Path,
        event_name: str,
        event: Mapping[str, Any],
        *,
        sha: str,
        ref: str = "refs/heads/main",
        inputs: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run the workflow in a file to its end."""
        workflow = read_yaml(file)
        run = Run(next(self._numbers), workflow["name"], f".github/workflows/{file.name}", event_name, event, sha, ref)
        repository = self.fake.state.repository
        head = (event.get("pull_request") or {}).get("head") or {"ref": ref.removeprefix("refs/heads/"), "sha": sha}
        owner = head.get("repo", {}).get("full_name", repository)
        known = {"name": run.name, "path": run.path, "event": event_name, "head_sha": head["sha"], "head_repository": owner}
        self.fake.state.add_run(run.id, head_branch=head["ref"], conclusion=None, **known)
        whole = {
            "repository": {
                "full_name": repository,
                "default_branch": self.fake.state.default_branch,
                "name": repository.split("/")[1],
            },
            "sender": {"login": "octocat"},
            **event,
        }
        github = {
            "event": whole,
            "event_name": event_name,
            "repository": repository,
            "workflow": workflow["name"],
            "sha": sha,
            "ref": ref,
            "ref_type": "branch" if ref.startswith("refs/heads/") else "",
            "ref_name": ref.removeprefix("refs/heads/").removeprefix("refs/pull/"),
            "run_id": str(run.id),
            "run_attempt": "1",
            "run_number": "1",
            "actor": whole["sender"]["login"],
            "api_url": self.fake.url,
            "server_url": "https://github.com",
        }
        values = dict(inputs or {}) if inputs is not None else {}
        declared = (workflow["on"].get("workflow_dispatch") or {}).get("inputs", {}) if event_name == "workflow_dispatch" else {}
        given = {name: values.get(name, spec.get("default", "")) for name, spec in declared.items()}
        self._jobs(workflow, run, github, given, None, "", self.secrets)
        return run

    def _jobs(
        self,
        workflow: Mapping[str, Any],
        run: Run,
        github: Mapping[str, Any],
        inputs: Mapping[str, Any],
        allowed: Mapping[str, str] | None,
        prefix: str,
        secrets: Mapping[str, str],
    ) -> dict[str, Job]:
        done: dict[str, Job] = {}
        for name, spec in in_order(workflow["jobs"]):
            needs = [spec["needs"]] if isinstance(spec.get("needs"), str) else spec.get("needs", [])
            contexts = {
                "github": dict(github),
                "inputs": dict(inputs),
                "vars": {} if is_of_fork(run) else self.variables,
                "secrets": {} if is_of_fork(run) else dict(secrets),
                "needs": {need: {"result": done[need].result, "outputs": done[need].outputs} for need in needs},
            }
            done[name] = run.jobs[f"{prefix}{name}"] = Job(name)
            done[name].after_skip = any(done[need].result == "skipped" or done[need].after_skip for need in needs)
            # https://github.com/actions/runner/issues/2205: `success()` asks all jobs before, not only those that are needed.
            ok = all(done[need].result == "success" for need in needs) and not done[name].after_skip
            if self._condition(spec.get("if"), contexts, ok=ok):
                permissions = permitted(spec.get("permissions", workflow.get("permissions")), allowed)
                if "uses" in spec:
                    legs = []
                    for entry in spec.get("strategy", {}).get("matrix", {}).get("include", [{}]):
                        inner = f"{prefix}{name}/" + "".join(f"{value}/" for value in list(entry.values())[:1])
                        self._called(spec, run, contexts | {"matrix": entry}, permissions, done[name], inner)
                        legs.append(done[name].result)
                    done[name].result = "failure" if "failure" in legs else legs[-1]
                else:
                    self._job(spec, workflow, run, contexts, permissions, done[name])
        return done

    def _called(
        self, spec: Mapping[str, Any], run: Run, contexts: dict[str, Any], permissions: dict[str, str], job: Job, prefix: str
    ) -> None:
        workflow = read_yaml(ROOT / our_path(spec["uses"]))
        declared = workflow["on"]["workflow_call"].get("inputs", {})
        given = self._filled(spec.get("with", {}), contexts)
        assert set(given) <= set(declared), f"{spec['uses']} has no inputs {set(given) - set(declared)}"
        for name, value in given.items():
            wanted = {"boolean": bool, "string": str, "number": int | float}[declared[name]["type"]]
            assert isinstance(value, wanted) or value is None, f"input {name} of {spec['uses']} is no {declared[name]['type']}"
        empty = {"boolean": False, "string": "", "number": 0}
        inputs = {name: given.get(name, each.get("default", empty[each["type"]])) for name, each in declared.items()}
        passed = self._filled(spec.get("secrets", {}), contexts)
        unknown = set(passed) - set(workflow["on"]["workflow_call"].get("secrets", {}))
        assert not unknown, f"{spec['uses']} takes no secrets {unknown}"
        jobs = self._jobs(workflow, run, contexts["github"], inputs, permissions, prefix, passed)
        inner = {name: {"outputs": each.outputs, "result": each.result} for name, each in jobs.items()}
        outputs = workflow["on"]["workflow_call"].get("outputs", {})
        job.outputs = {name: str(self._text(each["value"], {"jobs": inner})) for name, each in outputs.items()}
        results = {each.result for each in jobs.values()}
        job.after_skip |= any(each.result == "skipped" or each.after_skip for each in jobs.values())
        job.result = "failure" if "failure" in results else "success" if "success" in results else "skipped"

    def _job(
        self,
        spec: Mapping[str, Any],
        workflow: Mapping[str, Any],
        run: Run,
        contexts: dict[str, Any],
        permissions: dict[str, str],
        job: Job,
    ) -> None:
        place = self.folder / f"run-{run.id}" / f"{len(run.jobs)}-{job.name}"
        workspace, temp = place / "work", place / "temp"
        workspace.mkdir(parents=True)
        temp.mkdir()
        labels = self._text(spec["runs-on"], contexts)
        job.labels = [labels] if isinstance(labels, str) else list(labels)
        token = f"ghs_job{run.id}{job.name}{'x' * 30}"
        if is_of_fork(run):
            permissions = dict.fromkeys(permissions, "read")
        rights = {name.replace("-", "_") for name, level in permissions.items() if level == "write"}
        self.fake.state.tokens[token] = Token(rights=frozenset(rights))
        contexts["github"] |= {"token": token, "job": job.name, "workspace": str(workspace), "action_path": ""}
        contexts |= {
            "runner": {"temp": str(temp), "os": "Linux", "arch": "X64"},
            "job": {"status": "success"},
            "strategy": {},
            "matrix": {},
            "secrets": {**contexts["secrets"], "GITHUB_TOKEN": token},
            "steps": {},
        }
        contexts["env"] = self._filled(_edited(workflow.get("env", {}), self.edited), contexts)
        contexts["env"] |= self._filled(spec.get("env", {}), contexts)
        scope = Scope(contexts, permissions, job, temp, workspace, self.environ["PATH"], hosted=labels == "ubuntu-latest")
        pip = self.machines[scope.hosted] / "pip.log"
        pip.unlink(missing_ok=True)
        if not scope.hosted:  # Python belongs to such a machine; a hosted one gets it by setup-python
            scope.path = f"{self.machines[False]}{os.pathsep}{scope.path}"
        with nullcontext({}) if scope.hosted else self.gpu(job.labels) as machine:
            scope.environ = {**self.environ, **machine}
            self._steps(spec["steps"], scope, run)
        job.result = "success" if scope.ok else "failure"
        job.pip = pip.read_text(encoding="utf-8").splitlines() if pip.exists() else []
        job.outputs = {name: str(self._text(each, contexts)) for name, each in spec.get("outputs", {}).items()}
        shutil.rmtree(temp / "ratchet", ignore_errors=True)

    def _steps(self, steps: list[dict[str, Any]], scope: Scope, run: Run) -> None:
        for number, spec in enumerate(steps):
            step = Step()
            scope.contexts["job"] = {"status": "success" if scope.ok else "failure"}
            contexts = scope.within(env=scope.contexts["env"] | self._filled(spec.get("env", {}), scope.contexts))
            label = spec.get("id") or spec.get("name") or str(number)
            if self._condition(spec.get("if"), contexts, ok=scope.ok):
                ended_well = self._step(spec, scope, contexts, step, run)
                step.outcome = "success" if ended_well else "failure"
                forgiven = spec.get("continue-on-error", False)
                step.conclusion = "success" if ended_well or forgiven else "failure"
                scope.ok &= step.conclusion == "success"
            scope.job.steps[label] = step
            if "id" in spec:
                scope.contexts["steps"][spec["id"]] = vars(step)

    def _step(self, spec: dict[str, Any], scope: Scope, contexts: dict[str, Any], step: Step, run: Run) -> bool:
        if "run" in spec:
            return self._script(spec, scope, contexts, step)
        inputs = self._filled(spec.get("with", {}), contexts)
        action = our_action(spec["uses"])
        if action:
            return self._composite(action, inputs, scope, contexts["env"], step, run)
        try:
            given = {name: word(value) for name, value in inputs.items()}
            step.outputs |= self._foreign(spec["uses"].split("@")[0], given, scope, run)
        except stand_ins.StepFailed as error:
            scope.job.log += f"\n##[error]{error}\n"
            return False
        return True

    def _foreign(self, name: str, inputs: dict[str, str], scope: Scope, run: Run) -> dict[str, str]:
        github = scope.contexts["github"]
        if name == "actions/checkout":
            may_write = scope.permissions.get("contents") == "write"
            stand_ins.checkout(inputs, github, self.origin, scope.workspace, may_write=may_write)
        elif name == "actions/upload-artifact":
            stand_ins.upload(inputs, run.id, self.store)
        elif name == "actions/download-artifact":
            if scope.permissions.get("actions") not in ("read", "write") and inputs.get("run-id"):
                raise stand_ins.StepFailed("Resource not accessible by integration")
            stand_ins.download(inputs, run.id, self.store, scope.workspace)
        elif name == "actions/setup-python":
            scope.path = f"{self.machines[scope.hosted]}{os.pathsep}{scope.path}"
        elif name == "actions/create-github-app-token":
            return stand_ins.app_token(inputs, run.id, self.fake.state)
        else:
            raise AssertionError(f"there is no stand-in for {name}")
        return {}

    def _composite(self, folder: Path, given: dict[str, Any], scope: Scope, env: dict[str, str], step: Step, run: Run) -> bool:
        action = read_yaml(folder / "action.yml")
        declared = action.get("inputs", {})
        assert set(given) <= set(declared), f"{folder} has no inputs {set(given) - set(declared)}"
        inputs = {name: word(given.get(name, each.get("default", ""))) for name, each in declared.items()}
        inner = Scope(scope.within(inputs=inputs, steps={}, env=dict(env)), scope.permissions, scope.job, scope.temp,
                      scope.workspace, scope.path, scope.hosted, environ=scope.environ)  # fmt: skip
        inner.contexts["github"] = {**scope.contexts["github"], "action_path": str(folder)}
        self._steps(action["runs"]["steps"], inner, run)
        scope.path = inner.path
        scope.contexts["env"] |= {name: value for name, value in inner.contexts["env"].items() if name not in env}
        step.outputs = {name: str(self._text(each["value"], inner.contexts)) for name, each in action.get("outputs", {}).items()}
        return inner.ok

    def _script(self, spec: dict[str, Any], scope: Scope, contexts: dict[str, Any], step: Step) -> bool:
        files = {}
        for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH"):
            files[name] = scope.temp / f"_{name}"
            files[name].write_text("", encoding="utf-8")
        script = scope.temp / "_script"
        script.write_text(self._text(spec["run"], contexts), encoding="utf-8")
        event = scope.temp / "_event.json"
        event.write_text(json.dumps(contexts["github"]["event"]), encoding="utf-8")
        github = contexts["github"]
        told = ("actor", "api_url", "event_name", "job", "ref", "ref_name", "ref_type", "repository", "run_id", "run_attempt",
                "run_number", "server_url", "sha", "workflow", "workspace", "action_path")  # fmt: skip
        environ = {**scope.environ, "PATH": scope.path, "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event)}
        environ |= {f"GITHUB_{name.upper()}": str(github[name]) for name in told if github.get(name)}
        environ |= {"RUNNER_TEMP": str(scope.temp), "RUNNER_OS": "Linux", "ACTIONS_RUNTIME_URL": "http://localhost:9/"}
        environ |= {name: str(path) for name, path in files.items()} | {
            name: word(value) for name, value in contexts["env"].items()
        }
        folder = scope.workspace / self._text(spec.get("working-directory", "."), contexts)
        done = subprocess.run(
            [*_SHELLS[spec.get("shell", "")], str(script)],
            cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            timeout=300,
        )  # fmt: skip
        scope.job.log += done.stdout.decode(errors="replace")
        scope.job.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        step.outputs |= dict(assignments(files["GITHUB_OUTPUT"].read_text(encoding="utf-8")))
        scope.contexts["env"] = scope.contexts["env"] | dict(assignments(files["GITHUB_ENV"].read_text(encoding="utf-8")))
        for line in files["GITHUB_PATH"].read_text(encoding="utf-8").splitlines():
            scope.path = f"{line}{os.pathsep}{scope.path}"
        return done.returncode == 0

    def _condition(self, condition: object, contexts: Mapping[str, Any], *, ok: bool) -> bool:
        text = str(condition if condition is not None else "success()").strip()
        text = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", text, flags=re.DOTALL)
        if not _STATUS.search(text):
            text = f"success() && ({text})"
        functions = {"success": ok, "failure": not ok, "always": True, "cancelled": False}
        return bool(self.bridge.evaluate(text, contexts, functions)["true"])

    def _filled(self, values: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._text(value, contexts) for name, value in values.items()}

    def _text(self, value: Any, contexts: Mapping[str, Any]) -> Any:
        """A value with its expressions evaluated; one that is an expression as a whole keeps its type."""
        if not isinstance(value, str):
            return value
        whole = _EXPRESSION.fullmatch(value.strip())
        if whole:
            return self.bridge.evaluate(whole[1], contexts, {})["value"]
        return _EXPRESSION.sub(lambda match: self.bridge.evaluate(match[1], contexts, {})["text"], value)


def is_of_fork(run: Run) -> bool:
    """Return whether the run is of a pull request from a fork."""
    head = (run.event.get("pull_request") or {}).get("head", {})
    return run.event_name == "pull_request" and bool(head.get("repo", {}).get("fork", False))


def _edited(env: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: changes.get(name, value) for name, value in env.items()}
