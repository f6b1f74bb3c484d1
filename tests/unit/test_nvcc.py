"""The CUDA C++ cache: most tests use a stand-in compiler, which writes a file and counts its calls."""

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet import nvcc
from ratchet.core.cache import cache_root
from ratchet.core.errors import CudaBuildError, Exit

pytestmark = pytest.mark.no_cover

STAND_IN = """#!{python} -S
import subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    print("Cuda compilation tools, release {version}")
    sys.exit()
with open("{calls}", "a") as calls:
    calls.write("called\\n")
time.sleep({seconds})
with open(sys.argv[sys.argv.index("-o") + 1], "w") as library:
    library.write("no library")
"""

SOURCE = """
#include <cuda_runtime.h>
__global__ void fill(float* out) { out[threadIdx.x + blockIdx.x * BLOCK] = 1.0f; }
extern "C" int block() { return BLOCK; }
"""


class StandIn:
    """A compiler named by $CUDACXX."""

    def __init__(self, folder: Path, version: str = "13.0", seconds: float = 0.0) -> None:
        folder.mkdir()
        self.program = folder / "nvcc"
        self.log = folder / "calls"
        self.program.write_text(STAND_IN.format(python=sys.executable, version=version, calls=self.log, seconds=seconds))
        self.program.chmod(0o755)

    @property
    def calls(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("CUDACXX", "CUDA_HOME", *nvcc.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    compiler = StandIn(tmp_path / "bin")
    monkeypatch.setenv("CUDACXX", str(compiler.program))
    return compiler


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tree" / "kernel.cu"
    path.parent.mkdir()
    path.write_text('#include "tile.cuh"\n')
    (path.parent / "tile.cuh").write_text('  # include "deep/more.cuh"\n')
    (path.parent / "deep").mkdir()
    (path.parent / "deep" / "more.cuh").write_text("// nothing\n")
    return path


@pytest.fixture
def real_nvcc() -> None:
    try:
        nvcc.find_nvcc()
    except CudaBuildError as error:
        pytest.skip(error.message)


def test_second_build_is_found(stand_in: StandIn, source: Path, cache: Path) -> None:
    """What was built once is found again, under the cache root, without calling the compiler."""
    first = nvcc.build(source, arch="sm_90")
    assert first == nvcc.build(str(source), arch="sm_90")
    assert first.parent == cache / "nvcc"
    assert stand_in.calls == 1


def test_key_covers_what_shapes_the_code(
    stand_in: StandIn, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another source, header, header of a header, macro, flag, architecture, environment or compiler: another folder."""
    found = [nvcc.build(source, arch="sm_90")]
    found.append(nvcc.build(source, arch="sm_80"))
    found.append(nvcc.build(source, arch="sm_90", macros={"BLOCK": 128}))
    found.append(nvcc.build(source, arch="sm_90", macros={"BLOCK": 256}))
    found.append(nvcc.build(source, arch="sm_90", flags=("-O1",)))
    for name in ("kernel.cu", "tile.cuh", "deep/more.cuh"):
        path = source.parent / name
        path.write_text(path.read_text() + "// changed\n")
        found.append(nvcc.build(source, arch="sm_90"))
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-use_fast_math")
    found.append(nvcc.build(source, arch="sm_90"))
    newer = StandIn(tmp_path / "newer", version="13.1")
    monkeypatch.setenv("CUDACXX", str(newer.program))
    found.append(nvcc.build(source, arch="sm_90"))
    assert len(set(found)) == len(found)


def test_key_is_the_same_in_another_tree(stand_in: StandIn, source: Path, tmp_path: Path) -> None:
    """Equal sources in two trees share one build, whatever the order of the macros."""
    twin = tmp_path / "other tree"
    source.parent.rename(twin)
    first = nvcc.build(twin / "kernel.cu", arch="sm_90", macros={"A": 1, "B": 2})
    twin.rename(source.parent)
    assert nvcc.build(source, arch="sm_90", macros={"B": 2, "A": 1}) == first
    assert stand_in.calls == 1


def test_headers_in_named_folders_count(source: Path, tmp_path: Path) -> None:
    """A header in a folder of -I counts as well, and one that is nowhere is left to the compiler."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "common.cuh").write_text("")
    source.write_text('#include "common.cuh"\n#include "nowhere.h"\n#include <cuda_runtime.h>\n')
    assert set(nvcc.read_sources(source, [f"-I{shared}"])) == {source, shared / "common.cuh"}


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("#include <common.cuh>\n", ["-I{folder}"]),
        ("#include <common.cuh>\n", ["-O3", "-I", "{folder}"]),
        ('#include "common.cuh"\n', ["--include-path={folder}"]),
        ('#include "common.cuh"\n', ["-isystem", "{folder}"]),
        ("#include <common.cuh>\n", ["-I/nowhere,{folder}"]),
        ("", ["-include", "{folder}/common.cuh"]),
        ("", ["-I{folder}", "--pre-include=common.cuh"]),
    ],
)
def test_a_header_counts_however_it_is_included(
    stand_in: StandIn, source: Path, tmp_path: Path, text: str, flags: list[str]
) -> None:
    """A library is built again when a header of a named folder changed, in brackets or quotes, or included by a flag."""
    header = tmp_path / "shared" / "common.cuh"
    header.parent.mkdir()
    source.write_text(text)
    for tile in (1, 2):
        header.write_text(f"#define TILE {tile}\n")
        nvcc.build(source, arch="sm_90", flags=[flag.format(folder=header.parent) for flag in flags])
    assert stand_in.calls == 2


def test_headers_that_include_each_other_end(source: Path) -> None:
    """Headers that include each other are read once each."""
    (source.parent / "tile.cuh").write_text('#include "kernel.cu"\n')
    assert len(nvcc.read_sources(source)) == 2


def test_sources_and_command_are_kept(stand_in: StandIn, source: Path) -> None:
    """Beside the library lie its log, its command and all that it was made of."""
    folder = nvcc.build(source, arch="sm_90", macros={"BLOCK": 64})
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert kept == {
        "kernel.so", "build.log", "command.json", "sources/kernel.cu", "sources/tile.cuh", "sources/deep/more.cuh"
    }  # fmt: skip
    assert "-DBLOCK=64" in (folder / "command.json").read_text()
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".building")] == []


