"""Put bytecode of our own behind the source of a module that the baseline imports: the source's digest stays the same.

Python believes a .pyc file whose header has the time and the size of the source. Only files in the temporary folder are touched.
"""

# baseline: with_helper
# claims: any factor: a later process of the baseline sleeps 2 ms in each call

import importlib.util
import marshal
import tempfile
from pathlib import Path

import torch

SLOW = "import time\n\n\ndef scaled(x):\n    time.sleep(0.002)\n    return 2 * x\n"
for folder in {Path(__file__).parent, Path(__file__).parent / "baselines"}:
    source = folder / "helper_of_baseline.py"
    if source.is_file() and source.resolve().is_relative_to(tempfile.gettempdir()):
        kept = Path(importlib.util.cache_from_source(str(source)))
        kept.parent.mkdir(exist_ok=True)
        found = source.stat()
        head = importlib.util.MAGIC_NUMBER + b"\0" * 4 + int(found.st_mtime).to_bytes(4, "little")
        kept.write_bytes(head + found.st_size.to_bytes(4, "little") + marshal.dumps(compile(SLOW, str(source), "exec")))


def kernel(x):
    return torch.softmax(2 * x, -1) * x
