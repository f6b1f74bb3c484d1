"""What a process takes from the user's checkout in place of its tree, by the mechanisms that Python has for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ratchet.core.bench.child import reads
from ratchet.core.bench.child.reads import installed_copies, path_resolver, shared_files

pytestmark = pytest.mark.no_cover

PROGRAM = """\
import json, sys
from pathlib import Path
from ratchet.core.bench.child.reads import ReadWatch, missing_builds, path_resolver, taken_from_checkout

tree, checkout = Path.cwd() / "tree", Path.cwd() / "checkout"
watch = ReadWatch()
watch.start()
{does}
real_path = path_resolver()
print(json.dumps(taken_from_checkout(tree, checkout, watch, real_path) + missing_builds(tree, checkout, watch, real_path)))
"""


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    """A checkout, and a tree of which some files are other ones."""
    for name, text in {
        "checkout/same.txt": "1",
        "tree/same.txt": "1",
        "checkout/config.txt": "1",
        "tree/config.txt": "2",
        "checkout/ops.py": "DELAY = 1\n",
        "tree/ops.py": "DELAY = 2\n",
        "checkout/data.bin": "not in git",
        "checkout/build/tool": "#!/bin/sh\n",
        "checkout/.venv/bin/tool": "#!/bin/sh\n",
        "checkout/kernel.cubin": "not in git",
        "checkout/acme/_fast.abi3.so": "built in place, not in git",
        "checkout/acme/libfast.so": "",
        "tree/acme/__init__.py": "",
        "tree/empty.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "tree/link.txt").symlink_to(tmp_path / "checkout/config.txt")
    return tmp_path


def seen(sides: Path, does: str) -> list[str]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM.replace("{does}", does)]
    done = subprocess.run(command, cwd=sides, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return [each.replace(f"{sides}/", "") for each in found]


IMPORTED = "import importlib.util as u\nspec = u.spec_from_file_location('x', checkout / 'ops.py')\n"
COPY = "instead of its own copy"
FAST = "which lies in your checkout and not in git"


@pytest.mark.parametrize(
    ("does", "taken"),
    [
        ("(checkout / 'config.txt').read_text()", f"reads config.txt (checkout/config.txt) {COPY}"),
        ("import os\nos.open(checkout / 'config.txt', os.O_RDONLY)", f"reads config.txt (checkout/config.txt) {COPY}"),
        ("(tree / 'link.txt').read_text()", f"reads config.txt (checkout/config.txt) {COPY}"),
        (IMPORTED + "spec.loader.exec_module(u.module_from_spec(spec))", f"reads ops.py (checkout/ops.py) {COPY}"),
        ("(checkout / 'kernel.cubin').read_bytes()", f"reads kernel.cubin (checkout/kernel.cubin) {COPY}"),
        ("import subprocess\nsubprocess.run([checkout / 'build/tool'])", f"runs tool (checkout/build/tool) {COPY}"),
        ("import subprocess\nsubprocess.run(['cat', str(checkout / 'ops.py')])", f"reads ops.py (checkout/ops.py) {COPY}"),
        (
            "sys.path.insert(0, str(tree))\ntry:\n    import acme._fast\nexcept ImportError:\n    pass",
            f"finds no acme/_fast.abi3.so, {FAST} (checkout/acme/_fast.abi3.so)",
        ),
        (
            "import ctypes\ntry:\n    ctypes.CDLL(tree / 'acme/libfast.so')\nexcept OSError:\n    pass",
            f"finds no acme/libfast.so, {FAST} (checkout/acme/libfast.so)",
        ),
    ],
)
def test_what_is_taken_from_the_checkout_is_seen(sides: Path, does: str, taken: str) -> None:
    """A file that is another one in the tree, what a compiler made, and what is looked for and built in the checkout alone."""
    assert seen(sides, does) == [taken]


@pytest.mark.parametrize(
    "does",
    [
        "(checkout / 'same.txt').read_text()",
        "(checkout / 'data.bin').read_text()",
        "(tree / 'config.txt').read_text()",
        "import subprocess\nsubprocess.run([checkout / '.venv/bin/tool'])",
        "import subprocess\nsubprocess.run([sys.executable, '-c', 'pass # ' + '/x' * 5000])",
        "try:\n    open('a\\0b')\nexcept ValueError:\n    pass",
        "try:\n    import acme_of_nobody\nexcept ImportError:\n    pass",
        "sys.path.insert(0, str(tree))\ntry:\n    import acme._absent\nexcept ImportError:\n    pass",
        "sys.path.insert(0, str(tree))\nimport empty, acme",
    ],
)
def test_honest_reading_is_left_alone(sides: Path, does: str) -> None:
    """Equal files, data that git does not hold, environments, and optional modules that nobody has built are no trouble."""
    assert seen(sides, does) == []


def test_the_harness_may_lie_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this repository checks itself, its own sources are read from the checkout; other files of it still count."""
    tree, checkout = tmp_path / "tree", tmp_path / "checkout"
    for root in (tree, checkout):
        for name in ("ratchet", "bench"):
            (root / name).mkdir(parents=True)
            (root / name / "a.py").write_text(root.name)
    monkeypatch.setattr(reads, "HARNESS_FOLDER", f"{checkout / 'ratchet'}/")
    watch = reads.ReadWatch()
    watch.opened |= {str(checkout / name / "a.py") for name in ("ratchet", "bench")}
    assert reads.taken_from_checkout(tree, checkout, watch, path_resolver()) == [
        f"reads a.py ({checkout}/bench/a.py) instead of its own copy"
    ]


