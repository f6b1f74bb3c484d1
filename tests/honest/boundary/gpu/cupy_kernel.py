"""An elementwise kernel of CuPy on torch's stream, between operators of CuPy; the result is an array of CuPy."""

# baseline: softmax
# needs: cupy

import cupy
import torch

WEIGHTS = cupy.ElementwiseKernel("float32 x, float32 high", "float32 y", "y = expf(2 * (x - high))", "weights_of_tests")


def kernel(x):
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        values = cupy.from_dlpack(x.detach())
        weights = WEIGHTS(values, values.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) * values
