// Each thread mixes 64 values for 8 rounds and writes their sum. Planted: launch bounds that leave 32 registers for them.
#include "common.h"

constexpr int kValues = 64;
constexpr int kRounds = 8;

__global__ void __launch_bounds__(256, BAD ? 8 : 2)
mix(const float* __restrict__ x, float* __restrict__ out, int threads) {
    const int thread = blockIdx.x * 256 + threadIdx.x;
    float values[kValues];
#pragma unroll
    for (int j = 0; j < kValues; ++j) values[j] = x[j * threads + thread];
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
#pragma unroll
        for (int j = 0; j < kValues; ++j) values[j] = fmaf(values[j], 0.5f, values[(j + 1) % kValues]);
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kValues; ++j) sum += values[j];
    out[thread] = sum;
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    const int threads = static_cast<int>(n / kValues);
    mix<<<threads / 256, 256, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out), threads);
    return cudaGetLastError();
}
