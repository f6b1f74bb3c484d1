"""Carry out `ratchet init`: look at the repository, plan files, write them; or say how they differ from today's templates.

The command line calls `plan_init`, then `write_plan`; or `drift`. Planning may import code of the repository in a child program,
to find a function that the first benchmark can time. Writing adds files and lines, and changes nothing that is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ratchet.adopt.files import (
    TEMPLATES,
    WORKFLOW_FOLDER,
    PlannedFile,
    WorkflowValues,
    has_settings,
    installed_commit,
    with_ignored,
    with_settings,
    workflow_values,
)
from ratchet.adopt.first_benchmark import FirstBenchmark, example, first_that_runs
from ratchet.adopt.survey import PROJECT_FILES, PYTHON_PATH, Function, Survey, survey
from ratchet.core.bench.build import without_secrets
from ratchet.core.config import Settings, load_settings
from ratchet.core.errors import OutputError, UsageError
from ratchet.core.git import Repository

USUAL_LABELS, USUAL_PYTHON = '["self-hosted", "gpu"]', "python3"
_FIRST = "first.py"
_BUILDS = {
    "CMake": """build = ["bash", "-c", "cmake -S . -B build && cmake --build build -j"]""",
    "setup.py": """build = "python setup.py build_ext --inplace\"""",
}
"""Tool → the line that a person may want, as a comment: what a build needs is not known here."""

_HARNESSES = {
    "NVBench": "./build/bench --jsonbin {out}",
    "Google Benchmark": "./build/bench --benchmark_out={out} --benchmark_out_format=json --benchmark_repetitions=5",
    "pytest-benchmark": "python -m pytest FOLDER --benchmark-json={out}",
}
"""Tool → the command that runs its benchmarks, as docs/harnesses.md has it."""


@dataclass(frozen=True)
class InitRequest:
    """The arguments of ``ratchet init``."""

    folder: Path
    github: str | None = None
    """Where ratchet is: OWNER/ratchet@COMMIT. Without it no workflow is written."""
    labels: str | None = None
    """Labels of the GPU machine; None: `USUAL_LABELS`. `drift` takes those that workflows here have."""
    python: str | None = None
    """The Python on that machine; None: `USUAL_PYTHON`. `drift` takes the one that workflows here have."""

    def values(self, github: str, branch: str) -> WorkflowValues:
        """Return what workflows are filled with. Raises UsageError for what cannot be."""
        labels = USUAL_LABELS if self.labels is None else self.labels
        return workflow_values(github, labels, USUAL_PYTHON if self.python is None else self.python, branch)


@dataclass(frozen=True)
class InitPlan:
    """The findings of ``ratchet init``, and the files that it would write."""

    root: Path
    """The folder that the files' paths start from."""
    survey: Survey
    benchmark: str | None
    """The function that the first benchmark times; None for an example, and where there are benchmarks already."""
    missing: str
    """A package that kept the repository's functions from being called."""
    failure: str
    """Another error that did."""
    files: tuple[PlannedFile, ...]
    kept: tuple[str, ...]
    """Files that are there and differ from what would be written."""
    to_do: tuple[str, ...]
    """Steps that only a person can do, in their order."""


