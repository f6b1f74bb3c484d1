# ruff: noqa: A001  these names are Triton's
import os
import struct
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

Metadata = namedtuple("Metadata", "name target num_warps shared extern_libs hash")


@dataclass
class Options:
    num_warps: int = 4
    extern_libs: tuple = ()


class Backend:
    def parse_options(self, options):
        return Options(**options)


def make_backend(target):
    return Backend()


class ASTSource:
    def __init__(self, fn, signature, constexprs, attrs):
        self.fn, self.signature, self.constants, self.attrs = fn, signature, constexprs, attrs


class CompiledKernel:
    def __init__(self, src, metadata, cubin, ptx):
        self.src, self.metadata, self.asm = src, metadata, {"cubin": cubin, "ptx": ptx}


def compile(src, target, options):
    name = src.fn.fn.__name__
    if log := os.environ.get("TESTS_COMPILED"):
        with Path(log).open("a") as file:
            file.write(f"{name} ")
    code = b"".join(src.fn.codes()) + repr((src.signature, src.constants, target, options)).encode()
    info = struct.pack("<BBHII", 4, 0x2F, 8, 0, len(code)) + struct.pack("<BBHII", 4, 0x11, 8, 0, 0)
    ptx = "\tadd ;\n" * len(code)
    metadata = Metadata(name, target, options["num_warps"], 512, (), "")
    return CompiledKernel(src, metadata, elf({f".text.{name}": code, ".nv.info": info}), ptx)


def elf(parts):
    """Return an ELF file with these sections."""
    strings, rows, body = bytearray(b"\0"), [bytes(64)], bytearray()
    for name, data in [*parts.items(), (".shstrtab", b"")]:
        at = len(strings)
        strings += name.encode() + b"\0"
        content = bytes(strings) if name == ".shstrtab" else data
        rows.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(body), len(content), 0, 0, 4, 0))
        body += content
    count = len(rows)
    header = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 2, 190, 1, 0, 0, 64 + len(body), 90, 64, 0, 0, 64, count, count - 1
    )
    return header + bytes(body) + b"".join(rows)
