// out = 2 x + 1 by few threads that each walk through the array. Planted: one load at a time instead of eight.
#include "common.h"

constexpr int kAtOnce = BAD ? 1 : 8;
constexpr int kBlocks = 512;

__global__ void __launch_bounds__(256) scale(const float* __restrict__ x, float* __restrict__ out, long long n) {
    const long long stride = kBlocks * 256ll;
#pragma unroll 1
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += stride * kAtOnce) {
        float values[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) values[j] = x[i + j * stride];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) out[i + j * stride] = fmaf(values[j], 2.0f, 1.0f);
    }
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    scale<<<kBlocks, 256, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out), n);
    return cudaGetLastError();
}