def plan_init(request: InitRequest, environ: Mapping[str, str], may_try: Callable[[Sequence[Function]], bool]) -> InitPlan:
    """Plan the files. ``may_try`` says whether functions of the repository may be called. Raises UsageError and GitError."""
    repository = Repository(request.folder)
    root = _project(request.folder, repository.root)
    if not request.github and (request.labels, request.python) != (None, None):
        raise UsageError(
            "--runner and --python are for the workflows, and without --github none are written.",
            "Add --github OWNER/ratchet@COMMIT, or leave them out.",
        )
    if request.github and root != repository.root:
        raise UsageError(
            f"{root} is not the root of the repository, and workflows read their settings there.",
            f"Run this in {repository.root}, or leave --github out.",
        )
    files = repository.files(root)
    found = survey(root, files)
    pyproject, ignored = _read(root / "pyproject.toml"), _read(root / ".gitignore")
    settings = load_settings(root, environ, {})
    is_set = has_settings(pyproject or "")
    if not is_set:
        settings = settings.model_copy(update={"bench": _bench(root, files), "results": _results(files)})
    planned, chosen, tried = [], None, FirstBenchmark()
    bench = f"{settings.bench}/{_FIRST}"
    if not _has_benchmarks(root, files, settings.bench) and not (root / bench).exists():
        folders = settings.python_path if is_set else found.python_path
        safe = without_secrets(environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
        asked = found.functions and may_try(found.functions)
        if asked:
            tried = first_that_runs(found.functions, root, folders, safe)
        chosen = tried.function.call if tried.function else None
        planned.append(PlannedFile(bench, None, tried.text or example(found, tried.missing, tried.failure)))
    planned.append(PlannedFile(".gitignore", ignored, with_ignored(ignored, settings.results)))
    if not is_set:
        planned.append(PlannedFile("pyproject.toml", pyproject, _settings(pyproject, settings, found)))
    kept = []
    if request.github:
        values = request.values(request.github, repository.default_branch())
        for name, template in TEMPLATES.items():
            text = values.fill(template)
            there = _read(root / WORKFLOW_FOLDER / name)
            if there is None:
                planned.append(PlannedFile(f"{WORKFLOW_FOLDER}/{name}", None, text))
            elif there != text:
                kept.append(f"{WORKFLOW_FOLDER}/{name}")
    changed = tuple(file for file in planned if file.old != file.new)
    plan = InitPlan(root, found, chosen, tried.missing, tried.failure, changed, tuple(kept), ())
    return replace(plan, to_do=_to_do(plan, request, settings, repository))


def write_plan(plan: InitPlan) -> None:
    """Write the files of a plan: new ones, and lines at the end of those that are there. Raises OutputError."""
    for file in plan.files:
        path = plan.root / file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb" if file.old is None else "ab") as stream:  # neither can overwrite
                stream.write(file.new.removeprefix(file.old or "").encode())
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}.", "Fix that and run `ratchet init` again.") from None


def drift(request: InitRequest) -> list[PlannedFile]:
    """Return the workflows of ratchet that differ from today's templates, filled with the request's values or else their own.

    Raises UsageError where they call another commit than that of the ratchet that runs: its templates are not theirs.
    """
    repository = Repository(request.folder)
    branch = repository.default_branch()
    given = request.values(request.github, branch) if request.github else None
    present = {name: _read(repository.root / WORKFLOW_FOLDER / name) for name in TEMPLATES}
    own = {name: values for name, text in present.items() if text and (values := WorkflowValues.read(text, branch))}
    known = list(own.values()) or ([given] if given else [])
    if not known:
        raise UsageError(
            f"{repository.root} has no workflow of ratchet.", "`ratchet init --github OWNER/ratchet@COMMIT` writes them."
        )
    ours = installed_commit()
    others = sorted({values.commit for values in own.values()} - {ours})
    if ours and others and not given:
        raise UsageError(
            f"The workflows call {', '.join(commit[:10] for commit in others)}, and these templates are those of {ours[:10]}.",
            f"Compare by `uvx --from git+https://github.com/{known[0].repository}@{others[0]} ratchet init --check`; "
            "to upgrade, give the new commit with --github.",
        )
    usual = max(known, key=lambda values: len(values.labels))  # two of the files name no labels
    python = next((values.python for values in known if values.python), USUAL_PYTHON)
    filled = {}
    for name, text in TEMPLATES.items():
        there = own.get(name, usual)
        values = replace(there, labels=there.labels or usual.labels or USUAL_LABELS, python=there.python or python)
        if given:
            values = replace(values, repository=given.repository, commit=given.commit)
        if given and request.labels is not None:
            values = replace(values, labels=given.labels)
        if given and request.python is not None:
            values = replace(values, python=given.python)
        filled[name] = values.fill(text)
    files = [PlannedFile(f"{WORKFLOW_FOLDER}/{name}", present[name], text) for name, text in filled.items()]
    return [file for file in files if file.old != file.new]


def _project(folder: Path, top: Path) -> Path:
    """Return the nearest folder above with a Python project; without one, the root of the repository."""
    inside = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    return next((place for place in inside if any((place / name).is_file() for name in PROJECT_FILES)), top)


