"""Count the instructions of a compiled kernel by opcode: of its machine code, or of its PTX where no disassembler is at hand.

Triton's wheels ship ``nvdisasm`` beside their assembler. Starts it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ratchet.core.errors import RatchetError
from ratchet.core.processes import run

_SECONDS = 60
_LISTING_BYTES = 2**26
_MACHINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
"""After an offset, and perhaps a predicate: ``/*00f0*/  @!P0 LDG.E R0, …``."""
_PTX = re.compile(r"^[ \t]+\{?\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*)[. ;]", re.MULTILINE)
_PADDING = "NOP"


def instructions(assembly: Any) -> dict[str, Any]:
    """Return `records.Instructions` of one kernel, whose ``asm`` this is."""
    if listing := _disassembled(assembly["cubin"]):
        counts = Counter(_MACHINE.findall(listing))
        del counts[_PADDING]
        return {"of": "machine code", "counts": counts}
    return {"of": "PTX", "counts": Counter(_PTX.findall(assembly["ptx"]))}


def _disassembled(cubin: bytes) -> str:
    """Return the listing of machine code; an empty text where nothing can be listed."""
    import triton

    shipped = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    program = shutil.which("nvdisasm", path=os.pathsep.join([str(shipped), os.environ.get("PATH", "")]))
    if program is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="ratchet-kernel-") as folder:
        image = Path(folder, "kernel.cubin")
        image.write_bytes(cubin)
        command = [program, "--print-code", str(image)]
        try:
            ended = run(command, environ=os.environ, folder=Path(folder), time_limit_s=_SECONDS, kept_bytes=_LISTING_BYTES)
        except RatchetError:
            return ""
    return ended.output if ended.status == 0 else ""
