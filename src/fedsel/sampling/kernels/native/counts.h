/* Counting magnitudes, stretch by stretch and without a branch. Included as ranks.h is, and by it.

   Where a comparison makes a bit for each entry, bits are counted; elsewhere lanes add up, and a longer
   stretch pays for adding them together. */

#if defined(FEDSEL_AVX512) && defined(REALS_ARE_FLOATS)

#undef STRETCH
#define STRETCH 64
#define BITS_FROM(v, there, pivot, relation) \
    _mm512_mask_cmp_ps_mask(there, _mm512_abs_ps(_mm512_maskz_loadu_ps(there, v)), pivot, relation)
#define ALL_BITS(v, pivot, relation) \
    _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_loadu_ps(v)), pivot, relation)
#define COUNT_IN_STRETCH(name, operator, relation)                                               \
    INLINE int64_t NAMED(name)(const REAL *v, int64_t count, REAL pivot) {                       \
        const __m512 p = _mm512_set1_ps(pivot);                                                  \
        if (count == STRETCH)                                                                    \
            return _mm_popcnt_u64(                                                               \
                _mm512_kunpackd(_mm512_kunpackw(ALL_BITS(v + 48, p, relation),                   \
                                                ALL_BITS(v + 32, p, relation)),                  \
                                _mm512_kunpackw(ALL_BITS(v + 16, p, relation),                   \
                                                ALL_BITS(v, p, relation))));                     \
        int64_t found = 0;                                                                       \
        for (; count > 0; count -= WIDE, v += WIDE) {                                            \
            __mmask16 there = (__mmask16)(count < WIDE ? (1u << count) - 1 : 0xFFFF);            \
            found += _mm_popcnt_u32(BITS_FROM(v, there, p, relation));                           \
        }                                                                                        \
        return found;                                                                            \
    }

#else

#undef STRETCH
#define STRETCH 256
#define COUNT_IN_STRETCH(name, operator, relation)                            \
    INLINE int64_t NAMED(name)(const REAL *v, int64_t count, REAL pivot) {    \
        int32_t found = 0;                                                    \
        if (count == STRETCH)                                                 \
            for (int i = 0; i < STRETCH; i++) found += ABSOLUTE(v[i]) operator pivot; \
        else                                                                  \
            for (int64_t i = 0; i < count; i++) found += ABSOLUTE(v[i]) operator pivot; \
        return found;                                                         \
    }

#endif

COUNT_IN_STRETCH(above_in_stretch, >, _CMP_GT_OQ)
COUNT_IN_STRETCH(equal_in_stretch, ==, _CMP_EQ_OQ)

/* How many magnitudes are larger than the pivot; where there are ``enough``, at least so many. */
PURE int64_t NAMED(count_above)(const REAL *vector, int64_t d, REAL pivot, int64_t enough) {
    int64_t larger = 0, i = 0;
    for (; i + STRETCH <= d && larger < enough; i += STRETCH)
        larger += NAMED(above_in_stretch)(vector + i, STRETCH, pivot);
    return larger < enough && i < d ? larger + NAMED(above_in_stretch)(vector + i, d - i, pivot) : larger;
}

/* How many magnitudes equal the pivot. */
PURE int64_t NAMED(count_equal)(const REAL *vector, int64_t d, REAL pivot) {
    int64_t equal = 0, i = 0;
    for (; i + STRETCH <= d; i += STRETCH)
        equal += NAMED(equal_in_stretch)(vector + i, STRETCH, pivot);
    return i < d ? equal + NAMED(equal_in_stretch)(vector + i, d - i, pivot) : equal;
}

#undef BITS_FROM
#undef ALL_BITS
#undef COUNT_IN_STRETCH
