"""Do a worker's part of a verdict without a GPU: write its case's kernels down, or compile kernels that were written down.

Triton's interface is that of its releases 3.2 to 3.6; what another release names otherwise is an error of the case, which then
asks for the GPU.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ratchet.identical.footprint import Footprint
from ratchet.identical.launches import elf
from ratchet.identical.runtime import COMPILED_KERNEL, JIT_FUNCTION, living
from ratchet.identical.static.instructions import instructions

_UNUSED = frozenset({"hash", "target", "extern_libs"})
"""Parts of Triton's metadata that depend on where it is installed, or that the machine code shows."""
_FRAME_SIZE, _REGISTERS, _WITH_SIZE = 0x11, 0x2F, 4
"""Of the section .nv.info, as cuobjdump names it: EIATTR_FRAME_SIZE, EIATTR_REGCOUNT; EIFMT_SVAL, an entry with a size."""


class NotPortable(Exception):
    """A kernel that cannot be compiled elsewhere from what is written down."""


def capture(worker: Any) -> dict[str, Any]:
    """Return `records.CaseCapture` of the prepared case, in a worker that has prepared nothing else."""
    worker.host_code()
    proof = worker.tree.proof
    kernels, unknown = [], ""
    try:
        kernels = list(_kernels(worker.tree.provenance.tree))
    except NotPortable as reason:
        unknown = str(reason)
    return {
        "imported": Footprint.of(proof.imported_touches).model_dump(),
        "case": Footprint.of(proof.touched - proof.imported_touches).model_dump(),
        "kernels": kernels,
        "unknown": unknown,
    }


def recompile(worker: Any, kernel: Mapping[str, Any]) -> dict[str, Any]:
    """Return `records.Recompiled` of a kernel (`records.Kernel`) as the tree of this worker has it."""
    from triton import compile as compile_kernel
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    _import(kernel["module"])
    written = json.loads(kernel["source"])
    tree = worker.tree.provenance.tree
    function = _function(tree, kernel["file"], kernel["function"])
    constants = {tuple(path): _read(tree, value) for path, value in written["constants"]}
    attributes = {tuple(path): value for path, value in written["attributes"]}
    source = ASTSource(function, written["signature"], constants, attributes)
    compiled = compile_kernel(source, target=GPUTarget(*written["target"]), options=written["options"])
    return {"code": _compiled(compiled), "instructions": instructions(compiled.asm)}


