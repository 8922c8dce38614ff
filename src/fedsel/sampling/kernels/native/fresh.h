/* Codewords that a report has for itself: `solutions.fresh` defines them. All words of a basis come from
   its state, so nothing is kept between reports. */

#define GOLDEN 0x9E3779B9u
#define LENGTH 4294967296.0
#define ROWS_AT_ONCE 64

INLINE uint32_t mixed_word(uint32_t x) {
    x ^= x >> 16;
    x *= 0x21F0AAADu;
    x ^= x >> 15;
    x *= 0xD35A2D97u;
    return x ^ x >> 15;
}

INLINE uint32_t state_of(const uint32_t key[2], int64_t basis) {
    return mixed_word(mixed_word((uint32_t)basis ^ key[0]) ^ key[1]);
}

/* How many bits of both are set; of the second only its low 16 may be. */
INLINE uint32_t bits_of(uint32_t x, uint32_t y) {
    x -= x >> 1 & 0x55555555u;
    y -= y >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u) + (y & 0x33333333u) + (y >> 2 & 0x33333333u);
    x = (x & 0x0F0F0F0Fu) + (x >> 4 & 0x0F0F0F0Fu);
    return x * 0x01010101u >> 24;
}

/* The factor that brings a vector of this squared length to LENGTH; 0 for zeros. */
INLINE double factor_of(double squared) {
    return squared > 0 ? (double)(int64_t)(LENGTH / sqrt(squared) + 0.5) : 0.0;
}

/* --- d < 64: codewords one by one ------------------------------------------------------------------ */

INLINE int32_t entry_at(uint32_t state, uint32_t place) {
    const uint32_t first = mixed_word(state + place * GOLDEN);
    const uint32_t second = mixed_word(state + (place + 1) * GOLDEN);
    const int32_t bits = (int32_t)bits_of(first, second >> 16) - 24;
    return bits * (1 << 17) + 2 * (int32_t)(second & 0xFFFFu) - 0xFFFF;
}

/* Some rows at a time, entry by entry: the sums of many rows side by side, each in its own order. */
OUTLINE void scores_of_drawn(uint32_t state, const float *vector, int64_t d, int64_t size, float *scores) {
    for (int64_t first = 0; first < size; first += ROWS_AT_ONCE) {
        const int64_t rows = size - first < ROWS_AT_ONCE ? size - first : ROWS_AT_ONCE;
        float sums[ROWS_AT_ONCE] = {0};
        double squares[ROWS_AT_ONCE] = {0};
        for (int64_t i = 0; i < d; i++) {
            const uint32_t start = (uint32_t)(2 * (first * d + i)), step = (uint32_t)(2 * d);
            for (uint32_t j = 0; j < ROWS_AT_ONCE; j++) {
                const int32_t entry = entry_at(state, start + j * step);
                sums[j] += (float)entry * vector[i];
                squares[j] += (double)entry * (double)entry;
            }
        }
        for (int64_t j = 0; j < rows; j++) scores[first + j] = sums[j] * (float)factor_of(squares[j]);
    }
}

OUTLINE void add_drawn(uint32_t state, int64_t d, int64_t slot, int64_t steps, int64_t *sums) {
    int32_t entries[64];
    double squared = 0;
    for (int64_t i = 0; i < d; i++) entries[i] = entry_at(state, (uint32_t)(2 * (slot * d + i)));
    for (int64_t i = 0; i < d; i++) squared += (double)entries[i] * (double)entries[i];
    const int64_t factor = steps * (int64_t)factor_of(squared);
    for (int64_t i = 0; i < d; i++) sums[i] += factor * entries[i];
}

/* --- d ≥ 64: blocks of rotated codewords ------------------------------------------------------------ */

/* The words of the signs of a block, factor after factor. */
INLINE void fill_sign_words(uint32_t state, int64_t block, int64_t count, uint32_t *words) {
    const uint32_t first = (uint32_t)(block * count);
    for (uint32_t i = 0; i < (uint32_t)count; i++) words[i] = mixed_word(state + (first + i) * GOLDEN);
}

OUTLINE void scores_of_rotated(const Tables *tables, uint32_t state, const float *vector, uint32_t *words,
                               float *scores) {
    const int64_t d = tables->dim, w = tables->width, each = w / WORD_BITS;
    for (int64_t block = 0; block < tables->rotations; block++, scores += w) {
        fill_sign_words(state, block, tables->factors * each, words);
        hadamard_of_flipped(vector, words, d, scores, w);
        for (int64_t f = 1; f < tables->factors; f++)
            hadamard_of_flipped(scores, words + f * each, w, scores, w);
    }
}

