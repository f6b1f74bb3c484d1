"""Find the machine code of each launched kernel: Triton's, that of a library which nvcc built, or one of torch and NVIDIA.

`identity.of` uses `Codes` in the worker. It reads /proc/self/maps, the files of loaded libraries, and Triton's live objects.

A kernel whose code is found nowhere makes a workload opaque: one that NVRTC compiled while it ran, or that the driver loaded
from a file. (A loaded libnvrtc says nothing: torch loads it when it is imported.) Host code is not compared: its launches
are in the list of launches.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.identical.launches import elf
from ratchet.identical.launches.driver import NoIdentity
from ratchet.identical.runtime import COMPILED_KERNEL, living

_ENVIRONMENT = re.compile(
    r"_ZN(2at|3c10|14at_cuda_detail|13pytorch_flash)\d"  # torch: at::native::…
    r"|_ZN(8cublasLt|6cublas|5cudnn)\d|_ZN7cutlass7Kernel2?I\d+cutlass_\d"  # cuBLAS and cuDNN, as C++ …
    r"|nvjet_|cutlass_\d+_|(maxwell|volta|turing|ampere|hopper|sm\d+)_"  # … and otherwise
)
"""Names of kernels in libraries of the environment, which both sides share. Code of these names that one side built itself
is looked for first; what is in neither is opaque."""

_TRITONS_HOST_CODE = re.compile(r"(__triton_launcher|cuda_utils)\.")
"""Libraries that Triton compiles into its cache and that hold no kernel. Of two processes that do so at once, the second replaces
the file that the first has loaded."""


@dataclass(frozen=True)
class Code:
    """The origin of a kernel's code, and digests of the code where the origin is not the environment."""

    origin: str
    digests: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    size: int = 0
    """Bytes of machine code; 0 where the origin is the environment."""


class Codes:
    """A look-up of the code of kernels in this process as it is now. Raises NoIdentity for a library that was deleted."""

    def __init__(self, tree: Path, capability: tuple[int, int], module_of: Callable[[int], int]) -> None:
        there, gone = elf.executable(Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape"))
        roots = elf.roots(tree)
        if missing := [path for path in gone if not roots.is_shared(path) and not _TRITONS_HOST_CODE.match(path.name)]:
            raise NoIdentity(f"the library {missing[0].name} was deleted after it was loaded")
        files = [path for path in there if path.is_file()]
        self._own = [path for path in files if not roots.is_shared(path)]
        self._shared = [path for path in files if roots.is_shared(path)]
        self._capability = capability
        self._module_of = module_of
        self._triton = _triton_kernels()

    def of(self, function: int, name: str) -> Code:
        """Return the code of a kernel, by the driver's handle and name. Raises NoIdentity where it is not found."""
        for each in self._triton:
            # By its module too, should the driver name a kernel in a graph by another handle than it gave to Triton. Never by the
            # name alone: a kernel of CUDA C++ may have the same one.
            if each.function == function or (each.name == name and each.module == self._module_of(function)):
                return Code("triton", (elf.machine_code(each.cubin),), size=elf.text_size(elf.Elf(each.cubin)))
        libraries = {path: elf.library(path) for path in self._own}
        images = {path: tuple(each for each in one.images if name in each.kernels) for path, one in libraries.items()}
        for path, found in images.items():
            if libraries[path].hidden or not found:
                refuse_hidden(path, name)
        if any(images.values()):
            return in_libraries(name, images.values(), self._capability)
        if not _ENVIRONMENT.match(name):
            raise NoIdentity(f"the code of {_short(name)} was found nowhere")
        return Code("environment")

    def ambiguous(self) -> list[list[object]]:
        """Return shared libraries of which two might hold such code: see `elf.ambiguous`."""
        return elf.ambiguous(self._shared)


def in_libraries(name: str, images: Iterable[Sequence[elf.Image]], capability: tuple[int, int]) -> Code:
    """Return the code of a kernel, from the cubins of each library that hold it.

    All of them count, since the name alone does not say which one was launched. Raises NoIdentity where the driver may run
    something else: PTX, if no cubin fits the GPU or a user asks for it.
    """
    held = [each for each in images if each]
    if any(not any(_fits(each.architecture, capability) for each in one) for one in held):
        raise NoIdentity(f"the library with {_short(name)} has no machine code for this GPU")
    if os.environ.get("CUDA_FORCE_PTX_JIT", "0") not in ("", "0"):
        raise NoIdentity("CUDA_FORCE_PTX_JIT has the driver compile its kernels")
    every = [each for one in held for each in one]
    digests = tuple(sorted({each.code for each in every}))
    return Code(
        "library",
        digests,
        tuple(sorted({variable for each in every for variable in each.variables})),
        sum(each.size for each in every),
    )


def refuse_namesakes(found: Iterable[tuple[str, Code]]) -> None:
    """Raise NoIdentity for two kernels of one call that share a name, where only the name led to their code: which is which?"""
    counts = Counter(name for name, code in found if len(code.digests) > 1)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise NoIdentity(f"two of its kernels are called {_short(twice[0])}")


def refuse_hidden(path: Path, name: str) -> None:
    """Raise NoIdentity for a library that names a kernel without showing its code."""
    if elf.mentions(path, name):
        raise NoIdentity(f"{path.name} hides the code of {_short(name)}: build it with nvcc -no-compress")


def _short(name: str) -> str:
    return elf.plain(name)[:80]


def _fits(architecture: int, capability: tuple[int, int]) -> bool:
    """Return whether a cubin runs on a GPU: of its major version, from its minor version on.

    CUDA C++ Programming Guide, Binary Compatibility.
    """
    major, minor = divmod(architecture, 10)
    return major == capability[0] and minor <= capability[1]


@dataclass(frozen=True)
class _Kernel:
    module: int
    function: int
    name: str
    cubin: bytes


def _triton_kernels() -> list[_Kernel]:
    """Return the kernels that Triton has loaded.

    Read from its live objects: hooks and caches differ between releases and miss kernels that are launched in other ways. Should
    a release name the attributes otherwise, its kernels are not found, and so opaque.
    """
    found: list[_Kernel] = []
    for each in living(COMPILED_KERNEL):
        module, function, name, asm = (vars(each).get(field) for field in ("module", "function", "name", "asm"))
        cubin = asm.get("cubin") if isinstance(asm, dict) else None
        loaded = isinstance(module, int) and isinstance(function, int)
        if loaded and isinstance(name, str) and isinstance(cubin, bytes):
            found.append(_Kernel(module, function, name, cubin))
    return found