def test_what_was_installed_from_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed copies are those of a folder of the repository, and those under its project's name; of no other package.

    Another package whose file about its origin is broken does not matter.
    """
    site, tree, checkout = tmp_path / "site-packages", tmp_path / "trees/head", tmp_path / "checkout"
    packages = {
        "from_folder": f"file://{checkout}/csrc",
        "from_tree": f"file://{tmp_path}/trees/base",
        "Acme_Kernels": "",
        "other": f"file://{tmp_path}/elsewhere",
        "released": "",
    }
    for name, url in packages.items():
        about = site / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (about / "RECORD").write_text(f"{name}_cuda.so,,\n{name}/__init__.py,,\n{name}-1.0.dist-info/METADATA,,\n")
        if url:
            (about / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": name == "from_tree"}}))
    (site / "released-1.0.dist-info/direct_url.json").write_text('{"url": ')
    tree.mkdir(parents=True)
    (tree / "pyproject.toml").write_text("[project]\nname = 'acme-kernels'\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    expected = {"from_folder_cuda.so", "from_folder/__init__.py", "from_tree_cuda.so"}
    expected |= {"Acme_Kernels_cuda.so", "Acme_Kernels/__init__.py"}
    assert installed_copies(tree, checkout, [tree]) == {str(site / name) for name in expected}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A tree that git has checked out, and files outside that were written since, but for one."""
    (tmp_path / "trees/head/.git/objects/info").mkdir(parents=True)
    old = tmp_path / "cache/old.json"
    old.parent.mkdir()
    old.touch()
    time.sleep(0.02)
    (tmp_path / "trees/head/.git/objects/info/alternates").touch()
    (tmp_path / "trees/head/csrc").mkdir()
    (tmp_path / "trees/head/csrc/native.cpp").touch()
    for name in ("tuned.json", "4f0c2ab991d3/module.so", "UPGAPTMZMFV3EGGMV6HVFPLN2RUA3CTMXL5AEBCFOTJTWDK6LQCA/cuda_utils.so",
                 "libnative.so", "other.so", "held.lock", "lib/site-packages/a.so"):  # fmt: skip
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_files_that_one_side_may_have_made_for_both(shared: Path) -> None:
    """Libraries of a source's name, and fresh files under a name; not what goes by content, is older, installed or the tree's."""
    cache = shared / "cache"
    mapped = [*cache.rglob("*.so"), shared / "trees/head/build/own.so", Path("/usr/lib/libc.so.6")]
    maps = "\n".join(f"7f0000-7f1000 r-xp 00000000 08:01 42 {path}" for path in mapped)
    names = [str(path) for path in (*cache.glob("*.*"), cache / "gone.py")]
    built, fresh = shared_files(shared / "trees/head", names, maps, path_resolver())
    assert built == {str(cache / "libnative.so")}
    assert fresh == {str(cache / "tuned.json"), str(cache / "other.so")}
    (shared / "trees/head/.git/objects/info/alternates").unlink()
    assert shared_files(shared / "trees/head", names, maps, path_resolver()) == (set(), set())
