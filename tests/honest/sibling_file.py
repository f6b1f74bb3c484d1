"""Import a file beside it, and read another one."""

from pathlib import Path

import torch
from sibling_of_honest import scaled

TWO = float(Path(__file__).with_name("sibling_of_honest.py").read_text(encoding="utf-8").count("TWO"))


def kernel(x):
    return torch.softmax(scaled(x), -1) * x
