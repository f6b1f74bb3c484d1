"""The proof that two trees are the same for a case: every planted change is noticed, and what changes nothing is not."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ratchet.config import Settings
from ratchet.measure.child.host import load
from ratchet.measure.identical import compare
from ratchet.measure.tree_spec import TreeSpec
from tests.planted_changes import HARMLESS, LATER, SEEN, Change, Text

pytestmark = pytest.mark.no_cover


def write(tree: Path, files: Mapping[str, Text]) -> Path:
    for name, text in {"kit/__init__.py": "", ".git/HEAD": "1\n", **files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Path):
            path.symlink_to(text)
        elif text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(text.encode() if isinstance(text, str) else text)
    return tree


def spec_of(tree: Path) -> TreeSpec:
    return TreeSpec.of(Settings(), tree, checkout=tree.parent / "checkout", device="cpu", gpu_uuid=None)


def answers(folder: Path, change: Change) -> dict[str, dict[str, Any]]:
    """Plant a change. Return what the benchmark ``op`` returns on each side, and what was noticed there."""
    import torch  # noqa: F401  as in a host

    trees = {
        "base": write(folder / "a" / "base", {"bench/op.py": change.bench, **change.base}).resolve(),
        "head": write(folder / "b" / "head", {"bench/op.py": change.bench, **change.base, **change.head}).resolve(),
    }
    write(folder / "library", change.library)
    for side, mode in zip(trees, change.modes[1:] if change.modes else (), strict=False):
        (trees[side] / change.modes[0]).chmod(mode)
    difference = compare(trees["base"], trees["head"], "bench", "results")

    def host(writer: int, tree: Path) -> None:
        sys.path.append(str(folder / "library"))
        warnings.simplefilter("default")  # as in a host
        sys.dont_write_bytecode = False
        loaded = load(spec_of(tree), difference)
        assert not loaded.catalogue.broken, loaded.catalogue.broken
        os.write(writer, forked(lambda inner: worker(inner, loaded)).encode())

    def worker(writer: int, loaded: Any) -> None:
        loaded.proof.forked(watched=True)
        call = loaded.build("op/default", 1).run
        call()
        value = call()
        os.write(writer, json.dumps({"value": value, **vars(loaded.proof.result())}).encode())

    return {side: json.loads(forked(lambda writer, tree=tree: host(writer, tree))) for side, tree in trees.items()}


def forked(work: Callable[[int], None]) -> str:
    """Return what a function writes to a pipe in a process of its own."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(reader)
            work(writer)
        except BaseException:  # noqa: BLE001  the parent cannot see it otherwise
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


def parameters(changes: tuple[Change, ...]) -> list[Any]:
    return [pytest.param(one, id=one.sentence) for one in changes if sys.version_info >= one.python]


@pytest.mark.parametrize("change", parameters(SEEN + LATER))
def test_a_change_is_noticed(tmp_path: Path, change: Change) -> None:
    """A change of what a call returns is noticed on one side at least."""
    found = answers(tmp_path, change)
    assert found["base"]["value"] != found["head"]["value"]
    assert found["base"]["noticed"] or found["head"]["noticed"]


@pytest.mark.parametrize("change", parameters(HARMLESS))
def test_what_changes_nothing_is_not_noticed(tmp_path: Path, change: Change) -> None:
    """A change that the case does not use is noticed on neither side."""
    found = answers(tmp_path, change)
    assert [(side["noticed"], side["unknown"]) for side in found.values()] == [([], "")] * 2
