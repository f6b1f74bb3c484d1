"""Run the planted and the clean scripts of tests/advise on this machine's GPU, keep their traces, and say what is found first.

    python research/advise_traces.py OUT [SCRIPT…]      # all that fit this machine: about a minute on one GPU

Each trace goes to ``OUT/NAME.json.gz``, without what advice does not read; ``OUT/summary.json`` has an entry for each. They
run in one process, one after the other, by the function that `ratchet advise` uses: a process each would take far longer.
"""

from __future__ import annotations

import gc
import gzip
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ratchet.explain.advice import advise  # noqa: E402
from ratchet.explain.advice.trace import read_trace  # noqa: E402
from ratchet.explain.child.advise_target import trace_script  # noqa: E402  after the path is set
from tests.advise import CLEAN, PLANTED, planted_in, runs_on_cpu  # noqa: E402

KEPT = ("correlation", "bytes", "blocks per SM")
SHAPES = ("Input Dims", "Input type")
"""Arguments of events that stay in a kept trace; the latter only of matrix products and of what works on float64."""


def main(out: Path, names: list[str]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    scripts = [path for path in (*PLANTED, *CLEAN) if not names or path.stem in names]
    rows = []
    for script in scripts:
        if runs_on_cpu(script) or torch.cuda.is_available():
            rows.append(traced(script, out))
            print(json.dumps(rows[-1]), flush=True)
    (out / "summary.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    planted = [row for row in rows if row["planted"]]
    clean = [row for row in rows if not row["planted"]]
    named = sum(row["found"][:1] == [row["planted"]] for row in planted)
    print(f"named first: {named} of {len(planted)}; silent: {sum(row['found'] == [] for row in clean)} of {len(clean)}")
    return 0 if named == len(planted) and not any(row["found"] for row in clean) else 1


def traced(script: Path, out: Path) -> dict[str, Any]:
    """Run one script, keep its trace, and return what was found, the costliest first."""
    planted = planted_in(script) if script in PLANTED else None
    row: dict[str, Any] = {"script": script.stem, "planted": planted, "found": ["failed"]}
    raw, started = out / f"{script.stem}.json", time.perf_counter()
    allowed = torch.backends.cuda.matmul.allow_tf32
    try:
        trace_script(script, (), raw, 8.0)
        compact(raw, out / f"{script.stem}.json.gz")
        advice = advise(read_trace(out / f"{script.stem}.json.gz"), script.name)
    except Exception:  # noqa: BLE001  the others are still worth running
        traceback.print_exc()
        return row
    finally:
        raw.unlink(missing_ok=True)
        torch.backends.cuda.matmul.allow_tf32 = allowed
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    row["found"] = [finding.pattern for finding in advice.findings]
    row["shares"] = [round(finding.share, 3) for finding in advice.findings]
    row["lines"] = [finding.where.line if finding.where and finding.where.is_exact else None for finding in advice.findings]
    row["steady_ms"] = round(advice.steady_us / 1e3, 2)
    row["gpu_busy"] = advice.gpu_busy and round(advice.gpu_busy, 3)
    row["seconds"] = round(time.perf_counter() - started, 1)
    return row


def compact(raw: Path, kept: Path) -> None:
    """Write a trace without what advice does not read: other arguments, and short Python functions without torch in them."""
    document = json.loads(raw.read_bytes())
    spans = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    spans.sort(key=lambda event: (event["ts"], -event["dur"]))
    needed: set[int] = set()
    open_spans: dict[Any, list[dict[str, Any]]] = {}
    for event in spans:
        around = open_spans.setdefault(event["tid"], [])
        while around and around[-1]["ts"] + around[-1]["dur"] <= event["ts"]:
            around.pop()
        if event.get("cat") != "python_function" or event["dur"] > 100:
            needed.update(map(id, around))
            needed.add(id(event))
        around.append(event)
    base = min(event["ts"] for event in spans)
    starts = {round(event["ts"] * 1000) for event in spans if id(event) in needed}
    events = []
    for event in (event for event in spans if id(event) in needed):
        args = event.get("args", {})
        has_shapes = event["name"].endswith(("mm", "mv", "matmul", "linear")) or "double" in args.get("Input type", ())
        args = {name: value for name, value in args.items() if name in KEPT or (has_shapes and name in SHAPES)}
        short = {key: event[key] for key in ("ph", "cat", "name", "pid", "tid", "dur")}
        events.append({**short, "name": event["name"][:200], "ts": round(event["ts"] - base, 3), "args": args})
    shift = round(base * 1000)
    callers = [
        [start - shift, line] for start, line in document.get("ratchetCallers", []) if {start - 1, start, start + 1} & starts
    ]
    devices = [
        {key: device[key] for key in ("id", "name", "computeMajor", "computeMinor", "numSms") if key in device}
        for device in document.get("deviceProperties", [])
    ]
    small = {
        "deviceProperties": devices,
        "traceEvents": events,
        "ratchetCallers": callers,
        "ratchetOverhead": document["ratchetOverhead"],
    }
    with gzip.GzipFile(kept, "wb", 9, mtime=0) as stream:
        stream.write(json.dumps(small, separators=(",", ":")).encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
