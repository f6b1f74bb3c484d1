// A polynomial of degree 64. Planted: a literal without its f, which turns every step into double precision.
#include "common.h"

#if BAD
#define STEP 0.1
#else
#define STEP 0.1f
#endif

__global__ void polynomial(const float* __restrict__ x, float* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float v = x[i] * 0.25f;
    float sum = 1.0f;
#pragma unroll 8
    for (int term = 0; term < 64; ++term) sum = sum * v + STEP;
    out[i] = sum;
}

extern "C" int planted(const void* x, void* out, void*, long long n, cudaStream_t stream) {
    polynomial<<<blocks_for(n, 256), 256, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(out));
    return cudaGetLastError();
}
