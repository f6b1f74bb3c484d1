"""Planted causes, each with its top finding: prints a table of research/README.md, with whole sentences.

python research/diagnosis.py                                 from the extracts in tests/data/planted
python research/diagnosis.py --from REPORTS [--extract TO]   from what bench/planted/record.py wrote
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from common import row, table

from ratchet.core import units
from ratchet.core.records.environment import Peaks
from ratchet.core.records.profile import Activity, Finding, Profile
from ratchet.explain import metrics
from ratchet.explain.diagnosis import diagnose
from ratchet.explain.readers import read

RULE_METRICS = (
    *(metrics.LOAD_SECTORS, metrics.STORE_SECTORS, *metrics.LOCAL_SECTORS, *metrics.ATOMICS, *metrics.REQUESTS),
    *(metrics.THREADS_PER_INSTRUCTION, metrics.SM_ACTIVE, metrics.SM_ELAPSED),
)
"""What the rules take from `KernelProfile.metrics`."""
EXTRACTS = Path(__file__).parents[1] / "tests" / "data" / "planted"
NAMED_BY: dict[str, str] = {
    "coalescing": "coalescing",
    "spills": "spills",
    "bank_conflicts": "bank conflicts",
    "occupancy": "occupancy",
    "extra_pass": "extra pass",
    "extra_kernel": "extra kernel",
    "launch_storm": "launches",
    "tail": "tail",
    "atomics": "atomics",
    "divergence": "divergence",
    "in_flight": "bytes in flight",
    "precision": "precision",
    "tensor_cores": "tensor cores",
    "tile": "tile",
    "pageable_copies": "pageable copies",
}
"""Planted cause → the key of the finding that names it."""
TRACED = ("pageable_copies",)
TRACED_CALLS = 5
"""Calls in a trace of bench/planted/record.py."""
VARIANTS = ("good", "bad")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="reports", type=Path, help="a folder of bench/planted/record.py")
    parser.add_argument("--extract", type=Path, help="where to write the figures that the rules use")
    options = parser.parse_args()
    causes = [recorded(options.reports, cause) if options.reports else extract(cause) for cause in NAMED_BY]
    if options.extract:
        options.extract.mkdir(parents=True, exist_ok=True)
        for cause in causes:
            text = json.dumps(cause, indent=1, ensure_ascii=False)
            (options.extract / f"{cause['cause']}.json").write_text(f"{text}\n", encoding="utf-8")
    table("planted cause", "good", "bad", "top finding", "named")
    named = [show(cause) for cause in causes]
    print(f"\n{sum(named)} of {len(named)} named by the top finding.")
    return 0 if all(named) else 1


def extract(cause: str) -> dict[str, Any]:
    return dict(json.loads((EXTRACTS / f"{cause}.json").read_text(encoding="utf-8")))


def recorded(folder: Path, cause: str) -> dict[str, Any]:
    """Read both variants and keep no more than the rules need: small enough for the repository."""
    times = json.loads((folder / "times.json").read_text(encoding="utf-8"))
    sides = {}
    for variant in VARIANTS:
        stem = f"{cause}_{variant}"
        profile = traced(folder / f"{stem}.trace.json") if cause in TRACED else read(folder / f"{stem}.ncu-rep", os.environ)
        sides[variant] = slim(profile).model_dump(mode="json", exclude_defaults=True)
    return {"cause": cause, "named_by": NAMED_BY[cause], "gpu": times["gpu"], "times_s": times["times_s"][cause], **sides}


def slim(profile: Profile) -> Profile:
    """Leave out rules, peaks and the metrics that no rule reads."""
    kernels = tuple(
        kernel.model_copy(
            update={
                "rules": (),
                "peaks": Peaks(),
                "metrics": {name: kernel.metrics[name] for name in RULE_METRICS if name in kernel.metrics},
            }
        )
        for kernel in profile.kernels
    )
    return profile.model_copy(update={"kernels": kernels})


def traced(path: Path) -> Profile:
    """A trace that torch.profiler exported. Its own overhead is left out."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    spans = [
        event
        for event in events
        if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "cuda_runtime", "gpu_memcpy", "kernel")
    ]
    copies = [span for span in spans if span["cat"] == "gpu_memcpy"]
    activity = Activity(
        calls=TRACED_CALLS,
        wall_s=(max(span["ts"] + span["dur"] for span in spans) - min(span["ts"] for span in spans)) / 1e6,
        copies_s=sum(copy["dur"] for copy in copies) / 1e6,
        pageable_copies=sum("Pageable" in copy["name"] for copy in copies),
    )
    return Profile(tool="torch", reader="torch", activity=activity)


def findings(cause: dict[str, Any]) -> tuple[Finding, ...]:
    """Diagnose the bad variant as the head against the good one."""
    return diagnose(Profile.model_validate(cause["bad"]), Profile.model_validate(cause["good"]))


def show(cause: dict[str, Any]) -> bool:
    """Print its row. Returns whether the top finding names the cause."""
    good, bad = (units.duration(cause["times_s"][variant]) for variant in VARIANTS)
    top = next(iter(findings(cause)), None)
    named = top is not None and top.key == cause["named_by"]
    row(cause["cause"].replace("_", " "), good, bad, top.what if top else "nothing", "yes" if named else "no")
    return named


if __name__ == "__main__":
    sys.exit(main())
