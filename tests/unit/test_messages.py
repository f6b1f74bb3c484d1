"""What hosts and workers may answer."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.core.bench.messages import BuiltCase, CaseListed, Checked, Listing, Ready, Sampled, Trouble, parse
from ratchet.core.bench.wire import ProtocolError

PREPARED: dict[str, Any] = {
    "workload": {
        "parameters": {"rows": 2, "scale": 0.5, "causal": True, "layout": "bhsd"},
        "device": "cuda",
        "dtype": "float32",
        "flops": 1,
        "bytes": 8.0,
        "clock": "event",
        "cache": "cold",
    },
    "tuning": {"BLOCK": 16},
    "error": 0,
    "peak_memory_bytes": 1024,
    "stages": ["scores"],
    "foreign": [],
}


def test_prepared() -> None:
    """A worker's whole answer is understood, and parameters keep their types."""
    found = parse(PREPARED, BuiltCase)
    assert found.stages == ("scores",)
    assert [type(value) for value in found.workload.parameters.values()] == [int, float, bool, str]


def test_listing() -> None:
    """A host's first message may be an error alone, or a list of cases."""
    assert parse({"error": "no folder", "hint": "make one"}, Listing).error == "no folder"
    case = {"name": "a/x", "benchmark": "a", "config": "x", "file": "a.py", "parameters": {}, "skipped": ""}
    found = parse({"cases": [case], "broken": [], "torch": "2.9", "cuda": None}, Listing)
    assert found.cases == (CaseListed(**case),)
    assert not found.touched_cuda


@pytest.mark.parametrize(
    ("message", "kind", "place"),
    [
        ({}, Ready, "ready"),
        ({"ready": True, "more": 1}, Ready, "more"),
        ({"ready": "yes"}, Ready, "ready"),
        ({"samples_ms": []}, Sampled, "samples_ms"),
        ({"samples_ms": [0.0]}, Sampled, "samples_ms.0"),
        ({"samples_ms": [-1.0]}, Sampled, "samples_ms.0"),
        ({"samples_ms": [1.0, True]}, Sampled, "samples_ms.1"),
        ({"samples_ms": ["0.5"]}, Sampled, "samples_ms.0"),
        ({"samples_ms": 3}, Sampled, "samples_ms"),
        ({"samples_ms": [1e400]}, Sampled, "samples_ms.0"),
        ({"error": -1}, Checked, "error"),
        (PREPARED | {"peak_memory_bytes": 1.5}, BuiltCase, "peak_memory_bytes"),
        ({"stage": "x", "trouble": None, "last_lines": []}, Trouble, "trouble"),
        ({"stage": "\udcff", "trouble": "", "last_lines": []}, Trouble, ""),
        (PREPARED | {"workload": PREPARED["workload"] | {"cache": "hot"}}, BuiltCase, "workload.cache"),
        (PREPARED | {"tuning": {"BLOCK": [1]}}, BuiltCase, "tuning.BLOCK.int"),
    ],
)
def test_refused(message: dict[str, object], kind: Any, place: str) -> None:
    """What is not exactly the answer expected is Rubbish, and the place is named."""
    with pytest.raises(ProtocolError) as caught:
        parse(message, kind)
    assert caught.value.message.startswith(f"not the answer expected ({place}: ")
