"""Gates on what a case takes besides time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ratchet.core.config import load_settings
from ratchet.core.errors import UsageError
from ratchet.core.judge.gates import growths
from ratchet.core.judge.verdict import judge_run
from ratchet.core.records.baseline import Baseline
from ratchet.core.records.run import CaseRun, Policy, Resources
from ratchet.core.records.verdict import Outcome
from tests import examples

USUAL = Resources(spills=0, registers=64, code_size=4096, launches=2)


def case(**changes: int) -> CaseRun:
    """A case whose time did not change, and whose head takes something else."""
    unchanged = examples.compared(*[1.0] * 20)
    return unchanged.model_copy(update={"resources": {"head": USUAL.model_copy(update=changes), "reference": USUAL}})


@pytest.mark.parametrize(
    ("gates", "changes", "sentence", "fails"),
    [
        ({}, {"spills": 348}, "A thread spills up to 348 bytes of registers to memory; in the reference 0 bytes.", False),
        ({}, {"registers": 255, "code_size": 9000, "launches": 9}, None, False),
        ({"spills": "off"}, {"spills": 348}, None, False),
        (
            {"spills": 0},
            {"spills": 8},
            "A thread spills up to 8 bytes of registers to memory; in the reference 0 bytes, where any",
            True,
        ),
        ({"registers": 0.1}, {"registers": 70}, None, False),
        (
            {"registers": 0.1},
            {"registers": 72},
            "uses up to 72 registers; in the reference 64, past the gate of 10 % more.",
            True,
        ),
        ({"registers": "warn"}, {"registers": 65}, "A thread uses up to 65 registers; in the reference 64.", False),
        (
            {"code_size": 1.0},
            {"code_size": 8193},
            "have 8.00 KiB of machine code; in the reference 4.00 KiB, past the gate",
            True,
        ),
        ({"launches": 0}, {"launches": 3}, "A call launches 3 kernels; in the reference 2, where any growth fails.", True),
        ({"launches": 0}, {"launches": 1}, None, False),
    ],
)
def test_what_grows_past_its_gate_is_said_or_fails(
    gates: dict[str, Any], changes: dict[str, int], sentence: str | None, fails: bool
) -> None:
    """A gate fails the case, a warning says both figures, and what is off or shrinks says nothing."""
    policy = Policy(gates=gates)
    run = examples.run_of(case(**changes)).model_copy(update={"policy": policy})
    verdict = judge_run(run, Baseline()).cases[0]
    assert (verdict.outcome is Outcome.FAILED) == fails
    said = verdict.reason if fails else verdict.memory
    assert sentence in said if sentence and said else said is sentence


def test_what_nobody_could_look_at_is_not_gated() -> None:
    """On a CPU no kernel has registers, and of a side whose launches cannot be captured nothing is known."""
    every = Policy(gates={"spills": 0, "registers": 0, "code_size": 0, "launches": 0})
    known = case(spills=8, registers=255)
    alone = known.model_copy(update={"resources": {"head": known.resources["head"]}})
    assert list(growths(alone, every)) == []


def test_gates_are_settings(tmp_path: Path) -> None:
    """They are read as percentages, and a wrong name or value is refused with both."""
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.ratchet.gates]\nspills = "0%"\nregisters = "12.5%"\nmemory = "off"\n')
    assert load_settings(tmp_path, {}, {}).policy.gates == {"spills": 0.0, "registers": 0.125, "memory": "off"}
    for wrong in ("spils = 'warn'", "spills = 'perhaps'", "spills = '-3%'"):
        file.write_text(f"[tool.ratchet.gates]\n{wrong}\n")
        with pytest.raises(UsageError, match="gates"):
            load_settings(tmp_path, {}, {})
