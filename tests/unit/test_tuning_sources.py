"""Which files a case's times are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.tune.subject import sources_of

pytestmark = pytest.mark.no_cover

FILES = {
    "bench/case.py": """\
        import torch
        from ratchet import Workload
        from bench.kernels.native import load

        def build():
            import package.deep.inner as inner
            from package import sibling
        """,
    "bench/kernels/native.py": 'SOURCE = "kernels/add.cu"\n',
    "bench/kernels/add.cu": '#include "shared.cuh"\n',
    "bench/kernels/shared.cuh": "// shared\n",
    "bench/kernels/other.cu": "// other\n",
    "bench/other.py": "X = 1\n",
    "src/package/__init__.py": "from .always import *\n",
    "src/package/always.py": "",
    "src/package/sibling.py": "from . import built\n",
    "src/package/built.cpython-312-x86_64-linux-gnu.so": "machine code",
    "src/package/deep/inner.py": "from ..above import thing\n",
    "src/package/above.py": "thing = 1\n",
    "src/package/unused.py": "",
    "ratchet/__init__.py": "",
    "torch.md": "",
    "README.md": "",
    ".venv/add.cu": "",
    "env/pyvenv.cfg": "",
    "env/add.cu": "",
}
CODE = {
    "bench/case.py",
    "bench/kernels/native.py",
    "bench/kernels/add.cu",
    "bench/kernels/shared.cuh",
    "src/package/__init__.py",
    "src/package/always.py",
    "src/package/sibling.py",
    "src/package/built.cpython-312-x86_64-linux-gnu.so",
    "src/package/deep/inner.py",
    "src/package/above.py",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in text.splitlines()) + "\n")
    return tmp_path


def sources(tree: Path) -> dict[str, str]:
    return sources_of(tree, "bench", (".", "src"), "case.py")


def test_what_belongs_to_a_case(tree: Path) -> None:
    """Its file, what that imports from the tree at any depth, kernels that these name, and their headers; nothing else."""
    assert list(sources(tree)) == sorted(CODE)


@pytest.mark.parametrize("name", sorted(FILES))
def test_an_edit_changes_the_digest_of_that_file_alone(tree: Path, name: str) -> None:
    """An edit shows if, and only if, the file belongs to the case."""
    before = sources(tree)
    (tree / name).write_text((tree / name).read_text() + "# 1\n")
    changed = {path for path, digest in sources(tree).items() if before[path] != digest}
    assert changed == ({name} & CODE)


def test_a_file_that_is_no_python(tree: Path) -> None:
    """What cannot be parsed still counts, and imports nothing."""
    (tree / "bench/case.py").write_text("def (")
    assert list(sources(tree)) == ["bench/case.py"]


def test_this_repository() -> None:
    """The kernels of our own benchmarks belong to their cases: Triton's by an import, CUDA C++ by its name."""
    root = Path(__file__).parents[2]
    assert set(sources_of(root, "bench", (".", "src"), "attention.py")) == {
        "bench/attention.py",
        "bench/kernels/attention_triton.py",
    }
    assert set(sources_of(root, "bench", (".", "src"), "normalize.py")) == {
        "bench/kernels/normalize.cu",
        "bench/kernels/normalize_original.cu",
        "bench/normalize.py",
    }
