// A long recurrence for each element; n fills every SM with two blocks of 1024 threads exactly. Planted: blocks of 960
// threads, so that a few blocks are left over for a second, nearly empty wave.
#include "common.h"

constexpr int kThreads = BAD ? 960 : 1024;

__global__ void __launch_bounds__(kThreads) recur(const float* __restrict__ x, float* __restrict__ out, long long n) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
#pragma unroll 8
    for (int step = 0; step < 2048; ++step) value = fmaf(value, 0.999f, 0.001f);
    out[i] = value;
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    recur<<<blocks_for(n, kThreads), kThreads, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out), n);
    return cudaGetLastError();
}
