/* Codewords that a report has for itself: `solutions.fresh` defines them. All words of a basis come from
   its state, so nothing is kept between reports. */

#define GOLDEN 0x9E3779B9u
#define WORD_BITS 32
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

INLINE uint32_t bits_of(uint32_t x) {
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0Fu;
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
    const int32_t bits = (int32_t)(bits_of(first) + bits_of(second >> 16)) - 24;
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

/* WIDE entries from i on, negated where a bit of the words is set. */
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

/* x ← signs · x. */
INLINE void flip(float *x, int64_t n, const uint32_t *words) {
    for (int64_t i = 0; i < n; i += WIDE) STORE(x + i, flipped(LOAD(x + i), words, i));
}

OUTLINE void scores_of_rotated(const Tables *tables, uint32_t state, const float *vector, uint32_t *words,
                               float *scores) {
    const int64_t d = tables->dim, w = tables->width, each = w / WORD_BITS;
    for (int64_t block = 0; block < tables->rotations; block++, scores += w) {
        fill_sign_words(state, block, tables->factors * each, words);
        for (int64_t i = 0; i < d; i += WIDE) STORE(scores + i, flipped(load_up_to(vector + i, d - i), words, i));
        hadamard_padded(scores, NULL, 0, d, scores, w);
        for (int64_t f = 1; f < tables->factors; f++) {
            flip(scores, w, words + f * each);
            hadamard_float(scores, w);
        }
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

/* sums ← sums + factor · x, of whole numbers below 2^31. */
INLINE void add_whole(int64_t *sums, const float *x, int64_t d, int64_t factor) {
    const int32_t narrow = (int32_t)factor;
    if (narrow == factor)
        for (int64_t i = 0; i < d; i++) sums[i] += (int64_t)narrow * (int64_t)(int32_t)x[i];
    else
        for (int64_t i = 0; i < d; i++) sums[i] += factor * (int64_t)(int32_t)x[i];
}

/* The lengths of all w entries are w^factors in all: what is cut off tells what is left. */
OUTLINE void add_rotated(const Tables *tables, uint32_t state, int64_t slot, int64_t steps, uint32_t *words,
                         float *x, int64_t *sums) {
    const int64_t d = tables->dim, w = tables->width, each = w / WORD_BITS;
    const int64_t block = slot / w, row = slot % w;
    double squared = 1;
    fill_sign_words(state, block, tables->factors * each, words);
    uint32_t *last = words + (tables->factors - 1) * each;
    for (int64_t q = 0; q < each; q++) last[q] ^= bits_of_row(row, q);
    for (int64_t i = 0; i < w; i += WIDE) STORE(x + i, flipped(ALL(1.0f), last, i));
    for (int64_t f = tables->factors - 1; f > 0; f--) {
        hadamard_float(x, w);
        flip(x, w, words + (f - 1) * each);
    }
    for (int64_t f = 0; f < tables->factors; f++) squared *= (double)w;
    for (int64_t i = d; i < w; i++) squared -= (double)x[i] * (double)x[i];
    add_whole(sums, x, d, steps * (int64_t)factor_of(squared));
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
