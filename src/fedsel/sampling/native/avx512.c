/* The kernels for processors with vectors of 512 bits. As in avx2.c, nothing is contracted: a product is
   fused with a sum only where it is exact, a number times 1 or −1. */
#include "tables.h"

#if defined(FEDSEL_HAS_AVX512)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,popcnt,prefer-vector-width=512")
#endif

#define FEDSEL_AVX2
#define FEDSEL_AVX512
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#include "kernels.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