def kernel_keys(worker: Any, kernels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `records.KernelKeys`: Triton's own digests of each kernel and of all it calls, by which it finds compiled code."""
    for kernel in kernels:
        _import(kernel["module"])
    known = _functions(worker.tree.provenance.tree)
    return {"keys": [_key(known, kernel) for kernel in kernels]}


def _key(known: Mapping[tuple[str, str], Sequence[Any]], kernel: Mapping[str, Any]) -> str:
    constants = [value for _, value in json.loads(kernel["source"])["constants"]]
    parts = [known.get(name, ()) for name in ((kernel["file"], kernel["function"]), *_named(constants))]
    keys = [getattr(one[0], "cache_key", "") if len(one) == 1 else "" for one in parts]
    return " ".join(keys) if all(keys) else ""


def _named(written: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield the kernels among constants, by file and qualified name."""
    for kind, value in (pair for each in written if isinstance(each, dict) for pair in each.items()):
        if kind == "function":
            yield value[0], value[1]
        elif kind == "tuple":
            yield from _named(value)


def _import(module: str) -> None:
    if module not in sys.modules:
        importlib.import_module(module)


def _kernels(tree: Path) -> Iterator[dict[str, Any]]:
    """Yield `records.Kernel` of everything that Triton has compiled here from files of the tree. Raises NotPortable."""
    found = {}
    for each in living(COMPILED_KERNEL):
        if kernel := _kernel(tree, each):
            found[json.dumps(kernel, sort_keys=True)] = kernel
    yield from (found[text] for text in sorted(found))


def _kernel(tree: Path, compiled: Any) -> dict[str, Any] | None:
    """Return a kernel; None for one from outside the tree, which both sides share or whose maker is watched."""
    source = compiled.src
    if not hasattr(getattr(source, "fn", None), "fn"):
        raise NotPortable("one of its kernels was not compiled from Python")
    function = source.fn.fn
    file = Path(function.__code__.co_filename).resolve()
    if not file.is_relative_to(tree):
        return None
    target = compiled.metadata.target
    written = {
        "signature": dict(source.signature),
        "constants": [[list(path), _written(tree, value)] for path, value in source.constants.items()],
        "attributes": [[list(path), value] for path, value in source.attrs.items()],
        "options": _options(compiled),
        "target": [target.backend, target.arch, target.warp_size],
    }
    return {
        "file": str(file.relative_to(tree)),
        "function": function.__qualname__,
        "module": function.__module__,
        "source": json.dumps(written),  # in its order, which is that of the arguments
        "compiled": _compiled(compiled),
    }


def _options(compiled: Any) -> dict[str, Any]:
    """Return the options that a kernel was compiled with, where they are not what Triton takes by itself."""
    from triton.compiler.compiler import make_backend

    made = compiled.metadata._asdict()
    usual = asdict(make_backend(compiled.metadata.target).parse_options({}))
    if _plain(made.get("extern_libs")) != _plain(usual.get("extern_libs")):
        raise NotPortable("one of its kernels links another library")
    differing = {name: made[name] for name in usual if name in made and _plain(made[name]) != _plain(usual[name])}
    return {"num_warps": made["num_warps"], **differing}


def _compiled(compiled: Any) -> dict[str, Any]:
    """Return `records.CompiledCode` of one of Triton's kernels."""
    metadata = {name: value for name, value in compiled.metadata._asdict().items() if name not in _UNUSED}
    image = elf.Elf(compiled.asm["cubin"])
    taken = list(_resources(image))
    return {
        "code": elf.machine_code(compiled.asm["cubin"]),
        "launch": hashlib.sha256(_plain(metadata).encode()).hexdigest(),
        "registers": max((value for what, value in taken if what == _REGISTERS), default=0),
        "spills": max((value for what, value in taken if what == _FRAME_SIZE), default=0),
        "shared": int(metadata["shared"]),
        "code_size": elf.text_size(image),
    }


def _resources(image: elf.Elf) -> Iterator[tuple[int, int]]:
    """Yield what the functions of a cubin take: an attribute, and the number of it."""
    data = next((image.data(each) for each in image.sections if each.name == ".nv.info"), b"")
    at = 0
    while at + 4 <= len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind == _WITH_SIZE:
            if attribute in (_FRAME_SIZE, _REGISTERS):
                yield attribute, struct.unpack_from("<II", data, at)[1]
            at += size


def _plain(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _written(tree: Path, value: Any) -> Any:
    """Return a constant of a kernel in plain values. Raises NotPortable."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is tuple:
        return {"tuple": [_written(tree, each) for each in value]}
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton."):
        return {"dtype": value.name}
    if hasattr(value, "fn") and hasattr(value.fn, "__code__"):
        file = Path(value.fn.__code__.co_filename).resolve()
        if file.is_relative_to(tree):
            return {"function": [str(file.relative_to(tree)), value.fn.__qualname__]}
    raise NotPortable(f"a constant of one of its kernels is a {type(value).__name__}")


def _read(tree: Path, written: Any) -> Any:
    """Return what `_written` has written."""
    if not isinstance(written, dict):
        return written
    ((kind, value),) = written.items()
    if kind == "float":
        return float.fromhex(value)
    if kind == "tuple":
        return tuple(_read(tree, each) for each in value)
    if kind == "dtype":
        return importlib.import_module("triton.language").dtype(value)
    return _function(tree, *value)


def _function(tree: Path, file: str, name: str) -> Any:
    """Return the kernel of this name in a file of the tree. Raises NotPortable where there is not exactly one."""
    found = _functions(tree).get((file, name), ())
    if len(found) != 1:
        raise NotPortable(f"{file} has {len(found)} kernels called {name}")
    return found[0]


def _functions(tree: Path) -> Mapping[tuple[str, str], Sequence[Any]]:
    """Return all kernels of the tree by file and qualified name."""
    found: dict[tuple[str, str], list[Any]] = {}
    for each in living(JIT_FUNCTION):
        file = Path(each.fn.__code__.co_filename).resolve()
        if file.is_relative_to(tree):
            found.setdefault((str(file.relative_to(tree)), each.fn.__qualname__), []).append(each)
    return found


OPERATIONS = {"capture": capture, "recompile": recompile, "kernel_keys": kernel_keys}
