/* What differs between compilers: inlining, prefetching, 128-bit products. */
#ifndef FEDSEL_PORTABLE_H
#define FEDSEL_PORTABLE_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline, unused))
#define OUTLINE static __attribute__((noinline, unused))
#define PURE static __attribute__((noinline, unused, pure))
#define PREFETCH(address) __builtin_prefetch((address), 0, 3)
#elif defined(_MSC_VER)
#include <intrin.h>
#define INLINE static __forceinline
#define OUTLINE static __declspec(noinline)
#define PURE OUTLINE
#define PREFETCH(address) ((void)(address))
#else
#define INLINE static inline
#define OUTLINE static
#define PURE static
#define PREFETCH(address) ((void)(address))
#endif

/* Compiled beside the base where the compiler can: chosen at run time by what the processor has. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__) && !defined(FEDSEL_NO_AVX2)
#define FEDSEL_HAS_AVX2
#define FEDSEL_HAS_AVX512
#endif

#define CACHE_LINE 64

/* High 64 bits of the product of two numbers. */
INLINE uint64_t mulhi(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
    return __umulh(a, b);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
    uint64_t carried = (uint32_t)middle + a0 * b1;
    return a1 * b1 + (middle >> 32) + (carried >> 32);
#endif
}

/* The place of the lowest bit of a number that is not 0. */
INLINE int lowest_bit(uint32_t bits) {
#if defined(_MSC_VER)
    unsigned long place;
    _BitScanForward(&place, bits);
    return (int)place;
#else
    return __builtin_ctz(bits);
#endif
}

/* ⌈part · 2^64 / whole⌉ for part < whole < 2^63. */
INLINE uint64_t share_of(uint64_t part, uint64_t whole) {
    uint64_t share = 0;
    for (int bit = 0; bit < 64; bit++) {
        part *= 2;
        share = 2 * share + (part >= whole);
        part -= part >= whole ? whole : 0;
    }
    return share + (part > 0);
}

/* To a multiple of a power of two. */
INLINE int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) & -unit; }

/* 2^64 mod n: how many words too many there are to serve n numbers evenly. */
INLINE uint64_t surplus_of(uint64_t n) { return n ? (0 - n) % n : 0; }

/* Ask for a row before it is needed: shuffled clients lie anywhere in memory. */
INLINE void prefetch_row(const float *row, int64_t count) {
    for (int64_t at = 0; at < count; at += CACHE_LINE / (int64_t)sizeof(float)) PREFETCH(row + at);
}

#define ASKED_AT_ONCE 256

/* Ask for a stretch of a row, in eighths of it; for nothing where there is no row. A long one all at
   once is more than a processor has in flight, and it waits; in between, memory delivers while the
   processor computes. */
INLINE void fetch_eighths(const float *row, int64_t d, int64_t from, int64_t to) {
    if (!row) return;
    if (d > ASKED_AT_ONCE)
        prefetch_row(row + d * from / 8, d * to / 8 - d * from / 8);
    else if (from == 0)
        prefetch_row(row, d);
}

#endif
