// out = 2 x + 1 on a square matrix. Planted: neighbouring threads take neighbouring rows, so a warp touches 32 places.
#include "common.h"

constexpr int kColumns = 4096;

__global__ void scale(const float* __restrict__ x, float* __restrict__ out) {
#if BAD
    const int row = blockIdx.x * 32 + threadIdx.x, column = blockIdx.y * 8 + threadIdx.y;
#else
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
#endif
    const int i = row * kColumns + column;
    out[i] = fmaf(x[i], 2.0f, 1.0f);
}

extern "C" int planted(const void* x, void* out, void*, long long, cudaStream_t stream) {
    const dim3 grid(kColumns / 32, kColumns / 8), block(32, 8);
    scale<<<grid, block, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out));
    return cudaGetLastError();
}
