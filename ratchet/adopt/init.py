"""Carry out `ratchet init`: look at the repository, plan files, write them; or say how they differ from today's templates.

The command line calls `plan_init`, then `write_plan`; or `drift`. Planning may run code of the repository in child programs:
commands of other harnesses, then functions that benchmarks could time. Writing adds files and lines, and changes nothing that is
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ratchet.adopt.candidates import example, snake
from ratchet.adopt.files import (
    TEMPLATES,
    WORKFLOW_FOLDER,
    PlannedFile,
    WorkflowValues,
    has_settings,
    in_toml,
    with_ignored,
    with_settings,
    workflow_values,
)
from ratchet.adopt.harnesses import TriedHarness, harnesses, try_harness
from ratchet.adopt.survey import PROJECT_FILES, PYTHON_PATH, Survey, survey
from ratchet.adopt.trial import NEEDS_GPU, TOO_LARGE, CallTrials, Trial, try_candidates
from ratchet.common.installation import installed_commit
from ratchet.core.bench.build import without_secrets
from ratchet.core.config import Settings, load_settings
from ratchet.core.device.environment import ask
from ratchet.core.errors import OutputError, UsageError
from ratchet.core.git import Repository
from ratchet.core.units import plural

USUAL_LABELS, USUAL_PYTHON = '["self-hosted", "gpu"]', "python3"
_FIRST = "first.py"
NOT_TRIED = "not tried"
_BUILDS = {
    "CMakeLists.txt": """build = ["bash", "-c", "cmake -S . -B build && cmake --build build -j"]""",
    "setup.py": """build = "python setup.py build_ext --inplace\"""",
}
"""File at the root → the line that a person may want, as a comment: what a build needs is not known here."""


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
    harnesses: tuple[TriedHarness, ...]
    """Benchmarks that other harnesses time here; the first with cases is the one that the settings name."""
    trials: CallTrials
    """The functions that were tried, and the benchmarks that are written."""
    files: tuple[PlannedFile, ...]
    kept: tuple[str, ...]
    """Files that are there and differ from what would be written."""
    to_do: tuple[str, ...]
    """Steps that only a person can do, in their order."""

    @property
    def times_torch(self) -> bool:
        """Return whether the example is written since the repository has no function to try."""
        return not self.survey.candidates and any(Path(file.path).name == _FIRST for file in self.files)


def plan_init(request: InitRequest, environ: Mapping[str, str], may_run: Callable[[Sequence[str]], bool]) -> InitPlan:
    """Plan the files. ``may_run`` says whether code of the repository may be run. Raises UsageError and GitError."""
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
    folders_of_ours = (settings.bench, settings.results) if is_set else (_bench(root, found.texts, files), _results(files))
    bench, results = (str(PurePosixPath(folder)) for folder in folders_of_ours)  # a person may write ./perf/
    settings = settings.model_copy(update={"bench": bench, "results": results})
    planned: list[PlannedFile] = []
    folders = settings.python_path if is_set else found.python_path([each.module for each in found.candidates])
    is_new = not settings.command and not _has_benchmarks(found.texts, settings.bench)
    tried, trials = _tried(found, repository, root, folders, environ, may_run) if is_new else ([], CallTrials())
    if is_new and not any(each.cases for each in tried):
        planned += _benchmarks(root, settings.bench, trials, found)
    is_hidden = _ignores(root, f"{results}/baseline.json", f"{results}/other")  # a line for *.json ignores the first alone
    planned.append(PlannedFile(".gitignore", ignored, with_ignored(ignored, results, is_hidden=is_hidden)))
    if not is_set:
        planned.append(PlannedFile("pyproject.toml", pyproject, _settings(pyproject, settings, found, tried, trials)))
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
    plan = InitPlan(root, found, tuple(tried), trials, changed, tuple(kept), ())
    return replace(plan, to_do=_to_do(plan, request, settings, repository))


