"""Kept builds: what is restored is what was kept, only where the settings say, and over nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ratchet.core.bench.build import build_tree
from ratchet.core.records.files import load, save
from ratchet.kept_builds.files import KeptBuild, kept_folder, restore_kept

pytestmark = pytest.mark.no_cover

BUILD = ("sh", "-c", "mkdir -p out/deep; cat source > out/deep/a; printf x > out/tool; chmod 700 out/tool; ln -s tool out/link; "
         "printf y > stray; echo built >> ../count")  # fmt: skip
OUTPUTS = ("out/",)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))


def built(tmp_path: Path, command: tuple[str, ...] = BUILD, outputs: tuple[str, ...] = OUTPUTS, **changes: object) -> Path:
    """Build a new tree with one source and one benchmark."""
    tree = tmp_path / f"tree{len(list(tmp_path.glob('tree*')))}"
    (tree / "bench").mkdir(parents=True)
    (tree / "source").write_text("of the tree")
    (tree / "bench" / "adds.py").write_text("honest")
    environ = {"PATH": os.environ["PATH"], **{name: str(each) for name, each in changes.items() if name != "cache"}}
    build_tree(tree, command, outputs, "content", 60, environ, cache=changes.get("cache", True))  # type: ignore[arg-type]  # as given
    return tree


def times(tmp_path: Path) -> int:
    """How often something was really built."""
    return len((tmp_path / "count").read_text().splitlines())


def the_entry(tmp_path: Path) -> Path:
    (mark,) = (tmp_path / "cache" / "builds").glob("*/kept.json")
    return mark.parent


def test_declared_outputs_come_back(tmp_path: Path) -> None:
    """A second tree of the same content gets the declared files, a link as the file that it leads to, and nothing else."""
    built(tmp_path)
    tree = built(tmp_path)
    assert times(tmp_path) == 1
    assert (tree / "out" / "deep" / "a").read_text() == "of the tree"
    assert (tree / "out" / "link").read_text() == "x"
    assert os.access(tree / "out" / "tool", os.X_OK)
    assert not (tree / "stray").exists()


def test_nothing_is_kept_of_a_build_that_declares_nothing(tmp_path: Path) -> None:
    """Without `build_outputs` every tree is built."""
    built(tmp_path, outputs=())
    built(tmp_path, outputs=())
    assert times(tmp_path) == 2
    assert not (tmp_path / "cache").exists()


def test_reading_keeps_nothing(tmp_path: Path) -> None:
    """With `read` a build is used if another run has kept it, and none is added."""
    built(tmp_path, cache="read")
    built(tmp_path, cache="read")
    assert times(tmp_path) == 2
    built(tmp_path)
    built(tmp_path, cache="read")
    assert times(tmp_path) == 3


@pytest.mark.parametrize("name", ["CFLAGS", "CUDA_HOME", "CC"])
def test_another_compiler_builds_again(name: str, tmp_path: Path) -> None:
    """Compilers and their flags are part of the key."""
    compiler = tmp_path / "gcc-99"
    compiler.write_text("#!/bin/sh\necho gcc 99\n")
    compiler.chmod(0o755)
    built(tmp_path)
    built(tmp_path, **{name: compiler})
    assert times(tmp_path) == 2


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("CXX", "c++ -O0", "c++ -O3"), ("CXX", "env gcc-98", "env gcc-99"), ("CUDAFLAGS", "-O0", "-O3"), ("NVCC_CCBIN", "a", "b")],
)
def test_other_words_for_a_compiler_build_again(name: str, first: str, second: str, tmp_path: Path) -> None:
    """A compiler may be named with its options, and behind another program."""
    built(tmp_path, **{name: first})
    built(tmp_path, **{name: second})
    assert times(tmp_path) == 2


def test_a_project_below_the_top_may_name_variables(tmp_path: Path) -> None:
    """A variable is part of the build where a file of the folder that the build runs in names it."""
    (tmp_path / "a/project").mkdir(parents=True)
    (tmp_path / "a/project/setup.py").write_text("import os\nDEBUG = os.environ.get('ACME_DEBUG')\n")
    entries = {
        kept_folder(BUILD, OUTPUTS, "content", tmp_path / "a", {"PATH": os.environ["PATH"], "ACME_DEBUG": value}, "project")
        for value in "12"
    }
    assert len(entries) == 2


def test_a_variable_that_the_build_names_builds_again(tmp_path: Path) -> None:
    """A variable of the project's own is part of the build where a file at the top of the tree names it; others are not."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/setup.py").write_text("import os\nDEBUG = os.environ.get('ACME_DEBUG')\n")
    entries = [
        kept_folder(BUILD, OUTPUTS, "content", tmp_path / "a", {"PATH": os.environ["PATH"], **more})
        for more in ({}, {"ACME_DEBUG": "1"}, {"ACME_DEBUG": "2"}, {"INVOCATION_ID": "7"})
    ]
    assert len(set(entries)) == 3
    assert entries[0] == entries[3]


