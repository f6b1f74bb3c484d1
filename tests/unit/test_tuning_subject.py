"""A case whose space cannot be had: whose fault that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ratchet.core.bench.client import CaseTrouble, HostClient
from ratchet.core.config import Settings
from ratchet.core.errors import Exit, RatchetError
from ratchet.core.machine import Machine
from ratchet.core.records.run import CaseRun, Config
from ratchet.core.report.progress import Progress
from ratchet.tune.subject import TuningSite, space_of


class Refusing:
    """A host whose worker cannot build anything."""

    def __init__(self, trouble: str, stage: str) -> None:
        self._trouble, self._stage = trouble, stage

    def fork(self, **_: object) -> Refusing:
        return self

    def ask(self, *_: Any, **__: Any) -> None:
        raise CaseTrouble("head", self._stage, self._trouble, ())

    def end(self) -> None: ...


def refusal(trouble: str, tmp_path: Path, stage: str = "space") -> RatchetError:
    machine = Machine("cpu", None, (), ())
    site = TuningSite(tmp_path, Settings(), (machine,), (), Progress(), {})
    case = CaseRun(name="knobs/small", benchmark="knobs", config=Config(name="small", parameters={}))
    with pytest.raises(RatchetError) as raised:
        space_of(cast("HostClient", Refusing(trouble, stage)), case, site, tmp_path / "codes.npy")
    return raised.value


def test_a_space_that_contradicts_itself(tmp_path: Path) -> None:
    """What a workload refuses of its parameters is bad input: exit 2, in its own words, with what to mend."""
    error = refusal("tuning a=1 is not among the values of tune: [2]", tmp_path, stage="declaration")
    assert error.exit_code is Exit.USAGE
    assert error.message == "The space of knobs/small contradicts itself: tuning a=1 is not among the values of tune: [2]."
    assert "Fix `tune`, `tuning` or `constraints`" in error.hint


@pytest.mark.parametrize("trouble", ["ValueError: no weights here", "ran out of GPU memory", "KeyError: 'tuning'"])
def test_a_case_that_cannot_be_built(trouble: str, tmp_path: Path) -> None:
    """Any other trouble means that it cannot be measured here: exit 3."""
    error = refusal(trouble, tmp_path)
    assert error.exit_code is Exit.NOT_MEASURED
    assert error.message == f"knobs/small cannot be built: {trouble}."