def _tried(
    found: Survey,
    repository: Repository,
    root: Path,
    folders: Sequence[str],
    environ: Mapping[str, str],
    may_run: Callable[[Sequence[str]], bool],
) -> tuple[list[TriedHarness], CallTrials]:
    """Try harnesses until one gives cases, which then comes first; where none does, try functions."""
    offered = [TriedHarness(each, problem=NOT_TRIED) for each in harnesses(found.texts)]
    words = [*(each.harness.command_line() for each in offered), *(each.shown for each in found.candidates[:3])]
    if not words or not may_run(words):
        return offered, CallTrials()
    safe = without_secrets(environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
    done: list[TriedHarness] = []
    for number, each in enumerate(offered):
        result = try_harness(each.harness, repository, root.relative_to(repository.root), folders, safe)
        if result.cases:
            return [result, *done, *offered[number + 1 :]], CallTrials()
        done.append(result)
    return done, try_candidates(found.candidates, root, folders, found.built, safe)


def _benchmarks(root: Path, bench: str, trials: CallTrials, found: Survey) -> list[PlannedFile]:
    """Return the files of the benchmarks that were chosen; an example where none was."""
    planned = []
    for trial in trials.chosen:
        if trial.ran:
            state = f"It ran here, on the {'GPU' if trials.device == 'cuda' else 'CPU'}."
        else:
            state = f"Not run here: this machine lacks {trial.lacks}."
        text = trial.candidate.text(trial.number, state, gpu_only=trial.lacks in (NEEDS_GPU, TOO_LARGE), bench=bench)
        planned.append(PlannedFile(_path_of(trial, bench), None, text))
    if not planned:
        reasons = []
        if trials.missing:
            reasons.append(f"No function of this repository ran here: there is no {trials.missing}.")
        elif trials.failure:
            reasons.append(f"No function of this repository ran here, since it cannot be imported: {trials.failure}")
        elif found.candidates:
            shown = "; ".join(each.shown for each in found.candidates[:3])
            reasons.append(f"These did not run here: {shown}.")
        if "CUDA" in found.tools:
            reasons.append("How to time CUDA C++: `ratchet explain cuda-c`.")
        planned.append(PlannedFile(str(PurePosixPath(bench, _FIRST)), None, example(reasons)))
    return [file for file in planned if not (root / file.path).exists()]


def _path_of(trial: Trial, bench: str) -> str:
    return str(PurePosixPath(bench, f"{snake(trial.candidate.name)}.py"))


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


def _bench(root: Path, texts: Mapping[str, str], files: Sequence[str]) -> str:
    """Return the usual folder of benchmarks; another where the repository has other files in it, or git is to ignore it."""
    is_taken = any(file == "bench" or file.startswith("bench/") for file in files) and not _has_benchmarks(texts, "bench")
    return "ratchet_bench" if is_taken or _ignores(root, f"bench/{_FIRST}") else "bench"


def _ignores(root: Path, *paths: str) -> bool:
    """Return whether git ignores all of these: a line anywhere may do so, of a folder above, of the user, of the clone."""
    return len(ask(["git", "check-ignore", *paths], folder=root).stdout.splitlines()) == len(paths)


def _has_benchmarks(texts: Mapping[str, str], bench: str) -> bool:
    """Return whether a file of the folder imports the decorator."""
    inside = (text for file, text in texts.items() if file.endswith(".py") and PurePosixPath(file).is_relative_to(bench))
    return any(re.search(r"^\s*(from ratchet import|import ratchet\b)", text, re.MULTILINE) for text in inside)


def _results(files: Sequence[str]) -> str:
    is_taken = any(file.startswith("results/") and file != "results/baseline.json" for file in files)
    return "ratchet_results" if is_taken else "results"


def _settings(pyproject: str | None, settings: Settings, found: Survey, tried: Sequence[TriedHarness], trials: CallTrials) -> str:
    values = {"bench": in_toml(settings.bench), "regression_threshold": '"3%"'}
    comments = {"regression_threshold": "fail above this slowdown; every setting: `ratchet doctor settings`"}
    if settings.results != "results":
        values["results"] = in_toml(settings.results)
    chosen = tried[0] if tried and tried[0].cases else None
    timed = [trial.candidate for trial in trials.chosen] or found.candidates  # a harness ran, and the next init runs, with all
    folders = found.python_path([each.module for each in timed])
    if folders != PYTHON_PATH:
        values["python_path"] = in_toml(folders)
    if chosen:
        del values["bench"]
        values |= chosen.harness.settings(chosen.number)
        comments["format"] = f"{chosen.harness.tool}: {plural(chosen.cases, 'case')} when it was tried"
    for each in tried[1 if chosen else 0 :]:
        lines = " ; ".join(f"{key} = {value}" for key, value in each.harness.settings().items())
        why = re.sub(r"(with status -?\d+): .*| It printed: .*", r"\1", each.problem)  # that would name folders that are gone
        comments[each.harness.tool] = f"{each.harness.tool}, in place of bench/ ({why or NOT_TRIED}): {lines}"
    if not (chosen and chosen.harness.build):
        comments |= {
            file: f"{line}  # run in each tree before anything is timed" for file, line in _BUILDS.items() if file in found.texts
        }
    return with_settings(pyproject, values, comments)


def _to_do(plan: InitPlan, request: InitRequest, settings: Settings, repository: Repository) -> tuple[str, ...]:
    """Return what only a person can do, with links where the remote says where the repository is."""
    steps = []
    written = [file.path for file in plan.files if file.path.endswith(".py")]
    again = f"delete {' '.join(written)} and run `ratchet init` again."
    trials = plan.trials
    if written and trials.missing in plan.survey.homes:
        place = plan.survey.homes[trials.missing]
        steps.append(f"Add {place} to python_path in [tool.ratchet], where {trials.missing} is; {again}")
    elif written and trials.missing:
        steps.append(f"Install {trials.missing}, which your code imports; {again}")
    elif written and trials.failure:
        steps.append(f"Your code cannot be imported here ({trials.failure}): fix that, {again}")
    for trial in trials.chosen:
        path = _path_of(trial, settings.bench)
        if trial.ran and not trial.candidate.origins[trial.number]:
            steps.append(f"Set the sizes in {path} to yours.")
        elif trial.lacks and trial.lacks not in (NEEDS_GPU, TOO_LARGE):
            steps.append(f"{path} needs {trial.lacks}.")
    if written and not trials.chosen:
        steps.append(f"In {written[0]}, change the lines marked 1 and 2 to your inputs and your call.")
    steps += _to_set(plan)
    if plan.files:
        names = " ".join(sorted({file.path.partition("/")[0] for file in plan.files}))
        steps.append(f'Commit: git add {names} && git commit -m "Measure with ratchet"')
    steps.append("Change code that a benchmark times, then run: ratchet check")
    steps += _to_choose(plan)
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


def _to_set(plan: InitPlan) -> Iterator[str]:
    """Yield the step that makes benchmarks of another harness the ones of a check, where settings are there already."""
    if not any(file.path == "pyproject.toml" for file in plan.files):
        for each in plan.harnesses:
            if each.cases:
                lines = "; ".join(f"{key} = {value}" for key, value in each.harness.settings(each.number).items())
                yield f"To time your {each.harness.tool} benchmarks, add to [tool.ratchet] in pyproject.toml: {lines}"


def _to_choose(plan: InitPlan) -> Iterator[str]:
    """Yield the commands that time what no settings name."""
    for each in plan.harnesses:
        if not each.cases:
            first = "set build in pyproject.toml, then " if each.harness.build else ""
            line = f"{first}ratchet check {each.harness.option()}"
            yield f"Or time your {each.harness.tool} benchmarks ({each.problem}): {line}"
    if any(each.harness.tool == "pytest-benchmark" for each in plan.harnesses):
        line = 'ratchet check --command "python -m pytest --ratchet-json={out}" --format json'
        yield f"Tests may take the fixture ratchet_benchmark, which needs no pytest-benchmark: {line}"
