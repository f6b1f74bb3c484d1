"""Machine code: ELF files, fat binaries, and whose library is whose. Compilers are used where they are installed; no GPU is."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet import nvcc
from ratchet.core.errors import CudaBuildError
from ratchet.identical.launches import code, elf
from ratchet.identical.launches.driver import NoIdentity

pytestmark = pytest.mark.no_cover

TEXT, NOBITS, INFO_LINK = 1, 8, 0x40

Part = tuple[str, int, int, bytes]
"""Name, type, flags and contents of a section."""
PARTS: list[Part] = [
    (".text.rows", TEXT, 6, b"\x01\x02\x03\x04" * 4),
    (".nv.constant0.rows", TEXT, INFO_LINK, b"\x05" * 8),
    (".debug_line", TEXT, 0, b"/tmp/reference/bench/kernels/rows.cu"),
    (".nv_debug_ptx_txt", TEXT, 0, b".loc 1 20 0"),
    (".rela.debug_line", 4, 0, b"\x06" * 24),
    (".note.nv.tkinfo", 7, 0, b"ptxas -lineinfo"),
]
VARIABLES = [("rows", 0x12, 1), ("table", 0x01, 7), ("$str", 0x01, 7), ("__cudart_i2opi_f", 0x01, 7)]
"""Name, info (binding and type) and number of section of each symbol."""


def image(parts: list[Part], symbols: list[tuple[str, int, int]] | None = None, flags: int = 90) -> bytes:
    """A small ELF file."""
    strings = bytearray(b"\0")
    rows, body = [struct.pack("<IIQQQQIIQQ", *[0] * 10)], bytearray()
    table = bytearray(24)
    for name, info, section in symbols or []:
        table += struct.pack("<IBBHQQ", len(strings), info, 0, section, 0, 32)
        strings += name.encode() + b"\0"
    extra = [(".symtab", 2, 0, bytes(table)), (".shstrtab", 3, 0, b"")]
    count = len(parts) + 3
    for name, kind, flag, data in [*parts, *extra]:
        at = len(strings)
        strings += name.encode() + b"\0"
        content = bytes(strings) if name == ".shstrtab" else data
        rows.append(struct.pack("<IIQQQQIIQQ", at, kind, flag, 0, 64 + len(body), len(content), count - 1, 1, 4, 0))
        body += b"" if kind == NOBITS else content
    header = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 2, 190, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, count, count - 1
    )
    return header + bytes(body) + b"".join(rows)


def test_sections_are_read() -> None:
    """Names, types and contents of all sections are found; one that takes no place in the file has no contents."""
    read = elf.Elf(image([*PARTS, (".nv.shared.rows", NOBITS, 3, b"\0" * 512)]))
    assert [each.name for each in read.sections] == [
        "", *(part[0] for part in PARTS), ".nv.shared.rows", ".symtab", ".shstrtab",
    ]  # fmt: skip
    assert read.data(read.sections[1]) == PARTS[0][3]
    assert (read.sections[7].size, read.data(read.sections[7])) == (512, b"")
    assert elf.kernels(read) == {"rows"}


def test_variables_are_found_and_the_compiler_s_are_not() -> None:
    """What a source declares in device memory is a variable; texts to print and tables of the mathematics library are not."""
    parts = [*PARTS, (".nv.global.init", TEXT, 3, b"\0" * 96)]
    assert elf.variables(elf.Elf(image(parts, VARIABLES))) == ("table",)
    assert elf.variables(elf.Elf(image(PARTS))) == ()


@pytest.mark.parametrize("index", range(2, len(PARTS)))
def test_lines_and_paths_are_not_code(index: int) -> None:
    """What a debugger reads, and the command that ran ptxas, do not count."""
    name, kind, flags, _ = PARTS[index]
    changed = [*PARTS[:index], (name, kind, flags, b"something else, longer"), *PARTS[index + 1 :]]
    assert elf.machine_code(image(changed)) == elf.machine_code(image(PARTS))


@given(st.integers(0, 15), st.integers(1, 255), st.integers(0, 1))
def test_every_byte_of_code_counts(at: int, flip: int, index: int) -> None:
    """A changed byte of code or of constants is another code."""
    name, kind, flags, data = PARTS[index]
    changed = bytearray(data)
    changed[at % len(data)] ^= flip
    parts = [*PARTS[:index], (name, kind, flags, bytes(changed)), *PARTS[index + 1 :]]
    assert elf.machine_code(image(parts)) != elf.machine_code(image(PARTS))


def test_all_else_counts() -> None:
    """So do the architecture, symbols, the order and size of sections, and sections that nobody knows."""
    swapped = [PARTS[1], PARTS[0], *PARTS[2:]]
    larger = [*PARTS, (".nv.shared.rows", NOBITS, 3, b"\0" * 512)]
    smaller = [*PARTS, (".nv.shared.rows", NOBITS, 3, b"\0" * 256)]
    unknown = [*PARTS, (".nv.future", TEXT, 0, b"")]
    images = [image(PARTS), image(PARTS, flags=80), image(PARTS, VARIABLES[:1])]
    images += [image(parts) for parts in (swapped, larger, smaller, unknown)]
    assert len({elf.machine_code(each) for each in images}) == len(images)


def test_names_without_paths() -> None:
    """Kernels of an anonymous namespace have equal code in two trees, though nvcc hashes the path into their names."""
    names = [f".text._ZN45_GLOBAL__N__{path}_12_normalize_cu_ce52c34b4rowsEv" for path in ("4aee4211", "0e25ba3e")]
    codes = {elf.machine_code(image([(name, *PARTS[0][1:])])) for name in names}
    assert len(codes) == 1


@given(st.binary(max_size=300), st.integers(0, 700))
def test_rubbish_is_no_elf(rubbish: bytes, cut: int) -> None:
    """Whatever the bytes, and wherever a file is cut off, the answer is NotElf or a reading of it."""
    for data in (rubbish, b"\x7fELF\x02\x01" + rubbish, image(PARTS)[:cut], image(PARTS)[:60] + rubbish):
        try:
            elf.machine_code(data)
            elf.variables(elf.Elf(data))
        except elf.NotElf:
            pass


def entry(kind: int, payload: bytes, architecture: int = 90) -> bytes:
    return struct.pack("<HHIQQHHI32x", kind, 0x101, 64, len(payload), 0, 8, 1, architecture) + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_fatbin() -> None:
    """Cubins are found with their architecture, PTX beside them is left aside, padding is skipped."""
    cubin = image(PARTS)
    found = elf.read(container(entry(2, cubin), entry(1, b".version 9.0")) + bytes(8) + container(entry(2, cubin, 100)))
    assert [each.architecture for each in found.cubins] == [90, 100]
    assert {each.image for each in found.cubins} == {cubin}
    assert not found.hidden


@pytest.mark.parametrize(
    "section",
    [
        container(entry(2, b"\x28\xb5\x2f\xfd")),
        b"rubbish, and long enough",
        container(entry(2, image(PARTS))[:-1]),
        container(b"short"),
    ],
    ids=["compressed", "rubbish", "cut", "short"],
)
def test_hidden_code(section: bytes) -> None:
    """What is compressed or not understood is said to be hidden."""
    assert elf.read(section).hidden


@given(st.binary(max_size=200))
def test_rubbish_is_no_fatbin(rubbish: bytes) -> None:
    """Whatever the bytes, reading them ends."""
    elf.read(rubbish)
    elf.read(container(rubbish))


def test_whose_file(tmp_path: Path) -> None:
    """The longest folder says whose a file is; what lies in no folder is one side's own."""
    roots = elf.Roots((Path("/usr"), tmp_path / "venv"), (tmp_path, Path("/usr/cache"), tmp_path / "venv" / "tree"))
    mine = {"venv/lib/libtorch.so": True, "kernel.so": False, "venv/tree/kernel.so": False}
    assert {name: roots.is_shared(tmp_path / name) for name in mine} == mine
    assert roots.is_shared(Path("/usr/lib/libcuda.so.1"))
    assert not roots.is_shared(Path("/usr/cache/kernel.so"))
    assert not roots.is_shared(Path("/srv/kernel.so"))


