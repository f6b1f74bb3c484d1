"""A case whose space cannot be had: whose fault that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ratchet.config import Settings
from ratchet.errors import Exit, RatchetError
from ratchet.measure.side import CaseTrouble, HostHandle
from ratchet.pipeline.machine import Machine
from ratchet.pipeline.tuning_subject import Site, space_of
from ratchet.records.run import CaseRun, Config
from ratchet.report.progress import SilentProgress
from ratchet.workload import Workload


class Refusing:
    """A host whose worker cannot build anything."""

    def __init__(self, trouble: str) -> None:
        self._trouble = trouble

    def fork(self) -> Refusing:
        return self

    def ask(self, *_: Any, **__: Any) -> None:
        raise CaseTrouble("head", "space", self._trouble, ())

    def end(self) -> None: ...


def refusal(trouble: str, tmp_path: Path) -> RatchetError:
    machine = Machine("cpu", None, (), ())
    site = Site(tmp_path, Settings(), (machine,), (), SilentProgress(), {})
    case = CaseRun(name="knobs/small", benchmark="knobs", config=Config(name="small", parameters={}))
    with pytest.raises(RatchetError) as raised:
        space_of(cast("HostHandle", Refusing(trouble)), case, site, tmp_path / "codes.npy")
    return raised.value


@pytest.mark.parametrize(
    "declared",
    [
        {"tune": {}},
        {"tune": {"a": (), "b": (1,)}},
        {"tune": {"a": (2,), "b": (1,)}},
        {"constraints": (lambda a, b: a < b,)},
        {"constraints": (lambda x: x,)},
        {"constraints": (lambda *a: bool(a),)},
    ],
    ids=["other names", "empty", "not among", "contradictory", "a stranger", "any number"],
)
def test_a_space_that_contradicts_itself(declared: dict[str, Any], tmp_path: Path) -> None:
    """Whatever a workload refuses of its parameters is bad input: exit 2, in its own words, with what to mend."""
    made: dict[str, Any] = {"run": int, "reference": int, "dtype": "float32", "flops": 1, "bytes": 1}
    made |= {"tune": {"a": (1, 2), "b": (1,)}, "tuning": {"a": 1, "b": 1}}
    with pytest.raises(ValueError, match=r"tun|constraint") as refused:
        Workload(**(made | declared))
    error = refusal(f"ValueError: {refused.value}", tmp_path)
    assert error.exit_code is Exit.USAGE
    assert error.message == f"The space of knobs/small contradicts itself: {refused.value}."
    assert "Mend `tune`, `tuning` or `constraints`" in error.hint


@pytest.mark.parametrize("trouble", ["ValueError: no weights here", "ran out of GPU memory", "KeyError: 'tuning'"])
def test_a_case_that_cannot_be_built(trouble: str, tmp_path: Path) -> None:
    """Any other trouble means that it cannot be measured here: exit 3."""
    error = refusal(trouble, tmp_path)
    assert error.exit_code is Exit.NOT_MEASURED
    assert error.message == f"knobs/small cannot be built: {trouble}."
