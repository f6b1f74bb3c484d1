// The transpose of a square matrix through shared memory. Planted: rows of the tile without padding, so that the 32
// values of a column lie in one bank.
#include "common.h"

constexpr int kSide = 4096;
constexpr int kTile = 32;

__global__ void transpose(const float* __restrict__ x, float* __restrict__ out) {
    __shared__ float tile[kTile][kTile + (BAD ? 0 : 1)];
    const int column = blockIdx.x * kTile, row = blockIdx.y * kTile;
#pragma unroll
    for (int y = threadIdx.y; y < kTile; y += 8) tile[y][threadIdx.x] = x[(row + y) * kSide + column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int y = threadIdx.y; y < kTile; y += 8) out[(column + y) * kSide + row + threadIdx.x] = tile[threadIdx.x][y];
}

extern "C" int planted(const void* x, void* out, void*, long long, cudaStream_t stream) {
    const dim3 grid(kSide / kTile, kSide / kTile), block(kTile, 8);
    transpose<<<grid, block, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out));
    return cudaGetLastError();
}
