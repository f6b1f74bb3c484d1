// out = max(2 x + 1, 0). Planted: two kernels with the intermediate result in memory instead of one.
#include "common.h"

__device__ float4 scaled(float4 v) {
    return make_float4(fmaf(v.x, 2.0f, 1.0f), fmaf(v.y, 2.0f, 1.0f), fmaf(v.z, 2.0f, 1.0f), fmaf(v.w, 2.0f, 1.0f));
}

__device__ float4 rectified(float4 v) { return make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f)); }

__global__ void scale_and_rectify(const float4* __restrict__ x, float4* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = rectified(scaled(x[i]));
}

__global__ void scale(const float4* __restrict__ x, float4* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = scaled(x[i]);
}

__global__ void rectify(const float4* __restrict__ x, float4* __restrict__ out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = rectified(x[i]);
}

extern "C" int planted(const void* x, void* out, void* scratch, long long n, cudaStream_t stream) {
    const unsigned blocks = blocks_for(n, 1024);
    const float4* from = static_cast<const float4*>(x);
    float4* to = static_cast<float4*>(out);
#if BAD
    float4* between = static_cast<float4*>(scratch);
    scale<<<blocks, 256, 0, stream>>>(from, between);
    rectify<<<blocks, 256, 0, stream>>>(between, to);
#else
    scale_and_rectify<<<blocks, 256, 0, stream>>>(from, to);
#endif
    return cudaGetLastError();
}
