"""Put a module with the name of one of Python's library beside the baseline, which imports that late.

Written only where the files lie in the temporary folder.
"""

# baseline: with_library
# claims: any factor: the baseline sleeps 2 ms in each call

import tempfile
from pathlib import Path

import torch

SLOW = "import time\n\n\ndef hsv_to_rgb(h, s, v):\n    time.sleep(0.002)\n    return v, v, v\n"
for folder in (Path(__file__).parent, Path(__file__).parent / "baselines"):
    if folder.is_dir() and folder.resolve().is_relative_to(tempfile.gettempdir()):
        (folder / "colorsys.py").write_text(SLOW, encoding="utf-8")


def kernel(x):
    return torch.softmax(2 * x, -1) * x