def test_roots_of_this_process(tmp_path: Path) -> None:
    """torch is the environment's wherever it is installed, the tree and the cache are one side's."""
    import torch

    from ratchet.core.cache import cache_root

    roots = elf.roots(tmp_path)
    assert roots.is_shared(Path(torch.__file__).resolve())
    assert not roots.is_shared(tmp_path / "bench" / "kernel.so")
    assert not roots.is_shared(cache_root() / "nvcc" / "key" / "kernel.so")


MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 fe:00 1    /opt/lib/libdata.so
7f0000001000-7f0000002000 r-xp 00001000 fe:00 2    /opt/lib/libcode.so
7f0000001000-7f0000002000 r-xp 00001000 fe:00 2    /opt/lib/libcode.so
7f0000002000-7f0000003000 r-xp 00000000 fe:00 3    /srv/a folder/kernel.so
7f0000003000-7f0000004000 r-xp 00000000 fe:00 4    /srv/old.so (deleted)
7f0000004000-7f0000005000 rwxs 00000000 00:01 5    /memfd:libffi (deleted)
7f0000005000-7f0000006000 r-xp 00000000 00:00 0    [vdso]
7f0000006000-7f0000007000 rwxp 00000000 00:00 0
"""


def test_executable_files() -> None:
    """Files with executable pages are listed once; libraries that are gone, apart; anything else, not."""
    there, gone = elf.executable(MAPS)
    assert there == [Path("/opt/lib/libcode.so"), Path("/srv/a folder/kernel.so")]
    assert gone == [Path("/srv/old.so")]


IMAGE = elf.Image(90, frozenset({"rows"}), "a", ("table",))


def test_code_of_a_library() -> None:
    """Every cubin that holds a kernel counts, in any library, and its variables with it."""
    other = elf.Image(80, frozenset({"rows"}), "b", ("more",))
    found = code.in_libraries("rows", [(IMAGE, other), (), (IMAGE,)], (9, 0))
    assert found == code.Code("library", ("a", "b"), ("more", "table"))


def test_namesakes_are_opaque() -> None:
    """Two kernels of a call with one name are known if each has one code only, and opaque where it might be either."""
    either, one = code.Code("library", ("a", "b")), code.Code("triton", ("a",))
    code.refuse_namesakes([("rows", either), ("columns", either), ("scale", one), ("scale", code.Code("triton", ("b",)))])
    with pytest.raises(NoIdentity, match="two of its kernels are called rows"):
        code.refuse_namesakes([("rows", either), ("rows", either)])


@pytest.mark.parametrize(
    ("architecture", "capability", "fits"),
    [(90, (9, 0), 1), (86, (8, 9), 1), (90, (10, 0), 0), (89, (8, 6), 0), (103, (10, 3), 1)],
)
def test_a_library_for_another_gpu_is_opaque(architecture: int, capability: tuple[int, int], fits: bool) -> None:
    """Where no cubin fits, the driver compiles PTX, which nobody compared."""
    images = [(elf.Image(architecture, frozenset({"rows"}), "a", ()),)]
    if fits:
        assert code.in_libraries("rows", images, capability).digests == ("a",)
    else:
        with pytest.raises(NoIdentity, match="no machine code for this GPU"):
            code.in_libraries("rows", images, capability)


def test_ptx_by_order_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver is told to compile PTX, machine code says nothing."""
    monkeypatch.setenv("CUDA_FORCE_PTX_JIT", "1")
    with pytest.raises(NoIdentity, match="CUDA_FORCE_PTX_JIT"):
        code.in_libraries("rows", [(IMAGE,)], (9, 0))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_", True),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", True),
        ("_ZN8cublasLt19splitKreduce_kernelILi32ELi16EiEEv", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64", True),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", True),
        ("_ZN7cutlass7Kernel2I66cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4EEvNT_6ParamsE", True),
        ("_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE", False),
        ("triton_poi_fused_add_0", False),
        ("cudnn_generated_fort_native_sdpa_sm90", False),
        ("gcd_kernel_vectorized4_kernel", False),
        ("rows", False),
    ],
)  # fmt: skip
def test_kernels_of_the_environment(name: str, known: bool, tmp_path: Path) -> None:
    """Kernels of torch and cuBLAS are known by their names; those compiled while a workload ran are opaque."""
    codes = code.Codes(tmp_path, (9, 0), lambda _: 0)
    if known:
        assert codes.of(1, name) == code.Code("environment")
    else:
        with pytest.raises(NoIdentity, match="was found nowhere"):
            codes.of(1, name)


