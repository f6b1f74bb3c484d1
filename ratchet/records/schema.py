"""JSON Schemas of the files that cross a machine: ``python -m ratchet.records.schema results/schema``.

``make schema`` runs it; nothing else in ratchet imports it. Writes one file for each kind of record to the named folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ratchet.records.base import Record
from ratchet.records.baseline import Baseline
from ratchet.records.history import HistoryRun
from ratchet.records.profile import Profiles, Roofline
from ratchet.records.run import RunRecord
from ratchet.records.tuning import Tuned, TuningRecord
from ratchet.records.verdict import Calibration, ReportRecord

SCHEMAS: dict[str, type[Record]] = {
    "run": RunRecord,
    "baseline": Baseline,
    "report": ReportRecord,
    "calibration": Calibration,
    "profiles": Profiles,
    "roofline": Roofline,
    "tuning": TuningRecord,
    "tuned": Tuned,
    "history": HistoryRun,
}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one file. ``schema_version`` is required, as `ratchet.records.files.load` wants it."""
    content = SCHEMAS[name].model_json_schema()
    content["required"] = ["schema_version", *content.get("required", [])]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}


def write_schemas(folder: Path) -> None:
    """Write one file for each kind of record: ``run.json``, ``baseline.json`` …"""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        text = json.dumps(schema(name), indent=2, ensure_ascii=False)
        (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1] if len(sys.argv) > 1 else "results/schema"))
