/* Random words: Philox4x32-10, eight blocks at a time, addressed by (key, epoch, client, place).
   `fedsel.random.philox` is the definition. */

#define BLOCKS 8
#define WORDS (2 * BLOCKS)
#define ROUNDS_OF_PHILOX 10

typedef struct {
    uint64_t words[WORDS]; /* first those of even places, then those of odd ones */
    uint64_t key[2], epoch, client;
    uint64_t taken, first; /* how many words were taken, and which is the first of those at hand */
} Stream;

INLINE void begin_stream(Stream *s, const uint64_t key[2], uint64_t epoch, uint64_t client) {
    s->key[0] = key[0];
    s->key[1] = key[1];
    s->epoch = epoch;
    s->client = client;
    s->taken = 0;
    s->first = WORDS; /* none is at hand */
}

#define LOW_HALF 0xFFFFFFFFu
#define MULTIPLY_0 0xD2511F53u
#define MULTIPLY_1 0xCD9E8D57u
#define XOR_OF_3 0x96
#define WEYL_0 0x9E3779B9u
#define WEYL_1 0xBB67AE85u

/* With vectors a product reads the low halves of its factors alone: what stands in the high halves of
   counters and keys is no matter until the end. */

#if defined(FEDSEL_AVX512)

OUTLINE void fill_words(Stream *s) {
    const __m512i m0 = _mm512_set1_epi64(MULTIPLY_0), m1 = _mm512_set1_epi64(MULTIPLY_1);
    const __m512i weyl0 = _mm512_set1_epi64(WEYL_0), weyl1 = _mm512_set1_epi64(WEYL_1);
    __m512i k0 = _mm512_set1_epi64((int64_t)s->key[0]), k1 = _mm512_set1_epi64((int64_t)s->key[1]);
    __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(s->first >> 1)),
                                  _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    __m512i c1 = _mm512_set1_epi64((int64_t)s->epoch);
    __m512i c2 = _mm512_set1_epi64((int64_t)s->client);
    __m512i c3 = _mm512_srli_epi64(c2, 32);
    for (int round = 0; round < ROUNDS_OF_PHILOX; round++) {
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, k0, XOR_OF_3);
        c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, k1, XOR_OF_3);
        c1 = p1;
        c3 = p0;
        k0 = _mm512_add_epi64(k0, weyl0);
        k1 = _mm512_add_epi64(k1, weyl1);
    }
    const __m512i low = _mm512_set1_epi64(LOW_HALF);
    _mm512_storeu_si512(s->words, _mm512_or_si512(_mm512_and_si512(c0, low), _mm512_slli_epi64(c1, 32)));
    _mm512_storeu_si512(s->words + BLOCKS,
                        _mm512_or_si512(_mm512_and_si512(c2, low), _mm512_slli_epi64(c3, 32)));
}

#elif defined(FEDSEL_AVX2)

/* Two halves of four blocks: the one computes while the other waits for its products. */
OUTLINE void fill_words(Stream *s) {
    const __m256i m0 = _mm256_set1_epi64x(MULTIPLY_0), m1 = _mm256_set1_epi64x(MULTIPLY_1);
    const __m256i weyl0 = _mm256_set1_epi64x(WEYL_0), weyl1 = _mm256_set1_epi64x(WEYL_1);
    const __m256i first = _mm256_set1_epi64x((int64_t)(s->first >> 1));
    __m256i k0 = _mm256_set1_epi64x((int64_t)s->key[0]), k1 = _mm256_set1_epi64x((int64_t)s->key[1]);
    __m256i c0[2], c1[2], c2[2], c3[2];
    for (int half = 0; half < 2; half++) {
        c0[half] = _mm256_add_epi64(
            first, _mm256_setr_epi64x(4 * half, 4 * half + 1, 4 * half + 2, 4 * half + 3));
        c1[half] = _mm256_set1_epi64x((int64_t)s->epoch);
        c2[half] = _mm256_set1_epi64x((int64_t)s->client);
        c3[half] = _mm256_srli_epi64(c2[half], 32);
    }
    for (int round = 0; round < ROUNDS_OF_PHILOX; round++) {
        for (int half = 0; half < 2; half++) {
            __m256i p0 = _mm256_mul_epu32(c0[half], m0), p1 = _mm256_mul_epu32(c2[half], m1);
            __m256i x0 = _mm256_xor_si256(c1[half], k0), x1 = _mm256_xor_si256(c3[half], k1);
            c0[half] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), x0);
            c2[half] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), x1);
            c1[half] = p1;
            c3[half] = p0;
        }
        k0 = _mm256_add_epi64(k0, weyl0);
        k1 = _mm256_add_epi64(k1, weyl1);
    }
    for (int half = 0; half < 2; half++) { /* the low halves of c0 and c1, and of c2 and c3 */
        __m256i even = _mm256_blend_epi32(c0[half], _mm256_slli_epi64(c1[half], 32), 0xAA);
        __m256i odd = _mm256_blend_epi32(c2[half], _mm256_slli_epi64(c3[half], 32), 0xAA);
        _mm256_storeu_si256((__m256i *)(s->words + 4 * half), even);
        _mm256_storeu_si256((__m256i *)(s->words + BLOCKS + 4 * half), odd);
    }
}

