// GELU in its tanh form, 32 values a thread, all loaded before the first is used: so many registers that the compiler has a choice.
// BOUNDED 1: __launch_bounds__(256, 8) leaves a thread 32 registers, so that 8 blocks fit a multiprocessor of 2048 threads.

#include <cuda_runtime.h>

#ifndef BOUNDED
#define BOUNDED 0
#endif

namespace {

constexpr int kBlock = 256;
constexpr int kVectors = 8;  // of 4 floats, that a thread takes

__device__ __forceinline__ float gelu_of(float x) {
    const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner));
}

__global__ void
#if BOUNDED
__launch_bounds__(kBlock, 8)
#endif
gelu_all(const float4* __restrict__ x, float4* __restrict__ out, long long vectors) {
    const long long first = static_cast<long long>(blockIdx.x) * kBlock * kVectors + threadIdx.x;
    float4 values[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        if (first + i * kBlock < vectors) values[i] = x[first + i * kBlock];
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const float4 v = values[i];
        if (first + i * kBlock < vectors) out[first + i * kBlock] = make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w));
    }
}

}  // namespace

// `x` and `out` are device pointers to `count` floats, a multiple of 4, aligned to 16 bytes. Returns a cudaError_t.
extern "C" int gelu(const float* x, float* out, long long count, cudaStream_t stream) {
    const long long vectors = count / 4;
    if (vectors == 0) return cudaSuccess;
    const unsigned blocks = static_cast<unsigned>((vectors + kBlock * kVectors - 1) / (kBlock * kVectors));
    gelu_all<<<blocks, kBlock, 0, stream>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out), vectors);
    return static_cast<int>(cudaGetLastError());
}
