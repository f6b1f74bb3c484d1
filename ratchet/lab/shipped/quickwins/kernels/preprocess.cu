// A picture of 8 bits, rows first, BGR → planes of float32, RGB, resized and normalised, in one pass: each byte is read where it is
// needed, and nothing between the steps is ever written.
//
// Bilinear, as torch's interpolate with align_corners=False: pixel i of the result lies at (i + 0.5) × scale − 0.5 of the source.

#include <cuda_runtime.h>

namespace {

struct Place {
    int low, high;
    float share;  // of `high`
};

__device__ __forceinline__ Place place_of(int i, float scale, int length) {
    const float at = fmaxf((i + 0.5f) * scale - 0.5f, 0.0f);
    const int low = min(static_cast<int>(at), length - 1);
    return {low, min(low + 1, length - 1), at - low};
}

__global__ void preprocess_all(const unsigned char* __restrict__ picture, float* __restrict__ out, int height, int width, int size,
                               const float* __restrict__ folded) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= size || row >= size) return;
    const Place y = place_of(row, static_cast<float>(height) / size, height);
    const Place x = place_of(column, static_cast<float>(width) / size, width);
    const unsigned char* top = picture + 3ll * width * y.low;
    const unsigned char* bottom = picture + 3ll * width * y.high;
#pragma unroll
    for (int channel = 0; channel < 3; ++channel) {
        const int from = 2 - channel;  // BGR → RGB
        const float upper = (1.0f - x.share) * top[3 * x.low + from] + x.share * top[3 * x.high + from];
        const float lower = (1.0f - x.share) * bottom[3 * x.low + from] + x.share * bottom[3 * x.high + from];
        const float value = (1.0f - y.share) * upper + y.share * lower;
        out[(static_cast<long long>(channel) * size + row) * size + column] = value * folded[2 * channel] + folded[2 * channel + 1];
    }
}

}  // namespace

// `folded`: factor and offset of each channel of the result. Device pointers all. Returns a cudaError_t.
extern "C" int preprocess(const unsigned char* picture, float* out, int height, int width, int size, const float* folded,
                          cudaStream_t stream) {
    const dim3 block(32, 8);
    const dim3 grid((size + block.x - 1) / block.x, (size + block.y - 1) / block.y);
    preprocess_all<<<grid, block, 0, stream>>>(picture, out, height, width, size, folded);
    return static_cast<int>(cudaGetLastError());
}
