// out = 1.5 x + 0.25 in three ways. WAY 0: a thread takes one float. WAY 1: one float4, in one load and one store of 16 bytes.
// WAY 2: as 1, but the float4 goes through shared memory first, as a prefetch would.

#include <cuda_runtime.h>

#ifndef WAY
#define WAY 0
#endif

namespace {

constexpr int kBlock = 256;
constexpr float kScale = 1.5f, kOffset = 0.25f;

#if WAY != 0
__device__ __forceinline__ float4 scaled(float4 v) {
    return make_float4(kScale * v.x + kOffset, kScale * v.y + kOffset, kScale * v.z + kOffset, kScale * v.w + kOffset);
}
#endif

#if WAY == 0
using Item = float;

__global__ void scale_all(const float* __restrict__ x, float* __restrict__ out, long long items) {
    const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
    if (i < items) out[i] = kScale * x[i] + kOffset;
}
#elif WAY == 1
using Item = float4;

__global__ void scale_all(const float4* __restrict__ x, float4* __restrict__ out, long long items) {
    const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
    if (i < items) out[i] = scaled(x[i]);
}
#else
using Item = float4;

__global__ void __launch_bounds__(kBlock, 8)
scale_all(const float4* __restrict__ x, float4* __restrict__ out, long long items) {
    // Volatile: otherwise the compiler sees that each thread reads back what it wrote, and leaves the shared memory out.
    __shared__ volatile float staged[kBlock * 4];
    const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
    if (i < items) {
        const float4 v = x[i];
        staged[threadIdx.x] = v.x;  // one plane for each component: no bank conflicts
        staged[threadIdx.x + kBlock] = v.y;
        staged[threadIdx.x + 2 * kBlock] = v.z;
        staged[threadIdx.x + 3 * kBlock] = v.w;
    }
    __syncthreads();
    if (i < items) {
        out[i] = scaled(make_float4(staged[threadIdx.x], staged[threadIdx.x + kBlock], staged[threadIdx.x + 2 * kBlock],
                                    staged[threadIdx.x + 3 * kBlock]));
    }
}
#endif

}  // namespace

// `x` and `out` are device pointers to `count` floats, a multiple of 4, aligned to 16 bytes. Returns a cudaError_t.
extern "C" int scale(const float* x, float* out, long long count, cudaStream_t stream) {
    const long long items = count / (sizeof(Item) / sizeof(float));
    if (items == 0) return cudaSuccess;
    const unsigned blocks = static_cast<unsigned>((items + kBlock - 1) / kBlock);
    scale_all<<<blocks, kBlock, 0, stream>>>(reinterpret_cast<const Item*>(x), reinterpret_cast<Item*>(out), items);
    return static_cast<int>(cudaGetLastError());
}
