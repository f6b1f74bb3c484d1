"""Carry out `ratchet profile`: profile cases by name, with or without a reference beside them, without timing any.

The command line calls `profile`, or `read_profiles` for report files. `profile` locks the device, checks out and builds trees,
and runs profilers as child processes (`cases`); its files go to ``results/nsight/``. `read_profiles` only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet.commands.check import reference_of
from ratchet.commands.machine import environment_of, machine_of
from ratchet.commands.profile.cases import Places, ProfileSite, Wanted, profile_cases, wish_of
from ratchet.commands.profile.results import background_of
from ratchet.commands.request import Request, apart_of, load_baseline, watched, writable
from ratchet.commands.trees import build, tree_specs
from ratchet.config import load_settings
from ratchet.errors import UsageError
from ratchet.forge.git import Repository, worktrees
from ratchet.judge.profile import matched
from ratchet.measure.suite import list_cases
from ratchet.profile.diagnosis import diagnose
from ratchet.profile.ncu import SetName
from ratchet.profile.readers import read
from ratchet.records.baseline import BaselineEntry
from ratchet.records.profile import CaseProfile
from ratchet.records.run import Tree
from ratchet.records.verdict import CaseVerdict, Outcome
from ratchet.report.progress import Progress


@dataclass(frozen=True)
class Profiled:
    """Profiles of the named cases, and the folder that the paths in them are relative to."""

    profiles: tuple[CaseProfile, ...]
    results: Path


def profile(request: Request, set_name: SetName, progress: Progress, environ: Mapping[str, str], *, compare: bool) -> Profiled:
    """Profile the named cases of the checkout; with ``compare``, those of a reference commit too.

    Raises UsageError where no case matches, BuildError where the head does not build, BusyError and UnfitError for the device.
    """
    repository = Repository(request.folder)
    settings = load_settings(repository.root, environ, request.options, request.folder)
    results = writable(repository.root / settings.results)
    baseline = load_baseline(results)
    apart = apart_of(repository, results)
    wants_commit = compare and not request.against_baseline
    head = repository.working_snapshot(apart)
    reference = repository.commit_snapshot(reference_of(request, repository, head)) if wants_commit else None
    with (
        machine_of(request, settings, f"ratchet profile in {repository.root}", progress, environ) as machine,
        worktrees(repository, head, reference) as trees,
        watched(repository.root, results, progress),
    ):
        site = ProfileSite(repository, settings, machine, trees, progress, environ)
        broken = build(settings, "head", trees.head, head, progress, environ)
        if broken:
            raise broken
        unbuilt = None
        if reference and trees.reference:
            unbuilt = build(settings, "reference", trees.reference, reference, progress, environ)
        found = list_cases(tree_specs(settings, machine, repository.root, trees.head)["head"], request.patterns, environ)
        environment = environment_of(machine, settings)
        stored = baseline.entries(environment.fingerprint)
        wish = wish_of(site, set_name=set_name)
        wanted = []
        for case in found:
            tree, why = (reference.tree if reference else None), str(unbuilt or "")
            if request.against_baseline:
                tree, why = _of_baseline(case.name, stored)
            verdict = CaseVerdict(name=case.name, outcome=Outcome.MEASURED, reason="Profiled only; nothing was timed.")
            wanted.append(Wanted(verdict, wish, None, None if why else tree, why))
        if not wanted:
            raise UsageError("No case matches.", "`ratchet list` shows what there is.")
        background = background_of(None, environment, datetime.now(UTC), baseline, results)
        places = Places(site, head.tree, reference.tree if reference else None, background)
        return Profiled(tuple(profile_cases(places, wanted)), results)


def _of_baseline(case: str, stored: Mapping[str, BaselineEntry]) -> tuple[Tree | None, str]:
    entry = stored.get(case)
    if entry is None:
        return None, f"The baseline has no commit for {case} on this machine."
    return Tree(commit=entry.git_commit), ""


# `ratchet profile --read`: one report file, or two beside each other; nothing is measured.


def read_profiles(paths: Sequence[Path], environ: Mapping[str, str]) -> CaseProfile:
    """Read the report of a head, or of a reference and a head in this order, and say what they show.

    Raises UsageError for another number of files, RecordError and ProfileError where one cannot be read.
    """
    if not 1 <= len(paths) <= 2:
        raise UsageError(f"--read takes one report, or a reference and a head, not {len(paths)} files.")
    *references, head = [read(path, environ) for path in paths]
    reference = references[0] if references else None
    notes = []
    if reference and None not in (reference.gpu, head.gpu) and reference.gpu != head.gpu:
        notes.append(
            f"The reports are from different GPUs ({reference.gpu} and {head.gpu}), so their figures also compare the GPUs."
        )
    if reference and not any(one and other for one, other in matched(head, reference)):
        notes.append("The reports have no kernel name in common, so nothing is compared.")
    return CaseProfile(
        case=str(paths[-1]),
        head=head,
        reference=reference,
        findings=diagnose(head, reference),
        steps_down=tuple(notes),
    )
