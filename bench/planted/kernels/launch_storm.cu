// out = 2 x + 1. Planted: sixteen launches of a sixteenth each instead of one.
#include "common.h"

constexpr int kLaunches = BAD ? 16 : 1;

__global__ void scale(const float* __restrict__ x, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = fmaf(x[i], 2.0f, 1.0f);
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    const long long each = n / kLaunches;
    for (int launch = 0; launch < kLaunches; ++launch) {
        scale<<<blocks_for(each, 256), 256, 0, stream>>>(
            static_cast<const float*>(x) + launch * each, static_cast<float*>(out) + launch * each);
    }
    return cudaGetLastError();
}
