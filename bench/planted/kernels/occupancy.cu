// out = 2 x + 1, 16 bytes a thread. Planted: each block asks for 100 KiB of shared memory, so that an SM holds two.
#include "common.h"

constexpr int kShared = BAD ? 100 << 10 : 0;

__global__ void scale(const float4* __restrict__ x, float4* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    out[i] = make_float4(fmaf(v.x, 2.0f, 1.0f), fmaf(v.y, 2.0f, 1.0f), fmaf(v.z, 2.0f, 1.0f), fmaf(v.w, 2.0f, 1.0f));
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    const cudaError_t asked = cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (asked != cudaSuccess) return asked;
    scale<<<blocks_for(n, 1024), 256, kShared, stream>>>(static_cast<const float4*>(x), static_cast<float4*>(out));
    return cudaGetLastError();
}
