"""Carry out `ratchet fleet`: read recorded runs and soaks of many cards, and name those that nothing should be measured on.

Only `ratchet fleet` calls it. It measures nothing, and writes ``results/quarantine.json`` if asked to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ratchet.commands.request import CURRENT
from ratchet.errors import UnfitError, UsageError
from ratchet.judge.fleet import CardMeasurement, CardReport, fleet, observations_of_run, observations_of_soak
from ratchet.judge.verdict import judge_run
from ratchet.records.baseline import Baseline
from ratchet.records.files import load, save_over
from ratchet.records.fleet import Quarantine, QuarantinedCard
from ratchet.records.lines import load_lines
from ratchet.records.run import RunRecord
from ratchet.records.soak import SoakCheck

QUARANTINE = "quarantine.json"


def survey_fleet(paths: Sequence[Path]) -> list[CardReport]:
    """Return a report of each card that these records name.

    Raises UsageError for a path that is no record, RecordError for one that cannot be read, UnfitError where no card is named.
    """
    found = fleet(observation for path in paths for observation in _observations(path))
    if not found:
        raise UnfitError(
            "These records do not say which GPUs they were measured on.",
            "Records of a GPU do from this release on: measure with `ratchet check` or `ratchet soak`.",
        )
    return found


def _observations(path: Path) -> Iterator[CardMeasurement]:
    if path.is_dir():
        for inner in sorted((*path.rglob("*.jsonl"), *path.rglob(CURRENT))):
            yield from _observations(inner)
    elif path.suffix == ".jsonl":
        for check in load_lines(path, SoakCheck):
            yield from observations_of_soak(check)
    elif path.suffix == ".json":
        run = load(path, RunRecord)
        yield from observations_of_run(run, judge_run(run, Baseline()))
    else:
        raise UsageError(
            f"{path} is neither a folder nor a record.", "Name current.json, a file of results/soak/, or a folder of these."
        )


def load_quarantine(results: Path) -> Quarantine:
    """Return the cards in quarantine; none where there is no file. Raises RecordError for an unreadable one."""
    path = results / QUARANTINE
    return load(path, Quarantine) if path.exists() else Quarantine()


def write_quarantine(found: Sequence[CardReport], results: Path) -> Path:
    """Add the outliers to the cards in quarantine; who is there stays there. Returns the file's path."""
    kept = {card.uuid: card for card in load_quarantine(results).cards}
    for report in found:
        if report.problems and report.uuid not in kept:
            reason, now = " ".join(report.problems), datetime.now(UTC)
            kept[report.uuid] = QuarantinedCard(uuid=report.uuid, gpu=report.gpu, reason=reason, since=now)
    save_over(results / QUARANTINE, Quarantine(cards=tuple(kept.values())), Quarantine)
    return results / QUARANTINE