#else

OUTLINE void fill_words(Stream *s) {
    uint64_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    uint32_t k0 = (uint32_t)s->key[0], k1 = (uint32_t)s->key[1];
    for (int b = 0; b < BLOCKS; b++) {
        c0[b] = ((s->first >> 1) + (uint64_t)b) & LOW_HALF;
        c1[b] = s->epoch;
        c2[b] = s->client & LOW_HALF;
        c3[b] = s->client >> 32;
    }
    for (int round = 0; round < ROUNDS_OF_PHILOX; round++) {
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t p0 = (uint64_t)MULTIPLY_0 * c0[b], p1 = (uint64_t)MULTIPLY_1 * c2[b];
            c0[b] = (p1 >> 32) ^ c1[b] ^ k0;
            c1[b] = p1 & LOW_HALF;
            c2[b] = (p0 >> 32) ^ c3[b] ^ k1;
            c3[b] = p0 & LOW_HALF;
        }
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    for (int b = 0; b < BLOCKS; b++) {
        s->words[b] = c0[b] | c1[b] << 32;
        s->words[BLOCKS + b] = c2[b] | c3[b] << 32;
    }
}

#endif

/* See to it that the next word is at hand. */
INLINE void have_next(Stream *s) {
    if (s->taken - s->first < WORDS) return; /* a difference below 0 is a large one */
    s->first = s->taken - s->taken % WORDS;
    fill_words(s);
}

/* The next 64-bit word: block b gives the words 2b and 2b + 1. */
INLINE uint64_t next_word(Stream *s) {
    have_next(s);
    uint64_t place = s->taken++ - s->first;
    return s->words[(place >> 1) + (place & 1) * BLOCKS];
}

/* Pass over the next word. */
INLINE void skip_word(Stream *s) { s->taken++; }

/* A word of which mulhi(word, n) is uniform in 0 … n−1, exactly: rejection (Lemire 2019). Where n is
   near 2^64 its ``surplus`` is asked for often, and is better known before. */
INLINE uint64_t fair_word(Stream *s, uint64_t n, uint64_t surplus) {
    uint64_t word = next_word(s);
    while (word * n < surplus) word = next_word(s);
    return word;
}

INLINE int64_t below_known(Stream *s, uint64_t n, uint64_t surplus) {
    return (int64_t)mulhi(fair_word(s, n, surplus), n);
}

/* A uniform integer in 0 … n−1, exactly. */
INLINE int64_t below(Stream *s, uint64_t n) {
    uint64_t word = next_word(s);
    if (word * n < n) {
        uint64_t surplus = surplus_of(n);
        while (word * n < surplus) word = next_word(s);
    }
    return (int64_t)mulhi(word, n);
}

/* x / n for 0 ≤ x < 2^63 by a product with ⌊(2^64 − 1)/n⌋: right at once, or one too small. */
INLINE int64_t divide(int64_t x, int64_t n, uint64_t inverse) {
    int64_t quotient = (int64_t)mulhi((uint64_t)x, inverse);
    return quotient + (x - quotient * n >= n);
}

/* A float in [0, 1). */
INLINE double uniform(Stream *s) { return (double)(next_word(s) >> 11) * 0x1p-53; }
