/* The Walsh–Hadamard transform. Sums are those of `solutions.transforms.hadamard`: neighbours
   first, then pairs at a distance of 2, 4, 8, …; several distances are taken in one pass. */

/* a + b and a − b at distances 1, 2, … count / 2 of these vectors. */
INLINE void hadamard_of_vectors(Wide *v, const int count) {
    for (int h = 1; h < count; h *= 2)
        for (int j = 0; j < count; j++)
            if (!(j & h)) {
                Wide a = v[j], b = v[j + h];
                v[j] = ADD(a, b);
                v[j + h] = SUBTRACT(a, b);
            }
}

/* Distances h, 2h, … of ``count`` stretches of h entries. Those after the first ``filled`` are
   zero, and are not read: padding costs little more than its writing. */
INLINE void combine_filled(float *x, int64_t h, const int count, const int filled) {
    for (float *p = x; p < x + h; p += WIDE) {
        Wide v[8];
        for (int j = 0; j < count; j++) {
            v[j] = ZERO;
            if (j < filled) v[j] = LOAD(p + j * h);
        }
        hadamard_of_vectors(v, count);
        for (int j = 0; j < count; j++) STORE(p + j * h, v[j]);
    }
}

/* Of what is ``left`` from here on, up to 8, 4 or 2 stretches. */
OUTLINE void combine_8(float *x, int64_t h, int64_t left) {
    switch (left >= 8 * h ? 8 : left / h) {
        case 1: combine_filled(x, h, 8, 1); break;
        case 2: combine_filled(x, h, 8, 2); break;
        case 3: combine_filled(x, h, 8, 3); break;
        case 4: combine_filled(x, h, 8, 4); break;
        case 5: combine_filled(x, h, 8, 5); break;
        case 6: combine_filled(x, h, 8, 6); break;
        case 7: combine_filled(x, h, 8, 7); break;
        default: combine_filled(x, h, 8, 8);
    }
}

OUTLINE void combine_4(float *x, int64_t h, int64_t left) {
    switch (left >= 4 * h ? 4 : left / h) {
        case 1: combine_filled(x, h, 4, 1); break;
        case 2: combine_filled(x, h, 4, 2); break;
        case 3: combine_filled(x, h, 4, 3); break;
        default: combine_filled(x, h, 4, 4);
    }
}

OUTLINE void combine_2(float *x, int64_t h, int64_t left) {
    if (left >= 2 * h)
        combine_filled(x, h, 2, 2);
    else
        combine_filled(x, h, 2, 1);
}

/* The steps at a distance of h and more of n entries, of which those from ``end`` on, a multiple of
   h, are zero and need not be there. */
INLINE void hadamard_from(float *x, int64_t n, int64_t h, int64_t end) {
    for (; 8 * h <= n; h *= 8) {
        for (int64_t at = 0; at < end; at += 8 * h) combine_8(x + at, h, end - at);
        end = round_up(end, 8 * h);
    }
    if (4 * h <= n) {
        for (int64_t at = 0; at < end; at += 4 * h) combine_4(x + at, h, end - at);
    } else if (2 * h <= n) {
        for (int64_t at = 0; at < end; at += 2 * h) combine_2(x + at, h, end - at);
    }
}

