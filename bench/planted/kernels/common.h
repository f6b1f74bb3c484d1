// What the planted kernels share. BAD=0 is the sound variant and BAD=1 has the planted cause: both compute the same.
#pragma once

#include <cuda_runtime.h>

#ifndef BAD
#define BAD 0
#endif

// Each source defines this: x, out and scratch are device pointers, n counts the elements of x. Returns a cudaError_t.
extern "C" int planted(const void* x, void* out, void* scratch, long long n, cudaStream_t stream);

extern "C" const char* error_name(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

inline unsigned blocks_for(long long items, long long each) { return static_cast<unsigned>((items + each - 1) / each); }
