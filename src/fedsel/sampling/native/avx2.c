/* The kernels for processors with AVX2. Nothing is contracted to a fused multiply-add, which would change
   the last bits; one stands only where its product is exact, a number times 1 or −1. */
#include "tables.h"

#if defined(FEDSEL_HAS_AVX2)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2")
#endif

#define FEDSEL_AVX2
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
#include "kernels.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