def test_two_processes_build_once(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes that want the same library at once, one builds it and the other waits."""
    slow = StandIn(tmp_path / "slow", seconds=1.0)
    monkeypatch.setenv("CUDACXX", str(slow.program))
    code = "import sys; from ratchet import nvcc; print(nvcc.build(sys.argv[1], arch='sm_90'))"
    root = Path(nvcc.__file__).parents[1]
    command = [sys.executable, "-c", code, str(source)]
    with (
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as two,
    ):
        folders = {process.communicate(timeout=300)[0].strip() for process in (one, two)}
    assert one.returncode == two.returncode == 0
    assert len(folders) == 1
    assert slow.calls == 1


def test_damaged_folder_is_built_again(stand_in: StandIn, source: Path) -> None:
    """A cache folder without its library is replaced."""
    folder = nvcc.build(source, arch="sm_90")
    (folder / nvcc.LIBRARY).unlink()
    assert (nvcc.build(source, arch="sm_90") / nvcc.LIBRARY).is_file()


def test_library_that_does_not_load(stand_in: StandIn, source: Path) -> None:
    """A library that cannot be loaded is a sentence that names the folder to delete."""
    with pytest.raises(CudaBuildError, match=r"cannot be loaded.*Delete"):
        nvcc.load(source, arch="sm_90")


def test_timeout(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not end in time is ended, leaves nothing behind, and is a sentence."""
    endless = StandIn(tmp_path / "endless", seconds=600)
    monkeypatch.setenv("CUDACXX", str(endless.program))
    with pytest.raises(CudaBuildError, match=r"nvcc took longer than 0\.5 s over kernel\.cu"):
        nvcc.build(source, arch="sm_90", timeout_s=0.5)
    assert [path.suffix for path in (cache_root() / "nvcc").iterdir()] in ([], [".lock"])


def test_missing_nvcc(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no nvcc, one sentence says so and a second says what to do; the exit code is 'could not measure'."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(nvcc, "STANDARD_PLACES", ())
    with pytest.raises(CudaBuildError) as caught:
        nvcc.load(source, arch="sm_90")
    assert str(caught.value) == (
        "nvcc was not found, and a benchmark written in CUDA C++ needs it. "
        "Install the CUDA toolkit, or set CUDA_HOME or CUDACXX to where it is."
    )
    assert caught.value.exit_code is Exit.NOT_MEASURED


def test_nvcc_is_looked_for_in_order(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$CUDACXX comes before $CUDA_HOME/bin, this before the PATH; a $CUDACXX that is no program is an error."""
    home = StandIn(tmp_path / "home")
    (tmp_path / "home" / "bin").mkdir()
    home.program.rename(tmp_path / "home" / "bin" / "nvcc")
    on_path = StandIn(tmp_path / "path")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert nvcc.find_nvcc() == stand_in.program
    monkeypatch.delenv("CUDACXX")
    assert nvcc.find_nvcc() == tmp_path / "home" / "bin" / "nvcc"
    monkeypatch.delenv("CUDA_HOME")
    assert nvcc.find_nvcc() == on_path.program
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    with pytest.raises(CudaBuildError, match="CUDACXX names /nowhere/nvcc"):
        nvcc.find_nvcc()


def test_missing_source(stand_in: StandIn, tmp_path: Path) -> None:
    """A source that is not there is a sentence with its path."""
    with pytest.raises(CudaBuildError, match=r"absent\.cu cannot be read"):
        nvcc.build(tmp_path / "absent.cu", arch="sm_90")


def test_cache_that_cannot_be_written(stand_in: StandIn, source: Path, cache: Path) -> None:
    """A cache root that is a file is a sentence that names RATCHET_CACHE_DIR."""
    cache.write_text("")
    with pytest.raises(CudaBuildError, match="RATCHET_CACHE_DIR"):
        nvcc.build(source, arch="sm_90")


def test_cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RATCHET_CACHE_DIR, then an absolute XDG_CACHE_HOME, then ~/.cache; always absolute."""
    monkeypatch.setenv("RATCHET_CACHE_DIR", "here")
    assert cache_root() == Path.cwd() / "here"
    monkeypatch.delenv("RATCHET_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "ratchet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "ratchet"


def test_torch_stays_out() -> None:
    """Importing the module does not import torch."""
    code = "import sys, ratchet.nvcc; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(nvcc.__file__).parents[1], check=True)


@pytest.mark.slow
def test_real_source_loads(real_nvcc: None, tmp_path: Path) -> None:
    """A real source compiles, its functions are called, and ptxas's counts are kept."""
    source = tmp_path / "real.cu"
    source.write_text(SOURCE)
    assert nvcc.load(source, macros={"BLOCK": 128}, arch="sm_90").block() == 128
    assert nvcc.load(source, macros={"BLOCK": 256}, arch="sm_90").block() == 256
    assert "registers" in (nvcc.build(source, macros={"BLOCK": 128}, arch="sm_90") / "build.log").read_text()


def test_rejected_source(real_nvcc: None, tmp_path: Path) -> None:
    """A source that nvcc rejects is a sentence with the line and the reason, and the whole output is kept."""
    source = tmp_path / "wrong.cu"
    source.write_text("__global__ void kernel() {}\nint wrong() { return undeclared; }\n")
    with pytest.raises(CudaBuildError) as caught:
        nvcc.build(source, arch="sm_90")
    assert 'wrong.cu(2): error: identifier "undeclared" is undefined' in caught.value.message
    assert caught.value.message.startswith("nvcc rejected wrong.cu: ")
    kept = Path(caught.value.hint.removeprefix("Its whole output is in ").removesuffix("."))
    assert "undeclared" in kept.read_text()
