"""C that is compiled at import and called by ctypes."""

# baseline: hypotenuse
# options: --input 256x256

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch

CODE = """
#include <math.h>
void f(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++)
        y[i] = sqrtf(x[i] * x[i] + 1);
}
"""
FOLDER = Path(tempfile.mkdtemp())
FOLDER.joinpath("f.c").write_text(CODE, encoding="utf-8")
subprocess.run(["cc", "-O3", "-fno-math-errno", "-shared", "-fPIC", "-o", FOLDER / "f.so", FOLDER / "f.c", "-lm"], check=True)
LIBRARY = ctypes.CDLL(str(FOLDER / "f.so"))


def kernel(x):
    y = torch.empty_like(x)
    LIBRARY.f(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
    return y
