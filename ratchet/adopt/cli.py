"""The commands init (a first benchmark, settings and workflows), doctor and doctor cases. One loads when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ratchet.adopt import doctor
from ratchet.adopt.init import USUAL_LABELS, USUAL_PYTHON, InitPlan, InitRequest, drift, plan_init, write_plan
from ratchet.core.cli.options import common, device, request_of
from ratchet.core.cli.output import print_result
from ratchet.core.errors import Exit
from ratchet.core.run import cases_of_checkout
from ratchet.core.units import plural
from ratchet.core.untrusted import clean


@click.command("init")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, as a diff.")
@click.option("--check", "is_check", is_flag=True, help="Show how the workflows here differ from today's templates.")
@click.option(
    "--github",
    metavar="OWNER/ratchet[@COMMIT]",
    help="Write the workflows too, which call this commit (default: that which runs).",
)
@click.option("--runner", "labels", help=f"Labels of the GPU machine (default: {USUAL_LABELS}; with --check, as they are).")
@click.option("--python", help=f"The Python with torch on that machine (default: {USUAL_PYTHON}; with --check, as it is).")
@click.option("--repo", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="The repository.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text; asks nothing.")
def init_command(
    *,
    yes: bool,
    dry_run: bool,
    is_check: bool,
    github: str | None,
    labels: str | None,
    python: str | None,
    repo: Path,
    as_json: bool,
) -> int:
    """Write a first benchmark that runs, settings, and with --github the workflows of a pull request's check.

    Adds files, and lines at the end of .gitignore and pyproject.toml. Nothing that is there is overwritten. It reads how your
    tests, benchmarks and README call your functions, and runs a few of these calls once, or the benchmarks of another harness.
    """
    request = InitRequest(repo.resolve(), github, labels, python)
    if is_check:
        differing = drift(request)
        lines = [line for file in differing for line in file.diff().splitlines()] or ["All workflows are as today's templates."]
        print_result([file.path for file in differing], lines, as_json=as_json)
        return int(Exit.USAGE if differing else Exit.PASS)
    asks = not (yes or as_json) and sys.stdin.isatty()

    def may_run(words: Sequence[str]) -> bool:
        shown = "; ".join(words[:4])
        return not asks or click.confirm(f"Run code of this repository once, to see what works here ({shown})?", default=True)

    plan = plan_init(request, os.environ, may_run)
    if not dry_run:
        write_plan(plan)
    print_result(_fields(plan), _lines(plan, dry_run=dry_run), as_json=as_json)
    return int(Exit.PASS)


def _fields(plan: InitPlan) -> dict[str, object]:
    return {
        "folder": str(plan.root),
        "tools": plan.survey.tools,
        "projects": plan.survey.projects,
        "benchmarks": [
            {"calls": trial.candidate.shown, "from": trial.candidate.origins[trial.number] or None, "lacks": trial.lacks or None}
            for trial in plan.trials.chosen
        ],
        "harnesses": [
            {
                "tool": each.harness.tool,
                "command": each.harness.commands[each.number],
                "format": each.harness.format,
                "cases": each.cases,
                "problem": each.problem or None,
            }
            for each in plan.harnesses
        ],
        "written": [file.path for file in plan.files],
        "kept": plan.kept,
        "to_do": plan.to_do,
    }


def _lines(plan: InitPlan, *, dry_run: bool) -> list[str]:
    tools = [f"{tool} ({files[0]}{', …' if len(files) > 1 else ''})" for tool, files in plan.survey.tools.items()]
    below = [project for project in plan.survey.projects if project != "."]
    found = [*tools, *([f"{plural(len(below), 'Python project')} below this folder"] if below else [])]
    lines = [f"Found: {', '.join(found)}." if found else "Found no Triton, CUDA or build files."]
    are_set = any(file.path == "pyproject.toml" for file in plan.files)
    lines += [
        f"Your {each.harness.tool} benchmarks {'are what a check times' if are_set else 'can be timed'}: "
        f"{plural(each.cases, 'case')} ran here."
        for each in plan.harnesses
        if each.cases
    ]
    for trial in plan.trials.chosen:
        origin = trial.candidate.origins[trial.number]
        how = "which ran here" if trial.ran else f"not run here: this machine lacks {trial.lacks}"
        lines.append(
            f"A benchmark times {trial.candidate.shown}{f', as {origin} calls it' if origin else ''}; {how}.".replace(
                "; which", ", which"
            )
        )
    if plan.times_torch:
        lines.append("No function of yours was found that could be called, so the benchmark times torch, not your code.")
    if dry_run:
        return [*lines, *(line for file in plan.files for line in file.diff().splitlines())]
    lines += [f"{'Written' if file.old is None else 'Added to'}: {file.path}" for file in plan.files] or ["Nothing to write."]
    lines += [f"Kept as it is: {path} (`ratchet init --check` shows how it differs)" for path in plan.kept]
    where = "" if plan.root == Path.cwd() else f", in {plan.root}"
    return [*lines, f"Next steps{where}:", *(f"{number}. {step}" for number, step in enumerate(plan.to_do, 1))]


@click.command("doctor")
@click.option("--strict", is_flag=True, help="Exit with 3 where nothing should be measured: an unfit or busy GPU.")
@device
@common
def doctor_command(*, strict: bool, **options: Any) -> int:
    """Say what this machine can and cannot do, and what to do about it."""
    checks = doctor.examine(options["repo"].resolve(), options["gpu"], results=options["results"])
    print_result([asdict(check) for check in checks], doctor.check_lines(checks), as_json=options["as_json"])
    unfit = [check for check in checks if check.unfit and (check.name == "torch" or options["device"] != "cpu")]
    return int(Exit.NOT_MEASURED if strict and unfit else Exit.PASS)


@click.command("cases")
@click.argument("cases", nargs=-1)
@device
@common
def cases_command(cases: tuple[str, ...], **options: Any) -> int:
    """List the cases of this checkout, and those that this machine skips."""
    listed = cases_of_checkout(request_of(cases, options), os.environ)
    width = max((len(case.name) for case in listed), default=0)
    lines = []
    for case in listed:
        if case.failures:
            note = f"broken: {case.failures[0].message}"
        elif case.skipped:
            note = f"skipped: {case.skipped}"
        else:
            note = " ".join(f"{name}={value}" for name, value in case.config.parameters.items())
        lines.append(f"{clean(case.name):<{width}}  {clean(note)}".rstrip())
    lines = lines or [
        "There is no case: a benchmark is a function with the decorator @benchmark. More: `ratchet explain benchmarks`."
    ]
    fields = [case.model_dump(mode="json", include={"name", "config", "skipped", "failures"}) for case in listed]
    print_result(fields, lines, as_json=options["as_json"])
    if any(case.failures for case in listed):
        return int(Exit.REGRESSION)
    return int(Exit.PASS if listed else Exit.NOT_MEASURED)