INLINE void hadamard_small(float *x, int64_t n) {
    for (int64_t h = 1; h < n; h *= 2)
        for (int64_t i = 0; i < n; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

#define GROUP (8 * WIDE)
#define CACHED 4096

/* WIDE entries from i on, negated where a bit of the words is set, the lowest first. */
#define WORD_BITS 32
#if (defined(__GNUC__) || defined(__clang__)) && !defined(FEDSEL_PLAIN_LANES)
typedef uint32_t WideWords __attribute__((vector_size(4 * WIDE)));
#if WIDE == 16
#define PLACES ((WideWords){31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16})
#else
#define PLACES ((WideWords){31, 30, 29, 28, 27, 26, 25, 24})
#endif
INLINE Wide flipped(Wide entries, const uint32_t *words, int64_t i) {
    const uint32_t word = words[i / WORD_BITS] >> (i % WORD_BITS);
    const WideWords signs = ((word - (WideWords){0}) << PLACES) & 0x80000000u;
    return (Wide)((WideWords)entries ^ signs);
}
#else
INLINE Wide flipped(Wide entries, const uint32_t *words, int64_t i) {
    const uint32_t word = words[i / WORD_BITS] >> (i % WORD_BITS);
    for (int j = 0; j < WIDE; j++)
        if (word >> j & 1) entries.of[j] = -entries.of[j];
    return entries;
}
#endif

/* What a transform reads: a vector as it is, times signs, times those of words, or these alone. */
enum { AS_IT_IS, TIMES_SIGNS, TIMES_WORDS, WORDS_ALONE };

/* WIDE entries from i on, and zeros after the first d. */
INLINE Wide entries_from(int64_t i, const float *vector, const void *signs, const int turned, int64_t d) {
    if (i >= d) return ZERO;
    if (turned == WORDS_ALONE) return flipped(ALL(1.0f), signs, i);
    Wide entries = load_up_to(vector + i, d - i);
    if (turned == TIMES_WORDS) return flipped(entries, signs, i);
    return turned ? MULTIPLY(entries, load_up_to((const float *)signs + i, d - i)) : entries;
}

/* x ← the steps below GROUP of the entries from i on; ``whole`` where none of them is after the d-th. */
INLINE void hadamard_of_group(int64_t i, const float *vector, const void *signs, const int turned,
                              int64_t d, const int whole, float *x) {
    Wide v[8];
    for (int j = 0; j < 8; j++) {
        int64_t at = i + j * WIDE;
        v[j] = hadamard_of_wide(entries_from(at, vector, signs, turned, whole ? at + WIDE : d));
    }
    hadamard_of_vectors(v, 8);
    for (int j = 0; j < 8; j++) STORE(x + i + j * WIDE, v[j]);
}

/* Of the n = 2^m ≤ CACHED entries, and zeros after the first d. Words are of n ≥ WIDE entries. */
INLINE void hadamard_in_cache(const float *vector, const void *signs, const int turned, int64_t d,
                              float *x, int64_t n) {
    int64_t i = 0;
    if (n < WIDE) {
        for (; i < n; i++) x[i] = i < d ? turned ? vector[i] * ((const float *)signs)[i] : vector[i] : 0;
        hadamard_small(x, n);
    } else if (n < GROUP) {
        for (; i < d; i += WIDE)
            STORE(x + i, hadamard_of_wide(entries_from(i, vector, signs, turned, d)));
        hadamard_from(x, n, WIDE, i);
    } else {
        for (; i + GROUP <= d; i += GROUP) hadamard_of_group(i, vector, signs, turned, d, 1, x);
        if (i < d) hadamard_of_group(i, vector, signs, turned, d, 0, x);
        hadamard_from(x, n, GROUP, round_up(d, GROUP));
    }
}

/* Of the n = 2^m entries, and zeros after the first d: stretch by stretch as far as the innermost
   cache holds, then across. */
INLINE void hadamard_padded(const float *vector, const void *signs, const int turned, int64_t d,
                            float *x, int64_t n) {
    if (n <= CACHED) {
        hadamard_in_cache(vector, signs, turned, d, x, n);
        return;
    }
    const int64_t bytes = CACHED * (turned == TIMES_SIGNS ? (int64_t)sizeof(float) : 1) /
                          (turned == TIMES_SIGNS ? 1 : WORD_BITS / (int64_t)sizeof(uint32_t));
    for (int64_t at = 0; at < d; at += CACHED)
        hadamard_in_cache(turned == WORDS_ALONE ? NULL : vector + at,
                          turned ? (const char *)signs + at / CACHED * bytes : NULL, turned,
                          d - at < CACHED ? d - at : CACHED, x + at, CACHED);
    hadamard_from(x, n, CACHED, round_up(d, CACHED));
}

OUTLINE void hadamard_of_signed(const float *vector, const float *signs, int64_t d, float *x,
                                int64_t n) {
    hadamard_padded(vector, signs, TIMES_SIGNS, d, x, n);
}

/* Of entries with the signs of words; x may be the vector. */
OUTLINE void hadamard_of_flipped(const float *vector, const uint32_t *words, int64_t d, float *x,
                                 int64_t n) {
    hadamard_padded(vector, words, TIMES_WORDS, d, x, n);
}

/* Of the signs ±1 of words. */
OUTLINE void hadamard_of_words(const uint32_t *words, float *x, int64_t n) {
    hadamard_padded(NULL, words, WORDS_ALONE, n, x, n);
}

/* Of n = 2^m floats, in place. */
OUTLINE void hadamard_float(float *x, int64_t n) { hadamard_padded(x, NULL, AS_IT_IS, n, x, n); }

/* Of n = 2^m doubles, in place: every step takes neighbours to two halves. */
INLINE void hadamard_double(double *x, double *room, int64_t n) {
    int64_t half = n / 2;
    for (int64_t step = 1; step < n; step *= 2) {
        for (int64_t i = 0; i < half; i++) {
            double a = x[2 * i], b = x[2 * i + 1];
            room[i] = a + b;
            room[half + i] = a - b;
        }
        memcpy(x, room, (size_t)n * sizeof *x);
    }
}

/* The pattern of a magnitude: ordered as magnitudes are, NaN above infinity. */
INLINE int32_t pattern_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & INT32_MAX;
}

/* Floats of which some overflowed, as a device takes them: `numpy.nan_to_num`. */
OUTLINE void without_overflow(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != x[i]) x[i] = 0;
        if (x[i] > FLT_MAX) x[i] = FLT_MAX;
        if (x[i] < -FLT_MAX) x[i] = -FLT_MAX;
    }
}

INLINE int parity(uint64_t x) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_parityll(x);
#endif
    for (int shift = 32; shift; shift /= 2) x ^= x >> shift;
    return (int)(x & 1);
}

/* Entry i of a codeword. */
INLINE double entry_of(const Sending *sending, int64_t slot, int64_t i) {
    const Tables *tables = sending->tables;
    if (tables->basis == ROTATED) {
        /* i is below the width: slot & i has the bits of the slot's row alone. */
        double sign = parity((uint64_t)(slot & i)) ? -1.0 : 1.0;
        const float *signs = sending->signs + slot / tables->width * tables->dim;
        return sign * (double)signs[i] / tables->root;
    }
    return (double)tables->matrix[slot * tables->dim + i];
}
