"""`ratchet profile --read`: one report file, or two beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.errors import UsageError
from ratchet.judge.matching import Match, matched
from ratchet.profile.diagnosis import diagnose
from ratchet.profile.reading import read
from ratchet.records.profile import CaseProfile


@dataclass(frozen=True)
class ReadProfiles:
    """What the files show, and which launch belongs to which."""

    profile: CaseProfile
    pairs: tuple[Match, ...]


def read_profiles(paths: Sequence[Path], environ: Mapping[str, str]) -> ReadProfiles:
    """Read the report of a head, or of a reference and a head in this order, and say what they show.

    Raises UsageError for another number of files, RecordError and ProfileError where one cannot be read.
    """
    if not 1 <= len(paths) <= 2:
        raise UsageError(f"--read takes one report, or a reference and a head, not {len(paths)} files.")
    *references, head = [read(path, environ) for path in paths]
    reference = references[0] if references else None
    pairs = matched(head, reference)
    notes = []
    if reference and None not in (reference.gpu, head.gpu) and reference.gpu != head.gpu:
        notes.append(f"The reports are from different GPUs ({reference.gpu} and {head.gpu}): their figures compare chips too.")
    if reference and not any(one and other for one, other in pairs):
        notes.append("No kernel of the one report has a namesake in the other, so nothing is compared.")
    profile = CaseProfile(
        case=str(paths[-1]),
        head=head,
        reference=reference,
        findings=diagnose(head, reference),
        steps_down=tuple(notes),
    )
    return ReadProfiles(profile, tuple(pairs))
