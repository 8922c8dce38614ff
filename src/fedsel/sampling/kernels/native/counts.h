/* Counting magnitudes, stretch by stretch and without a branch. Included by ranks.h, once for floats and
   once for doubles.

   Where a comparison makes a bit for each entry, bits are counted. Elsewhere lanes add up, and a longer
   stretch pays for adding them together. */

#if defined(FEDSEL_AVX512) && defined(REALS_ARE_FLOATS)

enum { NAMED(stretch) = 64 };
#define BITS_OF(v, pivot, relation) \
    _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_loadu_ps(v)), pivot, relation)
#define SOME_BITS_OF(v, there, pivot, relation) \
    _mm512_mask_cmp_ps_mask(there, _mm512_abs_ps(_mm512_maskz_loadu_ps(there, v)), pivot, relation)
#define COUNT_IN_STRETCH(name, operator, relation)                                             \
    INLINE int64_t NAMED(name)(const REAL *v, int64_t count, REAL pivot) {                     \
        const __m512 p = _mm512_set1_ps(pivot);                                                \
        if (count == NAMED(stretch))                                                           \
            return _mm_popcnt_u64(_mm512_kunpackd(                                             \
                _mm512_kunpackw(BITS_OF(v + 48, p, relation), BITS_OF(v + 32, p, relation)),   \
                _mm512_kunpackw(BITS_OF(v + 16, p, relation), BITS_OF(v, p, relation))));      \
        int64_t found = 0;                                                                     \
        for (; count > 0; count -= WIDE, v += WIDE) {                                          \
            __mmask16 there = (__mmask16)(count < WIDE ? (1u << count) - 1 : 0xFFFF);          \
            found += _mm_popcnt_u32(SOME_BITS_OF(v, there, p, relation));                      \
        }                                                                                      \
        return found;                                                                          \
    }

#else

enum { NAMED(stretch) = 256 };
#define COUNT_IN_STRETCH(name, operator, relation)                                             \
    INLINE int64_t NAMED(name)(const REAL *v, int64_t count, REAL pivot) {                     \
        int32_t found = 0;                                                                     \
        if (count == NAMED(stretch))                                                           \
            for (int i = 0; i < NAMED(stretch); i++) found += ABSOLUTE(v[i]) operator pivot;   \
        else                                                                                   \
            for (int64_t i = 0; i < count; i++) found += ABSOLUTE(v[i]) operator pivot;        \
        return found;                                                                          \
    }

#endif

/* In a whole stretch, or in a shorter one. */
COUNT_IN_STRETCH(above_in_stretch, >, _CMP_GT_OQ)
COUNT_IN_STRETCH(equal_in_stretch, ==, _CMP_EQ_OQ)

/* How many magnitudes are larger than the pivot; where there are ``enough``, at least so many. */
PURE int64_t NAMED(count_above)(const REAL *vector, int64_t d, REAL pivot, int64_t enough) {
    const int64_t stretch = NAMED(stretch);
    int64_t larger = 0, i = 0;
    for (; i + stretch <= d && larger < enough; i += stretch)
        larger += NAMED(above_in_stretch)(vector + i, stretch, pivot);
    if (larger >= enough || i == d) return larger;
    return larger + NAMED(above_in_stretch)(vector + i, d - i, pivot);
}

/* How many magnitudes equal the pivot. */
PURE int64_t NAMED(count_equal)(const REAL *vector, int64_t d, REAL pivot) {
    const int64_t stretch = NAMED(stretch);
    int64_t equal = 0, i = 0;
    for (; i + stretch <= d; i += stretch)
        equal += NAMED(equal_in_stretch)(vector + i, stretch, pivot);
    return i == d ? equal : equal + NAMED(equal_in_stretch)(vector + i, d - i, pivot);
}

#undef BITS_OF
#undef SOME_BITS_OF
#undef COUNT_IN_STRETCH
