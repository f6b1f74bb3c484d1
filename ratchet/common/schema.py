"""JSON Schemas of the files that cross a machine: ``python -m ratchet.common.schema results/schema``.

``make schema`` runs it, and writes one file for each kind of record to the named folder; `ratchet doctor settings` reads texts
by it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ratchet import tools
from ratchet.common.field_texts import field_texts
from ratchet.core import records
from ratchet.core.records import Record
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.profile import Profiles
from ratchet.core.records.run import RunRecord
from ratchet.core.records.tuned import Tuned
from ratchet.core.records.verdict import ReportRecord

SCHEMAS: dict[str, type[Record]] = {
    "run": RunRecord,
    "baseline": Baseline,
    "report": ReportRecord,
    "tuned": Tuned,
    "profiles": Profiles,
    **tools.records(),
}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one file. ``schema_version`` is required, as `ratchet.core.records.files.load` wants it."""
    content = SCHEMAS[name].model_json_schema()
    own = set(Path(str(records.__file__)).parent.glob("*.py"))
    of_tools = {Path(str(sys.modules[record.__module__].__file__)) for record in SCHEMAS.values()}
    texts = {key: text for path in sorted(own | of_tools) for key, text in field_texts(path).items()}
    for title, part in {**content.get("$defs", {}), SCHEMAS[name].__name__: content}.items():
        for field, rules in part.get("properties", {}).items():
            if text := texts.get((title, field)):
                before = {key: value for key, value in rules.items() if key < "description"}
                part["properties"][field] = {**before, "description": text, **rules}
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
