// Sum and sum of squares of each block's share. Planted: a second pass over the input for the squares.
#include "common.h"

constexpr int kBlocks = 1024;

__device__ float block_sum(float value) {
    __shared__ float warps[8];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) sum += warps[warp];
    return sum;
}

__global__ void moments(const float4* __restrict__ x, float* __restrict__ out, int vectors) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += kBlocks * 256) {
        const float4 v = x[i];
        sum += (v.x + v.y) + (v.z + v.w);
        if (!BAD) squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    sum = block_sum(sum);
#if BAD
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += kBlocks * 256) {
        const float4 v = x[i];
        squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
#endif
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
        out[kBlocks + blockIdx.x] = squares;
    }
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    moments<<<kBlocks, 256, 0, stream>>>(static_cast<const float4*>(x), static_cast<float*>(out), static_cast<int>(n / 4));
    return cudaGetLastError();
}
