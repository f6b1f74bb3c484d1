"""The formats of other harnesses: what a file looks like, and the reader of each.

A reader is a function from a parsed file to its benchmarks, with times in milliseconds. A rate, such as GB/s, becomes the time of
one unit of work: half the rate is twice the time. Where a file has single samples and a summary of them, the samples are taken.
`results` calls these functions and turns every error into a sentence. Where each format is described stands in docs/harnesses.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.harness import programs, suites, tables
from ratchet.harness.entries import ParsedFile
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
    "bencher": suites.bencher,
    "json": suites.own,
    "seed": suites.seed,
}
"""Format → its reader, which raises FormatError, or KeyError and the like for a document of another shape."""


# What a file looks like, so that a wrong one can be named.


@dataclass(frozen=True)
class OurFile:
    """A file that ratchet wrote and that holds no times of another harness."""

    what: str
    hint: str


OURS = {
    "run": OurFile("a recorded run of ratchet", "Give it without --format."),
    "verdict": OurFile("the verdict of a run of ratchet, without its samples", "Give the current.json that lies beside it."),
    "baseline": OurFile("a baseline of ratchet", "Give a recorded run, such as current.json."),
    "other record": OurFile("another file of ratchet", "Give a recorded run, such as current.json."),
}
BESIDE = "description beside the results of asv"
"""A file that belongs to a folder of results and holds none."""


def looks_like(document: Any) -> str | None:
    """Return the format of a document, a key of `OURS`, or `BESIDE`; None where nobody knows."""
    if isinstance(document, CsvTable):
        return "triton"
    if any(
        _has(one, "metric") and isinstance(one["metric"], dict)
        for one in (document if isinstance(document, list) else [document])
    ):
        return "pytorch"
    if isinstance(document, list) and document and all(map(_is_seed, document)):
        return "seed"
    return next((kind for kind, is_so in _LOOKS if is_so(document)), None) if isinstance(document, dict) else None


def _is_ours(document: dict[str, Any]) -> bool:
    return type(document.get("schema_version")) is int  # PyTorch's is a text


def _is_seed(document: Any) -> bool:
    return _has(document, "config") and isinstance(document.get("performance"), dict)


_LOOKS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("run", lambda one: _is_ours(one) and "kind" in one and "plan" in one),
    ("verdict", lambda one: _is_ours(one) and "verdict" in one),
    ("baseline", lambda one: _is_ours(one) and "fingerprints" in one),
    ("other record", _is_ours),
    ("seed", _is_seed),
    ("triton", lambda one: any(str(key).startswith("tritonbench_") for key in metrics_of(one))),
    ("pytest-benchmark", lambda one: "machine_info" in one),
    ("codspeed", lambda one: isinstance(one.get("instrument"), dict) and "benchmarks" in one),
    ("google-benchmark", lambda one: "context" in one and "benchmarks" in one),
    ("nvbench", lambda one: isinstance(one.get("benchmarks"), list) or ("meta" in one and "benchmarks" in one)),
    ("asv", lambda one: isinstance(one.get("results"), dict) and "commit_hash" in one),
    ("hyperfine", lambda one: isinstance(one.get("results"), list) and _any_or_none(one["results"], "command")),
    ("json", lambda one: isinstance(one.get("benchmarks"), dict)),
    (BESIDE, lambda one: "version" in one and ("machine" in one or any(_has(each, "code") for each in one.values()))),
    ("bencher", lambda one: any(_holds_metric(each) for each in one.values())),
)
"""What is asked of a JSON object, in this order."""


def described(looks: str | None) -> str:
    """Return the rest of a sentence that begins with ``The file is``."""
    if looks in OURS:
        return OURS[looks].what
    if looks == BESIDE:
        return f"a {BESIDE}"
    return f"a file that {looks} writes" if looks else "no file of a harness that ratchet knows"


def _holds_metric(measures: Any) -> bool:
    return isinstance(measures, dict) and any(_has(metric, "value") for metric in measures.values())


def _any_or_none(listed: list[Any], key: str) -> bool:
    return not listed or any(_has(each, key) for each in listed)


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value
