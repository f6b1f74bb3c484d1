"""A child program in which Nsight Compute's Python module reads a report into plain JSON; `readers` starts it.

``python ncu_child.py REPORT OUTPUT`` reads REPORT and writes OUTPUT. The module is native code, which a damaged report can crash
or send into endless loops; here that costs a child process and no more. Imports nothing of ratchet, so that it starts at once and
from any folder. Exits with `NO_MODULE` where there is no such module.
"""

from __future__ import annotations

import importlib
import json
import re
import resource
import sys
from pathlib import Path
from typing import Any

NO_MODULE = 77
"""Exit status where there is no module."""
ADDRESS_SPACE_BYTES = 16 * 2**30
"""Limit of the whole child; a report that needs more is damaged."""
_LINK = re.compile(r"@(?P<kind>url|section|sass|source):(?P<words>[^:@]+):(?P<address>[^@]+)@")
_SCOPES: dict[Any, str] = {1: "local", 2: "global"}
_FUSED = "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum.per_cycle_elapsed"


def main(report: str, output: str) -> int:
    """Write one line of JSON for each launch, a `RawKernel`; return the exit status."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = ADDRESS_SPACE_BYTES if most == resource.RLIM_INFINITY else min(most, ADDRESS_SPACE_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    try:
        module = importlib.import_module("ncu_report")
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return NO_MODULE
    context = module.load_report(report)
    with Path(output).open("w", encoding="utf-8") as lines:  # a line for each launch: hundreds of them need not fit in memory
        for launches in map(context.range_by_idx, range(context.num_ranges())):
            for index in range(launches.num_actions()):
                lines.write(f"{json.dumps(_action(launches.action_by_idx(index)))}\n")
    return 0


def _action(action: Any) -> dict[str, Any]:
    """Return one launch: its name, each metric in base units, and what the rules say. Values of single instances are left out."""
    metrics = ((name, action.metric_by_name(name)) for name in action.metric_names())
    values = [(name, metric.value()) for name, metric in metrics if metric is not None and _has_value(metric)]
    base = getattr(action, "NameBase_DEMANGLED", None)
    return {
        "name": action.name() if base is None else action.name(base),
        "metrics": {name: value for name, value in values if isinstance(value, int | float)},
        "texts": {name: value for name, value in values if isinstance(value, str)},
        "constant_moves": _constant_moves(action),
        "rules": [rule for rule in map(_rule, action.rule_results_as_dicts()) if rule["title"] or rule["message"]],
    }


def _has_value(metric: Any) -> bool:
    """Return whether a metric was collected. One that was not reads as 0.0 all the same, and older modules cannot say so."""
    return bool(metric.has_value()) if hasattr(metric, "has_value") else True


def _constant_moves(action: Any) -> int | None:
    """Count thread instructions ``HFMA2 R, -RZ, RZ, …``, with which compilers only put a constant into a register.

    None where the report does not count single instructions.
    """
    fused = action.metric_by_name(_FUSED)
    if fused is not None and _has_value(fused) and not fused.value():
        return 0
    executed = action.metric_by_name("thread_inst_executed_true")
    if executed is None or not executed.num_instances() or not executed.has_correlation_ids():
        return None
    places = executed.correlation_ids()
    counts = ((places.as_uint64(index), executed.as_uint64(index)) for index in range(executed.num_instances()))
    moved = 0
    for place, count in counts:
        code = (action.sass_by_pc(place) or "") if count else ""
        moved += count if "HFMA2" in code and "-RZ, RZ," in code else 0
    return moved


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    message = rule.get("rule_message") or {}
    estimate = rule.get("speedup_estimation") or {}
    speedup = estimate.get("speedup")
    return {
        "name": rule["rule_identifier"],
        "title": message.get("title", ""),
        "message": _LINK.sub(_words_of_link, message.get("message", "")),
        "speedup_percent": speedup if speedup is not None and speedup >= 0 else None,
        "scope": _SCOPES.get(estimate.get("type")),
    }


def _words_of_link(link: re.Match[str]) -> str:
    """Convert ``@url:words:https://…@`` to ``words (https://…)``, as ncu prints it; keep only one part of other links."""
    kind, words, address = link["kind"], link["words"], link["address"]
    return f"{words} ({address})" if kind == "url" else address if kind in ("section", "sass") else words


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