def test_other_packages_build_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are the installed packages."""
    built(tmp_path)
    monkeypatch.setattr("importlib.metadata.distributions", lambda: ())
    built(tmp_path)
    assert times(tmp_path) == 2


POISONS = (
    "bench/adds.py",
    "bench/evil.py",
    "../escaped",
    "/escaped",
    "out/../bench/evil.py",
    "out/deep/a/b",
    ".git/hooks/x",
    "source",
)


@pytest.mark.slow
@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_entry_writes_nowhere_else(poison: str, tmp_path: Path) -> None:
    """A file that was not declared, leads out of the tree or is the tree's own makes the whole entry worthless."""
    built(tmp_path)
    folder = the_entry(tmp_path)
    kept = load(folder / "kept.json", KeptBuild)
    target = folder / "outputs" / poison
    if poison != "/escaped" and not target.parent.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "outputs" / "out" / "tool", target)
    save(folder / "kept.json", KeptBuild(files={**kept.files, poison: kept.files["out/tool"]}))
    tree = built(tmp_path)
    assert times(tmp_path) == 2
    assert (tree / "bench" / "adds.py").read_text() == "honest"
    assert (tree / "source").read_text() == "of the tree"
    assert sorted(path.name for path in (tree / "bench").iterdir()) == ["adds.py"]
    assert not (tree / ".git").exists()
    assert not (tmp_path / "escaped").exists()
    assert not Path("/escaped").exists()


@pytest.mark.parametrize("outputs", [("*",), ("**/*.py",), ("bench/",)])
def test_not_even_a_wide_pattern_replaces_a_file_of_the_tree(outputs: tuple[str, ...], tmp_path: Path) -> None:
    """Where the settings declare everything, an entry still replaces no source."""
    command = ("sh", "-c", "printf x > bench/new.py; printf x > new; echo built >> ../count")
    built(tmp_path, command, outputs)
    folder = the_entry(tmp_path)
    (folder / "outputs" / "bench").mkdir(exist_ok=True)
    (folder / "outputs" / "bench" / "adds.py").write_text("x")
    kept = load(folder / "kept.json", KeptBuild)
    save(folder / "kept.json", KeptBuild(files=kept.files | {"bench/adds.py": next(iter(kept.files.values()))}))
    tree = built(tmp_path, command, outputs)
    assert times(tmp_path) == 2
    assert (tree / "bench" / "adds.py").read_text() == "honest"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["changed", "longer", "gone", "link", "folder", "mode", "pipe", "list", "rubbish"])
def test_an_entry_that_is_not_what_was_kept_is_built_again(damage: str, tmp_path: Path) -> None:
    """Every file is held against its digest. The build that follows begins with the tree as it was and makes the entry whole."""
    built(tmp_path)
    folder = the_entry(tmp_path)
    file = folder / "outputs" / "out" / "tool"
    if damage in ("changed", "longer"):
        file.write_text("z" if damage == "changed" else "xx")
    elif damage == "mode":
        file.chmod(0o644)
    elif damage == "list":
        (folder / "kept.json").unlink()
    elif damage == "rubbish":
        (folder / "kept.json").write_text("[" * 100_000)
    else:
        file.unlink()
    if damage == "link":
        file.symlink_to("/etc/passwd")
    elif damage == "folder":
        file.mkdir()
    elif damage == "pipe":
        os.mkfifo(file)
    tree = built(tmp_path)
    assert times(tmp_path) == 2
    assert (tree / "out" / "tool").read_text() == "x"
    built(tmp_path)
    assert times(tmp_path) == 2


def test_a_build_that_rewrites_a_source_is_not_kept(tmp_path: Path) -> None:
    """Restoring writes over nothing, so it could not give the same tree; neither could it for a link that leads out."""
    for command in ("printf x > out; printf y > source; echo built >> ../count", "ln -s /etc/passwd out; echo built >> ../count"):
        (tmp_path / "count").unlink(missing_ok=True)
        built(tmp_path, ("sh", "-c", command), ("out", "source"))
        built(tmp_path, ("sh", "-c", command), ("out", "source"))
        assert times(tmp_path) == 2


def test_a_folder_of_the_tree_that_leads_out_takes_nothing(tmp_path: Path) -> None:
    """Where the tree has a link in place of the folder, nothing is written through it."""
    built(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    tree = tmp_path / "other"
    tree.mkdir()
    (tree / "out").symlink_to(tmp_path / "elsewhere")
    assert not restore_kept(the_entry(tmp_path), tree, OUTPUTS)
    assert not list((tmp_path / "elsewhere").iterdir())