/* Row j of the transform as bits, those that entries i = 32·q … 32·q + 31 share with it being odd. */
INLINE uint32_t bits_of_row(int64_t row, int64_t q) {
    uint32_t bits = parity((uint64_t)(q & row / WORD_BITS)) ? ~0u : 0;
    bits ^= row & 1 ? 0xAAAAAAAAu : 0;
    bits ^= row & 2 ? 0xCCCCCCCCu : 0;
    bits ^= row & 4 ? 0xF0F0F0F0u : 0;
    bits ^= row & 8 ? 0xFF00FF00u : 0;
    return bits ^ (row & 16 ? 0xFFFF0000u : 0);
}

/* sums ← sums + factor · signs · x, of whole numbers below 2^31; x may become signs · x. */
INLINE void add_flipped(int64_t *sums, float *x, const uint32_t *words, int64_t d, int64_t factor) {
    const int32_t narrow = (int32_t)factor;
    int64_t i = 0;
#if defined(FEDSEL_AVX512) /* compilers multiply all 64 bits here, which takes three times as long */
    const __m512i times = _mm512_set1_epi64(factor);
    for (; i + WIDE <= d && narrow == factor; i += WIDE) {
        const __m512i entries = _mm512_cvttps_epi32((__m512)flipped(LOAD(x + i), words, i));
        const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(entries));
        const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(entries, 1));
        int64_t *to = sums + i;
        _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), _mm512_mul_epi32(low, times)));
        to += 8;
        _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), _mm512_mul_epi32(high, times)));
    }
#endif
    for (int64_t j = i; j < d; j += WIDE) STORE(x + j, flipped(LOAD(x + j), words, j));
    if (narrow == factor)
        for (; i < d; i++) sums[i] += (int64_t)narrow * (int64_t)(int32_t)x[i];
    else
        for (; i < d; i++) sums[i] += factor * (int64_t)(int32_t)x[i];
}

/* The lengths of all w entries are w^factors in all: what is cut off tells what is left. */
OUTLINE void add_rotated(const Tables *tables, uint32_t state, int64_t slot, int64_t steps, uint32_t *words,
                         float *x, int64_t *sums) {
    const int64_t d = tables->dim, w = tables->width, each = w / WORD_BITS;
    const int64_t block = slot / w, row = slot % w;
    const int64_t squared = w * w * (tables->factors == 3 ? w : 1);
    int64_t cut = 0;
    fill_sign_words(state, block, tables->factors * each, words);
    uint32_t *last = words + (tables->factors - 1) * each;
    for (int64_t q = 0; q < each; q++) last[q] ^= bits_of_row(row, q);
    hadamard_of_words(last, x, w);
    for (int64_t f = tables->factors - 2; f > 0; f--) hadamard_of_flipped(x, words + f * each, w, x, w);
    for (int64_t i = d; i < w; i++) cut += (int64_t)(int32_t)x[i] * (int64_t)(int32_t)x[i];
    add_flipped(sums, x, words, d, steps * (int64_t)factor_of((double)(squared - cut)));
}

/* --- both ----------------------------------------------------------------------------------------- */

INLINE void fresh_scores(const Sending *sending, uint32_t state, const float *vector, float *scores) {
    const Tables *tables = sending->tables;
    if (tables->factors)
        scores_of_rotated(tables, state, vector, sending->scratch->words, scores);
    else
        scores_of_drawn(state, vector, tables->dim, tables->slots, scores);
}

INLINE void add_codeword(const Tables *tables, Scratch *scratch, uint32_t state, int64_t slot,
                         int64_t steps, int64_t *sums) {
    if (tables->factors)
        add_rotated(tables, state, slot, steps, scratch->words, scratch->room, sums);
    else
        add_drawn(state, tables->dim, slot, steps, sums);
}

/* The codewords of reports from any basis of a round, added to its sums. */
static int64_t add_codewords(const Tables *tables, Scratch *scratch, const uint32_t *key,
                             const int64_t *slots, const int64_t *steps, int64_t count, int64_t *sums) {
    for (int64_t n = 0; n < count; n++) {
        if (slots[n] < 0 || slots[n] / tables->slots >= tables->bases) return OUT_OF_BOUNDS;
        const uint32_t state = state_of(key, slots[n] / tables->slots);
        add_codeword(tables, scratch, state, slots[n] % tables->slots, steps[n], sums);
    }
    return 0;
}
