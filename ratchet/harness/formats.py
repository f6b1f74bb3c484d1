"""The formats of other harnesses: what a file looks like, and the reader of each.

A reader is a function from a parsed file to its benchmarks, with times in milliseconds. A rate, such as GB/s, becomes the time of
one unit of work: half the rate is twice the time. Where a file has single samples and a summary of them, the samples are taken.
`results` calls these functions and turns every error into a sentence. Where each format is described stands in docs/harnesses.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet.harness import programs, suites, tables
from ratchet.harness.entries import ParsedFile, part
from ratchet.harness.tables import CsvTable, metrics_of

Parser = Callable[[Any, Path | None, Path], ParsedFile]
"""Takes the document, the file where it is one of a folder, and the folder that the file lies in."""
FORMATS: dict[str, Parser] = {
    "nvbench": programs.nvbench,
    "google-benchmark": programs.google_benchmark,
    "pytest-benchmark": suites.pytest_benchmark,
    "hyperfine": programs.hyperfine,
    "triton": tables.triton,
    "pytorch": suites.pytorch,
    "asv": suites.asv,
    "codspeed": suites.codspeed,
    "criterion": suites.criterion,
    "bencher": suites.bencher,
    "json": suites.own,
    "seed": suites.seed,
}
"""Format → its reader, which raises FormatError, or KeyError and the like for a document of another shape."""


# What a file looks like, so that a wrong one can be named.


BESIDE = "a description beside the results of asv"
"""A file that belongs to a folder of results and holds none."""
UNREAD = {
    "a recorded run of ratchet": "Give it without --format.",
    "the verdict of a run of ratchet, without its samples": "Give the current.json that lies beside it.",
    "a baseline of ratchet": "Give a recorded run, such as current.json.",
    "another file of ratchet": "Give a recorded run, such as current.json.",
    BESIDE: "Give the results, which lie in the folder of a machine.",
    "a table of NVBench": "Let the program write --jsonbin FILE.",
    "a table of Google Benchmark": "Let the program write --benchmark_out=FILE --benchmark_out_format=json.",
    "a table of hyperfine": "Let hyperfine write --export-json FILE.",
    "a table of pytest-benchmark": "Let pytest write --benchmark-json=FILE.",
}
"""Files that are known and not read → what to give in place of one."""


def looks_like(document: Any) -> str | None:
    """Return the format of a document, or a key of `UNREAD`; None where nobody knows."""
    if isinstance(document, CsvTable):
        return next((kind for kind, columns in _TABLES.items() if columns <= {*document.header}), "triton")
    listed = document if isinstance(document, list) else [document]
    if any(isinstance(part(one, "metric"), dict) for one in listed):
        return "pytorch"
    if any(map(_is_seed, listed)):
        return "seed"
    if any(part(one, "reason") == suites.CRITERION_RESULT for one in listed):
        return "criterion"
    return next((kind for kind, is_so in _LOOKS if is_so(document)), None) if isinstance(document, dict) else None


def _is_ours(document: dict[str, Any]) -> bool:
    return type(document.get("schema_version")) is int  # PyTorch's is a text


def _is_seed(document: Any) -> bool:
    return _has(document, "config") and isinstance(document.get("performance"), dict) and not _is_ours(document)


_LOOKS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("a recorded run of ratchet", lambda one: _is_ours(one) and "kind" in one and "plan" in one),
    ("the verdict of a run of ratchet, without its samples", lambda one: _is_ours(one) and "verdict" in one),
    ("a baseline of ratchet", lambda one: _is_ours(one) and "fingerprints" in one),
    ("another file of ratchet", _is_ours),
    ("triton", lambda one: any(str(key).startswith("tritonbench_") for key in metrics_of(one))),
    ("pytest-benchmark", lambda one: "machine_info" in one),
    ("codspeed", lambda one: isinstance(one.get("instrument"), dict) and "benchmarks" in one),
    ("google-benchmark", lambda one: "context" in one and "benchmarks" in one),
    ("nvbench", lambda one: "benchmarks" in one and ("meta" in one or "devices" in one)),
    ("asv", lambda one: isinstance(one.get("results"), dict) and "commit_hash" in one),
    ("hyperfine", lambda one: _is_of_hyperfine(one.get("results"))),
    ("json", lambda one: isinstance(one.get("benchmarks"), dict)),
    (BESIDE, lambda one: "version" in one and ("machine" in one or any(_has(each, "code") for each in one.values()))),
    ("bencher", lambda one: any(_holds_metric(each) for each in one.values())),
)
"""What is asked of a JSON object, in this order."""
_TABLES = {
    "a table of NVBench": {"Benchmark", "Skipped"},
    "a table of Google Benchmark": {"iterations", "real_time", "time_unit"},
    "a table of hyperfine": {"command", "mean", "user"},
    "a table of pytest-benchmark": {"name", "mean", "rounds"},
}
"""Tables whose times name no unit, or whose columns tell more than what a row times, and the columns by which each is known."""


def described(looks: str | None) -> str:
    """Return the rest of a sentence that begins with ``The file is``."""
    writes = f"a file that {looks} writes" if looks else "no file of a harness that ratchet knows"
    return looks if looks in UNREAD else writes


def _holds_metric(measures: Any) -> bool:
    return isinstance(measures, dict) and any(_has(metric, "value") for metric in measures.values())


def _is_of_hyperfine(results: Any) -> bool:
    return isinstance(results, list) and (not results or any(_has(each, "command") for each in results))


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value
