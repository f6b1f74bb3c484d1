"""Everything that is written to disk or crosses a process, as frozen pydantic models.

Every part of ratchet imports them. The models are pure; `files.py` and `tuning.py` read and write files, `archive.py` reads them.
Docstrings of models and fields go into the JSON Schemas (results/schema), which ``make schema`` writes.
"""

from ratchet.records.base import SCHEMA_VERSION, Record
from ratchet.records.baseline import Baseline, BaselineEntry, FingerprintBaseline
from ratchet.records.environment import Environment, Fingerprint, Telemetry
from ratchet.records.run import (
    Block,
    CaseRun,
    Config,
    Failure,
    LostWorker,
    Performance,
    Plan,
    Policy,
    RunRecord,
    Tree,
    WorkerSamples,
    WorkloadIdentity,
)
from ratchet.records.verdict import (
    SLOWDOWNS,
    Calibration,
    CaseCalibration,
    CaseVerdict,
    Comparison,
    Outcome,
    ReportRecord,
    SideSummary,
)

__all__ = [
    "SCHEMA_VERSION",
    "SLOWDOWNS",
    "Baseline",
    "BaselineEntry",
    "Block",
    "Calibration",
    "CaseCalibration",
    "CaseRun",
    "CaseVerdict",
    "Comparison",
    "Config",
    "Environment",
    "Failure",
    "Fingerprint",
    "FingerprintBaseline",
    "LostWorker",
    "Outcome",
    "Performance",
    "Plan",
    "Policy",
    "Record",
    "ReportRecord",
    "RunRecord",
    "SideSummary",
    "Telemetry",
    "Tree",
    "WorkerSamples",
    "WorkloadIdentity",
]
