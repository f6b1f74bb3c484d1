"""The baseline file as text."""

from __future__ import annotations

import examples

from ratchet.records import Baseline, Fingerprint, FingerprintBaseline
from ratchet.report.baseline import baseline_lines


def test_nothing_stored() -> None:
    """An empty baseline says which commands fill it."""
    assert baseline_lines(Baseline(), "results/baseline.json") == [
        "results/baseline.json: no baseline yet. Measure with `ratchet check`, then `ratchet baseline record`."
    ]


def test_lines() -> None:
    """Each machine has a heading with its software, each case a line with time, interval, commit and day."""
    assert baseline_lines(examples.baseline(), "x") == [
        f"NVIDIA H200 (driver 580.95.05, CUDA 13.0, torch 2.9.1+cu130) [{examples.FINGERPRINT.key}]",
        "  attention/training_512    53.00 µs  [51.20 µs, 54.80 µs]      9e8d7c6b5a  2026-03-14",
    ]


def test_a_cpu_without_cases() -> None:
    """A machine without a GPU is named by its CPU, and an empty part is no error."""
    cpu = Fingerprint(device="cpu", torch="2.9.1+cpu", cpu="AMD EPYC 9654", cpu_threads=8)
    stored = Baseline(fingerprints={cpu.key: FingerprintBaseline(fingerprint=cpu, configs={})})
    assert baseline_lines(stored, "x") == [f"AMD EPYC 9654 (torch 2.9.1+cpu) [{cpu.key}]"]


def test_hostile_names() -> None:
    """A case's name cannot break out of its line."""
    entry = examples.baseline().fingerprints[examples.FINGERPRINT.key].configs["attention/training_512"]
    part = FingerprintBaseline(fingerprint=examples.FINGERPRINT, configs={examples.HOSTILE: entry})
    lines = baseline_lines(Baseline(fingerprints={examples.FINGERPRINT.key: part}), "x")
    assert len(lines) == 2
    assert all(character.isprintable() for line in lines for character in line)
