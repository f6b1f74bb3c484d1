// Even elements take one recurrence, odd elements another. Planted: neighbouring threads take neighbouring elements, so
// that every warp runs both; the sound variant gives whole warps one kind.
#include "common.h"

__global__ void recur(const float* __restrict__ x, float* __restrict__ out) {
    const int place = BAD ? threadIdx.x : (threadIdx.x % 128) * 2 + threadIdx.x / 128;
    const int i = blockIdx.x * 256 + place;
    float value = x[i];
    if (place % 2 == 0) {
#pragma unroll 8
        for (int step = 0; step < 256; ++step) value = fmaf(value, 0.99f, 0.01f);
    } else {
#pragma unroll 8
        for (int step = 0; step < 128; ++step) value = value * 0.98f - (value * value) * 0.001f;
    }
    out[i] = value;
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    recur<<<blocks_for(n, 256), 256, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out));
    return cudaGetLastError();
}