def _read(path: Path) -> str | None:
    """Return the text of a file with its line ends; None where there is none."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Fix the file and try again.") from None


def _bench(root: Path, files: Sequence[str]) -> str:
    """Return the usual folder of benchmarks; another where the repository has other files in it."""
    is_taken = any(file == "bench" or file.startswith("bench/") for file in files) and not _has_benchmarks(root, files, "bench")
    return "ratchet_bench" if is_taken else "bench"


def _has_benchmarks(root: Path, files: Sequence[str], bench: str) -> bool:
    """Return whether a file of the folder imports the decorator."""
    texts = (_read(root / file) or "" for file in files if file.startswith(f"{bench}/") and file.endswith(".py"))
    return any(re.search(r"^\s*(from ratchet import|import ratchet\b)", text, re.MULTILINE) for text in texts)


def _results(files: Sequence[str]) -> str:
    is_taken = any(file.startswith("results/") and file != "results/baseline.json" for file in files)
    return "ratchet_results" if is_taken else "results"


def _settings(pyproject: str | None, settings: Settings, found: Survey) -> str:
    values = {"bench": json.dumps(settings.bench), "regression_threshold": '"3%"'}
    comments = {"regression_threshold": "fail above this slowdown; every setting: `ratchet settings`"}
    if settings.results != "results":
        values["results"] = json.dumps(settings.results)
    if found.python_path != PYTHON_PATH:
        values["python_path"] = json.dumps(found.python_path)
    comments |= {
        tool: f"{line}  # run in each tree before anything is timed" for tool, line in _BUILDS.items() if tool in found.tools
    }
    return with_settings(pyproject, values, comments)


def _to_do(plan: InitPlan, request: InitRequest, settings: Settings, repository: Repository) -> tuple[str, ...]:
    """Return what only a person can do, with links where the remote says where the repository is."""
    steps = []
    bench = f"{settings.bench}/{_FIRST}"
    if any(file.path == bench for file in plan.files):
        if plan.missing:
            steps.append(f"Install {plan.missing}, which your code imports; delete {bench} and run `ratchet init` again.")
        elif plan.failure:
            steps.append(
                f"Your code cannot be imported here ({plan.failure}): fix that, delete {bench} and run `ratchet init` again."
            )
        steps.append(
            f"Set the sizes in {bench} to yours."
            if plan.benchmark
            else f"In {bench}, change the lines marked 1 and 2 to your inputs and your call."
        )
    if plan.files:
        names = " ".join(sorted({file.path.partition("/")[0] for file in plan.files}))
        steps.append(f'Commit: git add {names} && git commit -m "Measure with ratchet"')
    steps.append("Change code that a benchmark times, then run: ratchet check")
    for tool, command in _HARNESSES.items():
        if files := plan.survey.tools.get(tool):
            words = command.replace("FOLDER", files[0].rpartition("/")[0] or ".")
            first = "" if tool == "pytest-benchmark" else "set build in pyproject.toml, then "
            steps.append(f'Or time your {tool} benchmarks: {first}ratchet check --command "{words}" (docs/harnesses.md)')
    if any(file.path == "pyproject.toml" and file.old is None for file in plan.files) and (plan.root / "setup.py").exists():
        steps.append("If setup.py imports torch: pip install --no-build-isolation; pip isolates builds beside a pyproject.toml")
    if not request.github:
        return tuple(steps)
    home = repository.web_address()
    ratchet, _, commit = request.github.partition("@")
    guide = f"https://github.com/{ratchet}/blob/{commit or installed_commit()}/docs/github.md"
    settings_page = f"{home}/settings" if home else "Settings"
    pages = (
        ("actions", "require approval for all external contributors; workflow permissions: read."),
        ("environments", "new environment ratchet-gpu, with you as required reviewer."),
        ("actions/runners", f"register the GPU machine with the labels {request.labels or USUAL_LABELS}."),
        ("rules", "require the status check ratchet, once a first pull request has it."),
    )
    steps += [f"{settings_page}/{page}: {what}" for page, what in pages]
    return (*steps, f"The same with reasons: {guide}")
