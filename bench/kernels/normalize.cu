// Per-row normalisation, y = (x - mean) / sqrt(variance + eps), of a row-major float32 matrix.
//
// LANES lanes (a warp, unless it is tuned) take one row, or ROWS rows that follow each other, and keep them in registers,
// so that memory is read once: lane l holds vectors l, l + LANES, ... of four floats. At 1024 columns that is eight
// independent 16-byte loads in flight per thread, which covers the latency of device memory; BLOCK / LANES * ROWS rows share
// a block. Each lane merges its vectors into a running (mean, m2), then the lanes of a row are merged by shuffles:
// Welford's method in the pairwise form of Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances" (1979). It never subtracts two large sums, so a large mean does not cost the variance its
// digits.

#include <cuda_runtime.h>

#ifndef BLOCK
#define BLOCK 256  // threads per block
#endif
#ifndef LANES
#define LANES 32  // threads per row
#endif
#ifndef ROWS
#define ROWS 1  // rows that the same threads take
#endif
#ifndef STREAM
#define STREAM 0  // 1: written past the caches, as nobody reads the result soon
#endif
#ifndef COLUMNS
#define COLUMNS 1024
#endif

static_assert(BLOCK % 32 == 0 && BLOCK <= 1024, "a block is whole warps");
static_assert(LANES > 0 && 32 % LANES == 0, "the threads of a row are a warp, or an equal part of one");
static_assert(ROWS > 0, "a thread has at least one row");
static_assert(COLUMNS % 4 == 0, "rows are read 16 bytes at a time");
static_assert(COLUMNS <= 2048, "a row must fit the registers of one warp");

namespace {

constexpr int kLanes = LANES;
constexpr int kRows = ROWS;
constexpr int kRowsPerBlock = BLOCK / kLanes * kRows;
constexpr bool kWarpPerRow = kLanes == 32 && kRows == 1;
constexpr int kVectors = COLUMNS / 4;
constexpr int kPerLane = (kVectors + kLanes - 1) / kLanes;
constexpr bool kEven = kVectors % kLanes == 0;  // every lane holds the same number of values

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared differences from the mean
};

__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    // Compile-time constant wherever the counts are; a lane of a short row may hold nothing.
    const float share = count > 0.0f ? b.count / count : 0.0f;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ __forceinline__ Moments moments_of(float4 v) {
    const float mean = 0.25f * ((v.x + v.y) + (v.z + v.w));
    const float x = v.x - mean, y = v.y - mean, z = v.z - mean, w = v.w - mean;
    return {4.0f, mean, (x * x + y * y) + (z * z + w * w)};
}

// Whether a lane holds this vector of this row. Compile-time constant but for the last rows and the last vectors.
__device__ __forceinline__ bool holds(long long row, long long rows, int vector) {
    return (kWarpPerRow || row < rows) && (kEven || vector < kVectors);
}

__device__ __forceinline__ void store(float4* out, float4 value) {
    if (STREAM) __stcs(out, value);
    else *out = value;
}

__device__ __forceinline__ void
normalize_row(const float4 (&values)[kPerLane], float4* out, int lane, float eps, long long row, long long rows) {
    Moments moments{0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        if (kEven || lane + i * kLanes < kVectors) moments = merge(moments, moments_of(values[i]));
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        Moments other;
        // All lanes of an even row have equal counts: no shuffle, and the division folds into a constant.
        other.count = kEven ? moments.count : __shfl_xor_sync(0xffffffffu, moments.count, distance);
        other.mean = __shfl_xor_sync(0xffffffffu, moments.mean, distance);
        other.m2 = __shfl_xor_sync(0xffffffffu, moments.m2, distance);
        moments = merge(moments, other);
    }

    const float mean = moments.mean;
    const float scale = rsqrtf(moments.m2 / COLUMNS + eps);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int vector = lane + i * kLanes;
        if (holds(row, rows, vector)) {
            const float4 v = values[i];
            store(out + vector, make_float4((v.x - mean) * scale, (v.y - mean) * scale, (v.z - mean) * scale, (v.w - mean) * scale));
        }
    }
}

__global__ void __launch_bounds__(BLOCK)
normalize_rows(const float4* __restrict__ x, float4* __restrict__ out, long long rows, float eps) {
    const int lane = threadIdx.x % kLanes;
    const long long first = static_cast<long long>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kLanes * kRows;
    if (kWarpPerRow && first >= rows) return;  // whole warps leave together, so the shuffles below stay complete
    x += first * kVectors;
    out += first * kVectors;

    float4 values[kRows][kPerLane];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            const int vector = lane + i * kLanes;
            if (holds(first + r, rows, vector)) values[r][i] = __ldg(x + r * kVectors + vector);
            else if (!kWarpPerRow) values[r][i] = float4{};  // of a row past the last one: merged, never stored
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        normalize_row(values[r], out + r * kVectors, lane, eps, first + r, rows);
    }
}

}  // namespace

// `x` and `out` are device pointers to rows * COLUMNS floats, aligned to 16 bytes. Returns a cudaError_t.
extern "C" int normalize(const float* x, float* out, long long rows, float eps, cudaStream_t stream) {
    if (rows == 0) return cudaSuccess;
    const long long blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
    normalize_rows<<<static_cast<unsigned>(blocks), BLOCK, 0, stream>>>(
        reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out), rows, eps);
    return static_cast<int>(cudaGetLastError());
}

extern "C" const char* error_name(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
