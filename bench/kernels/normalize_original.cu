// Per-row normalisation as it is first written: a block for each row, sums of all threads in shared memory, one float at a time, and
// the row read three times (for the mean, for the variance, for the result). normalize.cu is what became of it.

#include <cuda_runtime.h>

namespace {

constexpr int kBlock = 256;

// The sum of `value` over the block, in every thread. `partial` has kBlock floats.
__device__ float block_sum(float value, float* partial) {
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = kBlock / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    const float sum = partial[0];
    __syncthreads();  // nobody writes the next sum before everybody has read this one
    return sum;
}

__global__ void normalize_rows(const float* x, float* out, int columns, float eps) {
    __shared__ float partial[kBlock];
    const long long row = static_cast<long long>(blockIdx.x) * columns;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += kBlock) sum += x[row + i];
    const float mean = block_sum(sum, partial) / columns;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += kBlock) {
        const float centred = x[row + i] - mean;
        squares += centred * centred;
    }
    const float deviation = sqrtf(block_sum(squares, partial) / columns + eps);

    for (int i = threadIdx.x; i < columns; i += kBlock) out[row + i] = (x[row + i] - mean) / deviation;
}

}  // namespace

// `x` and `out` are device pointers to rows * columns floats. Returns a cudaError_t.
extern "C" int normalize_original(const float* x, float* out, long long rows, int columns, float eps, cudaStream_t stream) {
    if (rows == 0) return cudaSuccess;
    normalize_rows<<<static_cast<unsigned>(rows), kBlock, 0, stream>>>(x, out, columns, eps);
    return static_cast<int>(cudaGetLastError());
}

extern "C" const char* error_name(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
