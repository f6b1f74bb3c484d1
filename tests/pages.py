"""What `ratchet check` left on an H200 of a commit with planted slowdowns: ``tests/data/h200_red``."""

from __future__ import annotations

import gzip
from pathlib import Path

from ratchet.core.records.run import RunRecord
from tests import examples

H200 = Path(__file__).parent / "data" / "h200_red"


def h200_bytes(name: str) -> bytes:
    """A file of the red run's artifact."""
    return gzip.decompress((H200 / f"{name}.gz").read_bytes())


def h200_run(name: str = "h200_slower") -> RunRecord:
    """The run with five slowdowns. ``h200_red`` has enough pairs to prove them, ``h200_green`` only cases that are no slower."""
    run = RunRecord.model_validate_json(h200_bytes("current.json"))
    times = 1 if name == "h200_slower" else 3
    cases = [examples.longer(case, times) for case in run.cases]
    if name == "h200_green":
        swapped = [
            case.model_copy(update={"head": case.reference, "performance": case.reference_performance})
            for case in cases
            if case.name in ("normalize/rows_16k", "attention/training_1k")
        ]
        cases = [*swapped, *(case for case in cases if case.identical)]
    plan = run.plan.model_copy(update={"pairs": 100, "sessions": times > 1})
    return run.model_copy(update={"plan": plan, "cases": tuple(cases)})
