"""A CUDA kernel, compiled at import by torch's extensions: one block for each row."""

# baseline: softmax

from torch.utils.cpp_extension import load_inline

DECLARED = "torch::Tensor scaled_softmax(torch::Tensor x);"
CUDA = """
#include <ATen/cuda/CUDAContext.h>
__device__ float all(float value, bool is_max, float* shared) {
    int at = threadIdx.x;
    shared[at] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (at < half) shared[at] = is_max ? fmaxf(shared[at], shared[at + half]) : shared[at] + shared[at + half];
        __syncthreads();
    }
    float result = shared[0];
    __syncthreads();
    return result;
}
__global__ void rows(const float* x, float* out, int width) {
    __shared__ float shared[256];
    const float* row = x + (size_t)blockIdx.x * width;
    float* to = out + (size_t)blockIdx.x * width;
    float high = -INFINITY, sum = 0;
    for (int at = threadIdx.x; at < width; at += blockDim.x) high = fmaxf(high, row[at]);
    high = all(high, true, shared);
    for (int at = threadIdx.x; at < width; at += blockDim.x) sum += expf(2 * (row[at] - high));
    sum = all(sum, false, shared);
    for (int at = threadIdx.x; at < width; at += blockDim.x) to[at] = expf(2 * (row[at] - high)) / sum * row[at];
}
torch::Tensor scaled_softmax(torch::Tensor x) {
    auto out = torch::empty_like(x);
    rows<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""
kernel = load_inline("scaled_softmax_of_tests", DECLARED, CUDA, functions=["scaled_softmax"]).scaled_softmax