def test_libraries_that_are_loaded_twice(tmp_path: Path) -> None:
    """Two copies of a library with code for a GPU are told; one alone, or a link to it, or a library without such code is not."""
    paths = [tmp_path / folder / name for folder in ("one", "two") for name in ("libcublas.so.13", "libm.so.6")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(image([(".nv_fatbin" if "cublas" in path.name else ".data", TEXT, 3, b"code")]))
    (tmp_path / "libcublas.so").symlink_to(paths[0])
    assert [told[0] for told in elf.ambiguous(paths)] == [str(paths[0]), str(paths[2])]
    assert elf.ambiguous([paths[0], tmp_path / "libcublas.so", paths[1]]) == []


SOURCE = """\
namespace {
__global__ void rows(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= FACTOR; }
}
extern "C" void go(float* x, int n) { rows<<<1, 32>>>(x, n); }
"""


def build(folder: Path, text: str, **more: object) -> elf.Library:
    folder.mkdir(parents=True)
    (folder / "rows.cu").write_text(text)
    try:
        return elf.library(nvcc.build(folder / "rows.cu", arch="sm_90", **more) / nvcc.LIBRARY)  # type: ignore[arg-type]
    except CudaBuildError as error:
        pytest.skip(error.message)


@pytest.mark.slow
def test_what_nvcc_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's code is the same for another path, comment or -O of the host's code; not for another macro or ptxas -O."""
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))
    two = {"FACTOR": 2}
    base = build(tmp_path / "a", SOURCE, macros=two)
    assert not base.hidden
    image = next(each for each in base.images if each.kernels)
    assert image.architecture == 90
    assert [elf.plain(name)[-9:] for name in image.kernels] == ["4rowsEPfi"]

    def code_of(library: elf.Library) -> set[str]:
        return {each.code for each in library.images}

    comment = build(tmp_path / "deeper" / "b", "// A comment.\n\n" + SOURCE, macros=two)
    assert image.kernels not in [each.kernels for each in comment.images]  # for nvcc hashes the path into the name
    assert code_of(comment) == code_of(base)
    assert code_of(build(tmp_path / "c", SOURCE, macros=two, flags=("-O1", "-lineinfo", "-std=c++17"))) == code_of(base)
    assert code_of(build(tmp_path / "d", SOURCE, macros={"FACTOR": 3})) != code_of(base)
    assert code_of(build(tmp_path / "e", SOURCE, macros=two, flags=(*nvcc.FLAGS, "-Xptxas", "-O1"))) != code_of(base)


def test_variables_that_nvcc_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in constant memory is found, so that its contents are compared too."""
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))
    text = "__constant__ float table[8];\n" + SOURCE.replace("FACTOR", "table[n & 7]")
    assert [each.variables for each in build(tmp_path / "a", text).images if each.kernels] == [("table",)]


