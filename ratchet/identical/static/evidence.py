"""Reach a verdict without a GPU once more where no code of the trees may run: from the record, and from trees as text alone.

`ratchet.github` calls `proven` for the report of a job that ran the code of a pull request. What that job says of a case counts
for nothing; of its kernels with another source it says what they compile to, and that is held against the record. The trees are
read in a child with little memory and time: ``python -m ratchet.identical.static.evidence FOLDER BENCH RESULTS BYTES SECONDS``.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet.core.errors import RecordError
from ratchet.core.processes import run
from ratchet.core.records.files import load, save
from ratchet.core.records.run import SIDES, CaseRun, Policy, RunRecord, Side
from ratchet.identical.static.records import KernelChange, Recompiled, Recorded, StaticReport
from ratchet.identical.static.verdicts import OneSide, identical_cases, kernel_change, note_of, run_of, tree_difference, verdicts

FOLDERS: Mapping[Side, str] = {"reference": "refs", "head": "head"}
BASE = "base"
"""Names of the three trees in a folder; of one length, as in other checks."""
_RECORDED, _CLAIMED, _PROVEN = "recorded.json", "claimed.json", "proven.json"
MEMORY_BYTES, SECONDS = 2**29, 60


def proven(recorded: Recorded, claimed: StaticReport, folder: Path, bench: str, results: str) -> StaticReport:
    """Return the report that the record, the three trees in ``folder`` and the claimed machine code give.

    Raises RecordError where that takes more memory or time than there is.
    """
    save(folder / _RECORDED, recorded)
    save(folder / _CLAIMED, claimed)
    # -P: the current folder is no place to import from. The variables hold no secret.
    command = [sys.executable, "-P", "-m", __name__, str(folder), bench, results, str(MEMORY_BYTES), str(SECONDS)]
    environ = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")}
    ended = run(command, environ={**environ, "OPENBLAS_NUM_THREADS": "1"}, folder=folder, time_limit_s=2 * SECONDS)
    if ended.status != 0:
        limits = f"{MEMORY_BYTES // 2**20} MiB of memory and {SECONDS} s of time"
        raise RecordError(f"What differs from the static record cannot be read in {limits}.", "Measure on the GPU.")
    return load(folder / _PROVEN, StaticReport)


def joined(measured: RunRecord | None, recorded: Recorded, report: StaticReport, policy: Policy) -> RunRecord:
    """Return a run with the cases that were measured, and those that were proved identical."""
    if measured is None:
        return run_of(("check", "--static"), policy, recorded, report)
    names = {case.name for case in measured.cases}
    added: Sequence[CaseRun] = [case for case in identical_cases(recorded, report) if case.name not in names]
    notes = (*measured.warnings, note_of(report)) if added else measured.warnings
    return measured.model_copy(update={"cases": (*measured.cases, *added), "warnings": notes})


def _verdict(folder: Path, bench: str, results: str) -> StaticReport:
    recorded, claimed = load(folder / _RECORDED, Recorded), load(folder / _CLAIMED, StaticReport)
    claims: dict[int, KernelChange] = {}
    for case in claimed.cases:
        places = recorded.cases[case.name].kernels if case.name in recorded.cases else ()
        claims |= dict(zip(places, case.kernels, strict=False)) if len(places) == len(case.kernels) else {}

    def compiled(wanted: Sequence[int]) -> dict[int, KernelChange]:
        return {place: kernel_change(recorded.kernels[place], _sides(claims.get(place))) for place in wanted}

    sides = [OneSide(side, tree_difference(folder / BASE, folder / FOLDERS[side], bench, results)) for side in SIDES]
    cases = tuple(verdicts(recorded, sides, list(recorded.cases), compiled))
    machine = recorded.environment.fingerprint.key
    return claimed.model_copy(update={"cases": cases, "recorded": recorded.tree, "machine": machine})


def _sides(claim: KernelChange | None) -> dict[Side, Recompiled | str]:
    made = {"reference": claim.reference, "head": claim.head} if claim else {}
    return {side: made.get(side) or "it was not compiled" for side in SIDES}


def main(folder: str, bench: str, results: str, memory_bytes: str, seconds: str) -> int:
    """Write the report beside the trees; return 0."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    save(Path(folder, _PROVEN), _verdict(Path(folder), bench, results))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
