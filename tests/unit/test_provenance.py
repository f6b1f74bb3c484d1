"""Whose code ran."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ratchet
from ratchet.core.bench.child.loader import own_names
from ratchet.core.bench.child.reads import Provenance, ReadWatch, foreign_libraries, foreign_modules, path_resolver


@pytest.fixture(autouse=True)
def _no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit hook would stay in this process for ever."""
    monkeypatch.setattr(ReadWatch, "start", lambda _: None)


def module(name: str, file: Path | str | None) -> ModuleType:
    made = ModuleType(name)
    if file is not None:
        made.__file__ = str(file)
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with packages of several kinds."""
    for name in (
        "flat.py",
        "package/__init__.py",
        "package/sub/__init__.py",
        "namespace/inner/__init__.py",
        "folder/part.py",
        "_native.cpython-311-x86_64-linux-gnu.so",
        "setup.py",
        "conftest.py",
        "ratchet/__init__.py",
        "json.py",
        "src/hidden/__init__.py",
        "docs/readme.md",
    ):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "tree"


def test_own_names(tree: Path) -> None:
    """A tree offers its modules, packages, namespace packages and extensions; not the harness, nor what shadows Python's own."""
    assert own_names(tree, [".", "missing"]) == {"flat", "package", "namespace", "folder", "_native", "src"}
    assert own_names(tree, ["src"]) == {"hidden"}


def test_foreign_modules(tree: Path, tmp_path: Path) -> None:
    """Foreign is what has a name of the tree, or lies in the user's checkout, and was loaded from outside the tree."""
    checkout, site = tmp_path / "checkout", tmp_path / "lib" / "site-packages"
    modules = {
        "package": module("package", tree / "package/__init__.py"),
        "package.sub": module("package.sub", site / "package/sub/__init__.py"),
        "packages": module("packages", site / "packages.py"),
        "numpy": module("numpy", site / "numpy/__init__.py"),
        "helper": module("helper", checkout / "tools/helper.py"),
        "inside": module("inside", checkout / ".venv/lib/site-packages/inside.py"),
        "ratchet": module("ratchet", ratchet.__file__),
        "builtin": module("builtin", None),
        "gone": None,
    }
    assert foreign_modules(tree, checkout, frozenset({"package"}), modules, path_resolver()) == [
        f"helper ({checkout / 'tools/helper.py'})",
        f"package.sub ({site / 'package/sub/__init__.py'})",
    ]


def test_a_link_into_the_tree(tree: Path, tmp_path: Path) -> None:
    """A module reached through a link belongs to where it really lies."""
    link = tmp_path / "link"
    link.symlink_to(tree / "package")
    linked = {"package": module("package", link / "__init__.py")}
    assert foreign_modules(tree.resolve(), tmp_path / "checkout", frozenset({"package"}), linked, path_resolver()) == []


def test_each_module_is_asked_once(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is reported when it is first seen, and not again."""
    provenance = Provenance(tree, tmp_path / "checkout", frozenset({"odd_name_of_a_module"}))
    assert provenance.foreign() == []
    monkeypatch.setitem(sys.modules, "odd_name_of_a_module", module("odd_name_of_a_module", tmp_path / "elsewhere.py"))
    assert provenance.foreign() == [f"loaded odd_name_of_a_module ({tmp_path / 'elsewhere.py'}) instead of its own copy"]
    assert provenance.foreign() == []


def test_foreign_libraries(tree: Path, tmp_path: Path) -> None:
    """Foreign is what is mapped as code from the checkout; its environments and caches are not, nor are the tree's libraries."""
    checkout = tmp_path / "checkout"
    (checkout / "env").mkdir(parents=True)
    (checkout / "env" / "pyvenv.cfg").touch()
    code = ["build/a b.so", "env/lib/libpython3.so", ".cache/triton/x.so", "lib/site-packages/torch/lib/c.so"]
    lines = [f"7f0000-7f1000 r-xp 00000000 08:01 42                         {checkout / name}" for name in code]
    lines += [f"7f0000-7f1000 r-xp 00000000 08:01 42 {tree / 'build/own.so'}", "7f0000-7f1000 r-xp 00000000 00:00 0"]
    lines += [f"7f0000-7f1000 r--p 00000000 08:01 42 {checkout / 'data.bin'}", "7f0000-7f1000 r-xp 00000000 00:00 0 [vdso]"]
    assert foreign_libraries(tree, checkout, "\n".join(lines)) == [f"a b.so ({checkout / 'build/a b.so'})"]
    assert foreign_libraries(checkout, checkout, "\n".join(lines)) == []


def test_data_that_is_mapped_from_the_checkout(tree: Path, tmp_path: Path) -> None:
    """A file that is mapped into memory counts as one that was read, whoever mapped it."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (tree / "weights.bin").write_bytes(b"1")
    (checkout / "weights.bin").write_bytes(b"2")
    provenance = Provenance(tree, checkout, frozenset())
    with (checkout / "weights.bin").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        taken = f"reads weights.bin ({checkout / 'weights.bin'}) instead of its own copy"
        assert [each for each in provenance.foreign() if "weights" in each] == [taken]


@pytest.mark.parametrize("variable", ["TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"])
def test_a_cache_in_the_checkout_is_shared(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Compilers keep modules and libraries by content where a variable says, as a job does that keeps its workspace's folder."""
    checkout = tmp_path / "checkout"
    library, source = checkout / "caches" / "0123" / "launcher.so", checkout / "caches" / "01" / "code.py"
    maps, modules = f"7f0000-7f1000 r-xp 00000000 08:01 42 {library}", {"code": module("code", source)}
    assert foreign_libraries(tree, checkout, maps) == [f"launcher.so ({library})"]
    assert foreign_modules(tree, checkout, frozenset(), modules, path_resolver()) == [f"code ({source})"]
    for folder in (tmp_path, checkout):  # a cache around the checkout says nothing about what is in it
        monkeypatch.setenv(variable, str(folder))
        assert foreign_libraries(tree, checkout, maps)
        assert foreign_modules(tree, checkout, frozenset(), modules, path_resolver())
    monkeypatch.setenv(variable, str(checkout / "caches"))
    assert foreign_libraries(tree, checkout, maps) == []
    assert foreign_modules(tree, checkout, frozenset(), modules, path_resolver()) == []


def test_the_interpreter_and_the_temporary_folder_may_lie_in_the_checkout(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that was unpacked there has no mark of an environment, and compilers keep what they make in TMPDIR."""
    checkout = tmp_path / "checkout"
    for name in ("python/lib/libpython3.12.so.1.0", "tmp/torchinductor_me/triton/0/AB/cuda_utils.so"):
        maps = f"7f0000-7f1000 r-xp 00000000 08:01 42 {checkout / name}"
        assert foreign_libraries(tree, checkout, maps)
        with monkeypatch.context() as patched:
            patched.setattr("sys.base_prefix", str(checkout / "python"))
            patched.setattr("tempfile.tempdir", str(checkout / "tmp"))
            assert foreign_libraries(tree, checkout, maps) == []
