"""A verdict without a GPU: what one commit's process touched answers for every later tree."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from ratchet.core.bench.child.boundary import CaseBoundary
from ratchet.core.bench.child.host import load
from ratchet.identical.difference import compare, whole
from ratchet.identical.footprint import Footprint, Found, look
from tests.forked import forked
from tests.planted_changes import HARMLESS, LATER, SEEN, Change
from tests.unit.test_identical import parameters, spec_of, write

pytestmark = pytest.mark.no_cover

ONE_SIDED = {"a new function", "a function that nobody used is gone"}
"""Of a function that one side alone has, nobody can tell beforehand whether it would have been asked for."""


def found(folder: Path, change: Change) -> Found:
    """Run a case in one tree alone, and hold what it touched against a tree with a planted change."""
    import torch  # noqa: F401  as in a host

    base = write(folder / "a" / "base", {"bench/op.py": change.bench, **change.base}).resolve()
    write(folder / "library", change.library)
    everything = whole(base)

    def host(writer: int) -> None:
        sys.path.append(str(folder / "library"))
        warnings.simplefilter("default")  # as in a host
        sys.dont_write_bytecode = False
        loaded = load(spec_of(base), everything)
        assert not loaded.catalogue.broken, loaded.catalogue.broken
        os.write(writer, forked(lambda inner: worker(inner, loaded)).encode())

    def worker(writer: int, loaded: Any) -> None:
        loaded.proof.forked(watched=True)
        CaseBoundary(loaded).begin("op/default", watched=False)
        call = loaded.build("op/default", 1).run
        call()
        call()
        loaded.proof.result()
        with os.fdopen(writer, "w") as file:
            file.write(Footprint.of(loaded.proof.touched).model_dump_json())

    touched = Footprint.model_validate_json(forked(host)).touches()
    before = write(folder / "c" / "base", {"bench/op.py": change.bench, **change.base}).resolve()  # as the commit has it
    head = write(folder / "b" / "head", {"bench/op.py": change.bench, **change.base, **change.head}).resolve()
    for tree, mode in zip((before, head), change.modes[1:] if change.modes else (), strict=False):
        (tree / change.modes[0]).chmod(mode)  # type: ignore[index]
    return look(touched, compare(before, head, "bench", "results"))


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(SEEN + LATER))
def test_a_change_is_noticed_by_what_was_touched_before_it(tmp_path: Path, change: Change) -> None:
    """A later change of what a call returns is noticed by what the call touched, when nobody knew of the change."""
    assert found(tmp_path, change).noticed


@pytest.mark.slow
@pytest.mark.parametrize("change", parameters(HARMLESS))
def test_what_changes_nothing_is_not_noticed_by_it(tmp_path: Path, change: Change) -> None:
    """A later change that the case does not use is not noticed."""
    is_seen = change.sentence in ONE_SIDED
    assert bool(found(tmp_path, change).noticed) == is_seen