def test_compressed_code_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that compresses its code is opaque, and the reason says how to build it."""
    monkeypatch.setenv("RATCHET_CACHE_DIR", str(tmp_path / "cache"))
    flags = (*nvcc.FLAGS, "-compress-mode=size")
    monkeypatch.setattr(nvcc, "FIXED_FLAGS", tuple(flag for flag in nvcc.FIXED_FLAGS if flag != "-no-compress"))
    text = SOURCE.replace("FACTOR", "2").replace("namespace", 'extern "C"')
    assert build(tmp_path / "a", text, flags=flags).hidden
    found = next((tmp_path / "cache" / "nvcc").glob(f"*/{nvcc.LIBRARY}"))
    with pytest.raises(NoIdentity, match="build it with nvcc -no-compress"):
        code.refuse_hidden(found, "rows")
    code.refuse_hidden(found, "ows")


KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor * 3.0, mask=at < n)
"""


def cubin(path: Path, text: str, block: int = 256) -> bytes:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    path.parent.mkdir(parents=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("scale_of_a_tree", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"}
    source = ASTSource(fn=module.scale, signature=signature, constexprs={"BLOCK": block})
    return bytes(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_triton_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path and a comment do not change a Triton kernel's code, though its cubin differs; a constant or a tile does."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    base = cubin(tmp_path / "a" / "kernel.py", KERNEL)
    comment = cubin(tmp_path / "deeper" / "b" / "kernel.py", "# A comment.\n\n" + KERNEL)
    assert comment != base
    assert elf.machine_code(comment) == elf.machine_code(base)
    assert elf.variables(elf.Elf(base)) == ()
    assert elf.machine_code(cubin(tmp_path / "c" / "kernel.py", KERNEL.replace("3.0", "5.0"))) != elf.machine_code(base)
    assert elf.machine_code(cubin(tmp_path / "d" / "kernel.py", KERNEL, block=512)) != elf.machine_code(base)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_triton_kernels_are_found(tmp_path: Path) -> None:
    """A kernel that Triton has loaded is known by the driver's handle or by module and name, never by its name alone."""
    pytest.importorskip("triton")
    from triton.compiler.compiler import AsmDict, CompiledKernel

    def loaded(module: int, function: int, name: str, parts: list[Part]) -> CompiledKernel:
        kernel = CompiledKernel.__new__(CompiledKernel)
        kernel.function, kernel.name, kernel.asm = function, name, AsmDict(cubin=image(parts), ptx="")
        kernel.module, kernel._module_pid = module, None  # so that nobody unloads it
        return kernel

    kept = [loaded(1, 0x51, "rows", PARTS), loaded(2, 0x52, "rows", PARTS[1:])]
    try:
        digests = [elf.machine_code(each.asm["cubin"]) for each in kept]
        codes = code.Codes(tmp_path, (9, 0), {0x61: 1, 0x62: 2, 0x63: 3}.__getitem__)
        assert codes.of(0x51, "any") == code.Code("triton", (digests[0],), size=16)
        assert codes.of(0x62, "rows") == code.Code("triton", (digests[1],))
        for function, name in ((0x63, "rows"), (0x62, "columns")):
            with pytest.raises(NoIdentity, match=r"was found nowhere|hides the code"):  # libtriton.so of 3.6 could hold it
                codes.of(function, name)
    finally:
        for each in kept:
            each.module = None
