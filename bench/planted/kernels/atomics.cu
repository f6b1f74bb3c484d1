// A histogram of 64 bins. Planted: every value goes to memory by an atomic, instead of once per block and bin.
#include "common.h"

constexpr int kBins = 64;

__global__ void histogram(const int* __restrict__ x, int* __restrict__ out, long long n) {
#if BAD
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) atomicAdd(&out[x[i]], 1);
#else
    __shared__ int bins[kBins];
    if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
    __syncthreads();
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    if (threadIdx.x < kBins) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
#endif
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    const cudaError_t cleared = cudaMemsetAsync(out, 0, kBins * sizeof(int), stream);
    if (cleared != cudaSuccess) return cleared;
    histogram<<<528, 256, 0, stream>>>(static_cast<const int*>(x), static_cast<int*>(out), n);
    return cudaGetLastError();
}
